/**
 * Locks that tell who waits for whom.
 *
 * rt_mutex blocks the thread; never hold one across a yield (traced as rt_lock:held_at_yield).
 * rt_co_mutex suspends the coroutine; may be held across yields; handed over in the order of arrival, and the
 * next owner wakes in its own loop. rt_co_queue is the waiting line of coroutines that both kinds guard.
 *
 *     struct rt_mutex lock;
 *     rt_mutex_init(&lock, "blk-tracked-requests");
 *     rt_mutex_lock(&lock);  ...  rt_mutex_unlock(&lock);
 *     rt_mutex_deinit(&lock);
 *
 * Trace:     rt_lock:create, destroy, wait, acquired, released; owner and sample in baselines.
 */
#ifndef RT_LOCK_H
#define RT_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rt_co_waiter;

enum rt_lock_kind { RT_LOCK_THREAD_MUTEX = 0, RT_LOCK_COROUTINE_MUTEX = 1 };

/**
 * What both kinds share. Counters are relaxed atomics written by holders, read by the sampler.
 *
 * wait_ns is exact. hold_ns is exact for holds that began with a wait; of the others every 17th is measured and
 * counts 17 times, because two clock reads cost more than the lock (17 is prime, so that a pattern like "begin, end,
 * begin, end" is met in every phase).
 */
struct rt_lock_info {
    uint64_t lock_id;
    const char *class_name; /**< a string that outlives the lock */
    enum rt_lock_kind kind;
    _Atomic int32_t owner_thread_id;
    _Atomic uint64_t owner_coroutine_id;
    _Atomic uint32_t waiters;
    _Atomic uint64_t acquisitions, contentions, wait_ns, hold_ns;
    int64_t acquired_ns;             /**< holder only: when, if this hold is measured */
    uint32_t hold_weight;            /**< holder only: 0 not measured, else how often it counts */
    struct rt_lock_info *next, **at; /**< registry, under its lock */
};

struct rt_mutex {
    struct rt_lock_info info;
    pthread_mutex_t mutex;
    struct rt_mutex *held_next; /**< holder only: what else it holds */
};

struct rt_co_mutex {
    struct rt_lock_info info;
    _Atomic uint32_t state;     /**< see lock/co_mutex.c */
    pthread_mutex_t guard;      /**< the waiting line; held for a few instructions, never across a yield */
    struct rt_co_waiter *first, **last; /**< under guard */
};

struct rt_co_queue {
    struct rt_co_waiter *first, **last;
};

/** @class_name is the lock's in traces and reports, shared by locks of one purpose; it must outlive the lock. */
void rt_mutex_init(struct rt_mutex *mutex, const char *class_name);
/** Nobody holds it or waits for it. */
void rt_mutex_deinit(struct rt_mutex *mutex);
/** Blocks the thread. Not recursive. Thread: any, inside or outside a coroutine. */
void rt_mutex_lock(struct rt_mutex *mutex);
/** Whether it was taken. A refusal counts and traces nothing. */
bool rt_mutex_trylock(struct rt_mutex *mutex);
/** By the thread that holds it. */
void rt_mutex_unlock(struct rt_mutex *mutex);

void rt_co_mutex_init(struct rt_co_mutex *mutex, const char *class_name);
void rt_co_mutex_deinit(struct rt_co_mutex *mutex);
/** Coroutine only; may yield. The wait is first come, first served. */
void rt_co_mutex_lock_co(struct rt_co_mutex *mutex);
/** Whether it was taken. Coroutine only; does not yield. */
bool rt_co_mutex_trylock(struct rt_co_mutex *mutex);
/** By the coroutine that holds it. Does not yield: the next owner is queued in its loop. */
void rt_co_mutex_unlock(struct rt_co_mutex *mutex);

/**
 * Coroutines that wait for a condition. The queue itself is guarded by the caller's rt_mutex or rt_co_mutex.
 * Wait drops the lock, suspends, and takes it again before it returns; as with any condition, look again then.
 */
void rt_co_queue_init(struct rt_co_queue *queue);
bool rt_co_queue_empty(const struct rt_co_queue *queue);
void rt_co_queue_wait_mutex_co(struct rt_co_queue *queue, struct rt_mutex *mutex);
void rt_co_queue_wait_co_mutex_co(struct rt_co_queue *queue, struct rt_co_mutex *mutex);
/** Wake the first, or all, in order of arrival; the lock is held. Returns whether anyone waited. */
bool rt_co_queue_wake_one(struct rt_co_queue *queue);
bool rt_co_queue_wake_all(struct rt_co_queue *queue);

/** Visit every lock that lives. Thread: any; takes the registry's lock, so the visitor makes and ends no locks. */
void rt_lock_each(void (*visit)(const struct rt_lock_info *info, void *opaque), void *opaque);

#endif
