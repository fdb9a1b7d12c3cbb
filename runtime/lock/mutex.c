#include "rt/lock.h"

#include <assert.h>
#include <stdlib.h>

#include "coroutine/thread.h"
#include "lock/lock_internal.h"
#include "tracepoints/lock.h"

void rt_mutex_init(struct rt_mutex *mutex, const char *class_name)
{
    pthread_mutexattr_t attributes;

    /* Spins a little before it sleeps: what these locks guard is short. None of the three can fail on Linux. */
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&mutex->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    mutex->held_next = NULL;
    rt_lock_register(&mutex->info, class_name, RT_LOCK_THREAD_MUTEX);
}

void rt_mutex_deinit(struct rt_mutex *mutex)
{
    rt_lock_unregister(&mutex->info);
    pthread_mutex_destroy(&mutex->mutex);
}

static void taken(struct rt_mutex *mutex, struct rt_thread *thread, bool waited)
{
    mutex->held_next = thread->held_mutexes;
    thread->held_mutexes = mutex;
    rt_lock_taken(&mutex->info, thread, waited);
}

bool rt_mutex_trylock(struct rt_mutex *mutex)
{
    if (pthread_mutex_trylock(&mutex->mutex) != 0)
        return false;
    taken(mutex, rt_thread_self(), false);
    return true;
}

__attribute__((noinline)) static void lock_contended(struct rt_mutex *mutex)
{
    struct rt_thread *thread = rt_thread_self();
    int64_t begin_ns = rt_lock_waits(&mutex->info, thread);

    pthread_mutex_lock(&mutex->mutex);
    rt_lock_waited(&mutex->info, begin_ns);
    taken(mutex, thread, true);
}

void rt_mutex_lock(struct rt_mutex *mutex)
{
    if (__builtin_expect(!rt_mutex_trylock(mutex), 0))
        lock_contended(mutex);
}

void rt_mutex_unlock(struct rt_mutex *mutex)
{
    struct rt_thread *thread = rt_thread_self();
    struct rt_mutex **at = &thread->held_mutexes;

    /* Nearly always the first. */
    while (*at && *at != mutex)
        at = &(*at)->held_next;
    assert(*at && "unlocked by a thread that does not hold it");
    *at = mutex->held_next;
    rt_lock_leaving(&mutex->info, thread);
    pthread_mutex_unlock(&mutex->mutex);
}

struct rt_mutex *rt_mutex_detach_held(struct rt_thread *thread)
{
    struct rt_mutex *held = NULL, **at = &thread->held_mutexes, *mutex;
    uint64_t id = thread->current->id;

    while ((mutex = *at)) {
        /* What the caller took before it entered this coroutine is its own business: it is about to run again. */
        if (atomic_load_explicit(&mutex->info.owner_coroutine_id, memory_order_relaxed) != id) {
            at = &mutex->held_next;
            continue;
        }
        lttng_ust_tracepoint(rt_lock, held_at_yield, mutex->info.lock_id, thread->thread_id, id);
        *at = mutex->held_next;
        mutex->held_next = held;
        held = mutex;
    }
    return held;
}

void rt_mutex_attach_held(struct rt_thread *thread, struct rt_mutex *held)
{
    while (held) {
        struct rt_mutex *mutex = held;

        held = mutex->held_next;
        mutex->held_next = thread->held_mutexes;
        thread->held_mutexes = mutex;
        atomic_store_explicit(&mutex->info.owner_thread_id, thread->thread_id, memory_order_relaxed);
    }
}
