#include "report/html.h"

#include <glib.h>
#include <stdlib.h>

#include "report/printable.h"
#include "report/terminal.h"
#include "report/text.h"

/* In JSON a "<" stands in strings only. */
static void append_json(GString *page, const json_t *value)
{
    char *json = json_dumps(value, JSON_COMPACT | JSON_PRESERVE_ORDER);

    for (const char *at = json; *at; at++)
        if (*at == '<')
            g_string_append(page, "\\u003c");
        else
            g_string_append_c(page, *at);
    free(json);
}

char *report_html(const json_t *report)
{
    json_t *printable = printable_json(report);
    const struct text_options options = { .width = TERMINAL_WIDTH };
    char *text = report_text(printable, &options), *escaped = g_markup_escape_text(text, -1);
    GString *page = g_string_new(report_page_before_text);

    g_string_append(page, escaped);
    g_string_append(page, report_page_between);
    append_json(page, printable);
    g_string_append(page, report_page_after_report);
    json_decref(printable);
    g_free(escaped);
    g_free(text);
    return g_string_free(page, FALSE);
}
