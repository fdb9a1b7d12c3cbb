/*
 * lock-contention: threads spend a good part of their busy time waiting for one lock.
 *
 * From the running totals of lock and loops, second by second; time that a thread is blocked in a mutex is part of its
 * loop's busy time. Who waits for whom comes from the waits themselves, which are always recorded.
 */
#include <inttypes.h>

#include "checks/stretch.h"
#include "core/check.h"
#include "model/holding.h"

static const enum event_id events[] = { EVENT_rt_loop_sample, EVENT_rt_lock_sample, EVENT_rt_lock_wait,
                                        EVENT_rt_lock_acquired, EVENT_COUNT };

#define COROUTINE_MUTEX 1
#define PAIRS_TOLD 4
#define SECOND INT64_C(1000000000)

struct counts {
    uint64_t acquisitions, contentions, wait_ns, hold_ns;
};

/* A thread that takes, holds or waits for a lock. */
struct user {
    int64_t tid, seen_ns;
};

/* Who waited for whom, in the stretch. */
struct pair {
    int64_t waiter_tid, owner_tid;
    uint64_t count, wait_ns;
};

struct lock_state {
    uint64_t id;
    bool sampled; /* in this round */
    bool any;
    int64_t begin_ns, end_ns; /* samples before and of this round */
    struct counts totals, grown;
    GArray *users, *pairs;
    struct stretch stretch;
    struct counts sum;
    uint64_t busy_ns;
};

struct loop_state {
    uint32_t id;
    int64_t tid;
    bool sampled, any;
    uint64_t busy_total_ns, busy_ns;
};

struct contention {
    struct check_env *env;
    struct round round;
    GHashTable *locks, *loops; /* by id */
};

static void lock_state_free(void *data)
{
    struct lock_state *lock = data;

    g_array_free(lock->users, TRUE);
    g_array_free(lock->pairs, TRUE);
    g_free(lock);
}

static void *create(struct check_env *env)
{
    struct contention *contention = g_new0(struct contention, 1);

    contention->env = env;
    contention->locks = g_hash_table_new_full(NULL, NULL, NULL, lock_state_free);
    contention->loops = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return contention;
}

static void destroy(void *state)
{
    struct contention *contention = state;

    g_hash_table_destroy(contention->locks);
    g_hash_table_destroy(contention->loops);
    g_free(contention);
}

static struct lock_state *need_lock(struct contention *contention, uint64_t id)
{
    struct lock_state *lock = g_hash_table_lookup(contention->locks, (void *)(uintptr_t)id);

    if (!lock) {
        lock = g_new0(struct lock_state, 1);
        lock->id = id;
        lock->users = g_array_new(FALSE, TRUE, sizeof(struct user));
        lock->pairs = g_array_new(FALSE, TRUE, sizeof(struct pair));
        g_hash_table_insert(contention->locks, (void *)(uintptr_t)id, lock);
    }
    return lock;
}

static void used(struct lock_state *lock, int64_t tid, int64_t time_ns)
{
    const struct user user = { tid, time_ns };

    for (unsigned i = 0; i < lock->users->len; i++) {
        if (g_array_index(lock->users, struct user, i).tid == tid) {
            g_array_index(lock->users, struct user, i).seen_ns = time_ns;
            return;
        }
    }
    if (tid)
        g_array_append_val(lock->users, user);
}

static void paired(struct lock_state *lock, const struct lock_wait *wait, int64_t end_ns)
{
    const uint64_t wait_ns = (uint64_t)(end_ns - wait->since_ns);
    const struct pair pair = { wait->tid, wait->owner_tid, 1, wait_ns };

    for (unsigned i = 0; i < lock->pairs->len; i++) {
        struct pair *known = &g_array_index(lock->pairs, struct pair, i);

        if (known->waiter_tid == wait->tid && known->owner_tid == wait->owner_tid) {
            known->count++;
            known->wait_ns += wait_ns;
            return;
        }
    }
    g_array_append_val(lock->pairs, pair);
}

/* --- verdict on a second ------------------------------------------------------------------------------- */

static bool is_user(const struct lock_state *lock, int64_t tid, int64_t since_ns)
{
    for (unsigned i = 0; i < lock->users->len; i++) {
        const struct user *user = &g_array_index(lock->users, struct user, i);

        if (user->tid == tid)
            return user->seen_ns >= since_ns;
    }
    return false;
}

static unsigned user_count(const struct lock_state *lock, int64_t since_ns)
{
    unsigned count = 0;

    for (unsigned i = 0; i < lock->users->len; i++)
        count += g_array_index(lock->users, struct user, i).seen_ns >= since_ns;
    return count;
}

/* Of the threads that used the lock in the window. What runs no loop is taken for busy all the time. */
static uint64_t busy_of_users(const struct contention *contention, const struct lock_state *lock)
{
    const bool anybody = !user_count(lock, lock->begin_ns); /* who it was is lost: all threads */
    unsigned looping = 0;
    uint64_t busy_ns = 0;
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, contention->loops);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct loop_state *loop = value;

        if (!loop->sampled || !(anybody || is_user(lock, loop->tid, lock->begin_ns)))
            continue;
        looping++;
        busy_ns += loop->busy_ns;
    }
    if (!anybody && looping < user_count(lock, lock->begin_ns))
        busy_ns += (uint64_t)(lock->end_ns - lock->begin_ns) * (user_count(lock, lock->begin_ns) - looping);
    return busy_ns;
}

static bool is_sustained(const struct contention *contention, const struct lock_state *lock)
{
    return stretch_seconds(&lock->stretch) >= contention->env->options->sustained_seconds &&
           lock->sum.contentions >= contention->env->options->contention_waits_min;
}

static gint by_wait(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;

    if (x->wait_ns != y->wait_ns)
        return x->wait_ns > y->wait_ns ? -1 : 1;
    if (x->waiter_tid != y->waiter_tid)
        return x->waiter_tid < y->waiter_tid ? -1 : 1;
    return x->owner_tid < y->owner_tid ? -1 : x->owner_tid > y->owner_tid;
}

static void tell_pairs(const struct contention *contention, const struct lock_state *lock,
                       struct finding *finding)
{
    const struct process *process = contention->env->process;

    g_array_sort(lock->pairs, by_wait);
    for (unsigned i = 0; i < MIN(lock->pairs->len, PAIRS_TOLD); i++) {
        const struct pair *pair = &g_array_index(lock->pairs, struct pair, i);

        finding_evidence(finding, lock->stretch.end_ns, EVENT_rt_lock_wait,
                         "%s waited for %s %" PRIu64 " times, %.3f ms in all, %.1f us each",
                         thread_text(process, pair->waiter_tid),
                         pair->owner_tid ? thread_text(process, pair->owner_tid) : "readers, or one just gone,",
                         pair->count, (double)pair->wait_ns / 1e6,
                         (double)pair->wait_ns / 1e3 / (double)pair->count);
    }
}

/* Known only when every acquisition, release and yield was recorded. */
static bool is_never_held_across_yield(const struct process *process, const struct lock *lock)
{
    return lock && lock->kind == COROUTINE_MUTEX && !lock->held_across_yield && !lock->is_shared &&
           process_records(process, SET_LOCK) && process_records(process, SET_COROUTINE) &&
           process->latest_loss_end_ns == INT64_MIN;
}

static void advise(const struct contention *contention, const struct lock_state *lock,
                   struct finding *finding)
{
    const struct process *process = contention->env->process;
    const struct lock *model = process_lock(process, lock->id);
    const double wait_us = (double)lock->sum.wait_ns / 1e3 / (double)MAX(lock->sum.contentions, 1);
    const double hold_us = (double)lock->sum.hold_ns / 1e3 / (double)MAX(lock->sum.acquisitions, 1);

    if (is_never_held_across_yield(process, model))
        finding_advice(
            finding,
            "It is a coroutine mutex that is never held across a yield, so a thread mutex would do: a wait "
            "(%.1f us on average) is mostly the way through the waiter's loop, not the holding (%.1f us).%s",
            wait_us, hold_us, process->dialect ? "" : " For the tracked requests: --request-lock=sharded.");
    else if (model && model->kind == COROUTINE_MUTEX && hold_us < wait_us / 10)
        finding_advice(
            finding,
            "It is held for %.1f us and waited for for %.1f us: being woken costs more than the lock "
            "protects. If it is never held across a yield (record the sets lock and coroutine to see), "
            "a thread mutex would do%s.",
            hold_us, wait_us, process->dialect ? "" : "; for the tracked requests: --request-lock=sharded");
    else
        finding_advice(
            finding,
            "Hold it for less (now %.1f us on average), or give each loop its own part of what it protects.",
            hold_us);
}

static void report(const struct contention *contention, const struct lock_state *lock)
{
    const struct check_env *env = contention->env;
    const struct process *process = env->process;
    struct finding *finding = finding_get(env, "lock-contention", "lock %" PRIu64, lock->id);
    const double seconds = (double)(lock->stretch.end_ns - lock->stretch.begin_ns) / SECOND;
    const double share = (double)lock->sum.wait_ns / (double)MAX(lock->busy_ns, 1);

    finding_raise(finding, SEVERITY_WARNING);
    finding_span(finding, lock->stretch.begin_ns, lock->stretch.end_ns);
    finding_add_count(finding, lock->sum.contentions);
    finding_evidence(finding, lock->stretch.end_ns, EVENT_rt_lock_sample,
                     "%.1f s: %" PRIu64 " of %" PRIu64
                     " acquisitions found it held; waited %.3f ms, held %.3f ms; the "
                     "threads that use it were busy for %.3f ms",
                     seconds, lock->sum.contentions, lock->sum.acquisitions, (double)lock->sum.wait_ns / 1e6,
                     (double)lock->sum.hold_ns / 1e6, (double)lock->busy_ns / 1e6);
    tell_pairs(contention, lock, finding);
    if (finding_is_told(finding))
        return;
    finding_subject_lock(finding, process, lock->id);
    if (is_never_held_across_yield(process, process_lock(process, lock->id)))
        finding_cause(finding, "coroutine mutex that is never held across a yield");
    finding_summary(finding,
                    "waiting for %s takes %.0f %% of the busy time of the threads that use it, for %.0f s; "
                    "it is waited for "
                    "%.1f times as long as it is held",
                    lock_text(process, lock->id), 100 * share, seconds,
                    (double)lock->sum.wait_ns / (double)MAX(lock->sum.hold_ns, 1));
    advise(contention, lock, finding);
}

static void end_stretch(const struct contention *contention, struct lock_state *lock)
{
    if (is_sustained(contention, lock))
        report(contention, lock);
    stretch_break(&lock->stretch);
}

static void close_second(const struct contention *contention, struct lock_state *lock)
{
    const uint64_t busy_ns = busy_of_users(contention, lock);

    if (!lock->sampled || !busy_ns || !window_is_short(lock->begin_ns, lock->end_ns) ||
        (double)lock->grown.wait_ns <= contention->env->options->contention_share * (double)busy_ns) {
        end_stretch(contention, lock);
        g_array_set_size(lock->pairs, 0);
        return;
    }
    if (stretch_extend(&lock->stretch, lock->begin_ns, lock->end_ns)) {
        lock->sum = (struct counts){ 0 };
        lock->busy_ns = 0;
    }
    lock->sum.acquisitions += lock->grown.acquisitions;
    lock->sum.contentions += lock->grown.contentions;
    lock->sum.wait_ns += lock->grown.wait_ns;
    lock->sum.hold_ns += lock->grown.hold_ns;
    lock->busy_ns += busy_ns;
}

static gint by_id(const void *a, const void *b)
{
    const struct lock_state *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static void close_round(struct contention *contention)
{
    GList *locks = g_list_sort(g_hash_table_get_values(contention->locks), by_id);
    GHashTableIter iter;
    void *value;

    for (GList *link = locks; link; link = link->next) {
        struct lock_state *lock = link->data;

        if (lock->any && lock->begin_ns < lock->end_ns)
            close_second(contention, lock);
        lock->begin_ns = lock->end_ns;
        lock->grown = (struct counts){ 0 };
        lock->sampled = false;
    }
    g_list_free(locks);
    g_hash_table_iter_init(&iter, contention->loops);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        ((struct loop_state *)value)->busy_ns = 0;
        ((struct loop_state *)value)->sampled = false;
    }
}

/* --- events -------------------------------------------------------------------------------------------- */

static void loop_sampled(struct contention *contention, const struct occurrence *what)
{
    const uint64_t busy_ns = what->event->fields.rt_loop_sample.busy_ns;
    struct loop_state *loop;

    if (!what->loop)
        return;
    loop = g_hash_table_lookup(contention->loops, (void *)(uintptr_t)what->loop->id);
    if (!loop) {
        loop = g_new0(struct loop_state, 1);
        loop->id = what->loop->id;
        g_hash_table_insert(contention->loops, (void *)(uintptr_t)loop->id, loop);
    }
    loop->tid = what->loop->thread_id;
    if (loop->any && busy_ns > loop->busy_total_ns)
        loop->busy_ns += busy_ns - loop->busy_total_ns;
    loop->busy_total_ns = busy_ns;
    loop->any = loop->sampled = true;
}

static void lock_sampled(struct contention *contention, const struct event *event)
{
    const union event_fields *f = &event->fields;
    struct lock_state *lock = need_lock(contention, f->rt_lock_sample.lock_id);
    const struct counts now = { f->rt_lock_sample.acquisitions, f->rt_lock_sample.contentions,
                                f->rt_lock_sample.wait_ns, f->rt_lock_sample.hold_ns };

    if (lock->any && now.wait_ns >= lock->totals.wait_ns && now.acquisitions >= lock->totals.acquisitions) {
        lock->grown.acquisitions += now.acquisitions - lock->totals.acquisitions;
        lock->grown.contentions += now.contentions - lock->totals.contentions;
        lock->grown.wait_ns += now.wait_ns - lock->totals.wait_ns;
        lock->grown.hold_ns += now.hold_ns - lock->totals.hold_ns;
    }
    if (!lock->any)
        lock->begin_ns = event->time_ns;
    lock->totals = now;
    lock->end_ns = event->time_ns;
    lock->any = lock->sampled = true;
}

static void on_event(void *state, const struct occurrence *what)
{
    struct contention *contention = state;
    const struct event *event = what->event;
    const union event_fields *f = &event->fields;
    struct lock_state *lock;

    switch (event->id) {
    case EVENT_rt_lock_wait:
        lock = need_lock(contention, f->rt_lock_wait.lock_id);
        used(lock, f->rt_lock_wait.thread_id, event->time_ns);
        used(lock, f->rt_lock_wait.owner_thread_id, event->time_ns);
        return;
    case EVENT_rt_lock_acquired:
        lock = need_lock(contention, f->rt_lock_acquired.lock_id);
        used(lock, f->rt_lock_acquired.thread_id, event->time_ns);
        if (what->has_waited)
            paired(lock, &what->waited, event->time_ns);
        return;
    default:
        break;
    }
    if (contention->round.any && round_begins(&contention->round, event->time_ns))
        close_round(contention);
    round_add(&contention->round, event->time_ns);
    if (event->id == EVENT_rt_loop_sample)
        loop_sampled(contention, what);
    else
        lock_sampled(contention, event);
}

static void finish(void *state)
{
    struct contention *contention = state;
    GList *locks;

    close_round(contention);
    locks = g_list_sort(g_hash_table_get_values(contention->locks), by_id);
    for (GList *link = locks; link; link = link->next)
        end_stretch(contention, link->data);
    g_list_free(locks);
}

const struct check_class check_lock_contention = {
    .ids = { "lock-contention" },
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
