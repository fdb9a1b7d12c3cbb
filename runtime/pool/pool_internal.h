/*
 * The pool as coroutines see it, and what a pool policy is. Private to runtime/.
 */
#ifndef RUNTIME_POOL_INTERNAL_H
#define RUNTIME_POOL_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

struct rt_coroutine;
struct rt_thread;

/** From the pool (pooled) or, at a miss, new. NULL: no stack could be mapped. */
struct rt_coroutine *rt_pool_take(struct rt_thread *thread, bool *pooled_out);

/** A coroutine has ended in this thread. */
void rt_pool_give(struct rt_thread *thread, struct rt_coroutine *co);

/** The thread ends. */
void rt_pool_drain_thread(struct rt_thread *thread);

/** For rt_process:info. */
const char *rt_pool_policy_name(void);

/** Emit rt_pool:local_sample of every thread and rt_pool:global_sample, if someone listens. Sampler thread. */
void rt_pool_trace_samples(void);

struct rt_pool_limits {
    uint32_t size; /**< coroutines that wait in the global pool */
    uint32_t max;
    uint32_t hard_max;
};

/** Where idle coroutines wait. Policies differ in who may hold how many. */
struct pool_policy {
    const char *name;
    /** NULL: there is none for this thread. */
    struct rt_coroutine *(*take)(struct rt_thread *thread);
    void (*give)(struct rt_thread *thread, struct rt_coroutine *co);
    /** The thread ends: returns how many were freed. */
    uint32_t (*drain)(struct rt_thread *thread);
    /** Devices came or went: change the maximum. Returns what holds now. */
    struct rt_pool_limits (*resize)(int64_t delta);
    struct rt_pool_limits (*limits)(void);
};

extern const struct pool_policy rt_pool_batched;

/** How many idle coroutines the address space and the memory of this machine bear. */
uint32_t rt_pool_hard_max(void);

#endif
