/*
 * Goal:   the report has every key of the contract, also of an empty trace, and says what the trace was.
 * Method: an empty analysis, and one of a whole baseline.
 * Breaks: dashboards and scripts that read reports.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed.h"

static void expect_keys(json_t *object, const char *const *keys)
{
    for (; *keys; keys++)
        if (!json_object_get(object, *keys))
            fail_msg("no key %s", *keys);
}

static const char *const top[] = { "schema", "trace", "findings", "skipped", "inconclusive", "pool",
                                   "vma",    "loops", "locks",    "queues",  "latency",      NULL };
static const char *const trace_keys[] = { "paths",          "begin_ns",    "end_ns",    "event_count",
                                          "lost_intervals", "cut_streams", "processes", NULL };

static void test_empty(void **state)
{
    struct analysis_options options;
    struct analysis *analysis;
    json_t *report;

    analysis_options_init(&options);
    analysis = analysis_create(&options);
    analysis_finish(analysis, false);
    report = analysis_report(analysis);
    expect_keys(report, top);
    expect_keys(json_object_get(report, "trace"), trace_keys);
    assert_string_equal(json_text_of(report, "schema"), "vblkscope-report-1");
    assert_int_equal(analysis_exit_status(analysis), 3);
    json_decref(report);
    analysis_destroy(analysis);
}

static void test_trace_and_processes(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);
    json_t *trace, *process;

    feed(f, feed_baseline);
    feed_end(f, 9);
    expect_keys(feed_report(f), top);
    trace = json_object_get(feed_report(f), "trace");
    expect_keys(trace, trace_keys);
    assert_int_equal(json_number_of(trace, "begin_ns"), 1000000000);
    assert_int_equal(json_number_of(trace, "end_ns"), 9000000000);
    assert_int_equal(json_array_size(json_object_get(trace, "recorded_sets")), 5);
    assert_int_equal(json_array_size(json_object_get(trace, "processes")), 1);
    process = json_array_get(json_object_get(trace, "processes"), 0);
    assert_int_equal(json_number_of(process, "pid"), 1);
    assert_string_equal(json_text_of(process, "version"), "1");
    assert_int_equal(json_number_of(process, "max_map_count"), 10000);
    assert_int_equal(json_number_of(process, "baseline_ns"), 1100000000);
    feed_destroy(f);
}

static void test_a_finding_has_every_key(void **state)
{
    static const char *const keys[] = { "id",      "severity", "summary",  "begin_ns", "end_ns", "count",
                                        "subject", "cause",    "evidence", "advice",   NULL };
    struct feed *f = feed_create(FEED_CORE_ONLY);

    /* one without a cause: a reader need not ask whether the key exists */
    feed(f, "2 11@0 vblk_queue:broken device_id=5 queue_index=1 error=-22 reason=bad\n");
    feed_end(f, 9);
    expect_keys(feed_finding(f, "queue-broken"), keys);
    assert_true(json_is_null(json_object_get(feed_finding(f, "queue-broken"), "cause")));
    feed_destroy(f);
}

static void test_an_interrupted_reading_cannot_tell(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    analysis_finish(feed_analysis(f), true);
    assert_int_equal(feed_status(f), 3);
    feed_destroy(f);
}

static void test_text_that_is_no_utf8_does_no_harm(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, "1 11@0 vblk_queue:broken device_id=5 error=-22 reason=\xff\xfe\n"
            "1 11@0 rt_loop:create loop_id=2 name=\xff\n");
    feed_end(f, 9);
    assert_string_equal(feed_findings(f), "queue-broken");
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_trace_and_processes),
        cmocka_unit_test(test_a_finding_has_every_key),
        cmocka_unit_test(test_an_interrupted_reading_cannot_tell),
        cmocka_unit_test(test_text_that_is_no_utf8_does_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
