#include "compare/figures.h"

#include <glib.h>
#include <math.h>
#include <string.h>

#include "series/grid.h"

#define NS_PER_S 1e9

/* Values over the steps, NAN where nothing is known. */
struct track {
    double *values;
    unsigned count;
};

struct collector {
    GArray *rows; /* struct figure */
    const json_t *series;
    unsigned steps;
    double step_s;
};

static struct track track_create(const struct collector *collector)
{
    struct track track = { g_new(double, collector->steps + 1), collector->steps };

    for (unsigned i = 0; i < track.count; i++)
        track.values[i] = NAN;
    return track;
}

static void track_add(struct track *track, const json_t *values)
{
    for (unsigned i = 0; i < track->count && i < json_array_size(values); i++) {
        const json_t *value = json_array_get(values, i);

        if (json_is_integer(value))
            track->values[i] = (isnan(track->values[i]) ? 0 : track->values[i]) + (double)json_integer_value(value);
    }
}

static struct figure *add_figure(struct collector *collector, const char *group, char *name, const char *unit, enum better better)
{
    struct figure figure = { .group = g_strdup(group), .name = name, .unit = unit, .better = better };

    g_array_append_val(collector->rows, figure);
    return &g_array_index(collector->rows, struct figure, collector->rows->len - 1);
}

/* Sum of @over by sum of @under (NULL: seconds) between two steps, of those where both are known. */
static double quotient(const struct collector *collector, const struct track *over, const struct track *under, unsigned from,
                       unsigned to)
{
    double above = 0, below = 0;

    for (unsigned i = from; i < to; i++) {
        double part = under ? under->values[i] : collector->step_s;

        if (isnan(over->values[i]) || isnan(part))
            continue;
        above += over->values[i];
        below += part;
    }
    return below > 0 ? above / below : NAN;
}

/* A figure that is nowhere known is left out. */
static void add_quotient(struct collector *collector, const char *group, char *name, const char *unit, enum better better,
                         double scale, const struct track *over, const struct track *under)
{
    const unsigned length = collector->steps / FIGURE_BATCHES;
    const double value = quotient(collector, over, under, 0, collector->steps);
    struct figure *figure;

    if (isnan(value)) {
        g_free(name);
        return;
    }
    figure = add_figure(collector, group, name, unit, better);
    figure->value = scale * value;
    for (unsigned i = 0; length >= 2 && i < FIGURE_BATCHES; i++) {
        double batch = quotient(collector, over, under, i * length, (i + 1) * length);

        if (!isnan(batch))
            figure->batches[figure->batch_count++] = scale * batch;
    }
}

/* The rate of a column, of all rows of a kind together. */
static void add_rate(struct collector *collector, const char *group, const char *name, const char *kind, const char *column,
                     enum better better)
{
    struct track track = track_create(collector);
    json_t *row;
    size_t index;

    json_array_foreach (json_object_get(collector->series, kind), index, row)
        track_add(&track, json_object_get(row, column));
    add_quotient(collector, group, g_strdup(name), "/s", better, 1, &track, NULL);
    g_free(track.values);
}

/* --- rows that are matched by a name ------------------------------------------------------------------- */

static const char *name_of(const json_t *row, const char *key)
{
    const char *name = json_string_value(json_object_get(row, key));

    return name ? name : "without name";
}

/* The names that rows of a kind have, each once, in order of appearance. */
static GPtrArray *names_of(const json_t *rows, const char *key)
{
    GPtrArray *names = g_ptr_array_new();
    json_t *row;
    size_t index;

    json_array_foreach (rows, index, row)
        if (!g_ptr_array_find_with_equal_func(names, name_of(row, key), g_str_equal, NULL))
            g_ptr_array_add(names, (gpointer)name_of(row, key));
    return names;
}

static struct track track_of(const struct collector *collector, const json_t *rows, const char *key, const char *name,
                             const char *column)
{
    struct track track = track_create(collector);
    json_t *row;
    size_t index;

    json_array_foreach (rows, index, row)
        if (strcmp(name_of(row, key), name) == 0)
            track_add(&track, json_object_get(row, column));
    return track;
}

static void add_loops(struct collector *collector)
{
    static const char *const columns[][2] = { { "busy_ns", "busy" }, { "poll_ns", "polling" }, { "wait_ns", "waiting" } };
    const json_t *rows = json_object_get(collector->series, "loops");
    GPtrArray *names = names_of(rows, "loop");

    for (unsigned i = 0; i < names->len; i++) {
        const char *name = g_ptr_array_index(names, i);
        struct track all = track_create(collector), parts[G_N_ELEMENTS(columns)];

        for (unsigned j = 0; j < G_N_ELEMENTS(columns); j++) {
            parts[j] = track_of(collector, rows, "loop", name, columns[j][0]);
            for (unsigned k = 0; k < all.count; k++)
                if (!isnan(parts[j].values[k]))
                    all.values[k] = (isnan(all.values[k]) ? 0 : all.values[k]) + parts[j].values[k];
        }
        for (unsigned j = 0; j < G_N_ELEMENTS(columns); j++) {
            add_quotient(collector, "loops", g_strdup_printf("%s %s", name, columns[j][1]), "%", BETTER_NEITHER, 100, &parts[j],
                         &all);
            g_free(parts[j].values);
        }
        g_free(all.values);
    }
    g_ptr_array_unref(names);
}

static void add_locks(struct collector *collector)
{
    const json_t *rows = json_object_get(collector->series, "locks");
    GPtrArray *names = names_of(rows, "class_name");

    for (unsigned i = 0; i < names->len; i++) {
        const char *name = g_ptr_array_index(names, i);
        struct track waits = track_of(collector, rows, "class_name", name, "contentions");
        struct track waited = track_of(collector, rows, "class_name", name, "wait_ns");

        add_quotient(collector, "locks", g_strdup_printf("%s: waits", name), "/s", BETTER_LOWER, 1, &waits, NULL);
        add_quotient(collector, "locks", g_strdup_printf("%s: waiting", name), "ms/s", BETTER_LOWER, 1e-6, &waited, NULL);
        g_free(waits.values);
        g_free(waited.values);
    }
    g_ptr_array_unref(names);
}

/* --- latency ------------------------------------------------------------------------------------------- */

/* The quantile of the requests that ended between two steps, within its bucket by proportion. */
static double heat_quantile(const json_t *heat, const json_t *from_ns, double share, unsigned from, unsigned to)
{
    const size_t buckets = json_array_size(heat);
    double total = 0, below = 0, *counts = g_new0(double, buckets + 1), result = NAN;

    for (size_t i = 0; i < buckets; i++)
        for (unsigned j = from; j < to; j++)
            counts[i] += (double)json_integer_value(json_array_get(json_array_get(heat, i), j));
    for (size_t i = 0; i < buckets; i++)
        total += counts[i];
    for (size_t i = 0; i < buckets && isnan(result) && total > 0; i++) {
        const double low = (double)json_integer_value(json_array_get(from_ns, i));
        const double high = (double)json_integer_value(json_array_get(from_ns, i + 1));

        if (counts[i] > 0 && below + counts[i] >= share * total)
            result = low + (high - low) * (share * total - below) / counts[i];
        below += counts[i];
    }
    g_free(counts);
    return result;
}

static void add_latencies(struct collector *collector, const json_t *report)
{
    static const struct {
        const char *key, *name;
        double share;
    } quantiles[] = { { "p50_ns", "p50", 0.5 }, { "p99_ns", "p99", 0.99 }, { "p999_ns", "p99.9", 0.999 } };
    const json_t *latency = json_object_get(collector->series, "latency");
    const unsigned length = collector->steps / FIGURE_BATCHES;
    const char *stage;
    json_t *histogram;

    json_object_foreach (json_object_get(json_object_get(report, "latency"), "stages"), stage, histogram) {
        const json_t *heat = json_object_get(json_object_get(latency, "heat"), stage);
        const json_t *from_ns = json_object_get(json_object_get(json_object_get(latency, "stages"), stage), "from_ns");

        for (unsigned i = 0; i < G_N_ELEMENTS(quantiles); i++) {
            struct figure *figure =
                add_figure(collector, "latency", g_strdup_printf("%s %s", stage, quantiles[i].name), "us", BETTER_LOWER);

            figure->value = (double)json_integer_value(json_object_get(histogram, quantiles[i].key)) / 1e3;
            for (unsigned j = 0; length >= 2 && j < FIGURE_BATCHES; j++) {
                double batch = heat_quantile(heat, from_ns, quantiles[i].share, j * length, (j + 1) * length);

                if (!isnan(batch))
                    figure->batches[figure->batch_count++] = batch / 1e3;
            }
        }
    }
}

static void add_requests(struct collector *collector)
{
    const json_t *heat =
        json_object_get(json_object_get(json_object_get(collector->series, "latency"), "heat"), "total");
    struct track track = track_create(collector);
    json_t *values;
    size_t index;

    json_array_foreach (heat, index, values)
        track_add(&track, values);
    for (unsigned i = 0; heat && i < track.count; i++)
        if (isnan(track.values[i]))
            track.values[i] = 0; /* nothing ended there */
    add_quotient(collector, "rates", g_strdup("requests ended"), "/s", BETTER_HIGHER, 1, &track, NULL);
    g_free(track.values);
}

struct figures *figures_of(const json_t *report)
{
    const json_t *series = json_object_get(report, "series");
    struct collector collector = {
        .series = series,
        /* A file may say anything. */
        .steps = (unsigned)CLAMP(json_integer_value(json_object_get(series, "steps")), 0, GRID_STEPS_MAX),
        .step_s = (double)json_integer_value(json_object_get(series, "step_ns")) / NS_PER_S,
    };
    struct figures *figures;

    if (!json_is_object(series))
        return NULL;
    collector.rows = g_array_new(FALSE, TRUE, sizeof(struct figure));
    add_requests(&collector);
    add_rate(&collector, "rates", "completions", "queues", "completions", BETTER_HIGHER);
    add_rate(&collector, "rates", "kicks", "queues", "kicks", BETTER_NEITHER);
    add_rate(&collector, "rates", "interrupts", "queues", "interrupts", BETTER_NEITHER);
    add_rate(&collector, "rates", "event writes", "loops", "event_writes", BETTER_LOWER);
    add_latencies(&collector, report);
    add_rate(&collector, "pool", "takes", "pool", "takes", BETTER_NEITHER);
    add_rate(&collector, "pool", "misses", "pool", "misses", BETTER_LOWER);
    add_rate(&collector, "pool", "refills", "pool", "refills", BETTER_NEITHER);
    add_rate(&collector, "pool", "overflows", "pool", "overflows", BETTER_LOWER);
    add_locks(&collector);
    add_loops(&collector);
    figures = g_new0(struct figures, 1);
    figures->count = collector.rows->len;
    figures->rows = (struct figure *)(void *)g_array_free(collector.rows, FALSE);
    return figures;
}

void figures_free(struct figures *figures)
{
    if (!figures)
        return;
    for (unsigned i = 0; i < figures->count; i++) {
        g_free(figures->rows[i].group);
        g_free(figures->rows[i].name);
    }
    g_free(figures->rows);
    g_free(figures);
}
