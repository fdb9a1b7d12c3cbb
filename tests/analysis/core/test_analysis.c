/*
 * Goal:   events reach the right process and the right checks; what was not recorded is skipped by name; the exit status
 *         and the report agree.
 * Method: traces with chosen sets, several processes, per-process traces, rotated chunks.
 * Breaks: findings about the wrong process, or "nothing found" where nothing was looked at.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/check.h"
#include "feed/feed.h"

static const char *first_skip_reason(struct feed *f)
{
    return json_text_of(json_array_get(json_object_get(feed_report(f), "skipped"), 0), "reason");
}

static void test_no_event_of_ours(void **state)
{
    struct feed *f = feed_create(0);

    feed_end(f, 9);
    assert_int_equal(feed_status(f), 3);
    assert_non_null(strstr(feed_skipped(f), "stale-fd"));
    assert_string_equal(first_skip_reason(f), "no event of a known dialect");
    feed_destroy(f);
}

static void test_core_is_always_needed(void **state)
{
    struct feed *f = feed_create(1u << SET_LOOP);

    feed(f, "1 11@0 rt_loop:wait_begin loop_id=2\n");
    feed_end(f, 9);
    assert_non_null(strstr(feed_skipped(f), "queue-broken"));
    assert_string_equal(first_skip_reason(f), "set core not recorded");
    feed_destroy(f);
}

static void test_filtered_acquired_is_no_lock_set(void **state)
{
    struct analysis_options options;
    struct analysis_trace trace = { .path = "ust", .vpid = EVENT_UNKNOWN_ID };
    const struct analysis_stream stream = { .cpu_id = 0 };
    const struct event event = { .id = EVENT_vhost_user_message, .vpid = 1, .vtid = 1 };
    struct analysis *analysis;

    trace.declared[EVENT_vhost_user_message] = trace.declared[EVENT_rt_lock_acquired] = true;
    analysis_options_init(&options);
    analysis = analysis_create(&options);
    analysis_add_trace(analysis, &trace);
    analysis_add_stream(analysis, 0, &stream);
    analysis_event(analysis, &event);
    assert_true(process_records(analysis_process(analysis, 0), SET_CORE));
    assert_false(process_records(analysis_process(analysis, 0), SET_LOCK));
    assert_true(process_declares(analysis_process(analysis, 0), EVENT_rt_lock_acquired));
    analysis_destroy(analysis);
}

static void test_selected_checks_only(void **state)
{
    static const char *const ids[] = { "queue-broken", NULL };
    struct analysis_options options;
    struct feed *f;

    analysis_options_init(&options);
    options.checks = ids;
    f = feed_create_with(FEED_ALL_SETS, &options);
    feed(f, "1 11@0 vblk_queue:broken device_id=5 error=-22\n"
            "2 11@0 vblk_dataplane:state device_id=5 old_state=2 new_state=0\n");
    feed_end(f, 9);
    assert_string_equal(feed_findings(f), "queue-broken");
    feed_destroy(f);
}

static void test_processes_by_vpid(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, "1 7:11@0 vblk_queue:broken device_id=5 error=-22\n"
            "2 8:11@0 vblk_queue:broken device_id=5 error=-22\n"
            "3 7:11@1 vblk_queue:broken device_id=5 error=-22\n");
    feed_end(f, 9);
    assert_int_equal(analysis_process_count(feed_analysis(f)), 2);
    assert_string_equal(feed_findings(f), "queue-broken queue-broken");
    feed_destroy(f);
}

/* Number of processes when the same event comes from each of these traces. */
static unsigned processes_of(const struct analysis_trace *traces, unsigned count)
{
    struct analysis_options options;
    struct analysis *analysis;
    unsigned processes;

    analysis_options_init(&options);
    analysis = analysis_create(&options);
    for (unsigned i = 0; i < count; i++) {
        const struct analysis_stream stream = { .cpu_id = 0 };
        const unsigned trace = analysis_add_trace(analysis, &traces[i]);
        const struct event event = { .time_ns = i,
                                     .id = EVENT_vhost_user_message,
                                     .stream = analysis_add_stream(analysis, trace, &stream),
                                     .vpid = EVENT_UNKNOWN_ID,
                                     .vtid = 1 };

        analysis_event(analysis, &event);
    }
    processes = analysis_process_count(analysis);
    analysis_destroy(analysis);
    return processes;
}

static void test_traces_of_processes_are_apart(void **state)
{
    const struct analysis_trace traces[] = {
        { .path = "s/ust/pid/vblkd-7-20260101-080000", .hostname = "h", .procname = "vblkd", .vpid = 7 },
        { .path = "s/ust/pid/vblkd-8-20260101-080000", .hostname = "h", .procname = "vblkd", .vpid = 8 },
        { .path = "t/ust/pid/vblkd-7-20260101-080000", .hostname = "h", .procname = "vblkd", .vpid = 7 },
    };

    assert_int_equal(processes_of(traces, 3), 3);
}

static void test_rotated_chunks_are_one_recording(void **state)
{
    const struct analysis_trace traces[] = {
        { .path = "s/archives/20260101T080000+0000-20260101T080100+0000-0/ust/uid/0/64-bit",
          .hostname = "h",
          .vpid = -1 },
        { .path = "s/archives/20260101T080100+0000-20260101T080200+0000-1/ust/uid/0/64-bit",
          .hostname = "h",
          .vpid = -1 },
        { .path = "s/ust/uid/0/64-bit", .hostname = "h", .vpid = -1 },
        { .path = "s/ust/uid/1000/64-bit", .hostname = "h", .vpid = -1 },
    };

    assert_int_equal(processes_of(traces, 3), 1);
    assert_int_equal(processes_of(traces, 4), 2);
}

static void test_unreadable_input_is_status_2(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, "1 11@0 vblk_queue:broken device_id=5 error=-22\n");
    analysis_unreadable(feed_analysis(f), "elsewhere", "metadata is cut");
    feed_end(f, 9);
    assert_int_equal(feed_status(f), 2);
    assert_string_equal(feed_findings(f), "queue-broken"); /* the rest is analysed */
    feed_destroy(f);
}

static void test_finish_twice_changes_nothing(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);
    json_t *report;

    feed(f, "1 11@0 vblk_queue:broken device_id=5 error=-22\n");
    feed_end(f, 9);
    analysis_finish(feed_analysis(f), true);
    report = analysis_report(feed_analysis(f));
    assert_true(json_equal(report, feed_report(f)));
    json_decref(report);
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_event_of_ours),
        cmocka_unit_test(test_core_is_always_needed),
        cmocka_unit_test(test_filtered_acquired_is_no_lock_set),
        cmocka_unit_test(test_selected_checks_only),
        cmocka_unit_test(test_processes_by_vpid),
        cmocka_unit_test(test_traces_of_processes_are_apart),
        cmocka_unit_test(test_rotated_chunks_are_one_recording),
        cmocka_unit_test(test_unreadable_input_is_status_2),
        cmocka_unit_test(test_finish_twice_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
