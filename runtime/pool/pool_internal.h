/*
 * The pool as coroutines see it, and what a pool policy is. Private to runtime/.
 */
#ifndef RUNTIME_POOL_INTERNAL_H
#define RUNTIME_POOL_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "coroutine/thread.h"

/** From the pool (pooled) or, at a miss, new. NULL: no stack could be mapped. */
struct rt_coroutine *rt_pool_take(struct rt_thread *thread, bool *pooled_out);

/** A coroutine has ended in this thread. */
void rt_pool_give(struct rt_thread *thread, struct rt_coroutine *co);

/** The thread ends. */
void rt_pool_drain_thread(struct rt_thread *thread);

/** Emit rt_pool:local_sample of every thread and rt_pool:global_sample, if someone listens. Sampler thread. */
void rt_pool_trace_samples(void);

struct rt_pool_limits {
    uint32_t size; /**< coroutines that wait in the global pool */
    uint32_t max;
    uint32_t hard_max;
};

/**
 * Where idle coroutines wait. Policies differ in who may hold how many.
 *
 * What all share is the way that has to be short (pool.c): a coroutine is taken from the thread's first list, and given
 * into it while it holds less than local_fill. A policy says what happens when that list is empty, or full.
 */
struct pool_policy {
    const char *name;
    uint32_t local_fill; /**< 0: every give is the policy's business */
    /** The first list is empty. Returns a coroutine, or NULL: there is none for this thread. */
    struct rt_coroutine *(*refill)(struct rt_thread *thread);
    /** The first list is full. */
    void (*overflow)(struct rt_thread *thread, struct rt_coroutine *co);
    /** The thread ends: returns how many were freed. */
    uint32_t (*drain)(struct rt_thread *thread);
    /** Devices came or went: change the maximum. Returns what holds now. */
    struct rt_pool_limits (*resize)(int64_t delta);
    struct rt_pool_limits (*limits)(void);
    /** The memory of what has waited since then goes back to the kernel. NULL: it stays. */
    void (*trim)(int64_t idle_since_ns);
};

extern const struct pool_policy rt_pool_batched, rt_pool_per_thread, rt_pool_none;

/* ---- for policies: the lists of a thread ---- */

static inline uint32_t pool_batch_count(const struct pool_batch *batch)
{
    return atomic_load_explicit(&batch->count, memory_order_relaxed);
}

static inline void pool_batch_set(struct pool_batch *batch, struct rt_coroutine *first, uint32_t count)
{
    batch->first = first;
    atomic_store_explicit(&batch->count, count, memory_order_relaxed);
}

/** NULL: empty. A policy may know only about how many there are: then the count stops at 0 too early, or too late. */
static inline struct rt_coroutine *pool_batch_pop(struct pool_batch *batch)
{
    struct rt_coroutine *co = batch->first;
    uint32_t count = pool_batch_count(batch);

    if (__builtin_expect(co != NULL, 1))
        pool_batch_set(batch, co->pool_next, count - (count != 0));
    return co;
}

static inline void pool_batch_push(struct pool_batch *batch, struct rt_coroutine *co)
{
    co->pool_next = batch->first;
    pool_batch_set(batch, co, pool_batch_count(batch) + 1);
}

/** How many idle coroutines the address space and the memory of this machine bear. */
uint32_t rt_pool_hard_max(void);

#endif
