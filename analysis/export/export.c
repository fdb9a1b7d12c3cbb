#include "export/export.h"

#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "export/chrome.h"
#include "input/progress.h"
#include "input/run.h"
#include "report/complain.h"

#define STATUS_FAILED 1
#define STATUS_USAGE 2

struct export {
    char *format, *output;
    char **paths;
    FILE *scratch; /* what is written, until it is whole */
    struct chrome *chrome;
    struct progress_bar *bar;
};

/* In the child that reads. An earlier attempt may have left something, and its descriptor is the same. */
static struct chrome *need_chrome(struct export *export)
{
    if (!export->chrome) {
        rewind(export->scratch);
        (void)!ftruncate(fileno(export->scratch), 0);
        export->chrome = chrome_create(export->scratch);
    }
    return export->chrome;
}

static void on_event(void *data, const struct occurrence *what)
{
    chrome_event(need_chrome(data), what);
}

static void on_end(void *data, int64_t end_ns)
{
    struct export *export = data;

    chrome_end(need_chrome(export), end_ns);
    chrome_destroy(export->chrome);
    export->chrome = NULL;
    /* The child ends without closing, and what it could not write is known to it alone: nothing is the word of it. */
    if (fflush(export->scratch) != 0 || ferror(export->scratch))
        (void)!ftruncate(fileno(export->scratch), 0);
}

static void on_progress(void *data, const struct feed_progress *progress)
{
    struct export *export = data;

    progress_bar_show(export->bar, progress);
}

/* --- the whole document -------------------------------------------------------------------------------- */

static bool copy(FILE *from, FILE *to)
{
    char bytes[65536];
    size_t count;

    rewind(from);
    while ((count = fread(bytes, 1, sizeof(bytes), from)) > 0)
        if (fwrite(bytes, 1, count, to) != count)
            return false;
    return !ferror(from) && fflush(to) == 0;
}

static int deliver(struct export *export)
{
    FILE *file = export->output ? fopen(export->output, "we") : stdout;
    bool good = file && copy(export->scratch, file);
    int error = errno;

    if (export->output && file && fclose(file) != 0) {
        error = errno;
        good = false;
    }
    if (!good)
        return complain(STATUS_FAILED, "%s: %s", export->output ? export->output : "standard output",
                        error == ENOSPC ? "no space left" : "cannot be written (choose another --output)");
    return 0;
}

static int finish(struct export *export, const char *text)
{
    json_t *report = json_loads(text, 0, NULL);
    bool whole = fseek(export->scratch, 0, SEEK_END) == 0 && ftell(export->scratch) > 0;

    g_assert(report); /* our own output */
    if (whole)
        chrome_findings(export->scratch, report);
    json_decref(report);
    if (!whole || fflush(export->scratch) != 0 || ferror(export->scratch))
        return complain(STATUS_FAILED, "%s: the temporary file cannot be written (is it full? set TMPDIR)", g_get_tmp_dir());
    return deliver(export);
}

/* Where TMPDIR says, and gone with the program. */
static FILE *open_scratch(void)
{
    char *path = NULL;
    int fd = g_file_open_tmp("vblkscope-XXXXXX", &path, NULL);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w+");

    if (path)
        (void)unlink(path);
    g_free(path);
    return file;
}

static int run(struct export *export, struct inputs *inputs)
{
    const struct analysis_observer observer = { .event = on_event, .end = on_end, .data = export };
    struct analysis_options analysis_options;
    struct run_options options = { .analysis_options = &analysis_options, .stall_seconds = RUN_STALL_SECONDS, .progress = on_progress,
                                   .data = export };
    struct run_result result;
    int status;

    analysis_options_init(&analysis_options);
    analysis_options.observer = &observer;
    inputs_prepare(inputs);
    export->bar = progress_bar_create();
    run_inputs(inputs, &options, &result);
    progress_bar_destroy(export->bar);
    for (unsigned i = 0; i < inputs->refusals->len; i++) {
        const struct input_refusal *refusal = g_ptr_array_index(inputs->refusals, i);

        (void)complain(STATUS_USAGE, "%s: %s", refusal->path, refusal->reason);
    }
    status = result.report ? finish(export, result.report) : STATUS_FAILED;
    if (result.interrupted)
        status = complain(STATUS_FAILED, "interrupted%s", result.report ? "; what was read is written" : "");
    else if (inputs->refusals->len > 0)
        status = STATUS_USAGE;
    run_result_clear(&result);
    return status;
}

static char *parse(struct export *export, int *argc, char ***argv)
{
    const GOptionEntry entries[] = {
        { "format", 'f', 0, G_OPTION_ARG_STRING, &export->format, "Form: chrome (default: chrome)", "FORMAT" },
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &export->output, "Write to FILE (default: standard output)", "FILE" },
        { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &export->paths, NULL, "TRACE..." },
        { NULL },
    };
    GOptionContext *context = g_option_context_new(NULL);
    GError *error = NULL;
    char *why = NULL;

    g_option_context_set_summary(context, "Writes a recording as a Chrome trace in JSON, which https://ui.perfetto.dev and chrome://tracing open:\n"
                                          "loops, coroutines, requests with their stages and arrows, counters, anomalies and findings.");
    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, argc, argv, &error)) {
        why = g_strdup_printf("%s (see vblkscope export --help)", error->message);
        g_error_free(error);
    }
    g_option_context_free(context);
    if (!why && export->format && strcmp(export->format, "chrome") != 0)
        why = g_strdup_printf("--format: there is no format '%s' (there is: chrome)", export->format);
    if (!why && !export->paths)
        why = g_strdup("no trace given (give the folder of a recording)");
    return why;
}

int vblkscope_export_main(int argc, char **argv)
{
    struct export export = { NULL };
    char *why = parse(&export, &argc, &argv);
    int status;

    if (why) {
        status = complain(STATUS_USAGE, "%s", why);
    } else if (!(export.scratch = open_scratch())) {
        status = complain(STATUS_FAILED, "a temporary file cannot be made: %s", g_strerror(errno));
    } else {
        struct inputs *inputs = inputs_create();

        attempt_handle_signals();
        for (char **path = export.paths; *path; path++)
            inputs_add(inputs, *path);
        status = run(&export, inputs);
        inputs_destroy(inputs);
        (void)fclose(export.scratch);
    }
    g_free(why);
    g_free(export.format);
    g_free(export.output);
    g_strfreev(export.paths);
    return status;
}
