/* The report of the contract's section 4, as JSON; every other form is made from it. */
#include <string.h>

#include "core/internal.h"
#include "core/json_text.h"
#include "core/tables.h"
#include "model/latency.h"
#include "series/series.h"

static json_t *stream_json(const struct stream *stream)
{
    return json_pack("{s:o, s:o, s:I, s:o}", "trace", text_or_null(stream->trace->path), "stream",
                     text_or_null(stream->path), "channel", (json_int_t)stream->channel->class_id, "cpu",
                     stream->cpu_id == EVENT_UNKNOWN_ID ? json_null() : json_integer(stream->cpu_id));
}

static void losses_json(const struct analysis *analysis, json_t *lost, json_t *cut)
{
    for (unsigned i = 0; i < analysis->streams->len; i++) {
        const struct stream *stream = g_ptr_array_index(analysis->streams, i);

        for (unsigned j = 0; j < stream->losses->len; j++) {
            const struct loss *loss = &g_array_index(stream->losses, struct loss, j);
            json_t *object = stream_json(stream);

            json_object_set_new(object, "begin_ns", json_integer(loss->begin_ns));
            if (loss->kind == LOSS_CUT) {
                json_array_append_new(cut, object);
            } else {
                json_object_set_new(object, "end_ns", json_integer(loss->end_ns));
                json_object_set_new(object, "kind",
                                    json_string(loss->kind == LOSS_DISCARDED_EVENTS ? "events" : "packets"));
                json_array_append_new(lost, object);
            }
        }
    }
}

/* What a process that speaks a dialect is judged by: less than the skipped findings tell, if other processes are of our own. */
static void add_dialect(const struct process *process, json_t *object)
{
    const char *const *id = analysis_check_ids();
    json_t *judged = json_array();

    for (; *id; id++)
        if (!dialect_skip(process, *id))
            json_array_append_new(judged, json_string(*id));
    json_object_set_new(object, "dialect", json_string(process->dialect->name));
    json_object_set_new(object, "judged", judged);
}

static json_t *process_json(const struct process *process)
{
    static const char *const options[] = { "version",     "pool_policy",  "notify_policy", "request_lock",
                                           "stack_guard", "loop_monitor", "faults" };
    const int64_t known = process_known_since(process);
    json_t *object = json_object();

    json_object_set_new(object, "pid",
                        process->vpid == EVENT_UNKNOWN_ID ? json_null() : json_integer(process->vpid));
    json_object_set_new(object, "name", text_or_null(process_name(process)));
    json_object_set_new(object, "host", text_or_null(process->trace->hostname));
    json_object_set_new(object, "trace", text_or_null(process->trace->path));
    json_object_set_new(object, "begin_ns", json_integer(process->first_ns));
    json_object_set_new(object, "end_ns", json_integer(process->last_ns));
    json_object_set_new(object, "event_count", json_integer((json_int_t)process->event_count));
    json_object_set_new(object, "baseline_ns", known == INT64_MAX ? json_null() : json_integer(known));
    if (process->dialect)
        add_dialect(process, object);
    for (unsigned i = 0; process->info.valid && i < G_N_ELEMENTS(options); i++)
        json_object_set_new(object, options[i],
                            text_or_null(process->info_text[i] ? process->info_text[i] : ""));
    if (process->info.valid) {
        const union event_fields *f = &process->info.fields;

        json_object_set_new(object, "max_map_count",
                            json_integer((json_int_t)f->rt_process_info.max_map_count));
        json_object_set_new(object, "stack_bytes", json_integer((json_int_t)f->rt_process_info.stack_bytes));
        json_object_set_new(object, "batch_size", json_integer((json_int_t)f->rt_process_info.batch_size));
        json_object_set_new(object, "contract_version",
                            json_integer((json_int_t)f->rt_process_info.contract_version));
    }
    return object;
}

static json_t *trace_json(const struct analysis *analysis)
{
    json_t *object = json_object(), *paths = json_array(), *lost = json_array(), *cut = json_array();
    json_t *processes = json_array(), *unreadable = json_array(), *sets = json_array();
    bool recorded[SET_COUNT] = { false };

    for (unsigned i = 0; i < analysis->traces->len; i++) {
        const struct trace *trace = g_ptr_array_index(analysis->traces, i);

        json_array_append_new(paths, text_or_null(trace->path));
        for (unsigned set = 0; set < SET_COUNT; set++)
            recorded[set] |= trace->recorded[set];
    }
    for (unsigned i = 0; i < analysis->processes->len; i++)
        for (unsigned set = 0; set < SET_COUNT; set++)
            recorded[set] |= (((const struct process *)g_ptr_array_index(analysis->processes, i))->derived_sets >> set) & 1;
    for (unsigned set = 0; set < SET_COUNT; set++)
        if (recorded[set])
            json_array_append_new(sets, json_string(event_set_names[set]));
    losses_json(analysis, lost, cut);
    for (unsigned i = 0; i < analysis->processes->len; i++)
        json_array_append_new(processes, process_json(g_ptr_array_index(analysis->processes, i)));
    for (unsigned i = 0; i < analysis->unreadable->len; i++) {
        const struct unreadable *entry = &g_array_index(analysis->unreadable, struct unreadable, i);

        json_array_append_new(unreadable, json_pack("{s:o, s:o}", "path", text_or_null(entry->path), "reason",
                                                    text_or_null(entry->reason)));
    }
    json_object_set_new(object, "paths", paths);
    json_object_set_new(object, "begin_ns", analysis->any ? json_integer(analysis->begin_ns) : json_null());
    json_object_set_new(object, "end_ns", analysis->any ? json_integer(analysis->end_ns) : json_null());
    json_object_set_new(object, "event_count", json_integer((json_int_t)analysis->event_count));
    json_object_set_new(object, "known_event_count", json_integer((json_int_t)analysis->known_count));
    json_object_set_new(object, "recorded_sets", sets);
    json_object_set_new(object, "lost_intervals", lost);
    json_object_set_new(object, "cut_streams", cut);
    json_object_set_new(object, "unreadable", unreadable);
    json_object_set_new(object, "processes", processes);
    json_object_set_new(object, "interrupted", json_boolean(analysis->interrupted));
    return object;
}

static json_t *skipped_json(const struct analysis *analysis)
{
    json_t *skipped = json_array();

    for (unsigned i = 0; i < analysis->run_count; i++) {
        const struct check_run *run = &analysis->runs[i];

        for (unsigned j = 0; run->selected && j < CHECK_IDS_MAX && run->check->ids[j]; j++)
            if (run->skip[j])
                json_array_append_new(
                    skipped, json_pack("{s:s, s:s}", "id", run->check->ids[j], "reason", run->skip[j]));
    }
    return skipped;
}

/* Nothing that depends on what was recorded could run: silence then means nothing. */
static bool all_skipped(const struct analysis *analysis)
{
    bool any = false;

    for (unsigned i = 0; i < analysis->run_count; i++) {
        const struct check_run *run = &analysis->runs[i];

        if (!run->selected || run->check->needs_nothing)
            continue;
        if (run->ran)
            return false;
        any = true;
    }
    return any;
}

static json_t *inconclusive_json(const struct analysis *analysis)
{
    json_t *array = json_array();

    for (unsigned i = 0; i < analysis->unsure->len; i++) {
        const struct unsure *unsure = &g_array_index(analysis->unsure, struct unsure, i);

        json_array_append_new(array,
                              json_pack("{s:s, s:o, s:I, s:I, s:o}", "id", unsure->id, "reason",
                                        text_or_null(unsure->reason), "begin_ns",
                                        (json_int_t)unsure->begin_ns, "end_ns", (json_int_t)unsure->end_ns,
                                        "process", text_or_null(process_text(unsure->process))));
    }
    return array;
}

static uint64_t requests_in_flight(const struct analysis *analysis)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < analysis->processes->len; i++)
        count += g_hash_table_size(((const struct process *)g_ptr_array_index(analysis->processes, i))->requests);
    return count;
}

json_t *analysis_report(const struct analysis *analysis)
{
    json_t *report = json_object(), *findings = json_array();

    for (unsigned i = 0; i < analysis->findings->len; i++)
        json_array_append_new(findings, finding_json(g_ptr_array_index(analysis->findings, i)));
    json_object_set_new(report, "schema", json_string("vblkscope-report-1"));
    json_object_set_new(report, "all_skipped", json_boolean(all_skipped(analysis)));
    json_object_set_new(report, "trace", trace_json(analysis));
    json_object_set_new(report, "findings", findings);
    json_object_set_new(report, "skipped", skipped_json(analysis));
    json_object_set_new(report, "inconclusive", inconclusive_json(analysis));
    json_object_set_new(report, "pool", table_pool(analysis));
    json_object_set_new(report, "vma", table_vma(analysis));
    json_object_set_new(report, "loops", table_loops(analysis));
    json_object_set_new(report, "locks", table_locks(analysis));
    json_object_set_new(report, "queues", table_queues(analysis));
    json_object_set_new(report, "latency", latency_json(analysis->latency, requests_in_flight(analysis)));
    if (analysis->series)
        json_object_set_new(report, "series", series_json(analysis->series));
    return report;
}
