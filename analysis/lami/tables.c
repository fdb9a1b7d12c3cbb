#include "lami/tables.h"

#include <glib.h>
#include <stdbool.h>
#include <string.h>

/* How a cell is made from its row of the report. */
enum cell_kind {
    CELL_STRING,
    CELL_NUMBER,
    CELL_DURATION,
    CELL_SHARE,   /* of busy, poll and wait: a ratio */
    CELL_RANGE,   /* begin_ns and end_ns */
    CELL_PROCESS, /* pid; name and thread where the row has them */
    CELL_SUBJECT, /* the process of a finding's subject */
    CELL_DISK,
};

/* As LAMI calls them, in the order of enum cell_kind. */
static const char *const class_names[] = { "string",     "number",  "duration", "ratio",
                                           "time-range", "process", "process",  "disk" };

struct column {
    const char *title, *key;
    enum cell_kind kind;
    const char *unit; /* of numbers; NULL: none */
};

#define COLUMNS_MAX 10

struct table {
    const char *name, *title;
    struct column columns[COLUMNS_MAX];
};

/* clang-format off */
static const struct table tables[] = {
    { "findings", "Findings", {
        { "Severity", "severity", CELL_STRING, NULL }, { "Finding", "id", CELL_STRING, NULL },
        { "Summary", "summary", CELL_STRING, NULL }, { "Cause", "cause", CELL_STRING, NULL },
        { "When", "", CELL_RANGE, NULL }, { "Count", "count", CELL_NUMBER, NULL },
        { "Process", "subject", CELL_SUBJECT, NULL }, { "Advice", "advice", CELL_STRING, NULL } } },
    { "inconclusive", "Cannot tell", {
        { "Finding", "id", CELL_STRING, NULL }, { "Reason", "reason", CELL_STRING, NULL }, { "When", "", CELL_RANGE, NULL } } },
    { "skipped", "Not checked", {
        { "Finding", "id", CELL_STRING, NULL }, { "Reason", "reason", CELL_STRING, NULL } } },
    { "latency", "Latency of requests by stage", {
        { "Stage", "stage", CELL_STRING, NULL }, { "Count", "count", CELL_NUMBER, "requests" },
        { "Mean", "mean_ns", CELL_DURATION, NULL }, { "50 %", "p50_ns", CELL_DURATION, NULL },
        { "90 %", "p90_ns", CELL_DURATION, NULL }, { "99 %", "p99_ns", CELL_DURATION, NULL },
        { "99.9 %", "p999_ns", CELL_DURATION, NULL }, { "Maximum", "max_ns", CELL_DURATION, NULL } } },
    { "queues", "Queues", {
        { "Process", "pid", CELL_PROCESS, NULL }, { "Device", "device", CELL_DISK, NULL },
        { "Queue", "queue_index", CELL_NUMBER, NULL }, { "In flight", "in_flight", CELL_NUMBER, "requests" },
        { "Taken", "pops", CELL_NUMBER, "requests" }, { "Completed", "completions", CELL_NUMBER, "requests" },
        { "Kicks", "kicks", CELL_NUMBER, NULL }, { "Interrupts", "interrupts", CELL_NUMBER, NULL } } },
    { "loops", "Event loops", {
        { "Thread", "thread_id", CELL_PROCESS, NULL }, { "Loop", "name", CELL_STRING, NULL },
        { "Busy", "busy_ns", CELL_SHARE, NULL }, { "Polling", "poll_ns", CELL_SHARE, NULL },
        { "Waiting", "wait_ns", CELL_SHARE, NULL }, { "Passes", "passes", CELL_NUMBER, NULL },
        { "Notifications", "notifies", CELL_NUMBER, NULL }, { "Event writes", "event_writes", CELL_NUMBER, NULL } } },
    { "locks", "Locks", {
        { "Process", "pid", CELL_PROCESS, NULL }, { "Lock", "lock_id", CELL_NUMBER, NULL },
        { "Class", "class_name", CELL_STRING, NULL }, { "Kind", "kind", CELL_STRING, NULL },
        { "Acquisitions", "acquisitions", CELL_NUMBER, NULL }, { "Waited for", "contentions", CELL_NUMBER, NULL },
        { "Waiting", "wait_ns", CELL_DURATION, NULL }, { "Holding", "hold_ns", CELL_DURATION, NULL } } },
    { "pool", "Coroutine pool by thread", {
        { "Thread", "thread_id", CELL_PROCESS, NULL }, { "Idle", "local_size", CELL_NUMBER, "coroutines" },
        { "Takes", "takes", CELL_NUMBER, NULL }, { "Gives", "gives", CELL_NUMBER, NULL },
        { "Misses", "misses", CELL_NUMBER, NULL }, { "Overflows", "overflows", CELL_NUMBER, NULL } } },
};
/* clang-format on */

static json_t *table_class(const struct table *table)
{
    json_t *columns = json_array();

    for (unsigned i = 0; i < COLUMNS_MAX && table->columns[i].title; i++) {
        const struct column *column = &table->columns[i];
        json_t *description =
            json_pack("{s:s, s:s}", "title", column->title, "class", class_names[column->kind]);

        if (column->unit)
            json_object_set_new(description, "unit", json_string(column->unit));
        json_array_append_new(columns, description);
    }
    return json_pack("{s:s, s:o}", "title", table->title, "column-descriptions", columns);
}

json_t *lami_metadata(const char *version)
{
    static const char *const keys[] = { "major", "minor", "patch" };
    json_t *classes = json_object(), *number = json_object();
    char **parts = g_strsplit(version, ".", G_N_ELEMENTS(keys));

    for (unsigned i = 0; i < G_N_ELEMENTS(keys) && parts[i]; i++)
        json_object_set_new(number, keys[i], json_integer((json_int_t)g_ascii_strtoll(parts[i], NULL, 10)));
    g_strfreev(parts);
    for (unsigned i = 0; i < G_N_ELEMENTS(tables); i++)
        json_object_set_new(classes, tables[i].name, table_class(&tables[i]));
    return json_pack("{s:{s:i, s:i}, s:o, s:s, s:[s], s:s, s:[s, s], s:o}", "mi-version", "major", LAMI_MAJOR, "minor", LAMI_MINOR,
                     "version", number, "title", "vblkscope: what is wrong in a virtio-blk device", "authors",
                     "The vblkscope developers", "description",
                     "Verdicts on recordings of vblkd, with latency, queues, loops, locks and coroutine pool.", "tags", "virtio-blk",
                     "lttng-ust", "table-classes", classes);
}

static json_t *unknown(void)
{
    return json_pack("{s:s}", "class", "unknown");
}

static json_t *number_object(const char *class, const json_t *value)
{
    return json_is_integer(value) ? json_pack("{s:s, s:O}", "class", class, "value", value) : unknown();
}

static json_t *timestamp(json_int_t time_ns)
{
    return json_pack("{s:s, s:I}", "class", "timestamp", "value", time_ns);
}

static json_t *time_range(json_int_t begin_ns, json_int_t end_ns)
{
    return json_pack("{s:s, s:o, s:o}", "class", "time-range", "begin", timestamp(begin_ns), "end", timestamp(end_ns));
}

static json_int_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static json_t *share(const json_t *row, const json_t *value)
{
    const double all =
        (double)number_of(row, "busy_ns") + (double)number_of(row, "poll_ns") + (double)number_of(row, "wait_ns");

    return json_is_integer(value) && all > 0
               ? json_pack("{s:s, s:f}", "class", "ratio", "value", (double)json_integer_value(value) / all)
               : unknown();
}

static json_t *process_object(const json_t *name, const json_t *pid, const json_t *tid)
{
    json_t *object = json_pack("{s:s}", "class", "process");

    if (json_is_string(name))
        json_object_set(object, "name", (json_t *)name);
    if (json_is_integer(pid))
        json_object_set(object, "pid", (json_t *)pid);
    if (json_is_integer(tid))
        json_object_set(object, "tid", (json_t *)tid);
    return object;
}

static json_t *make_cell(const json_t *row, const struct column *column)
{
    const json_t *value = json_object_get(row, column->key);

    switch (column->kind) {
    case CELL_STRING:
        return json_is_string(value) ? json_pack("{s:s, s:O}", "class", "string", "value", value) : json_null();
    case CELL_NUMBER:
        return number_object("number", value);
    case CELL_DURATION:
        return number_object("duration", value);
    case CELL_SHARE:
        return share(row, value);
    case CELL_RANGE:
        return time_range(number_of(row, "begin_ns"), number_of(row, "end_ns"));
    case CELL_PROCESS:
        return process_object(json_object_get(row, "thread_id") ? json_object_get(row, "name") : NULL, json_object_get(row, "pid"),
                              json_object_get(row, "thread_id"));
    case CELL_SUBJECT:
        value = json_object_get(value, "process");
        return value ? process_object(json_object_get(value, "name"), json_object_get(value, "pid"), NULL) : json_null();
    case CELL_DISK:
        return json_is_string(value) ? json_pack("{s:s, s:O}", "class", "disk", "name", value) : unknown();
    }
    return json_null();
}

/* The report's rows for a table, as a new list. */
static json_t *rows_of(const json_t *report, const char *table)
{
    json_t *rows = json_array(), *entry, *inner;
    const char *stage;
    size_t i, j;

    if (strcmp(table, "latency") == 0) {
        json_object_foreach (json_object_get(json_object_get(report, "latency"), "stages"), stage, entry) {
            inner = json_copy(entry);
            json_object_set_new(inner, "stage", json_string(stage));
            json_array_append_new(rows, inner);
        }
    } else if (strcmp(table, "pool") == 0) {
        json_array_foreach (json_object_get(json_object_get(report, "pool"), "processes"), i, entry)
            json_array_foreach (json_object_get(entry, "threads"), j, inner) {
                json_t *row = json_copy(inner);

                json_object_set(row, "pid", json_object_get(entry, "pid"));
                json_array_append_new(rows, row);
            }
    } else {
        json_array_extend(rows, json_object_get(report, table));
    }
    return rows;
}

static json_t *result_table(const json_t *report, const struct table *table, const struct lami_choice *choice)
{
    const json_t *trace = json_object_get(report, "trace");
    json_int_t begin_ns = number_of(trace, "begin_ns"), end_ns = number_of(trace, "end_ns");
    const bool chosen = strcmp(table->name, "findings") == 0;
    json_t *rows = rows_of(report, table->name), *data = json_array(), *row;
    size_t index;

    json_array_foreach (rows, index, row) {
        json_t *cells = json_array();
        bool left_out = choice->rows_max && json_array_size(data) >= choice->rows_max;

        if (chosen)
            left_out |= number_of(row, "end_ns") < choice->begin_ns || number_of(row, "begin_ns") > choice->end_ns;
        for (unsigned i = 0; i < COLUMNS_MAX && table->columns[i].title && !left_out; i++)
            json_array_append_new(cells, make_cell(row, &table->columns[i]));
        if (left_out)
            json_decref(cells);
        else
            json_array_append_new(data, cells);
    }
    json_decref(rows);
    if (chosen) {
        begin_ns = MAX(begin_ns, choice->begin_ns);
        end_ns = MIN(end_ns, choice->end_ns);
    }
    return json_pack("{s:o, s:s, s:o}", "time-range", time_range(begin_ns, MAX(begin_ns, end_ns)), "class", table->name, "data",
                     data);
}

json_t *lami_results(const json_t *report, const struct lami_choice *choice)
{
    json_t *results = json_array();

    for (unsigned i = 0; i < G_N_ELEMENTS(tables); i++) {
        json_t *table = result_table(report, &tables[i], choice);

        if (i == 0 || json_array_size(json_object_get(table, "data")) > 0)
            json_array_append_new(results, table);
        else
            json_decref(table);
    }
    return json_pack("{s:o}", "results", results);
}

json_t *lami_error(const char *message)
{
    json_t *text = json_string(message);

    return json_pack("{s:o}", "error-message", text ? text : json_string("a name that is not UTF-8"));
}
