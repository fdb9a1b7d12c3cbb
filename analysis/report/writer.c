#include "report/writer.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "report/terminal.h"

#define NS_PER_S INT64_C(1000000000)

const char *report_string(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

int64_t report_number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

bool report_has_number(const json_t *object, const char *key)
{
    return json_is_integer(json_object_get(object, key));
}

void writer_words(struct writer *writer, const char *text, unsigned indent, unsigned column)
{
    wrap_text(writer->text, text, indent, column, writer->width);
}

void writer_line(struct writer *writer, const char *label, const char *text)
{
    unsigned indent = 2 + (unsigned)strlen(label) + 1;

    g_string_append_printf(writer->text, "  %s%s%s ", writer->style->faint, label, writer->style->reset);
    writer_words(writer, text, MIN(indent, 12), indent);
}

void writer_heading(struct writer *writer, const char *heading)
{
    g_string_append_printf(writer->text, "\n%s%s%s\n", writer->style->bold, heading, writer->style->reset);
}

char *writer_offset(const struct writer *writer, int64_t time_ns)
{
    return g_strdup_printf("%+.6f s", (time_ns - writer->begin_ns) / 1e9);
}

char *time_text(int64_t time_ns)
{
    time_t seconds = time_ns / NS_PER_S - (time_ns % NS_PER_S < 0);
    int64_t rest_ns = time_ns - seconds * NS_PER_S;
    struct tm utc;
    char day[64] = "?";

    if (gmtime_r(&seconds, &utc))
        (void)strftime(day, sizeof(day), "%Y-%m-%d %H:%M:%S", &utc);
    return g_strdup_printf("%s.%06" PRId64 " UTC", day, rest_ns / 1000);
}

char *duration_text(int64_t ns)
{
    if (ns < 1000)
        return g_strdup_printf("%" PRId64 " ns", ns);
    if (ns < 1000 * 1000)
        return g_strdup_printf("%.3g us", ns / 1e3);
    if (ns < NS_PER_S)
        return g_strdup_printf("%.3g ms", ns / 1e6);
    return g_strdup_printf("%.*f s", ns < 10 * NS_PER_S ? 2 : 1, ns / 1e9);
}
