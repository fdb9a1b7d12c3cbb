/*
 * What the runtime keeps for each thread. Private to runtime/.
 *
 * A coroutine may go on in another thread after each yield: take rt_thread_self() anew after every call that may
 * yield. It is not inlined, so that the compiler cannot keep the address of a thread-local over a yield.
 * rt_thread_until_switch() is inlined, for the few functions that every switch passes.
 */
#ifndef RUNTIME_COROUTINE_THREAD_H
#define RUNTIME_COROUTINE_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "coroutine/coroutine_internal.h"

struct rt_mutex;

/** Coroutines in a chain of pool_next, so that a batch needs no memory of its own. */
struct pool_batch {
    struct rt_coroutine *first;
    _Atomic uint32_t count; /**< written by the owning thread, read by the sampler */
};

/** Written by the owning thread without read-modify-write, read by the sampler; relaxed, since each stands alone. */
struct pool_counters {
    _Atomic uint64_t takes, gives, misses, refills, donations, overflows;
};

struct rt_thread {
    /* This thread only. */
    struct rt_coroutine *current; /**< what runs; NULL: the thread is not registered */
    struct rt_mutex *held_mutexes;
    uint64_t next_id, last_id; /**< ids of coroutines come in blocks, so that threads do not contend for them */
    struct work_queue ready; /**< woken where there is no loop */
    struct rt_coroutine leader;
    void *signal_stack; /**< ours, for overflow.c; NULL: none, or somebody else's */

    /* This thread writes, the sampler reads. */
    int32_t thread_id;
    struct pool_batch batches[2];
    struct pool_counters pool;

    /* Under the registry's lock. */
    struct rt_thread *next, **at;
};

struct rt_thread *rt_thread_self(void);

/* initial-exec: an offset from the thread register, instead of a call into the dynamic linker. */
extern _Thread_local struct rt_thread rt_thread_this __attribute__((tls_model("initial-exec")));

/**
 * The same without a call, and without registering the thread: current may be NULL. Only for functions that are not inlined
 * (or the address could be kept over a switch) and end with their first switch.
 */
static inline struct rt_thread *rt_thread_until_switch(void)
{
    return &rt_thread_this;
}

/** Calls visit for each thread that lives. Thread: any but a visitor; a thread that starts or ends waits. */
void rt_thread_each(void (*visit)(const struct rt_thread *thread, void *opaque), void *opaque);

/** Takes and gives of all threads, also of those that have ended; all gives are read before any takes. */
void rt_thread_totals(uint64_t *takes_out, uint64_t *gives_out);

/** A new coroutine id. */
uint64_t rt_thread_refill_ids(struct rt_thread *thread);

static inline uint64_t rt_thread_next_id(struct rt_thread *thread)
{
    return __builtin_expect(thread->next_id != thread->last_id, 1) ? ++thread->next_id
                                                                    : rt_thread_refill_ids(thread);
}

/** Add one to a counter that only its owner writes. */
static inline void rt_thread_count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

#endif
