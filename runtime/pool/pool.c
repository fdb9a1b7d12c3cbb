#include "rt/pool.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "coroutine/stack.h"
#include "coroutine/thread.h"
#include "pool/pool_internal.h"
#include "rt/loop.h"
#include "tracepoints/pool.h"

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* ---- the choice ---- */

static const struct pool_policy *const policies[] = {
    [RT_POOL_BATCHED] = &rt_pool_batched,
    [RT_POOL_PER_THREAD] = &rt_pool_per_thread,
    [RT_POOL_NONE] = &rt_pool_none,
};

#define POLICY_COUNT (sizeof(policies) / sizeof(policies[0]))

/* Atomic for the sampler, which may ask while the choice is made; relaxed: policies are constant. */
static _Atomic(const struct pool_policy *) policy = &rt_pool_batched;

static pthread_mutex_t choice_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool chosen; /* written under the lock; once set it stays */

static const struct pool_policy *policy_now(void)
{
    return atomic_load_explicit(&policy, memory_order_relaxed);
}

/* Something depends on the policy from now on. */
static const struct pool_policy *settle(void)
{
    if (!atomic_load_explicit(&chosen, memory_order_relaxed)) {
        pthread_mutex_lock(&choice_lock);
        atomic_store_explicit(&chosen, true, memory_order_relaxed);
        pthread_mutex_unlock(&choice_lock);
    }
    return policy_now();
}

int rt_pool_configure(enum rt_pool_policy choice)
{
    int error = -EBUSY;

    if ((unsigned)choice >= POLICY_COUNT)
        return -EINVAL;
    pthread_mutex_lock(&choice_lock);
    if (!atomic_load_explicit(&chosen, memory_order_relaxed)) {
        atomic_store_explicit(&policy, policies[choice], memory_order_relaxed);
        error = 0;
    }
    pthread_mutex_unlock(&choice_lock);
    return error;
}

enum rt_pool_policy rt_pool_policy(void)
{
    const struct pool_policy *now = policy_now();
    unsigned choice = 0;

    while (policies[choice] != now)
        choice++;
    return choice;
}

const char *rt_pool_policy_name(enum rt_pool_policy choice)
{
    return (unsigned)choice < POLICY_COUNT ? policies[choice]->name : NULL;
}

/* ---- the way that has to be short: no lock, no atomic read-modify-write ---- */

__attribute__((noinline)) static struct rt_coroutine *take_elsewhere(struct rt_thread *thread, bool *pooled_out)
{
    struct rt_coroutine *co = settle()->refill(thread);

    *pooled_out = co != NULL;
    if (!co) {
        co = rt_stack_create();
        if (!co)
            return NULL;
        rt_thread_count(&thread->pool.misses);
    }
    rt_thread_count(&thread->pool.takes);
    return co;
}

struct rt_coroutine *rt_pool_take(struct rt_thread *thread, bool *pooled_out)
{
    struct rt_coroutine *co = pool_batch_pop(&thread->batches[0]);

    if (unlikely(!co))
        return take_elsewhere(thread, pooled_out);
    *pooled_out = true;
    rt_thread_count(&thread->pool.takes);
    return co;
}

void rt_pool_give(struct rt_thread *thread, struct rt_coroutine *co)
{
    const struct pool_policy *now = policy_now();

    rt_thread_count(&thread->pool.gives);
    if (likely(pool_batch_count(&thread->batches[0]) < now->local_fill))
        pool_batch_push(&thread->batches[0], co);
    else
        now->overflow(thread, co);
}

/* ---- the rest ---- */

void rt_pool_drain_thread(struct rt_thread *thread)
{
    uint32_t freed = policy_now()->drain(thread);

    /* Threads that only took a lock have no pool to speak of. */
    if (atomic_load_explicit(&thread->pool.takes, memory_order_relaxed) ||
        atomic_load_explicit(&thread->pool.gives, memory_order_relaxed))
        lttng_ust_tracepoint(rt_pool, thread_exit, thread->thread_id, freed);
}

static void resize(int64_t delta)
{
    struct rt_pool_limits limits = settle()->resize(delta);

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

void rt_pool_trim(uint32_t idle_ms)
{
    const struct pool_policy *now = policy_now();

    if (now->trim)
        now->trim(rt_clock_ns() - (int64_t)idle_ms * 1000000);
}

void rt_pool_global_stats(struct rt_pool_global_stats *stats_out)
{
    struct rt_pool_limits limits = settle()->limits();
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
        .local_size = pool_batch_count(&thread->batches[0]) + pool_batch_count(&thread->batches[1]),
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
        limits = settle()->limits();
        lttng_ust_tracepoint(rt_pool, global_sample, limits.size, limits.max, limits.hard_max);
    }
}
