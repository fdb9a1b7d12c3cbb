/*
 * Goal:   the text begins with the verdict and holds what a ticket needs.
 * Method: reports written by hand, one for each kind of verdict.
 * Breaks: a reader would take "could not look" for "nothing wrong".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "report/text.h"

#define TRACE                                                                                                \
    "'trace': {'paths': ['rec'], 'begin_ns': 1700000000000000000, 'end_ns': 1700000002500000000, "           \
    "'event_count': 7, 'known_event_count': %d, 'recorded_sets': [%s], 'interrupted': %s, "                  \
    "'lost_intervals': [], 'cut_streams': [], 'unreadable': [], 'processes': [{'pid': 5, 'name': 'vblkd', "  \
    "'begin_ns': 1700000000000000000, 'version': '', 'faults': 'skip-interrupt'}]}"

static char *render(const char *members, int known, const char *sets, bool interrupted, bool colours)
{
    char *trace = g_strdup_printf(TRACE, known, sets, interrupted ? "true" : "false");
    char *source = g_strdup_printf("{%s, %s}", members, trace);
    json_error_t error;
    json_t *report;
    char *text;

    for (char *at = source; *at; at++)
        if (*at == '\'')
            *at = '"';
    report = json_loads(source, 0, &error);
    if (!report)
        fail_msg("%s: %s", error.text, source);
    text = report_text(report, colours);
    json_decref(report);
    g_free(source);
    g_free(trace);
    return text;
}

static void assert_begins(const char *text, const char *begin)
{
    if (!g_str_has_prefix(text, begin))
        fail_msg("'%.80s' does not begin with '%s'", text, begin);
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("the text does not say '%s':\n%s", part, text);
}

#define FINDING                                                                                              \
    "'findings': [{'id': 'stale-fd', 'severity': 'error', 'summary': 'A handler stays.', "                   \
    "'begin_ns': 1700000001000000000, 'end_ns': 1700000002000000000, 'count': 12, "                          \
    "'subject': {'loop': 'main', 'fd': 31, 'class_name': null, 'process': {'name': 'vblkd', 'pid': 7}}, "   \
    "'cause': 'nested-drain', "                                                                            \
    "'evidence': [{'time_ns': 1700000001000000000, 'event': 'rt_loop:fd_attach', 'text': 'attached'}], "     \
    "'advice': 'Detach it.'}]"
#define NO_FINDINGS "'findings': []"
#define REST ", 'skipped': [], 'inconclusive': []"

static void test_finding_is_told_with_all_it_has(void **state)
{
    char *text = render(FINDING REST, 7, "'core'", false, false);

    assert_begins(text, "VERDICT: 1 error.\n");
    assert_says(text, "error stale-fd: A handler stays.");
    assert_says(text, "subject: loop main, fd 31, process vblkd (7)\n");
    assert_says(text, "cause: nested-drain");
    assert_says(text, "since 2023-11-14 22:13:21.000000 UTC (+1.000000 s), for 1.00 s, count 12");
    assert_says(text, "+1.000000 s    rt_loop:fd_attach            attached");
    assert_says(text, "advice: Detach it.");
    assert_says(text, "7 events in 2.50 s from 2023-11-14 22:13:20.000000 UTC");
    assert_says(text, "process: pid 5, name vblkd, begin +0.000000 s, faults skip-interrupt");
    assert_null(strstr(text, "class_name"));
    assert_null(strchr(text, '\033'));
    g_free(text);
}

static void test_nothing_found(void **state)
{
    char *text = render(NO_FINDINGS REST, 7, "'core'", false, false);

    assert_begins(text, "VERDICT: nothing found.");
    g_free(text);
}

static void test_nothing_found_where_nothing_was_asked(void **state)
{
    static const char requests[] = NO_FINDINGS REST ", 'latency': {'requests': %d, 'in_flight': %d, 'stages': {}}";
    const struct {
        int requests, in_flight;
        const char *sets, *begin;
    } cases[] = {
        { 0, 0, "'core', 'request'", "VERDICT: nothing found, and no request was recorded." },
        { 1, 0, "'core', 'request'", "VERDICT: nothing found. " },
        { 0, 1, "'core', 'request'", "VERDICT: nothing found. " },
        { 0, 0, "'core'", "VERDICT: nothing found. " }, /* requests were not to be recorded */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *members = g_strdup_printf(requests, cases[i].requests, cases[i].in_flight);
        char *text = render(members, 7, cases[i].sets, false, false);

        assert_begins(text, cases[i].begin);
        g_free(text);
        g_free(members);
    }
}

static void test_nothing_found_in_a_damaged_recording(void **state)
{
    json_t *report = json_pack("{s:[], s:[], s:{s:i, s:[s], s:[{s:s, s:i}]}}", "findings", "inconclusive", "trace",
                               "known_event_count", 7, "recorded_sets", "core", "cut_streams", "stream", "rec/c_1",
                               "begin_ns", 5);
    char *text = report_text(report, false);

    assert_begins(text, "VERDICT: nothing found in what could be read; 1 stream is damaged");
    g_free(text);
    json_decref(report);
}

static void test_missing_sets_come_first(void **state)
{
    char *text = render(
        "'all_skipped': true, " NO_FINDINGS
        ", 'skipped': [{'id': 'a', 'reason': 'set loop not recorded'}, {'id': 'b', 'reason': 'set loop "
        "not recorded'}], 'inconclusive': []",
        7, "'core'", false, false);

    assert_begins(text, "NOTHING WAS CHECKED: every relevant set is missing");
    assert_says(text, "set loop not recorded: a, b\n");
    g_free(text);
}

static void test_nothing_to_judge(void **state)
{
    char *text = render(NO_FINDINGS REST, 0, "'core'", false, false);

    assert_begins(text, "NOTHING TO JUDGE: no event was recorded.");
    g_free(text);
    text = render("'all_skipped': true, " NO_FINDINGS REST, 0, "", false, false);
    assert_begins(text, "NOTHING TO JUDGE: this is not a recording of vblkd");
    g_free(text);
}

static void test_cannot_tell(void **state)
{
    char *text =
        render(NO_FINDINGS ", 'skipped': [], 'inconclusive': [{'id': 'stale-fd', 'reason': 'lost events', "
                           "'begin_ns': 1700000001000000000, 'end_ns': 1700000002000000000}]",
               7, "'core'", false, false);

    assert_begins(text, "CANNOT TELL: nothing found, but 1 check could not decide.");
    assert_says(text, "stale-fd: lost events (+1.000000 s to +2.000000 s)");
    g_free(text);
}

static void test_partial_report_says_so_first(void **state)
{
    char *text = render(NO_FINDINGS REST, 7, "'core'", true, false);

    assert_begins(text, "INTERRUPTED: this report is partial.\nCANNOT TELL: nothing found in the part that was read.\n");
    g_free(text);
}

static void test_colours_on_demand(void **state)
{
    char *text = render(FINDING REST, 7, "'core'", false, true);

    assert_begins(text, "\033[");
    g_free(text);
}

static void test_survives_a_report_without_anything(void **state)
{
    json_t *report = json_object();
    char *text = report_text(report, false);

    assert_true(strlen(text) > 0);
    g_free(text);
    json_decref(report);
}

/* A trace from elsewhere must not drive the terminal that shows its report. */
static void test_control_characters_are_written_out(void **state)
{
    char *text = render("'findings': [{'id': 'queue-broken', 'severity': 'error', 'summary': 'disk \\u001b[2Jx\\u0007', "
                        "'subject': {'device': 'a\\u009b31m\\u202eb\\u007f\\n'}}], 'skipped': [], 'inconclusive': []",
                        7, "'core'", false, false);

    (void)state;
    assert_says(text, "disk \\x1b[2Jx\\x07");
    assert_says(text, "a\\x9b31m\\u{202e}b\\x7f\\x0a");
    assert_null(strchr(text, '\033'));
    assert_null(strchr(text, '\a'));
    g_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_control_characters_are_written_out),
        cmocka_unit_test(test_finding_is_told_with_all_it_has),
        cmocka_unit_test(test_nothing_found),
        cmocka_unit_test(test_nothing_found_where_nothing_was_asked),
        cmocka_unit_test(test_nothing_found_in_a_damaged_recording),
        cmocka_unit_test(test_missing_sets_come_first),
        cmocka_unit_test(test_nothing_to_judge),
        cmocka_unit_test(test_cannot_tell),
        cmocka_unit_test(test_partial_report_says_so_first),
        cmocka_unit_test(test_colours_on_demand),
        cmocka_unit_test(test_survives_a_report_without_anything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
