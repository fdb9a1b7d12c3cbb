#include <assert.h>
#include <stddef.h>

#include "coroutine/thread.h"
#include "lock/lock_internal.h"
#include "rt/coroutine.h"
#include "rt/lock.h"

/*
 * ORDER co_rwlock.handoff: a lock with a line always has an owner who will look at the line.
 *   The state is a count of readers, or WRITER, and LINE. While LINE is clear anybody changes it by compare-and-swap.
 *   Setting LINE, under guard, closes that way: from then on it changes under guard alone, so that whoever finds out that
 *   he must wait joins the line before the owner can leave, and whoever leaves sees the line. Whoever empties the line clears it.
 *   What a holder wrote reaches the next one through the state (release, acquire), or through guard and the list of
 *   the next one's loop.
 * If weaker: one that joins the line while the last holder leaves sleeps for ever.
 * Test: tests/runtime/lock/stress_co_rwlock.c.
 */
#define WRITER (UINT32_C(1) << 31)
#define LINE (UINT32_C(1) << 30)
#define READERS (LINE - 1)

void rt_co_rwlock_init(struct rt_co_rwlock *lock, const char *class_name)
{
    atomic_init(&lock->state, 0);
    pthread_mutex_init(&lock->guard, NULL);
    lock->first = NULL;
    lock->last = &lock->first;
    rt_lock_register(&lock->info, class_name, RT_LOCK_COROUTINE_MUTEX);
}

void rt_co_rwlock_deinit(struct rt_co_rwlock *lock)
{
    /* Whoever leaves with a line, or at the end of a measured time, touches the lock until he lets go of guard. */
    pthread_mutex_lock(&lock->guard);
    pthread_mutex_unlock(&lock->guard);
    assert(atomic_load_explicit(&lock->state, memory_order_relaxed) == 0);
    rt_lock_unregister(&lock->info);
    pthread_mutex_destroy(&lock->guard);
}

/* Takes the part of the line that may go now into a chain; @readers hold the lock. Guard held, LINE set; clears it if
 * nobody is left. */
static struct rt_co_waiter *hand_over(struct rt_co_rwlock *lock, uint32_t readers)
{
    struct rt_co_waiter *chain = lock->first, **end = &lock->first, *waiter;
    uint32_t state;
    bool writer = false;

    while ((waiter = *end) && !writer && !(waiter->writes && readers > 0)) {
        if (waiter->writes) {
            writer = true;
            rt_lock_handed_over(&lock->info, waiter);
        } else if (readers++ == 0) {
            rt_lock_shared_begins(&lock->info);
        }
        end = &waiter->next;
    }
    lock->first = *end;
    if (!lock->first)
        lock->last = &lock->first;
    state = (writer ? WRITER : readers) | (lock->first ? LINE : 0);
    /* After this the lock may be free: nothing of it is touched but guard. */
    if (end == &lock->first)
        chain = NULL;
    else
        *end = NULL;
    /* ORDER co_rwlock.handoff, unlock side, with a line */
    atomic_store_explicit(&lock->state, state, memory_order_release);
    return chain;
}

static void wake_chain(struct rt_co_waiter *chain)
{
    while (chain) {
        struct rt_coroutine *co = chain->co;

        chain = chain->next; /* the waiter is gone as soon as it runs */
        rt_coroutine_wake_later(co);
    }
}

/* Somebody is in the way, or was a moment ago. */
__attribute__((noinline)) static void lock_contended_co(struct rt_co_rwlock *lock, bool writes)
{
    struct rt_thread *thread = rt_thread_self();
    struct rt_co_waiter waiter = { .co = thread->current, .thread_id = thread->thread_id, .writes = writes };
    int64_t begin_ns = rt_lock_waits(&lock->info, thread);
    bool may_go, first = false;
    uint32_t old;

    assert(rt_in_coroutine());
    pthread_mutex_lock(&lock->guard);
    /* ORDER co_rwlock.handoff, lock side, contended */
    old = atomic_fetch_or_explicit(&lock->state, LINE, memory_order_acquire) & ~LINE;
    may_go = !lock->first && (writes ? old == 0 : !(old & WRITER));
    if (may_go) {
        first = old == 0;
        atomic_store_explicit(&lock->state, writes ? WRITER : old + 1, memory_order_release);
    } else {
        *lock->last = &waiter;
        lock->last = &waiter.next;
    }
    pthread_mutex_unlock(&lock->guard);

    /* The owner may wake us before we are there: the wake-up is kept. */
    if (!may_go)
        rt_coroutine_yield();
    rt_lock_waited(&lock->info, begin_ns);
    if (writes)
        rt_lock_taken(&lock->info, rt_thread_self(), true);
    else
        rt_lock_shared_taken(&lock->info, rt_thread_self(), true, first);
}

bool rt_co_rwlock_try_read(struct rt_co_rwlock *lock)
{
    uint32_t state = atomic_load_explicit(&lock->state, memory_order_relaxed);

    while (!(state & (WRITER | LINE))) {
        /* ORDER co_rwlock.handoff, lock side, uncontended */
        if (atomic_compare_exchange_weak_explicit(&lock->state, &state, state + 1, memory_order_acquire,
                                                  memory_order_relaxed)) {
            rt_lock_shared_taken(&lock->info, rt_thread_self(), false, state == 0);
            return true;
        }
    }
    return false;
}

bool rt_co_rwlock_try_write(struct rt_co_rwlock *lock)
{
    uint32_t state = 0;

    /* ORDER co_rwlock.handoff, lock side, uncontended */
    if (!atomic_compare_exchange_strong_explicit(&lock->state, &state, WRITER, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    rt_lock_taken(&lock->info, rt_thread_self(), false);
    return true;
}

void rt_co_rwlock_read_co(struct rt_co_rwlock *lock)
{
    if (__builtin_expect(!rt_co_rwlock_try_read(lock), 0))
        lock_contended_co(lock, false);
}

void rt_co_rwlock_write_co(struct rt_co_rwlock *lock)
{
    if (__builtin_expect(!rt_co_rwlock_try_write(lock), 0))
        lock_contended_co(lock, true);
}

/* Of a writer: it leaves, or goes on as a reader. */
static void end_write(struct rt_co_rwlock *lock, uint32_t readers)
{
    struct rt_co_waiter *chain;
    uint32_t state = WRITER;

    /* ORDER co_rwlock.handoff, unlock side, uncontended */
    if (atomic_compare_exchange_strong_explicit(&lock->state, &state, readers, memory_order_release,
                                                memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock->guard);
    chain = hand_over(lock, readers);
    pthread_mutex_unlock(&lock->guard);
    wake_chain(chain);
}

static void end_read(struct rt_co_rwlock *lock, uint32_t state)
{
    struct rt_co_waiter *chain;

    rt_lock_shared_leaving(&lock->info, rt_thread_self());
    /* The last one that reads and was measured counts, which must be done before the lock is free: under guard. Whether it
     * was measured is known to the only one that is left: who began it has left before, with release order. */
    while (!(state & LINE) && !(state == 1 && lock->info.hold_weight)) {
        /* ORDER co_rwlock.handoff, unlock side, uncontended */
        if (atomic_compare_exchange_weak_explicit(&lock->state, &state, state - 1, memory_order_release,
                                                  memory_order_acquire))
            return;
    }
    pthread_mutex_lock(&lock->guard);
    state = (atomic_fetch_or_explicit(&lock->state, LINE, memory_order_acquire) & READERS) - 1;
    if (state == 0)
        rt_lock_shared_ends(&lock->info);
    chain = hand_over(lock, state);
    pthread_mutex_unlock(&lock->guard);
    wake_chain(chain);
}

void rt_co_rwlock_unlock(struct rt_co_rwlock *lock)
{
    uint32_t state = atomic_load_explicit(&lock->state, memory_order_acquire);

    assert(state & (WRITER | READERS));
    if (state & WRITER) {
        rt_lock_leaving(&lock->info, rt_thread_self());
        end_write(lock, 0);
    } else {
        end_read(lock, state);
    }
}

void rt_co_rwlock_downgrade(struct rt_co_rwlock *lock)
{
    struct rt_thread *thread = rt_thread_self();

    assert(atomic_load_explicit(&lock->state, memory_order_relaxed) & WRITER);
    rt_lock_leaving(&lock->info, thread);
    rt_lock_shared_taken(&lock->info, thread, false, true);
    end_write(lock, 1);
}

bool rt_co_rwlock_try_upgrade(struct rt_co_rwlock *lock)
{
    struct rt_thread *thread = rt_thread_self();
    bool only;
    uint32_t state;

    pthread_mutex_lock(&lock->guard);
    state = atomic_fetch_or_explicit(&lock->state, LINE, memory_order_acquire);
    only = (state & READERS) == 1;
    if (only)
        state = WRITER;
    /* LINE was set by us if nobody stands there. */
    atomic_store_explicit(&lock->state, (state & ~LINE) | (lock->first ? LINE : 0), memory_order_release);
    pthread_mutex_unlock(&lock->guard);
    if (!only)
        return false;
    rt_lock_shared_leaving(&lock->info, thread);
    rt_lock_shared_ends(&lock->info);
    rt_lock_taken(&lock->info, thread, false);
    return true;
}
