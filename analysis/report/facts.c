/* The facts of a report that a ticket needs besides the verdict: what was recorded of whom, and where to look next. */
#include <inttypes.h>
#include <string.h>

#include "report/writer.h"

/* From this share on, a stage is what a request's time goes by in. */
#define MOST 0.5

static void append(GString *line, const char *format, ...) G_GNUC_PRINTF(2, 3);

static void append(GString *line, const char *format, ...)
{
    va_list args;

    if (line->len > 0)
        g_string_append(line, ", ");
    va_start(args, format);
    g_string_append_vprintf(line, format, args);
    va_end(args);
}

static void end_line(struct writer *writer, const char *label, GString *line)
{
    if (line->len > 0)
        writer_line(writer, label, line->str);
    g_string_free(line, TRUE);
}

/* The entry of a process in a table of the report, by its pid. */
static const json_t *of_process(const json_t *table, const json_t *pid)
{
    size_t index;
    json_t *entry;

    json_array_foreach (json_object_get(table, "processes"), index, entry)
        if (json_equal(json_object_get(entry, "pid"), pid))
            return entry;
    return NULL;
}

static void write_policies(struct writer *writer, const json_t *process)
{
    static const char *const policies[][2] = { { "pool_policy", "pool" },
                                               { "notify_policy", "notify" },
                                               { "request_lock", "request lock" },
                                               { "stack_guard", "stack guard" },
                                               { "loop_monitor", "loop monitor" } };
    GString *line = g_string_new(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(policies); i++)
        if (*report_string(process, policies[i][0]))
            append(line, "%s %s", policies[i][1], report_string(process, policies[i][0]));
    end_line(writer, "policies:", line);
    if (*report_string(process, "faults"))
        writer_line(writer, "faults:", report_string(process, "faults"));
}

static void write_limits(struct writer *writer, const json_t *process, const json_t *vma, const json_t *pool)
{
    GString *line = g_string_new(NULL);
    int64_t limit = report_number(process, "max_map_count");

    if (limit > 0 && report_has_number(vma, "vma_count"))
        append(line, "%" PRId64 " of %" PRId64 " mappings in use (%.1f %%), %" PRId64 " stacks, %" PRId64 " alive",
               report_number(vma, "vma_count"), limit, 100.0 * (double)report_number(vma, "vma_count") / (double)limit,
               report_number(vma, "stack_count"), report_number(vma, "live_count"));
    else if (limit > 0)
        append(line, "at most %" PRId64 " mappings", limit);
    if (report_has_number(process, "stack_bytes"))
        append(line, "stacks of %" PRId64 " KiB in batches of %" PRId64, report_number(process, "stack_bytes") / 1024,
               report_number(process, "batch_size"));
    if (report_has_number(pool, "global_max"))
        append(line, "global pool %" PRId64 " of at most %" PRId64, report_number(pool, "global_size"),
               report_number(pool, "global_max"));
    end_line(writer, "limits:", line);
}

/* With a dialect: by what it is judged at all. */
static void write_judged(struct writer *writer, const json_t *process)
{
    GString *line = g_string_new(NULL);
    size_t index;
    json_t *id;

    json_array_foreach (json_object_get(process, "judged"), index, id)
        append(line, "%s", json_string_value(id) ? json_string_value(id) : "");
    end_line(writer, "judged by:", line);
}

static void write_process(struct writer *writer, const json_t *report, const json_t *process)
{
    const json_t *pid = json_object_get(process, "pid");
    GString *line = g_string_new(*report_string(process, "name") ? report_string(process, "name") : "without name");
    GString *seen = g_string_new(NULL);
    const char *host = report_string(process, "host"), *version = report_string(process, "version");

    if (json_is_integer(pid))
        g_string_append_printf(line, " (%" JSON_INTEGER_FORMAT ")", json_integer_value(pid));
    if (*host)
        g_string_append_printf(line, " on %s", host);
    if (*report_string(process, "dialect"))
        append(line, "events of %s", report_string(process, "dialect"));
    if (*version)
        append(line, "version %s", version);
    if (report_has_number(process, "contract_version"))
        append(line, "trace contract %" PRId64, report_number(process, "contract_version"));
    end_line(writer, "process:", line);
    write_judged(writer, process);
    write_policies(writer, process);
    write_limits(writer, process, of_process(json_object_get(report, "vma"), pid),
                 of_process(json_object_get(report, "pool"), pid));
    if (report_has_number(process, "begin_ns")) {
        char *begin = writer_offset(writer, report_number(process, "begin_ns"));
        char *end = writer_offset(writer, report_number(process, "end_ns"));

        append(seen, "%" PRId64 " events from %s to %s", report_number(process, "event_count"), begin, end);
        g_free(begin);
        g_free(end);
    }
    if (report_has_number(process, "baseline_ns")) {
        char *baseline = writer_offset(writer, report_number(process, "baseline_ns"));

        append(seen, "all that existed is known since %s", baseline);
        g_free(baseline);
    } else if (report_has_number(process, "begin_ns") && !*report_string(process, "dialect")) {
        append(seen, "without a whole baseline");
    }
    end_line(writer, "seen:", seen);
}

void write_facts(struct writer *writer, const json_t *report)
{
    const json_t *trace = json_object_get(report, "trace");
    char *begin = time_text(writer->begin_ns);
    char *duration = duration_text(report_number(trace, "end_ns") - writer->begin_ns);
    char *holds = g_strdup_printf("%" PRId64 " events in %s from %s", report_number(trace, "event_count"), duration, begin);
    GString *sets = g_string_new(NULL);
    size_t index;
    json_t *entry;

    writer_heading(writer, "Recording");
    json_array_foreach (json_object_get(trace, "paths"), index, entry)
        writer_line(writer, "trace:", json_string_value(entry) ? json_string_value(entry) : "");
    if (report_has_number(trace, "begin_ns"))
        writer_line(writer, "holds:", holds);
    json_array_foreach (json_object_get(trace, "recorded_sets"), index, entry)
        append(sets, "%s", json_string_value(entry) ? json_string_value(entry) : "");
    end_line(writer, "sets:", sets);
    json_array_foreach (json_object_get(trace, "processes"), index, entry)
        write_process(writer, report, entry);
    g_free(holds);
    g_free(begin);
    g_free(duration);
}

/* --- where to look next -------------------------------------------------------------------------------- */

static double sum_ns(const json_t *stages, const char *stage)
{
    const json_t *histogram = json_object_get(stages, stage);

    return (double)report_number(histogram, "mean_ns") * (double)report_number(histogram, "count");
}

static char *quantiles_text(const json_t *histogram)
{
    char *p50 = duration_text(report_number(histogram, "p50_ns")), *p99 = duration_text(report_number(histogram, "p99_ns"));
    char *p999 = duration_text(report_number(histogram, "p999_ns"));
    char *text = g_strdup_printf("p50 %s, p99 %s, p99.9 %s", p50, p99, p999);

    g_free(p50);
    g_free(p99);
    g_free(p999);
    return text;
}

/* Little's law: the mean number in flight is their time in the system over the time. Below a half, the queues were empty for
 * at least half of the time. */
static void write_idle(struct writer *writer, int64_t requests, double in_flight, const char *span)
{
    char *line = g_strdup_printf("the guest and its driver ask for little: %" PRId64 " requests in %s, %.2g in flight on "
                                 "average, so the queues were empty for most of the time.",
                                 requests, span, in_flight);

    writer_line(writer, "-", line);
    g_free(line);
}

static void write_stages(struct writer *writer, const json_t *stages)
{
    static const char *const own[] = { "queued", "serialising", "completing" };
    const json_t *backend = json_object_get(stages, "backend");
    const double total = sum_ns(stages, "total"), share = sum_ns(stages, "backend") / total;
    const char *dearest = own[0];
    char *line, *quantiles;

    if (!backend)
        return;
    for (unsigned i = 1; i < G_N_ELEMENTS(own); i++)
        if (sum_ns(stages, own[i]) > sum_ns(stages, dearest))
            dearest = own[i];
    if (share >= MOST) {
        quantiles = quantiles_text(backend);
        line = g_strdup_printf("the disk below: %.0f %% of the time of requests went by there (%s).", 100 * share, quantiles);
    } else {
        quantiles = quantiles_text(json_object_get(stages, dearest));
        line = g_strdup_printf("the device itself: only %.0f %% of the time of requests went by in the disk, %.0f %% in stage "
                               "%s (%s). No rule was broken; --verbose shows loops and locks.",
                               100 * share, 100 * sum_ns(stages, dearest) / total, dearest, quantiles);
    }
    writer_line(writer, "-", line);
    g_free(quantiles);
    g_free(line);
}

static int64_t completions(const json_t *report)
{
    int64_t count = 0;
    size_t index;
    json_t *queue;

    json_array_foreach (json_object_get(report, "queues"), index, queue)
        if (__builtin_add_overflow(count, report_number(queue, "completions"), &count))
            return INT64_MAX; /* a damaged recording may say anything */
    return count;
}

void write_next_place(struct writer *writer, const json_t *report)
{
    const json_t *latency = json_object_get(report, "latency"), *stages = json_object_get(latency, "stages");
    const json_t *trace = json_object_get(report, "trace");
    const int64_t span_ns = report_number(trace, "end_ns") - report_number(trace, "begin_ns");
    const double total = sum_ns(stages, "total");
    char *span = duration_text(span_ns);

    if (span_ns > 0 && total > 0) {
        writer_heading(writer, "Look next at");
        if (total / (double)span_ns < MOST)
            write_idle(writer, report_number(latency, "requests"), total / (double)span_ns, span);
        write_stages(writer, stages);
    } else if (completions(report) > 0) {
        char *line = g_strdup_printf("the disk and the guest: %" PRId64 " requests were completed in %s; how long they took was "
                                     "not recorded (vblkscope record --events=core,request).",
                                     completions(report), span);

        writer_heading(writer, "Look next at");
        writer_line(writer, "-", line);
        g_free(line);
    }
    g_free(span);
}
