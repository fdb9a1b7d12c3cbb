/*
 * stuck-request: a request began and nobody finished it while the program went on.
 *
 * Decided at the end, from the requests that are still in flight: how long, up to the last event of the process, and in
 * which stage. Not stuck: what was in flight at a restart (lost-request judges that), and what a front end left behind.
 * Without the set request, vblk_request:slow tells of those that are open.
 */
#include <inttypes.h>
#include <string.h>

#include "core/check.h"
#include "model/request.h"
#include "model/successor.h"

/* In full up to here; of the others, which are younger, the last one tells how many. */
#define FINDINGS_MAX 64
/* Edges of a chain that are followed; a longer one ends in "and so on". */
#define CHAIN_MAX 32
#define WAITS_KEPT 1024

static const enum event_id events[] = { EVENT_vblk_request_serialise_wait, EVENT_COUNT };

/* serialise_wait without the request's begin: the latest ones. */
struct wait {
    uint64_t request_id, blocking_id;
    int64_t time_ns;
};

struct stuck {
    struct check_env *env;
    struct wait waits[WAITS_KEPT];
    uint64_t wait_count;
};

static void *create(struct check_env *env)
{
    struct stuck *stuck = g_new0(struct stuck, 1);

    stuck->env = env;
    return stuck;
}

static void on_event(void *state, const struct occurrence *what)
{
    struct stuck *stuck = state;
    const union event_fields *f = &what->event->fields;

    if (what->request)
        return;
    stuck->waits[stuck->wait_count++ % WAITS_KEPT] =
        (struct wait){ .request_id = f->vblk_request_serialise_wait.request_id,
                       .blocking_id = f->vblk_request_serialise_wait.blocking_request_id,
                       .time_ns = what->event->time_ns };
}

/* Whom it waits for; 0: for no request. */
static uint64_t blocker_of(const struct stuck *stuck, const struct request *request, int64_t *since_ns_out)
{
    const uint64_t kept = MIN(stuck->wait_count, WAITS_KEPT);

    if (request_stage(request) != REQUEST_SERIALISING)
        return 0;
    if (request->blocking_id) {
        *since_ns_out = request->blocked_ns;
        return request->blocking_id;
    }
    for (uint64_t i = 1; i <= kept; i++) {
        const struct wait *wait = &stuck->waits[(stuck->wait_count - i) % WAITS_KEPT];

        if (wait->request_id == request->id) {
            *since_ns_out = wait->time_ns;
            return wait->blocking_id;
        }
    }
    return 0;
}

static bool is_stuck(const struct check_env *env, const struct request *request)
{
    const struct process *process = env->process;
    const struct device *device = process_device(process, request->device_id);
    struct device *successor;

    if (process->last_ns - request->begin_ns <= env->options->stuck_request_ns)
        return false;
    if ((request->begin_seen || !request->slow_ns) && !process_declares(process, EVENT_vblk_request_end))
        return false; /* nobody would say that it ended */
    if (request->restart_ns || device_successor(process, device, &successor))
        return !check_judges(env, "lost-request");
    return !device || !(device->gone || device->connected == 0);
}

/* After the losses a sample of its queue found nothing in flight: its end is among what was lost. */
static bool is_known_to_be_over(const struct process *process, const struct request *request,
                                const struct loss *loss)
{
    const struct queue *queue =
        device_queue(process_device(process, request->device_id), request->queue_index);

    return queue && queue->last.valid && queue->last.time_ns > loss->begin_ns &&
           !queue->last.fields.vblk_queue_sample.in_flight;
}

/* Who would have ended it: the thread that began it, or the one that has its queue now. */
static bool end_may_be_lost(const struct process *process, const struct request *request,
                            struct loss *loss_out)
{
    const struct queue *queue =
        device_queue(process_device(process, request->device_id), request->queue_index);
    const struct loop *owner = queue && queue->owner_loop ? process_loop(process, queue->owner_loop) : NULL;
    const enum event_id missing =
        process_records(process, SET_REQUEST) ? EVENT_vblk_request_end : EVENT_vblk_request_slow;

    return loss_hides(process, request->vtid, missing, request->seen_ns, process->last_ns, loss_out) ||
           (owner && loop_vtid(owner) != request->vtid &&
            loss_hides(process, loop_vtid(owner), missing, request->seen_ns, process->last_ns, loss_out));
}

/* "request 7 (write, queue 0 of disk), which sits in backend" and on to whom that waits for. */
static void describe_chain(const struct stuck *stuck, const struct request *request, GString *text,
                           bool *cycle_out)
{
    const struct process *process = stuck->env->process;
    uint64_t visited[CHAIN_MAX];
    unsigned count = 0;
    int64_t since_ns;

    *cycle_out = false;
    for (;;) {
        const uint64_t blocking_id = blocker_of(stuck, request, &since_ns);
        const struct request *blocking = blocking_id ? process_request(process, blocking_id) : NULL;

        visited[count++] = request->id;
        if (!blocking_id) {
            g_string_append_printf(text, "request %" PRIu64 " (%s, queue %" PRIu16 ") sits in stage %s",
                                   request->id, request_type_text(request->type), request->queue_index,
                                   request_stage_text(request_stage(request)));
            return;
        }
        g_string_append_printf(
            text, "request %" PRIu64 " (%s, queue %" PRIu16 ") waits for request %" PRIu64 ", ", request->id,
            request_type_text(request->type), request->queue_index, blocking_id);
        if (!blocking) {
            g_string_append(text, "which is not in flight any more as far as was recorded");
            return;
        }
        for (unsigned i = 0; i < count; i++) {
            if (visited[i] == blocking_id) {
                g_string_append(text, "which closes a cycle: none of them can go on");
                *cycle_out = true;
                return;
            }
        }
        if (count == CHAIN_MAX) {
            g_string_append(text, "and so on");
            return;
        }
        request = blocking;
    }
}

static void tell_life(struct finding *finding, const struct stuck *stuck, const struct request *request)
{
    const struct process *process = stuck->env->process;
    int64_t since_ns = 0;
    const uint64_t blocking_id = blocker_of(stuck, request, &since_ns);

    if (request->begin_seen)
        finding_evidence(finding, request->begin_ns, EVENT_vblk_request_begin,
                         "%s takes request %" PRIu64 " (%s) from queue %" PRIu16 " of %s%s",
                         thread_text(process, request->vtid), request->id, request_type_text(request->type),
                         request->queue_index, device_text(process, request->device_id),
                         request->recovered ? ", resubmitted after a restart" : "");
    if (blocking_id)
        finding_evidence(finding, since_ns, EVENT_vblk_request_serialise_wait,
                         "it waits for request %" PRIu64 ", which overlaps", blocking_id);
    if (request->submit_ns)
        finding_evidence(finding, request->submit_ns, EVENT_vblk_request_submit,
                         "it is handed to the backend");
    if (request->complete_ns)
        finding_evidence(finding, request->complete_ns, EVENT_vblk_request_complete,
                         "the backend has answered");
    if (request->slow_ns)
        finding_evidence(
            finding, request->slow_ns, EVENT_vblk_request_slow, "%s open for %.1f s, in stage %s",
            request->begin_seen ? "it is" : "a request that began earlier is",
            (double)(request->slow_ns - request->begin_ns) / 1e9, request_stage_text(request->slow_stage));
    finding_note(finding, process->last_ns, "end of the process's trace",
                 "it is still in flight, after %.1f s", (double)(process->last_ns - request->begin_ns) / 1e9);
}

static void advise(struct finding *finding, enum request_stage stage, bool cycle)
{
    if (cycle)
        finding_advice(
            finding, "Requests wait for each other: the order in which overlapping requests are inserted and "
                     "looked for is broken. Only a restart of the device helps.");
    else if (stage == REQUEST_BACKEND)
        finding_advice(
            finding, "The device is waiting for its disk: look at the file system, the block device below or "
                     "the network there (dmesg, iostat, /proc/PID/stack).");
    else if (stage == REQUEST_SERIALISING)
        finding_advice(
            finding,
            "Look at the request at the end of the chain: all others wait for it. If it is over, its "
            "waiters were not woken.");
    else if (stage == REQUEST_COMPLETING)
        finding_advice(
            finding,
            "The disk has answered, the device did not report it: look for findings about the queue's "
            "loop (lost-wakeup, lock-across-yield, loop-hog).");
    else
        finding_advice(
            finding,
            "It was taken from the ring and never handed to the disk: look for findings about its loop "
            "and its locks (lost-wakeup, lock-across-yield, drain-order).");
}

static void report(const struct stuck *stuck, const struct request *request, uint64_t others)
{
    const struct process *process = stuck->env->process;
    struct finding *finding = finding_get(stuck->env, "stuck-request", "request %" PRIu64, request->id);
    const enum request_stage stage = request_stage(request);
    GString *chain = g_string_new(NULL);
    bool cycle;

    describe_chain(stuck, request, chain, &cycle);
    finding_raise(finding, SEVERITY_ERROR);
    finding_span(finding, request->begin_ns, process->last_ns);
    finding_add_count(finding, 1 + others);
    finding_subject_queue(finding, process, request->device_id, request->queue_index);
    finding_subject(finding, "request_id", json_integer((json_int_t)request->id));
    finding_subject(finding, "stage", json_string(request_stage_text(stage)));
    finding_cause(finding, "%s", cycle ? "cycle" : request_stage_text(stage));
    finding_summary(
        finding, "request %" PRIu64 " (%s) of queue %" PRIu16 " of %s is stuck for %.1f s, in stage %s%s%s",
        request->id, request_type_text(request->type), request->queue_index,
        device_text(process, request->device_id), (double)(process->last_ns - request->begin_ns) / 1e9,
        request_stage_text(stage), stage == REQUEST_SERIALISING ? ": " : "",
        stage == REQUEST_SERIALISING ? chain->str : "");
    tell_life(finding, stuck, request);
    if (stage == REQUEST_SERIALISING)
        finding_note(finding, process->last_ns, "chain of waits", "%s", chain->str);
    if (others)
        finding_note(finding, process->last_ns, "others", "%" PRIu64 " younger requests are stuck, too",
                     others);
    advise(finding, stage, cycle);
    g_string_free(chain, TRUE);
}

static gint by_age(const void *a, const void *b)
{
    const struct request *x = *(struct request *const *)a, *y = *(struct request *const *)b;

    if (x->begin_ns != y->begin_ns)
        return x->begin_ns < y->begin_ns ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void tell_unsure(const struct check_env *env, const GPtrArray *unsure, const struct loss *loss)
{
    const struct request *oldest = g_ptr_array_index(unsure, 0);

    inconclusive(env, "stuck-request", oldest->begin_ns, env->process->last_ns,
                 "%u request%s did not end as far as was recorded (the oldest: request %" PRIu64
                 " of queue %" PRIu16 " of %s), but the end may be among the events that were lost from %.6f "
                                      "s after the beginning of the trace on",
                 unsure->len, unsure->len > 1 ? "s" : "", oldest->id, oldest->queue_index,
                 device_text(env->process, oldest->device_id),
                 (double)(loss->begin_ns - analysis_begin_ns(env->analysis)) / 1e9);
}

static void finish(void *state)
{
    const struct stuck *stuck = state;
    const struct check_env *env = stuck->env;
    GPtrArray *sure = g_ptr_array_new(), *unsure = g_ptr_array_new();
    struct loss loss, first = { .begin_ns = INT64_MAX };
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, env->process->requests);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct request *request = value;

        if (!is_stuck(env, request))
            continue;
        if (!end_may_be_lost(env->process, request, &loss)) {
            g_ptr_array_add(sure, request);
        } else if (!is_known_to_be_over(env->process, request, &loss)) {
            g_ptr_array_add(unsure, request);
            if (loss.begin_ns < first.begin_ns)
                first = loss;
        }
    }
    g_ptr_array_sort(sure, by_age);
    g_ptr_array_sort(unsure, by_age);
    for (unsigned i = 0; i < MIN(sure->len, FINDINGS_MAX); i++)
        report(stuck, g_ptr_array_index(sure, i), i + 1 == FINDINGS_MAX ? sure->len - FINDINGS_MAX : 0);
    if (unsure->len)
        tell_unsure(env, unsure, &first);
    g_ptr_array_free(sure, TRUE);
    g_ptr_array_free(unsure, TRUE);
}

const struct check_class check_stuck_request = {
    .ids = { "stuck-request" },
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = g_free,
};
