/*
 * What the kinds of lock share, and what coroutines and the sampler ask of them. Private to runtime/.
 */
#ifndef RUNTIME_LOCK_INTERNAL_H
#define RUNTIME_LOCK_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "rt/lock.h"

struct rt_coroutine;
struct rt_thread;

/** One coroutine in a waiting line; lies on its stack. */
struct rt_co_waiter {
    struct rt_coroutine *co;
    struct rt_co_waiter *next;
    int32_t thread_id; /**< locks: where it waits, and will go on */
    bool writes;    /**< reader/writer lock: what for */
    bool cancelled; /**< queue: why it was woken; written before the wake-up */
};

/* ---- registry.c ---- */

/** Number the lock, list it, announce it. */
void rt_lock_register(struct rt_lock_info *info, const char *class_name, enum rt_lock_kind kind);
void rt_lock_unregister(struct rt_lock_info *info);

/** @info now belongs to what runs in @thread. */
void rt_lock_taken(struct rt_lock_info *info, struct rt_thread *thread, bool waited);

/** It is about to belong to nobody. */
void rt_lock_leaving(struct rt_lock_info *info, struct rt_thread *thread);

/**
 * The same for readers, of whom several hold it at once and who are no owners. The time that is counted as held is that from
 * the first reader to the last: @first began it, or, for readers that were let in together, rt_lock_shared_begins() did.
 */
void rt_lock_shared_taken(struct rt_lock_info *info, struct rt_thread *thread, bool waited, bool first);
void rt_lock_shared_begins(struct rt_lock_info *info);
void rt_lock_shared_leaving(struct rt_lock_info *info, struct rt_thread *thread);
/** The last reader is about to leave, and nobody can come meanwhile. */
void rt_lock_shared_ends(struct rt_lock_info *info);

/** @waiter owns it from here on, though it runs later: nobody can overtake it. */
void rt_lock_handed_over(struct rt_lock_info *info, const struct rt_co_waiter *waiter);

/** An acquisition finds it held: trace, count. Returns when the wait began; rt_lock_waited() ends it. */
int64_t rt_lock_waits(struct rt_lock_info *info, struct rt_thread *thread);
void rt_lock_waited(struct rt_lock_info *info, int64_t begin_ns);

/** Emit rt_lock:create and owner of every lock, then the samples. Sampler thread. */
void rt_lock_trace_baseline(void);
void rt_lock_trace_samples(void);

/* ---- mutex.c ---- */

/**
 * The coroutine that runs in @thread yields: trace each rt_mutex that it holds (rt_lock:held_at_yield) and
 * take those off the thread's list. Returns them as a chain, or NULL.
 */
struct rt_mutex *rt_mutex_detach_held(struct rt_thread *thread);

/** It goes on, in @thread: what it holds is on this thread's list again. */
void rt_mutex_attach_held(struct rt_thread *thread, struct rt_mutex *held);

/* ---- coroutine.c ---- */

/** Wake through the loop's list in any case: the caller holds a lock that the woken one wants. */
void rt_coroutine_wake_later(struct rt_coroutine *co);

#endif
