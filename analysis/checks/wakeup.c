/*
 * lost-wakeup, late-wakeup: work was handed to a loop, and the loop slept on.
 *
 * Work is pending from its publication until a pass of the loop has looked at it. Every pass looks after its wait or its
 * polling and after it accepted, so any of these settles what was published before. Within a pass, work that ran
 * settles what was published since. What is pending while the loop sleeps ought to have kept it from sleeping or woken
 * it: that a notifier saw the flag down and wrote nothing is in order only as long as the loop then looks.
 * A timer that is armed (kind 2) is no work: the loop's timeout already may be the earlier one.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "core/check.h"

static const enum event_id events[] = {
    EVENT_rt_loop_publish,
    EVENT_rt_loop_notify,
    EVENT_rt_loop_notify_accept,
    EVENT_rt_loop_work_run,
    EVENT_rt_loop_poll_end,
    EVENT_rt_loop_wait_begin,
    EVENT_rt_loop_wait_end,
    EVENT_rt_loop_fd_dispatch,
    EVENT_rt_loop_state,
    EVENT_rt_loop_destroy,
    EVENT_COUNT,
};

#define KIND_COROUTINE 1
#define KIND_TIMER 2

/* Publications that are pending at a time, and late wake-ups per loop, of which details are kept. */
#define PENDING_KEPT 16
#define LATE_KEPT 1024

enum notified { NOT_NOTIFIED, SUPPRESSED, WRITTEN };

struct publication {
    int64_t time_ns;
    int64_t thread_id; /* as the event says; EVENT_UNKNOWN_ID: announced by a baseline */
    int64_t vtid;
    uint64_t kind;
    enum notified notified;
    int64_t notify_ns;
    bool announced;
};

struct late {
    struct publication publication;
    int64_t since_ns, end_ns, timeout_ns; /* the sleep; delayed from since_ns or the publication on */
    bool by_timer;
    uint64_t handler_id; /* what ran first after the sleep; 0: not seen */
    bool confirmed;      /* NOT_NOTIFIED: its thread went on without notifying */
    bool cancelled;      /* NOT_NOTIFIED: its thread was slow, that is all */
};

struct waiter {
    uint32_t loop_id;
    struct publication pending[PENDING_KEPT]; /* the first ones */
    uint64_t pending_count, pending_coroutines;
    bool pending_bottom_half;
    /* of the current pass: looked at, but not yet run */
    uint64_t looked_coroutines;
    bool looked_bottom_half;
    bool announced;     /* its state was announced */
    bool ended_late;    /* the last entry of `late` still waits for what ended it */
    int64_t written_ns; /* the event was written while work was pending */
    unsigned unconfirmed;
    GArray *late;
    uint64_t late_more;
    int64_t timer_ns, timer_min_ns, timer_max_ns; /* waits that a timer ended, and how far apart */
};

struct wakeups {
    struct check_env *env;
    GHashTable *waiters; /* by loop id */
    bool sees_notifies;  /* else nothing can be said of them, nor whether a loop only was slow to wake */
    unsigned ended_late; /* how many of them want to know what ended their sleep */
};

static void waiter_free(void *data)
{
    struct waiter *waiter = data;

    g_array_free(waiter->late, TRUE);
    g_free(waiter);
}

static void *create(struct check_env *env)
{
    struct wakeups *wakeups = g_new0(struct wakeups, 1);

    wakeups->env = env;
    wakeups->sees_notifies = process_declares(env->process, EVENT_rt_loop_notify);
    wakeups->waiters = g_hash_table_new_full(NULL, NULL, NULL, waiter_free);
    return wakeups;
}

static void destroy(void *state)
{
    struct wakeups *wakeups = state;

    g_hash_table_destroy(wakeups->waiters);
    g_free(wakeups);
}

static struct waiter *need_waiter(struct wakeups *wakeups, uint32_t loop_id)
{
    void *key = (void *)(uintptr_t)loop_id;
    struct waiter *waiter = g_hash_table_lookup(wakeups->waiters, key);

    if (!waiter) {
        waiter = g_new0(struct waiter, 1);
        waiter->loop_id = loop_id;
        waiter->late = g_array_new(FALSE, FALSE, sizeof(struct late));
        waiter->timer_min_ns = INT64_MAX;
        g_hash_table_insert(wakeups->waiters, key, waiter);
    }
    return waiter;
}

static unsigned kept(const struct waiter *waiter)
{
    return (unsigned)MIN(waiter->pending_count, PENDING_KEPT);
}

/* --- what is pending ----------------------------------------------------------------------------------- */

static void add_pending(struct waiter *waiter, const struct publication *publication)
{
    if (waiter->pending_count < PENDING_KEPT)
        waiter->pending[waiter->pending_count] = *publication;
    waiter->pending_count++;
    if (publication->kind == KIND_COROUTINE)
        waiter->pending_coroutines++;
    else
        waiter->pending_bottom_half = true;
}

static void forget_pending(struct waiter *waiter)
{
    waiter->pending_count = waiter->pending_coroutines = 0;
    waiter->pending_bottom_half = false;
}

/* A pass looks now: whatever was published will run in it. */
static void look(struct waiter *waiter)
{
    waiter->looked_coroutines += waiter->pending_coroutines;
    waiter->looked_bottom_half |= waiter->pending_bottom_half;
    forget_pending(waiter);
}

/*
 * Work ran that was published after this pass had looked, if more ran than what it had looked at. Each coroutine runs
 * for itself; bottom halves are at least one.
 */
static void ran(struct waiter *waiter, uint64_t count)
{
    const bool nothing_else = !waiter->looked_coroutines && !waiter->looked_bottom_half;
    const uint64_t at_least = waiter->looked_coroutines + waiter->pending_coroutines +
                              (waiter->looked_bottom_half || waiter->pending_bottom_half);

    if (waiter->pending_count && (nothing_else || count >= at_least))
        forget_pending(waiter);
    waiter->looked_coroutines = 0;
    waiter->looked_bottom_half = false;
}

static void published(struct waiter *waiter, const struct event *event)
{
    const struct publication publication = {
        .time_ns = event->time_ns,
        .thread_id = event->fields.rt_loop_publish.thread_id,
        .vtid = event->vtid,
        .kind = event->fields.rt_loop_publish.kind,
    };

    if (publication.kind == KIND_TIMER)
        return;
    for (unsigned i = waiter->late->len; waiter->unconfirmed && i-- > 0;) {
        struct late *late = &g_array_index(waiter->late, struct late, i);

        if (late->publication.notified == NOT_NOTIFIED && !late->confirmed && !late->cancelled &&
            late->publication.thread_id == publication.thread_id) {
            late->confirmed = true;
            waiter->unconfirmed--;
        }
    }
    add_pending(waiter, &publication);
}

static void notified(struct waiter *waiter, const struct event *event)
{
    const int64_t thread_id = event->fields.rt_loop_notify.thread_id;
    const bool wrote = event->fields.rt_loop_notify.wrote_event != 0;

    for (unsigned i = 0; i < kept(waiter); i++) {
        struct publication *publication = &waiter->pending[i];

        if (publication->notified == NOT_NOTIFIED && publication->thread_id == thread_id) {
            publication->notified = wrote ? WRITTEN : SUPPRESSED;
            publication->notify_ns = event->time_ns;
        }
    }
    if (wrote && waiter->pending_count)
        waiter->written_ns = event->time_ns; /* wakes the loop, whoever wrote it */
    for (unsigned i = waiter->late->len; waiter->unconfirmed && i-- > 0;) {
        struct late *late = &g_array_index(waiter->late, struct late, i);

        if (late->publication.notified == NOT_NOTIFIED && !late->confirmed && !late->cancelled &&
            late->publication.thread_id == thread_id) {
            late->cancelled = true;
            waiter->unconfirmed--;
        }
    }
}

/* --- sleeps that ended --------------------------------------------------------------------------------- */

static bool wrote_since(const struct waiter *waiter, int64_t since_ns)
{
    return waiter->written_ns && waiter->written_ns >= since_ns;
}

static int64_t delay_of(const struct late *late)
{
    return late->end_ns - MAX(late->since_ns, late->publication.time_ns);
}

/* The first publication that this sleep kept waiting without anybody having tried to end it. */
static const struct publication *kept_waiting(const struct wakeups *wakeups, const struct waiter *waiter,
                                              const struct loop_sleep *sleep, bool by_timer)
{
    const int64_t limit_ns = wakeups->env->options->late_wakeup_ns;

    for (unsigned i = 0; wakeups->sees_notifies && i < kept(waiter); i++) {
        const struct publication *publication = &waiter->pending[i];
        const int64_t from_ns =
            sleep->known ? MAX(sleep->since_ns, publication->time_ns) : publication->time_ns;

        if (sleep->end_ns - from_ns <= limit_ns)
            break; /* nor did the later ones wait longer */
        if (publication->announced && !by_timer)
            continue; /* by its own event, as far as we know */
        if (publication->notified == SUPPRESSED ||
            (publication->notified == NOT_NOTIFIED && !wrote_since(waiter, publication->time_ns)))
            return publication;
    }
    return NULL;
}

static void note_timer(struct waiter *waiter, int64_t time_ns)
{
    if (waiter->timer_ns) {
        waiter->timer_min_ns = MIN(waiter->timer_min_ns, time_ns - waiter->timer_ns);
        waiter->timer_max_ns = MAX(waiter->timer_max_ns, time_ns - waiter->timer_ns);
    }
    waiter->timer_ns = time_ns;
}

static void wait_ended(struct wakeups *wakeups, struct waiter *waiter, const struct occurrence *what)
{
    const struct loop_sleep *sleep = &what->loop->sleep;
    const bool by_timer =
        what->event->fields.rt_loop_wait_end.ready_count == 0 && (!sleep->known || sleep->timeout_ns >= 0);
    const struct publication *publication = kept_waiting(wakeups, waiter, sleep, by_timer);

    if (by_timer && sleep->known && sleep->timeout_ns > 0)
        note_timer(waiter, sleep->end_ns);
    if (publication && waiter->late->len < LATE_KEPT) {
        const struct late late = {
            .publication = *publication,
            .since_ns = sleep->known ? sleep->since_ns : INT64_MIN,
            .end_ns = sleep->end_ns,
            .timeout_ns = sleep->known ? sleep->timeout_ns : -1,
            .by_timer = by_timer,
        };

        g_array_append_val(waiter->late, late);
        if (!by_timer && !waiter->ended_late) {
            waiter->ended_late = true;
            wakeups->ended_late++;
        }
        if (publication->notified == NOT_NOTIFIED)
            waiter->unconfirmed++;
    } else if (publication) {
        waiter->late_more++;
    }
}

static void sleep_explained(struct wakeups *wakeups, struct waiter *waiter, uint64_t handler_id)
{
    if (!waiter->ended_late)
        return;
    g_array_index(waiter->late, struct late, waiter->late->len - 1).handler_id = handler_id;
    waiter->ended_late = false;
    wakeups->ended_late--;
}

/* --- events -------------------------------------------------------------------------------------------- */

static void state_announced(struct waiter *waiter, const struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;

    waiter->announced = true;
    if (!f->rt_loop_state.pending) {
        /* Read after the baseline began: what was published before has run. */
        if (what->in_baseline && waiter->pending_count &&
            waiter->pending[kept(waiter) - 1].time_ns < what->process->baseline.begin_ns)
            forget_pending(waiter);
    } else if (!waiter->pending_count && loop_sleeps_without_limit(what->loop)) {
        /* Whoever notifies sets `notified`, unless nobody did. */
        const struct publication publication = {
            .time_ns = what->event->time_ns,
            .thread_id = EVENT_UNKNOWN_ID,
            .vtid = EVENT_UNKNOWN_ID,
            .notified = f->rt_loop_state.notified ? SUPPRESSED : NOT_NOTIFIED,
            .notify_ns = what->event->time_ns,
            .announced = true,
        };

        add_pending(waiter, &publication);
    }
}

static void on_event(void *state, const struct occurrence *what)
{
    struct wakeups *wakeups = state;
    const struct event *event = what->event;
    struct waiter *waiter;

    if (!what->loop || (event->id == EVENT_rt_loop_fd_dispatch && !wakeups->ended_late))
        return;
    waiter = need_waiter(wakeups, what->loop->id);
    switch (event->id) {
    case EVENT_rt_loop_publish:
        published(waiter, event);
        break;
    case EVENT_rt_loop_notify:
        notified(waiter, event);
        break;
    case EVENT_rt_loop_wait_end:
        wait_ended(wakeups, waiter, what);
        look(waiter);
        break;
    case EVENT_rt_loop_notify_accept:
        look(waiter);
        break;
    case EVENT_rt_loop_poll_end:
        if (event->fields.rt_loop_poll_end.progress)
            look(waiter);
        break;
    case EVENT_rt_loop_work_run:
        ran(waiter, event->fields.rt_loop_work_run.count);
        break;
    case EVENT_rt_loop_wait_begin:
        waiter->looked_coroutines = 0;
        waiter->looked_bottom_half = false;
        sleep_explained(wakeups, waiter, 0);
        break;
    case EVENT_rt_loop_fd_dispatch:
        sleep_explained(wakeups, waiter, event->fields.rt_loop_fd_dispatch.handler_id);
        break;
    case EVENT_rt_loop_state:
        state_announced(waiter, what);
        break;
    default: /* rt_loop:destroy: what was pending will not run, and nobody sleeps */
        forget_pending(waiter);
        break;
    }
}

/* --- verdicts ------------------------------------------------------------------------------------------ */

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static const char *cause_text(enum notified notified)
{
    static const char *const texts[] = { "no-notify", "suppressed", "unread" };

    return texts[notified];
}

static const char *kind_text(uint64_t kind)
{
    return kind == KIND_COROUTINE ? "a coroutine" : "a bottom half";
}

static void tell_publication(struct finding *finding, const struct process *process, uint32_t loop_id,
                             const struct publication *publication)
{
    const char *loop = loop_text(process, loop_id);
    const char *thread = thread_text(process, publication->thread_id);

    if (publication->announced)
        finding_evidence(finding, publication->time_ns, EVENT_rt_loop_state,
                         "%s has published work that has not run; it was handed in before, %s", loop,
                         publication->notified == SUPPRESSED ? "and the loop was notified"
                                                             : "and nobody notified the loop");
    else
        finding_evidence(finding, publication->time_ns, EVENT_rt_loop_publish, "%s hands %s to %s", thread,
                         kind_text(publication->kind), loop);
    if (publication->announced || !process_declares(process, EVENT_rt_loop_notify))
        return;
    if (publication->notified == NOT_NOTIFIED)
        finding_evidence(finding, publication->time_ns, EVENT_rt_loop_publish, "%s does not notify %s of it",
                         thread, loop);
    else
        finding_evidence(finding, publication->notify_ns, EVENT_rt_loop_notify,
                         publication->notified == WRITTEN
                             ? "%s notifies %s and writes its event"
                             : "%s notifies %s, sees it not about to block, and writes no event",
                         thread, loop);
}

static void advise(struct finding *finding, enum notified notified)
{
    switch (notified) {
    case SUPPRESSED:
        finding_advice(
            finding,
            "The notifier must publish and set `notified` before its full fence, and read notify_me after "
            "it; "
            "the loop must raise notify_me, fence, and look at `notified` again before it blocks. One of the "
            "four is missing or out of order. Until then: --notify=always, or a timer in the loop, hides "
            "it.");
        break;
    case NOT_NOTIFIED:
        finding_advice(
            finding,
            "Every path that hands work to a loop must notify it afterwards; find the one of this thread "
            "that returns without.");
        break;
    case WRITTEN:
        finding_advice(
            finding,
            "The event was written and did not wake the loop: its wake-up descriptor is not in the loop's "
            "monitor (any more), or was consumed elsewhere. Check who attaches and who reads it.");
        break;
    }
}

/* Nothing that would have settled it may be among the loop's lost events. */
static bool settling_may_be_lost(const struct wakeups *wakeups, const struct loop *loop, int64_t begin_ns,
                                 int64_t end_ns, struct loss *loss_out)
{
    return loss_hides(wakeups->env->process, loop_vtid(loop), EVENT_rt_loop_wait_end, begin_ns, end_ns,
                      loss_out);
}

/* That nobody notified rests on the publisher's stream. */
static bool notify_may_be_lost(const struct wakeups *wakeups, const struct publication *publication,
                               int64_t end_ns, struct loss *loss_out)
{
    if (publication->notified != NOT_NOTIFIED || publication->announced || !wakeups->sees_notifies)
        return false;
    return loss_hides(wakeups->env->process, publication->vtid, EVENT_rt_loop_notify, publication->time_ns,
                      end_ns, loss_out);
}

static void unsure(const struct wakeups *wakeups, const char *id, uint32_t loop_id, int64_t begin_ns,
                   int64_t end_ns, const char *what)
{
    inconclusive(wakeups->env, id, begin_ns, end_ns, "work was handed to %s and was not seen to run, but %s",
                 loop_text(wakeups->env->process, loop_id), what);
}

static void report_lost(const struct wakeups *wakeups, const struct waiter *waiter, const struct loop *loop,
                        int64_t end_ns)
{
    const struct process *process = wakeups->env->process;
    const struct publication *publication = &waiter->pending[0];
    const bool unread = wrote_since(waiter, MAX(loop->sleep.since_ns, publication->time_ns));
    const enum notified notified = unread ? WRITTEN : publication->notified;
    const bool told = publication->announced || wakeups->sees_notifies;
    const char *name = loop_text(process, loop->id);
    struct finding *finding = finding_get(wakeups->env, "lost-wakeup", "loop %" PRIu32, loop->id);

    finding_raise(finding, SEVERITY_ERROR);
    finding_span(finding, MIN(publication->time_ns, MAX(loop->sleep.since_ns, publication->time_ns)), end_ns);
    finding_add_count(finding, waiter->pending_count);
    finding_subject_loop(finding, process, loop->id);
    if (told)
        finding_cause(finding, "%s", cause_text(notified));
    tell_publication(finding, process, loop->id, publication);
    finding_evidence(finding, loop->sleep.since_ns, EVENT_rt_loop_wait_begin, "%s blocks without limit",
                     name);
    if (unread && publication->notified != WRITTEN)
        finding_evidence(finding, waiter->written_ns, EVENT_rt_loop_notify, "the event of %s is written",
                         name);
    finding_note(finding, end_ns, "end",
                 "%s still sleeps; %" PRIu64 " publication%s waiting, the first for %.3f s", name,
                 waiter->pending_count, waiter->pending_count == 1 ? " is" : "s are",
                 (double)(end_ns - publication->time_ns) / 1e9);
    finding_summary(
        finding,
        "%s sleeps without limit on work that was handed to it (%s), for %.1f s to the end: its wake-up "
        "was lost",
        name, told ? cause_text(notified) : "whether it was notified is not recorded",
        (double)(end_ns - publication->time_ns) / 1e9);
    if (told)
        advise(finding, notified);
    else
        finding_advice(finding, "Look at who handed it in, and whether that path notifies the loop; in the debugger, whether "
                                "the loop's thread is still in its wait, with which descriptors, and what `notified` says.");
}

static int64_t waited_ns(const struct waiter *waiter, const struct loop *loop, int64_t end_ns)
{
    const struct publication *publication = &waiter->pending[0];

    if (publication->announced)
        return end_ns - loop->sleep.since_ns;
    return end_ns -
           (loop->sleep.asleep ? MAX(publication->time_ns, loop->sleep.since_ns) : publication->time_ns);
}

static void judge_lost(const struct wakeups *wakeups, const struct waiter *waiter, const struct loop *loop)
{
    const struct publication *publication = &waiter->pending[0];
    const int64_t end_ns = process_end_ns(wakeups->env->process);
    const int64_t limit_ns = wakeups->env->options->stuck_request_ns;
    struct loss loss;

    if (!waiter->pending_count || !loop || loop->gone || waited_ns(waiter, loop, end_ns) < limit_ns)
        return;
    /* When announced work was published is not known: perhaps the loop was just about to wake. */
    if (publication->announced && end_ns - publication->time_ns <= wakeups->env->options->late_wakeup_ns)
        return;
    if (settling_may_be_lost(wakeups, loop, publication->time_ns, end_ns, &loss)) {
        unsure(wakeups, "lost-wakeup", loop->id, publication->time_ns, end_ns,
               "events of its thread were lost since then");
        return;
    }
    if (loop->active_ns == INT64_MIN && !loop->sleep.known && !waiter->announced) {
        unsure(wakeups, "lost-wakeup", loop->id, publication->time_ns, end_ns,
               "what this loop did before the recording is unknown: no whole baseline");
        return;
    }
    if (!loop_sleeps_without_limit(loop))
        return; /* busy, or woken by a timer in the end */
    if (notify_may_be_lost(wakeups, publication, end_ns, &loss)) {
        unsure(wakeups, "lost-wakeup", loop->id, publication->time_ns, end_ns,
               "its notification may be among the events that were lost");
        return;
    }
    report_lost(wakeups, waiter, loop, end_ns);
}

static gint by_delay(const void *a, const void *b)
{
    const int64_t x = delay_of(a), y = delay_of(b);

    return x < y ? -1 : x > y;
}

static void tell_late(struct finding *finding, const struct process *process, const struct waiter *waiter,
                      const struct late *late)
{
    const struct handler *handler = process_handler(process, late->handler_id);
    const char *name = loop_text(process, waiter->loop_id);

    tell_publication(finding, process, waiter->loop_id, &late->publication);
    if (late->by_timer)
        finding_evidence(finding, late->end_ns, EVENT_rt_loop_wait_end,
                         "a timer ends the sleep of %s, %.3f ms late (it blocked for up to %.3f ms)", name,
                         ms(delay_of(late)), ms(late->timeout_ns));
    else if (late->handler_id)
        finding_evidence(finding, late->end_ns, EVENT_rt_loop_wait_end,
                         "handler %" PRIu64 " (%s) ends the sleep of %s, %.3f ms late", late->handler_id,
                         role_text(handler ? handler->role : ROLE_UNKNOWN), name, ms(delay_of(late)));
    else
        finding_evidence(finding, late->end_ns, EVENT_rt_loop_wait_end,
                         "something else ends the sleep of %s, %.3f ms late", name, ms(delay_of(late)));
}

static void report_late(const struct wakeups *wakeups, const struct waiter *waiter, const GArray *proven)
{
    const struct process *process = wakeups->env->process;
    const struct late *first = &g_array_index(proven, struct late, 0);
    const struct late *last = &g_array_index(proven, struct late, proven->len - 1);
    const uint64_t count = proven->len + waiter->late_more;
    const char *name = loop_text(process, waiter->loop_id);
    struct finding *finding = finding_get(wakeups->env, "late-wakeup", "loop %" PRIu32, waiter->loop_id);
    GArray *sorted = g_array_sized_new(FALSE, FALSE, sizeof(struct late), proven->len);
    unsigned suppressed = 0, by_timer = 0;
    char period[96] = "";
    enum notified cause;

    for (unsigned i = 0; i < proven->len; i++) {
        const struct late *late = &g_array_index(proven, struct late, i);

        finding_span(finding, late->publication.time_ns, late->end_ns);
        suppressed += late->publication.notified == SUPPRESSED;
        by_timer += late->by_timer;
        if (i < 2 || i == proven->len - 1)
            tell_late(finding, process, waiter, late);
    }
    cause = 2 * suppressed >= proven->len ? SUPPRESSED : NOT_NOTIFIED;
    g_array_append_vals(sorted, proven->data, proven->len);
    g_array_sort(sorted, by_delay);
    if (waiter->timer_min_ns != INT64_MAX)
        g_snprintf(period, sizeof(period), "; its timers end a wait every %.3f to %.3f ms",
                   ms(waiter->timer_min_ns), ms(waiter->timer_max_ns));
    else if (first->by_timer)
        g_snprintf(period, sizeof(period), "; its timer would have been due after %.3f ms",
                   ms(first->timeout_ns));
    finding_raise(finding, SEVERITY_WARNING);
    finding_add_count(finding, count);
    finding_subject_loop(finding, process, waiter->loop_id);
    finding_cause(finding, "%s", cause_text(cause));
    finding_note(finding, last->end_ns, "late wake-ups",
                 "%" PRIu64
                 " in all, by %.3f ms at least, %.3f ms in the middle, %.3f ms at most; a timer ended %u of "
                 "them%s",
                 count, ms(delay_of(&g_array_index(sorted, struct late, 0))),
                 ms(delay_of(&g_array_index(sorted, struct late, sorted->len / 2))),
                 ms(delay_of(&g_array_index(sorted, struct late, sorted->len - 1))), by_timer, period);
    finding_summary(finding,
                    "%s woke late %" PRIu64
                    " time%s for work that was handed to it (%s), by up to %.3f ms, and only "
                    "because %s came%s",
                    name, count, count == 1 ? "" : "s", cause_text(cause),
                    ms(delay_of(&g_array_index(sorted, struct late, sorted->len - 1))),
                    by_timer ? "a timer" : "something else", period);
    advise(finding, cause);
    g_array_free(sorted, TRUE);
}

static void judge_late(const struct wakeups *wakeups, const struct waiter *waiter, const struct loop *loop)
{
    GArray *proven = g_array_new(FALSE, FALSE, sizeof(struct late));
    const struct late *doubtful = NULL;
    struct loss loss;

    for (unsigned i = 0; i < waiter->late->len; i++) {
        const struct late *late = &g_array_index(waiter->late, struct late, i);

        if (late->cancelled)
            continue;
        if (settling_may_be_lost(wakeups, loop, late->publication.time_ns, late->end_ns, &loss) ||
            notify_may_be_lost(wakeups, &late->publication, late->end_ns, &loss))
            doubtful = doubtful ? doubtful : late;
        else
            g_array_append_val(proven, *late);
    }
    if (proven->len)
        report_late(wakeups, waiter, proven);
    else if (doubtful)
        unsure(wakeups, "late-wakeup", waiter->loop_id, doubtful->publication.time_ns, doubtful->end_ns,
               "what woke it in time, or ran the work, may be among the events that were lost");
    g_array_free(proven, TRUE);
}

static gint by_loop(const void *a, const void *b)
{
    const struct waiter *x = a, *y = b;

    return x->loop_id < y->loop_id ? -1 : x->loop_id > y->loop_id;
}

static void finish(void *state)
{
    const struct wakeups *wakeups = state;
    GList *waiters = g_list_sort(g_hash_table_get_values(wakeups->waiters), by_loop);

    for (GList *item = waiters; item; item = item->next) {
        const struct waiter *waiter = item->data;
        const struct loop *loop = process_loop(wakeups->env->process, waiter->loop_id);

        judge_lost(wakeups, waiter, loop);
        judge_late(wakeups, waiter, loop);
    }
    g_list_free(waiters);
}

const struct check_class check_wakeup = {
    .ids = { "lost-wakeup", "late-wakeup" },
    .needs = NEEDS(SET_LOOP),
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
