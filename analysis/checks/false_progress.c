/*
 * false-progress: a handler's poll callback claims progress again and again, and nothing is consumed.
 *
 * A poll that ended with progress is vain if the loop then takes no request, completes none, runs no work and no handler
 * finds anything before it polls again. A poll that lasted to its timeout, or after which the next timer is another one,
 * ended with an expired timer: that is real progress. A notification that was accepted is what a poll that no handler
 * ended has found. Rows are counted per handler; the first and the last full row are kept, one of which must be free of
 * losses.
 *
 * Where requests were not recorded, rows count only as far as samples of the queues have shown since that nothing moved.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "core/check.h"
#include "model/request.h"

static const enum event_id events[] = {
    EVENT_rt_loop_poll_begin,    EVENT_rt_loop_poll_end,      EVENT_rt_loop_wait_begin,
    EVENT_rt_loop_work_run,      EVENT_rt_loop_notify_accept, EVENT_rt_loop_fd_dispatch,
    EVENT_rt_loop_sample,        EVENT_vblk_queue_sample,     EVENT_vblk_request_begin,
    EVENT_vblk_request_complete, EVENT_vblk_request_end,      EVENT_COUNT,
};

#define SUSPECTS_MAX 16
#define ANY_LOOP 0

struct row {
    int64_t begin_ns, end_ns;
};

/* A handler that claims progress; id 0: a notification. */
struct suspect {
    uint64_t handler_id;
    struct handler handler; /* as it was; role unknown: not known */
    uint64_t in_row;        /* vain polls in a row */
    uint64_t checked;       /* so many of them that the latest samples of queues cover */
    struct row current, first, last;
    uint64_t rows, vain, claims;
    uint64_t idle_dispatches; /* its handler ran after its claim and found nothing */
    bool stale;               /* it should not be there at all */
};

struct poller {
    uint32_t loop_id;
    struct suspect suspects[SUSPECTS_MAX];
    unsigned count;
    uint64_t queue_samples; /* seen at its last sample */
    /* the poll before this one */
    struct suspect *claimed;         /* who ended it with progress, and nothing was consumed yet */
    int64_t claimed_ns, deadline_ns; /* INT64_MAX: no timer */
};

struct pops {
    uint64_t pops, completions;
};

struct false_progress {
    struct check_env *env;
    GHashTable *pollers; /* by loop id */
    GHashTable *totals;  /* struct pops, by device and queue */
    bool sees_requests;
    uint64_t queue_samples;
};

static void *create(struct check_env *env)
{
    struct false_progress *check = g_new0(struct false_progress, 1);

    check->env = env;
    check->pollers = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    check->totals = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    check->sees_requests = process_declares(env->process, EVENT_vblk_request_begin);
    return check;
}

static void destroy(void *state)
{
    struct false_progress *check = state;

    g_hash_table_destroy(check->pollers);
    g_hash_table_destroy(check->totals);
    g_free(check);
}

static struct poller *find_poller(const struct false_progress *check, uint32_t loop_id)
{
    return g_hash_table_lookup(check->pollers, (void *)(uintptr_t)loop_id);
}

static struct poller *need_poller(struct false_progress *check, uint32_t loop_id)
{
    struct poller *poller = find_poller(check, loop_id);

    if (!poller) {
        poller = g_new0(struct poller, 1);
        poller->loop_id = loop_id;
        poller->deadline_ns = INT64_MAX;
        g_hash_table_insert(check->pollers, (void *)(uintptr_t)loop_id, poller);
    }
    return poller;
}

/* With more handlers than that polling in one loop, the one with the shortest row makes room. */
static struct suspect *need_suspect(struct poller *poller, const struct occurrence *what)
{
    const uint64_t handler_id = what->event->fields.rt_loop_poll_end.handler_id;
    struct suspect *least = &poller->suspects[0];

    for (unsigned i = 0; i < poller->count; i++) {
        struct suspect *suspect = &poller->suspects[i];

        if (suspect->handler_id == handler_id)
            return suspect;
        if (suspect->rows < least->rows || (suspect->rows == least->rows && suspect->in_row < least->in_row))
            least = suspect;
    }
    if (poller->count < SUSPECTS_MAX)
        least = &poller->suspects[poller->count++];
    *least = (struct suspect){ .handler_id = handler_id };
    least->handler.role = ROLE_UNKNOWN;
    if (what->handler)
        least->handler = *what->handler;
    return least;
}

/* --- rows ---------------------------------------------------------------------------------------------- */

static void restart_row(struct suspect *suspect)
{
    suspect->in_row = suspect->checked = 0;
}

static void row_is_full(struct suspect *suspect, uint64_t polls)
{
    suspect->last = suspect->current;
    if (!suspect->rows++)
        suspect->first = suspect->current;
    suspect->vain += polls;
}

/* Nothing was consumed since the poll that it ended. */
static void was_vain(const struct false_progress *check, struct suspect *suspect, int64_t time_ns)
{
    const uint64_t limit = check->env->options->false_progress_polls;

    if (suspect->in_row == 0 || (check->sees_requests && suspect->in_row % limit == 0))
        suspect->current.begin_ns = time_ns;
    suspect->in_row++;
    suspect->current.end_ns = time_ns;
    if (check->sees_requests && suspect->in_row % limit == 0)
        row_is_full(suspect, limit);
}

static void consumed(struct poller *poller)
{
    if (poller && poller->claimed)
        restart_row(poller->claimed);
    if (poller)
        poller->claimed = NULL;
}

/* Requests were taken or completed at some time since the last sample, by whichever handler. */
static void queue_moved(struct false_progress *check, uint32_t loop_id)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, check->pollers);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct poller *poller = value;

        for (unsigned i = 0; (loop_id == ANY_LOOP || poller->loop_id == loop_id) && i < poller->count; i++)
            restart_row(&poller->suspects[i]);
    }
}

static void queue_sampled(struct false_progress *check, const struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;
    void *key;
    struct pops *pops;

    if (check->sees_requests || !what->queue)
        return;
    check->queue_samples++;
    key = (void *)(uintptr_t)((uint64_t)what->device->id << 16 | what->queue->index);
    pops = g_hash_table_lookup(check->totals, key);
    if (!pops) {
        pops = g_new0(struct pops, 1);
        g_hash_table_insert(check->totals, key, pops);
    } else if (pops->pops == f->vblk_queue_sample.pops &&
               pops->completions == f->vblk_queue_sample.completions) {
        return;
    }
    pops->pops = f->vblk_queue_sample.pops;
    pops->completions = f->vblk_queue_sample.completions;
    queue_moved(check, what->queue->attached_loop ? what->queue->attached_loop : what->queue->owner_loop);
}

/* A round of samples: what was in a row at the round before, the queues' samples of that round have confirmed. */
static void loop_sampled(struct false_progress *check, struct poller *poller)
{
    if (!poller || check->sees_requests || poller->queue_samples == check->queue_samples)
        return;
    poller->queue_samples = check->queue_samples;
    for (unsigned i = 0; i < poller->count; i++) {
        struct suspect *suspect = &poller->suspects[i];

        if (suspect->checked >= check->env->options->false_progress_polls) {
            row_is_full(suspect, suspect->checked);
            suspect->in_row -= suspect->checked;
            suspect->current.begin_ns = suspect->current.end_ns;
        }
        suspect->checked = suspect->in_row;
    }
}

/* --- events -------------------------------------------------------------------------------------------- */

static int64_t deadline(const struct loop *loop)
{
    return loop->poll_timeout_ns < 0 ? INT64_MAX : loop->poll_since_ns + loop->poll_timeout_ns;
}

/* Timers that are not touched stay where they are, up to the time that it takes to read a clock and to write an event. */
static bool is_same_timer(int64_t a, int64_t b)
{
    return a == b || (a != INT64_MAX && b != INT64_MAX && llabs(a - b) < 1000);
}

static void poll_began(const struct false_progress *check, struct poller *poller, const struct loop *loop)
{
    struct suspect *claimed = poller->claimed;

    poller->claimed = NULL;
    if (!claimed)
        return;
    if (!claimed->handler_id && !is_same_timer(poller->deadline_ns, deadline(loop)))
        restart_row(claimed);
    else
        was_vain(check, claimed, poller->claimed_ns);
}

static void poll_ended(const struct false_progress *check, struct poller *poller,
                       const struct occurrence *what)
{
    const struct event *event = what->event;
    struct suspect *suspect;

    if (poller->claimed) /* the begin of this one was not seen */
        was_vain(check, poller->claimed, poller->claimed_ns);
    poller->deadline_ns = deadline(what->loop);
    poller->claimed = NULL;
    if (!event->fields.rt_loop_poll_end.progress) {
        for (unsigned i = 0; i < poller->count; i++)
            restart_row(&poller->suspects[i]); /* who always claims lets no poll end without */
        return;
    }
    suspect = need_suspect(poller, what);
    suspect->claims++;
    suspect->stale |= what->handler && what->handler->stale.reason;
    if (event->time_ns >= poller->deadline_ns) {
        restart_row(suspect);
        return;
    }
    poller->claimed = suspect;
    poller->claimed_ns = event->time_ns;
}

/* Requests say in which loop they began; how they go on is known by its thread, or without context by where they began. */
static void request_moved(struct false_progress *check, const struct occurrence *what)
{
    GHashTableIter iter;
    void *value;

    if (what->loop) {
        consumed(find_poller(check, what->loop->id));
        return;
    }
    if (what->event->vtid == EVENT_UNKNOWN_ID && what->request && what->request->loop_id) {
        consumed(find_poller(check, what->request->loop_id));
        return;
    }
    g_hash_table_iter_init(&iter, check->pollers);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct poller *poller = value;
        const int64_t vtid = loop_vtid(process_loop(check->env->process, poller->loop_id));

        if (vtid == EVENT_UNKNOWN_ID || what->event->vtid == EVENT_UNKNOWN_ID || vtid == what->event->vtid)
            consumed(poller);
    }
}

static bool is_notification(const struct suspect *suspect)
{
    return !suspect->handler_id || suspect->handler.role == ROLE_WAKEUP;
}

static void on_event(void *state, const struct occurrence *what)
{
    struct false_progress *check = state;
    const union event_fields *f = &what->event->fields;
    struct poller *poller;

    switch (what->event->id) {
    case EVENT_vblk_queue_sample:
        queue_sampled(check, what);
        return;
    case EVENT_vblk_request_begin:
    case EVENT_vblk_request_complete:
    case EVENT_vblk_request_end:
        request_moved(check, what);
        return;
    default:
        break;
    }
    if (!what->loop)
        return;
    poller = find_poller(check, what->loop->id);
    switch (what->event->id) {
    case EVENT_rt_loop_poll_begin:
        poll_began(check, need_poller(check, what->loop->id), what->loop);
        break;
    case EVENT_rt_loop_poll_end:
        poll_ended(check, need_poller(check, what->loop->id), what);
        break;
    case EVENT_rt_loop_wait_begin:
        if (poller)
            poller->claimed = NULL;
        break;
    case EVENT_rt_loop_work_run:
        consumed(poller);
        break;
    case EVENT_rt_loop_notify_accept:
        if (f->rt_loop_notify_accept.was_notified && poller && poller->claimed &&
            is_notification(poller->claimed))
            consumed(poller);
        break;
    case EVENT_rt_loop_fd_dispatch:
        if (f->rt_loop_fd_dispatch.progress)
            consumed(poller);
        else if (poller && poller->claimed &&
                 poller->claimed->handler_id == f->rt_loop_fd_dispatch.handler_id)
            poller->claimed->idle_dispatches++;
        break;
    default:
        loop_sampled(check, poller);
        break;
    }
}

/* --- verdicts ------------------------------------------------------------------------------------------ */

static void describe(const struct process *process, const struct suspect *suspect, char *text_out,
                     size_t size)
{
    const struct handler *handler = &suspect->handler;

    if (!suspect->handler_id)
        g_snprintf(text_out, size, "`notified`");
    else if (handler->role == ROLE_HOST_NOTIFIER)
        g_snprintf(text_out, size, "handler %" PRIu64 " (queue %" PRIu16 " of %s)", suspect->handler_id,
                   handler->queue_index, device_text(process, handler->device_id));
    else
        g_snprintf(text_out, size, "handler %" PRIu64 " (%s)", suspect->handler_id, role_text(handler->role));
}

static void report(const struct check_env *env, uint32_t loop_id, const struct suspect *suspect)
{
    const struct process *process = env->process;
    const char *loop = loop_text(process, loop_id);
    struct finding *finding =
        finding_get(env, "false-progress", "loop %" PRIu32 " handler %" PRIu64, loop_id, suspect->handler_id);
    char who[128];

    describe(process, suspect, who, sizeof(who));
    finding_raise(finding, SEVERITY_WARNING);
    finding_span(finding, suspect->first.begin_ns, suspect->last.end_ns);
    finding_add_count(finding, suspect->vain);
    finding_subject_loop(finding, process, loop_id);
    finding_subject(finding, "handler_id", json_integer((json_int_t)suspect->handler_id));
    if (suspect->handler_id && suspect->handler.role != ROLE_UNKNOWN)
        finding_subject_handler(finding, process, &suspect->handler);
    finding_evidence(
        finding, suspect->first.begin_ns, EVENT_rt_loop_poll_end,
        "%s ends a poll of %s with progress, and nothing is consumed: no request, no work, no descriptor",
        who, loop);
    finding_evidence(finding, suspect->last.end_ns, EVENT_rt_loop_poll_end,
                     "so did %" PRIu64 " polls in such rows up to here, of %" PRIu64 " that it ended",
                     suspect->vain, suspect->claims);
    finding_summary(finding,
                    "%s makes %s poll for nothing: it claimed progress %" PRIu64
                    " times in a row of which nothing came",
                    who, loop, suspect->vain);
    finding_advice(
        finding,
        suspect->handler_id
            ? "The poll callback must return true only if its handler then finds something. Compare what it "
              "looks at with what the handler takes; after a drain, check that the handler was attached "
              "again "
              "with its own callbacks."
            : "A pass must clear `notified` also when it did not wait; else every later poll sees it.");
}

static bool row_is_whole(const struct check_env *env, uint32_t loop_id, const struct row *row)
{
    static const enum event_id consuming[] = { EVENT_rt_loop_work_run, EVENT_rt_loop_fd_dispatch,
                                               EVENT_vblk_request_begin };
    const int64_t vtid = loop_vtid(process_loop(env->process, loop_id));

    if (!process_declares(env->process, EVENT_vblk_request_begin) &&
        loss_hides(env->process, EVENT_UNKNOWN_ID, EVENT_vblk_queue_sample, row->begin_ns, row->end_ns, NULL))
        return false;

    for (unsigned i = 0; i < G_N_ELEMENTS(consuming); i++)
        if (process_declares(env->process, consuming[i]) &&
            loss_hides(env->process, vtid, consuming[i], row->begin_ns, row->end_ns, NULL))
            return false;
    return true;
}

/* Its descriptor was ready, not its callback wrong: stale-fd and unread-fd tell of that. */
static bool is_spinning_descriptor(const struct suspect *suspect)
{
    const bool can_poll = suspect->handler.role == ROLE_HOST_NOTIFIER ||
                          suspect->handler.role == ROLE_COMPLETION || suspect->handler.role == ROLE_UNKNOWN;

    return suspect->stale || (!can_poll && 2 * suspect->idle_dispatches > suspect->claims);
}

static void judge(const struct check_env *env, const struct poller *poller)
{
    for (unsigned i = 0; i < poller->count; i++) {
        const struct suspect *suspect = &poller->suspects[i];

        if (!suspect->rows || is_spinning_descriptor(suspect))
            continue;
        if (row_is_whole(env, poller->loop_id, &suspect->first) ||
            row_is_whole(env, poller->loop_id, &suspect->last))
            report(env, poller->loop_id, suspect);
        else
            inconclusive(env, "false-progress", suspect->first.begin_ns, suspect->last.end_ns,
                         "handler %" PRIu64
                         " ended polls of %s with progress of which nothing came, but what was consumed "
                         "may be among the events that were lost",
                         suspect->handler_id, loop_text(env->process, poller->loop_id));
    }
}

static gint by_loop(const void *a, const void *b)
{
    const struct poller *x = a, *y = b;

    return x->loop_id < y->loop_id ? -1 : x->loop_id > y->loop_id;
}

static void finish(void *state)
{
    const struct false_progress *check = state;
    GList *pollers = g_list_sort(g_hash_table_get_values(check->pollers), by_loop);

    for (GList *poller = pollers; poller; poller = poller->next)
        judge(check->env, poller->data);
    g_list_free(pollers);
}

const struct check_class check_false_progress = {
    .ids = { "false-progress" },
    .needs = NEEDS(SET_LOOP),
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
