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

#include "report/terminal.h"
#include "report/text.h"

#define TRACE                                                                                                \
    "'trace': {'paths': ['rec'], 'begin_ns': 1700000000000000000, 'end_ns': 1700000002500000000, "           \
    "'event_count': 7, 'known_event_count': %d, 'recorded_sets': [%s], 'interrupted': %s, "                  \
    "'lost_intervals': [], 'cut_streams': [], 'unreadable': [], 'processes': [{'pid': 5, 'name': 'vblkd', "  \
    "'begin_ns': 1700000000000000000, 'host': 'h1', 'version': '1.2', 'faults': 'skip-interrupt'}]}"

static bool verbose;

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
    text = report_text(report, &(struct text_options){ .width = TERMINAL_WIDTH, .colours = colours, .verbose = verbose });
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
    assert_non_null(text);
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
    assert_says(text, "process: vblkd (5) on h1, version 1.2\n  faults: skip-interrupt\n");
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
    char *text = report_text(report, &(struct text_options){ .width = TERMINAL_WIDTH });

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
    char *text = report_text(report, &(struct text_options){ .width = TERMINAL_WIDTH });

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

#define STAGE(name, mean) "'" name "': {'count': 1000, 'mean_ns': " #mean ", 'p50_ns': 5, 'p99_ns': 2000, 'p999_ns': 3000000}"
#define LATENCY(queued, backend, total)                                                                                \
    NO_FINDINGS REST ", 'latency': {'requests': 1000, 'in_flight': 0, 'stages': {" STAGE("queued", queued) ", " STAGE(       \
        "backend", backend) ", " STAGE("total", total) "}}"

/* 1000 requests in 2.5 s: 2.5 ms each are one in flight all the time. */
static void test_says_where_to_look_next(void **state)
{
    char *text = render(LATENCY(1000000, 1500000, 2500000), 7, "'core', 'request'", false, false);

    assert_says(text, "\nLook next at\n  - the disk below: 60 % of the time of requests went by there (p50 5 ns, p99 2 us, p99.9 3 ms).\n");
    assert_null(strstr(text, "guest"));
    g_free(text);
    text = render(LATENCY(1500000, 1000000, 2500000), 7, "'core', 'request'", false, false);
    assert_says(text, "the device itself: only 40 % of the time of requests went by in the disk, 60 % in stage queued (p50");
    g_free(text);
    text = render(LATENCY(0, 25000, 25000), 7, "'core', 'request'", false, false);
    assert_says(text, "the guest and its driver ask for little: 1000 requests in 2.50 s, 0.01 in flight on average");
    assert_says(text, "the disk below: 100 %");
    g_free(text);
    text = render(NO_FINDINGS REST ", 'queues': [{'completions': 12}, {'completions': 30}]", 7, "'core'", false, false);
    assert_says(text, "42 requests were completed in 2.50 s; how long they took was not recorded");
    g_free(text);
    text = render(FINDING REST ", 'latency': {'requests': 1, 'stages': {" STAGE("total", 2500000) "}}", 7, "'core'", false, false);
    assert_null(strstr(text, "Look next"));
    g_free(text);
}

static void test_facts_of_a_process(void **state)
{
    json_t *report = json_pack(
        "{s:[], s:[], s:{s:I, s:I, s:[s,s], s:[{s:i, s:s, s:I, s:I, s:i, s:s, s:s, s:i, s:i, s:i, s:n}]}, s:{s:[{s:i, s:i, s:i, s:i}]}}",
        "findings", "inconclusive", "trace", "begin_ns", (json_int_t)0, "end_ns", (json_int_t)2000000000, "recorded_sets", "core",
        "loop", "processes", "pid", 5, "name", "vblkd", "begin_ns", (json_int_t)0, "end_ns", (json_int_t)1000000000, "event_count", 9,
        "pool_policy", "batched", "stack_guard", "mprotect", "max_map_count", 1000, "stack_bytes", 65536, "batch_size", 64,
        "baseline_ns", "vma", "processes", "pid", 5, "vma_count", 800, "stack_count", 7, "live_count", 3);
    char *text;

    assert_non_null(report);
    text = report_text(report, &(struct text_options){ .width = TERMINAL_WIDTH });
    assert_says(text, "  sets: core, loop\n  process: vblkd (5)\n  policies: pool batched, stack guard mprotect\n");
    assert_says(text, "  limits: 800 of 1000 mappings in use (80.0 %), 7 stacks, 3 alive, stacks of 64 KiB in batches of 64\n");
    assert_says(text, "  seen: 9 events from +0.000000 s to +1.000000 s, without a whole baseline\n");
    g_free(text);
    json_decref(report);
}

static void test_tables_when_asked_for(void **state)
{
    static const char members[] =
        NO_FINDINGS REST ", 'loops': [{'pid': 5, 'loop_id': 1, 'name': 'main', 'thread_id': 5, 'busy_ns': 1, 'poll_ns': 0, 'wait_ns': 3}],"
                         " 'locks': [{'pid': 5, 'lock_id': 3, 'class_name': 'tracked', 'wait_ns': 1500000}],"
                         " 'pool': {'processes': [{'pid': 5, 'policy': 'none', 'threads': [{'thread_id': 6, 'name': 'io', 'takes': 4}]}]},"
                         " 'vma': {'processes': [{'pid': 5, 'vma_count': 77}]}, 'queues': [{'pid': 5, 'device': 'disk', 'broken': false}],"
                         " 'latency': {'requests': 1, 'stages': {" STAGE("total", 2500) "}}";
    char *text = render(members, 7, "'core'", false, false), *full;

    verbose = true;
    full = render(members, 7, "'core'", false, false);
    verbose = false;
    assert_null(strstr(text, "Loops"));
    assert_says(full, "\nLatency by stage\n  stage  requests    mean   p50  p90   p99  p99.9  max\n  total      1000  2.5 us  5 ns    -  2 us   3 ms    -\n");
    assert_says(full, "\nLoops\n  pid  loop  name  thread    busy   poll    wait");
    assert_says(full, "    5     1  main       5  25.0 %  0.0 %  75.0 %");
    assert_says(full, "5     3  tracked");
    assert_says(full, "  1.5 ms     -\n");
    assert_says(full, "    5       6  io");
    assert_says(full, "      77");
    g_free(full);
    g_free(text);
}

/* Totals of a damaged recording, whose sums do not fit. */
static void test_absurd_totals(void **state)
{
#define MOST "9000000000000000000"
    static const char members[] =
        NO_FINDINGS REST ", 'loops': [{'pid': 5, 'loop_id': 1, 'busy_ns': " MOST ", 'poll_ns': 0, 'wait_ns': " MOST "}],"
                         " 'queues': [{'pid': 5, 'completions': " MOST "}, {'pid': 5, 'completions': " MOST "}]";
    char *text;

    verbose = true;
    text = render(members, 7, "'core'", false, false);
    verbose = false;
    assert_says(text, "50.0 %  0.0 %  50.0 %");
    assert_says(text, ": 9223372036854775807 requests were completed");
    g_free(text);
}

static void test_lines_keep_to_the_width(void **state)
{
    json_t *report = json_pack("{s:[{s:s, s:s, s:s, s:s}], s:[]}", "findings", "id", "loop-hog", "severity", "warning", "summary",
                               "a b c d e f g h i j k l m n o p q r s t u v w x y z", "advice",
                               "one two three four five six seven eight nine ten", "inconclusive");
    char *text = report_text(report, &(struct text_options){ .width = 40 });
    char **lines = g_strsplit(text, "\n", -1);

    for (char **line = lines; *line; line++)
        if (strlen(*line) > 40 && !g_str_has_prefix(*line, "  when:"))
            fail_msg("'%s' is too long", *line);
    g_strfreev(lines);
    g_free(text);
    json_decref(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_says_where_to_look_next),
        cmocka_unit_test(test_facts_of_a_process),
        cmocka_unit_test(test_tables_when_asked_for),
        cmocka_unit_test(test_absurd_totals),
        cmocka_unit_test(test_lines_keep_to_the_width),
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
