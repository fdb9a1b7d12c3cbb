#include "lock/lock_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "coroutine/thread.h"
#include "rt/coroutine.h"
#include "rt/loop.h"
#include "tracepoints/lock.h"

#define HOLD_SAMPLE_PERIOD 17 /* rt/lock.h says why */

/* Locks of one name and kind. Classes stay when their last lock goes: there are as many as places that make locks. */
struct rt_lock_class {
    struct rt_lock_class_stats ended; /* of locks that are gone; the name is ours */
    struct rt_lock_class_stats sum;   /* while somebody visits */
    struct rt_lock_class *next;
};

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rt_lock_info *registry;
static struct rt_lock_class *classes, **last_class = &classes;
static uint64_t last_lock_id;

#define load(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define store(field, value) atomic_store_explicit(&(field), value, memory_order_relaxed)

static struct rt_lock_class *need_class(const char *name, enum rt_lock_kind kind)
{
    struct rt_lock_class *class = classes;

    while (class && (class->ended.kind != kind || strcmp(class->ended.class_name, name) != 0))
        class = class->next;
    if (class)
        return class;
    class = calloc(1, sizeof(*class));
    if (class)
        class->ended.class_name = strdup(name);
    /* A lock cannot fail to be: without memory for the first of its class it is missing from the statistics. */
    if (!class || !class->ended.class_name) {
        free(class);
        return NULL;
    }
    class->ended.kind = kind;
    *last_class = class;
    last_class = &class->next;
    return class;
}

void rt_lock_register(struct rt_lock_info *info, const char *class_name, enum rt_lock_kind kind)
{
    *info = (struct rt_lock_info){ .class_name = class_name, .kind = kind };
    pthread_mutex_lock(&registry_lock);
    info->lock_class = need_class(class_name, kind);
    info->lock_id = ++last_lock_id;
    info->next = registry;
    info->at = &registry;
    if (registry)
        registry->at = &info->next;
    registry = info;
    /* Under the registry's lock: a baseline never shows a lock whose end was announced before. */
    lttng_ust_tracepoint(rt_lock, create, info->lock_id, class_name, (uint8_t)kind);
    pthread_mutex_unlock(&registry_lock);
}

static void add_totals(struct rt_lock_class_stats *stats, const struct rt_lock_info *info)
{
    stats->acquisitions += load(info->acquisitions);
    stats->contentions += load(info->contentions);
    stats->wait_ns += load(info->wait_ns);
    stats->hold_ns += load(info->hold_ns);
}

void rt_lock_unregister(struct rt_lock_info *info)
{
    assert(load(info->waiters) == 0 && load(info->owner_thread_id) == 0);
    pthread_mutex_lock(&registry_lock);
    *info->at = info->next;
    if (info->next)
        info->next->at = info->at;
    if (info->lock_class)
        add_totals(&info->lock_class->ended, info);
    lttng_ust_tracepoint(rt_lock, destroy, info->lock_id);
    pthread_mutex_unlock(&registry_lock);
}

/* By the last that holds it. */
static void count_hold(struct rt_lock_info *info)
{
    if (info->hold_weight)
        store(info->hold_ns,
              load(info->hold_ns) + (uint64_t)(rt_clock_ns() - info->acquired_ns) * info->hold_weight);
}

/* @acquisitions: with this one. */
static void measure_hold(struct rt_lock_info *info, uint64_t acquisitions, bool waited)
{
    info->hold_weight = waited ? 1 : acquisitions % HOLD_SAMPLE_PERIOD == 0 ? HOLD_SAMPLE_PERIOD : 0;
    if (info->hold_weight)
        info->acquired_ns = rt_clock_ns();
}

void rt_lock_taken(struct rt_lock_info *info, struct rt_thread *thread, bool waited)
{
    uint64_t acquisitions = load(info->acquisitions) + 1;

    store(info->owner_coroutine_id, thread->current->id);
    store(info->owner_thread_id, thread->thread_id);
    store(info->acquisitions, acquisitions);
    measure_hold(info, acquisitions, waited);
    lttng_ust_tracepoint(rt_lock, acquired, info->lock_id, thread->thread_id, thread->current->id, waited);
}

void rt_lock_shared_taken(struct rt_lock_info *info, struct rt_thread *thread, bool waited, bool first)
{
    uint64_t acquisitions = atomic_fetch_add_explicit(&info->acquisitions, 1, memory_order_relaxed) + 1;

    if (first)
        measure_hold(info, acquisitions, waited);
    lttng_ust_tracepoint(rt_lock, acquired, info->lock_id, thread->thread_id, thread->current->id, waited);
}

void rt_lock_shared_begins(struct rt_lock_info *info)
{
    measure_hold(info, 0, true);
}

void rt_lock_shared_leaving(struct rt_lock_info *info, struct rt_thread *thread)
{
    lttng_ust_tracepoint(rt_lock, released, info->lock_id, thread->thread_id, thread->current->id);
}

void rt_lock_shared_ends(struct rt_lock_info *info)
{
    count_hold(info);
}

void rt_lock_leaving(struct rt_lock_info *info, struct rt_thread *thread)
{
    count_hold(info);
    store(info->owner_thread_id, 0);
    store(info->owner_coroutine_id, 0);
    lttng_ust_tracepoint(rt_lock, released, info->lock_id, thread->thread_id, thread->current->id);
}

void rt_lock_handed_over(struct rt_lock_info *info, const struct rt_co_waiter *waiter)
{
    store(info->owner_coroutine_id, rt_coroutine_id(waiter->co));
    store(info->owner_thread_id, waiter->thread_id);
}

int64_t rt_lock_waits(struct rt_lock_info *info, struct rt_thread *thread)
{
    int64_t now_ns = rt_clock_ns();

    lttng_ust_tracepoint(rt_lock, wait, info->lock_id, thread->thread_id, thread->current->id,
                         load(info->owner_thread_id), load(info->owner_coroutine_id));
    if (load(info->waiters) == 0)
        store(info->contended_since_ns, now_ns);
    atomic_fetch_add_explicit(&info->waiters, 1, memory_order_relaxed);
    return now_ns;
}

/* The caller holds the lock, but perhaps with other readers: these are added, not stored. */
void rt_lock_waited(struct rt_lock_info *info, int64_t begin_ns)
{
    atomic_fetch_sub_explicit(&info->waiters, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&info->contentions, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&info->wait_ns, (uint64_t)(rt_clock_ns() - begin_ns), memory_order_relaxed);
}

void rt_lock_each(void (*visit)(const struct rt_lock_info *info, void *opaque), void *opaque)
{
    pthread_mutex_lock(&registry_lock);
    for (const struct rt_lock_info *info = registry; info; info = info->next)
        visit(info, opaque);
    pthread_mutex_unlock(&registry_lock);
}

static void add_now(struct rt_lock_class_stats *stats, const struct rt_lock_info *info, int64_t now_ns)
{
    uint32_t waiters = load(info->waiters);
    int64_t contended_ns = now_ns - load(info->contended_since_ns);

    stats->lock_count++;
    stats->waiter_count += waiters;
    if (waiters == 0 || contended_ns <= stats->contended_ns)
        return;
    stats->contended_ns = contended_ns;
    stats->contended_lock_id = info->lock_id;
    stats->owner_thread_id = load(info->owner_thread_id);
    stats->owner_coroutine_id = load(info->owner_coroutine_id);
}

void rt_lock_each_class(void (*visit)(const struct rt_lock_class_stats *stats, void *opaque), void *opaque)
{
    int64_t now_ns;

    pthread_mutex_lock(&registry_lock);
    now_ns = rt_clock_ns();
    for (struct rt_lock_class *class = classes; class; class = class->next)
        class->sum = class->ended;
    for (const struct rt_lock_info *info = registry; info; info = info->next) {
        if (!info->lock_class)
            continue;
        add_totals(&info->lock_class->sum, info);
        add_now(&info->lock_class->sum, info, now_ns);
    }
    for (const struct rt_lock_class *class = classes; class; class = class->next)
        visit(&class->sum, opaque);
    pthread_mutex_unlock(&registry_lock);
}

static void trace_existence(const struct rt_lock_info *info, void *opaque)
{
    int32_t owner_thread_id = load(info->owner_thread_id);
    uint64_t owner_coroutine_id = load(info->owner_coroutine_id);

    lttng_ust_tracepoint(rt_lock, create, info->lock_id, info->class_name, (uint8_t)info->kind);
    if (owner_thread_id || owner_coroutine_id)
        lttng_ust_tracepoint(rt_lock, owner, info->lock_id, owner_thread_id, owner_coroutine_id,
                             load(info->waiters));
}

static void trace_sample(const struct rt_lock_info *info, void *opaque)
{
    if (load(info->acquisitions) || load(info->waiters))
        lttng_ust_tracepoint(rt_lock, sample, info->lock_id, load(info->acquisitions), load(info->contentions),
                             load(info->wait_ns), load(info->hold_ns));
}

void rt_lock_trace_baseline(void)
{
    rt_lock_each(trace_existence, NULL);
    rt_lock_trace_samples();
}

void rt_lock_trace_samples(void)
{
    if (lttng_ust_tracepoint_enabled(rt_lock, sample))
        rt_lock_each(trace_sample, NULL);
}
