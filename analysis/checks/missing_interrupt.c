/*
 * missing-interrupt: requests were completed and the driver was not told.
 *
 * An interrupt, sent or suppressed at the driver's wish, covers everything that its queue completed before. A queue that is
 * stopped owes none any more: the next start begins anew. Whether a suppressed one was suppressed rightly is not seen here.
 */
#include <inttypes.h>

#include "core/check.h"
#include "model/request.h"

static const enum event_id events[] = { EVENT_vblk_request_end,
                                        EVENT_vblk_queue_interrupt,
                                        EVENT_vblk_queue_broken,
                                        EVENT_vblk_dataplane_state,
                                        EVENT_vblk_dataplane_notifier_release,
                                        EVENT_vblk_dataplane_device_destroy,
                                        EVENT_vhost_user_disconnect,
                                        EVENT_COUNT };

/* Of one queue: losses are all known only at the end, and may hide the interrupt of one and not of another. */
#define BREACHES_KEPT 16

struct breach {
    int64_t since_ns,
        until_ns; /* from the oldest uncovered end to the interrupt, if late; INT64_MAX: none came */
    int64_t vtid;
    uint64_t first_request, count;
};

struct queue_state {
    uint32_t device_id;
    uint16_t queue_index;
    uint64_t owed; /* completed and not covered */
    uint64_t first_request;
    int64_t since_ns, last_ns; /* the oldest and the youngest of them */
    int64_t vtid;
    struct breach breaches[BREACHES_KEPT];
    unsigned breach_count;
    uint64_t later_count; /* requests of breaches that were not kept */
    int64_t later_ns;
};

struct missing {
    struct check_env *env;
    GHashTable *queues;
};

static void *create(struct check_env *env)
{
    struct missing *missing = g_new0(struct missing, 1);

    missing->env = env;
    missing->queues = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return missing;
}

static void destroy(void *state)
{
    struct missing *missing = state;

    g_hash_table_destroy(missing->queues);
    g_free(missing);
}

static void *key_of(uint32_t device_id, uint16_t queue_index)
{
    return (void *)(uintptr_t)((uint64_t)device_id << 16 | queue_index);
}

/* What is owed at @now_ns is not owed any longer: was it for too long? */
static void settle(struct missing *missing, struct queue_state *queue, int64_t now_ns, bool by_interrupt)
{
    if (queue->owed && now_ns - queue->since_ns > missing->env->options->deferred_interrupt_ns) {
        if (queue->breach_count < BREACHES_KEPT) {
            queue->breaches[queue->breach_count++] =
                (struct breach){ .since_ns = queue->since_ns,
                                 .until_ns = by_interrupt ? now_ns : INT64_MAX,
                                 .vtid = queue->vtid,
                                 .first_request = queue->first_request,
                                 .count = queue->owed };
        } else {
            queue->later_count += queue->owed;
            queue->later_ns = now_ns;
        }
    }
    queue->owed = 0;
}

static void settle_device(struct missing *missing, uint32_t device_id, int64_t now_ns)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, missing->queues);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct queue_state *queue = value;

        if (queue->device_id == device_id)
            settle(missing, queue, now_ns, false);
    }
}

/* A request that outlives its device's stop, its front end or its ring completes with nobody there to be told. */
static bool nobody_waits(const struct process *process, const struct request *request)
{
    const struct device *device = process_device(process, request->device_id);
    const struct queue *queue = device_queue(device, request->queue_index);

    return (device &&
            (device->state == STATE_STOPPED || device->state == STATE_FAILED || !device->connected)) ||
           (queue && queue->broken);
}

static void completed(struct missing *missing, const struct occurrence *what)
{
    const struct request *request = what->request;
    struct queue_state *queue;

    if (!request || nobody_waits(what->process, request))
        return; /* of which queue is not known, or nothing is owed */
    queue = g_hash_table_lookup(missing->queues, key_of(request->device_id, request->queue_index));
    if (!queue) {
        queue = g_new0(struct queue_state, 1);
        queue->device_id = request->device_id;
        queue->queue_index = request->queue_index;
        g_hash_table_insert(missing->queues, key_of(request->device_id, request->queue_index), queue);
    }
    if (!queue->owed++) {
        queue->since_ns = what->event->time_ns;
        queue->first_request = request->id;
        queue->vtid = what->event->vtid;
    }
    queue->last_ns = what->event->time_ns;
}

static void on_event(void *state, const struct occurrence *what)
{
    struct missing *missing = state;
    const struct event *event = what->event;
    struct queue_state *queue;

    switch (event->id) {
    case EVENT_vblk_request_end:
        completed(missing, what);
        return;
    case EVENT_vblk_queue_interrupt:
    case EVENT_vblk_queue_broken:
    case EVENT_vblk_dataplane_notifier_release:
        queue = what->queue
                    ? g_hash_table_lookup(missing->queues, key_of(what->device->id, what->queue->index))
                    : NULL;
        if (queue)
            settle(missing, queue, event->time_ns, event->id == EVENT_vblk_queue_interrupt);
        return;
    case EVENT_vblk_dataplane_state:
        if (what->device && (what->device->state == STATE_STOPPED || what->device->state == STATE_FAILED))
            settle_device(missing, what->device->id, event->time_ns);
        return;
    default:
        if (what->device)
            settle_device(missing, what->device->id, event->time_ns);
    }
}

static void report(const struct missing *missing, const struct queue_state *queue,
                   const struct breach *breach)
{
    const struct check_env *env = missing->env;
    const struct process *process = env->process;
    struct finding *finding = finding_get(env, "missing-interrupt", "device %" PRIu32 " queue %" PRIu16,
                                          queue->device_id, queue->queue_index);
    const bool late = breach->until_ns != INT64_MAX;

    finding_raise(finding, SEVERITY_ERROR);
    finding_span(finding, breach->since_ns,
                 late ? breach->until_ns
                      : MIN(breach->since_ns + env->options->deferred_interrupt_ns, process->last_ns));
    finding_add_count(finding, breach->count);
    finding_evidence(finding, breach->since_ns, EVENT_vblk_request_end,
                     "%s completes request %" PRIu64 " of queue %" PRIu16
                     " of %s; neither a sent nor a suppressed interrupt "
                     "follows within %.3f s (%" PRIu64 " request%s)",
                     thread_text(process, breach->vtid), breach->first_request, queue->queue_index,
                     device_text(process, queue->device_id),
                     (double)env->options->deferred_interrupt_ns / 1e9, breach->count,
                     breach->count == 1 ? "" : "s");
    if (late)
        finding_evidence(finding, breach->until_ns, EVENT_vblk_queue_interrupt,
                         "the interrupt comes %.3f s late",
                         (double)(breach->until_ns - breach->since_ns) / 1e9);
    if (finding_is_told(finding))
        return;
    finding_subject_queue(finding, process, queue->device_id, queue->queue_index);
    finding_subject(finding, "request_id", json_integer((json_int_t)breach->first_request));
    finding_summary(finding, "queue %" PRIu16 " of %s completes requests and %s", queue->queue_index,
                    device_text(process, queue->device_id),
                    late ? "interrupts the driver far too late" : "does not interrupt the driver");
    finding_advice(
        finding,
        "The driver waits for what is done. Look at what the device believes about the driver's wish for "
        "interrupts (EVENT_IDX, the call descriptor) since the queue was last started; until that is "
        "mended, restarting the queue (reset the device) helps.");
}

static gint by_key(const void *a, const void *b)
{
    const struct queue_state *x = a, *y = b;

    if (x->device_id != y->device_id)
        return x->device_id < y->device_id ? -1 : 1;
    return (int)x->queue_index - (int)y->queue_index;
}

static void judge(const struct missing *missing, const struct queue_state *queue)
{
    const struct check_env *env = missing->env;
    const struct breach *hidden = NULL;
    struct loss loss, first_loss = { 0 };
    bool told = false;

    for (unsigned i = 0; i < queue->breach_count; i++) {
        const struct breach *breach = &queue->breaches[i];

        if (!loss_hides(env->process, breach->vtid, EVENT_vblk_queue_interrupt, breach->since_ns,
                        breach->since_ns + env->options->deferred_interrupt_ns, &loss)) {
            report(missing, queue, breach);
            told = true;
        } else if (!hidden) {
            hidden = breach;
            first_loss = loss;
        }
    }
    if (told && queue->later_count) {
        struct finding *finding = finding_get(env, "missing-interrupt", "device %" PRIu32 " queue %" PRIu16,
                                              queue->device_id, queue->queue_index);

        finding_span(finding, queue->later_ns, queue->later_ns);
        finding_add_count(finding, queue->later_count);
    }
    if (hidden && !told)
        inconclusive(env, "missing-interrupt", hidden->since_ns,
                     hidden->since_ns + env->options->deferred_interrupt_ns,
                     "no interrupt followed what queue %" PRIu16
                     " of %s completed, but it may be among the events that were "
                     "lost from %.6f s after the beginning of the trace on",
                     queue->queue_index, device_text(env->process, queue->device_id),
                     (double)(first_loss.begin_ns - analysis_begin_ns(env->analysis)) / 1e9);
}

static void finish(void *state)
{
    struct missing *missing = state;
    GList *queues = g_list_sort(g_hash_table_get_values(missing->queues), by_key);

    for (GList *link = queues; link && process_declares(missing->env->process, EVENT_vblk_queue_interrupt);
         link = link->next) {
        settle(missing, link->data, missing->env->process->last_ns, false);
        judge(missing, link->data);
    }
    g_list_free(queues);
}

const struct check_class check_missing_interrupt = {
    .ids = { "missing-interrupt" },
    .needs = NEEDS(SET_REQUEST),
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
