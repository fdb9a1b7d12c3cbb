/*
 * stale-fd: a handler stays in a loop that its queue's notifier has left.
 *
 * The model knows which handlers are stale and since when (model/registration.c). Here: was it longer than a hand-over
 * may take, and could its removal be among lost events? A sign of life after that time proves it, whatever was lost.
 */
#include <inttypes.h>

#include "core/check.h"

static const enum event_id events[] = { EVENT_rt_loop_fd_detach, EVENT_rt_loop_destroy, EVENT_COUNT };

/* A stale handler that is gone: removed, or with its loop. Judged at the end, when all losses are known. */
struct gone {
    struct handler handler;
    int64_t end_ns;
    bool removed;
};

struct stale_fds {
    const struct check_env *env;
    GArray *gone;
};

static void *create(struct check_env *env)
{
    struct stale_fds *stale_fds = g_new0(struct stale_fds, 1);

    stale_fds->env = env;
    stale_fds->gone = g_array_new(FALSE, FALSE, sizeof(struct gone));
    return stale_fds;
}

static void destroy(void *state)
{
    struct stale_fds *stale_fds = state;

    g_array_free(stale_fds->gone, TRUE);
    g_free(stale_fds);
}

static const char *drain_words(const struct handler *handler)
{
    switch (handler->attach_state) {
    case STATE_STARTING:
        return "drain nested in start";
    case STATE_STOPPING:
        return "drain nested in stop";
    default:
        return "drain";
    }
}

static const char *cause_of(const struct handler *handler)
{
    if (handler->attach_in_drain)
        return drain_words(handler);
    if (handler->attach_state == STATE_STOPPED || handler->attach_state == STATE_FAILED)
        return "attached while the device was stopped";
    switch (handler->stale.reason) {
    case STALE_MOVED:
        return "not removed when the queue moved";
    case STALE_DETACHED:
        return "not removed when the notifier was detached";
    case STALE_RELEASED:
        return "not removed when the notifier was released";
    case STALE_STOPPED:
        return "not removed when the device stopped";
    default:
        return "left over from before the recording";
    }
}

static void tell_attach(struct finding *finding, const struct process *process, const struct handler *handler)
{
    const char *loop = loop_text(process, handler->loop_id);

    if (handler->attach_in_drain)
        finding_evidence(finding, handler->attach_drain.begin_ns, EVENT_vblk_dataplane_drain_begin,
                         "%s begins a drain of %s, depth %" PRIu32 ", while the device is %s",
                         thread_text(process, handler->attach_vtid), device_text(process, handler->device_id),
                         handler->attach_drain.depth, state_text(handler->attach_drain.state));
    if (handler->attach_vtid != EVENT_UNKNOWN_ID)
        finding_evidence(finding, handler->attach_ns, EVENT_rt_loop_fd_attach,
                         "%s puts descriptor %" PRId64 " (queue %" PRIu16
                         " of %s) into %s as handler %" PRIu64 ", %s%s; the device is %s",
                         thread_text(process, handler->attach_vtid), handler->fd, handler->queue_index,
                         device_text(process, handler->device_id), loop, handler->id,
                         handler->attach_in_drain ? "in a " : "in no drain",
                         handler->attach_in_drain ? drain_words(handler) : "",
                         state_text(handler->attach_state));
    else
        finding_evidence(
            finding, handler->attach_ns, EVENT_rt_loop_fd_attach,
            "descriptor %" PRId64 " (queue %" PRIu16 " of %s) is in %s as handler %" PRIu64 "; %s",
            handler->fd, handler->queue_index, device_text(process, handler->device_id), loop, handler->id,
            handler->announced ? "it was there before" : "who put it there was not recorded");
}

static void tell_reason(struct finding *finding, const struct process *process, const struct handler *handler)
{
    const struct stale *stale = &handler->stale;
    const char *device = device_text(process, handler->device_id);
    const char *loop = loop_text(process, handler->loop_id);
    const int64_t lasting_ns = stale->lasting_ns;

    if (stale->to_loop)
        finding_evidence(finding, stale->since_ns, stale->event,
                         "queue %" PRIu16 " of %s belongs to %s, yet handler %" PRIu64 " is in %s",
                         handler->queue_index, device, loop_text(process, stale->to_loop), handler->id, loop);
    switch (stale->reason) {
    case STALE_DETACHED:
        finding_evidence(finding, lasting_ns, EVENT_vblk_dataplane_notifier_detach,
                         "the notifier of queue %" PRIu16 " of %s is detached from %s", handler->queue_index,
                         device, loop);
        break;
    case STALE_RELEASED:
        finding_evidence(finding, lasting_ns, EVENT_vblk_dataplane_notifier_release,
                         "the notifier of queue %" PRIu16 " of %s is released and closed",
                         handler->queue_index, device);
        break;
    case STALE_STOPPED:
        finding_evidence(finding, lasting_ns, EVENT_vblk_dataplane_state,
                         "%s is out of service; handler %" PRIu64 " is still in %s", device, handler->id,
                         loop);
        break;
    case STALE_ATTACHED_STOPPED:
        finding_evidence(finding, stale->known_ns, EVENT_vblk_dataplane_state,
                         "%s is out of service since this time", device);
        break;
    case STALE_NOT_ANNOUNCED:
        finding_evidence(finding, lasting_ns, EVENT_rt_process_baseline_end,
                         "everything that exists was announced; the notifier of queue %" PRIu16
                         " of %s is attached nowhere",
                         handler->queue_index, device);
        break;
    default:
        break;
    }
}

/* Without dispatches recorded the loop's own counters give an idea. */
static void tell_cost(struct finding *finding, const struct process *process, const struct handler *handler,
                      uint64_t wasted)
{
    const struct loop *loop = process_loop(process, handler->loop_id);
    const struct stale *stale = &handler->stale;
    const char *name = loop_text(process, handler->loop_id);

    if (wasted) {
        const uint64_t all = loop ? loop->dispatches - stale->loop_dispatches : 0;

        finding_evidence(finding, stale->first_idle_ns, EVENT_rt_loop_fd_dispatch,
                         "%s runs handler %" PRIu64 ": nothing was there", name, handler->id);
        finding_evidence(finding, stale->last_idle_ns, EVENT_rt_loop_fd_dispatch,
                         "%s ran it for nothing %" PRIu64 " times up to here, %.1f %% of the %" PRIu64
                         " dispatches of this loop since then",
                         name, wasted, all ? 100.0 * (double)wasted / (double)all : 0.0, all);
    } else if (loop && loop->last.valid && !process_records(process, SET_LOOP) &&
               loop->last.time_ns > stale->since_ns) {
        const uint64_t idle = loop->last.fields.rt_loop_sample.idle_dispatches - stale->loop_idle_sampled;

        if (idle)
            finding_evidence(finding, loop->last.time_ns, EVENT_rt_loop_sample,
                             "%s counted %" PRIu64
                             " dispatches that found nothing since then (which handler ran was not "
                             "recorded)",
                             name, idle);
    }
}

static void report(const struct check_env *env, const struct handler *handler, int64_t end_ns, bool removed)
{
    const struct process *process = env->process;
    const struct stale *stale = &handler->stale;
    const uint64_t wasted = handler->idle_dispatches - stale->idle_dispatches;
    struct finding *finding = finding_get(env, "stale-fd", "handler %" PRIu64, handler->id);
    char cost[64] = "";

    if (process_records(process, SET_LOOP))
        g_snprintf(cost, sizeof(cost), "; %" PRIu64 " wasted dispatches", wasted);

    finding_raise(finding, SEVERITY_ERROR);
    finding_span(finding, stale->since_ns, end_ns);
    finding_add_count(finding, wasted);
    finding_subject_handler(finding, process, handler);
    finding_cause(finding, "%s", cause_of(handler));
    tell_attach(finding, process, handler);
    tell_reason(finding, process, handler);
    tell_cost(finding, process, handler, wasted);
    if (removed)
        finding_evidence(finding, end_ns, EVENT_rt_loop_fd_detach, "removed %.3f ms after it became stale",
                         (double)(end_ns - stale->since_ns) / 1e6);
    finding_summary(
        finding,
        "descriptor %" PRId64 " of queue %" PRIu16 " of %s stayed in %s (handler %" PRIu64 "), where it is "
        "stale: %s%s%s%s",
        handler->fd, handler->queue_index, device_text(process, handler->device_id),
        loop_text(process, handler->loop_id), handler->id, cause_of(handler),
        handler->attach_vtid != EVENT_UNKNOWN_ID ? ", by " : "",
        handler->attach_vtid != EVENT_UNKNOWN_ID ? thread_text(process, handler->attach_vtid) : "", cost);
    if (handler->attach_in_drain &&
        (handler->attach_state == STATE_STARTING || handler->attach_state == STATE_STOPPING))
        finding_advice(
            finding,
            "A drain that is nested in start or stop must leave notifiers alone: only start and stop own "
            "them. Set the flag that drain callbacks look at only after the disk has moved (start), and "
            "clear it before the disk moves back (stop).");
    else
        finding_advice(
            finding,
            "Whoever detaches, releases or moves a queue's notifier must take its handler out of the loop "
            "first, in that loop, and before the descriptor is closed: afterwards the loop wakes for "
            "a descriptor that nobody can consume, or for another one of the same number.");
}

static bool outlasted(const struct check_env *env, const struct stale *stale, int64_t until_ns)
{
    return stale->reason && until_ns - stale->since_ns > env->options->handover_overlap_ns;
}

/* MOVED and ATTACHED_STOPPED rest on an older fact; was it still true? */
static bool fact_may_be_outdated(const struct process *process, const struct stale *stale,
                                 struct loss *loss_out)
{
    if (stale->lasting_ns != INT64_MAX && stale->reason != STALE_ATTACHED_STOPPED)
        return false;
    if (stale->known_ns >= stale->since_ns)
        return false;
    return loss_hides(process, EVENT_UNKNOWN_ID,
                      stale->reason == STALE_MOVED ? EVENT_vblk_dataplane_loop_change
                                                   : EVENT_vblk_dataplane_state,
                      stale->known_ns, stale->since_ns, loss_out);
}

static void unsure(const struct check_env *env, const struct handler *handler, const struct loss *loss,
                   const char *what)
{
    inconclusive(env, "stale-fd", handler->stale.since_ns, process_end_ns(env->process),
                 "handler %" PRIu64 " (descriptor %" PRId64 ", queue %" PRIu16
                 " of %s) in %s looks stale, but %s may be "
                 "among the events that were lost from %.6f s after the beginning of the trace on",
                 handler->id, handler->fd, handler->queue_index,
                 device_text(env->process, handler->device_id), loop_text(env->process, handler->loop_id),
                 what, (double)(loss->begin_ns - analysis_begin_ns(env->analysis)) / 1e9);
}

static void judge(const struct check_env *env, const struct handler *handler, int64_t end_ns, bool removed)
{
    struct loss loss;

    if (!outlasted(env, &handler->stale, end_ns))
        return;
    if (handler->stale.reason == STALE_NOT_ANNOUNCED && process_known_since(env->process) > handler->stale.lasting_ns)
        inconclusive(env, "stale-fd", handler->stale.since_ns, end_ns,
                     "handler %" PRIu64
                     " in %s belongs to a queue that no baseline shows attached, but the baseline is not "
                     "whole",
                     handler->id, loop_text(env->process, handler->loop_id));
    else if (fact_may_be_outdated(env->process, &handler->stale, &loss))
        unsure(env, handler, &loss, "what made it right again");
    else
        report(env, handler, end_ns, removed);
}

/*
 * Detached, and as its next act the same thread takes it out, and it never ran for nothing meanwhile: however long that
 * took (a busy machine takes a processor away at any point), it is one hand-over.
 */
static bool is_in_hand(const struct handler *handler, int64_t vtid, int64_t acted_ns)
{
    return handler->stale.reason == STALE_DETACHED && handler->stale.lasting_ns == handler->stale.since_ns &&
           vtid != EVENT_UNKNOWN_ID && vtid == handler->stale.vtid && acted_ns <= handler->stale.since_ns &&
           handler->idle_dispatches == handler->stale.idle_dispatches;
}

static void keep(struct stale_fds *stale_fds, const struct handler *handler, int64_t end_ns, bool removed)
{
    const struct gone gone = { .handler = *handler, .end_ns = end_ns, .removed = removed };

    if (outlasted(stale_fds->env, &handler->stale, end_ns))
        g_array_append_val(stale_fds->gone, gone);
}

static void on_event(void *state, const struct occurrence *what)
{
    struct stale_fds *stale_fds = state;
    GHashTableIter iter;
    void *value;

    if (what->event->id == EVENT_rt_loop_fd_detach) {
        if (what->handler && !is_in_hand(what->handler, what->event->vtid, what->thread_acted_ns))
            keep(stale_fds, what->handler, what->event->time_ns, true);
        return;
    }
    g_hash_table_iter_init(&iter, stale_fds->env->process->handlers);
    while (what->loop && g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct handler *handler = value;

        if (handler->loop_id == what->loop->id)
            keep(stale_fds, handler, what->event->time_ns, false);
    }
}

/* Before it became stale, start, stop or a drain may have taken it out in its turn, and put another in its place. */
static bool was_gone_before(const struct process *process, const struct handler *handler, struct loss *loss_out)
{
    const struct device *device = process_device(process, handler->device_id);
    const int64_t who[] = { handler->attach_vtid, device ? device->drained_vtid : EVENT_UNKNOWN_ID,
                            device ? device->state_vtid : EVENT_UNKNOWN_ID };

    for (unsigned i = 0; handler->seen_ns < handler->stale.since_ns && i < G_N_ELEMENTS(who); i++)
        if (who[i] != EVENT_UNKNOWN_ID && loss_hides(process, who[i], EVENT_rt_loop_fd_detach, handler->seen_ns,
                                                     handler->stale.since_ns, loss_out))
            return true;
    return false;
}

/* Who would have taken it out: the loop's thread, or the one whose act made it stale. */
static bool removal_may_be_lost(const struct process *process, const struct handler *handler,
                                int64_t deadline_ns, struct loss *loss_out)
{
    const struct loop *loop = process_loop(process, handler->loop_id);
    const int64_t from_ns = MIN(handler->seen_ns, handler->stale.since_ns);

    if (was_gone_before(process, handler, loss_out))
        return true;

    return loss_hides(process, loop_vtid(loop), EVENT_rt_loop_fd_detach, from_ns, deadline_ns, loss_out) ||
           loss_hides(process, handler->stale.vtid, EVENT_rt_loop_fd_detach, from_ns, deadline_ns, loss_out);
}

/* The device was stopping when events got lost: it has stopped since, and what was taken out is not known. */
static bool stop_may_be_lost(const struct process *process, const struct handler *handler,
                             struct loss *loss_out)
{
    const struct device *device = process_device(process, handler->device_id);

    return device && device->state == STATE_STOPPING &&
           loss_hides(process, device->state_vtid, EVENT_vblk_dataplane_state, device->state_ns,
                      process_end_ns(process), loss_out);
}

/* The recording ended before its thread went on. It may be off the processor for as long as no loop is held up. */
static bool end_cuts_hand_over(const struct check_env *env, const struct handler *handler, int64_t end_ns)
{
    const struct thread *thread = process_find_thread(env->process, handler->stale.vtid);

    return thread && end_ns - handler->stale.since_ns <= env->options->loop_hog_ns &&
           is_in_hand(handler, thread->tid, thread->last_ns);
}

/* In its loop until @end_ns, as far as was recorded. */
static void judge_survivor(const struct check_env *env, const struct handler *handler, int64_t end_ns)
{
    const struct process *process = env->process;
    const struct stale *stale = &handler->stale;
    const int64_t deadline_ns = stale->since_ns + env->options->handover_overlap_ns;
    struct loss loss;

    if (handler->role != ROLE_HOST_NOTIFIER)
        return;
    if (!stale->reason) {
        if (stop_may_be_lost(process, handler, &loss))
            unsure(env, handler, &loss, "how the stop of its device went on");
        return;
    }
    if (!outlasted(env, stale, end_ns) || end_cuts_hand_over(env, handler, end_ns))
        return;
    if (handler->seen_ns <= deadline_ns && removal_may_be_lost(process, handler, deadline_ns, &loss))
        unsure(env, handler, &loss, "its removal");
    else
        judge(env, handler, end_ns, false);
}

static gint by_id(const void *a, const void *b)
{
    const struct handler *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static gint by_end(const void *a, const void *b)
{
    const struct gone *x = a, *y = b;

    return x->end_ns != y->end_ns ? (x->end_ns < y->end_ns ? -1 : 1) : by_id(&x->handler, &y->handler);
}

static void finish(void *state)
{
    const struct stale_fds *stale_fds = state;
    const struct check_env *env = stale_fds->env;
    GList *handlers = g_list_sort(g_hash_table_get_values(env->process->handlers), by_id);

    g_array_sort(stale_fds->gone, by_end); /* a loop's handlers end together, in no order */
    for (unsigned i = 0; i < stale_fds->gone->len; i++) {
        const struct gone *gone = &g_array_index(stale_fds->gone, struct gone, i);

        if (gone->removed)
            judge(env, &gone->handler, gone->end_ns, true);
        else
            judge_survivor(env, &gone->handler, gone->end_ns);
    }
    for (GList *link = handlers; link; link = link->next) {
        const struct handler *handler = link->data;

        if (handler->alive)
            judge_survivor(env, handler, process_end_ns(env->process));
    }
    g_list_free(handlers);
}

const struct check_class check_stale_fd = {
    .ids = { "stale-fd" },
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
