#include "lock/lock_internal.h"

#include <assert.h>

#include "coroutine/thread.h"
#include "rt/loop.h"
#include "tracepoints/lock.h"

#define HOLD_SAMPLE_PERIOD 17 /* rt/lock.h says why */

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rt_lock_info *registry;
static uint64_t last_lock_id;

#define load(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define store(field, value) atomic_store_explicit(&(field), value, memory_order_relaxed)

void rt_lock_register(struct rt_lock_info *info, const char *class_name, enum rt_lock_kind kind)
{
    *info = (struct rt_lock_info){ .class_name = class_name, .kind = kind };
    pthread_mutex_lock(&registry_lock);
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

void rt_lock_unregister(struct rt_lock_info *info)
{
    assert(load(info->waiters) == 0 && load(info->owner_thread_id) == 0);
    pthread_mutex_lock(&registry_lock);
    *info->at = info->next;
    if (info->next)
        info->next->at = info->at;
    lttng_ust_tracepoint(rt_lock, destroy, info->lock_id);
    pthread_mutex_unlock(&registry_lock);
}

void rt_lock_taken(struct rt_lock_info *info, struct rt_thread *thread, bool waited)
{
    uint64_t acquisitions = load(info->acquisitions) + 1;

    store(info->owner_coroutine_id, thread->current->id);
    store(info->owner_thread_id, thread->thread_id);
    store(info->acquisitions, acquisitions);
    info->hold_weight = waited ? 1 : acquisitions % HOLD_SAMPLE_PERIOD == 0 ? HOLD_SAMPLE_PERIOD : 0;
    if (info->hold_weight)
        info->acquired_ns = rt_clock_ns();
    lttng_ust_tracepoint(rt_lock, acquired, info->lock_id, thread->thread_id, thread->current->id, waited);
}

void rt_lock_leaving(struct rt_lock_info *info, struct rt_thread *thread)
{
    if (info->hold_weight)
        store(info->hold_ns,
              load(info->hold_ns) + (uint64_t)(rt_clock_ns() - info->acquired_ns) * info->hold_weight);
    store(info->owner_thread_id, 0);
    store(info->owner_coroutine_id, 0);
    lttng_ust_tracepoint(rt_lock, released, info->lock_id, thread->thread_id, thread->current->id);
}

int64_t rt_lock_waits(struct rt_lock_info *info, struct rt_thread *thread)
{
    lttng_ust_tracepoint(rt_lock, wait, info->lock_id, thread->thread_id, thread->current->id,
                         load(info->owner_thread_id), load(info->owner_coroutine_id));
    atomic_fetch_add_explicit(&info->waiters, 1, memory_order_relaxed);
    return rt_clock_ns();
}

/* The caller holds the lock, so that contentions and wait_ns have one writer. */
void rt_lock_waited(struct rt_lock_info *info, int64_t begin_ns)
{
    atomic_fetch_sub_explicit(&info->waiters, 1, memory_order_relaxed);
    store(info->contentions, load(info->contentions) + 1);
    store(info->wait_ns, load(info->wait_ns) + (uint64_t)(rt_clock_ns() - begin_ns));
}

void rt_lock_each(void (*visit)(const struct rt_lock_info *info, void *opaque), void *opaque)
{
    pthread_mutex_lock(&registry_lock);
    for (const struct rt_lock_info *info = registry; info; info = info->next)
        visit(info, opaque);
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
