#include "rt/lock.h"

#include <assert.h>
#include <stddef.h>

#include "coroutine/thread.h"
#include "lock/lock_internal.h"
#include "rt/coroutine.h"

/*
 * ORDER co_mutex.handoff: the lock is never left with waiters and without an owner.
 *   lock:    state FREE -> HELD (acquire), or, under guard: state = CONTENDED, and if it was not FREE join the line
 *   unlock:  state HELD -> FREE (release), or, under guard: hand over to the first in line, or state = FREE
 *   A holder that finds HELD leaves nobody behind: whoever joins the line has made it CONTENDED before. One that
 *   finds CONTENDED takes guard, and so sees the line of whoever made it so. What the holder wrote reaches the
 *   next one through guard and through the list of its loop.
 * If weaker: a waiter that joins while the holder leaves sleeps for ever.
 * Test: tests/model/co_mutex.pml, tests/runtime/lock/stress_co_mutex.c.
 */
enum { FREE, HELD, CONTENDED };

void rt_co_mutex_init(struct rt_co_mutex *mutex, const char *class_name)
{
    atomic_init(&mutex->state, FREE);
    pthread_mutex_init(&mutex->guard, NULL);
    mutex->first = NULL;
    mutex->last = &mutex->first;
    rt_lock_register(&mutex->info, class_name, RT_LOCK_COROUTINE_MUTEX);
}

void rt_co_mutex_deinit(struct rt_co_mutex *mutex)
{
    assert(atomic_load_explicit(&mutex->state, memory_order_relaxed) == FREE);
    rt_lock_unregister(&mutex->info);
    /* The last holder made it FREE before it let go of guard. */
    pthread_mutex_lock(&mutex->guard);
    pthread_mutex_unlock(&mutex->guard);
    pthread_mutex_destroy(&mutex->guard);
}

bool rt_co_mutex_trylock(struct rt_co_mutex *mutex)
{
    uint32_t free = FREE;

    /* ORDER co_mutex.handoff [T1], lock side, uncontended */
    if (!atomic_compare_exchange_strong_explicit(&mutex->state, &free, HELD, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    rt_lock_taken(&mutex->info, rt_thread_self(), false);
    return true;
}

__attribute__((noinline)) static void lock_contended_co(struct rt_co_mutex *mutex)
{
    struct rt_thread *thread = rt_thread_self();
    struct rt_co_waiter waiter = { .co = thread->current, .thread_id = thread->thread_id };
    int64_t begin_ns = rt_lock_waits(&mutex->info, thread);
    bool held;

    pthread_mutex_lock(&mutex->guard);
    /* ORDER co_mutex.handoff [T2], lock side, contended */
    held = atomic_exchange_explicit(&mutex->state, CONTENDED, memory_order_acquire) != FREE;
    if (held) {
        *mutex->last = &waiter;
        mutex->last = &waiter.next;
    }
    pthread_mutex_unlock(&mutex->guard);

    /* ORDER co_mutex.handoff [T3]. The owner may wake us before we are there: the wake-up is kept. */
    if (held)
        rt_coroutine_yield();
    rt_lock_waited(&mutex->info, begin_ns);
    rt_lock_taken(&mutex->info, rt_thread_self(), true);
}

void rt_co_mutex_lock_co(struct rt_co_mutex *mutex)
{
    assert(rt_in_coroutine());
    if (__builtin_expect(!rt_co_mutex_trylock(mutex), 0))
        lock_contended_co(mutex);
}

void rt_co_mutex_unlock(struct rt_co_mutex *mutex)
{
    struct rt_co_waiter *waiter;
    struct rt_coroutine *next = NULL;
    uint32_t held = HELD;

    rt_lock_leaving(&mutex->info, rt_thread_self());
    /* ORDER co_mutex.handoff [U1], unlock side, uncontended */
    if (atomic_compare_exchange_strong_explicit(&mutex->state, &held, FREE, memory_order_release,
                                                memory_order_relaxed))
        return;

    pthread_mutex_lock(&mutex->guard);
    waiter = mutex->first;
    if (waiter) {
        next = waiter->co;
        mutex->first = waiter->next;
        if (!mutex->first)
            mutex->last = &mutex->first;
        rt_lock_handed_over(&mutex->info, waiter); /* ORDER co_mutex.handoff [U2]: the state stays as it is */
    } else {
        /* ORDER co_mutex.handoff [U3], unlock side, contended */
        atomic_store_explicit(&mutex->state, FREE, memory_order_release);
    }
    pthread_mutex_unlock(&mutex->guard);
    if (next)
        rt_coroutine_wake_later(next);
}
