/* --verbose: what the report's tables say, as tables. Totals are what they grew by in the recording. */
#include <inttypes.h>
#include <string.h>

#include "report/table.h"
#include "report/writer.h"

/* A column of a table: the key in a row, and how its value is shown. */
enum column_kind { PLAIN, DURATION, SHARE_OF_TIME };

struct column {
    const char *key, *title;
    enum column_kind kind;
};

#define COLUMNS_MAX 16

static char *cell_text(const json_t *row, const struct column *column)
{
    const json_t *value = json_object_get(row, column->key);
    double time_ns = 0;

    if (json_is_string(value))
        return g_strdup(json_string_value(value));
    if (json_is_boolean(value))
        return g_strdup(json_is_true(value) ? "yes" : "no");
    if (!json_is_integer(value))
        return g_strdup("-");
    switch (column->kind) {
    case DURATION:
        return duration_text(json_integer_value(value));
    case SHARE_OF_TIME:
        time_ns = (double)report_number(row, "busy_ns") + (double)report_number(row, "poll_ns") + (double)report_number(row, "wait_ns");
        return time_ns > 0 ? g_strdup_printf("%.1f %%", 100 * (double)json_integer_value(value) / time_ns) : g_strdup("-");
    case PLAIN:
        break;
    }
    return g_strdup_printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
}

static void write_rows(struct writer *writer, const char *heading, const json_t *rows, const struct column *columns)
{
    const char *titles[COLUMNS_MAX + 1] = { NULL };
    struct text_table *table;
    size_t index;
    json_t *row;

    if (json_array_size(rows) == 0)
        return;
    for (unsigned i = 0; columns[i].key; i++)
        titles[i] = columns[i].title;
    table = text_table_create(titles);
    json_array_foreach (rows, index, row)
        for (unsigned i = 0; columns[i].key; i++)
            text_table_add(table, cell_text(row, &columns[i]), !json_is_string(json_object_get(row, columns[i].key)));
    writer_heading(writer, heading);
    text_table_write(table, writer->text, "  ");
    text_table_destroy(table);
}

/* The threads of all processes in one list, each with its process's pid. */
static json_t *pool_threads(const json_t *pool)
{
    json_t *rows = json_array(), *process, *thread;
    size_t i, j;

    json_array_foreach (json_object_get(pool, "processes"), i, process)
        json_array_foreach (json_object_get(process, "threads"), j, thread) {
            json_t *row = json_copy(thread);

            json_object_set(row, "pid", json_object_get(process, "pid"));
            json_array_append_new(rows, row);
        }
    return rows;
}

/* { stage: histogram } as a list with "stage". */
static json_t *latency_stages(const json_t *latency)
{
    json_t *rows = json_array(), *histogram;
    const char *stage;

    json_object_foreach (json_object_get(latency, "stages"), stage, histogram) {
        json_t *row = json_copy(histogram);

        json_object_set_new(row, "stage", json_string(stage));
        json_array_append_new(rows, row);
    }
    return rows;
}

void write_details(struct writer *writer, const json_t *report)
{
    static const struct column stage[] = {
        { "stage", "stage", PLAIN },       { "count", "requests", PLAIN },     { "mean_ns", "mean", DURATION },
        { "p50_ns", "p50", DURATION },     { "p90_ns", "p90", DURATION },      { "p99_ns", "p99", DURATION },
        { "p999_ns", "p99.9", DURATION },  { "max_ns", "max", DURATION },      { NULL },
    };
    static const struct column queue[] = {
        { "pid", "pid", PLAIN },
        { "device", "device", PLAIN },
        { "queue_index", "queue", PLAIN },
        { "loop_id", "loop", PLAIN },
        { "in_flight", "in flight", PLAIN },
        { "pops", "taken", PLAIN },
        { "completions", "completed", PLAIN },
        { "kicks", "kicks", PLAIN },
        { "empty_kicks", "empty", PLAIN },
        { "interrupts", "interrupts", PLAIN },
        { "suppressed_interrupts", "suppressed", PLAIN },
        { "broken", "broken", PLAIN },
        { NULL },
    };
    static const struct column loop[] = {
        { "pid", "pid", PLAIN },
        { "loop_id", "loop", PLAIN },
        { "name", "name", PLAIN },
        { "thread_id", "thread", PLAIN },
        { "busy_ns", "busy", SHARE_OF_TIME },
        { "poll_ns", "poll", SHARE_OF_TIME },
        { "wait_ns", "wait", SHARE_OF_TIME },
        { "passes", "passes", PLAIN },
        { "dispatches", "dispatches", PLAIN },
        { "idle_dispatches", "idle", PLAIN },
        { "notifies", "notifies", PLAIN },
        { "event_writes", "writes", PLAIN },
        { NULL },
    };
    static const struct column lock[] = {
        { "pid", "pid", PLAIN },          { "lock_id", "lock", PLAIN },       { "class_name", "class", PLAIN },
        { "kind", "kind", PLAIN },        { "acquisitions", "taken", PLAIN }, { "contentions", "waited for", PLAIN },
        { "wait_ns", "waited", DURATION }, { "hold_ns", "held", DURATION },   { NULL },
    };
    static const struct column thread[] = {
        { "pid", "pid", PLAIN },       { "thread_id", "thread", PLAIN }, { "name", "name", PLAIN },
        { "local_size", "idle", PLAIN }, { "takes", "takes", PLAIN },    { "gives", "gives", PLAIN },
        { "misses", "misses", PLAIN }, { "refills", "refills", PLAIN },  { "donations", "donations", PLAIN },
        { "overflows", "overflows", PLAIN }, { NULL },
    };
    static const struct column pool[] = {
        { "pid", "pid", PLAIN },
        { "policy", "policy", PLAIN },
        { "global_size", "size", PLAIN },
        { "global_max", "maximum", PLAIN },
        { "global_hard_max", "hard maximum", PLAIN },
        { NULL },
    };
    static const struct column vma[] = {
        { "pid", "pid", PLAIN },
        { "vma_count", "mappings", PLAIN },
        { "max_map_count", "limit", PLAIN },
        { "stack_vma_count", "of stacks", PLAIN },
        { "stack_count", "stacks", PLAIN },
        { "live_count", "alive", PLAIN },
        { NULL },
    };
    json_t *stages = latency_stages(json_object_get(report, "latency"));
    json_t *threads = pool_threads(json_object_get(report, "pool"));

    write_rows(writer, "Latency by stage", stages, stage);
    write_rows(writer, "Queues", json_object_get(report, "queues"), queue);
    write_rows(writer, "Loops", json_object_get(report, "loops"), loop);
    write_rows(writer, "Locks", json_object_get(report, "locks"), lock);
    write_rows(writer, "Coroutine pool", json_object_get(json_object_get(report, "pool"), "processes"), pool);
    write_rows(writer, "Coroutine pool by thread (totals since the process's start)", threads, thread);
    write_rows(writer, "Mappings (last sample)", json_object_get(json_object_get(report, "vma"), "processes"), vma);
    json_decref(stages);
    json_decref(threads);
}
