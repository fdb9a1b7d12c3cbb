/*
 * deaf-queue: a queue's driver was told not to kick, its loop sleeps until somebody wakes it, and requests wait in the ring.
 *
 * A sample of the ring says all of it at one moment: waiting requests, notifications off, and the model adds that the
 * queue is attached, nobody drains and the loop sleeps without limit. From then on it stays so until something of it
 * ends; the ends are events. A loop that others wake (another queue, a completion) and that goes to sleep again without
 * having taken anything is as deaf as before: only the next sample tells. That none of the ends is among lost events is
 * asked for at the end of the trace; samples of the loop whose count of passes stands still prove the sleep whatever was
 * lost.
 */
#include <inttypes.h>

#include "core/check.h"

static const enum event_id events[] = {
    EVENT_vblk_queue_sample,
    EVENT_vblk_queue_notifications,
    EVENT_vblk_queue_broken,
    EVENT_vblk_dataplane_notifier_attach,
    EVENT_vblk_dataplane_notifier_detach,
    EVENT_vblk_dataplane_notifier_release,
    EVENT_vblk_dataplane_drain_begin,
    EVENT_vblk_dataplane_drain_end,
    EVENT_vblk_dataplane_device_destroy,
    EVENT_rt_loop_wait_end,
    EVENT_rt_loop_destroy,
    EVENT_COUNT,
};

struct interval {
    int64_t begin_ns, end_ns;
    int64_t asleep_ns; /* how long the loop's count of passes proves it asleep */
    int64_t sleep_ns;  /* when the loop fell asleep */
    int64_t off_ns;    /* when notifications were turned off; 0: before the recording */
    uint64_t off_reason;
    int64_t woke_ns;   /* since that sample: its loop woke; 0: it did not */
    int64_t sample_ns; /* the last sample that said so, and what it said */
    uint16_t avail, popped;
    uint32_t loop_id;
};

struct ring {
    uint32_t device_id;
    uint16_t queue_index;
    bool deaf; /* `now` is open */
    struct interval now;
    struct interval worst; /* end_ns 0: none */
    unsigned count;
    int64_t passes_since_ns;
    uint64_t passes;
    /* the previous sample */
    bool waited;
    int64_t sampled_ns;
    uint64_t pops;
    /* requests wait and nobody is told of them, whatever the loop does */
    int64_t starving_ns, starving_until_ns; /* 0: not */
    bool starving_attached;
    int64_t sampler_vtid, drainer_vtid;
};

struct deaf_queues {
    struct check_env *env;
    GHashTable *rings; /* by device and queue */
    unsigned deaf;     /* how many are */
};

static void *create(struct check_env *env)
{
    struct deaf_queues *queues = g_new0(struct deaf_queues, 1);

    queues->env = env;
    queues->rings = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return queues;
}

static void destroy(void *state)
{
    struct deaf_queues *queues = state;

    g_hash_table_destroy(queues->rings);
    g_free(queues);
}

static struct ring *find_ring(const struct deaf_queues *queues, uint32_t device_id, uint16_t queue_index)
{
    return g_hash_table_lookup(queues->rings, (void *)(uintptr_t)((uint64_t)device_id << 16 | queue_index));
}

static struct ring *need_ring(struct deaf_queues *queues, uint32_t device_id, uint16_t queue_index)
{
    struct ring *ring = find_ring(queues, device_id, queue_index);

    if (!ring) {
        ring = g_new0(struct ring, 1);
        ring->device_id = device_id;
        ring->queue_index = queue_index;
        ring->sampler_vtid = ring->drainer_vtid = EVENT_UNKNOWN_ID;
        g_hash_table_insert(queues->rings, (void *)(uintptr_t)((uint64_t)device_id << 16 | queue_index),
                            ring);
    }
    return ring;
}

/* --- the course of things ------------------------------------------------------------------------------ */

static void ended(struct deaf_queues *queues, struct ring *ring, int64_t end_ns)
{
    if (!ring->deaf)
        return;
    ring->deaf = false;
    queues->deaf--;
    ring->now.end_ns = end_ns;
    if (end_ns - ring->now.begin_ns <= queues->env->options->deaf_queue_ns)
        return;
    ring->count++;
    if (end_ns - ring->now.begin_ns > ring->worst.end_ns - ring->worst.begin_ns)
        ring->worst = ring->now;
}

static bool is_off(const struct process *process, const struct queue *queue, uint64_t sampled)
{
    if (sampled)
        return false;
    /* An older recording may lack the field; then the events say. */
    return queue->notifications != 1 || process->latest_loss_end_ns >= queue->notifications_ns;
}

static void prove_asleep(struct ring *ring, const struct loop *loop)
{
    const struct sample *last = &loop->last;

    if (!last->valid || last->time_ns < ring->now.begin_ns)
        return;
    if (!ring->passes_since_ns || last->fields.rt_loop_sample.passes != ring->passes) {
        ring->passes_since_ns = last->time_ns;
        ring->passes = last->fields.rt_loop_sample.passes;
    }
    ring->now.asleep_ns = MAX(ring->now.asleep_ns, last->time_ns - ring->passes_since_ns);
}

/* It slept until somebody woke it, at some time since then. */
static bool slept_since(const struct loop *loop, int64_t time_ns)
{
    return loop_sleeps_without_limit(loop) || (loop && loop->sleep.known && loop->sleep.timeout_ns < 0 &&
                                               loop->sleep.end_ns > time_ns && !loop->polling);
}

static void sampled(struct deaf_queues *queues, const struct occurrence *what)
{
    const struct process *process = queues->env->process;
    const union event_fields *f = &what->event->fields;
    const struct queue *queue = what->queue;
    const struct loop *loop = process_loop(process, queue->attached_loop);
    struct ring *ring = need_ring(queues, what->device->id, queue->index);
    const bool waits = f->vblk_queue_sample.avail_index != f->vblk_queue_sample.popped_index;
    const bool nobody_pops = ring->waited && ring->pops == f->vblk_queue_sample.pops;
    const bool starves = waits && is_off(process, queue, f->vblk_queue_sample.notifications_enabled) &&
                         !queue->broken && !what->device->drains->len &&
                         (queue->attached_loop || !queue->attach_known);
    const bool asleep = loop_sleeps_without_limit(loop);
    const bool deaf = starves && (asleep || (nobody_pops && slept_since(loop, ring->sampled_ns)));

    if (ring->deaf && (!deaf || !nobody_pops || ring->now.loop_id != loop->id))
        ended(queues, ring, ring->now.woke_ns ? ring->now.woke_ns : ring->now.sample_ns);
    if (deaf && !ring->deaf) {
        ring->deaf = true;
        queues->deaf++;
        ring->passes_since_ns = 0;
        ring->now = (struct interval){
            .begin_ns = nobody_pops && asleep
                            ? MAX(ring->sampled_ns, MAX(loop->sleep.since_ns, queue->attached_ns))
                            : what->event->time_ns,
            .sleep_ns = loop->sleep.since_ns,
            .off_ns = queue->notifications == 0 ? queue->notifications_ns : 0,
            .off_reason = queue->notifications_reason,
            .loop_id = loop->id,
        };
    }
    if (deaf) {
        ring->now.woke_ns = 0;
        ring->now.sample_ns = what->event->time_ns;
        ring->now.avail = (uint16_t)f->vblk_queue_sample.avail_index;
        ring->now.popped = (uint16_t)f->vblk_queue_sample.popped_index;
        prove_asleep(ring, loop);
    }
    if (!starves || !nobody_pops)
        ring->starving_ns = starves ? what->event->time_ns : 0;
    else if (!ring->starving_ns)
        ring->starving_ns = what->event->time_ns;
    ring->starving_until_ns = what->event->time_ns;
    ring->starving_attached = queue->attached_loop != 0;
    ring->waited = waits;
    ring->sampled_ns = what->event->time_ns;
    ring->pops = f->vblk_queue_sample.pops;
    ring->sampler_vtid = what->event->vtid;
}

static void device_changed(struct deaf_queues *queues, const struct occurrence *what)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, queues->rings);
    while (what->device && g_hash_table_iter_next(&iter, NULL, &value)) {
        struct ring *ring = value;

        if (ring->device_id != what->device->id)
            continue;
        ended(queues, ring, what->event->time_ns);
        ring->starving_ns = 0;
        ring->waited = false; /* in a drain it waits rightly */
        ring->drainer_vtid = what->event->vtid;
    }
}

static void queue_changed(struct deaf_queues *queues, const struct occurrence *what)
{
    struct ring *ring = what->queue ? find_ring(queues, what->device->id, what->queue->index) : NULL;

    if (!ring || what->in_baseline)
        return;
    ended(queues, ring, what->event->time_ns);
    ring->starving_ns = 0;
}

static void loop_woke(struct deaf_queues *queues, const struct occurrence *what)
{
    GHashTableIter iter;
    void *value;

    if (!queues->deaf || !what->loop)
        return;
    g_hash_table_iter_init(&iter, queues->rings);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct ring *ring = value;

        if (!ring->deaf || ring->now.loop_id != what->loop->id)
            continue;
        if (what->event->id == EVENT_rt_loop_destroy)
            ended(queues, ring, what->event->time_ns);
        else if (!ring->now.woke_ns)
            ring->now.woke_ns = what->event->time_ns;
    }
}

static void on_event(void *state, const struct occurrence *what)
{
    struct deaf_queues *queues = state;

    switch (what->event->id) {
    case EVENT_vblk_queue_sample:
        if (what->queue)
            sampled(queues, what);
        break;
    case EVENT_vblk_queue_notifications:
        if (queues->deaf && what->event->fields.vblk_queue_notifications.enabled)
            queue_changed(queues, what);
        break;
    case EVENT_vblk_queue_broken:
    case EVENT_vblk_dataplane_notifier_attach:
    case EVENT_vblk_dataplane_notifier_detach:
    case EVENT_vblk_dataplane_notifier_release:
        queue_changed(queues, what);
        break;
    case EVENT_vblk_dataplane_drain_begin:
    case EVENT_vblk_dataplane_drain_end:
    case EVENT_vblk_dataplane_device_destroy:
        device_changed(queues, what);
        break;
    default:
        loop_woke(queues, what);
        break;
    }
}

/* --- verdicts ------------------------------------------------------------------------------------------ */

static const char *reason_text(uint64_t reason)
{
    static const char *const names[] = { "processing", "polling", "attach", "detach" };

    return reason < G_N_ELEMENTS(names) ? names[reason] : "an unknown reason";
}

static void report(const struct deaf_queues *queues, const struct ring *ring, int64_t end_ns)
{
    const struct process *process = queues->env->process;
    const struct interval *worst = &ring->worst;
    const struct queue *queue = device_queue(process_device(process, ring->device_id), ring->queue_index);
    const unsigned waiting = (uint16_t)(worst->avail - worst->popped);
    const char *device = device_text(process, ring->device_id);
    const char *loop = loop_text(process, worst->loop_id);
    struct finding *finding = finding_get(queues->env, "deaf-queue", "queue %" PRIu32 " %" PRIu16,
                                          ring->device_id, ring->queue_index);

    finding_raise(finding, SEVERITY_ERROR);
    finding_span(finding, worst->begin_ns, end_ns);
    finding_add_count(finding, ring->count);
    finding_subject_queue(finding, process, ring->device_id, ring->queue_index);
    finding_subject_loop(finding, process, worst->loop_id);
    if (worst->off_ns)
        finding_evidence(finding, worst->off_ns, EVENT_vblk_queue_notifications,
                         "the driver of queue %" PRIu16 " of %s is asked not to kick (%s)", ring->queue_index,
                         device, reason_text(worst->off_reason));
    if (queue && queue->attached_loop == worst->loop_id && queue->attached_ns <= worst->begin_ns)
        finding_evidence(finding, queue->attached_ns, EVENT_vblk_dataplane_notifier_attach,
                         "the queue is attached to %s", loop);
    finding_evidence(finding, worst->sleep_ns, EVENT_rt_loop_wait_begin, "%s blocks without limit", loop);
    finding_evidence(finding, worst->sample_ns, EVENT_vblk_queue_sample,
                     "%u request%s in the ring (available %" PRIu16 ", taken %" PRIu16 "), notifications off",
                     waiting, waiting == 1 ? " waits" : "s wait", worst->avail, worst->popped);
    finding_note(finding, end_ns, "end", "%s has slept on for %.3f s", loop,
                 (double)(end_ns - worst->begin_ns) / 1e9);
    finding_summary(finding,
                    "queue %" PRIu16
                    " of %s is deaf: its driver may not kick, %s sleeps without limit, and %u "
                    "request%s for %.1f s",
                    ring->queue_index, device, loop, waiting, waiting == 1 ? " waits" : "s wait",
                    (double)(end_ns - worst->begin_ns) / 1e9);
    finding_advice(
        finding,
        "Whoever attaches a queue to a loop must turn its notifications on (a handler that was replaced in "
        "the middle of polling left them off), and look at the ring once more afterwards. As first aid, "
        "a reset of the device, or moving the queue to another loop, attaches it anew.");
}

static void unsure(const struct deaf_queues *queues, const struct ring *ring, int64_t begin_ns,
                   int64_t end_ns, const char *what)
{
    inconclusive(queues->env, "deaf-queue", begin_ns, end_ns, "queue %" PRIu16 " of %s looks deaf, but %s",
                 ring->queue_index, device_text(queues->env->process, ring->device_id), what);
}

/* The earliest loss in which an end of the deafness may hide. */
static bool end_may_be_lost(const struct deaf_queues *queues, const struct ring *ring, struct loss *loss_out)
{
    const struct process *process = queues->env->process;
    const int64_t vtid = loop_vtid(process_loop(process, ring->worst.loop_id));
    const struct {
        int64_t vtid;
        enum event_id id;
    } ends[] = { { vtid, EVENT_rt_loop_wait_end },
                 { vtid, EVENT_vblk_queue_notifications },
                 { ring->drainer_vtid, EVENT_vblk_dataplane_drain_begin } };
    struct loss loss;
    bool any = false;

    for (unsigned i = 0; i < G_N_ELEMENTS(ends); i++) {
        if (!loss_hides(process, ends[i].vtid, ends[i].id, ring->worst.begin_ns, ring->worst.end_ns, &loss))
            continue;
        if (!any || loss.begin_ns < loss_out->begin_ns)
            *loss_out = loss;
        any = true;
    }
    return any;
}

static void judge_worst(const struct deaf_queues *queues, const struct ring *ring)
{
    const int64_t limit_ns = queues->env->options->deaf_queue_ns;
    struct loss loss = { 0 };

    if (!end_may_be_lost(queues, ring, &loss))
        report(queues, ring, ring->worst.end_ns);
    else if (loss.begin_ns - ring->worst.begin_ns > limit_ns) /* it had been long enough by then */
        report(queues, ring, loss.begin_ns);
    else if (ring->worst.asleep_ns > limit_ns)
        report(queues, ring, ring->worst.sample_ns);
    else
        unsure(queues, ring, ring->worst.begin_ns, ring->worst.end_ns,
               "that its loop woke, or that it was told to kick, may be among the events that were lost");
}

/* Requests wait and the driver may not kick, but it was not seen that its loop sleeps. */
static void judge_starving(const struct deaf_queues *queues, const struct ring *ring)
{
    const struct process *process = queues->env->process;
    const struct queue *queue = device_queue(process_device(process, ring->device_id), ring->queue_index);
    const struct loop *loop = queue ? process_loop(process, queue->attached_loop) : NULL;

    if (!ring->starving_ns ||
        ring->starving_until_ns - ring->starving_ns <= queues->env->options->deaf_queue_ns)
        return;
    if (!ring->starving_attached) {
        if (process_known_since(process) == INT64_MAX)
            unsure(queues, ring, ring->starving_ns, ring->starving_until_ns,
                   "whether it is attached to a loop is not known: no whole baseline");
    } else if (loop && !loop->sleep.asleep && (!loop->sleep.known && loop->active_ns == INT64_MIN)) {
        unsure(queues, ring, ring->starving_ns, ring->starving_until_ns,
               "what its loop has been doing since before the recording is not known");
    } else if (loop && !loop->sleep.asleep &&
               loss_hides(process, loop_vtid(loop), EVENT_rt_loop_wait_begin, ring->starving_ns,
                          ring->starving_until_ns, NULL)) {
        unsure(queues, ring, ring->starving_ns, ring->starving_until_ns,
               "whether its loop sleeps is among the events that were lost");
    }
}

/* Notifications are off and the loop sleeps; only what is in the ring was not seen. */
static void judge_unsampled(const struct deaf_queues *queues, const struct device *device,
                            const struct queue *queue)
{
    const struct process *process = queues->env->process;
    const struct loop *loop = process_loop(process, queue->attached_loop);
    const struct ring *ring = find_ring(queues, device->id, queue->index);
    const int64_t end_ns = process_end_ns(process);

    if (!ring || device->gone || queue->broken || device->drains->len || queue->notifications != 0 ||
        !loop_sleeps_without_limit(loop) ||
        end_ns - loop->sleep.since_ns <= queues->env->options->deaf_queue_ns ||
        ring->sampled_ns >= loop->sleep.since_ns ||
        !loss_hides(process, ring->sampler_vtid, EVENT_vblk_queue_sample, loop->sleep.since_ns, end_ns, NULL))
        return;
    unsure(queues, ring, loop->sleep.since_ns, end_ns,
           "the samples that would say whether requests wait are among the events that were lost");
}

static gint by_queue(const void *a, const void *b)
{
    const struct ring *x = a, *y = b;

    if (x->device_id != y->device_id)
        return x->device_id < y->device_id ? -1 : 1;
    return x->queue_index - y->queue_index;
}

static void finish(void *state)
{
    struct deaf_queues *queues = state;
    const struct process *process = queues->env->process;
    GList *rings = g_list_sort(g_hash_table_get_values(queues->rings), by_queue);

    for (GList *item = rings; item; item = item->next) {
        struct ring *ring = item->data;
        const struct device *device = process_device(process, ring->device_id);
        const struct queue *queue = device_queue(device, ring->queue_index);
        const struct loop *loop = process_loop(process, ring->now.loop_id);

        if (ring->deaf)
            ended(queues, ring,
                  ring->now.woke_ns                 ? ring->now.woke_ns
                  : loop_sleeps_without_limit(loop) ? process_end_ns(process)
                                                    : ring->now.sample_ns);
        if (ring->count)
            judge_worst(queues, ring);
        else if (queue && ring->starving_ns)
            judge_starving(queues, ring);
        else if (queue)
            judge_unsampled(queues, device, queue);
    }
    g_list_free(rings);
}

const struct check_class check_deaf_queue = {
    .ids = { "deaf-queue" },
    .needs = NEEDS(SET_LOOP),
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
