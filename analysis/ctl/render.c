#include "ctl/render.h"

#include <glib.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "report/printable.h"
#include "report/table.h"

#define COLUMNS_MAX 32

struct column {
    const char *path, *title; /* path: keys, separated by dots */
};

/* What is worth its width; the rest is in the JSON. */
static const struct table {
    const char *command, *list; /* list: keys from the answer on; inner lists after a dot */
    struct column columns[COLUMNS_MAX];
} tables[] = {
    { "status", "disks",
      { { "name", "DISK" }, { "blk_file", "FILE" }, { "size_bytes", "SIZE" }, { "state", "STATE" },
        { "connected", "CONNECTED" }, { "running_queues", "RUNNING" }, { "queues", "QUEUES" },
        { "in_flight", "IN-FLIGHT" }, { "drain", "DRAIN" }, { "paused", "PAUSED" } } },
    { "stats", "disks",
      { { "device", "DISK" }, { "requests.read.requests", "READS" }, { "requests.read.bytes", "READ" },
        { "requests.write.requests", "WRITES" }, { "requests.write.bytes", "WRITTEN" },
        { "requests.flush.requests", "FLUSHES" }, { "requests.read.errors", "READ-ERRORS" },
        { "requests.write.errors", "WRITE-ERRORS" }, { "kicks", "KICKS" }, { "interrupts", "INTERRUPTS" },
        { "in_flight", "IN-FLIGHT" } } },
    { "stats", "disks.queues",
      { { "queue", "QUEUE" }, { "requests.read.requests", "READS" }, { "requests.read.bytes", "READ" },
        { "requests.write.requests", "WRITES" }, { "requests.write.bytes", "WRITTEN" },
        { "requests.flush.requests", "FLUSHES" }, { "kicks", "KICKS" }, { "empty_kicks", "EMPTY" },
        { "interrupts", "INTERRUPTS" }, { "suppressed_interrupts", "SUPPRESSED" } } },
    { "pool", "threads",
      { { "name", "THREAD" }, { "thread_id", "ID" }, { "local_size", "LOCAL" }, { "takes", "TAKES" },
        { "gives", "GIVES" }, { "misses", "MISSES" }, { "refills", "REFILLS" }, { "donations", "DONATIONS" },
        { "overflows", "OVERFLOWS" } } },
    { "loops", "loops",
      { { "name", "LOOP" }, { "thread_id", "THREAD" }, { "busy_ns", "BUSY" }, { "poll_ns", "POLLED" },
        { "wait_ns", "WAITED" }, { "poll_max_ns", "POLL-MAX" }, { "dispatches", "DISPATCHES" },
        { "idle_dispatches", "IDLE" }, { "notifies", "NOTIFIES" }, { "event_writes", "WRITES" },
        { "polls", "POLLS" }, { "polls_useful", "USEFUL" } } },
    { "loops", "loops.handlers",
      { { "handler_id", "HANDLER" }, { "fd", "FD" }, { "role", "ROLE" }, { "device_id", "DEVICE" }, { "queue", "QUEUE" },
        { "dispatches", "DISPATCHES" }, { "idle_dispatches", "IDLE" }, { "poll_dispatches", "POLLED" } } },
    { "queues", "queues",
      { { "device", "DISK" }, { "queue", "QUEUE" }, { "size", "SIZE" }, { "packed", "PACKED" }, { "loop", "LOOP" },
        { "avail_index", "AVAIL" }, { "popped_index", "POPPED" }, { "used_index", "USED" },
        { "in_flight", "IN-FLIGHT" }, { "notifications_enabled", "NOTIFY" }, { "enabled", "ENABLED" },
        { "attached", "ATTACHED" }, { "broken", "BROKEN" } } },
    { "locks", "locks",
      { { "class_name", "LOCK" }, { "kind", "KIND" }, { "lock_count", "COUNT" }, { "acquisitions", "TAKEN" },
        { "contentions", "CONTENDED" }, { "wait_ns", "WAITED" }, { "hold_ns", "HELD" }, { "waiter_count", "WAITING" },
        { "owner_thread_id", "OWNER" }, { "owner_coroutine_id", "COROUTINE" } } },
    { "requests", "requests",
      { { "request_id", "REQUEST" }, { "device", "DISK" }, { "queue", "QUEUE" }, { "type", "TYPE" },
        { "offset_bytes", "OFFSET" }, { "size_bytes", "LENGTH" }, { "stage", "STAGE" }, { "age_ns", "AGE" } } },
};

/* ---- one value ---- */

static char *scaled(double value, const char *const *units, double step)
{
    while (value >= step && units[1]) {
        value /= step;
        units++;
    }
    return g_strdup_printf(value == (int64_t)value ? "%.0f %s" : "%.1f %s", value, *units);
}

static char *time_text(int64_t ns)
{
    static const char *const units[] = { "ns", "us", "ms", "s", NULL };

    return ns < 0 ? g_strdup("forever") : ns == 0 ? g_strdup("0") : scaled((double)ns, units, 1000);
}

static char *size_text(int64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", NULL };

    return scaled((double)bytes, units, 1024);
}

/* The unit is the ending of the name. An offset is looked for elsewhere, so it stays exact. */
static char *value_text(const char *key, const json_t *value)
{
    if (json_is_integer(value)) {
        int64_t number = json_integer_value(value);

        if (g_str_has_suffix(key, "_ns"))
            return time_text(number);
        if (g_str_has_suffix(key, "bytes") && !g_str_has_prefix(key, "offset"))
            return size_text(number);
        return g_strdup_printf("%" PRId64, number);
    }
    if (json_is_boolean(value))
        return g_strdup(json_is_true(value) ? "yes" : "no");
    return json_is_string(value) ? printable_text(json_string_value(value)) : g_strdup("-");
}

static const json_t *follow(const json_t *object, const char *path, const char **key_out)
{
    char **keys = g_strsplit(path, ".", -1);

    for (char **key = keys; *key; key++)
        object = json_object_get(object, *key);
    g_strfreev(keys);
    *key_out = strrchr(path, '.') ? strrchr(path, '.') + 1 : path;
    return object;
}

/* ---- a table ---- */

static const struct table *find_table(const char *command, const char *list)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(tables); i++)
        if (strcmp(tables[i].command, command) == 0 && strcmp(tables[i].list, list) == 0)
            return &tables[i];
    return NULL;
}

/* Every fact of the first row. Keys live as long as the answer. */
static struct table table_of_all(const json_t *list)
{
    struct table table = { NULL };
    unsigned count = 0;
    const char *key;
    json_t *value;

    json_object_foreach (json_array_get(list, 0), key, value)
        if (!json_is_array(value) && !json_is_object(value) && count < COLUMNS_MAX)
            table.columns[count++] = (struct column){ key, key };
    return table;
}

static void render_table(GString *text, const struct table *table, const json_t *list, const char *indent)
{
    const char *titles[COLUMNS_MAX + 1] = { NULL };
    unsigned columns = 0;
    struct text_table *cells;
    const json_t *row;
    size_t index;

    for (; columns < COLUMNS_MAX && table->columns[columns].path; columns++)
        titles[columns] = table->columns[columns].title;
    cells = text_table_create(titles);
    json_array_foreach (list, index, row)
        for (unsigned c = 0; c < columns; c++) {
            const char *key;
            const json_t *value = follow(row, table->columns[c].path, &key);

            text_table_add(cells, value_text(key, value), json_is_integer(value));
        }
    text_table_write(cells, text, indent);
    text_table_destroy(cells);
}

static void render_list(GString *text, const char *command, const char *path, const json_t *list, const char *indent)
{
    const struct table *table = find_table(command, path);
    struct table all;

    if (json_array_size(list) == 0 || !json_is_object(json_array_get(list, 0)))
        return;
    if (!table) {
        all = table_of_all(list);
        table = &all;
    }
    render_table(text, table, list, indent);
}

/* ---- an answer ---- */

static void render_fact(GString *text, const char *name, const char *key, const json_t *value)
{
    char *shown = value_text(key, value);

    g_string_append_printf(text, "%-24s %s\n", name, shown);
    g_free(shown);
}

/* A list of words in one line. */
static void render_words(GString *text, const char *name, const json_t *list)
{
    const json_t *value;
    size_t i;

    g_string_append_printf(text, "%-24s ", name);
    json_array_foreach (list, i, value) {
        char *shown = value_text("", value);

        g_string_append_printf(text, "%s%s", i ? ", " : "", shown);
        g_free(shown);
    }
    if (json_array_size(list) == 0)
        g_string_append(text, "none");
    g_string_append_c(text, '\n');
}

static void render_facts(GString *text, const char *prefix, const json_t *object)
{
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)object, key, value) {
        char *name = *prefix ? g_strdup_printf("%s %s", prefix, key) : g_strdup(key);

        if (json_is_object(value))
            render_facts(text, name, value);
        else if (!json_is_array(value))
            render_fact(text, name, key, value);
        else if (json_array_size(value) == 0 ? !*prefix && strcmp(key, "faults") == 0 : !json_is_object(json_array_get(value, 0)))
            render_words(text, name, value);
        g_free(name);
    }
}

/* What a row is called in the heading of its inner tables. */
static const char *row_name(const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "name"));

    return name ? name : json_string_value(json_object_get(row, "device"));
}

static void render_inner_lists(GString *text, const char *command, const char *list_key, const json_t *list)
{
    const json_t *row;
    size_t i;

    json_array_foreach (list, i, row) {
        const char *key, *name = row_name(row);
        json_t *value;

        json_object_foreach ((json_t *)row, key, value) {
            char *path = g_strdup_printf("%s.%s", list_key, key), *shown = printable_text(name ? name : "");

            if (json_array_size(value) > 0 && json_is_object(json_array_get(value, 0))) {
                g_string_append_printf(text, "\n%s: %s\n", shown, key);
                render_list(text, command, path, value, "  ");
            }
            g_free(shown);
            g_free(path);
        }
    }
}

/* Commands are read like a manual. */
static char *render_commands(const json_t *answer)
{
    GString *text = g_string_new(NULL);
    const json_t *command, *argument;
    size_t i, j;

    json_array_foreach (json_object_get(answer, "commands"), i, command) {
        char *name = value_text("", json_object_get(command, "name")), *about = value_text("", json_object_get(command, "text"));

        g_string_append_printf(text, "%-16s %s\n", name, about);
        g_free(name);
        g_free(about);
        json_array_foreach (json_object_get(command, "arguments"), j, argument) {
            char *type = value_text("", json_object_get(argument, "type"));
            char *argument_name = value_text("", json_object_get(argument, "name"));
            char *argument_about = value_text("", json_object_get(argument, "text"));
            char *form = g_strdup_printf("%s=%s", argument_name, type);

            g_string_append_printf(text, "    %-22s %s%s\n", form, argument_about,
                                   json_is_true(json_object_get(argument, "required")) ? " (required)" : "");
            g_free(form);
            g_free(argument_about);
            g_free(argument_name);
            g_free(type);
        }
    }
    return g_string_free(text, FALSE);
}

char *render_answer(const char *command, const json_t *answer)
{
    GString *text;
    const char *key;
    json_t *value;

    if (strcmp(command, "commands") == 0)
        return render_commands(answer);
    text = g_string_new(NULL);
    render_facts(text, "", answer);
    json_object_foreach ((json_t *)answer, key, value) {
        if (json_array_size(value) == 0 || !json_is_object(json_array_get(value, 0)))
            continue;
        if (text->len > 0)
            g_string_append_c(text, '\n');
        render_list(text, command, key, value, "");
        render_inner_lists(text, command, key, value);
    }
    return g_string_free(text, FALSE);
}
