/*
 * slow-requests: one request in a thousand takes longer than the limit; and which stage costs most.
 *
 * Judged for each device with enough requests, else for the process. Whether the 99.9th percentile lies above the limit is
 * counted exactly; histograms serve the text only.
 */
#include <inttypes.h>

#include "core/check.h"
#include "histogram/histogram.h"
#include "model/request.h"

static const enum event_id events[] = { EVENT_vblk_request_end, EVENT_COUNT };

enum stage { QUEUED, SERIALISING, BACKEND, COMPLETING, STAGES };

static const char *const stage_names[STAGES] = { "queued", "serialising", "backend", "completing" };

struct times {
    uint32_t device_id; /* 0: of all devices */
    uint64_t count, slow;
    uint64_t slow_stage_ns[STAGES]; /* sums over the slow ones */
    uint64_t stage_slow[STAGES];    /* requests that were over the limit in this stage alone */
    int64_t first_slow_ns, last_slow_ns;
    int64_t worst_ns, worst_end_ns;
    uint64_t worst_id;
    uint16_t worst_queue;
    struct histogram *total, *stages[STAGES];
};

struct slow {
    struct check_env *env;
    struct times all;
    GHashTable *devices; /* device_id -> struct times */
};

static void times_init(struct times *times, uint32_t device_id)
{
    times->device_id = device_id;
    times->total = histogram_create();
    for (unsigned i = 0; i < STAGES; i++)
        times->stages[i] = histogram_create();
}

static void times_deinit(struct times *times)
{
    histogram_destroy(times->total);
    for (unsigned i = 0; i < STAGES; i++)
        histogram_destroy(times->stages[i]);
}

static void times_free(void *data)
{
    times_deinit(data);
    g_free(data);
}

static void *create(struct check_env *env)
{
    struct slow *slow = g_new0(struct slow, 1);

    slow->env = env;
    times_init(&slow->all, 0);
    slow->devices = g_hash_table_new_full(NULL, NULL, NULL, times_free);
    return slow;
}

static void destroy(void *state)
{
    struct slow *slow = state;

    times_deinit(&slow->all);
    g_hash_table_destroy(slow->devices);
    g_free(slow);
}

static void add(const struct slow *slow, struct times *times, const struct request *request,
                const struct request_times *took, int64_t end_ns)
{
    const int64_t limit_ns = slow->env->options->slow_p999_ns;
    const int64_t stage_ns[STAGES] = { took->queued_ns, took->serialising_ns, took->backend_ns,
                                       took->completing_ns };
    const bool is_slow = took->total_ns > limit_ns;

    times->count++;
    histogram_add(times->total, took->total_ns);
    for (unsigned i = 0; i < STAGES; i++) {
        if (stage_ns[i] < 0)
            continue;
        histogram_add(times->stages[i], stage_ns[i]);
        times->stage_slow[i] += stage_ns[i] > limit_ns;
        if (is_slow)
            times->slow_stage_ns[i] += (uint64_t)stage_ns[i];
    }
    if (!is_slow)
        return;
    if (!times->slow++)
        times->first_slow_ns = request->begin_ns;
    times->last_slow_ns = end_ns;
    if (took->total_ns > times->worst_ns) {
        times->worst_ns = took->total_ns;
        times->worst_end_ns = end_ns;
        times->worst_id = request->id;
        times->worst_queue = request->queue_index;
    }
}

static void on_event(void *state, const struct occurrence *what)
{
    struct slow *slow = state;
    const struct request *request = what->request;
    struct request_times took;
    struct times *device;

    if (!request || !request->begin_seen)
        return;
    took = request_times(request, what->event->time_ns);
    device = g_hash_table_lookup(slow->devices, (void *)(uintptr_t)request->device_id);
    if (!device) {
        device = g_new0(struct times, 1);
        times_init(device, request->device_id);
        g_hash_table_insert(slow->devices, (void *)(uintptr_t)request->device_id, device);
    }
    add(slow, device, request, &took, what->event->time_ns);
    add(slow, &slow->all, request, &took, what->event->time_ns);
}

/* The value of rank ceil(0.999 n) is above the limit when more than n/1000 are. */
static bool is_breach(uint64_t above, uint64_t count)
{
    return above > count / 1000;
}

static void report(const struct slow *slow, const struct times *times)
{
    const struct check_env *env = slow->env;
    const struct process *process = env->process;
    struct finding *finding = finding_get(env, "slow-requests", "device %" PRIu32, times->device_id);
    const char *who = times->device_id ? device_text(process, times->device_id) : process_text(process);
    const double p999_ms = (double)histogram_quantile(times->total, 0.999) / 1e6;
    unsigned dearest = BACKEND;
    bool clean = true;

    for (unsigned i = 0; i < STAGES; i++) {
        if (times->slow_stage_ns[i] > times->slow_stage_ns[dearest])
            dearest = i;
        clean &= i == BACKEND || !is_breach(times->stage_slow[i], times->count);
    }
    finding_raise(finding, SEVERITY_WARNING);
    finding_span(finding, times->first_slow_ns, times->last_slow_ns);
    finding_add_count(finding, times->slow);
    if (times->device_id)
        finding_subject_device(finding, process, times->device_id);
    finding_cause(finding, "%s", stage_names[dearest]);
    finding_summary(finding,
                    "%" PRIu64 " of %" PRIu64
                    " requests of %s took longer than %.0f ms (p99.9: %.0f ms); most of it in stage "
                    "%s%s",
                    times->slow, times->count, who, (double)env->options->slow_p999_ns / 1e6, p999_ms,
                    stage_names[dearest], dearest == BACKEND && clean ? ": the device itself is clean" : "");
    finding_evidence(finding, times->worst_end_ns, EVENT_vblk_request_end,
                     "the slowest: request %" PRIu64 " of queue %" PRIu16 ", %.1f ms", times->worst_id,
                     times->worst_queue, (double)times->worst_ns / 1e6);
    for (unsigned i = 0; i < STAGES; i++)
        if (histogram_count(times->stages[i]) && histogram_sum(times->stages[i]))
            finding_note(finding, times->last_slow_ns, "stage times",
                         "%s: p50 %.3f ms, p99.9 %.3f ms, %.0f %% of the time of slow requests",
                         stage_names[i], (double)histogram_quantile(times->stages[i], 0.5) / 1e6,
                         (double)histogram_quantile(times->stages[i], 0.999) / 1e6,
                         100.0 * (double)times->slow_stage_ns[i] /
                             (double)MAX(times->slow_stage_ns[QUEUED] + times->slow_stage_ns[SERIALISING] +
                                             times->slow_stage_ns[BACKEND] + times->slow_stage_ns[COMPLETING],
                                         1));
    switch (dearest) {
    case BACKEND:
        finding_advice(
            finding,
            "The time goes by below the device: look at the disk, its file system or the network (iostat, "
            "the storage's own latency), not at the device%s.",
            clean ? "" : ", although other stages are slow as well");
        break;
    case SERIALISING:
        finding_advice(
            finding,
            "Requests wait for overlapping ones: align the guest's writes to the disk's block size, or "
            "spread discards and write-zeroes.");
        break;
    case COMPLETING:
        finding_advice(finding,
                       "The disk has answered, the loop reports it late: look for loop-hog, late-wakeup and "
                       "lock-contention of the queue's loop.");
        break;
    default:
        finding_advice(
            finding,
            "Requests wait before they are handed to the disk: look for lock-contention, pool-thrash and "
            "loop-hog, or give the device more IOThreads.");
    }
}

static gint by_device(const void *a, const void *b)
{
    const struct times *x = a, *y = b;

    return x->device_id < y->device_id ? -1 : x->device_id > y->device_id;
}

static void finish(void *state)
{
    const struct slow *slow = state;
    const uint64_t enough = MAX(slow->env->options->slow_requests_min, 1);
    GList *devices = g_list_sort(g_hash_table_get_values(slow->devices), by_device);
    bool any = false;

    for (GList *link = devices; link; link = link->next) {
        const struct times *times = link->data;

        if (times->count < enough)
            continue;
        any = true;
        if (is_breach(times->slow, times->count))
            report(slow, times);
    }
    g_list_free(devices);
    if (!any && slow->all.count >= enough && is_breach(slow->all.slow, slow->all.count))
        report(slow, &slow->all);
}

const struct check_class check_slow_requests = {
    .ids = { "slow-requests" },
    .needs = NEEDS(SET_REQUEST),
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
