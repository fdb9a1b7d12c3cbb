/*
 * drain-order: drains, start and stop step on each other's toes. One finding per device, a line of evidence per breach:
 *  - a drain attaches or detaches a notifier while start or stop owns it
 *  - the outermost drain ends with requests in flight
 *  - a drain ends that never began
 *  - the device's state changes in a way that the machine does not have, or not from the state that it was in
 * A drain still open at the end is only open.
 */
#include <inttypes.h>

#include "core/check.h"

static const enum event_id events[] = {
    EVENT_rt_loop_fd_attach,
    EVENT_rt_loop_fd_detach,
    EVENT_vblk_dataplane_notifier_attach,
    EVENT_vblk_dataplane_notifier_detach,
    EVENT_vblk_dataplane_drain_end,
    EVENT_vblk_dataplane_state,
    EVENT_COUNT,
};

/* A breach that is one only if nothing was lost since @since_ns. */
struct doubt {
    uint32_t device_id;
    int64_t since_ns, time_ns, vtid;
    int64_t other_vtid;    /* who else may have done what is missing; vtid again if nobody */
    enum event_id missing; /* what may have been lost */
    enum event_id event;
    char *text;
};

/* A drain in which something may have happened unseen. */
struct blind {
    uint32_t device_id;
    int64_t begin_ns, end_ns, vtid;
};

struct drains {
    struct check_env *env;
    GArray *doubts; /* struct doubt, bounded */
    GArray *blinds; /* struct blind: ended drains inside start or stop, bounded */
    /* the last breach by a drain: an attach is told by the loop and by the dataplane, and counts once */
    int64_t told_begin_ns;
    uint32_t told_device;
    uint16_t told_queue;
    bool told_attach;
};

#define KEPT_MAX 256

static void *create(struct check_env *env)
{
    struct drains *drains = g_new0(struct drains, 1);

    drains->env = env;
    drains->doubts = g_array_new(FALSE, TRUE, sizeof(struct doubt));
    drains->blinds = g_array_new(FALSE, TRUE, sizeof(struct blind));
    return drains;
}

static void destroy(void *state)
{
    struct drains *drains = state;

    for (unsigned i = 0; i < drains->doubts->len; i++)
        g_free(g_array_index(drains->doubts, struct doubt, i).text);
    g_array_free(drains->doubts, TRUE);
    g_array_free(drains->blinds, TRUE);
    g_free(drains);
}

static bool start_or_stop_owns(enum device_state state)
{
    return state == STATE_STARTING || state == STATE_STOPPING;
}

static const char *owner_text(enum device_state state)
{
    return state == STATE_STARTING ? "start" : "stop";
}

static struct finding *breach(const struct check_env *env, uint32_t device_id, int64_t time_ns,
                              const char *cause)
{
    struct finding *finding = finding_get(env, "drain-order", "device %" PRIu32, device_id);

    finding_raise(finding, SEVERITY_ERROR);
    finding_span(finding, time_ns, time_ns);
    finding_add_count(finding, 1);
    finding_subject_device(finding, env->process, device_id);
    if (!finding_is_told(finding))
        finding_cause(finding, "%s", cause);
    return finding;
}

/* --- attach and detach --------------------------------------------------------------------------------- */

static void moved_by_drain(struct drains *drains, const struct occurrence *what, const struct drain *drain,
                           enum device_state state)
{
    const struct check_env *env = drains->env;
    const struct event *event = what->event;
    const bool attaches =
        event->id == EVENT_rt_loop_fd_attach || event->id == EVENT_vblk_dataplane_notifier_attach;
    const char *device = device_text(env->process, what->device->id);
    const char *thread = thread_text(env->process, event->vtid);
    const uint16_t queue_index = what->queue ? what->queue->index : 0;
    struct finding *finding;

    if (drains->told_begin_ns == drain->begin_ns && drains->told_device == what->device->id &&
        drains->told_queue == queue_index && drains->told_attach == attaches)
        return;
    finding = breach(env, what->device->id, event->time_ns,
                     state == STATE_STARTING ? "drain nested in start" : "drain nested in stop");
    if (drains->told_begin_ns != drain->begin_ns)
        finding_evidence(finding, drain->begin_ns, EVENT_vblk_dataplane_drain_begin,
                         "a drain of %s begins, depth %" PRIu32 ", by %s", device, drain->depth, thread);
    drains->told_begin_ns = drain->begin_ns;
    drains->told_device = what->device->id;
    drains->told_queue = queue_index;
    drains->told_attach = attaches;
    finding_evidence(finding, event->time_ns, event->id,
                     "%s %s the notifier of queue %" PRIu16 " of %s %s %s in this drain, while %s owns it",
                     thread, attaches ? "attaches" : "detaches", queue_index, device,
                     attaches ? "to" : "from",
                     what->loop ? loop_text(env->process, what->loop->id) : "a loop", owner_text(state));
    if (finding_is_told(finding))
        return;
    finding_summary(finding,
                    "a drain nested in %s of %s %s a queue's notifier, which only start and stop may do",
                    owner_text(state), device, attaches ? "attaches" : "detaches");
    finding_advice(
        finding,
        "Drain callbacks must look at a flag that is set only when start is about to attach (after the "
        "disk has moved) and is cleared in stop before the disk moves back; not at the state.");
}

static void notifier_changed(struct drains *drains, const struct occurrence *what)
{
    const struct check_env *env = drains->env;
    const struct device *device = what->device;
    const struct drain *drain;
    enum device_state state;

    if (what->in_baseline || !device || !device->drains->len)
        return;
    if (what->event->id == EVENT_rt_loop_fd_attach || what->event->id == EVENT_rt_loop_fd_detach) {
        if (!what->handler || what->handler->role != ROLE_HOST_NOTIFIER)
            return;
    }
    drain = device_drain_of(device, what->event->vtid);
    state = device->state;
    if (!drain || what->event->vtid == EVENT_UNKNOWN_ID) {
        drain = device_drain_of(device, EVENT_UNKNOWN_ID); /* somebody drains */
        if (start_or_stop_owns(state) && what->event->vtid == EVENT_UNKNOWN_ID && !drain->before_recording)
            inconclusive(env, "drain-order", what->event->time_ns, what->event->time_ns,
                         "a notifier of %s changed while %s ran and a drain was open, but whether the "
                         "draining thread did "
                         "it cannot be told: the vtid context was not recorded",
                         device_text(env->process, device->id), owner_text(state));
        return;
    }
    if (state == STATE_UNKNOWN)
        state = drain->state;
    if (start_or_stop_owns(state))
        moved_by_drain(drains, what, drain, state);
}

/* --- ends ---------------------------------------------------------------------------------------------- */

static void add_doubt(struct drains *drains, const struct occurrence *what, int64_t since_ns,
                      enum event_id missing, char *text)
{
    const struct doubt doubt = { .device_id = what->device->id,
                                 .since_ns = since_ns,
                                 .time_ns = what->event->time_ns,
                                 .vtid = what->event->vtid,
                                 .other_vtid = missing == EVENT_vblk_dataplane_state
                                                   ? what->previous_state_vtid
                                                   : what->event->vtid,
                                 .missing = missing,
                                 .event = what->event->id,
                                 .text = text };

    if (drains->doubts->len >= KEPT_MAX)
        g_free(text); /* the same breach for the 257th time */
    else
        g_array_append_val(drains->doubts, doubt);
}

static void ended_early(const struct check_env *env, const struct occurrence *what, uint64_t in_flight)
{
    const struct event *event = what->event;
    const struct device *device = what->device;
    struct finding *finding = breach(env, device->id, event->time_ns, "requests in flight");

    if (what->drain_matched)
        finding_evidence(finding, what->drain.begin_ns, EVENT_vblk_dataplane_drain_begin,
                         "the drain of %s begins%s", device_text(env->process, device->id),
                         what->drain.before_recording ? " (before the recording)" : "");
    finding_evidence(finding, event->time_ns, event->id,
                     "the outermost drain of %s ends with %" PRIu64 " requests in flight, in %s",
                     device_text(env->process, device->id), in_flight,
                     thread_text(env->process, event->vtid));
    if (finding_is_told(finding))
        return;
    finding_summary(finding, "a drain of %s ended while %" PRIu64 " requests were in flight",
                    device_text(env->process, device->id), in_flight);
    finding_advice(
        finding,
        "A drain must not end before its counter of requests in flight is 0: whoever waits for it goes "
        "on to move or free what these requests still use.");
}

static void drain_ended(struct drains *drains, const struct occurrence *what)
{
    const struct check_env *env = drains->env;
    const struct event *event = what->event;
    const struct device *device = what->device;
    const uint64_t depth = event->fields.vblk_dataplane_drain_end.depth;
    const uint64_t in_flight = event->fields.vblk_dataplane_drain_end.in_flight;
    const enum device_state state = (enum device_state)event->fields.vblk_dataplane_drain_end.state;

    if (!device)
        return;
    if (depth == 1 && in_flight)
        ended_early(env, what, in_flight);
    if (!what->drain_matched && what->drains_known_ns != INT64_MIN)
        add_doubt(drains, what, what->drains_known_ns, EVENT_vblk_dataplane_drain_begin,
                  g_strdup_printf("a drain of %s ends (depth %" PRIu64 ") that never began",
                                  device_text(env->process, device->id), depth));
    if (what->drain_matched && start_or_stop_owns(what->drain.state) && start_or_stop_owns(state)) {
        const struct blind blind = { .device_id = device->id,
                                     .begin_ns = what->drain.begin_ns,
                                     .end_ns = event->time_ns,
                                     .vtid = event->vtid };

        if (drains->blinds->len >= KEPT_MAX)
            g_array_remove_index(drains->blinds, 0);
        g_array_append_val(drains->blinds, blind);
    }
}

/* --- states -------------------------------------------------------------------------------------------- */

static bool change_exists(uint64_t old, uint64_t next)
{
    static const unsigned char to[5] = {
        [STATE_STOPPED] = 1 << STATE_STARTING,
        [STATE_STARTING] = 1 << STATE_STARTED | 1 << STATE_FAILED,
        [STATE_STARTED] = 1 << STATE_STOPPING,
        [STATE_STOPPING] = 1 << STATE_STOPPED,
        [STATE_FAILED] = 1 << STATE_STOPPED | 1 << STATE_STARTING,
    };

    return old < 5 && next < 5 && (to[old] >> next & 1);
}

static void state_changed(struct drains *drains, const struct occurrence *what)
{
    const struct check_env *env = drains->env;
    const struct event *event = what->event;
    const uint64_t old = event->fields.vblk_dataplane_state.old_state;
    const uint64_t next = event->fields.vblk_dataplane_state.new_state;
    const char *device;

    if (!what->device || old == next)
        return;
    device = device_text(env->process, what->device->id);
    if (!change_exists(old, next)) {
        struct finding *finding = breach(env, what->device->id, event->time_ns, "impossible state change");

        finding_evidence(finding, event->time_ns, event->id, "%s goes from %s to %s, in %s", device,
                         state_text((enum device_state)old), state_text((enum device_state)next),
                         thread_text(env->process, event->vtid));
        if (finding_is_told(finding))
            return;
        finding_summary(finding, "%s went from %s to %s, which start and stop cannot do in order", device,
                        state_text((enum device_state)old), state_text((enum device_state)next));
        finding_advice(
            finding,
            "Start and stop of one device must exclude each other: the later one has to wait until the "
            "earlier one has ended or was undone.");
        return;
    }
    if (what->previous_state != STATE_UNKNOWN && (uint64_t)what->previous_state != old)
        add_doubt(drains, what, what->previous_state_ns, EVENT_vblk_dataplane_state,
                  g_strdup_printf("%s goes from %s to %s, but it was %s: one overtook the other", device,
                                  state_text((enum device_state)old), state_text((enum device_state)next),
                                  state_text(what->previous_state)));
}

static void on_event(void *state, const struct occurrence *what)
{
    struct drains *drains = state;

    switch (what->event->id) {
    case EVENT_vblk_dataplane_drain_end:
        drain_ended(drains, what);
        break;
    case EVENT_vblk_dataplane_state:
        state_changed(drains, what);
        break;
    default:
        notifier_changed(drains, what);
        break;
    }
}

/* --- what only the end can decide ---------------------------------------------------------------------- */

static bool is_known(const struct process *process, const struct doubt *doubt)
{
    /* That nothing was open rests on a baseline, which has to be whole. */
    for (unsigned i = 0; i < process->whole_baselines->len; i++) {
        const struct baseline *baseline = &g_array_index(process->whole_baselines, struct baseline, i);

        if (doubt->missing == EVENT_vblk_dataplane_drain_begin && baseline->end_ns == doubt->since_ns)
            return !loss_hides(process, baseline->vtid, EVENT_vblk_dataplane_drain_begin, baseline->begin_ns,
                               baseline->end_ns, NULL);
    }
    return true;
}

static void judge_doubt(const struct check_env *env, const struct doubt *doubt)
{
    struct finding *finding;
    struct loss loss;

    if (!is_known(env->process, doubt))
        return;
    /* A drain ends in the thread that began it; the state may also have been changed by who changed it before. */
    if (loss_hides(env->process, doubt->vtid, doubt->missing, doubt->since_ns, doubt->time_ns, &loss) ||
        loss_hides(env->process, doubt->other_vtid, doubt->missing, doubt->since_ns, doubt->time_ns, &loss)) {
        if (finding_exists(env, "drain-order", "device %" PRIu32, doubt->device_id))
            return; /* there is a breach beyond doubt */
        inconclusive(env, "drain-order", doubt->since_ns, doubt->time_ns,
                     "%s; but events were lost in between, and what is missing may be among them",
                     doubt->text);
        return;
    }
    finding = breach(env, doubt->device_id, doubt->time_ns,
                     doubt->missing == EVENT_vblk_dataplane_state ? "impossible state change"
                                                                  : "end without begin");
    finding_evidence(finding, doubt->time_ns, doubt->event, "%s, in %s", doubt->text,
                     thread_text(env->process, doubt->vtid));
    if (!finding_is_told(finding)) {
        finding_summary(finding, "%s", doubt->text);
        finding_advice(
            finding,
            doubt->missing == EVENT_vblk_dataplane_state
                ? "Start and stop of one device must exclude each other."
                : "Begin and end of drains must pair: an end too many lets requests start while somebody "
                  "else still drains.");
    }
}

static void judge_blind(const struct check_env *env, uint32_t device_id, int64_t vtid, int64_t begin_ns,
                        int64_t end_ns, bool open)
{
    struct loss loss;

    if (finding_exists(env, "drain-order", "device %" PRIu32, device_id) ||
        !loss_hides(env->process, vtid, EVENT_rt_loop_fd_attach, begin_ns, end_ns, &loss))
        return;
    inconclusive(env, "drain-order", begin_ns, end_ns,
                 "a drain of %s%s: events of the draining thread were lost in it, among which may be an "
                 "attach, a detach%s",
                 device_text(env->process, device_id), open ? " was open" : " ran inside start or stop",
                 open ? " or its end" : "");
}

static gint by_device(const void *a, const void *b)
{
    const struct device *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static void judge_open(const struct check_env *env)
{
    GList *devices = g_list_sort(g_hash_table_get_values(env->process->devices), by_device);

    for (GList *item = devices; item; item = item->next) {
        const struct device *device = item->data;

        for (unsigned i = 0; !device->gone && i < device->drains->len; i++) {
            const struct drain *drain = &g_array_index(device->drains, struct drain, i);

            if (start_or_stop_owns(drain->state) && !drain->before_recording)
                judge_blind(env, device->id, drain->vtid, drain->begin_ns, process_end_ns(env->process),
                            true);
        }
    }
    g_list_free(devices);
}

static void finish(void *state)
{
    const struct drains *drains = state;

    for (unsigned i = 0; i < drains->doubts->len; i++)
        judge_doubt(drains->env, &g_array_index(drains->doubts, struct doubt, i));
    for (unsigned i = 0; i < drains->blinds->len; i++) {
        const struct blind *blind = &g_array_index(drains->blinds, struct blind, i);

        judge_blind(drains->env, blind->device_id, blind->vtid, blind->begin_ns, blind->end_ns, false);
    }
    judge_open(drains->env);
}

const struct check_class check_drain_order = {
    .ids = { "drain-order" },
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
