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
#include "rt/pool.h"
#include "tracepoints/pool.h"

static struct {
    pthread_mutex_t lock;
    struct rt_coroutine *first; /* of the first batch; batches are chained by batch_next */
    uint64_t max;
    _Atomic uint32_t size; /* written under the lock; read without it to see that there is nothing to take */
} global = { .lock = PTHREAD_MUTEX_INITIALIZER, .max = RT_POOL_BATCH_SIZE };

static uint32_t batch_count(const struct pool_batch *batch)
{
    return atomic_load_explicit(&batch->count, memory_order_relaxed);
}

static void set_batch(struct pool_batch *batch, struct rt_coroutine *first, uint32_t count)
{
    batch->first = first;
    atomic_store_explicit(&batch->count, count, memory_order_relaxed);
}

static uint32_t global_size(void)
{
    return atomic_load_explicit(&global.size, memory_order_relaxed);
}

static struct rt_pool_limits limits_locked(void)
{
    return (struct rt_pool_limits){
        .size = global_size(),
        .max = global.max < RT_POOL_NO_LIMIT ? (uint32_t)global.max : RT_POOL_NO_LIMIT,
        .hard_max = rt_pool_hard_max(),
    };
}

static uint32_t limit_of(struct rt_pool_limits limits)
{
    return limits.max < limits.hard_max ? limits.max : limits.hard_max;
}

/* The first batch of the global list; NULL: none. */
static struct rt_coroutine *pop_batch_locked(uint32_t *count_out)
{
    struct rt_coroutine *first = global.first;

    if (first) {
        global.first = first->batch_next;
        *count_out = first->batch_count;
        atomic_store_explicit(&global.size, global_size() - first->batch_count, memory_order_relaxed);
    }
    return first;
}

/* The local pool is empty. */
__attribute__((noinline)) static void refill(struct rt_thread *thread)
{
    struct rt_coroutine *first = NULL;
    struct rt_pool_limits limits;
    uint32_t count = 0;

    rt_thread_count(&thread->pool.refills);
    /* Without the lock: a batch that is donated just now would be missed as well by coming a moment earlier. */
    if (global_size() > 0) {
        pthread_mutex_lock(&global.lock);
        first = pop_batch_locked(&count);
        pthread_mutex_unlock(&global.lock);
    }
    set_batch(&thread->batches[0], first, count);
    if (lttng_ust_tracepoint_enabled(rt_pool, refill)) {
        pthread_mutex_lock(&global.lock);
        limits = limits_locked();
        pthread_mutex_unlock(&global.lock);
        lttng_ust_tracepoint(rt_pool, refill, thread->thread_id, count, limits.size, limits.max);
    }
}

static struct rt_coroutine *batched_take(struct rt_thread *thread)
{
    struct pool_batch *batch = &thread->batches[0];
    struct rt_coroutine *co = batch->first;

    if (__builtin_expect(!co, 0)) {
        struct pool_batch *second = &thread->batches[1];

        if (second->first) {
            set_batch(batch, second->first, batch_count(second));
            set_batch(second, NULL, 0);
        } else {
            refill(thread);
        }
        co = batch->first;
        if (!co)
            return NULL;
    }
    set_batch(batch, co->pool_next, batch_count(batch) - 1);
    return co;
}

static void donate_or_free(struct rt_thread *thread, struct pool_batch *batch)
{
    struct rt_coroutine *first = batch->first;
    uint32_t count = batch_count(batch);
    struct rt_pool_limits limits;
    bool accepted;

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

__attribute__((noinline)) static void make_room(struct rt_thread *thread)
{
    struct pool_batch *first = &thread->batches[0], *second = &thread->batches[1];

    if (second->first)
        donate_or_free(thread, first);
    else
        set_batch(second, first->first, batch_count(first));
    set_batch(first, NULL, 0);
}

static void batched_give(struct rt_thread *thread, struct rt_coroutine *co)
{
    struct pool_batch *batch = &thread->batches[0];

    if (__builtin_expect(batch_count(batch) == RT_POOL_BATCH_SIZE, 0))
        make_room(thread);
    co->pool_next = batch->first;
    set_batch(batch, co, batch_count(batch) + 1);
}

static uint32_t batched_drain(struct rt_thread *thread)
{
    uint32_t freed = 0;

    for (int i = 0; i < 2; i++) {
        struct rt_coroutine *first = thread->batches[i].first;

        freed += batch_count(&thread->batches[i]);
        set_batch(&thread->batches[i], NULL, 0);
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

static struct rt_pool_limits batched_limits(void)
{
    struct rt_pool_limits limits;

    pthread_mutex_lock(&global.lock);
    limits = limits_locked();
    pthread_mutex_unlock(&global.lock);
    return limits;
}

const struct pool_policy rt_pool_batched = {
    .name = "batched",
    .take = batched_take,
    .give = batched_give,
    .drain = batched_drain,
    .resize = batched_resize,
    .limits = batched_limits,
};
