/**
 * Locks that tell who waits for whom.
 *
 * rt_mutex blocks the thread; never hold one across a yield (traced as rt_lock:held_at_yield).
 * rt_co_mutex suspends the coroutine; may be held across yields; handed over in the order of arrival, and the
 * next owner wakes in its own loop. rt_co_rwlock is the same for many readers or one writer. rt_co_queue is the waiting
 * line of coroutines that mutexes of both kinds guard.
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
struct rt_lock_class;

/** Who waits: the thread, or the coroutine (a reader/writer lock is of this kind, too). */
enum rt_lock_kind { RT_LOCK_THREAD_MUTEX = 0, RT_LOCK_COROUTINE_MUTEX = 1 };

/**
 * What all locks share. Counters are relaxed atomics written by holders, read by the sampler. Readers of a rt_co_rwlock
 * are no owners: both owner ids are 0 while they hold it.
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
    _Atomic int64_t contended_since_ns; /**< if somebody waits: since when without a break */
    _Atomic uint64_t acquisitions, contentions, wait_ns, hold_ns;
    int64_t acquired_ns;             /**< holder only: when, if this hold is measured */
    uint32_t hold_weight;            /**< holder only: 0 not measured, else how often it counts */
    struct rt_lock_class *lock_class; /**< registry.c */
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

struct rt_co_rwlock {
    struct rt_lock_info info;
    _Atomic uint32_t state;     /**< see lock/co_rwlock.c */
    pthread_mutex_t guard;      /**< as in rt_co_mutex */
    struct rt_co_waiter *first, **last; /**< under guard */
};

struct rt_co_queue {
    struct rt_co_waiter *first, **last;
    bool cancelled;
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
 * Many readers or one writer, in the order of arrival: a reader that comes behind a writer that waits, waits too, so
 * neither starves; readers that stand together in line are let in together. May be held across yields. Not recursive, also
 * not for reading: a writer may have come in between. What is read for a few instructions is better under an rt_mutex:
 * readers that meet here all write one cache line.
 *
 *     rt_co_rwlock_read_co(&lock);  ...  rt_co_rwlock_unlock(&lock);
 */
void rt_co_rwlock_init(struct rt_co_rwlock *lock, const char *class_name);
void rt_co_rwlock_deinit(struct rt_co_rwlock *lock);
/** Coroutine only; may yield. */
void rt_co_rwlock_read_co(struct rt_co_rwlock *lock);
void rt_co_rwlock_write_co(struct rt_co_rwlock *lock);
/** Whether it was taken. Does not overtake those who wait, so reading may be refused while readers hold it, and either
 * for the moment in which others hand over. Coroutine only; does not yield. */
bool rt_co_rwlock_try_read(struct rt_co_rwlock *lock);
bool rt_co_rwlock_try_write(struct rt_co_rwlock *lock);
/** By a coroutine that holds it either way. Does not yield. */
void rt_co_rwlock_unlock(struct rt_co_rwlock *lock);
/** The writer goes on as a reader, without a moment in which another writer could come. Does not yield. */
void rt_co_rwlock_downgrade(struct rt_co_rwlock *lock);
/**
 * A reader that is the only one goes on as the writer, before those who wait. False: there are others, and it still reads. Two
 * that waited for each other to leave would wait for ever, so there is no upgrade that waits. Does not yield.
 */
bool rt_co_rwlock_try_upgrade(struct rt_co_rwlock *lock);

/**
 * Coroutines that wait for a condition. The queue itself is guarded by the caller's rt_mutex or rt_co_mutex.
 * Wait drops the lock, suspends, and takes it again before it returns; as with any condition, look again then.
 *
 * Returns:   0 after a wake-up; -ECANCELED, with the lock held all the same, if the queue was cancelled instead.
 */
void rt_co_queue_init(struct rt_co_queue *queue);
bool rt_co_queue_empty(const struct rt_co_queue *queue);
int rt_co_queue_wait_mutex_co(struct rt_co_queue *queue, struct rt_mutex *mutex);
int rt_co_queue_wait_co_mutex_co(struct rt_co_queue *queue, struct rt_co_mutex *mutex);
/** Wake the first, or all, in order of arrival; the lock is held. Returns whether anyone waited. */
bool rt_co_queue_wake_one(struct rt_co_queue *queue);
bool rt_co_queue_wake_all(struct rt_co_queue *queue);
/**
 * What is waited for will not come any more (a shutdown): all who wait return -ECANCELED, and whoever waits later does
 * so at once, without dropping the lock. Who was woken before still returns 0. The lock is held. Until the next init.
 */
void rt_co_queue_cancel(struct rt_co_queue *queue);

/** Visit every lock that lives. Thread: any; takes the registry's lock, so the visitor makes and ends no locks. */
void rt_lock_each(void (*visit)(const struct rt_lock_info *info, void *opaque), void *opaque);

/** Locks of one class and kind, together. */
struct rt_lock_class_stats {
    const char *class_name; /**< lives as long as the process */
    enum rt_lock_kind kind;
    uint32_t lock_count;    /**< that live now */
    uint32_t waiter_count;  /**< that wait now */
    /* Totals since the process started, with locks that are gone; as in struct rt_lock_info. They never go back. */
    uint64_t acquisitions, contentions, wait_ns, hold_ns;
    /* Of the locks that are waited for now, the one that has been for the longest without a break: a bound for its
     * oldest wait, and exact where nothing moves any more. 0 where nobody waits. */
    uint64_t contended_lock_id;
    int64_t contended_ns;
    int32_t owner_thread_id;     /**< of that lock, as far as one is known at that moment */
    uint64_t owner_coroutine_id;
};

/**
 * Visit the statistics of every class that ever had a lock, oldest first; no trace is needed.
 *
 * Thread:    any; takes the registry's lock, so the visitor makes and ends no locks, and none comes or goes meanwhile.
 * Cost:      one pass over all locks that live: the counters of each are read from the cache of whoever uses it (some
 *            100 ns a busy lock, for both sides). Once a second is nothing; locks that are only used never wait for it.
 */
void rt_lock_each_class(void (*visit)(const struct rt_lock_class_stats *stats, void *opaque), void *opaque);

#endif
