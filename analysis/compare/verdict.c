#include "compare/verdict.h"

#include <math.h>
#include <string.h>

#include "compare/figures.h"
#include "compare/statistics.h"
#include "report/printable.h"
#include "report/table.h"

/* Of what is called changed, the share that may be so by chance. */
#define FALSE_RATE 0.05

#define REPEATS_TEXT "Welch's t-test over the repeats"
#define BATCHES_TEXT "Welch's t-test over ten batches of the first recording of each side"
#define RATE_TEXT ", at most one in twenty of the changes by chance"

/* One row of both sides: values of the repeats, and the batches of the first. */
struct row {
    const struct figure *figure; /* what it is */
    GArray *values[2];           /* double */
    const struct figure *first[2];
};

static gpointer row_key(const struct figure *figure)
{
    return g_strdup_printf("%s\n%s", figure->group, figure->name);
}

static void row_free(void *data)
{
    struct row *row = data;

    g_array_unref(row->values[0]);
    g_array_unref(row->values[1]);
    g_free(row);
}

static void take_figures(GPtrArray *rows, GHashTable *by_key, const struct figures *figures, unsigned side)
{
    for (unsigned i = 0; i < figures->count; i++) {
        const struct figure *figure = &figures->rows[i];
        char *key = row_key(figure);
        struct row *row = g_hash_table_lookup(by_key, key);

        if (!row) {
            row = g_new0(struct row, 1);
            row->figure = figure;
            row->values[0] = g_array_new(FALSE, FALSE, sizeof(double));
            row->values[1] = g_array_new(FALSE, FALSE, sizeof(double));
            g_ptr_array_add(rows, row);
            g_hash_table_insert(by_key, g_strdup(key), row);
        }
        g_array_append_val(row->values[side], figure->value);
        if (!row->first[side])
            row->first[side] = figure;
        g_free(key);
    }
}

static double mean_of(const double *values, unsigned count)
{
    double sum = 0;

    for (unsigned i = 0; i < count; i++)
        sum += values[i];
    return count ? sum / count : NAN;
}

static double mean(const GArray *values)
{
    return mean_of((const double *)(void *)values->data, values->len);
}

/* Of what is tested, which need not go the way of the values: a recording's quantile is not the mean of its batches'. */
static double probability(const struct row *row, bool repeats, double *difference_out)
{
    *difference_out = mean(row->values[1]) - mean(row->values[0]);
    if (repeats)
        return welch_p((const double *)(void *)row->values[0]->data, row->values[0]->len,
                       (const double *)(void *)row->values[1]->data, row->values[1]->len);
    if (!row->first[0] || !row->first[1] || row->first[0]->batch_count < FIGURE_BATCHES / 2 ||
        row->first[1]->batch_count < FIGURE_BATCHES / 2)
        return NAN;
    *difference_out = mean_of(row->first[1]->batches, row->first[1]->batch_count) -
                      mean_of(row->first[0]->batches, row->first[0]->batch_count);
    return welch_p(row->first[0]->batches, row->first[0]->batch_count, row->first[1]->batches, row->first[1]->batch_count);
}

/* @difference: of what was tested. Where that and the values contradict each other nothing is known. */
static const char *verdict_of(const struct row *row, double old, double new, double p, bool significant, double difference)
{
    if (isnan(p))
        return "untested";
    if (!significant || old == new || (new > old) != (difference > 0))
        return "same";
    if (row->figure->better == BETTER_NEITHER)
        return "changed";
    return (new > old) == (row->figure->better == BETTER_HIGHER) ? "better" : "worse";
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *rows_json(const GPtrArray *rows, bool repeats)
{
    double *p = g_new(double, rows->len + 1), *difference = g_new(double, rows->len + 1);
    bool *significant = g_new0(bool, rows->len + 1);
    json_t *array = json_array();

    for (unsigned i = 0; i < rows->len; i++)
        p[i] = probability(g_ptr_array_index(rows, i), repeats, &difference[i]);
    select_significant(p, rows->len, FALSE_RATE, significant);
    for (unsigned i = 0; i < rows->len; i++) {
        const struct row *row = g_ptr_array_index(rows, i);
        const double old = mean(row->values[0]), new = mean(row->values[1]);
        json_t *object = json_object();

        json_object_set_new(object, "group", json_string(row->figure->group));
        json_object_set_new(object, "name", json_string(row->figure->name));
        json_object_set_new(object, "unit", json_string(row->figure->unit));
        json_object_set_new(object, "old", number(old));
        json_object_set_new(object, "new", number(new));
        json_object_set_new(object, "change_percent", number(old == new ? 0 : (new / old - 1) * 100));
        json_object_set_new(object, "p", number(p[i]));
        json_object_set_new(object, "verdict", json_string(verdict_of(row, old, new, p[i], significant[i], difference[i])));
        json_array_append_new(array, object);
    }
    g_free(p);
    g_free(difference);
    g_free(significant);
    return array;
}

/* --- findings ------------------------------------------------------------------------------------------ */

static bool same_finding(const json_t *a, const json_t *b)
{
    return json_equal(json_object_get(a, "id"), json_object_get(b, "id")) &&
           json_equal(json_object_get(a, "cause"), json_object_get(b, "cause"));
}

static const json_t *find(const json_t *findings, const json_t *wanted)
{
    json_t *finding;
    size_t index;

    json_array_foreach (findings, index, finding)
        if (same_finding(finding, wanted))
            return finding;
    return NULL;
}

static unsigned runs_with(const GPtrArray *reports, const json_t *wanted)
{
    unsigned count = 0;

    for (unsigned i = 0; i < reports->len; i++)
        count += find(json_object_get(g_ptr_array_index(reports, i), "findings"), wanted) != NULL;
    return count;
}

/* What some of @reports found and none of @others. */
static json_t *only(const GPtrArray *reports, const GPtrArray *others)
{
    static const char *const keys[] = { "id", "severity", "cause", "summary" };
    json_t *array = json_array(), *finding;
    size_t index;

    for (unsigned i = 0; i < reports->len; i++)
        json_array_foreach (json_object_get(g_ptr_array_index(reports, i), "findings"), index, finding) {
            json_t *object;

            if (runs_with(others, finding) > 0 || find(array, finding))
                continue;
            object = json_object();
            for (unsigned j = 0; j < G_N_ELEMENTS(keys); j++)
                json_object_set_new(object, keys[j], json_deep_copy(json_object_get(finding, keys[j])));
            json_object_set_new(object, "runs", json_integer(runs_with(reports, finding)));
            json_array_append_new(array, object);
        }
    return array;
}

json_t *compare_reports(const GPtrArray *old_reports, const GPtrArray *new_reports)
{
    const GPtrArray *sides[2] = { old_reports, new_reports };
    const bool repeats = old_reports->len > 1 && new_reports->len > 1;
    GPtrArray *rows = g_ptr_array_new_with_free_func(row_free);
    GPtrArray *all = g_ptr_array_new_with_free_func((GDestroyNotify)figures_free);
    GHashTable *by_key = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    json_t *comparison;

    for (unsigned side = 0; side < 2; side++)
        for (unsigned i = 0; i < sides[side]->len; i++) {
            struct figures *figures = figures_of(g_ptr_array_index(sides[side], i));

            g_assert(figures); /* the caller saw to it */
            take_figures(rows, by_key, figures, side);
            g_ptr_array_add(all, figures);
        }
    comparison = json_pack("{s:s, s:s, s:i, s:i, s:{s:o, s:o}, s:o}", "schema", "vblkscope-compare-1", "test",
                           repeats ? REPEATS_TEXT RATE_TEXT : BATCHES_TEXT RATE_TEXT, "old_runs", (int)old_reports->len, "new_runs",
                           (int)new_reports->len, "findings", "old_only", only(old_reports, new_reports), "new_only",
                           only(new_reports, old_reports), "rows", rows_json(rows, repeats));
    g_hash_table_unref(by_key);
    g_ptr_array_unref(rows);
    g_ptr_array_unref(all);
    return comparison;
}

/* --- text ---------------------------------------------------------------------------------------------- */

static char *figure_text(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    const char *unit = json_string_value(json_object_get(row, "unit"));
    double figure = json_real_value(value);

    if (!json_is_real(value))
        return g_strdup("-");
    return g_strdup_printf("%.*f %s", fabs(figure) >= 100 ? 0 : fabs(figure) >= 10 ? 1 : 2, figure, unit ? unit : "");
}

static void write_findings(GString *text, const char *what, const json_t *findings, int64_t runs)
{
    json_t *finding;
    size_t index;

    json_array_foreach (findings, index, finding) {
        g_string_append_printf(text, "%s: %s %s: %s", what, json_string_value(json_object_get(finding, "severity")),
                               json_string_value(json_object_get(finding, "id")),
                               json_string_value(json_object_get(finding, "summary")));
        if (runs > 1)
            g_string_append_printf(text, " (in %d of %d recordings)", (int)json_integer_value(json_object_get(finding, "runs")),
                                   (int)runs);
        g_string_append_c(text, '\n');
    }
}

char *compare_text(const json_t *comparison)
{
    static const char *const titles[] = { "", "OLD", "NEW", "CHANGE", "VERDICT", NULL };
    json_t *printable = printable_json(comparison), *row;
    const json_t *findings = json_object_get(printable, "findings");
    const int64_t old_runs = json_integer_value(json_object_get(printable, "old_runs"));
    const int64_t new_runs = json_integer_value(json_object_get(printable, "new_runs"));
    struct text_table *table = text_table_create(titles);
    GString *text = g_string_new(NULL);
    size_t index;

    write_findings(text, "Only in OLD", json_object_get(findings, "old_only"), old_runs);
    write_findings(text, "Only in NEW", json_object_get(findings, "new_only"), new_runs);
    if (text->len > 0)
        g_string_append_c(text, '\n');
    json_array_foreach (json_object_get(printable, "rows"), index, row) {
        const json_t *change = json_object_get(row, "change_percent");

        text_table_add(table,
                       g_strdup_printf("%s: %s", json_string_value(json_object_get(row, "group")),
                                       json_string_value(json_object_get(row, "name"))),
                       false);
        text_table_add(table, figure_text(row, "old"), true);
        text_table_add(table, figure_text(row, "new"), true);
        text_table_add(table, json_is_real(change) ? g_strdup_printf("%+.1f %%", json_real_value(change)) : g_strdup("-"), true);
        text_table_add(table, g_strdup(json_string_value(json_object_get(row, "verdict"))), false);
    }
    text_table_write(table, text, "");
    text_table_destroy(table);
    g_string_append_printf(text, "\nTest: %s.\n", json_string_value(json_object_get(printable, "test")));
    if (old_runs < 2 || new_runs < 2)
        g_string_append(text, "One recording of a side tells nothing of how much runs differ by themselves: give several of each.\n");
    json_decref(printable);
    return g_string_free(text, FALSE);
}
