#include "compare/compare.h"

#include <glib.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/verdict.h"
#include "input/run.h"
#include "report/complain.h"

#define STATUS_FAILED 1
#define STATUS_USAGE 2

struct compare {
    char *format;
    double fail_on; /* percent; negative: never */
    GPtrArray *paths[2];
    GPtrArray *reports[2];
};

/* --- sides --------------------------------------------------------------------------------------------- */

static bool holds_trace(const char *folder)
{
    struct inputs *inputs = inputs_create();
    bool holds;

    inputs_add(inputs, folder);
    holds = inputs->folders->len > 0;
    inputs_destroy(inputs);
    return holds;
}

/* What a recording itself is divided into: not repeats. */
static bool is_part(const char *name)
{
    return g_str_equal(name, "ust") || g_str_equal(name, "kernel") || g_str_equal(name, "archives") || g_str_equal(name, "uid") ||
           g_str_equal(name, "pid");
}

static gint by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A folder of which several inner ones hold recordings is a set of repeats; anything else is one. */
static void expand(GPtrArray *paths, const char *path)
{
    GPtrArray *inner = g_ptr_array_new_with_free_func(g_free);
    GDir *dir = g_dir_open(path, 0, NULL);
    const char *name;
    bool part = false;

    while (dir && (name = g_dir_read_name(dir))) {
        char *folder = g_build_filename(path, name, NULL);

        part |= is_part(name);
        if (g_file_test(folder, G_FILE_TEST_IS_DIR) && holds_trace(folder))
            g_ptr_array_add(inner, folder);
        else
            g_free(folder);
    }
    if (dir)
        g_dir_close(dir);
    g_ptr_array_sort(inner, by_text);
    if (inner->len > 1 && !part)
        for (unsigned i = 0; i < inner->len; i++)
            g_ptr_array_add(paths, g_strdup(g_ptr_array_index(inner, i)));
    else
        g_ptr_array_add(paths, g_strdup(path));
    g_ptr_array_unref(inner);
}

static json_t *analyze(const char *path, char **why_out)
{
    struct analysis_options analysis_options;
    struct run_options options = { .analysis_options = &analysis_options, .stall_seconds = RUN_STALL_SECONDS };
    struct inputs *inputs = inputs_create();
    struct run_result result;
    json_t *report;

    analysis_options_init(&analysis_options);
    analysis_options.series = true;
    inputs_add(inputs, path);
    inputs_prepare(inputs);
    run_inputs(inputs, &options, &result);
    report = result.report && !result.interrupted ? json_loads(result.report, 0, NULL) : NULL;
    if (!report && result.interrupted)
        *why_out = g_strdup_printf("%s: interrupted", path);
    else if (!report && inputs->refusals->len > 0)
        *why_out = g_strdup_printf("%s: %s", path, ((struct input_refusal *)g_ptr_array_index(inputs->refusals, 0))->reason);
    else if (!report)
        *why_out = g_strdup_printf("%s: cannot be read", path);
    run_result_clear(&result);
    inputs_destroy(inputs);
    return report;
}

static json_t *load(const char *path, char **why_out)
{
    json_error_t error;
    json_t *report;

    if (!g_file_test(path, G_FILE_TEST_IS_REGULAR))
        return analyze(path, why_out);
    report = json_load_file(path, 0, &error);
    if (!report)
        *why_out = g_strdup_printf("%s:%d: is no report in JSON: %s", path, error.line, error.text);
    else if (g_strcmp0(json_string_value(json_object_get(report, "schema")), "vblkscope-report-1") != 0)
        *why_out = g_strdup_printf("%s: is no report of vblkscope analyze --format=json", path);
    else if (!json_is_object(json_object_get(report, "series")))
        *why_out = g_strdup_printf("%s: the report is without series (make it with --format=json --series, or give the recording)",
                                   path);
    if (*why_out) {
        json_decref(report);
        report = NULL;
    }
    return report;
}

static char *load_sides(struct compare *compare)
{
    for (unsigned side = 0; side < 2; side++) {
        GPtrArray *paths = g_ptr_array_new_with_free_func(g_free);
        char *why = NULL;

        for (unsigned i = 0; i < compare->paths[side]->len; i++)
            expand(paths, g_ptr_array_index(compare->paths[side], i));
        for (unsigned i = 0; i < paths->len && !why; i++) {
            json_t *report = load(g_ptr_array_index(paths, i), &why);

            if (report)
                g_ptr_array_add(compare->reports[side], report);
        }
        g_ptr_array_unref(paths);
        if (why)
            return why;
    }
    return NULL;
}

/* --- command line -------------------------------------------------------------------------------------- */

/* OLD... -- NEW...: what stands behind the dashes is taken away before the options are looked at. */
static void take_new_side(struct compare *compare, int *argc, char **argv)
{
    for (int i = 1; i < *argc; i++)
        if (strcmp(argv[i], "--") == 0) {
            for (int j = i + 1; j < *argc; j++)
                g_ptr_array_add(compare->paths[1], argv[j]);
            *argc = i;
            argv[i] = NULL;
            return;
        }
}

static char *take_old_side(struct compare *compare, char **paths)
{
    unsigned count = paths ? g_strv_length(paths) : 0;

    if (compare->paths[1]->len == 0 && count == 2) {
        g_ptr_array_add(compare->paths[1], paths[1]);
        count = 1;
    }
    for (unsigned i = 0; i < count; i++)
        g_ptr_array_add(compare->paths[0], paths[i]);
    if (compare->paths[0]->len == 0 || compare->paths[1]->len == 0)
        return g_strdup("give OLD and NEW, or several of each: OLD... -- NEW...");
    return NULL;
}

static bool has_regression(const json_t *comparison, double percent)
{
    json_t *row;
    size_t index;

    json_array_foreach (json_object_get(comparison, "rows"), index, row) {
        const json_t *change = json_object_get(row, "change_percent");

        if (strcmp(json_string_value(json_object_get(row, "verdict")), "worse") == 0 &&
            (!json_is_real(change) || fabs(json_real_value(change)) >= percent))
            return true;
    }
    return false;
}

static int print(const struct compare *compare, const json_t *comparison)
{
    bool as_json = g_strcmp0(compare->format, "json") == 0, written;
    char *text = as_json ? json_dumps(comparison, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : compare_text(comparison);

    written = fputs(text, stdout) >= 0 && (!as_json || puts("") >= 0) && fflush(stdout) == 0;
    if (as_json)
        free(text);
    else
        g_free(text);
    if (!written)
        return complain(STATUS_FAILED, "standard output: cannot be written");
    return compare->fail_on >= 0 && has_regression(comparison, compare->fail_on) ? STATUS_FAILED : 0;
}

static int run(struct compare *compare)
{
    char *why;
    json_t *comparison;
    int status;

    attempt_handle_signals();
    why = load_sides(compare);
    if (why) {
        status = complain(STATUS_USAGE, "%s", why);
        g_free(why);
        return status;
    }
    comparison = compare_reports(compare->reports[0], compare->reports[1]);
    status = print(compare, comparison);
    json_decref(comparison);
    return status;
}

static char *parse(struct compare *compare, int *argc, char ***argv, char ***paths_out)
{
    const GOptionEntry entries[] = {
        { "format", 'f', 0, G_OPTION_ARG_STRING, &compare->format, "Form: text, json (default: text)", "FORMAT" },
        { "fail-on-regression", 0, 0, G_OPTION_ARG_DOUBLE, &compare->fail_on,
          "Exit with 1 if a figure is significantly worse by this much", "PERCENT" },
        { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, paths_out, NULL, "OLD NEW" },
        { NULL },
    };
    GOptionContext *context = g_option_context_new(NULL);
    GError *error = NULL;
    char *why = NULL;

    g_option_context_set_summary(context,
                                 "Sets rates, latencies, pool, locks and loops of two recordings side by side, with the change and\n"
                                 "whether it is more than chance. Several of each: vblkscope compare OLD... -- NEW... Each is a\n"
                                 "recording, a folder of several recordings, or a report made with --format=json --series.");
    g_option_context_add_main_entries(context, entries, NULL);
    take_new_side(compare, argc, *argv);
    if (!g_option_context_parse(context, argc, argv, &error)) {
        why = g_strdup_printf("%s (see vblkscope compare --help)", error->message);
        g_error_free(error);
    }
    g_option_context_free(context);
    if (!why && compare->format && strcmp(compare->format, "text") != 0 && strcmp(compare->format, "json") != 0)
        why = g_strdup_printf("--format: there is no format '%s' (there are: text, json)", compare->format);
    return why ? why : take_old_side(compare, *paths_out);
}

int vblkscope_compare_main(int argc, char **argv)
{
    struct compare compare = { .fail_on = -1 };
    char **paths = NULL, *why;
    int status;

    for (unsigned side = 0; side < 2; side++) {
        compare.paths[side] = g_ptr_array_new();
        compare.reports[side] = g_ptr_array_new_with_free_func((GDestroyNotify)json_decref);
    }
    why = parse(&compare, &argc, &argv, &paths);
    status = why ? complain(STATUS_USAGE, "%s", why) : run(&compare);
    for (unsigned side = 0; side < 2; side++) {
        g_ptr_array_unref(compare.paths[side]);
        g_ptr_array_unref(compare.reports[side]);
    }
    g_strfreev(paths);
    g_free(compare.format);
    g_free(why);
    return status;
}
