/*
 * Goal:   a rule takes exactly the findings that it describes out of the verdict, as long as it holds, and a rule that cannot
 *         mean anything is refused with its place.
 * Method: reports and files written by hand; every key, patterns, quotes, days at their borders, each kind of mistake.
 * Breaks: a new fault would be hidden by a rule for another one, or a known one would keep waking people up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "suppress/suppress.h"

#define DAY_US (INT64_C(86400) * G_USEC_PER_SEC)
#define NOON_2026_12_01 (INT64_C(1796126400) * G_USEC_PER_SEC)

#define STALE                                                                                                          \
    "{'id': 'stale-fd', 'severity': 'error', 'cause': 'drain nested in start', 'subject': {'loop': 'main', 'loop_id': 1, " \
    "'fd': 31, 'device': 'my disk', 'class_name': null, 'process': {'name': 'vblkd', 'pid': 7, 'host': 'a1'}}}"
#define HOG "{'id': 'loop-hog', 'severity': 'warning', 'cause': null, 'subject': {'loop': 'io0'}}"

static json_t *make_report(void)
{
    char *source = g_strdup("{'findings': [" STALE ", " HOG "]}");
    json_t *report;

    for (char *at = source; *at; at++)
        if (*at == '\'')
            *at = '"';
    report = json_loads(source, 0, NULL);
    assert_non_null(report);
    g_free(source);
    return report;
}

static json_t *apply(const char *rules, int64_t now_us)
{
    struct suppressions *known = suppressions_create();
    json_t *report = make_report();
    char *why = suppressions_parse(known, "known", rules);

    if (why)
        fail_msg("%s", why);
    suppressions_apply(known, report, now_us);
    suppressions_destroy(known);
    return report;
}

static size_t count(const json_t *report, const char *key)
{
    return json_array_size(json_object_get(report, key));
}

static void assert_takes(const char *rules, size_t expected)
{
    json_t *report = apply(rules, NOON_2026_12_01);

    if (count(report, "suppressed") != expected || count(report, "findings") != 2 - expected)
        fail_msg("'%s' takes %zu findings, not %zu", rules, count(report, "suppressed"), expected);
    json_decref(report);
}

static void test_what_a_rule_matches(void **state)
{
    assert_takes("", 0);
    assert_takes("# nothing\n\n   # at all\n", 0);
    assert_takes("stale-fd", 1);
    assert_takes("*", 2);
    assert_takes("l*-h[a-z]g\r\n", 1);
    assert_takes("stale-fd fd=31 loop=main loop_id=1", 1);
    assert_takes("stale-fd fd=31 loop=io*", 0);
    assert_takes("* loop=io?", 1);
    assert_takes("stale-fd fd=3", 0);
    assert_takes("* process=vblk* pid=7 host=a1", 1);
    assert_takes("stale-fd host=a2", 0);
    assert_takes("stale-fd device=\"my disk\"", 1);
    assert_takes("stale-fd device='my 'd?sk", 1);
    assert_takes("* cause=\"drain nested*\"", 1);
    assert_takes("stale-fd class_name=", 1);  /* known to have no name */
    assert_takes("loop-hog class_name=*", 0); /* not about a lock */
    assert_takes("loop-hog #stale-fd\nstale-fd # both", 2);
}

static void test_the_report_tells_rule_and_reason(void **state)
{
    json_t *report = apply("# file\nstale-fd device='my disk' until=2027-01-31 #  known since spring \nloop-hog fd=1\n"
                           "loop-hog until=2026-11-30\n",
                           NOON_2026_12_01);
    const json_t *by = json_object_get(json_array_get(json_object_get(report, "suppressed"), 0), "suppressed_by");
    const json_t *rules = json_object_get(report, "suppression_rules");
    const json_t *unused = json_array_get(json_object_get(rules, "unused"), 0);

    assert_string_equal(json_string_value(json_object_get(by, "rule")), "stale-fd device=\"my disk\" until=2027-01-31");
    assert_string_equal(json_string_value(json_object_get(by, "reason")), "known since spring");
    assert_string_equal(json_string_value(json_object_get(by, "file")), "known");
    assert_int_equal(json_integer_value(json_object_get(by, "line")), 2);
    assert_int_equal(count(rules, "unused"), 1);
    assert_int_equal(json_integer_value(json_object_get(unused, "line")), 3);
    assert_true(json_is_null(json_object_get(unused, "reason")));
    assert_int_equal(count(rules, "expired"), 1);
    json_decref(report);
}

/* A second rule for the same thing is no rule that matched nothing. */
static void test_rules_may_overlap(void **state)
{
    json_t *report = apply("stale-fd\n*\nloop-hog", NOON_2026_12_01);

    assert_int_equal(count(report, "suppressed"), 2);
    assert_int_equal(count(json_object_get(report, "suppression_rules"), "unused"), 0);
    json_decref(report);
}

static void test_a_rule_holds_through_its_last_day(void **state)
{
    const struct {
        int64_t now_us;
        size_t taken;
    } cases[] = {
        { NOON_2026_12_01, 1 },
        { NOON_2026_12_01 + DAY_US / 2 - 1, 1 },
        { NOON_2026_12_01 + DAY_US / 2, 0 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        json_t *report = apply("stale-fd until=2026-12-01", cases[i].now_us);

        assert_int_equal(count(report, "suppressed"), cases[i].taken);
        assert_int_equal(count(json_object_get(report, "suppression_rules"), "expired"), 1 - cases[i].taken);
        json_decref(report);
    }
}

static void test_mistakes_are_told_with_their_place(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        { "stale-fd\nstale_fd", "known:2: there is no finding 'stale_fd' (there are: stale-fd, " },
        { "loop=main", "known:1: there is no finding 'loop=main'" },
        { "stale-fd loop", "known:1: 'loop' is not KEY=VALUE" },
        { "stale-fd lop=main", "known:1: there is no key 'lop' (there are: loop, " },
        { "stale-fd loop=\"main", "known:1: a quotation mark is missing" },
        { "stale-fd until=tomorrow", "known:1: 'tomorrow' is not a day (write until=" },
        { "stale-fd until=2026-02-30", "known:1: '2026-02-30' is not a day" },
        { "stale-fd until=2026-12-01x", "known:1: '2026-12-01x' is not a day" },
        { "stale-fd loop=\xff", "known:1: is not UTF-8" },
        { "\"", "known:1: a quotation mark is missing" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct suppressions *known = suppressions_create();
        char *why = suppressions_parse(known, "known", cases[i].text);

        if (!why || !g_str_has_prefix(why, cases[i].why))
            fail_msg("'%s': '%s' does not begin with '%s'", cases[i].text, why ? why : "no error", cases[i].why);
        g_free(why);
        suppressions_destroy(known);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_rule_matches),
        cmocka_unit_test(test_the_report_tells_rule_and_reason),
        cmocka_unit_test(test_rules_may_overlap),
        cmocka_unit_test(test_a_rule_holds_through_its_last_day),
        cmocka_unit_test(test_mistakes_are_told_with_their_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
