#include "rt/process.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lock/lock_internal.h"
#include "pool/pool_internal.h"
#include "process/vma.h"
#include "rt/loop.h"
#include "rt/pool.h"
#include "tracepoints/load.h"
#include "tracepoints/process.h"

#define CONTRACT_VERSION 1 /* of the trace's events and fields; tracepoints/README.md */
#define SAMPLE_PERIOD_NS INT64_C(1000000000)
#define NS_PER_MS 1000000

static struct {
    struct rt_process_options options;
    pthread_t sampler;
    bool running;
    _Atomic int event_fd; /* one more than the descriptor; 0: none */
    _Atomic bool baseline_wanted, quit;
    uint32_t baseline_serial; /* sampler only */

    pthread_mutex_t sources_lock; /* held while a source is called */
    struct rt_process_source *sources, **last_source;
} process = {
    .sources_lock = PTHREAD_MUTEX_INITIALIZER,
    .last_source = &process.sources,
};

static void wake_sampler(void)
{
    int fd = atomic_load_explicit(&process.event_fd, memory_order_relaxed) - 1;
    int saved_errno = errno;

    if (fd >= 0)
        (void)eventfd_write(fd, 1); /* fails only when 2^64-2 wake-ups are pending: it wakes anyway */
    errno = saved_errno;
}

/* From a signal handler, or from lttng-ust's thread with its lock held: no more than this. */
void rt_process_request_baseline(void)
{
    atomic_store(&process.baseline_wanted, true);
    wake_sampler();
}

static void session_started(void *opaque)
{
    rt_process_request_baseline();
}

/* ---- what is emitted ---- */

static void trace_info(void)
{
    struct rt_stack_facts facts;

    if (!lttng_ust_tracepoint_enabled(rt_process, info))
        return;
    rt_stack_facts(&facts);
    lttng_ust_tracepoint(rt_process, info,
                         &(struct rt_process_info_fields){
                             .version = process.options.version,
                             .max_map_count = facts.max_map_count,
                             .stack_bytes = facts.stack_bytes,
                             .batch_size = RT_POOL_BATCH_SIZE,
                             .pool_policy = rt_pool_policy_name(rt_pool_policy()),
                             .notify_policy = rt_notify_policy_name(),
                             .request_lock = process.options.request_lock,
                             .stack_guard = facts.guard_name,
                             .loop_monitor = rt_loop_monitor_name(),
                             .faults = process.options.faults,
                             .mappings_per_1000_stacks = facts.mappings_per_1000_stacks,
                             .contract_version = CONTRACT_VERSION,
                         });
}

static void trace_mappings(void)
{
    struct rt_pool_global_stats stats;

    if (!lttng_ust_tracepoint_enabled(rt_process, vma_sample))
        return;
    rt_pool_global_stats(&stats);
    lttng_ust_tracepoint(rt_process, vma_sample, rt_process_vma_count(), rt_vma_limit(), stats.stack_count,
                         stats.stack_vma_count, stats.live_count);
}

enum occasion { BASELINE, SAMPLE };

static void call_sources(enum occasion occasion)
{
    pthread_mutex_lock(&process.sources_lock);
    for (struct rt_process_source *source = process.sources; source; source = source->next) {
        void (*callback)(void *opaque) = occasion == BASELINE ? source->baseline : source->sample;

        if (callback)
            callback(source->opaque);
    }
    pthread_mutex_unlock(&process.sources_lock);
}

static void trace_baseline(void)
{
    uint32_t serial = ++process.baseline_serial;

    lttng_ust_tracepoint(rt_process, baseline_begin, serial);
    trace_info();
    rt_loop_trace_baseline();
    call_sources(BASELINE);
    trace_mappings();
    rt_pool_trace_samples();
    rt_lock_trace_baseline();
    lttng_ust_tracepoint(rt_process, baseline_end, serial);
}

static void trace_samples(void)
{
    rt_loop_trace_samples();
    call_sources(SAMPLE);
    trace_mappings();
    rt_pool_trace_samples();
    rt_lock_trace_samples();
}

/* ---- the sampler ---- */

static void wait_until(int64_t deadline_ns)
{
    struct pollfd event = { .fd = atomic_load(&process.event_fd) - 1, .events = POLLIN };
    int64_t left_ns = deadline_ns - rt_clock_ns();
    eventfd_t count;

    if (left_ns > 0 && poll(&event, 1, (int)((left_ns + NS_PER_MS - 1) / NS_PER_MS)) > 0)
        (void)eventfd_read(event.fd, &count);
}

static void *run_sampler(void *opaque)
{
    int64_t next_ns = rt_clock_ns() + SAMPLE_PERIOD_NS;

    pthread_setname_np(pthread_self(), "sampler");
    while (!atomic_load(&process.quit)) {
        if (atomic_exchange(&process.baseline_wanted, false))
            trace_baseline();
        if (rt_clock_ns() >= next_ns) {
            trace_samples();
            rt_pool_trim(RT_POOL_IDLE_MS);
            /* A sample that is late, in a suspended machine say, is not made up for. */
            do
                next_ns += SAMPLE_PERIOD_NS;
            while (next_ns <= rt_clock_ns());
        }
        wait_until(next_ns);
    }
    trace_samples();
    return NULL;
}

int rt_process_start(const struct rt_process_options *options)
{
    sigset_t all, before;
    int fd, error;

    assert(!process.running);
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    process.options = *options;
    atomic_store(&process.quit, false);
    atomic_store(&process.event_fd, fd + 1);

    /* One baseline in any case: lttng-ust announces no session that was active before. */
    if (options->tracing)
        (void)tracepoints_load(session_started, NULL); /* rt_process_tracing_reason() tells */
    atomic_store(&process.baseline_wanted, true);

    /* The program's signals are for its own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&process.sampler, NULL, run_sampler, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        tracepoints_ignore_sessions();
        atomic_store(&process.event_fd, 0);
        close(fd);
        return -error;
    }
    process.running = true;
    return 0;
}

void rt_process_stop(void)
{
    int fd;

    if (!process.running)
        return;
    tracepoints_ignore_sessions();
    atomic_store(&process.quit, true);
    wake_sampler();
    pthread_join(process.sampler, NULL);
    fd = atomic_exchange(&process.event_fd, 0) - 1;
    close(fd);
    process.running = false;
}

const char *rt_process_tracing_reason(void)
{
    if (tracepoints_loaded())
        return NULL;
    return tracepoints_load_reason() ? tracepoints_load_reason() : "tracing was turned off when the process started";
}

void rt_process_add_source(struct rt_process_source *source)
{
    pthread_mutex_lock(&process.sources_lock);
    source->next = NULL;
    *process.last_source = source;
    process.last_source = &source->next;
    pthread_mutex_unlock(&process.sources_lock);
}

void rt_process_remove_source(struct rt_process_source *source)
{
    struct rt_process_source **at = &process.sources;

    pthread_mutex_lock(&process.sources_lock);
    while (*at && *at != source)
        at = &(*at)->next;
    assert(*at && "this source was never added");
    *at = source->next;
    if (process.last_source == &source->next)
        process.last_source = at;
    pthread_mutex_unlock(&process.sources_lock);
}
