/*
 * What a loop does with its time, for the sampler and for people.
 *
 * ORDER loop.phase: a reader gets phase, totals and the open phase's begin from one moment, without making the loop wait.
 *   phase_enter():  sequence odd, then the fields (release each), then sequence even (release)
 *   read_phase():   sequence (acquire), the fields (acquire each), sequence again: unchanged and even, or once more
 * If weaker: a phase is counted twice or not at all. Ordered operations instead of fences, because ThreadSanitizer
 * does not model fences.
 *
 * ORDER loop.observed: a running total never goes back, although the loop reads the clock some time before it enters the
 * phase, and a reader may meanwhile have reported the old phase up to a later time.
 *   read_phase():   store observed, heavy fence, then look as above
 *   phase_enter():  sequence odd, light fence, load observed: the phase does not begin before that
 * Either the reader sees the change begun, and waits for its end, or the loop sees how far the reader has counted.
 * If weaker: a difference between two samples is negative.
 * Test: tests/runtime/loop/test_stats.c.
 */
#include <time.h>

#include "loop/loop_internal.h"
#include "tracepoints/loop.h"

/* The cheap clock is precise enough for limits of this many of its ticks. */
#define HOG_COARSE_TICKS 10

void phase_enter(struct rt_loop *loop, enum loop_phase phase, int64_t now_ns, int64_t wait_timeout_ns)
{
    uint32_t sequence = atomic_load_explicit(&loop->phase_sequence, memory_order_relaxed);
    enum loop_phase old = (enum loop_phase)atomic_load_explicit(&loop->phase, memory_order_relaxed);
    int64_t since_ns = atomic_load_explicit(&loop->phase_since_ns, memory_order_relaxed);
    uint64_t total = atomic_load_explicit(&loop->phase_ns[old], memory_order_relaxed);

    /* ORDER loop.phase and ORDER loop.observed, the loop's side. */
    atomic_store_explicit(&loop->phase_sequence, sequence + 1, memory_order_relaxed);
    fence_light();
    int64_t observed_ns = atomic_load_explicit(&loop->observed_ns, memory_order_relaxed);
    if (now_ns < observed_ns)
        now_ns = observed_ns;
    atomic_store_explicit(&loop->phase_ns[old], total + (uint64_t)(now_ns - since_ns), memory_order_release);
    atomic_store_explicit(&loop->phase, phase, memory_order_release);
    atomic_store_explicit(&loop->phase_since_ns, now_ns, memory_order_release);
    atomic_store_explicit(&loop->wait_timeout_ns, wait_timeout_ns, memory_order_release);
    atomic_store_explicit(&loop->phase_sequence, sequence + 2, memory_order_release);
}

void phase_share(struct rt_loop *loop, int64_t now_ns, int64_t poll_ns)
{
    uint32_t sequence = atomic_load_explicit(&loop->phase_sequence, memory_order_relaxed);
    int64_t since_ns = atomic_load_explicit(&loop->phase_since_ns, memory_order_relaxed);
    uint64_t poll_total = atomic_load_explicit(&loop->phase_ns[LOOP_POLLING], memory_order_relaxed);
    uint64_t busy_total = atomic_load_explicit(&loop->phase_ns[LOOP_BUSY], memory_order_relaxed);

    /* ORDER loop.phase and ORDER loop.observed, the loop's side, as in phase_enter(). */
    atomic_store_explicit(&loop->phase_sequence, sequence + 1, memory_order_relaxed);
    fence_light();
    int64_t observed_ns = atomic_load_explicit(&loop->observed_ns, memory_order_relaxed);
    if (now_ns < observed_ns)
        now_ns = observed_ns;
    /* What a reader was told is polling stays that. */
    if (poll_ns < observed_ns - since_ns)
        poll_ns = observed_ns - since_ns;
    if (poll_ns > now_ns - since_ns)
        poll_ns = now_ns - since_ns;
    atomic_store_explicit(&loop->phase_ns[LOOP_POLLING], poll_total + (uint64_t)poll_ns, memory_order_release);
    atomic_store_explicit(&loop->phase_ns[LOOP_BUSY], busy_total + (uint64_t)(now_ns - since_ns - poll_ns),
                          memory_order_release);
    atomic_store_explicit(&loop->phase_since_ns, now_ns, memory_order_release);
    atomic_store_explicit(&loop->phase_sequence, sequence + 2, memory_order_release);
}

struct phase_snapshot {
    enum loop_phase phase;
    int64_t wait_timeout_ns;
    uint64_t open_ns; /* how long this phase has lasted */
    uint64_t total_ns[LOOP_PHASE_COUNT];
};

/* Returns what time it is; loop->observed_ns is not before that. */
static int64_t observe_now(struct rt_loop *loop)
{
    int64_t now_ns = rt_clock_ns();
    int64_t seen_ns = atomic_load_explicit(&loop->observed_ns, memory_order_relaxed);
    while (seen_ns < now_ns &&
           !atomic_compare_exchange_weak_explicit(&loop->observed_ns, &seen_ns, now_ns, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
    fence_heavy();
    return now_ns;
}

static void read_phase(struct rt_loop *loop, struct phase_snapshot *snapshot)
{
    int64_t now_ns = observe_now(loop); /* ORDER loop.observed, the reader's side */
    uint32_t before, after;
    int64_t since_ns;
    do {
        /* ORDER loop.phase, the reader's side. */
        before = atomic_load_explicit(&loop->phase_sequence, memory_order_acquire);
        snapshot->phase = (enum loop_phase)atomic_load_explicit(&loop->phase, memory_order_acquire);
        since_ns = atomic_load_explicit(&loop->phase_since_ns, memory_order_acquire);
        snapshot->wait_timeout_ns = atomic_load_explicit(&loop->wait_timeout_ns, memory_order_acquire);
        for (int i = 0; i < LOOP_PHASE_COUNT; i++)
            snapshot->total_ns[i] = atomic_load_explicit(&loop->phase_ns[i], memory_order_acquire);
        after = atomic_load_explicit(&loop->phase_sequence, memory_order_relaxed);
    } while (before != after || before % 2 != 0);

    bool bound = since_ns != 0;
    snapshot->open_ns = bound && now_ns > since_ns ? (uint64_t)(now_ns - since_ns) : 0;
    snapshot->total_ns[snapshot->phase] += snapshot->open_ns;
}

static uint64_t total(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void rt_loop_stats(struct rt_loop *loop, struct rt_loop_stats *stats_out)
{
    struct phase_snapshot snapshot;
    read_phase(loop, &snapshot);
    *stats_out = (struct rt_loop_stats){
        .passes = total(&loop->passes),
        .dispatches = total(&loop->dispatches),
        .idle_dispatches = total(&loop->idle_dispatches),
        .notifies = total(&loop->notifies),
        .event_writes = total(&loop->event_writes),
        .event_writes_while_polling = total(&loop->event_writes_while_polling),
        .event_reads = total(&loop->event_reads),
        .polls = total(&loop->polls),
        .polls_useful = total(&loop->polls_useful),
        .busy_ns = snapshot.total_ns[LOOP_BUSY],
        .poll_ns = snapshot.total_ns[LOOP_POLLING],
        .wait_ns = snapshot.total_ns[LOOP_WAITING],
    };
}

int64_t rt_loop_poll_max_ns(const struct rt_loop *loop)
{
    return atomic_load_explicit(&loop->poll_max_ns, memory_order_relaxed);
}

int32_t rt_loop_thread_id(const struct rt_loop *loop)
{
    return atomic_load_explicit(&loop->thread_id, memory_order_relaxed);
}

void rt_loop_each_handler(struct rt_loop *loop, void (*visit)(const struct rt_handler_stats *stats, void *opaque),
                          void *opaque)
{
    struct rt_handler *handler;
    pthread_mutex_lock(&loop->registry_lock);
    LIST_FOREACH(handler, &loop->handlers, link)
    {
        const struct rt_handler_stats stats = {
            .handler_id = handler->id,
            .fd = handler->fd,
            .role = handler->role,
            .device_id = handler->device_id,
            .queue_index = handler->queue_index,
            .can_poll = handler_can_poll(handler),
            .dispatches = total(&handler->dispatches),
            .idle_dispatches = total(&handler->idle_dispatches),
            .poll_dispatches = total(&handler->poll_dispatches),
        };
        visit(&stats, opaque);
    }
    pthread_mutex_unlock(&loop->registry_lock);
}

static void trace_sample(struct rt_loop *loop, void *opaque)
{
    struct rt_loop_stats stats;
    rt_loop_stats(loop, &stats);
    const struct rt_loop_sample_fields fields = {
        .loop_id = loop->id,
        .passes = stats.passes,
        .dispatches = stats.dispatches,
        .idle_dispatches = stats.idle_dispatches,
        .notifies = stats.notifies,
        .event_writes = stats.event_writes,
        .event_writes_while_polling = stats.event_writes_while_polling,
        .polls = stats.polls,
        .polls_useful = stats.polls_useful,
        .busy_ns = stats.busy_ns,
        .poll_ns = stats.poll_ns,
        .wait_ns = stats.wait_ns,
    };
    lttng_ust_tracepoint(rt_loop, sample, &fields);
    (void)fields;
}

static void trace_state(struct rt_loop *loop)
{
    struct phase_snapshot snapshot;
    read_phase(loop, &snapshot);
    bool waiting = snapshot.phase == LOOP_WAITING;
    /* What has run is read first: then what was handed in is never behind it. */
    uint64_t run = atomic_load_explicit(&loop->run, memory_order_acquire);
    uint64_t handed_in = total(&loop->published) + total(&loop->queued);
    uint32_t pending = handed_in > run ? (uint32_t)(handed_in - run) : 0;
    lttng_ust_tracepoint(rt_loop, state, loop->id,
                         atomic_load_explicit(&loop->notify_me, memory_order_relaxed),
                         atomic_load_explicit(&loop->notified, memory_order_relaxed), pending, waiting,
                         waiting ? snapshot.open_ns : 0, waiting ? snapshot.wait_timeout_ns : 0);
    (void)pending;
}

static void trace_everything(struct rt_loop *loop, void *opaque)
{
    int32_t thread_id = atomic_load_explicit(&loop->thread_id, memory_order_relaxed);
    lttng_ust_tracepoint(rt_loop, create, loop->id, loop->name, thread_id);
    pthread_mutex_lock(&loop->registry_lock);
    struct rt_handler *handler;
    LIST_FOREACH(handler, &loop->handlers, link)
    {
        lttng_ust_tracepoint(rt_loop, fd_attach, loop->id, handler->id, handler->fd, handler->role,
                             handler->device_id, handler->queue_index);
    }
    pthread_mutex_unlock(&loop->registry_lock);
    if (thread_id != 0)
        trace_state(loop);
    trace_sample(loop, opaque);
}

void rt_loop_trace_baseline(void)
{
    rt_loop_each(trace_everything, NULL);
}

void rt_loop_trace_samples(void)
{
    rt_loop_each(trace_sample, NULL);
}

/* ---- what holds the loop too long ---- */

void rt_loop_set_hog_limit(struct rt_loop *loop, int64_t limit_ns)
{
    atomic_store_explicit(&loop->hog_limit_ns, limit_ns, memory_order_relaxed);
}

/* One read after each handler, so a cheap one where ticks of some milliseconds will do. */
static int64_t hog_clock_ns(const struct rt_loop *loop)
{
    int64_t limit_ns = atomic_load_explicit(&loop->hog_limit_ns, memory_order_relaxed);
    if (limit_ns < HOG_COARSE_TICKS * loop->coarse_clock_ns)
        return rt_clock_ns();
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void hog_begin(struct rt_loop *loop)
{
    loop->hog_mark_ns = hog_clock_ns(loop);
}

void hog_check(struct rt_loop *loop, uint64_t handler_id)
{
    int64_t now_ns = hog_clock_ns(loop);
    int64_t duration_ns = now_ns - loop->hog_mark_ns;
    loop->hog_mark_ns = now_ns;
    if (duration_ns > atomic_load_explicit(&loop->hog_limit_ns, memory_order_relaxed))
        lttng_ust_tracepoint(rt_loop, hog, loop->id, handler_id, (uint64_t)duration_ns);
}
