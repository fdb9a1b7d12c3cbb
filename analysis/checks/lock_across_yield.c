/*
 * lock-across-yield: a coroutine yields while it holds a thread mutex.
 *
 * Told by the program (held_at_yield), or seen: the mutex was acquired by this coroutine, is not released, and it yields.
 * Whether it came to a deadlock is decided at the end: a cycle of waits through the mutex. A coroutine mutex may be held
 * across a yield; a mutex that the thread or another coroutine holds is not held by the one that yields.
 */
#include <inttypes.h>

#include "checks/wait_cycle.h"
#include "core/check.h"
#include "model/holding.h"

static const enum event_id events[] = { EVENT_rt_lock_held_at_yield, EVENT_rt_coroutine_yield,
                                        EVENT_rt_lock_wait, EVENT_COUNT };

#define THREAD_MUTEX 0
#define COROUTINE_MUTEX 1
/* Of one mutex: yields that are seen but not told, as the release may be lost before one and not before another. */
#define SEEN_KEPT 16
#define TOLD_IN_FULL 4

struct yield {
    int64_t since_ns, yield_ns, tid;
    uint64_t coroutine_id;
    bool announced;
};

struct mutex {
    uint64_t id;
    uint64_t told_count, seen_count;
    struct yield told[TOLD_IN_FULL], seen[SEEN_KEPT];
    int64_t told_last_ns, seen_last_ns;
    uint64_t victims;      /* acquisitions that waited while its holder was suspended */
    int64_t suspended_tid; /* of the last yield */
    uint64_t suspended_coroutine_id;
};

struct across {
    struct check_env *env;
    GHashTable *mutexes; /* lock_id -> struct mutex, broken rules only */
};

static void *create(struct check_env *env)
{
    struct across *across = g_new0(struct across, 1);

    across->env = env;
    across->mutexes = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return across;
}

static void destroy(void *state)
{
    struct across *across = state;

    g_hash_table_destroy(across->mutexes);
    g_free(across);
}

static struct mutex *need_mutex(struct across *across, uint64_t id)
{
    struct mutex *mutex = g_hash_table_lookup(across->mutexes, (void *)(uintptr_t)id);

    if (!mutex) {
        mutex = g_new0(struct mutex, 1);
        mutex->id = id;
        g_hash_table_insert(across->mutexes, (void *)(uintptr_t)id, mutex);
    }
    return mutex;
}

static void told(struct across *across, const struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;
    const struct hold *hold;
    struct mutex *mutex;

    if (!what->lock || what->lock->kind == COROUTINE_MUTEX)
        return; /* allowed */
    mutex = need_mutex(across, what->lock->id);
    hold = process_hold(what->process, what->lock->id);
    if (mutex->told_count < TOLD_IN_FULL)
        mutex->told[mutex->told_count] =
            (struct yield){ .since_ns = hold ? hold->since_ns : 0,
                            .yield_ns = what->event->time_ns,
                            .tid = f->rt_lock_held_at_yield.thread_id,
                            .coroutine_id = f->rt_lock_held_at_yield.coroutine_id,
                            .announced = hold && hold->announced };
    mutex->told_count++;
    mutex->told_last_ns = what->event->time_ns;
    mutex->suspended_tid = f->rt_lock_held_at_yield.thread_id;
    mutex->suspended_coroutine_id = f->rt_lock_held_at_yield.coroutine_id;
}

static void yielded(struct across *across, const struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;
    const uint64_t coroutine_id = f->rt_coroutine_yield.coroutine_id;
    const GArray *holds = what->process->holds;

    for (unsigned i = 0; coroutine_id && i < holds->len; i++) {
        struct hold *hold = &g_array_index(holds, struct hold, i);
        const struct lock *lock =
            hold->coroutine_id == coroutine_id ? process_lock(what->process, hold->lock_id) : NULL;
        struct mutex *mutex;

        if (!lock || lock->kind != THREAD_MUTEX)
            continue;
        if (hold->told) {
            hold->told = false; /* the program said so itself */
            continue;
        }
        mutex = need_mutex(across, lock->id);
        if (mutex->seen_count < SEEN_KEPT)
            mutex->seen[mutex->seen_count] = (struct yield){ .since_ns = hold->since_ns,
                                                             .yield_ns = what->event->time_ns,
                                                             .tid = hold->tid,
                                                             .coroutine_id = coroutine_id,
                                                             .announced = hold->announced };
        mutex->seen_count++;
        mutex->seen_last_ns = what->event->time_ns;
        mutex->suspended_tid = hold->tid;
        mutex->suspended_coroutine_id = coroutine_id;
    }
}

static void on_event(void *state, const struct occurrence *what)
{
    struct across *across = state;
    const union event_fields *f = &what->event->fields;
    struct mutex *mutex;

    switch (what->event->id) {
    case EVENT_rt_lock_held_at_yield:
        told(across, what);
        return;
    case EVENT_rt_coroutine_yield:
        if (what->process->holds->len)
            yielded(across, what);
        return;
    default:
        mutex = what->lock ? g_hash_table_lookup(across->mutexes, (void *)(uintptr_t)what->lock->id) : NULL;
        if (mutex && mutex->suspended_coroutine_id == f->rt_lock_wait.owner_coroutine_id &&
            mutex->suspended_tid == f->rt_lock_wait.owner_thread_id)
            mutex->victims++;
    }
}

/* --- verdict ------------------------------------------------------------------------------------------- */

static void tell_yield(const struct process *process, struct finding *finding, const struct mutex *mutex,
                       const struct yield *yield, enum event_id event)
{
    if (yield->since_ns)
        finding_evidence(
            finding, yield->since_ns, yield->announced ? EVENT_rt_lock_owner : EVENT_rt_lock_acquired,
            "coroutine %" PRIu64 " of %s %s %s", yield->coroutine_id, thread_text(process, yield->tid),
            yield->announced ? "holds" : "acquires", lock_text(process, mutex->id));
    finding_evidence(finding, yield->yield_ns, event, "coroutine %" PRIu64 " of %s yields while it holds %s",
                     yield->coroutine_id, thread_text(process, yield->tid), lock_text(process, mutex->id));
}

/* May one who waits in the cycle have gone on all the same? */
static bool may_be_open(const struct process *process, const GPtrArray *edges)
{
    for (unsigned i = 0; i < edges->len; i++) {
        const struct wait_edge *edge = g_ptr_array_index(edges, i);

        if (edge->vtid != EVENT_UNKNOWN_ID &&
            loss_hides(process, edge->vtid,
                       edge->event == EVENT_rt_lock_wait ? EVENT_rt_lock_acquired : edge->event,
                       edge->time_ns, process_end_ns(process), NULL))
            return true;
    }
    return false;
}

static void tell_cycle(const struct process *process, struct finding *finding, const GPtrArray *edges)
{
    for (unsigned i = 0; i < edges->len; i++) {
        const struct wait_edge *edge = g_ptr_array_index(edges, i);

        finding_note(finding, process->last_ns, "cycle of waits", "%u. %s", i + 1, edge->text);
    }
}

static void report(const struct across *across, const struct mutex *mutex, const struct yield *seen,
                   uint64_t seen_count)
{
    const struct check_env *env = across->env;
    const struct process *process = env->process;
    struct finding *finding = finding_get(env, "lock-across-yield", "lock %" PRIu64, mutex->id);
    const struct yield *first =
        mutex->told_count && (!seen || mutex->told[0].yield_ns <= seen->yield_ns) ? &mutex->told[0] : seen;
    GPtrArray *cycle = wait_cycle_through(process, mutex->id);
    const bool hidden = cycle && may_be_open(process, cycle);
    const bool deadlock = cycle && !hidden;

    finding_raise(finding, SEVERITY_ERROR);
    finding_span(finding, first->yield_ns, MAX(mutex->told_last_ns, seen ? mutex->seen_last_ns : 0));
    finding_add_count(finding, mutex->told_count + seen_count);
    finding_subject_lock(finding, process, mutex->id);
    finding_subject_thread(finding, process, first->tid);
    finding_subject(finding, "coroutine_id", json_integer((json_int_t)first->coroutine_id));
    finding_cause(finding, "%s", deadlock ? "deadlock" : "near-miss");
    for (unsigned i = 0; i < MIN(mutex->told_count, deadlock ? 1 : TOLD_IN_FULL); i++)
        tell_yield(process, finding, mutex, &mutex->told[i], EVENT_rt_lock_held_at_yield);
    if (seen)
        tell_yield(process, finding, mutex, seen, EVENT_rt_coroutine_yield);
    if (mutex->victims)
        finding_note(finding, MAX(mutex->told_last_ns, seen ? mutex->seen_last_ns : 0), "who waited",
                     "%" PRIu64 " acquisitions waited for it while its holder was suspended", mutex->victims);
    if (deadlock) {
        finding_span(finding, first->yield_ns, process_end_ns(process));
        tell_cycle(process, finding, cycle);
    }
    if (hidden)
        finding_note(finding, process->last_ns, "lost events",
                     "there is a cycle of waits, but that it was left may be among the lost events");
    finding_summary(finding, "coroutine %" PRIu64 " of %s yields while it holds the thread mutex %s: %s",
                    first->coroutine_id, thread_text(process, first->tid), lock_text(process, mutex->id),
                    deadlock ? "a deadlock, none of those in the cycle can go on"
                             : "nothing hung, this time");
    finding_advice(
        finding,
        "Release the mutex before anything that may yield (a coroutine mutex, a coroutine queue, I/O), or "
        "make it a coroutine mutex.%s",
        deadlock ? " The process has to be killed; the in-flight region keeps what it had in hand." : "");
    if (cycle)
        g_ptr_array_free(cycle, TRUE);
}

static gint by_id(const void *a, const void *b)
{
    const struct mutex *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static void judge(const struct across *across, const struct mutex *mutex)
{
    const struct check_env *env = across->env;
    const struct yield *sure = NULL, *hidden = NULL;
    uint64_t hidden_count = 0;
    struct loss loss, first_loss = { 0 };

    for (unsigned i = 0; i < MIN(mutex->seen_count, SEEN_KEPT); i++) {
        const struct yield *yield = &mutex->seen[i];

        if (!loss_hides(env->process, process_vtid(env->process, yield->tid), EVENT_rt_lock_released, yield->since_ns, yield->yield_ns,
                        &loss)) {
            sure = sure ? sure : yield;
            continue;
        }
        hidden_count++;
        if (!hidden) {
            hidden = yield;
            first_loss = loss;
        }
    }
    if (mutex->told_count || sure)
        report(across, mutex, sure, sure ? mutex->seen_count - hidden_count : 0);
    else if (hidden)
        inconclusive(env, "lock-across-yield", hidden->since_ns, hidden->yield_ns,
                     "coroutine %" PRIu64
                     " acquired %s and yielded, but that it released it may be among the events that were "
                     "lost from %.6f s after the beginning of the trace on",
                     hidden->coroutine_id, lock_text(env->process, mutex->id),
                     (double)(first_loss.begin_ns - analysis_begin_ns(env->analysis)) / 1e9);
}

static void finish(void *state)
{
    struct across *across = state;
    GList *mutexes = g_list_sort(g_hash_table_get_values(across->mutexes), by_id);

    for (GList *link = mutexes; link; link = link->next)
        judge(across, link->data);
    g_list_free(mutexes);
}

const struct check_class check_lock_across_yield = {
    .ids = { "lock-across-yield" },
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
