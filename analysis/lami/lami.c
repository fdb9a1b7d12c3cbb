#include "lami/lami.h"

#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/limits.h"
#include "events/event.h"
#include "input/run.h"
#include "lami/tables.h"
#include "report/complain.h"

#define STATUS_FAILED 1
#define STATUS_USAGE 2

struct lami {
    struct analysis_options options;
    gboolean mi_version, metadata, test_compatibility, output_progress;
    char *format, *begin, *end, *limit;
    char **paths;
    struct lami_choice choice;
    bool told, has_range; /* progress: all lines are of one kind */
};

static int fail(int status, const char *message)
{
    json_t *error = lami_error(message);

    (void)json_dumpf(error, stdout, 0);
    (void)puts("");
    json_decref(error);
    return status;
}

static int print(json_t *object)
{
    bool written = json_dumpf(object, stdout, JSON_PRESERVE_ORDER) == 0 && puts("") >= 0 && fflush(stdout) == 0;

    json_decref(object);
    if (!written)
        return complain(STATUS_FAILED, "standard output: cannot be written");
    return 0;
}

static char *take_time(const char *name, const char *text, int64_t *ns_out)
{
    gint64 value;

    if (text && !g_ascii_string_to_signed(text, 10, G_MININT64, G_MAXINT64, &value, NULL))
        return g_strdup_printf("%s: '%s' is not a number of nanoseconds since the epoch", name, text);
    if (text)
        *ns_out = value;
    return NULL;
}

static char *check(struct lami *lami)
{
    char *why = take_time("--begin", lami->begin, &lami->choice.begin_ns);
    guint64 rows;

    if (!why)
        why = take_time("--end", lami->end, &lami->choice.end_ns);
    if (!why && lami->choice.begin_ns > lami->choice.end_ns)
        why = g_strdup("--begin: lies after --end");
    if (!why && lami->limit && strcmp(lami->limit, "unlimited") != 0) {
        if (g_ascii_string_to_unsigned(lami->limit, 10, 1, G_MAXUINT64, &rows, NULL))
            lami->choice.rows_max = rows;
        else
            why = g_strdup_printf("--limit: '%s' is not a count of at least 1, nor 'unlimited'", lami->limit);
    }
    if (!why && !lami->mi_version && !lami->metadata && !lami->paths)
        why = g_strdup("no trace given (give the folder of a recording)");
    return why;
}

static char *parse(struct lami *lami, int *argc, char ***argv)
{
    const GOptionEntry entries[] = {
        { "mi-version", 0, 0, G_OPTION_ARG_NONE, &lami->mi_version, "Print the version of LAMI", NULL },
        { "metadata", 0, 0, G_OPTION_ARG_NONE, &lami->metadata, "Print what tables there can be", NULL },
        { "test-compatibility", 0, 0, G_OPTION_ARG_NONE, &lami->test_compatibility,
          "Only tell whether TRACE can be analyzed", NULL },
        { "begin", 0, 0, G_OPTION_ARG_STRING, &lami->begin, "List findings that last after this time", "NS" },
        { "end", 0, 0, G_OPTION_ARG_STRING, &lami->end, "List findings that begin before this time", "NS" },
        { "limit", 0, 0, G_OPTION_ARG_STRING, &lami->limit, "Rows of each table (default: unlimited)", "COUNT" },
        { "output-progress", 0, 0, G_OPTION_ARG_NONE, &lami->output_progress, "Print lines of progress first", NULL },
        { "format", 'f', G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &lami->format, NULL, NULL },
        { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &lami->paths, NULL, "TRACE..." },
        { NULL },
    };
    GOptionContext *context = g_option_context_new(NULL);
    GOptionGroup *group = g_option_group_new("lami", "Options", "Show the options", &lami->options, NULL);
    GError *error = NULL;
    char *why = NULL;

    g_option_context_set_summary(context, "Runs the analyses for Trace Compass and other consumers of LAMI 1.0: JSON on standard output, also\n"
                                          "errors. Findings do not change the exit status.");
    g_option_context_set_main_group(context, group);
    g_option_context_add_main_entries(context, entries, NULL);
    limits_add_options(group);
    if (!g_option_context_parse(context, argc, argv, &error)) {
        why = g_strdup(error->message);
        g_error_free(error);
    }
    g_option_context_free(context);
    return why ? why : check(lami);
}

static void on_progress(void *data, const struct feed_progress *progress)
{
    struct lami *lami = data;
    double share = 0;

    if (!lami->told)
        lami->has_range = progress->has_range && progress->end_ns > progress->begin_ns;
    lami->told = true;
    if (lami->has_range)
        share = (double)(progress->time_ns - progress->begin_ns) / (double)MAX(progress->end_ns - progress->begin_ns, 1);
    if (lami->has_range)
        printf("%.3f %" PRIu64 " events\n", CLAMP(share, 0, 1), progress->event_count);
    else
        printf("* %" PRIu64 " events\n", progress->event_count);
    (void)fflush(stdout);
}

static bool declares_known_event(const struct input_trace *trace)
{
    for (unsigned id = 0; id < EVENT_CLASS_COUNT; id++)
        if (trace->metadata.declared[id])
            return true;
    return false;
}

static int test_compatibility(const struct inputs *inputs)
{
    const struct input_refusal *refusal;

    for (unsigned i = 0; i < inputs->traces->len; i++)
        if (declares_known_event(g_ptr_array_index(inputs->traces, i)))
            return 0;
    if (inputs->traces->len > 0 || inputs->refusals->len == 0)
        return fail(STATUS_FAILED, "this is not a recording of vblkd or QEMU: it declares no event of a known kind");
    refusal = g_ptr_array_index(inputs->refusals, 0);
    return fail(STATUS_FAILED, refusal->reason);
}

static int run(struct lami *lami, struct inputs *inputs)
{
    struct run_options options = {
        .analysis_options = &lami->options,
        .stall_seconds = RUN_STALL_SECONDS,
        .progress = lami->output_progress ? on_progress : NULL,
        .data = lami,
    };
    struct run_result result;
    json_t *report;
    int status;

    run_inputs(inputs, &options, &result);
    report = result.report ? json_loads(result.report, 0, NULL) : NULL;
    if (report)
        status = print(lami_results(report, &lami->choice));
    else if (inputs->refusals->len > 0)
        status = fail(STATUS_USAGE, ((struct input_refusal *)g_ptr_array_index(inputs->refusals, 0))->reason);
    else
        status = fail(STATUS_FAILED, "interrupted");
    json_decref(report);
    run_result_clear(&result);
    return status;
}

static int with_inputs(struct lami *lami)
{
    struct inputs *inputs = inputs_create();
    int status;

    attempt_handle_signals();
    for (char **path = lami->paths; *path; path++)
        inputs_add(inputs, *path);
    inputs_prepare(inputs);
    status = lami->test_compatibility ? test_compatibility(inputs) : run(lami, inputs);
    inputs_destroy(inputs);
    return status;
}

int vblkscope_lami_main(int argc, char **argv)
{
    struct lami lami = { .choice = { .begin_ns = INT64_MIN, .end_ns = INT64_MAX } };
    char *why;
    int status;

    analysis_options_init(&lami.options);
    why = parse(&lami, &argc, &argv);
    if (why) {
        status = fail(STATUS_USAGE, why);
    } else if (lami.mi_version) {
        printf("%d.%d\n", LAMI_MAJOR, LAMI_MINOR);
        status = 0;
    } else if (lami.metadata) {
        status = print(lami_metadata(VBLKSCOPE_VERSION));
    } else {
        status = with_inputs(&lami);
    }
    g_free(why);
    g_free(lami.format);
    g_free(lami.begin);
    g_free(lami.end);
    g_free(lami.limit);
    g_strfreev(lami.paths);
    return status;
}
