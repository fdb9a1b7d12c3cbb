/*
 * The per-thread policy: a release list that all share, and a list of its own for each thread. It is what batches
 * replaced, kept to be compared with and to bring its failure back.
 *
 * Who finds its own list empty takes the whole release list, however long, and keeps it: nothing bounds what the threads hold
 * together, and while one hoards another makes new stacks.
 */
#include "coroutine/stack.h"
#include "pool/pool_internal.h"
#include "rt/pool.h"
#include "tracepoints/pool.h"

#define MAX_DEFAULT 64
#define WORTH_TAKING 64 /* a release list that is not longer stays where it is */

/* ORDER pool.release_list: who takes the list sees what each giver wrote into its coroutine (the chain, the saved
 * context). Givers push with release order; each push and each take is a read-modify-write, so the acquire of one take
 * pairs with all of them. Nobody pops a single element, so no address can come back in between.
 * Test: tests/runtime/pool/stress_pool.c (seen failing under ThreadSanitizer with a relaxed take). */
static struct {
    _Atomic(struct rt_coroutine *) first;
    /* Counted after the push and cleared before the take, so it is right only when nobody is in between. */
    _Atomic uint32_t size;
    _Atomic uint64_t max;
} release = { .max = MAX_DEFAULT };

static uint32_t release_size(void)
{
    return atomic_load_explicit(&release.size, memory_order_relaxed);
}

static uint64_t max_now(void)
{
    return atomic_load_explicit(&release.max, memory_order_relaxed);
}

static struct rt_pool_limits per_thread_limits(void)
{
    uint64_t max = 2 * max_now();

    return (struct rt_pool_limits){
        .size = release_size(),
        .max = max < RT_POOL_NO_LIMIT ? (uint32_t)max : RT_POOL_NO_LIMIT,
        .hard_max = RT_POOL_NO_LIMIT,
    };
}

static struct rt_coroutine *per_thread_refill(struct rt_thread *thread)
{
    struct pool_batch *own = &thread->batches[0];
    struct rt_pool_limits limits;
    struct rt_coroutine *co;
    uint32_t taken = 0;

    rt_thread_count(&thread->pool.refills);
    if (release_size() > WORTH_TAKING) {
        taken = atomic_exchange_explicit(&release.size, 0, memory_order_relaxed);
        /* ORDER pool.release_list, taking side */
        pool_batch_set(own, atomic_exchange_explicit(&release.first, NULL, memory_order_acquire), taken);
    }
    if (lttng_ust_tracepoint_enabled(rt_pool, refill)) {
        limits = per_thread_limits();
        lttng_ust_tracepoint(rt_pool, refill, thread->thread_id, taken, limits.size, limits.max);
    }
    co = pool_batch_pop(own);
    if (!co)
        pool_batch_set(own, NULL, 0); /* the list went to someone who came at the same time, whatever was counted */
    return co;
}

static void push_released(struct rt_coroutine *co)
{
    struct rt_coroutine *first = atomic_load_explicit(&release.first, memory_order_relaxed);

    do
        co->pool_next = first;
    while (!atomic_compare_exchange_weak_explicit(&release.first, &first, co, memory_order_release,
                                                  memory_order_relaxed)); /* ORDER pool.release_list, giving side */
    atomic_fetch_add_explicit(&release.size, 1, memory_order_relaxed);
}

static void per_thread_overflow(struct rt_thread *thread, struct rt_coroutine *co)
{
    struct rt_pool_limits limits;

    if (release_size() < 2 * max_now()) {
        push_released(co);
        rt_thread_count(&thread->pool.donations);
    } else if (pool_batch_count(&thread->batches[0]) < max_now()) {
        pool_batch_push(&thread->batches[0], co);
    } else {
        rt_thread_count(&thread->pool.overflows);
        limits = per_thread_limits();
        lttng_ust_tracepoint(rt_pool, overflow, thread->thread_id, 1, limits.size, limits.max, limits.hard_max);
        co->pool_next = NULL;
        rt_stack_destroy_chain(co);
    }
}

static uint32_t per_thread_drain(struct rt_thread *thread)
{
    struct rt_coroutine *first = thread->batches[0].first;
    uint32_t freed = 0;

    for (struct rt_coroutine *co = first; co; co = co->pool_next)
        freed++;
    pool_batch_set(&thread->batches[0], NULL, 0);
    rt_stack_destroy_chain(first);
    return freed;
}

/* Changes what may be kept from now on; what is there already stays. */
static struct rt_pool_limits per_thread_resize(int64_t delta)
{
    uint64_t max = max_now(), wanted;

    do
        wanted = delta < 0 && max < MAX_DEFAULT + (uint64_t)-delta ? MAX_DEFAULT : max + (uint64_t)delta;
    while (!atomic_compare_exchange_weak_explicit(&release.max, &max, wanted, memory_order_relaxed,
                                                  memory_order_relaxed));
    return per_thread_limits();
}

const struct pool_policy rt_pool_per_thread = {
    .name = "per-thread",
    .local_fill = 0, /* the release list comes first */
    .refill = per_thread_refill,
    .overflow = per_thread_overflow,
    .drain = per_thread_drain,
    .resize = per_thread_resize,
    .limits = per_thread_limits,
};
