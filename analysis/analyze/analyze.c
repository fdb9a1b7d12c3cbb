#include "analyze/analyze.h"

#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyze/limits.h"
#include "core/analysis.h"
#include "input/progress.h"
#include "input/run.h"
#include "lami/lami.h"
#include "report/complain.h"
#include "report/output.h"
#include "suppress/suppress.h"

#define STATUS_FAILED 1
#define STATUS_USAGE 2
#define JOBS_MAX 64
#define TEXT_(value) #value
#define TEXT(value) TEXT_(value)

struct analyze {
    struct analysis_options options;
    char *format_name, *output, *checks, *fail_on_name;
    char **paths;
    char **check_list;
    char **suppress_files;
    struct suppressions *known; /* NULL: none were given */
    int stall_seconds;
    gboolean verbose;
    int jobs;
    enum report_format format;
    enum report_severity fail_on;
    struct progress_bar *bar;
};

static char *check_names(struct analyze *analyze)
{
    analyze->check_list = g_strsplit(analyze->checks, ",", -1);
    if (!*analyze->check_list)
        return g_strdup("--checks: names no check (leave it out for all of them)");
    for (char **id = analyze->check_list; *id; id++)
        if (!g_strv_contains(analysis_check_ids(), *id)) {
            char *known = g_strjoinv(", ", (char **)analysis_check_ids());
            char *why = g_strdup_printf("--checks: there is no check '%s' (there are: %s)", *id, known);

            g_free(known);
            return why;
        }
    analyze->options.checks = (const char *const *)analyze->check_list;
    return NULL;
}

static char *read_suppressions(struct analyze *analyze)
{
    char *why = NULL;

    if (analyze->suppress_files)
        analyze->known = suppressions_create();
    for (char **file = analyze->suppress_files; file && *file && !why; file++)
        why = suppressions_read(analyze->known, *file);
    return why;
}

/* NULL, or what is wrong with the options. */
static char *check_options(struct analyze *analyze)
{
    char *why;

    if (!analyze->paths)
        return g_strdup("no trace given (give the folder of a recording)");
    if (analyze->format_name && !report_format_by_name(analyze->format_name, &analyze->format))
        return g_strdup_printf("--format: there is no format '%s' (there are: text, json, html, lami)",
                               analyze->format_name);
    if (analyze->format == REPORT_HTML && !analyze->output && isatty(STDOUT_FILENO))
        return g_strdup("--format=html: a page is no use on a terminal (add --output=FILE)");
    analyze->options.series |= analyze->format == REPORT_HTML;
    if (analyze->fail_on_name && !report_severity_by_name(analyze->fail_on_name, &analyze->fail_on))
        return g_strdup_printf("--fail-on: there is no severity '%s' (there are: info, warning, error)",
                               analyze->fail_on_name);
    if (analyze->verbose && analyze->format != REPORT_TEXT)
        return g_strdup("--verbose: is for the text (other forms have it all)");
    if (analyze->verbose)
        analyze->format = REPORT_VERBOSE;
    if (analyze->jobs < 0 || analyze->jobs > JOBS_MAX)
        return g_strdup("--jobs: 1 to " TEXT(JOBS_MAX) ", or 0 for the number of processors");
    if (analyze->stall_seconds < 1)
        return g_strdup("--stall-timeout: at least 1 second");
    why = analyze->checks ? check_names(analyze) : NULL;
    return why ? why : read_suppressions(analyze);
}

static char *parse(struct analyze *analyze, int *argc, char ***argv)
{
    const GOptionEntry entries[] = {
        { "format", 'f', 0, G_OPTION_ARG_STRING, &analyze->format_name,
          "Form of the report: text, json, html, lami (default: text)", "FORMAT" },
        { "verbose", 'v', 0, G_OPTION_ARG_NONE, &analyze->verbose,
          "Add tables of latency, queues, loops, locks, pool and mappings to the text", NULL },
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &analyze->output,
          "Write the report to FILE (default: standard output)", "FILE" },
        { "series", 0, 0, G_OPTION_ARG_NONE, &analyze->options.series,
          "Add to JSON how things went over time (HTML always has it)", NULL },
        { "checks", 'c', 0, G_OPTION_ARG_STRING, &analyze->checks, "Run these checks only (default: all)",
          "ID,..." },
        { "fail-on", 0, 0, G_OPTION_ARG_STRING, &analyze->fail_on_name,
          "Exit with 1 for findings of at least info, warning or error (default: warning)", "SEVERITY" },
        { "suppress", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &analyze->suppress_files,
          "Do not count the known findings that FILE lists; may be given again", "FILE" },
        { "jobs", 0, 0, G_OPTION_ARG_INT, &analyze->jobs,
          "Decode streams in N processes (default: the number of processors)", "N" },
        { "stall-timeout", 0, 0, G_OPTION_ARG_INT, &analyze->stall_seconds,
          "Give an input up that gets no further for so long (default: " TEXT(RUN_STALL_SECONDS) ")",
          "SECONDS" },
        { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &analyze->paths, NULL, "TRACE..." },
        { NULL },
    };
    GOptionContext *context = g_option_context_new(NULL);
    GOptionGroup *group =
        g_option_group_new("analyze", "Options", "Show the options", &analyze->options, NULL);
    GError *error = NULL;
    char *why = NULL;

    g_option_context_set_summary(
        context,
        "Reads recordings and says what is wrong in them. TRACE is the folder of a recording, or any folder\n"
        "above recordings. Exit status: 0 nothing found, 1 findings, 2 usage or unreadable input, 3 cannot "
        "tell.\n"
        "A TIME has a unit (10s, 100ms, 20us, 5ns), a SHARE a percent sign.");
    g_option_context_set_main_group(context, group);
    g_option_context_add_main_entries(context, entries, NULL);
    limits_add_options(group);
    if (!g_option_context_parse(context, argc, argv, &error)) {
        why = g_strdup_printf("%s (see vblkscope analyze --help)", error->message);
        g_error_free(error);
    }
    g_option_context_free(context);
    return why ? why : check_options(analyze);
}

static void on_progress(void *data, const struct feed_progress *progress)
{
    struct analyze *analyze = data;

    progress_bar_show(analyze->bar, progress);
}

static void on_restart(void *data, const char *folder)
{
    struct analyze *analyze = data;

    progress_bar_clear(analyze->bar);
    (void)complain(STATUS_USAGE, "%s: reading failed; looking for what can be read", folder);
}

/* One line for each input that is not read as it is. Returns whether there are refused ones. */
static bool tell_state(const struct inputs *inputs)
{
    for (unsigned i = 0; i < inputs->refusals->len; i++) {
        const struct input_refusal *refusal = g_ptr_array_index(inputs->refusals, i);

        (void)complain(STATUS_USAGE, "%s: %s", refusal->path, refusal->reason);
    }
    for (unsigned i = 0; i < inputs->traces->len; i++) {
        const struct input_trace *trace = g_ptr_array_index(inputs->traces, i);

        for (unsigned j = 0; j < trace->streams->len; j++) {
            const struct input_stream *stream = g_ptr_array_index(trace->streams, j);
            char *path = input_stream_path(trace, stream);

            if (stream->summary.damage)
                (void)complain(STATUS_USAGE, "%s: damaged: %s; reading its %" PRIu64 " whole packets", path,
                         stream->summary.damage, stream->summary.packet_count);
            g_free(path);
        }
    }
    return inputs->refusals->len > 0;
}

static int write_report(const struct analyze *analyze, const char *json, int status)
{
    json_error_t json_error;
    json_t *report = json_loads(json, 0, &json_error);
    char *why;

    g_assert(report); /* our own output */
    if (analyze->known)
        suppressions_apply(analyze->known, report, g_get_real_time());
    status = report_exit_status(report, status, analyze->fail_on);
    why = report_write(report, analyze->format, analyze->output);
    if (why) {
        (void)complain(STATUS_USAGE, "%s", why);
        status = STATUS_FAILED;
    }
    g_free(why);
    json_decref(report);
    return status;
}

static int analyze_inputs(struct analyze *analyze, struct inputs *inputs)
{
    struct run_options options = {
        .analysis_options = &analyze->options,
        .stall_seconds = analyze->stall_seconds,
        .jobs = analyze->jobs,
        .progress = on_progress,
        .restart = on_restart,
        .data = analyze,
    };
    struct run_result result;
    bool refused;
    int status;

    inputs_prepare(inputs);
    analyze->bar = progress_bar_create();
    run_inputs(inputs, &options, &result);
    progress_bar_destroy(analyze->bar);
    refused = tell_state(inputs);
    if (result.interrupted)
        (void)complain(STATUS_USAGE, "interrupted; %s", result.report ? "the report is partial" : "no report");
    status = result.report ? write_report(analyze, result.report, result.exit_status)
             : refused     ? STATUS_USAGE
                           : STATUS_FAILED;
    run_result_clear(&result);
    return status;
}

/* LAMI has a command line of its own, of which the form of the report is no part. */
static bool asks_for_lami(char **argv)
{
    for (char **word = argv; *word && strcmp(*word, "--") != 0; word++)
        if (strcmp(*word, "--format=lami") == 0 || strcmp(*word, "-flami") == 0 ||
            ((strcmp(*word, "--format") == 0 || strcmp(*word, "-f") == 0) && g_strcmp0(word[1], "lami") == 0))
            return true;
    return false;
}

int vblkscope_analyze_main(int argc, char **argv)
{
    struct analyze analyze = { .stall_seconds = RUN_STALL_SECONDS, .fail_on = SEVERITY_OF_WARNING };
    char *why;
    int status = STATUS_USAGE;

    if (asks_for_lami(argv))
        return vblkscope_lami_main(argc, argv);
    analysis_options_init(&analyze.options);
    why = parse(&analyze, &argc, &argv);
    if (why) {
        (void)complain(STATUS_USAGE, "%s", why);
    } else {
        struct inputs *inputs = inputs_create();

        attempt_handle_signals();
        for (char **path = analyze.paths; *path; path++)
            inputs_add(inputs, *path);
        status = analyze_inputs(&analyze, inputs);
        inputs_destroy(inputs);
    }
    g_free(why);
    g_free(analyze.format_name);
    g_free(analyze.output);
    g_free(analyze.checks);
    g_free(analyze.fail_on_name);
    g_strfreev(analyze.paths);
    g_strfreev(analyze.check_list);
    g_strfreev(analyze.suppress_files);
    suppressions_destroy(analyze.known);
    return status;
}
