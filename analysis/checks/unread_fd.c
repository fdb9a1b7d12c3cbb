/*
 * unread-fd: a handler runs again and again and finds nothing, though its registration is in order: it does not read its
 * descriptor (or nobody clears what makes it ready).
 *
 * A row of dispatches without progress counts only if no progress was lost in between, so the first and the last complete
 * row are kept and one of them must be free of losses. A stale handler is another finding, and so is its rival: the
 * right handler of the same queue, which loses some races for the eventfd.
 */
#include <inttypes.h>

#include "core/check.h"

static const enum event_id events[] = { EVENT_rt_loop_fd_dispatch, EVENT_rt_loop_fd_detach,
                                        EVENT_rt_loop_destroy, EVENT_COUNT };

struct row {
    int64_t begin_ns, end_ns;
};

struct suspect {
    uint64_t handler_id;
    uint64_t in_row; /* dispatches without progress since the last with */
    struct row current, first, last;
    uint64_t rows;         /* complete ones */
    uint64_t idle_in_runs; /* dispatches in runs that were long enough */
    int64_t begin_ns;      /* of the first such run */
    int64_t vtid;          /* who dispatches */
    /* as it was when last seen, since the handler may go */
    struct handler handler;
    bool other_fault;
};

struct unread {
    struct check_env *env;
    GHashTable *suspects; /* handler id -> struct suspect; only handlers whose last dispatch found nothing */
};

static void *create(struct check_env *env)
{
    struct unread *unread = g_new0(struct unread, 1);

    unread->env = env;
    unread->suspects = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return unread;
}

static void destroy(void *state)
{
    struct unread *unread = state;

    g_hash_table_destroy(unread->suspects);
    g_free(unread);
}

/* Something else is wrong with its registration, or with that of its rival for the same eventfd. */
static bool has_other_fault(const struct process *process, const struct handler *handler)
{
    GHashTableIter iter;
    void *value;

    if (handler->stale.reason)
        return true;
    if (handler->role != ROLE_HOST_NOTIFIER)
        return false;
    g_hash_table_iter_init(&iter, process->handlers);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct handler *other = value;

        if (other != handler && other->role == ROLE_HOST_NOTIFIER && other->device_id == handler->device_id &&
            other->queue_index == handler->queue_index && other->stale.reason)
            return true;
    }
    return false;
}

/* It runs because its poll callback said so, not because its descriptor is ready: that is false-progress. */
static bool was_claimed(const struct occurrence *what)
{
    return what->loop && what->loop->poll_handler == what->handler->id &&
           (what->handler->role == ROLE_HOST_NOTIFIER || what->handler->role == ROLE_COMPLETION);
}

static void dispatched(struct unread *unread, const struct occurrence *what)
{
    const uint64_t id = what->event->fields.rt_loop_fd_dispatch.handler_id;
    const uint64_t limit = unread->env->options->unread_dispatches;
    struct suspect *suspect = g_hash_table_lookup(unread->suspects, (void *)(uintptr_t)id);

    if (what->event->fields.rt_loop_fd_dispatch.progress) {
        if (suspect && suspect->rows)
            suspect->in_row = 0;
        else if (suspect)
            g_hash_table_remove(unread->suspects, (void *)(uintptr_t)id);
        return;
    }
    if (!what->handler || was_claimed(what))
        return;
    if (!suspect) {
        suspect = g_new0(struct suspect, 1);
        suspect->handler_id = id;
        suspect->handler = *what->handler;
        g_hash_table_insert(unread->suspects, (void *)(uintptr_t)id, suspect);
    }
    if (suspect->in_row % limit == 0)
        suspect->current.begin_ns = what->event->time_ns;
    suspect->in_row++;
    suspect->vtid = what->event->vtid;
    if (suspect->in_row > limit)
        suspect->idle_in_runs++;
    if (suspect->in_row % limit == 0) {
        suspect->current.end_ns = what->event->time_ns;
        suspect->last = suspect->current;
        suspect->handler = *what->handler;
        suspect->other_fault |= has_other_fault(unread->env->process, what->handler);
        if (suspect->in_row == limit)
            suspect->idle_in_runs += limit;
        if (!suspect->rows++) {
            suspect->first = suspect->current;
            suspect->begin_ns = suspect->current.begin_ns;
        }
    }
}

static bool row_is_whole(const struct process *process, const struct suspect *suspect, const struct row *row)
{
    return !loss_hides(process, suspect->vtid, EVENT_rt_loop_fd_dispatch, row->begin_ns, row->end_ns, NULL);
}

static void report(const struct check_env *env, const struct suspect *suspect)
{
    const struct process *process = env->process;
    const struct handler *handler = &suspect->handler;
    const struct loop *loop = process_loop(process, handler->loop_id);
    const char *name = loop_text(process, handler->loop_id);
    struct finding *finding = finding_get(env, "unread-fd", "handler %" PRIu64, suspect->handler_id);

    finding_raise(finding, SEVERITY_ERROR);
    finding_span(finding, suspect->begin_ns, suspect->last.end_ns);
    finding_add_count(finding, suspect->idle_in_runs);
    finding_subject_handler(finding, process, handler);
    finding_evidence(finding, handler->attach_ns, EVENT_rt_loop_fd_attach,
                     "descriptor %" PRId64 " (role %s) is in %s as handler %" PRIu64 "%s%s", handler->fd,
                     role_text(handler->role), name, handler->id,
                     handler->attach_vtid != EVENT_UNKNOWN_ID ? ", put there by " : "",
                     handler->attach_vtid != EVENT_UNKNOWN_ID ? thread_text(process, handler->attach_vtid)
                                                              : "");
    finding_evidence(finding, suspect->first.begin_ns, EVENT_rt_loop_fd_dispatch,
                     "%s runs handler %" PRIu64 ": nothing was there; the first of a row without progress",
                     name, handler->id);
    finding_evidence(finding, suspect->last.end_ns, EVENT_rt_loop_fd_dispatch,
                     "%" PRIu64 " dispatches without progress in such rows up to here, of %" PRIu64
                     " dispatches of this loop",
                     suspect->idle_in_runs, loop ? loop->dispatches : 0);
    finding_summary(finding,
                    "%s runs the handler of descriptor %" PRId64 " (role %s, handler %" PRIu64
                    ") over and over and it "
                    "never reads: %" PRIu64 " vain dispatches",
                    name, handler->fd, role_text(handler->role), handler->id, suspect->idle_in_runs);
    finding_advice(
        finding,
        "The handler must consume what made its descriptor ready (read the eventfd, take the message), or "
        "be removed while it does not want it. A descriptor that is closed or shut down by the other side "
        "stays ready for ever, too.");
}

static void judge(const struct unread *unread, const struct suspect *suspect)
{
    const struct check_env *env = unread->env;
    const struct handler *live = process_handler(env->process, suspect->handler_id);

    if (!suspect->rows || suspect->other_fault || (live && has_other_fault(env->process, live)))
        return;
    if (!row_is_whole(env->process, suspect, &suspect->first) &&
        !row_is_whole(env->process, suspect, &suspect->last)) {
        inconclusive(env, "unread-fd", suspect->begin_ns, suspect->last.end_ns,
                     "handler %" PRIu64 " in %s was seen running for nothing %" PRIu64
                     " times, but dispatches that made "
                     "progress may be among lost events",
                     suspect->handler_id, loop_text(env->process, suspect->handler.loop_id),
                     suspect->idle_in_runs);
        return;
    }
    if (suspect->handler.role == ROLE_UNKNOWN) {
        /* Unread or stale: it spins, but what it is registered for was before our time. */
        static const char *const ids[] = { "unread-fd", "stale-fd" };

        for (unsigned i = 0; i < G_N_ELEMENTS(ids); i++)
            inconclusive(env, ids[i], suspect->begin_ns, suspect->last.end_ns,
                         "handler %" PRIu64 " (descriptor %" PRId64 ") in %s ran %" PRIu64
                         " times for nothing, but it was "
                         "registered before the recording and no whole baseline says for what",
                         suspect->handler_id, suspect->handler.fd,
                         loop_text(env->process, suspect->handler.loop_id), suspect->idle_in_runs);
        return;
    }
    report(env, suspect);
}

static void ended(struct unread *unread, uint64_t handler_id)
{
    const struct suspect *suspect = g_hash_table_lookup(unread->suspects, (void *)(uintptr_t)handler_id);

    /* With a complete row it is kept for the end, when all losses are known. */
    if (suspect && !suspect->rows)
        g_hash_table_remove(unread->suspects, (void *)(uintptr_t)handler_id);
}

static void on_event(void *state, const struct occurrence *what)
{
    struct unread *unread = state;

    if (what->event->id == EVENT_rt_loop_fd_dispatch) {
        dispatched(unread, what);
    } else if (what->event->id == EVENT_rt_loop_fd_detach) {
        ended(unread, what->event->fields.rt_loop_fd_detach.handler_id);
    } else if (what->loop) {
        GHashTableIter iter;
        void *value;

        g_hash_table_iter_init(&iter, unread->suspects);
        while (g_hash_table_iter_next(&iter, NULL, &value)) {
            const struct suspect *suspect = value;

            if (suspect->handler.loop_id == what->loop->id && !suspect->rows)
                g_hash_table_iter_remove(&iter);
        }
    }
}

static gint by_id(const void *a, const void *b)
{
    const struct suspect *x = a, *y = b;

    return x->handler_id < y->handler_id ? -1 : x->handler_id > y->handler_id;
}

static void finish(void *state)
{
    struct unread *unread = state;
    GList *suspects = g_list_sort(g_hash_table_get_values(unread->suspects), by_id);

    for (GList *suspect = suspects; suspect; suspect = suspect->next)
        judge(unread, suspect->data);
    g_list_free(suspects);
}

const struct check_class check_unread_fd = {
    .ids = { "unread-fd" },
    .needs = NEEDS(SET_LOOP),
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
