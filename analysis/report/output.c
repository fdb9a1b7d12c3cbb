#include "report/output.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/html.h"
#include "report/terminal.h"
#include "report/text.h"

static const char *const severity_names[] = { "info", "warning", "error" };

bool report_format_by_name(const char *name, enum report_format *format_out)
{
    if (strcmp(name, "text") == 0)
        *format_out = REPORT_TEXT;
    else if (strcmp(name, "json") == 0)
        *format_out = REPORT_JSON;
    else if (strcmp(name, "html") == 0)
        *format_out = REPORT_HTML;
    else
        return false;
    return true;
}

bool report_severity_by_name(const char *name, enum report_severity *severity_out)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(severity_names); i++) {
        if (strcmp(severity_names[i], name) == 0) {
            *severity_out = i;
            return true;
        }
    }
    return false;
}

int report_exit_status(const json_t *report, int status, enum report_severity fail_on)
{
    const json_t *findings = json_object_get(report, "findings");
    size_t index;
    json_t *finding;

    if (status == 2)
        return status;
    json_array_foreach (findings, index, finding) {
        const char *name = json_string_value(json_object_get(finding, "severity"));
        enum report_severity severity;

        if (name && report_severity_by_name(name, &severity) && severity >= fail_on)
            return 1;
    }
    if (status == 1) /* by warnings that do not count */
        return json_array_size(json_object_get(report, "inconclusive")) > 0 ||
                       json_is_true(json_object_get(json_object_get(report, "trace"), "interrupted"))
                   ? 3
                   : 0;
    return status;
}

static char *render(const json_t *report, enum report_format format, bool to_file)
{
    char *json, *text;

    if (format == REPORT_TEXT || format == REPORT_VERBOSE) {
        const struct text_options options = {
            .width = to_file ? TERMINAL_WIDTH : terminal_width(STDOUT_FILENO),
            .colours = !to_file && terminal_colours(STDOUT_FILENO),
            .verbose = format == REPORT_VERBOSE,
        };

        return report_text(report, &options);
    }
    if (format == REPORT_HTML)
        return report_html(report);
    json = json_dumps(report, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    text = g_strconcat(json, "\n", NULL);
    free(json);
    return text;
}

static bool write_all(FILE *file, const char *text)
{
    return fputs(text, file) >= 0 && fflush(file) == 0;
}

/* Not g_file_set_contents(): a device, a pipe or a link must stay what it is. */
static char *write_file(const char *path, const char *text)
{
    struct stat info;
    bool in_place = lstat(path, &info) == 0 && !S_ISREG(info.st_mode);
    char *temporary = in_place ? g_strdup(path) : g_strdup_printf("%s.XXXXXX", path);
    int fd = in_place ? -1 : g_mkstemp_full(temporary, O_WRONLY | O_CLOEXEC, 0666);
    FILE *file = in_place ? fopen(path, "we") : fd < 0 ? NULL : fdopen(fd, "w");
    char *why = NULL;
    bool good = file && write_all(file, text);

    if (file && fclose(file) != 0)
        good = false;
    if (good && !in_place)
        good = rename(temporary, path) == 0;
    if (!good)
        why = g_strdup_printf("%s: cannot write the report: %s (choose another --output)", path,
                              g_strerror(errno));
    if (!good && !in_place && fd >= 0)
        (void)unlink(temporary);
    g_free(temporary);
    return why;
}

char *report_write(const json_t *report, enum report_format format, const char *path)
{
    char *text = render(report, format, path != NULL), *why = NULL;

    if (path)
        why = write_file(path, text);
    else if (!write_all(stdout, text))
        why = g_strdup_printf("standard output: cannot write the report: %s (use --output=FILE)",
                              g_strerror(errno));
    g_free(text);
    return why;
}
