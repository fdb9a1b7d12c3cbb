#include "report/text.h"

#include <glib.h>
#include <inttypes.h>
#include <string.h>

#include "report/printable.h"
#include "report/writer.h"

static const struct style plain = { "", "", "", "", "", "", "" };
static const struct style coloured = { "\033[1;31m", "\033[1;33m", "\033[1;36m", "\033[1;32m",
                                       "\033[1m",    "\033[2m",    "\033[0m" };

static char *plural(size_t count, const char *noun)
{
    return g_strdup_printf("%zu %s%s", count, noun, count == 1 ? "" : "s");
}

static const char *severity_colour(const struct writer *writer, const char *severity)
{
    if (strcmp(severity, "error") == 0)
        return writer->style->error;
    return strcmp(severity, "warning") == 0 ? writer->style->warning : writer->style->info;
}

static size_t count_severity(const json_t *findings, const char *severity)
{
    size_t count = 0, index;
    json_t *finding;

    json_array_foreach (findings, index, finding)
        count += strcmp(report_string(finding, "severity"), severity) == 0;
    return count;
}

/* There was no event of a known kind; @foreign_out: not even one that could have come. */
static bool nothing_judged(const json_t *report, bool *foreign_out)
{
    const json_t *trace = json_object_get(report, "trace");

    *foreign_out = json_array_size(json_object_get(trace, "recorded_sets")) == 0;
    return json_array_size(json_object_get(report, "findings")) == 0 &&
           json_array_size(json_object_get(report, "inconclusive")) == 0 &&
           report_has_number(trace, "known_event_count") && report_number(trace, "known_event_count") == 0;
}

/* Requests would have been recorded, and there was none. */
static bool nothing_asked(const json_t *report)
{
    const json_t *latency = json_object_get(report, "latency"), *set;
    size_t index;

    json_array_foreach (json_object_get(json_object_get(report, "trace"), "recorded_sets"), index, set)
        if (g_strcmp0(json_string_value(set), "request") == 0)
            return report_has_number(latency, "requests") && report_number(latency, "requests") == 0 &&
                   report_number(latency, "in_flight") == 0;
    return false;
}

/* Nothing is wrong here as far as can be told, so that it is worth while to look elsewhere. */
static bool is_healthy(const json_t *report)
{
    const json_t *findings = json_object_get(report, "findings");

    return count_severity(findings, "error") + count_severity(findings, "warning") == 0 &&
           json_array_size(json_object_get(report, "suppressed")) == 0 &&
           json_array_size(json_object_get(report, "inconclusive")) == 0 &&
           !json_is_true(json_object_get(report, "all_skipped"));
}

/* The first process that speaks a dialect of its own (QEMU's); NULL: none. */
static const json_t *find_dialect(const json_t *report)
{
    const json_t *process;
    size_t index;

    json_array_foreach (json_object_get(json_object_get(report, "trace"), "processes"), index, process)
        if (*report_string(process, "dialect"))
            return process;
    return NULL;
}

/* Under a verdict: whose events it rests on, and on how little. */
static void write_dialect(struct writer *writer, const json_t *report)
{
    const json_t *process = find_dialect(report);
    char *line;

    if (!process)
        return;
    line = g_strdup_printf("This is a trace of %s: its own events tell enough for %zu of the findings (see \"Recording\").",
                           report_string(process, "dialect"), json_array_size(json_object_get(process, "judged")));
    writer_words(writer, line, 0, 0);
    g_free(line);
}

static void write_verdict(struct writer *writer, const json_t *report)
{
    const json_t *findings = json_object_get(report, "findings");
    const struct style *style = writer->style;
    size_t errors = count_severity(findings, "error"), warnings = count_severity(findings, "warning");
    size_t unsure = json_array_size(json_object_get(report, "inconclusive"));
    size_t damaged = json_array_size(json_object_get(json_object_get(report, "trace"), "cut_streams"));
    size_t known = json_array_size(json_object_get(report, "suppressed"));
    char *error_text = plural(errors, "error"), *warning_text = plural(warnings, "warning");
    char *unsure_text = plural(unsure, "check");
    bool interrupted = json_is_true(json_object_get(json_object_get(report, "trace"), "interrupted"));
    bool foreign;
    bool nothing = nothing_judged(report, &foreign);

    if (interrupted)
        g_string_append_printf(writer->text, "%sINTERRUPTED%s: this report is partial.\n", style->warning,
                               style->reset);
    if (nothing && foreign)
        g_string_append_printf(
            writer->text,
            "%sNOTHING TO JUDGE%s: this is not a recording of vblkd (or QEMU): no event of a known kind.\n",
            style->warning, style->reset);
    else if (json_is_true(json_object_get(report, "all_skipped")) && find_dialect(report))
        g_string_append_printf(writer->text,
                               "%sNOTHING WAS CHECKED%s: none of the relevant events was recorded. Record again with all of "
                               "them\n(lttng enable-event --userspace 'qemu:*').\n",
                               style->error, style->reset);
    else if (json_is_true(json_object_get(report, "all_skipped")))
        g_string_append_printf(
            writer->text,
            "%sNOTHING WAS CHECKED%s: every relevant set is missing from this recording. Record "
            "again with more sets\n(vblkscope record --events=all).\n",
            style->error, style->reset);
    else if (errors + warnings > 0)
        g_string_append_printf(writer->text, "%sVERDICT: %s%s%s.%s\n", errors ? style->error : style->warning,
                               errors ? error_text : "", errors && warnings ? ", " : "",
                               warnings ? warning_text : "", style->reset);
    else if (nothing)
        g_string_append_printf(
            writer->text,
            "%sNOTHING TO JUDGE%s: no event was recorded. Record while vblkd runs (vblkscope "
            "record).\n",
            style->warning, style->reset);
    else if (unsure > 0)
        g_string_append_printf(writer->text, "%sCANNOT TELL%s: nothing found, but %s could not decide.\n",
                               style->warning, style->reset, unsure_text);
    else if (interrupted)
        g_string_append_printf(writer->text, "%sCANNOT TELL%s: nothing found in the part that was read.\n",
                               style->warning, style->reset);
    else if (damaged > 0)
        g_string_append_printf(writer->text,
                               "%sVERDICT: nothing found in what could be read%s; %zu %s damaged (see \"Not seen\"), and "
                               "what was in the rest\nis unknown.\n",
                               style->warning, style->reset, damaged, damaged == 1 ? "stream is" : "streams are");
    else if (known > 0)
        g_string_append_printf(writer->text, "%sVERDICT: nothing new found.%s\n", style->good, style->reset);
    else if (nothing_asked(report))
        g_string_append_printf(writer->text,
                               "%sVERDICT: nothing found, and no request was recorded.%s Record while a guest or vblk-load "
                               "keeps the device busy.\n",
                               style->warning, style->reset);
    else
        g_string_append_printf(
            writer->text,
            "%sVERDICT: nothing found.%s The device followed its rules as far as was recorded.\n",
            style->good, style->reset);
    if (known > 0)
        g_string_append_printf(writer->text, "%zu known finding%s not counted (see \"Known\").\n", known,
                               known == 1 ? " is" : "s are");
    write_dialect(writer, report);
    g_free(error_text);
    g_free(warning_text);
    g_free(unsure_text);
}

/* "process vblkd (4711)", as far as it was recorded. */
static void write_process_name(GString *line, const char *key, const json_t *process)
{
    const char *name = json_string_value(json_object_get(process, "name"));
    const json_t *pid = json_object_get(process, "pid");

    g_string_append_printf(line, "%s %s", key, name ? name : "without name");
    if (json_is_integer(pid))
        g_string_append_printf(line, " (%" JSON_INTEGER_FORMAT ")", json_integer_value(pid));
}

static void write_subject(struct writer *writer, const json_t *subject)
{
    GString *line = g_string_new(NULL);
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)subject, key, value) {
        if (json_is_null(value))
            continue;
        if (line->len > 0)
            g_string_append(line, ", ");
        if (json_is_object(value))
            write_process_name(line, key, value);
        else if (json_is_string(value))
            g_string_append_printf(line, "%s %s", key, json_string_value(value));
        else
            g_string_append_printf(line, "%s %" JSON_INTEGER_FORMAT, key, json_integer_value(value));
    }
    if (line->len > 0)
        writer_line(writer, "subject:", line->str);
    g_string_free(line, TRUE);
}

static void write_period(struct writer *writer, const json_t *finding)
{
    int64_t begin_ns = report_number(finding, "begin_ns"), end_ns = report_number(finding, "end_ns");
    char *begin = time_text(begin_ns), *offset = writer_offset(writer, begin_ns);
    char *duration = duration_text(end_ns - begin_ns);
    int64_t count = report_number(finding, "count");
    GString *line = g_string_new(NULL);

    g_string_printf(line, "since %s (%s), for %s", begin, offset, duration);
    if (count > 0)
        g_string_append_printf(line, ", count %" PRId64, count);
    writer_line(writer, "when:", line->str);
    g_string_free(line, TRUE);
    g_free(begin);
    g_free(offset);
    g_free(duration);
}

static void write_finding(struct writer *writer, const json_t *finding)
{
    const char *severity = report_string(finding, "severity"), *id = report_string(finding, "id");
    const json_t *evidence = json_object_get(finding, "evidence");
    unsigned column = (unsigned)(strlen(severity) + strlen(id) + 3);
    size_t index;
    json_t *item;

    g_string_append_printf(writer->text, "\n%s%s %s%s: ", severity_colour(writer, severity), severity, id,
                           writer->style->reset);
    writer_words(writer, report_string(finding, "summary"), 2, column);
    write_subject(writer, json_object_get(finding, "subject"));
    if (*report_string(finding, "cause"))
        writer_line(writer, "cause:", report_string(finding, "cause"));
    write_period(writer, finding);
    json_array_foreach (evidence, index, item) {
        char *offset = writer_offset(writer, report_number(item, "time_ns"));
        char *line = g_strdup_printf("%-14s %-28s %s", offset, report_string(item, "event"), report_string(item, "text"));

        if (index == 0)
            g_string_append_printf(writer->text, "  %sevidence:%s\n", writer->style->faint,
                                   writer->style->reset);
        g_string_append(writer->text, "    ");
        writer_words(writer, line, 48, 4);
        g_free(offset);
        g_free(line);
    }
    if (*report_string(finding, "advice"))
        writer_line(writer, "advice:", report_string(finding, "advice"));
}

static void write_inconclusive(struct writer *writer, const json_t *entries)
{
    size_t index;
    json_t *entry;

    json_array_foreach (entries, index, entry) {
        char *begin = writer_offset(writer, report_number(entry, "begin_ns"));
        char *end = writer_offset(writer, report_number(entry, "end_ns"));
        char *line =
            g_strdup_printf("%s: %s (%s to %s)", report_string(entry, "id"), report_string(entry, "reason"), begin, end);

        if (index == 0)
            writer_heading(writer, "Cannot tell");
        g_string_append(writer->text, "  ");
        writer_words(writer, line, 4, 2);
        g_free(begin);
        g_free(end);
        g_free(line);
    }
}

static void write_rule(struct writer *writer, const json_t *rule, const char *what)
{
    const char *reason = report_string(rule, "reason");
    char *line = g_strdup_printf("%s:%" PRId64 ": %s: %s%s%s", report_string(rule, "file"), report_number(rule, "line"),
                                 report_string(rule, "rule"), what, *reason ? " # " : "", reason);

    g_string_append(writer->text, "  ");
    writer_words(writer, line, 4, 2);
    g_free(line);
}

/* What a file of known findings took out of the verdict, and its rules that are to be tidied up. */
static void write_known(struct writer *writer, const json_t *report)
{
    const json_t *suppressed = json_object_get(report, "suppressed"), *rules = json_object_get(report, "suppression_rules");
    const json_t *unused = json_object_get(rules, "unused"), *expired = json_object_get(rules, "expired");
    size_t index;
    json_t *entry;

    if (json_array_size(suppressed) + json_array_size(unused) + json_array_size(expired) == 0)
        return;
    writer_heading(writer, "Known");
    json_array_foreach (suppressed, index, entry) {
        char *line = g_strdup_printf("%s %s: %s", report_string(entry, "severity"), report_string(entry, "id"), report_string(entry, "summary"));

        g_string_append(writer->text, "  ");
        writer_words(writer, line, 4, 2);
        g_string_append(writer->text, "  ");
        write_rule(writer, json_object_get(entry, "suppressed_by"), "matches");
        g_free(line);
    }
    json_array_foreach (unused, index, entry)
        write_rule(writer, entry, "matched nothing");
    json_array_foreach (expired, index, entry)
        write_rule(writer, entry, "has expired");
}

/* Checks that lack the same thing share a line. */
static void write_skipped(struct writer *writer, const json_t *entries)
{
    GHashTable *by_reason = g_hash_table_new(g_str_hash, g_str_equal);
    GPtrArray *reasons = g_ptr_array_new();
    size_t index;
    json_t *entry;

    json_array_foreach (entries, index, entry) {
        const char *reason = report_string(entry, "reason");
        GString *ids = g_hash_table_lookup(by_reason, reason);

        if (!ids) {
            ids = g_string_new(NULL);
            g_hash_table_insert(by_reason, (gpointer)reason, ids);
            g_ptr_array_add(reasons, (gpointer)reason);
        }
        g_string_append_printf(ids, "%s%s", ids->len > 0 ? ", " : "", report_string(entry, "id"));
    }
    if (reasons->len > 0)
        writer_heading(writer, "Not checked");
    for (unsigned i = 0; i < reasons->len; i++) {
        const char *reason = g_ptr_array_index(reasons, i);
        GString *ids = g_hash_table_lookup(by_reason, reason);
        char *line = g_strdup_printf("%s: %s", reason, ids->str);

        g_string_append(writer->text, "  ");
        writer_words(writer, line, 4, 2);
        g_free(line);
        g_string_free(ids, TRUE);
    }
    g_ptr_array_unref(reasons);
    g_hash_table_unref(by_reason);
}

static void write_stream_entry(struct writer *writer, const json_t *entry, const char *what)
{
    const char *path = *report_string(entry, "stream") ? report_string(entry, "stream") : "an unnamed stream";
    char *begin = writer_offset(writer, report_number(entry, "begin_ns"));
    char *end =
        report_has_number(entry, "end_ns") ? writer_offset(writer, report_number(entry, "end_ns")) : g_strdup("the end");
    char *line = g_strdup_printf("%s: %s from %s to %s", path, what, begin, end);

    g_string_append(writer->text, "  ");
    writer_words(writer, line, 4, 2);
    g_free(begin);
    g_free(end);
    g_free(line);
}

static void write_losses(struct writer *writer, const json_t *trace)
{
    const json_t *lost = json_object_get(trace, "lost_intervals"),
                 *cut = json_object_get(trace, "cut_streams");
    const json_t *unreadable = json_object_get(trace, "unreadable");
    size_t index;
    json_t *entry;

    if (json_array_size(lost) + json_array_size(cut) + json_array_size(unreadable) == 0)
        return;
    writer_heading(writer, "Not seen");
    json_array_foreach (unreadable, index, entry) {
        char *line = g_strdup_printf("%s: unreadable: %s", report_string(entry, "path"), report_string(entry, "reason"));

        g_string_append(writer->text, "  ");
        writer_words(writer, line, 4, 2);
        g_free(line);
    }
    json_array_foreach (cut, index, entry)
        write_stream_entry(writer, entry, "damaged, read up to its last whole packet, events lost");
    json_array_foreach (lost, index, entry)
        write_stream_entry(writer, entry, "the tracer discarded events");
}

char *report_text(const json_t *source, const struct text_options *options)
{
    json_t *report = printable_json(source);
    const json_t *trace = json_object_get(report, "trace");
    struct writer writer = {
        .text = g_string_new(NULL),
        .style = options->colours ? &coloured : &plain,
        .width = options->width,
        .begin_ns = report_number(trace, "begin_ns"),
    };
    size_t index;
    json_t *finding;

    write_verdict(&writer, report);
    json_array_foreach (json_object_get(report, "findings"), index, finding)
        write_finding(&writer, finding);
    write_known(&writer, report);
    write_inconclusive(&writer, json_object_get(report, "inconclusive"));
    write_skipped(&writer, json_object_get(report, "skipped"));
    write_losses(&writer, trace);
    if (is_healthy(report))
        write_next_place(&writer, report);
    if (options->verbose)
        write_details(&writer, report);
    write_facts(&writer, report);
    json_decref(report);
    return g_string_free(writer.text, FALSE);
}
