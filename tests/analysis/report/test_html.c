/*
 * Goal:   the page holds the report whole, and no name in it ends the element that it stands in.
 * Method: reports with hostile names; what a browser would take for the data is read back.
 * Breaks: a recording could run scripts in the browser of who looks at its report, or the page stays empty.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "report/html.h"

#define HOSTILE "</script><!--<script>alert(1)</script><img src=x onerror=alert(2)>&amp;\"'"

static unsigned count_of(const char *page, const char *text)
{
    unsigned count = 0;

    for (const char *at = strstr(page, text); at; at = strstr(at + 1, text))
        count++;
    return count;
}

static char *page_of(const char *name)
{
    json_t *report = json_pack("{s:s, s:{s:[s], s:[], s:[]}, s:[{s:s, s:s, s:s, s:s, s:[]}], s:[], s:[]}",
                               "schema", "vblkscope-report-1", "trace", "paths", name, "processes",
                               "recorded_sets", "findings", "id", "queue-broken", "severity", "error",
                               "summary", name, "advice", name, "evidence", "skipped", "inconclusive");
    char *page;

    assert_non_null(report);
    page = report_html(report);
    json_decref(report);
    return page;
}

/* What stands between the begin of the element and its first end: as a browser cuts it. */
static json_t *data_of(const char *page)
{
    static const char begin[] = "<script type=\"application/json\" id=\"report\">";
    const char *from = strstr(page, begin);
    char *text;
    json_t *data;

    assert_non_null(from);
    from += strlen(begin);
    text = g_strndup(from, (gsize)(strstr(from, "</script") - from));
    data = json_loads(text, 0, NULL);
    assert_non_null(data);
    g_free(text);
    return data;
}

static void test_hostile_names(void **state)
{
    char *harmless = page_of("disk"), *page = page_of(HOSTILE);
    json_t *data = data_of(page);

    assert_string_equal(
        json_string_value(json_object_get(json_array_get(json_object_get(data, "findings"), 0), "summary")),
        HOSTILE);
    assert_int_equal(count_of(page, "<script"), count_of(harmless, "<script"));
    assert_int_equal(count_of(page, "</script"), 2);
    assert_int_equal(count_of(page, "<!--"), 0);
    assert_int_equal(count_of(page, "<img"), 0);
    json_decref(data);
    g_free(page);
    g_free(harmless);
}

static void test_whole_and_self_contained(void **state)
{
    char *page = page_of("disk");

    assert_true(g_str_has_prefix(page, "<!doctype html>"));
    assert_true(g_str_has_suffix(page, "</html>\n"));
    assert_int_equal(count_of(page, "{{"), count_of(page, "{{\n"));
    assert_int_equal(count_of(page, "default-src 'none'"), 1);
    assert_int_equal(count_of(page, " src="), 0);
    assert_int_equal(count_of(page, "<link"), 0);
    assert_int_equal(count_of(page, "@import"), 0);
    assert_non_null(strstr(page, "VERDICT: 1 error.")); /* also without scripts: the report as text */
    assert_non_null(strstr(page, "uPlot (v"));          /* with its author and address */
    g_free(page);
}

static void test_control_characters_are_written_out(void **state)
{
    char *page = page_of("a\033[2Jb");

    assert_int_equal(count_of(page, "\033"), 0);
    assert_non_null(strstr(page, "a\\\\x1b[2Jb"));
    g_free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_whole_and_self_contained),
        cmocka_unit_test(test_control_characters_are_written_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
