/*
 * The batched policy: one global list of batches, at most two batches per thread.
 *
 * A thread fills its first batch. When that is full it becomes the second, and when there is a second already, the
 * first is donated to the global list, or freed if that is full. So a thread that only ends coroutines passes them on
 * in batches, one lock for 128 of them, and a thread that goes up and down by a few never leaves its own batches.
 */
#include <pthread.h>

#include "coroutine/stack.h"
#include "coroutine/thread.h"
#include "pool/pool_internal.h"
#include "rt/loop.h"
#include "rt/pool.h"
#include "tracepoints/pool.h"

static struct {
    pthread_mutex_t lock;
    struct rt_coroutine *first;    /* of the first batch; batches are chained by batch_next, the newest first */
    struct rt_coroutine *released; /* the same for batches whose memory is with the kernel */
    uint64_t max;
    _Atomic uint32_t size; /* written under the lock; read without it to see that there is nothing to take */
} global = { .lock = PTHREAD_MUTEX_INITIALIZER, .max = RT_POOL_BATCH_SIZE };

/* A thread that finds only batches without memory restores this many: some microseconds each, in the middle of a request. */
#define RESTORE_AT_ONCE 16

static uint32_t global_size(void)
{
    return atomic_load_explicit(&global.size, memory_order_relaxed);
}

static void add_to_size_locked(uint32_t delta)
{
    atomic_store_explicit(&global.size, global_size() + delta, memory_order_relaxed);
}

static struct rt_pool_limits limits_locked(void)
{
    return (struct rt_pool_limits){
        .size = global_size(),
        .max = global.max < RT_POOL_NO_LIMIT ? (uint32_t)global.max : RT_POOL_NO_LIMIT,
        .hard_max = rt_pool_hard_max(),
    };
}

static struct rt_pool_limits batched_limits(void)
{
    struct rt_pool_limits limits;

    pthread_mutex_lock(&global.lock);
    limits = limits_locked();
    pthread_mutex_unlock(&global.lock);
    return limits;
}

static uint32_t limit_of(struct rt_pool_limits limits)
{
    return limits.max < limits.hard_max ? limits.max : limits.hard_max;
}

/* The first batch of the global list; NULL: none. */
static struct rt_coroutine *pop_batch_locked(uint32_t *count_out)
{
    struct rt_coroutine **list = global.first ? &global.first : &global.released;
    struct rt_coroutine *first = *list;

    if (first) {
        *list = first->batch_next;
        *count_out = first->batch_count;
        add_to_size_locked(-first->batch_count);
    }
    return first;
}

static void push_released_locked(struct rt_coroutine *first)
{
    first->batch_next = global.released;
    global.released = first;
}

/* All but the last @rest of a released batch; these wait on. */
static struct rt_coroutine *restore(struct rt_coroutine *first, uint32_t rest)
{
    struct rt_coroutine *chain = rt_stack_restore(first, rest ? RESTORE_AT_ONCE : RT_POOL_BATCH_SIZE);

    if (rest) {
        first->batch_count = rest;
        pthread_mutex_lock(&global.lock);
        push_released_locked(first);
        pthread_mutex_unlock(&global.lock);
    }
    return chain;
}

/* Both local batches are empty. */
static void take_batch(struct rt_thread *thread)
{
    struct rt_coroutine *first = NULL;
    struct rt_pool_limits limits;
    uint32_t count = 0, rest = 0;

    rt_thread_count(&thread->pool.refills);
    /* Without the lock: a batch that is donated just now would be missed as well by coming a moment earlier. */
    if (global_size() > 0) {
        pthread_mutex_lock(&global.lock);
        first = pop_batch_locked(&count);
        if (first && first->batch_released && count > RESTORE_AT_ONCE) {
            rest = count - RESTORE_AT_ONCE;
            count = RESTORE_AT_ONCE;
            add_to_size_locked(rest); /* it stays in the pool, though for a moment in no list */
        }
        pthread_mutex_unlock(&global.lock);
        if (first && first->batch_released)
            first = restore(first, rest);
    }
    pool_batch_set(&thread->batches[0], first, count);
    if (lttng_ust_tracepoint_enabled(rt_pool, refill)) {
        limits = batched_limits();
        lttng_ust_tracepoint(rt_pool, refill, thread->thread_id, count, limits.size, limits.max);
    }
}

static struct rt_coroutine *batched_refill(struct rt_thread *thread)
{
    struct pool_batch *first = &thread->batches[0], *second = &thread->batches[1];

    if (second->first) {
        pool_batch_set(first, second->first, pool_batch_count(second));
        pool_batch_set(second, NULL, 0);
    } else {
        take_batch(thread);
    }
    return pool_batch_pop(first);
}

static void donate_or_free(struct rt_thread *thread, struct pool_batch *batch)
{
    struct rt_coroutine *first = batch->first;
    uint32_t count = pool_batch_count(batch);
    struct rt_pool_limits limits;
    bool accepted;

    first->batch_idle_since_ns = rt_clock_ns();
    pthread_mutex_lock(&global.lock);
    limits = limits_locked();
    accepted = limits.size < limit_of(limits); /* before, not after: it may be exceeded by less than a batch */
    if (accepted) {
        first->batch_next = global.first;
        first->batch_count = count;
        global.first = first;
        limits.size += count;
        atomic_store_explicit(&global.size, limits.size, memory_order_relaxed);
    }
    pthread_mutex_unlock(&global.lock);

    if (accepted) {
        rt_thread_count(&thread->pool.donations);
        lttng_ust_tracepoint(rt_pool, donate, thread->thread_id, count, limits.size, limits.max);
    } else {
        rt_thread_count(&thread->pool.overflows);
        lttng_ust_tracepoint(rt_pool, overflow, thread->thread_id, count, limits.size, limits.max, limits.hard_max);
        rt_stack_destroy_chain(first);
    }
}

static void batched_overflow(struct rt_thread *thread, struct rt_coroutine *co)
{
    struct pool_batch *first = &thread->batches[0], *second = &thread->batches[1];

    if (second->first)
        donate_or_free(thread, first);
    else
        pool_batch_set(second, first->first, pool_batch_count(first));
    pool_batch_set(first, NULL, 0);
    pool_batch_push(first, co);
}

static uint32_t batched_drain(struct rt_thread *thread)
{
    uint32_t freed = 0;

    for (int i = 0; i < 2; i++) {
        struct rt_coroutine *first = thread->batches[i].first;

        freed += pool_batch_count(&thread->batches[i]);
        pool_batch_set(&thread->batches[i], NULL, 0);
        rt_stack_destroy_chain(first);
    }
    return freed;
}

static struct rt_pool_limits batched_resize(int64_t delta)
{
    struct rt_coroutine *surplus = NULL, *batch;
    struct rt_pool_limits limits;
    uint32_t count;

    pthread_mutex_lock(&global.lock);
    /* Never below one batch, whatever is taken away: also the maximum without any device. */
    global.max = delta < 0 && global.max < RT_POOL_BATCH_SIZE - delta ? RT_POOL_BATCH_SIZE
                                                                      : (uint64_t)((int64_t)global.max + delta);
    limits = limits_locked();
    /* What the device that goes had needed is given back now, not when somebody happens to overflow. */
    while (global_size() >= (uint64_t)limit_of(limits) + RT_POOL_BATCH_SIZE && (batch = pop_batch_locked(&count))) {
        batch->batch_next = surplus;
        surplus = batch;
    }
    limits.size = global_size();
    pthread_mutex_unlock(&global.lock);

    while ((batch = surplus)) {
        surplus = batch->batch_next;
        rt_stack_destroy_chain(batch);
    }
    return limits;
}

/*
 * One batch after the other, without the lock while the kernel works: it is in no list then, though it counts. Whoever finds
 * nothing else meanwhile makes new stacks.
 */
static void batched_trim(int64_t idle_since_ns)
{
    for (;;) {
        struct rt_coroutine **at = &global.first, *first;

        pthread_mutex_lock(&global.lock);
        while (*at && (*at)->batch_idle_since_ns > idle_since_ns)
            at = &(*at)->batch_next;
        first = *at;
        if (first)
            *at = first->batch_next;
        pthread_mutex_unlock(&global.lock);
        if (!first)
            return;
        rt_stack_release_memory(first);
        pthread_mutex_lock(&global.lock);
        push_released_locked(first);
        pthread_mutex_unlock(&global.lock);
    }
}

const struct pool_policy rt_pool_batched = {
    .name = "batched",
    .local_fill = RT_POOL_BATCH_SIZE,
    .refill = batched_refill,
    .overflow = batched_overflow,
    .drain = batched_drain,
    .resize = batched_resize,
    .limits = batched_limits,
    .trim = batched_trim,
};
