/*
 * Goal:   what differs is called so in the right direction, what may be chance is not, and findings of one side are named first.
 * Method: sets of reports with known rates: equal, clearly different, noisy; one and several of a side; a figure that one side lacks.
 * Breaks: a release would be held up, or let through, for the wrong reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compare/verdict.h"

#define STEPS 100

/* A report with @rate completions a second, with noise of @noise of it, and a finding if @id is not NULL. */
static json_t *make(int rate, int noise, const char *id)
{
    json_t *values = json_array(), *report;

    for (int i = 0; i < STEPS; i++)
        json_array_append_new(values, json_integer(rate + (i * 7919 % 11 - 5) * noise / 5));
    report = json_pack("{s:[], s:{s:i, s:I, s:[{s:o, s:O}], s:[]}}", "findings", "series", "steps", STEPS, "step_ns",
                       (json_int_t)1000000000, "queues", "completions", values, "kicks", values, "loops");
    if (id)
        json_array_append_new(json_object_get(report, "findings"),
                              json_pack("{s:s, s:s, s:n, s:s}", "id", id, "severity", "error", "cause", "summary", "It happened."));
    return report;
}

static GPtrArray *side(unsigned count, ...)
{
    GPtrArray *reports = g_ptr_array_new_with_free_func((GDestroyNotify)json_decref);
    va_list args;

    va_start(args, count);
    for (unsigned i = 0; i < count; i++)
        g_ptr_array_add(reports, va_arg(args, json_t *));
    va_end(args);
    return reports;
}

static json_t *compare(GPtrArray *old, GPtrArray *new)
{
    json_t *comparison = compare_reports(old, new);

    g_ptr_array_unref(old);
    g_ptr_array_unref(new);
    return comparison;
}

static const json_t *row(const json_t *comparison, const char *name)
{
    json_t *entry;
    size_t index;

    json_array_foreach (json_object_get(comparison, "rows"), index, entry)
        if (strcmp(json_string_value(json_object_get(entry, "name")), name) == 0)
            return entry;
    fail_msg("there is no row %s", name);
    return NULL;
}

static void assert_verdict(json_t *comparison, const char *completions, const char *kicks)
{
    assert_string_equal(json_string_value(json_object_get(row(comparison, "completions"), "verdict")), completions);
    assert_string_equal(json_string_value(json_object_get(row(comparison, "kicks"), "verdict")), kicks);
    json_decref(comparison);
}

static void test_one_of_each(void **state)
{
    assert_verdict(compare(side(1, make(1000, 50, NULL)), side(1, make(1200, 50, NULL))), "better", "changed");
    assert_verdict(compare(side(1, make(1000, 50, NULL)), side(1, make(800, 50, NULL))), "worse", "changed");
    assert_verdict(compare(side(1, make(1000, 50, NULL)), side(1, make(1000, 50, NULL))), "same", "same");
    assert_verdict(compare(side(1, make(1000, 900, NULL)), side(1, make(1010, 900, NULL))), "same", "same");
}

static void test_repeats(void **state)
{
    assert_verdict(compare(side(3, make(1000, 5, NULL), make(1010, 5, NULL), make(990, 5, NULL)),
                           side(3, make(1200, 5, NULL), make(1210, 5, NULL), make(1190, 5, NULL))),
                   "better", "changed");
    /* each recording is calm, but they differ among themselves as much as the sides do */
    assert_verdict(compare(side(3, make(1000, 5, NULL), make(1400, 5, NULL), make(800, 5, NULL)),
                           side(3, make(1100, 5, NULL), make(1500, 5, NULL), make(900, 5, NULL))),
                   "same", "same");
}

/* The test is of the first recordings, which got faster; all together got slower. */
static void test_values_that_contradict_the_test(void **state)
{
    assert_verdict(compare(side(1, make(1000, 50, NULL)), side(3, make(1200, 50, NULL), make(500, 50, NULL), make(500, 50, NULL))),
                   "same", "same");
}

static void test_a_figure_that_one_side_lacks(void **state)
{
    json_t *without = make(1000, 5, NULL), *comparison;

    json_object_del(json_array_get(json_object_get(json_object_get(without, "series"), "queues"), 0), "kicks");
    comparison = compare(side(1, without), side(1, make(1000, 5, NULL)));
    assert_true(json_is_null(json_object_get(row(comparison, "kicks"), "old")));
    assert_true(json_is_null(json_object_get(row(comparison, "kicks"), "change_percent")));
    assert_verdict(comparison, "same", "untested");
}

static void test_findings_come_first(void **state)
{
    json_t *comparison = compare(side(2, make(1000, 5, "stale-fd"), make(1000, 5, "loop-hog")),
                                 side(2, make(1000, 5, "loop-hog"), make(1000, 5, "deaf-queue")));
    char *text = compare_text(comparison);

    assert_true(g_str_has_prefix(text, "Only in OLD: error stale-fd: It happened. (in 1 of 2 recordings)\n"
                                       "Only in NEW: error deaf-queue: It happened. (in 1 of 2 recordings)\n\n"));
    assert_null(strstr(text, "loop-hog"));
    assert_non_null(strstr(text, "OLD      NEW  CHANGE  VERDICT\nrates: completions  "));
    assert_non_null(strstr(text, "  1000 /s  1000 /s  +0.0 %  same\n"));
    assert_non_null(strstr(text, "Test: Welch's t-test over the repeats"));
    assert_null(strstr(text, "give several of each"));
    g_free(text);
    json_decref(comparison);
    comparison = compare(side(1, make(1, 0, NULL)), side(2, make(1, 0, NULL), make(1, 0, NULL)));
    text = compare_text(comparison);
    assert_non_null(strstr(text, "give several of each"));
    g_free(text);
    json_decref(comparison);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_of_each),
        cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_values_that_contradict_the_test),
        cmocka_unit_test(test_a_figure_that_one_side_lacks),
        cmocka_unit_test(test_findings_come_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
