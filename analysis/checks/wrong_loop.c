/*
 * wrong-loop: a request is taken from its ring in a loop that does not own the queue.
 *
 * Who owns it is known from loop_change alone; without one nothing is concluded. A request may end elsewhere: its queue
 * may move meanwhile. In the moment of the move itself the old loop may still be taking what it found (the hand-over).
 */
#include <inttypes.h>

#include "core/check.h"

static const enum event_id events[] = { EVENT_vblk_request_begin, EVENT_vblk_dataplane_loop_change,
                                        EVENT_COUNT };

/* Of one queue: breaches under different owners are told apart, as the news of the later ones may be lost. */
#define PERIODS_KEPT 16

struct period {
    uint32_t owner_loop, wrong_loop;
    int64_t owner_ns, owner_vtid; /* who said so; EVENT_UNKNOWN_ID: a baseline */
    int64_t known_ns;             /* until when it is known that nobody else was told to be the owner */
    int64_t first_ns, last_ns;
    uint64_t first_request, count;
};

struct queue_state {
    uint32_t device_id;
    uint16_t queue_index;
    uint32_t previous_loop; /* the one before the last change */
    int64_t owner_vtid;
    int64_t right_ns; /* its last request that was taken in its own loop: it was still there */
    struct period periods[PERIODS_KEPT];
    unsigned period_count;
};

struct wrong_loop {
    struct check_env *env;
    GHashTable *queues; /* device and index -> struct queue_state */
};

static void *create(struct check_env *env)
{
    struct wrong_loop *wrong = g_new0(struct wrong_loop, 1);

    wrong->env = env;
    wrong->queues = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return wrong;
}

static void destroy(void *state)
{
    struct wrong_loop *wrong = state;

    g_hash_table_destroy(wrong->queues);
    g_free(wrong);
}

static struct queue_state *need_queue(struct wrong_loop *wrong, const struct occurrence *what)
{
    void *key = (void *)(uintptr_t)((uint64_t)what->device->id << 16 | what->queue->index);
    struct queue_state *queue = g_hash_table_lookup(wrong->queues, key);

    if (!queue) {
        queue = g_new0(struct queue_state, 1);
        queue->device_id = what->device->id;
        queue->queue_index = what->queue->index;
        queue->owner_vtid = EVENT_UNKNOWN_ID;
        g_hash_table_insert(wrong->queues, key, queue);
    }
    return queue;
}

static struct period *need_period(struct queue_state *queue, const struct queue *model)
{
    struct period *last = queue->period_count ? &queue->periods[queue->period_count - 1] : NULL;

    if (last && (last->owner_ns == model->owner_ns || queue->period_count == PERIODS_KEPT))
        return last;
    queue->periods[queue->period_count] = (struct period){ .owner_loop = model->owner_loop,
                                                           .owner_ns = model->owner_ns,
                                                           .known_ns = MAX(model->owner_ns, queue->right_ns),
                                                           .owner_vtid = queue->owner_vtid };
    return &queue->periods[queue->period_count++];
}

/* The new loop began a moment before it was said that the queue is its own. */
static void forgive(const struct wrong_loop *wrong, struct queue_state *queue, const struct event *event)
{
    const struct period *last = queue->period_count ? &queue->periods[queue->period_count - 1] : NULL;

    if (last && last->wrong_loop == event->fields.vblk_dataplane_loop_change.new_loop_id &&
        event->time_ns - last->first_ns <= wrong->env->options->handover_overlap_ns)
        queue->period_count--;
}

static void on_event(void *state, const struct occurrence *what)
{
    struct wrong_loop *wrong = state;
    const struct event *event = what->event;
    struct queue_state *queue;
    struct period *period;
    uint32_t loop_id;

    if (!what->queue)
        return;
    queue = need_queue(wrong, what);
    if (event->id == EVENT_vblk_dataplane_loop_change) {
        forgive(wrong, queue, event);
        if (what->in_baseline)
            return; /* from it only who owns the queue is known, not who will say so next time */
        queue->previous_loop = what->previous_owner_loop;
        queue->owner_vtid = event->vtid;
        return;
    }
    loop_id = (uint32_t)event->fields.vblk_request_begin.loop_id;
    if (!what->queue->owner_loop || !loop_id)
        return;
    if (loop_id == what->queue->owner_loop) {
        queue->right_ns = event->time_ns;
        return;
    }
    if (loop_id == queue->previous_loop &&
        event->time_ns - what->queue->owner_ns <= wrong->env->options->handover_overlap_ns)
        return;
    period = need_period(queue, what->queue);
    if (!period->count++) {
        period->first_ns = event->time_ns;
        period->first_request = event->fields.vblk_request_begin.request_id;
        period->wrong_loop = loop_id;
    }
    period->last_ns = event->time_ns;
}

static void report(const struct wrong_loop *wrong, const struct queue_state *queue,
                   const struct period *period)
{
    const struct check_env *env = wrong->env;
    const struct process *process = env->process;
    struct finding *finding = finding_get(env, "wrong-loop", "device %" PRIu32 " queue %" PRIu16,
                                          queue->device_id, queue->queue_index);
    const char *device = device_text(process, queue->device_id);

    finding_raise(finding, SEVERITY_ERROR);
    finding_span(finding, period->first_ns, period->last_ns);
    finding_add_count(finding, period->count);
    finding_evidence(finding, period->owner_ns, EVENT_vblk_dataplane_loop_change,
                     "queue %" PRIu16 " of %s belongs to %s", queue->queue_index, device,
                     loop_text(process, period->owner_loop));
    finding_evidence(finding, period->first_ns, EVENT_vblk_request_begin,
                     "request %" PRIu64 " is taken from it in %s; %" PRIu64
                     " such requests up to %.6f s later",
                     period->first_request, loop_text(process, period->wrong_loop), period->count,
                     (double)(period->last_ns - period->first_ns) / 1e9);
    if (finding_is_told(finding))
        return;
    finding_subject_queue(finding, process, queue->device_id, queue->queue_index);
    finding_subject_loop(finding, process, period->wrong_loop);
    finding_subject(finding, "owner_loop_id", json_integer(period->owner_loop));
    finding_subject(finding, "request_id", json_integer((json_int_t)period->first_request));
    finding_summary(finding, "%s takes requests of queue %" PRIu16 " of %s, which belongs to %s",
                    loop_text(process, period->wrong_loop), queue->queue_index, device,
                    loop_text(process, period->owner_loop));
    finding_advice(
        finding,
        "Two threads work on one ring without a lock: data may be corrupted. Stop the device or move the "
        "queue back to %s, and look at how the queue was moved: its requests must run in the new loop "
        "from the end of the drain on.",
        loop_text(process, period->wrong_loop));
}

static gint by_key(const void *a, const void *b)
{
    const struct queue_state *x = a, *y = b;

    if (x->device_id != y->device_id)
        return x->device_id < y->device_id ? -1 : 1;
    return (int)x->queue_index - (int)y->queue_index;
}

static void finish(void *state)
{
    struct wrong_loop *wrong = state;
    const struct check_env *env = wrong->env;
    GList *queues = g_list_sort(g_hash_table_get_values(wrong->queues), by_key);

    for (GList *link = queues; link; link = link->next) {
        const struct queue_state *queue = link->data;
        const struct period *hidden = NULL;
        struct loss loss, first_loss = { 0 };
        bool told = false;

        for (unsigned i = 0; i < queue->period_count; i++) {
            const struct period *period = &queue->periods[i];

            if (loss_hides(env->process, period->owner_vtid, EVENT_vblk_dataplane_loop_change,
                           period->known_ns, period->first_ns, &loss)) {
                if (!hidden) {
                    hidden = period;
                    first_loss = loss;
                }
                continue;
            }
            report(wrong, queue, period);
            told = true;
        }
        if (hidden && !told)
            inconclusive(env, "wrong-loop", hidden->first_ns, hidden->last_ns,
                         "requests of queue %" PRIu16
                         " of %s are taken in %s, and the last that is known is that it belongs "
                         "to %s; that it moved may be among the events that were lost from %.6f s after the "
                         "beginning of "
                         "the trace on",
                         queue->queue_index, device_text(env->process, queue->device_id),
                         loop_text(env->process, hidden->wrong_loop),
                         loop_text(env->process, hidden->owner_loop),
                         (double)(first_loss.begin_ns - analysis_begin_ns(env->analysis)) / 1e9);
    }
    g_list_free(queues);
}

const struct check_class check_wrong_loop = {
    .ids = { "wrong-loop" },
    .needs = NEEDS(SET_REQUEST),
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
