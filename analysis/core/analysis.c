#include "core/analysis.h"

#include <string.h>

#include "core/internal.h"
#include "model/latency.h"
#include "series/series.h"

/* A stream keeps this many lost intervals apart; then neighbours are merged, which can only make checks more careful. */
#define LOSSES_MAX 1024

void analysis_options_init(struct analysis_options *options_out)
{
    *options_out = (struct analysis_options){
        .stuck_request_ns = INT64_C(10000000000),
        .slow_p999_ns = 100000000,
        .loop_hog_ns = 100000000,
        .handover_overlap_ns = 1000000,
        .deferred_interrupt_ns = 1000000000,
        .deaf_queue_ns = 1000000000,
        .late_wakeup_ns = 10000000,
        .slow_requests_min = 1000,
        .unread_dispatches = 100,
        .false_progress_polls = 1000,
        .needless_writes_min = 100,
        .sustained_seconds = 5,
        .contention_waits_min = 100,
        .thrash_takes_min = 1000,
        .mapping_warning = 0.80,
        .mapping_error = 0.90,
        .needless_writes_share = 0.05,
        .contention_share = 0.05,
        .thrash_share = 0.05,
    };
}

static void trace_free(void *data)
{
    struct trace *trace = data;

    g_free(trace->path);
    g_free(trace->hostname);
    g_free(trace->procname);
    g_free(trace->clock_uuid);
    g_free(trace->group_key);
    g_free(trace);
}

static void stream_free(void *data)
{
    struct stream *stream = data;

    g_free(stream->path);
    g_array_free(stream->losses, TRUE);
    g_free(stream);
}

static void process_free(void *data)
{
    struct process *process = data;

    for (unsigned i = 0; process->check_slots && i < process->analysis->run_count; i++) {
        struct check_slot *slot = &process->check_slots[i];

        if (slot->active && slot->env.check->destroy)
            slot->env.check->destroy(slot->state);
    }
    g_free(process->check_slots);
    dialect_free(process);
    process_destroy(process);
}

static bool is_selected(const struct analysis *analysis, const struct check_class *check)
{
    if (!analysis->selected_checks)
        return true;
    for (unsigned i = 0; i < CHECK_IDS_MAX && check->ids[i]; i++)
        if (g_strv_contains((const char *const *)analysis->selected_checks, check->ids[i]))
            return true;
    return false;
}

struct analysis *analysis_create(const struct analysis_options *options)
{
    struct analysis *analysis = g_new0(struct analysis, 1);

    analysis->options = *options;
    analysis->selected_checks = g_strdupv((char **)options->checks);
    analysis->options.checks = (const char *const *)analysis->selected_checks;
    analysis->traces = g_ptr_array_new_with_free_func(trace_free);
    analysis->channels = g_ptr_array_new_with_free_func(g_free);
    analysis->streams = g_ptr_array_new_with_free_func(stream_free);
    analysis->processes = g_ptr_array_new_with_free_func(process_free);
    analysis->unreadable = g_array_new(FALSE, TRUE, sizeof(struct unreadable));
    analysis->findings = g_ptr_array_new_with_free_func(finding_free);
    analysis->finding_by_key = g_hash_table_new(g_str_hash, g_str_equal);
    analysis->unsure = g_array_new(FALSE, TRUE, sizeof(struct unsure));
    analysis->latency = latency_create();
    analysis->series = options->series ? series_create() : NULL;

    while (check_registry[analysis->run_count])
        analysis->run_count++;
    analysis->runs = g_new0(struct check_run, analysis->run_count);
    for (unsigned i = 0; i < analysis->run_count; i++) {
        struct check_run *run = &analysis->runs[i];
        const enum event_id *id = check_registry[i]->events;

        run->check = check_registry[i];
        run->selected = is_selected(analysis, run->check);
        if (!run->selected)
            continue;
        if (run->check->shared_create)
            run->shared = run->check->shared_create(analysis);
        for (; id && *id != EVENT_COUNT; id++) {
            if (!analysis->subscribers[*id])
                analysis->subscribers[*id] = g_array_new(FALSE, FALSE, sizeof(unsigned));
            g_array_append_val(analysis->subscribers[*id], i);
        }
    }
    return analysis;
}

void analysis_destroy(struct analysis *analysis)
{
    if (!analysis)
        return;
    g_ptr_array_free(analysis->processes, TRUE);
    for (unsigned i = 0; i < analysis->run_count; i++)
        if (analysis->runs[i].selected && analysis->runs[i].check->shared_destroy)
            analysis->runs[i].check->shared_destroy(analysis->runs[i].shared);
    g_free(analysis->runs);
    for (unsigned i = 0; i < EVENT_COUNT; i++)
        if (analysis->subscribers[i])
            g_array_free(analysis->subscribers[i], TRUE);
    for (unsigned i = 0; i < analysis->unsure->len; i++)
        g_free(g_array_index(analysis->unsure, struct unsure, i).reason);
    for (unsigned i = 0; i < analysis->unreadable->len; i++) {
        g_free(g_array_index(analysis->unreadable, struct unreadable, i).path);
        g_free(g_array_index(analysis->unreadable, struct unreadable, i).reason);
    }
    g_array_free(analysis->unsure, TRUE);
    g_array_free(analysis->unreadable, TRUE);
    g_hash_table_destroy(analysis->finding_by_key);
    g_ptr_array_free(analysis->findings, TRUE);
    g_ptr_array_free(analysis->streams, TRUE);
    g_ptr_array_free(analysis->channels, TRUE);
    g_ptr_array_free(analysis->traces, TRUE);
    latency_destroy(analysis->latency);
    series_destroy(analysis->series);
    g_strfreev(analysis->selected_checks);
    g_free(analysis);
}

/* --- traces and streams -------------------------------------------------------------------------------- */

/*
 * A rotated recording is a row of folders SESSION/archives/BEGIN-END-NUMBER/..., each a trace of its own, which hold
 * the same processes one after the other. Without those two parts their paths are equal.
 */
static char *group_key(const struct analysis_trace *trace)
{
    static GRegex *chunk;
    char *path, *key;

    if (!chunk)
        chunk = g_regex_new(
            "(^|/)(archives/)?[0-9]{8}T[0-9]{6}[+-][0-9]{4}-([0-9]{8}T[0-9]{6}[+-][0-9]{4}-)?[0-9]+(?=/)", 0,
            0, NULL);
    path = g_regex_replace_literal(chunk, trace->path ? trace->path : "", -1, 0, "", 0, NULL);
    key = g_strdup_printf("%s\n%s\n%s\n%" G_GINT64_FORMAT, path ? path : "",
                          trace->hostname ? trace->hostname : "", trace->procname ? trace->procname : "",
                          trace->vpid);
    g_free(path);
    return key;
}

unsigned analysis_add_trace(struct analysis *analysis, const struct analysis_trace *description)
{
    struct trace *trace = g_new0(struct trace, 1);

    trace->index = trace->group = analysis->traces->len;
    trace->path = g_strdup(description->path);
    trace->hostname = g_strdup(description->hostname);
    trace->procname = g_strdup(description->procname);
    trace->clock_uuid = g_strdup(description->clock_uuid);
    trace->group_key = group_key(description);
    trace->vpid = description->vpid;
    for (unsigned i = 0; i < analysis->traces->len; i++) {
        const struct trace *other = g_ptr_array_index(analysis->traces, i);

        if (!strcmp(other->group_key, trace->group_key)) {
            trace->group = other->group;
            break;
        }
    }
    memcpy(trace->declared, description->declared, sizeof(trace->declared));
    for (unsigned id = 0; id < EVENT_COUNT; id++) {
        /* `acquired` is also recorded with the core set, filtered: alone it is no sign of the lock set. */
        if (trace->declared[id] && id != EVENT_rt_lock_acquired)
            trace->recorded[event_classes[id].set] = true;
    }
    g_ptr_array_add(analysis->traces, trace);
    return trace->index;
}

static struct channel *need_channel(struct analysis *analysis, unsigned group, uint64_t class_id)
{
    struct channel *channel;

    for (unsigned i = 0; i < analysis->channels->len; i++) {
        channel = g_ptr_array_index(analysis->channels, i);
        if (channel->group == group && channel->class_id == class_id)
            return channel;
    }
    channel = g_new0(struct channel, 1);
    channel->group = group;
    channel->class_id = class_id;
    g_ptr_array_add(analysis->channels, channel);
    return channel;
}

unsigned analysis_add_stream(struct analysis *analysis, unsigned trace_index,
                             const struct analysis_stream *description)
{
    struct stream *stream = g_new0(struct stream, 1);

    stream->index = analysis->streams->len;
    stream->trace = g_ptr_array_index(analysis->traces, trace_index);
    stream->channel = need_channel(analysis, stream->trace->group, description->stream_class_id);
    stream->cpu_id = description->cpu_id;
    stream->path = g_strdup(description->path);
    stream->losses = g_array_new(FALSE, TRUE, sizeof(struct loss));
    stream->overwritten_until_ns = INT64_MIN;
    g_ptr_array_add(analysis->streams, stream);
    return stream->index;
}

static void note_time(struct analysis *analysis, int64_t time_ns)
{
    if (!analysis->any) {
        analysis->any = true;
        analysis->begin_ns = analysis->end_ns = time_ns;
    }
    analysis->begin_ns = MIN(analysis->begin_ns, time_ns);
    analysis->end_ns = MAX(analysis->end_ns, time_ns);
}

static gint by_begin(const void *a, const void *b)
{
    const struct loss *x = a, *y = b;

    return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

void analysis_loss(struct analysis *analysis, unsigned stream_index, enum analysis_loss kind,
                   int64_t begin_ns, int64_t end_ns)
{
    struct stream *stream = g_ptr_array_index(analysis->streams, stream_index);
    const struct loss loss = { .kind = kind,
                               .begin_ns = begin_ns,
                               .end_ns = kind == LOSS_CUT ? INT64_MAX : end_ns };
    GArray *losses = stream->losses;

    if (kind == LOSS_OVERWRITTEN) {
        stream->overwritten_until_ns = MAX(stream->overwritten_until_ns, end_ns);
        return;
    }
    g_array_append_val(losses, loss);
    if (losses->len > 1 && g_array_index(losses, struct loss, losses->len - 2).begin_ns > begin_ns)
        g_array_sort(losses, by_begin);
    if (losses->len > LOSSES_MAX) {
        GArray *half = g_array_new(FALSE, TRUE, sizeof(struct loss));

        for (unsigned i = 0; i < losses->len; i += 2) {
            struct loss merged = g_array_index(losses, struct loss, i);

            if (i + 1 < losses->len) {
                const struct loss *next = &g_array_index(losses, struct loss, i + 1);

                merged.end_ns = MAX(merged.end_ns, next->end_ns);
                merged.kind = MAX(merged.kind, next->kind);
            }
            g_array_append_val(half, merged);
        }
        g_array_free(losses, TRUE);
        stream->losses = half;
    }
    for (unsigned i = 0; i < analysis->processes->len; i++) {
        struct process *process = g_ptr_array_index(analysis->processes, i);

        if (process->trace->group == stream->trace->group)
            process->latest_loss_end_ns = MAX(process->latest_loss_end_ns, loss.end_ns);
    }
}

void analysis_unreadable(struct analysis *analysis, const char *path, const char *reason)
{
    const struct unreadable entry = { .path = g_strdup(path), .reason = g_strdup(reason) };

    g_array_append_val(analysis->unreadable, entry);
}

/* --- events -------------------------------------------------------------------------------------------- */

bool process_declares(const struct process *process, enum event_id id)
{
    const struct analysis *analysis = process->analysis;

    if (process->dialect)
        return id < EVENT_COUNT && process->derives[id];
    for (unsigned i = 0; i < analysis->traces->len; i++) {
        const struct trace *trace = g_ptr_array_index(analysis->traces, i);

        if (trace->group == process->trace->group && trace->declared[id])
            return true;
    }
    return false;
}

bool process_records(const struct process *process, enum event_set set)
{
    const struct analysis *analysis = process->analysis;

    if (process->dialect)
        return (process->derived_sets >> set) & 1;
    for (unsigned i = 0; i < analysis->traces->len; i++) {
        const struct trace *trace = g_ptr_array_index(analysis->traces, i);

        if (trace->group == process->trace->group && trace->recorded[set])
            return true;
    }
    return false;
}

static bool may_run(const struct process *process, const struct check_class *check)
{
    if (check->needs_nothing)
        return true;
    if (process->dialect) {
        for (unsigned i = 0; i < CHECK_IDS_MAX && check->ids[i]; i++)
            if (!dialect_skip(process, check->ids[i]))
                return true;
        return false;
    }
    if (!process_records(process, SET_CORE))
        return false;
    for (unsigned set = 0; set < SET_COUNT; set++)
        if ((check->needs & NEEDS(set)) && !process_records(process, (enum event_set)set))
            return false;
    return true;
}

static void start_checks(struct analysis *analysis, struct process *process)
{
    process->check_slots = g_new0(struct check_slot, analysis->run_count);
    for (unsigned i = 0; i < analysis->run_count; i++) {
        struct check_slot *slot = &process->check_slots[i];
        const struct check_class *check = analysis->runs[i].check;

        slot->env = (struct check_env){ .analysis = analysis,
                                        .process = process,
                                        .options = &analysis->options,
                                        .check = check,
                                        .shared = analysis->runs[i].shared };
        slot->active = analysis->runs[i].selected && check->create && may_run(process, check);
        if (slot->active)
            slot->state = check->create(&slot->env);
    }
}

/* Without process context, processes of different dialects are told apart by that. */
static struct process *need_process(struct analysis *analysis, struct stream *stream,
                                    const struct event *event)
{
    int64_t vpid = event->vpid;
    struct process *process;

    if (vpid == EVENT_UNKNOWN_ID)
        vpid = stream->trace->vpid;
    for (unsigned i = 0; i < analysis->processes->len; i++) {
        process = g_ptr_array_index(analysis->processes, i);
        if (process->vpid == vpid && process->trace->group == stream->trace->group &&
            process->dialect == dialect_of(event->id))
            return process;
    }
    process = process_create(analysis, stream->trace, vpid, analysis->processes->len);
    for (unsigned i = 0; i < analysis->streams->len; i++) {
        const struct stream *other = g_ptr_array_index(analysis->streams, i);

        for (unsigned j = 0; other->trace->group == stream->trace->group && j < other->losses->len; j++)
            process->latest_loss_end_ns =
                MAX(process->latest_loss_end_ns, g_array_index(other->losses, struct loss, j).end_ns);
    }
    g_ptr_array_add(analysis->processes, process);
    dialect_begin(process, event);
    start_checks(analysis, process);
    return process;
}

static void switch_origin(struct analysis *analysis, struct stream *stream, const struct event *event)
{
    struct thread *thread = NULL;

    stream->process = need_process(analysis, stream, event);
    if (event->vtid != EVENT_UNKNOWN_ID) {
        bool known = false;

        thread = process_thread(stream->process, event->vtid);
        for (unsigned i = 0; i < thread->streams->len; i++)
            known |= g_array_index(thread->streams, uint32_t, i) == stream->index;
        if (!known)
            g_array_append_val(thread->streams, stream->index);
    }
    stream->thread = thread;
    stream->vpid = event->vpid;
    stream->vtid = event->vtid;
    stream->dialect = dialect_of(event->id);
}

void analysis_event(struct analysis *analysis, const struct event *event)
{
    struct stream *stream = g_ptr_array_index(analysis->streams, event->stream);

    note_time(analysis, event->time_ns);
    analysis->event_count++;
    analysis->known_count++;
    if (!stream->process || stream->vpid != event->vpid || stream->vtid != event->vtid ||
        stream->dialect != dialect_of(event->id))
        switch_origin(analysis, stream, event);
    stream->channel->last_ns = event->time_ns;
    if (!stream->process->event_count)
        stream->process->first_ns = event->time_ns;
    if (G_LIKELY(!stream->dialect))
        analysis_judge(analysis, stream, event);
    else
        dialect_take(analysis, stream, event);
}

void analysis_judge(struct analysis *analysis, struct stream *stream, const struct event *event)
{
    const GArray *subscribers = analysis->subscribers[event->id];
    struct process *process = stream->process;
    struct occurrence what;

    stream->channel->seen[event->id] = true;
    stream->channel->seen_set[event_classes[event->id].set] = true;
    model_update(process, stream->thread, event, &what);
    if (event->id == EVENT_vblk_request_end)
        latency_event(analysis->latency, &what);
    if (analysis->series)
        series_event(analysis->series, &what);
    if (analysis->options.observer)
        analysis->options.observer->event(analysis->options.observer->data, &what);
    for (unsigned i = 0; subscribers && i < subscribers->len; i++) {
        const struct check_slot *slot = &process->check_slots[g_array_index(subscribers, unsigned, i)];

        if (slot->active)
            slot->env.check->event(slot->state, &what);
    }
    model_sweep(process);
}

void analysis_unknown_event(struct analysis *analysis, unsigned stream_index, int64_t time_ns)
{
    struct stream *stream = g_ptr_array_index(analysis->streams, stream_index);

    note_time(analysis, time_ns);
    stream->channel->last_ns = time_ns;
    analysis->event_count++;
}

/* --- the end ------------------------------------------------------------------------------------------- */

static const char *skip_reason(const struct analysis *analysis, const struct check_class *check)
{
    static const char *const reasons[SET_COUNT] = {
        "set core not recorded",    "set loop not recorded",      "set lock not recorded",
        "set request not recorded", "set coroutine not recorded",
    };
    bool any = false;
    unsigned best = SET_COUNT;

    if (check->needs_nothing)
        return NULL;
    for (unsigned i = 0; i < analysis->traces->len; i++) {
        const struct trace *trace = g_ptr_array_index(analysis->traces, i);
        unsigned missing = SET_COUNT;

        for (unsigned set = 0; set < SET_COUNT && missing == SET_COUNT; set++) {
            any |= trace->recorded[set];
            if ((set == SET_CORE || (check->needs & NEEDS(set))) && !trace->recorded[set])
                missing = set;
        }
        for (unsigned set = 0; set < SET_COUNT; set++)
            any |= trace->recorded[set];
        if (missing == SET_COUNT)
            return NULL; /* it runs there */
        best = best == SET_COUNT ? missing : MAX(best, missing);
    }
    return any && best < SET_COUNT ? reasons[best] : "no event of a known dialect";
}

/* A finding is skipped if no process could be judged by it; a process's dialect may decide some of a check's findings only. */
static void find_skips(const struct analysis *analysis, struct check_run *run)
{
    const char *own = skip_reason(analysis, run->check);

    run->ran = false;
    for (unsigned i = 0; i < CHECK_IDS_MAX && run->check->ids[i]; i++) {
        run->skip[i] = own;
        for (unsigned j = 0; own && j < analysis->processes->len; j++) {
            const struct process *process = g_ptr_array_index(analysis->processes, j);

            if (process->dialect)
                run->skip[i] = dialect_skip(process, run->check->ids[i]);
            if (!run->skip[i])
                break;
        }
        run->ran |= !run->skip[i];
    }
}

void analysis_finish(struct analysis *analysis, bool interrupted)
{
    if (analysis->finished)
        return;
    analysis->finished = true;
    analysis->interrupted = interrupted;
    for (unsigned i = 0; i < analysis->processes->len; i++)
        dialect_finish(g_ptr_array_index(analysis->processes, i));
    for (unsigned i = 0; i < analysis->run_count; i++) {
        struct check_run *run = &analysis->runs[i];

        if (!run->selected)
            continue;
        find_skips(analysis, run);
        for (unsigned j = 0; j < analysis->processes->len; j++) {
            const struct process *process = g_ptr_array_index(analysis->processes, j);
            const struct check_slot *slot = &process->check_slots[i];

            if (slot->active && run->check->finish)
                run->check->finish(slot->state);
        }
        if (run->check->shared_finish && run->ran)
            run->check->shared_finish(run->shared);
    }
    findings_sort(analysis);
    if (analysis->series)
        series_finish(analysis->series, analysis->end_ns);
    if (analysis->options.observer)
        analysis->options.observer->end(analysis->options.observer->data, analysis->end_ns);
}

int analysis_exit_status(const struct analysis *analysis)
{
    if (analysis->unreadable->len)
        return 2;
    for (unsigned i = 0; i < analysis->findings->len; i++)
        if (((const struct finding *)g_ptr_array_index(analysis->findings, i))->severity > SEVERITY_INFO)
            return 1;
    /* of the part that an interrupt left unread nothing can be told either */
    return analysis->unsure->len || !analysis->known_count || analysis->interrupted ? 3 : 0;
}

/* --- what checks and the model may ask ----------------------------------------------------------------- */

bool check_judges(const struct check_env *env, const char *id)
{
    if (env->process->dialect && dialect_skip(env->process, id))
        return false;
    for (unsigned i = 0; i < env->analysis->run_count; i++)
        for (unsigned j = 0; j < CHECK_IDS_MAX && check_registry[i]->ids[j]; j++)
            if (!strcmp(check_registry[i]->ids[j], id))
                return env->process->check_slots[i].active;
    return false;
}

const struct analysis_options *analysis_options_of(const struct analysis *analysis)
{
    return &analysis->options;
}

unsigned analysis_process_count(const struct analysis *analysis)
{
    return analysis->processes->len;
}

struct process *analysis_process(const struct analysis *analysis, unsigned index)
{
    return g_ptr_array_index(analysis->processes, index);
}

unsigned analysis_stream_count(const struct analysis *analysis)
{
    return analysis->streams->len;
}

const struct stream *analysis_stream_at(const struct analysis *analysis, unsigned index)
{
    return g_ptr_array_index(analysis->streams, index);
}

int64_t analysis_begin_ns(const struct analysis *analysis)
{
    return analysis->begin_ns;
}

int64_t analysis_end_ns(const struct analysis *analysis)
{
    return analysis->end_ns;
}
