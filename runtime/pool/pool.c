#include "rt/pool.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "coroutine/stack.h"
#include "coroutine/thread.h"
#include "pool/pool_internal.h"
#include "tracepoints/pool.h"

static const struct pool_policy *const policy = &rt_pool_batched;

struct rt_coroutine *rt_pool_take(struct rt_thread *thread, bool *pooled_out)
{
    struct rt_coroutine *co = policy->take(thread);

    *pooled_out = co != NULL;
    if (__builtin_expect(!co, 0)) {
        co = rt_stack_create();
        if (!co)
            return NULL;
        rt_thread_count(&thread->pool.misses);
    }
    rt_thread_count(&thread->pool.takes);
    return co;
}

void rt_pool_give(struct rt_thread *thread, struct rt_coroutine *co)
{
    rt_thread_count(&thread->pool.gives);
    policy->give(thread, co);
}

void rt_pool_drain_thread(struct rt_thread *thread)
{
    uint32_t freed = policy->drain(thread);

    /* Threads that only took a lock have no pool to speak of. */
    if (atomic_load_explicit(&thread->pool.takes, memory_order_relaxed) ||
        atomic_load_explicit(&thread->pool.gives, memory_order_relaxed))
        lttng_ust_tracepoint(rt_pool, thread_exit, thread->thread_id, freed);
}

const char *rt_pool_policy_name(void)
{
    return policy->name;
}

static void resize(int64_t delta)
{
    struct rt_pool_limits limits = policy->resize(delta);

    lttng_ust_tracepoint(rt_pool, resize, (int32_t)delta, limits.max, limits.hard_max);
}

void rt_pool_inc_max(uint32_t delta)
{
    assert(delta <= INT32_MAX);
    resize(delta);
}

void rt_pool_dec_max(uint32_t delta)
{
    assert(delta <= INT32_MAX);
    resize(-(int64_t)delta);
}

void rt_pool_global_stats(struct rt_pool_global_stats *stats_out)
{
    struct rt_pool_limits limits = policy->limits();
    uint64_t takes, gives;

    rt_thread_totals(&takes, &gives);
    stats_out->global_size = limits.size;
    stats_out->global_max = limits.max;
    stats_out->global_hard_max = limits.hard_max;
    /* Relaxed counters of several threads: what is made and ended just now may be seen as ended only. */
    stats_out->live_count = takes > gives ? (uint32_t)(takes - gives) : 0;
    rt_stack_counts(&stats_out->stack_count, &stats_out->stack_vma_count);
}

/* The name as it is now: threads are named after they start, some change it later. */
static void read_thread_name(int32_t thread_id, char *name, size_t name_bytes)
{
    char path[64];
    ssize_t length = -1;
    int fd;

    snprintf(path, sizeof(path), "/proc/self/task/%d/comm", thread_id);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        length = read(fd, name, name_bytes - 1);
        close(fd);
    }
    if (length < 0)
        length = 0; /* it ended meanwhile */
    name[length] = 0;
    name[strcspn(name, "\n")] = 0;
}

struct visitor {
    void (*visit)(const struct rt_pool_thread_stats *stats, void *opaque);
    void *opaque;
};

static void visit_thread(const struct rt_thread *thread, void *opaque)
{
    const struct visitor *visitor = opaque;
    struct rt_pool_thread_stats stats = {
        .thread_id = thread->thread_id,
        .local_size = atomic_load_explicit(&thread->batches[0].count, memory_order_relaxed) +
                      atomic_load_explicit(&thread->batches[1].count, memory_order_relaxed),
        .takes = atomic_load_explicit(&thread->pool.takes, memory_order_relaxed),
        .gives = atomic_load_explicit(&thread->pool.gives, memory_order_relaxed),
        .misses = atomic_load_explicit(&thread->pool.misses, memory_order_relaxed),
        .refills = atomic_load_explicit(&thread->pool.refills, memory_order_relaxed),
        .donations = atomic_load_explicit(&thread->pool.donations, memory_order_relaxed),
        .overflows = atomic_load_explicit(&thread->pool.overflows, memory_order_relaxed),
    };

    if (stats.takes == 0 && stats.gives == 0)
        return;
    read_thread_name(stats.thread_id, stats.name, sizeof(stats.name));
    visitor->visit(&stats, visitor->opaque);
}

void rt_pool_each_thread(void (*visit)(const struct rt_pool_thread_stats *stats, void *opaque), void *opaque)
{
    struct visitor visitor = { visit, opaque };

    rt_thread_each(visit_thread, &visitor);
}

static void trace_thread(const struct rt_pool_thread_stats *stats, void *opaque)
{
    lttng_ust_tracepoint(rt_pool, local_sample, stats->thread_id, stats->local_size, stats->takes, stats->gives,
                         stats->misses, stats->refills, stats->donations, stats->overflows, stats->name);
}

void rt_pool_trace_samples(void)
{
    struct rt_pool_limits limits;

    if (lttng_ust_tracepoint_enabled(rt_pool, local_sample))
        rt_pool_each_thread(trace_thread, NULL);
    if (lttng_ust_tracepoint_enabled(rt_pool, global_sample)) {
        limits = policy->limits();
        lttng_ust_tracepoint(rt_pool, global_sample, limits.size, limits.max, limits.hard_max);
    }
}
