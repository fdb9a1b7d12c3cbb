#include "model/registration.h"

#include "core/check.h"

static void mark(const struct occurrence *what, struct handler *handler, enum stale_reason reason,
                 int64_t known_ns)
{
    const struct loop *loop = process_loop(what->process, handler->loop_id);
    struct stale *stale = &handler->stale;

    if (stale->reason > STALE_MOVED)
        return; /* nothing makes it right again: the first reason counts */
    if (stale->reason == STALE_MOVED && reason != STALE_MOVED) {
        stale->reason = reason; /* it stays stale, now for a reason that lasts */
        stale->lasting_ns = what->event->time_ns;
        return;
    }
    if (stale->reason == reason)
        return;
    *stale = (struct stale){
        .reason = reason,
        .since_ns = what->event->time_ns,
        .known_ns = known_ns,
        .lasting_ns = reason == STALE_MOVED ? INT64_MAX : what->event->time_ns,
        .event = what->event->id,
        .vtid = what->event->vtid,
        .announced = what->in_baseline,
        .dispatches = handler->dispatches,
        .idle_dispatches = handler->idle_dispatches,
        .loop_dispatches = loop ? loop->dispatches : 0,
        .loop_idle_sampled = loop && loop->last.valid ? loop->last.fields.rt_loop_sample.idle_dispatches : 0,
    };
}

static bool is_notifier_of(const struct handler *handler, const struct occurrence *what)
{
    return handler->alive && handler->role == ROLE_HOST_NOTIFIER && what->device &&
           handler->device_id == what->device->id;
}

/* The queue belongs where loop_change says; unless that is unknown, where it was attached last. */
static void judge_place(const struct occurrence *what)
{
    const struct queue *queue = what->queue;
    const uint32_t home = queue->owner_loop ? queue->owner_loop : queue->attached_loop;
    const int64_t known_ns =
        queue->owner_loop ? MAX(queue->owner_ns, queue->owner_confirmed_ns) : queue->attached_ns;
    const int64_t overlap_ns = analysis_options_of(what->process->analysis)->handover_overlap_ns;
    GHashTableIter iter;
    void *value;

    if (!home)
        return;
    g_hash_table_iter_init(&iter, what->process->handlers);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct handler *handler = value;

        if (!is_notifier_of(handler, what) || handler->queue_index != queue->index)
            continue;
        if (handler->loop_id == home) {
            /* Attach and change of place come in either order. Longer than that, it was stale, and a new handler follows. */
            if (handler->stale.reason == STALE_MOVED &&
                what->event->time_ns - handler->stale.since_ns <= overlap_ns)
                handler->stale = (struct stale){ .reason = STALE_NOT };
        } else {
            mark(what, handler, STALE_MOVED, known_ns);
            if (handler->stale.reason == STALE_MOVED)
                handler->stale.to_loop = home;
        }
    }
}

/*
 * Attached in the loop that loop_change once named: it still is the queue's, whatever was lost in between. A drain inside
 * start or stop is not to be trusted in this. Handlers elsewhere that were stale by the older fact are so by this one.
 */
static void confirm_home(const struct occurrence *what)
{
    struct queue *queue = what->queue;
    const uint32_t loop_id = (uint32_t)what->event->fields.vblk_dataplane_notifier_attach.loop_id;
    const enum device_state state = what->device ? what->device->state : STATE_UNKNOWN;
    GHashTableIter iter;
    void *value;

    if (!what->device || !queue->owner_loop || loop_id != queue->owner_loop ||
        ((state == STATE_STARTING || state == STATE_STOPPING) &&
         device_drain_of(what->device, what->event->vtid)))
        return;
    queue->owner_confirmed_ns = what->event->time_ns;
    g_hash_table_iter_init(&iter, what->process->handlers);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct handler *handler = value;

        if (is_notifier_of(handler, what) && handler->queue_index == queue->index &&
            handler->stale.reason == STALE_MOVED && handler->stale.to_loop == loop_id)
            handler->stale.known_ns = what->event->time_ns;
    }
}

/* The change starts from another loop than the one we knew: a change was lost, and handlers there were at home. */
static void was_at_home(const struct occurrence *what)
{
    const uint32_t old_loop = (uint32_t)what->event->fields.vblk_dataplane_loop_change.old_loop_id;
    GHashTableIter iter;
    void *value;

    if (what->in_baseline || !what->previous_owner_loop || old_loop == what->previous_owner_loop)
        return;
    g_hash_table_iter_init(&iter, what->process->handlers);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct handler *handler = value;

        if (is_notifier_of(handler, what) && handler->queue_index == what->queue->index &&
            handler->loop_id == old_loop && handler->stale.reason == STALE_MOVED)
            handler->stale = (struct stale){ .reason = STALE_NOT };
    }
}

/* detach and release name the descriptor; a detach the loop, too. */
static void notifier_left(const struct occurrence *what, enum stale_reason reason, int64_t fd,
                          uint32_t loop_id)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, what->process->handlers);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct handler *handler = value;

        if (!handler->alive || handler->fd != fd || (loop_id && handler->loop_id != loop_id))
            continue;
        if (handler->role == ROLE_UNKNOWN && loop_id) {
            /* Seen working only: a loop has one handler for a descriptor, so now we know whose it is. */
            handler->role = ROLE_HOST_NOTIFIER;
            handler->device_id = what->device->id;
            handler->queue_index = what->queue->index;
        }
        if (is_notifier_of(handler, what) && handler->queue_index == what->queue->index)
            mark(what, handler, reason, what->event->time_ns);
    }
}

static void device_left(const struct occurrence *what)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, what->process->handlers);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        if (is_notifier_of(value, what))
            mark(what, value, STALE_STOPPED, what->event->time_ns);
}

/* Events were lost: the device was not stopped when these were attached. */
static void was_not_stopped(const struct occurrence *what)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, what->process->handlers);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct handler *handler = value;

        if (is_notifier_of(handler, what) && handler->stale.reason == STALE_ATTACHED_STOPPED)
            handler->stale = (struct stale){ .reason = STALE_NOT };
    }
}

static bool is_out_of_service(enum device_state state)
{
    return state == STATE_STOPPED || state == STATE_FAILED;
}

static void state_changed(const struct occurrence *what)
{
    const enum device_state old = (enum device_state)what->event->fields.vblk_dataplane_state.old_state;
    const enum device_state next = (enum device_state)what->event->fields.vblk_dataplane_state.new_state;

    if (!what->device)
        return;
    if (is_out_of_service(what->previous_state) && (old == STATE_STARTED || old == STATE_STOPPING) &&
        (old != next || what->device->state == next)) /* changed, or a baseline knows better */
        was_not_stopped(what);
    /* Leaving "stopped" proves that it was stopped, also if that itself was lost. */
    if (is_out_of_service(what->device->state) || (old != next && is_out_of_service(old)))
        device_left(what);
}

static void attached(const struct occurrence *what)
{
    struct handler *handler = what->handler;

    if (!handler || handler->role != ROLE_HOST_NOTIFIER || !what->device || !what->queue ||
        handler->attach_ns != what->event->time_ns)
        return;
    if (is_out_of_service(what->device->state))
        mark(what, handler, STALE_ATTACHED_STOPPED, what->device->state_ns);
    judge_place(what);
}

/* A whole baseline names every attached notifier. */
static void baseline_ended(const struct occurrence *what)
{
    const struct process *process = what->process;
    GHashTableIter iter;
    void *value;

    if (process->in_baseline || process->baseline.end_ns != what->event->time_ns)
        return;
    g_hash_table_iter_init(&iter, process->handlers);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct handler *handler = value;
        const struct queue *queue =
            device_queue(process_device(process, handler->device_id), handler->queue_index);

        /* Detached in the middle of the baseline is a change like any other, with events of its own. */
        const bool detached = !queue || !queue->attach_known ||
                              (!queue->attached_loop && queue->attached_ns < process->baseline.begin_ns);

        if (handler->alive && handler->role == ROLE_HOST_NOTIFIER && handler->announced && detached &&
            handler->attach_ns >= process->baseline.begin_ns) {
            mark(what, handler, STALE_NOT_ANNOUNCED, process->baseline.begin_ns);
            handler->stale.announced = true;
        }
    }
}

void registration_update(const struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;

    switch (what->event->id) {
    case EVENT_rt_loop_fd_attach:
        attached(what);
        break;
    case EVENT_vblk_dataplane_loop_change:
        if (what->queue) {
            was_at_home(what);
            judge_place(what);
        }
        break;
    case EVENT_vblk_dataplane_notifier_attach:
        if (what->queue) {
            confirm_home(what);
            judge_place(what);
        }
        break;
    case EVENT_vblk_dataplane_notifier_detach:
        if (what->queue)
            notifier_left(what, STALE_DETACHED, f->vblk_dataplane_notifier_detach.fd,
                          (uint32_t)f->vblk_dataplane_notifier_detach.loop_id);
        break;
    case EVENT_vblk_dataplane_notifier_release:
        if (what->queue)
            notifier_left(what, STALE_RELEASED, f->vblk_dataplane_notifier_release.fd, 0);
        break;
    case EVENT_vblk_dataplane_state:
        state_changed(what);
        break;
    case EVENT_vblk_dataplane_device_destroy:
        if (what->device)
            device_left(what);
        break;
    case EVENT_rt_process_baseline_end:
        baseline_ended(what);
        break;
    default:
        break;
    }
}
