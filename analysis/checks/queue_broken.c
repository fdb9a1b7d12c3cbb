/* queue-broken: the driver broke the protocol, or what the front end gave for the queue failed. The device says so itself;
 * nothing is inferred. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/check.h"

static const enum event_id events[] = { EVENT_vblk_queue_broken, EVENT_COUNT };

static void *create(struct check_env *env)
{
    return env;
}

static void on_event(void *state, const struct occurrence *what)
{
    const struct check_env *env = state;
    const struct event *event = what->event;
    const uint32_t device_id = (uint32_t)event->fields.vblk_queue_broken.device_id;
    const uint16_t queue_index = (uint16_t)event->fields.vblk_queue_broken.queue_index;
    const int64_t error = event->fields.vblk_queue_broken.error;
    const char *reason = event->fields.vblk_queue_broken.reason;
    struct finding *finding =
        finding_get(env, "queue-broken", "queue %" PRIu32 " %" PRIu16, device_id, queue_index);

    if (!reason || !*reason)
        reason = "no reason given";
    finding_raise(finding, SEVERITY_ERROR);
    finding_span(finding, event->time_ns, event->time_ns);
    finding_add_count(finding, 1);
    finding_subject_queue(finding, env->process, device_id, queue_index);
    if (what->queue && what->queue->attached_loop)
        finding_subject_loop(finding, env->process, what->queue->attached_loop);
    finding_evidence(finding, event->time_ns, event->id, "queue %" PRIu16 " of %s stopped: %s (%s)",
                     queue_index, device_text(env->process, device_id), reason, strerror((int)-error));
    finding_summary(finding, "queue %" PRIu16 " of %s was stopped because %s%s", queue_index,
                    device_text(env->process, device_id),
                    error == -EPROTO ? "the driver broke the protocol: " : "", reason);
    if (error != -EPROTO) {
        finding_advice(finding, "The guest's driver did nothing wrong: look at what the front end gave for this queue "
                                "(descriptors, dirty log) and at the host's limits. The queue stays stopped until the "
                                "driver resets the device.");
        return;
    }
    finding_advice(
        finding,
        "The device did the right thing: the fault is in the guest's driver (or the guest is hostile). "
        "The queue stays stopped until the driver resets the device; look at the guest's kernel log "
        "and driver version at this time.");
}

const struct check_class check_queue_broken = {
    .ids = { "queue-broken" },
    .events = events,
    .create = create,
    .event = on_event,
};
