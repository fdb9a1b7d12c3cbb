/*
 * Goal:   deaf-queue is found where requests wait that nobody will be told of, and nowhere else.
 * Method: samples of a ring next to what its loop does, as text; losses in each stream that could hide an end.
 * Breaks: a guest's disk hangs without CPU use and without an error, or an idle disk is called hung.
 *
 * Thread 12 on processor 1 runs iothread0 (loop 3) with queue 0 of device 5; thread 19 on processor 3 samples.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed.h"

#define OFF "12@1 vblk_queue:notifications device_id=5 queue_index=0 enabled=0 reason=1\n"
#define ON "12@1 vblk_queue:notifications device_id=5 queue_index=0 enabled=1 reason=2\n"
#define SLEEP "12@1 rt_loop:wait_begin loop_id=3 timeout_ns=-1\n"
#define WAKE "12@1 rt_loop:wait_end loop_id=3 ready_count=1\n"
#define WAITING                                                                                              \
    "19@3 vblk_queue:sample device_id=5 queue_index=0 avail_index=12 popped_index=10 pops=10 "               \
    "notifications_enabled=0\n"
#define IDLE "19@3 vblk_queue:sample device_id=5 queue_index=0 avail_index=10 popped_index=10 pops=10\n"
#define PASSES "19@3 rt_loop:sample loop_id=3 passes=77\n"

static struct feed *begin(void)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    return f;
}

static void expect(struct feed *f, const char *findings, const char *inconclusive)
{
    assert_string_equal(feed_findings(f), findings);
    assert_string_equal(feed_inconclusive(f), inconclusive);
    feed_destroy(f);
}

static void test_found(void **state)
{
    struct feed *f = begin();
    json_t *finding, *subject;

    feed(f, "2.0 " OFF "2.1 " SLEEP "2.5 " WAITING "3.5 " WAITING);
    feed_end(f, 9);
    finding = feed_finding(f, "deaf-queue");
    subject = json_object_get(finding, "subject");
    assert_string_equal(json_text_of(finding, "severity"), "error");
    assert_int_equal(json_number_of(finding, "begin_ns"), 2500000000);
    assert_int_equal(json_number_of(finding, "end_ns"), 9000000000);
    assert_int_equal(json_number_of(finding, "count"), 1);
    assert_int_equal(json_number_of(subject, "device_id"), 5);
    assert_int_equal(json_number_of(subject, "queue_index"), 0);
    assert_string_equal(json_text_of(subject, "loop"), "iothread0");
    assert_non_null(strstr(json_text_of(finding, "summary"), "2 requests wait"));
    expect(f, "deaf-queue", "");
}

static void test_found_when_it_was_attached_anew_without(void **state)
{
    struct feed *f = begin();

    feed(f, "1.9 " OFF "2.0 11@0 vblk_dataplane:drain_begin device_id=5 depth=1 state=2\n"
            "2.1 11@0 vblk_dataplane:notifier_detach device_id=5 queue_index=0 fd=30 loop_id=3\n"
            "2.1 11@0 rt_loop:fd_detach loop_id=3 handler_id=7 fd=30\n"
            "2.2 11@0 rt_loop:fd_attach loop_id=3 handler_id=9 fd=30 role=2 device_id=5 queue_index=0\n"
            "2.2 11@0 vblk_dataplane:notifier_attach device_id=5 queue_index=0 fd=30 loop_id=3\n"
            "2.2 11@0 vblk_dataplane:drain_end device_id=5 depth=1 state=2\n"
            "2.3 " SLEEP "2.5 " WAITING);
    feed_end(f, 9);
    expect(f, "deaf-queue", "");
}

static void test_found_though_it_woke_in_the_end(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " OFF "2.1 " SLEEP "2.5 " WAITING "3.6 " WAKE);
    feed_end(f, 9);
    assert_int_equal(json_number_of(feed_finding(f, "deaf-queue"), "end_ns"), 3600000000);
    expect(f, "deaf-queue", "");
}

/* Another queue in the same loop goes on: the loop wakes and sleeps again, and nobody looks at this ring. */
static void test_found_though_a_neighbour_wakes_the_loop(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " OFF "2.1 " SLEEP "2.4 " WAKE "2.4 " SLEEP "2.5 " WAITING "2.9 " WAKE "2.9 " SLEEP "3.5 " WAITING
            "3.9 " WAKE "4.0 " SLEEP "4.4 " WAKE "4.5 " WAITING "4.6 " SLEEP "5.5 " WAITING);
    feed_end(f, 9);
    assert_int_equal(json_number_of(feed_finding(f, "deaf-queue"), "begin_ns"), 2500000000);
    assert_int_equal(json_number_of(feed_finding(f, "deaf-queue"), "end_ns"), 9000000000);
    assert_int_equal(json_number_of(feed_finding(f, "deaf-queue"), "count"), 1);
    expect(f, "deaf-queue", "");
}

/* A handler holds the loop; the queue's turn comes when it ends. */
static void test_silent_when_the_loop_is_held(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " ON "2.1 " SLEEP "2.49 " WAKE "2.49 " OFF "2.5 " WAITING "3.5 " WAITING "4.5 " WAITING
            "4.7 12@1 rt_loop:wait_begin loop_id=3 timeout_ns=0\n4.7 " WAKE "4.8 " SLEEP "5.5 " IDLE);
    feed_end(f, 9);
    expect(f, "", "");
}

static void test_found_in_a_sleep_from_before_the_recording(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 19@3 rt_process:baseline_begin serial=2\n"
            "2.0 19@3 rt_loop:state loop_id=3 notify_me=1 waiting=1 waiting_ns=9000000000 timeout_ns=-1\n"
            "2.0 " WAITING "2.0 19@3 rt_process:baseline_end serial=2\n");
    feed_end(f, 4);
    expect(f, "deaf-queue", "");
}

static void test_look_alikes_are_silent(void **state)
{
    static const char *const orders[] = {
        /* the guest posts nothing */
        "2.0 " OFF "2.1 " SLEEP "2.5 " IDLE "3.5 " IDLE,
        /* the loop polls, or is busy */
        "2.0 " OFF "2.1 12@1 rt_loop:poll_begin loop_id=3 timeout_ns=-1\n2.5 " WAITING "4.5 " WAITING,
        /* it sleeps until a timer */
        "2.0 " OFF "2.1 12@1 rt_loop:wait_begin loop_id=3 timeout_ns=30000000000\n2.5 " WAITING
        "4.5 " WAITING,
        /* notifications are on: the kick is on its way */
        "2.0 " ON "2.1 " SLEEP "2.5 19@3 vblk_queue:sample device_id=5 queue_index=0 avail_index=12 "
        "popped_index=10 notifications_enabled=1\n",
        /* a recording without the sample's field: the events say that they are on */
        "2.0 " ON "2.1 " SLEEP "2.5 " WAITING,
        /* turned on in time, and attached anew in time */
        "2.0 " OFF "2.1 " SLEEP "2.5 " WAITING "3.4 " ON,
        "2.0 " OFF "2.1 " SLEEP "2.5 " WAITING "3.4 " WAKE "3.5 " SLEEP,
        "2.0 " OFF "2.1 " SLEEP "2.5 " WAITING "3.4 " IDLE,
        /* detached on purpose, in a drain or for good */
        "2.0 11@0 vblk_dataplane:notifier_detach device_id=5 queue_index=0 fd=30 loop_id=3\n2.0 " OFF
        "2.1 " SLEEP "2.5 " WAITING "3.5 " WAITING,
        "2.0 11@0 vblk_dataplane:drain_begin device_id=5 depth=1 state=2\n2.0 " OFF "2.1 " SLEEP
        "2.5 " WAITING "4.5 " WAITING
        "5 11@0 vblk_dataplane:drain_end device_id=5 depth=1 state=2\n5.1 " IDLE,
        "2.0 " OFF "2.1 " SLEEP "2.5 " WAITING
        "3.4 11@0 vblk_dataplane:drain_begin device_id=5 depth=1 state=2\n",
    };

    for (unsigned i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        struct feed *f = begin();

        feed(f, orders[i]);
        feed_end(f, 9);
        if (strstr(feed_findings(f), "deaf-queue") || strstr(feed_inconclusive(f), "deaf-queue"))
            fail_msg("order %u: %s / %s", i, feed_findings(f), feed_inconclusive(f));
        feed_destroy(f);
    }
}

static void test_broken_queue(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " OFF "2.1 " SLEEP "2.2 12@1 vblk_queue:broken device_id=5 queue_index=0\n2.5 " WAITING);
    feed_end(f, 9);
    expect(f, "queue-broken", "");
}

static void test_found_after_a_broken_queue_was_set_up_anew(void **state)
{
    struct feed *f = begin();

    feed(f, "1.3 12@1 vblk_queue:broken device_id=5 queue_index=0\n"
            "1.5 12@1 vblk_dataplane:notifier_assign device_id=5 queue_index=0 fd=30\n"
            "2.0 " OFF "2.1 " SLEEP "2.5 " WAITING "4 " WAITING);
    feed_end(f, 9);
    expect(f, "deaf-queue queue-broken", "");
}

static void test_needs_its_set(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, feed_baseline);
    feed_end(f, 9);
    assert_non_null(strstr(feed_skipped(f), "deaf-queue"));
    expect(f, "", "");
}

static void with_loss(const char *events, unsigned cpu, double begin_s, double end_s, const char *findings,
                      const char *inconclusive)
{
    struct feed *f = begin();

    feed(f, "1.5 11@0 vblk_dataplane:drain_begin device_id=5 depth=1 state=2\n"
            "1.6 11@0 vblk_dataplane:drain_end device_id=5 depth=1 state=2\n");
    feed(f, events);
    feed_loss(f, cpu, begin_s, end_s);
    feed_end(f, 9);
    expect(f, findings, inconclusive);
}

static void test_losses(void **state)
{
    const char *deaf = "1.9 " OFF "2.1 " SLEEP "2.5 " WAITING "3.5 " WAITING;

    with_loss(deaf, 1, 2.7, 2.8, "events-lost", "deaf-queue");  /* it may have woken */
    with_loss(deaf, 0, 2.7, 2.8, "events-lost", "deaf-queue");  /* who drained may have drained again */
    with_loss(deaf, 2, 2.7, 2.8, "deaf-queue events-lost", ""); /* another thread */
    with_loss(deaf, 1, 1.7, 1.8, "deaf-queue events-lost", ""); /* before */
    with_loss(deaf, 1, 4.0, 9.0, "deaf-queue events-lost", ""); /* long enough by then */
}

static void test_passes_prove_the_sleep(void **state)
{
    with_loss("1.9 " OFF "2.1 " SLEEP "2.5 " WAITING "3.5 " PASSES "3.5 " WAITING "4.6 " PASSES
              "4.6 " WAITING,
              1, 2.7, 2.8, "deaf-queue events-lost", "");
}

static void test_sleep_may_be_lost(void **state)
{
    with_loss("1.9 " OFF "2.0 " WAKE "2.5 " WAITING "3.6 " WAITING, 1, 2.1, 2.6, "events-lost", "deaf-queue");
}

static void test_samples_may_be_lost(void **state)
{
    with_loss("1.9 " OFF "1.95 " IDLE "2.0 " SLEEP, 3, 2.1, 9, "events-lost", "deaf-queue");
}

static void test_without_baseline(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, "1 " SLEEP "2 " WAITING "3.1 " WAITING);
    feed_end(f, 9);
    expect(f, "", "deaf-queue");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_found_when_it_was_attached_anew_without),
        cmocka_unit_test(test_found_though_it_woke_in_the_end),
        cmocka_unit_test(test_found_though_a_neighbour_wakes_the_loop),
        cmocka_unit_test(test_silent_when_the_loop_is_held),
        cmocka_unit_test(test_found_in_a_sleep_from_before_the_recording),
        cmocka_unit_test(test_look_alikes_are_silent),
        cmocka_unit_test(test_broken_queue),
        cmocka_unit_test(test_found_after_a_broken_queue_was_set_up_anew),
        cmocka_unit_test(test_needs_its_set),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_passes_prove_the_sleep),
        cmocka_unit_test(test_sleep_may_be_lost),
        cmocka_unit_test(test_samples_may_be_lost),
        cmocka_unit_test(test_without_baseline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
