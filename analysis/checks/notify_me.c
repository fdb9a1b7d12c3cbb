/*
 * notify-me-unbalanced: after a wait, a loop's notify_me does not return to its resting value 0.
 *
 * The flag may be raised once before polling or before blocking, and is lowered after the wait. So when the loop goes on to
 * poll, to block or to raise it once more, it must have been 0 since its last wait. A raise from another value proves
 * by itself that it was not; that no lowering was seen proves it only if none of the loop's events were lost.
 */
#include <inttypes.h>

#include "core/check.h"

static const enum event_id events[] = { EVENT_rt_loop_notify_me, EVENT_rt_loop_wait_begin,
                                        EVENT_rt_loop_wait_end,  EVENT_rt_loop_poll_begin,
                                        EVENT_rt_loop_state,     EVENT_COUNT };

#define BREACHES_KEPT 64

struct breach {
    int64_t value_ns, wait_end_ns,
        time_ns;         /* wait_end_ns 0: it did not wait, its second look kept it from that */
    enum event_id event; /* that shows it */
    uint64_t value;
    bool proven; /* by the event itself */
};

struct flag {
    uint32_t loop_id;
    bool known;
    uint64_t value;
    int64_t value_ns;    /* since when */
    int64_t wait_end_ns; /* of the last wait; 0: it has gone on since */
    uint64_t count;
    GArray *breaches; /* struct breach, the first ones */
    int64_t last_ns;
};

struct flags {
    struct check_env *env;
    GHashTable *flags; /* by loop id */
};

static void flag_free(void *data)
{
    struct flag *flag = data;

    g_array_free(flag->breaches, TRUE);
    g_free(flag);
}

static void *create(struct check_env *env)
{
    struct flags *flags = g_new0(struct flags, 1);

    flags->env = env;
    flags->flags = g_hash_table_new_full(NULL, NULL, NULL, flag_free);
    return flags;
}

static void destroy(void *state)
{
    struct flags *flags = state;

    g_hash_table_destroy(flags->flags);
    g_free(flags);
}

static struct flag *need_flag(struct flags *flags, uint32_t loop_id)
{
    struct flag *flag = g_hash_table_lookup(flags->flags, (void *)(uintptr_t)loop_id);

    if (!flag) {
        flag = g_new0(struct flag, 1);
        flag->loop_id = loop_id;
        flag->breaches = g_array_new(FALSE, FALSE, sizeof(struct breach));
        g_hash_table_insert(flags->flags, (void *)(uintptr_t)loop_id, flag);
    }
    return flag;
}

static void breach(struct flag *flag, const struct event *event, uint64_t value, bool proven)
{
    const struct breach breach = { .value_ns = flag->value_ns,
                                   .wait_end_ns = flag->wait_end_ns,
                                   .time_ns = event->time_ns,
                                   .event = event->id,
                                   .value = value,
                                   .proven = proven };

    flag->count++;
    flag->last_ns = event->time_ns;
    if (flag->breaches->len < BREACHES_KEPT)
        g_array_append_val(flag->breaches, breach);
}

static void changed(struct flag *flag, const struct event *event)
{
    const uint64_t old = event->fields.rt_loop_notify_me.old_value,
                   new = event->fields.rt_loop_notify_me.new_value;
    const bool raised = (int32_t)(uint32_t)(new - old) > 0; /* 32 bits: lowered once too often, it wraps */

    if (raised && old && (flag->wait_end_ns || flag->known))
        breach(flag, event, old, true);
    if (raised)
        flag->wait_end_ns = 0;
    flag->known = true;
    flag->value = new;
    flag->value_ns = event->time_ns;
}

static void on_event(void *state, const struct occurrence *what)
{
    const struct event *event = what->event;
    struct flag *flag;

    if (!what->loop)
        return;
    flag = need_flag(state, what->loop->id);
    switch (event->id) {
    case EVENT_rt_loop_notify_me:
        changed(flag, event);
        break;
    case EVENT_rt_loop_wait_end:
        flag->wait_end_ns = event->time_ns;
        break;
    case EVENT_rt_loop_state:
        /* Says what it was at the begin of the recording; later the loop's own events know better. */
        if (!flag->known && event->fields.rt_loop_state.waiting && what->loop->sleep.asleep) {
            flag->known = true;
            flag->value = event->fields.rt_loop_state.notify_me;
            flag->value_ns = event->time_ns;
        }
        break;
    default: /* it polls or blocks again */
        if (flag->wait_end_ns && flag->known && flag->value)
            breach(flag, event, flag->value, false);
        flag->wait_end_ns = 0;
        break;
    }
}

static void report(const struct flags *flags, const struct flag *flag, const struct breach *first)
{
    const struct process *process = flags->env->process;
    const char *name = loop_text(process, flag->loop_id);
    struct finding *finding = finding_get(flags->env, "notify-me-unbalanced", "loop %" PRIu32, flag->loop_id);

    finding_raise(finding, SEVERITY_ERROR);
    finding_span(finding, first->value_ns, flag->last_ns);
    finding_add_count(finding, flag->count);
    finding_subject_loop(finding, process, flag->loop_id);
    finding_evidence(finding, first->value_ns, EVENT_rt_loop_notify_me, "notify_me of %s is %" PRIu64, name,
                     first->value);
    if (first->wait_end_ns)
        finding_evidence(finding, first->wait_end_ns, EVENT_rt_loop_wait_end, "%s has waited", name);
    finding_evidence(finding, first->time_ns, first->event,
                     first->event == EVENT_rt_loop_notify_me ? "%s raises notify_me from %" PRIu64
                                                               ": it was not 0 since"
                     : first->event == EVENT_rt_loop_poll_begin
                         ? "%s polls, notify_me is still %" PRIu64
                         : "%s blocks again, notify_me is still %" PRIu64 " from before",
                     name, first->value);
    finding_summary(finding, "notify_me of %s does not return to 0 after a wait (%" PRIu64 " time%s)", name,
                    flag->count, flag->count == 1 ? "" : "s");
    finding_advice(
        finding,
        "Lower notify_me after the wait in every pass that raised it, also if the second look at `notified` "
        "made the timeout 0 and if the wait failed. A flag that stays up makes every notification write the "
        "event; one that is lowered twice makes the next be lost.");
}

static gint by_loop(const void *a, const void *b)
{
    const struct flag *x = a, *y = b;

    return x->loop_id < y->loop_id ? -1 : x->loop_id > y->loop_id;
}

static void judge(const struct flags *flags, const struct flag *flag)
{
    const struct process *process = flags->env->process;
    const int64_t vtid = loop_vtid(process_loop(process, flag->loop_id));
    const struct breach *doubtful = NULL;

    for (unsigned i = 0; i < flag->breaches->len; i++) {
        const struct breach *breach = &g_array_index(flag->breaches, struct breach, i);

        if (breach->proven ||
            !loss_hides(process, vtid, EVENT_rt_loop_notify_me, breach->value_ns, breach->time_ns, NULL)) {
            report(flags, flag, breach);
            return;
        }
        doubtful = doubtful ? doubtful : breach;
    }
    if (doubtful)
        inconclusive(flags->env, "notify-me-unbalanced", doubtful->value_ns, doubtful->time_ns,
                     "notify_me of %s was not seen to return to 0, but events of its thread were lost",
                     loop_text(process, flag->loop_id));
}

static void finish(void *state)
{
    const struct flags *flags = state;
    GList *all = g_list_sort(g_hash_table_get_values(flags->flags), by_loop);

    for (GList *flag = all; flag; flag = flag->next)
        judge(flags, flag->data);
    g_list_free(all);
}

const struct check_class check_notify_me = {
    .ids = { "notify-me-unbalanced" },
    .needs = NEEDS(SET_LOOP),
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
