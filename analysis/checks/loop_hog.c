/*
 * loop-hog: one handler held a loop longer than the limit. The loop says so itself; its own limit may be a lower one.
 * Who waited: requests in flight in that loop, and those that it took up in the next passes.
 */
#include <inttypes.h>

#include "core/check.h"
#include "model/request.h"

static const enum event_id events[] = { EVENT_rt_loop_hog, EVENT_rt_loop_wait_begin, EVENT_rt_loop_destroy,
                                        EVENT_vblk_request_begin, EVENT_COUNT };

/* What waited in the rings is taken up in the rest of this pass and in the next one. */
#define PASSES_AFTER 2

struct hog {
    uint32_t loop_id;
    uint64_t handler_id;
    struct handler handler; /* as it was; role unknown: not known */
    uint64_t count;
    int64_t begin_ns, end_ns; /* from the first to the last */
    int64_t longest_ns, longest_end_ns;
    uint64_t total_ns;
    uint64_t in_flight; /* that waited, at the longest */
    int64_t oldest_ns;  /* the oldest of them had begun so long before its end */
    uint64_t oldest_id;
    uint64_t taken_up; /* right after the longest */
    unsigned passes_left;
};

struct hogs {
    struct check_env *env;
    GArray *hogs;      /* struct hog; few: one a handler that ever held its loop */
    unsigned counting; /* how many have passes left */
};

static void *create(struct check_env *env)
{
    struct hogs *hogs = g_new0(struct hogs, 1);

    hogs->env = env;
    hogs->hogs = g_array_new(FALSE, FALSE, sizeof(struct hog));
    return hogs;
}

static void destroy(void *state)
{
    struct hogs *hogs = state;

    g_array_free(hogs->hogs, TRUE);
    g_free(hogs);
}

static struct hog *need_hog(struct hogs *hogs, const struct occurrence *what)
{
    const uint64_t handler_id = what->event->fields.rt_loop_hog.handler_id;
    struct hog hog = { .loop_id = what->loop->id, .handler_id = handler_id, .begin_ns = INT64_MAX };

    for (unsigned i = 0; i < hogs->hogs->len; i++) {
        struct hog *known = &g_array_index(hogs->hogs, struct hog, i);

        if (known->loop_id == hog.loop_id && known->handler_id == handler_id)
            return known;
    }
    hog.handler.role = ROLE_UNKNOWN;
    if (what->handler)
        hog.handler = *what->handler;
    g_array_append_val(hogs->hogs, hog);
    return &g_array_index(hogs->hogs, struct hog, hogs->hogs->len - 1);
}

static void count_in_flight(struct hog *hog, const struct occurrence *what)
{
    GHashTableIter iter;
    void *value;

    hog->in_flight = hog->oldest_id = 0;
    hog->oldest_ns = 0;
    g_hash_table_iter_init(&iter, what->process->requests);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct request *request = value;
        const int64_t age_ns = what->event->time_ns - request->begin_ns;

        if (request->loop_id != what->loop->id)
            continue;
        hog->in_flight++;
        if (age_ns > hog->oldest_ns || (age_ns == hog->oldest_ns && request->id < hog->oldest_id)) {
            hog->oldest_ns = age_ns;
            hog->oldest_id = request->id;
        }
    }
}

static void held(struct hogs *hogs, const struct occurrence *what)
{
    const int64_t duration_ns = (int64_t)what->event->fields.rt_loop_hog.duration_ns;
    struct hog *hog;

    if (!what->loop || duration_ns <= hogs->env->options->loop_hog_ns)
        return;
    hog = need_hog(hogs, what);
    hog->count++;
    hog->total_ns += (uint64_t)duration_ns;
    hog->begin_ns = MIN(hog->begin_ns, what->event->time_ns - duration_ns);
    hog->end_ns = what->event->time_ns;
    if (duration_ns <= hog->longest_ns)
        return;
    hog->longest_ns = duration_ns;
    hog->longest_end_ns = what->event->time_ns;
    hog->taken_up = 0;
    hogs->counting += !hog->passes_left;
    hog->passes_left = PASSES_AFTER;
    count_in_flight(hog, what);
}

static void on_event(void *state, const struct occurrence *what)
{
    struct hogs *hogs = state;

    if (what->event->id == EVENT_rt_loop_hog) {
        held(hogs, what);
        return;
    }
    if (!hogs->counting || !what->loop)
        return;
    for (unsigned i = 0; i < hogs->hogs->len; i++) {
        struct hog *hog = &g_array_index(hogs->hogs, struct hog, i);

        if (!hog->passes_left || hog->loop_id != what->loop->id)
            continue;
        if (what->event->id == EVENT_vblk_request_begin)
            hog->taken_up++;
        else if (what->event->id == EVENT_rt_loop_destroy)
            hog->passes_left = 0;
        else
            hog->passes_left--;
        hogs->counting -= !hog->passes_left;
    }
}

static void describe(const struct process *process, const struct hog *hog, char *text_out, size_t size)
{
    const struct handler *handler = &hog->handler;

    if (!hog->handler_id)
        g_snprintf(text_out, size, process->dialect ? "a coroutine" : "published work or a timer");
    else if (handler->role == ROLE_HOST_NOTIFIER)
        g_snprintf(text_out, size, "handler %" PRIu64 " (queue %" PRIu16 " of %s)", hog->handler_id,
                   handler->queue_index, device_text(process, handler->device_id));
    else
        g_snprintf(text_out, size, "handler %" PRIu64 " (%s)", hog->handler_id, role_text(handler->role));
}

static void report(const struct check_env *env, const struct hog *hog)
{
    const struct process *process = env->process;
    const char *loop = loop_text(process, hog->loop_id);
    const double longest_ms = (double)hog->longest_ns / 1e6;
    struct finding *finding =
        finding_get(env, "loop-hog", "loop %" PRIu32 " handler %" PRIu64, hog->loop_id, hog->handler_id);
    char who[128], waited[96] = "";

    describe(process, hog, who, sizeof(who));
    finding_raise(finding, SEVERITY_WARNING);
    finding_span(finding, hog->begin_ns, hog->end_ns);
    finding_add_count(finding, hog->count);
    finding_subject_loop(finding, process, hog->loop_id);
    finding_subject(finding, "handler_id", json_integer((json_int_t)hog->handler_id));
    if (hog->handler_id && hog->handler.role != ROLE_UNKNOWN)
        finding_subject_handler(finding, process, &hog->handler);
    if (hog->count == 1)
        finding_evidence(finding, hog->longest_end_ns, EVENT_rt_loop_hog, "%s held %s for %.3f ms", who, loop, longest_ms);
    else
        finding_evidence(finding, hog->longest_end_ns, EVENT_rt_loop_hog,
                         "%s held %s for %.3f ms, the longest of %" PRIu64 " times, %.3f ms in all", who, loop,
                         longest_ms, hog->count, (double)hog->total_ns / 1e6);
    if (process_records(process, SET_REQUEST)) {
        if (hog->in_flight)
            finding_evidence(finding, hog->longest_end_ns, EVENT_vblk_request_begin,
                             "%" PRIu64
                             " requests were in flight in %s at that time, the oldest (request %" PRIu64
                             ") for %.3f ms",
                             hog->in_flight, loop, hog->oldest_id, (double)hog->oldest_ns / 1e6);
        if (hog->taken_up)
            finding_evidence(finding, hog->longest_end_ns, EVENT_vblk_request_begin,
                             "%s took up %" PRIu64
                             " requests right afterwards, which may have waited in the ring",
                             loop, hog->taken_up);
        g_snprintf(waited, sizeof(waited), "; %" PRIu64 " requests in flight and %" PRIu64 " new ones waited",
                   hog->in_flight, hog->taken_up);
    }
    finding_summary(finding, "%s held %s for up to %.3f ms (%" PRIu64 " time%s longer than %.0f ms)%s", who,
                    loop, longest_ms, hog->count, hog->count == 1 ? "" : "s",
                    (double)env->options->loop_hog_ns / 1e6, waited);
    finding_advice(
        finding,
        "Everything else in this loop stands still meanwhile. Split the work over several passes, do what "
        "blocks in a thread, or give its device a loop of its own. What counts is time on the wall: if the machine had "
        "more to run than processors, the thread may only have waited for one (--loop-hog=TIME sets the limit).");
}

static void finish(void *state)
{
    const struct hogs *hogs = state;

    for (unsigned i = 0; i < hogs->hogs->len; i++)
        report(hogs->env, &g_array_index(hogs->hogs, struct hog, i));
}

const struct check_class check_loop_hog = {
    .ids = { "loop-hog" },
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
