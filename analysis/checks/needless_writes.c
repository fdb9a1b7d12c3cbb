/*
 * needless-event-writes: notifiers write a loop's event while it polls, though it looks at a flag in memory then.
 *
 * Decided by the loop's running totals over the whole recording, so lost events change nothing. One write costs the
 * notifier a system call, and the loop another one to read it.
 */
#include <inttypes.h>

#include "core/check.h"

static const enum event_id events[] = { EVENT_rt_loop_create, EVENT_rt_loop_notify, EVENT_COUNT };

struct writes {
    uint32_t loop_id;
    bool born; /* in the recording: its totals began at 0 */
    uint64_t seen;
    int64_t first_ns, polling_since_ns;
    int64_t thread_id; /* the first writer */
    uint64_t notify_me;
};

struct needless {
    struct check_env *env;
    GHashTable *loops; /* struct writes by loop id */
};

static void *create(struct check_env *env)
{
    struct needless *needless = g_new0(struct needless, 1);

    needless->env = env;
    needless->loops = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return needless;
}

static void destroy(void *state)
{
    struct needless *needless = state;

    g_hash_table_destroy(needless->loops);
    g_free(needless);
}

static struct writes *need_writes(struct needless *needless, uint32_t loop_id)
{
    struct writes *writes = g_hash_table_lookup(needless->loops, (void *)(uintptr_t)loop_id);

    if (!writes) {
        writes = g_new0(struct writes, 1);
        writes->loop_id = loop_id;
        g_hash_table_insert(needless->loops, (void *)(uintptr_t)loop_id, writes);
    }
    return writes;
}

static void on_event(void *state, const struct occurrence *what)
{
    struct needless *needless = state;
    const struct event *event = what->event;
    struct writes *writes;

    if (!what->loop)
        return;
    if (event->id == EVENT_rt_loop_create) {
        if (!what->in_baseline && !what->loop->first.valid)
            need_writes(needless, what->loop->id)->born = true;
        return;
    }
    if (!event->fields.rt_loop_notify.wrote_event || !what->loop->polling)
        return;
    writes = need_writes(needless, what->loop->id);
    if (writes->seen++)
        return;
    writes->first_ns = event->time_ns;
    writes->polling_since_ns = what->loop->poll_since_ns;
    writes->thread_id = event->fields.rt_loop_notify.thread_id;
    writes->notify_me = event->fields.rt_loop_notify.notify_me;
}

/* Requests taken from the rings that this loop serves, between their first and last samples. */
static uint64_t requests_of(const struct process *process, uint32_t loop_id)
{
    GHashTableIter devices, queues;
    void *value;
    uint64_t count = 0;

    g_hash_table_iter_init(&devices, process->devices);
    while (g_hash_table_iter_next(&devices, NULL, &value)) {
        g_hash_table_iter_init(&queues, ((const struct device *)value)->queues);
        while (g_hash_table_iter_next(&queues, NULL, &value)) {
            const struct queue *queue = value;
            const uint32_t home = queue->owner_loop ? queue->owner_loop : queue->attached_loop;

            if (home == loop_id && queue->last.valid)
                count +=
                    queue->last.fields.vblk_queue_sample.pops - queue->first.fields.vblk_queue_sample.pops;
        }
    }
    return count;
}

static void report(const struct needless *needless, const struct loop *loop, const struct writes *writes,
                   uint64_t polling_writes, uint64_t notifies)
{
    const struct process *process = needless->env->process;
    const uint64_t requests = requests_of(process, loop->id);
    const char *name = loop_text(process, loop->id);
    struct finding *finding = finding_get(needless->env, "needless-event-writes", "loop %" PRIu32, loop->id);
    char cost[96] = "";

    if (requests)
        g_snprintf(cost, sizeof(cost), "; %.2f needless system calls per request (%" PRIu64 " requests)",
                   2.0 * (double)polling_writes / (double)requests, requests);
    finding_raise(finding, SEVERITY_WARNING);
    finding_span(finding, loop->first.time_ns, loop->last.time_ns);
    finding_add_count(finding, polling_writes);
    finding_subject_loop(finding, process, loop->id);
    if (writes && writes->seen) {
        finding_evidence(finding, writes->polling_since_ns, EVENT_rt_loop_poll_begin, "%s polls", name);
        finding_evidence(finding, writes->first_ns, EVENT_rt_loop_notify,
                         "%s sees notify_me %" PRIu64
                         " and writes the event of %s while it polls; the first of %" PRIu64
                         " that were recorded",
                         thread_text(process, writes->thread_id), writes->notify_me, name, writes->seen);
    }
    finding_evidence(finding, loop->last.time_ns, EVENT_rt_loop_sample,
                     "since its first sample %s was notified %" PRIu64
                     " times, its event was written %" PRIu64
                     " times while it polled: a write and a read each%s",
                     name, notifies, polling_writes, cost);
    finding_summary(
        finding,
        "%.0f %% of the notifications of %s wrote its event while it was polling and did not need it%s",
        100.0 * (double)polling_writes / (double)notifies, name, cost);
    finding_advice(
        finding,
        "Keep notify_me at 0 while the loop polls and let it watch `notified` in memory; raise the flag only "
        "before it blocks, and look at `notified` again after that (--notify=blocking-only).");
}

static void judge(const struct needless *needless, const struct loop *loop)
{
    const struct analysis_options *options = needless->env->options;
    const struct writes *writes = g_hash_table_lookup(needless->loops, (void *)(uintptr_t)loop->id);
    uint64_t polling_writes, notifies;

    if (!loop->last.valid)
        return;
    polling_writes = loop->last.fields.rt_loop_sample.event_writes_while_polling;
    notifies = loop->last.fields.rt_loop_sample.notifies;
    if (!writes || !writes->born) {
        polling_writes -= loop->first.fields.rt_loop_sample.event_writes_while_polling;
        notifies -= loop->first.fields.rt_loop_sample.notifies;
    }
    if (polling_writes >= options->needless_writes_min &&
        (double)polling_writes >= options->needless_writes_share * (double)notifies)
        report(needless, loop, writes, polling_writes, notifies);
}

static gint by_loop(const void *a, const void *b)
{
    const struct loop *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static void finish(void *state)
{
    const struct needless *needless = state;
    GList *loops = g_list_sort(g_hash_table_get_values(needless->env->process->loops), by_loop);

    for (GList *loop = loops; loop; loop = loop->next)
        judge(needless, loop->data);
    g_list_free(loops);
}

const struct check_class check_needless_writes = {
    .ids = { "needless-event-writes" },
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
