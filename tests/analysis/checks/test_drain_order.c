/*
 * Goal:   every breach of the order of drains, start and stop is found; drains done right, late, nested or open are not.
 * Method: events as text after a whole baseline (device 5 is started); losses where a begin or a change could hide.
 * Breaks: the cause of a stale descriptor or of a use after a drain stays unknown.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed.h"

static struct feed *begin(void)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, feed_baseline);
    return f;
}

static void expect(struct feed *f, const char *findings, const char *inconclusive)
{
    assert_string_equal(feed_findings(f), findings);
    assert_string_equal(feed_inconclusive(f), inconclusive);
    feed_destroy(f);
}

static void expect_cause(struct feed *f, const char *cause, int count)
{
    json_t *finding = feed_finding(f, "drain-order");

    assert_string_equal(json_text_of(finding, "severity"), "error");
    assert_string_equal(json_text_of(finding, "cause"), cause);
    assert_int_equal(json_number_of(finding, "count"), count);
    assert_int_equal(json_number_of(json_object_get(finding, "subject"), "device_id"), 5);
    assert_string_equal(feed_inconclusive(f), "");
    feed_destroy(f);
}

#define STOPPING "2.0 11@0 vblk_dataplane:state device_id=5 old_state=2 new_state=3\n"
#define DRAIN_BEGIN "2.1 11@0 vblk_dataplane:drain_begin device_id=5 depth=1 in_flight=0 state=3\n"
#define DRAIN_END "2.3 11@0 vblk_dataplane:drain_end device_id=5 depth=1 in_flight=0 state=3\n"
#define DETACH                                                                                               \
    "2.2 11@0 vblk_dataplane:notifier_detach device_id=5 queue_index=0 fd=30 loop_id=3\n"                    \
    "2.2 11@0 rt_loop:fd_detach loop_id=3 handler_id=7 fd=30\n"

static void test_drain_detaches_in_stop(void **state)
{
    struct feed *f = begin();

    feed(f, STOPPING DRAIN_BEGIN DETACH DRAIN_END);
    feed_end(f, 9);
    expect_cause(f, "drain nested in stop", 1);
}

static void test_drain_attaches_in_start(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, "1.0 11@0 vblk_dataplane:state device_id=5 old_state=0 new_state=1\n"
            "1.1 11@0 vblk_dataplane:drain_begin device_id=5 depth=1 in_flight=0 state=1\n"
            "1.2 11@0 rt_loop:fd_attach loop_id=2 handler_id=20 fd=30 role=2 device_id=5 queue_index=0\n"
            "1.2 11@0 vblk_dataplane:notifier_attach device_id=5 queue_index=0 fd=30 loop_id=2\n"
            "1.3 11@0 rt_loop:fd_attach loop_id=2 handler_id=21 fd=31 role=2 device_id=5 queue_index=1\n"
            "1.4 11@0 vblk_dataplane:drain_end device_id=5 depth=1 in_flight=0 state=1\n");
    feed_end(f, 1.4001);
    expect_cause(f, "drain nested in start", 2);
}

static void test_ends_with_requests_in_flight(void **state)
{
    struct feed *f = begin();

    feed(f, "2 11@0 vblk_dataplane:drain_begin device_id=5 depth=1 in_flight=3 state=2\n"
            "3 11@0 vblk_dataplane:drain_end device_id=5 depth=1 in_flight=2 state=2\n");
    feed_end(f, 9);
    expect_cause(f, "requests in flight", 1);
}

static void test_end_without_begin(void **state)
{
    struct feed *f = begin();

    feed(f, "2 11@0 vblk_dataplane:drain_end device_id=5 depth=1 in_flight=0 state=2\n");
    feed_end(f, 9);
    expect_cause(f, "end without begin", 1);
}

static void test_one_end_too_many(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, "2 11@0 vblk_dataplane:drain_begin device_id=5 depth=1 in_flight=0 state=2\n"
            "3 11@0 vblk_dataplane:drain_end device_id=5 depth=1 in_flight=0 state=2\n"
            "4 12@1 vblk_dataplane:drain_end device_id=5 depth=1 in_flight=0 state=2\n");
    feed_end(f, 9);
    expect_cause(f, "end without begin", 1);
}

static void test_change_that_does_not_exist(void **state)
{
    struct feed *f = begin();

    feed(f, "2 11@0 vblk_dataplane:state device_id=5 old_state=2 new_state=0\n");
    feed_end(f, 9);
    assert_non_null(strstr(feed_findings(f), "drain-order"));
    expect_cause(f, "impossible state change", 1);
}

static void test_stop_overtakes_start(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, "1 11@0 vblk_dataplane:state device_id=5 old_state=0 new_state=1\n"
            "2 12@1 vblk_dataplane:state device_id=5 old_state=2 new_state=3\n");
    feed_end(f, 9);
    expect_cause(f, "impossible state change", 1);
}

static void test_every_change_that_exists_is_silent(void **state)
{
    static const int changes[][2] = { { 0, 1 }, { 1, 2 }, { 2, 3 }, { 3, 0 }, { 0, 1 },
                                      { 1, 4 }, { 4, 1 }, { 1, 4 }, { 4, 0 }, { 0, 1 } };
    struct feed *f = feed_create(FEED_CORE_ONLY);

    for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        feed_format(f, "%u 11@0 vblk_dataplane:state device_id=5 old_state=%d new_state=%d", i + 1,
                    changes[i][0], changes[i][1]);
    feed_end(f, 20);
    expect(f, "", "");
}

static void test_silent_on_drain_alone(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 11@0 vblk_dataplane:drain_begin device_id=5 depth=1 in_flight=7 state=2\n"
            "2.1 11@0 vblk_dataplane:notifier_detach device_id=5 queue_index=0 fd=30 loop_id=3\n"
            "2.1 11@0 rt_loop:fd_detach loop_id=3 handler_id=7 fd=30\n"
            "2.2 11@0 vblk_dataplane:drain_begin device_id=5 depth=2 in_flight=7 state=2\n"
            "2.3 11@0 vblk_dataplane:drain_end device_id=5 depth=2 in_flight=7 state=2\n"
            "5.0 11@0 rt_loop:fd_attach loop_id=3 handler_id=20 fd=30 role=2 device_id=5 queue_index=0\n"
            "5.0 11@0 vblk_dataplane:notifier_attach device_id=5 queue_index=0 fd=30 loop_id=3\n"
            "5.1 11@0 vblk_dataplane:drain_end device_id=5 depth=1 in_flight=0 state=2\n");
    feed_end(f, 9);
    expect(f, "", "");
}

static void test_silent_on_stop_that_detaches_in_the_loops_thread(void **state)
{
    /* Thread 11 drains while 12, the loop's own, detaches for stop. */
    struct feed *f = begin();

    feed(f, STOPPING DRAIN_BEGIN
         "2.2 12@1 vblk_dataplane:notifier_detach device_id=5 queue_index=0 fd=30 loop_id=3\n"
         "2.2 12@1 rt_loop:fd_detach loop_id=3 handler_id=7 fd=30\n" DRAIN_END);
    feed_end(f, 9);
    expect(f, "", "");
}

static void test_silent_on_other_descriptors(void **state)
{
    struct feed *f = begin();

    feed(f, STOPPING DRAIN_BEGIN
         "2.2 11@0 rt_loop:fd_attach loop_id=2 handler_id=20 fd=60 role=5 device_id=5\n" DRAIN_END);
    feed_end(f, 9);
    expect(f, "", "");
}

static void test_silent_on_drain_open_at_both_ends(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, "1.0 19@3 rt_process:baseline_begin serial=1\n"
            "1.1 19@3 vblk_dataplane:drain_begin device_id=5 depth=2 in_flight=4 state=2\n"
            "1.2 19@3 rt_process:baseline_end serial=1\n"
            "2.0 11@0 vblk_dataplane:drain_end device_id=5 depth=2 in_flight=3 state=2\n"
            "2.1 12@1 vblk_dataplane:drain_end device_id=5 depth=1 in_flight=0 state=2\n"
            "3.0 11@0 vblk_dataplane:drain_begin device_id=5 depth=1 in_flight=4 state=2\n");
    feed_end(f, 9);
    expect(f, "", "");
}

static void test_silent_without_baseline(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, "2 11@0 vblk_dataplane:drain_end device_id=5 depth=1 in_flight=0 state=2\n"
            "3 11@0 vblk_dataplane:state device_id=5 old_state=2 new_state=3\n");
    feed_end(f, 9);
    expect(f, "", "");
}

static void test_second_baseline_changes_nothing(void **state)
{
    /* The sampler read the state before the change, and told it after. */
    struct feed *f = begin();

    feed(f, "2.0 19@3 rt_process:baseline_begin serial=2\n"
            "2.1 11@0 vblk_dataplane:state device_id=5 old_state=2 new_state=3\n"
            "2.2 19@3 vblk_dataplane:state device_id=5 old_state=2 new_state=2\n"
            "2.3 19@3 rt_process:baseline_end serial=2\n"
            "2.4 12@1 rt_loop:fd_detach loop_id=3 handler_id=7 fd=30\n"
            "2.4 12@1 rt_loop:fd_detach loop_id=3 handler_id=8 fd=31\n"
            "2.5 11@0 vblk_dataplane:state device_id=5 old_state=3 new_state=0\n");
    feed_end(f, 9);
    expect(f, "", "");
}

static void test_unsure_when_the_begin_may_be_lost(void **state)
{
    struct feed *f = begin();

    feed_loss(f, 0, 1.5, 1.6);
    feed(f, "2 11@0 vblk_dataplane:drain_end device_id=5 depth=1 in_flight=0 state=2\n");
    feed_end(f, 9);
    expect(f, "events-lost", "drain-order");
}

static void test_unsure_when_a_change_may_be_lost(void **state)
{
    struct feed *f = begin();

    feed_loss(f, 0, 1.5, 1.6);
    feed(f, "2 11@0 vblk_dataplane:state device_id=5 old_state=3 new_state=0\n"
            "2 12@1 rt_loop:fd_detach loop_id=3 handler_id=7 fd=30\n"
            "2 12@1 rt_loop:fd_detach loop_id=3 handler_id=8 fd=31\n");
    feed_end(f, 9);
    expect(f, "events-lost", "drain-order");
}

static void test_stands_when_events_were_lost_before(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed_loss(f, 0, 1, 1.5);
    feed(f, "2 11@0 vblk_dataplane:drain_begin device_id=5 depth=1 in_flight=0 state=2\n"
            "3 11@0 vblk_dataplane:drain_end device_id=5 depth=1 in_flight=0 state=2\n"
            "4 11@0 vblk_dataplane:drain_end device_id=5 depth=1 in_flight=0 state=2\n");
    feed_end(f, 9);
    expect(f, "drain-order events-lost", "");
}

static void test_stands_when_another_thread_lost_events(void **state)
{
    struct feed *f = begin();

    feed_loss(f, 2, 1.5, 1.6);
    feed(f, "1.2 13@2 rt_loop:sample loop_id=4\n"
            "2 11@0 vblk_dataplane:drain_end device_id=5 depth=1 in_flight=0 state=2\n");
    feed_end(f, 9);
    expect(f, "drain-order events-lost", "");
}

static void test_who_changes_states(void **state)
{
    static const char start_and_stop[] = "1 11@0 vblk_dataplane:state device_id=5 old_state=0 new_state=1\n"
                                         "1 13@2 rt_loop:sample loop_id=4\n"
                                         "2 12@1 vblk_dataplane:state device_id=5 old_state=2 new_state=3\n";

    /* the starter, the stopper, another one */
    for (unsigned cpu = 0; cpu < 3; cpu++) {
        struct feed *f = feed_create(FEED_CORE_ONLY);

        feed_loss(f, cpu, 1.5, 1.6);
        feed(f, start_and_stop);
        feed_end(f, 9);
        expect(f, cpu < 2 ? "events-lost" : "drain-order events-lost", cpu < 2 ? "drain-order" : "");
    }
}

static void test_unsure_when_a_nested_drain_has_a_gap(void **state)
{
    struct feed *f = begin();

    feed(f, "1.9 12@1 rt_loop:fd_detach loop_id=3 handler_id=7 fd=30\n"
            "1.9 12@1 rt_loop:fd_detach loop_id=3 handler_id=8 fd=31\n" STOPPING DRAIN_BEGIN DRAIN_END
            "2.4 11@0 vblk_dataplane:state device_id=5 old_state=3 new_state=0\n");
    feed_loss(f, 0, 2.15, 2.2);
    feed_end(f, 9);
    expect(f, "events-lost", "drain-order");
}

static void test_silent_when_the_gap_is_not_the_drainers(void **state)
{
    struct feed *f = begin();

    feed(f, "1.9 12@1 rt_loop:fd_detach loop_id=3 handler_id=7 fd=30\n"
            "1.9 12@1 rt_loop:fd_detach loop_id=3 handler_id=8 fd=31\n" STOPPING DRAIN_BEGIN DRAIN_END
            "2.4 11@0 vblk_dataplane:state device_id=5 old_state=3 new_state=0\n");
    feed_loss(f, 2, 2.15, 2.2);
    feed_end(f, 9);
    expect(f, "events-lost", "");
}

static void test_unsure_without_thread_context(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, "1.0 -@0 vblk_dataplane:state device_id=5 old_state=0 new_state=1\n"
            "1.1 -@0 vblk_dataplane:drain_begin device_id=5 depth=1 in_flight=0 state=1\n"
            "1.2 -@0 vblk_dataplane:notifier_attach device_id=5 queue_index=0 fd=30 loop_id=2\n"
            "1.3 -@0 vblk_dataplane:drain_end device_id=5 depth=1 in_flight=0 state=1\n");
    feed_end(f, 9);
    expect(f, "", "drain-order");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drain_detaches_in_stop),
        cmocka_unit_test(test_drain_attaches_in_start),
        cmocka_unit_test(test_ends_with_requests_in_flight),
        cmocka_unit_test(test_end_without_begin),
        cmocka_unit_test(test_one_end_too_many),
        cmocka_unit_test(test_change_that_does_not_exist),
        cmocka_unit_test(test_stop_overtakes_start),
        cmocka_unit_test(test_every_change_that_exists_is_silent),
        cmocka_unit_test(test_silent_on_drain_alone),
        cmocka_unit_test(test_silent_on_stop_that_detaches_in_the_loops_thread),
        cmocka_unit_test(test_silent_on_other_descriptors),
        cmocka_unit_test(test_silent_on_drain_open_at_both_ends),
        cmocka_unit_test(test_silent_without_baseline),
        cmocka_unit_test(test_second_baseline_changes_nothing),
        cmocka_unit_test(test_unsure_when_the_begin_may_be_lost),
        cmocka_unit_test(test_unsure_when_a_change_may_be_lost),
        cmocka_unit_test(test_stands_when_events_were_lost_before),
        cmocka_unit_test(test_stands_when_another_thread_lost_events),
        cmocka_unit_test(test_who_changes_states),
        cmocka_unit_test(test_unsure_when_a_nested_drain_has_a_gap),
        cmocka_unit_test(test_silent_when_the_gap_is_not_the_drainers),
        cmocka_unit_test(test_unsure_without_thread_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
