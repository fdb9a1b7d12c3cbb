/*
 * Goal:   false-progress is found when a handler's polls claim progress and nothing is consumed, and not when it is.
 * Method: rows of polls as text, with what a pass may consume after each; with and without recorded requests.
 * Breaks: a loop burns a processor on nothing and nobody says so, or polling at 100 % that pays is blamed.
 *
 * Thread 12 on processor 1 runs iothread0 (loop 3); handler 7 is queue 0 of device 5.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed.h"

#define NO_REQUESTS (FEED_ALL_SETS & ~(1u << SET_REQUEST))

static struct feed *begin(unsigned sets)
{
    struct feed *f = feed_create(sets);

    feed(f, feed_baseline);
    feed(f, "1.5 12@1 rt_loop:fd_attach loop_id=3 handler_id=40 fd=60 role=5\n"
            "1.5 12@1 rt_loop:fd_attach loop_id=3 handler_id=41 fd=61 role=4\n");
    return f;
}

static void expect(struct feed *f, const char *findings, const char *inconclusive)
{
    assert_string_equal(feed_findings(f), findings);
    assert_string_equal(feed_inconclusive(f), inconclusive);
    feed_destroy(f);
}

/* @count polls from 2 s on, 1 ms apart, each ended by @handler_id; then, each @every-th time, @after. */
static void polls(struct feed *f, int count, int handler_id, int every, const char *after)
{
    for (int i = 0; i < count; i++) {
        const double at_s = 2 + i * 0.001;

        feed_format(f, "%.4f 12@1 rt_loop:poll_begin loop_id=3 poll_max_ns=32000 timeout_ns=-1", at_s);
        feed_format(f, "%.4f 12@1 rt_loop:poll_end loop_id=3 progress=1 handler_id=%d", at_s + 0.0002,
                    handler_id);
        if (every && i % every == every - 1)
            feed_format(f, "%.4f %s", at_s + 0.0004, after);
    }
    feed_format(f, "%.4f 12@1 rt_loop:poll_begin loop_id=3 poll_max_ns=32000 timeout_ns=-1",
                2 + count * 0.001);
}

static void test_found(void **state)
{
    struct feed *f = begin(FEED_ALL_SETS);
    json_t *finding, *subject;

    polls(f, 2500, 7, 0, NULL);
    feed_end(f, 9);
    finding = feed_finding(f, "false-progress");
    subject = json_object_get(finding, "subject");
    assert_string_equal(json_text_of(finding, "severity"), "warning");
    assert_int_equal(json_number_of(finding, "count"), 2000); /* whole rows */
    assert_int_equal(json_number_of(subject, "handler_id"), 7);
    assert_int_equal(json_number_of(subject, "queue_index"), 0);
    assert_string_equal(json_text_of(subject, "loop"), "iothread0");
    expect(f, "false-progress", "");
}

static void test_found_though_its_handler_runs_for_nothing(void **state)
{
    struct feed *f = begin(FEED_ALL_SETS);

    polls(f, 1500, 7, 1, "12@1 rt_loop:fd_dispatch loop_id=3 handler_id=7 fd=30 progress=0");
    feed_end(f, 9);
    expect(f, "false-progress", ""); /* and not unread-fd: its descriptor is not ready */
}

static void test_found_though_others_work(void **state)
{
    struct feed *f = begin(FEED_ALL_SETS);

    polls(f, 1500, 7, 1, "13@2 vblk_request:begin request_id=9 device_id=6 queue_index=0 head=1 loop_id=4");
    feed_end(f, 9);
    expect(f, "false-progress", "");
}

static void test_found_when_notified_is_never_cleared(void **state)
{
    struct feed *f = begin(FEED_ALL_SETS);

    polls(f, 1500, 0, 0, NULL);
    feed_end(f, 9);
    expect(f, "false-progress", "");
}

static void test_silent_when_something_is_consumed(void **state)
{
    static const struct {
        int handler_id, every;
        const char *after;
    } cases[] = {
        { 7, 1, "12@1 vblk_request:begin request_id=9 device_id=5 queue_index=0 head=1 loop_id=3" },
        { 7, 900, "12@1 vblk_request:begin request_id=9 device_id=5 queue_index=0 head=1 loop_id=3" },
        { 40, 1, "12@1 vblk_request:complete request_id=9" },
        { 40, 1, "12@1 rt_loop:fd_dispatch loop_id=3 handler_id=40 fd=60 progress=1" },
        { 0, 1, "12@1 rt_loop:work_run loop_id=3 count=1" },
        { 0, 1, "12@1 rt_loop:notify_accept loop_id=3 was_notified=1" }, /* a timer that was armed */
        { 2, 1, "12@1 rt_loop:notify_accept loop_id=3 was_notified=1" }, /* by the wake-up handler */
        { 7, 900, "12@1 rt_loop:poll_end loop_id=3 progress=0" },
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct feed *f = begin(FEED_ALL_SETS);

        polls(f, 1500, cases[i].handler_id, cases[i].every, cases[i].after);
        feed_end(f, 9);
        if (strstr(feed_findings(f), "false-progress"))
            fail_msg("case %u", i);
        feed_destroy(f);
    }
}

static void test_silent_below_the_limit(void **state)
{
    struct feed *f = begin(FEED_ALL_SETS);

    polls(f, 999, 7, 0, NULL);
    feed_end(f, 9);
    expect(f, "", "");
}

/* A timer each millisecond that each poll waits out, or that is found just before. */
static void test_silent_when_timers_expire(void **state)
{
    for (int early_us = 0; early_us <= 100; early_us += 100) {
        struct feed *f = begin(FEED_ALL_SETS);

        for (int i = 0; i < 1500; i++) {
            feed_format(f, "%.6f 12@1 rt_loop:poll_begin loop_id=3 timeout_ns=900000", 2 + i * 0.001);
            feed_format(f, "%.6f 12@1 rt_loop:poll_end loop_id=3 progress=1 handler_id=0",
                        2 + i * 0.001 + 0.000901 - early_us * 0.000001);
        }
        feed_end(f, 9);
        expect(f, "", "");
    }
}

static void test_spinning_descriptors_are_other_findings(void **state)
{
    struct feed *f = begin(FEED_ALL_SETS);

    polls(f, 1500, 41, 1, "12@1 rt_loop:fd_dispatch loop_id=3 handler_id=41 fd=61 progress=0");
    feed_end(f, 9);
    expect(f, "unread-fd", "");

    f = begin(FEED_ALL_SETS);
    feed(f, "1.6 12@1 vblk_dataplane:notifier_detach device_id=5 queue_index=0 fd=30 loop_id=3\n");
    polls(f, 1500, 7, 1, "12@1 rt_loop:fd_dispatch loop_id=3 handler_id=7 fd=30 progress=0");
    feed_end(f, 9);
    expect(f, "stale-fd", "");
}

/* A round of samples each 200 ms; the queue moves by @pops in each. */
static void sampled_polls(struct feed *f, int rounds, int pops)
{
    for (int i = 0; i < rounds; i++) {
        feed_format(f, "%.4f 19@3 rt_loop:sample loop_id=3\n", 2 + i * 0.2);
        feed_format(f, "%.4f 19@3 vblk_queue:sample device_id=5 queue_index=0 pops=%d", 2 + i * 0.2,
                    100 + i * pops);
        for (int j = 0; j < 150; j++) {
            feed_format(f, "%.4f 12@1 rt_loop:poll_begin loop_id=3 timeout_ns=-1",
                        2 + i * 0.2 + j * 0.001 + 0.001);
            feed_format(f, "%.4f 12@1 rt_loop:poll_end loop_id=3 progress=1 handler_id=7",
                        2 + i * 0.2 + j * 0.001 + 0.0015);
        }
    }
}

static void test_without_recorded_requests(void **state)
{
    struct feed *f = begin(NO_REQUESTS);

    sampled_polls(f, 20, 0);
    feed_end(f, 9);
    expect(f, "false-progress", "");

    f = begin(NO_REQUESTS);
    sampled_polls(f, 20, 1);
    feed_end(f, 9);
    expect(f, "", "");

    f = begin(NO_REQUESTS);
    polls(f, 1500, 7, 0, NULL); /* no samples: who knows */
    feed_end(f, 9);
    expect(f, "", "");
}

/* Without thread context requests still say in which loop they began: another loop's are no sign of life of this one. */
static void test_requests_of_another_loop_without_context(void **state)
{
    struct feed *f = begin(FEED_ALL_SETS);

    for (int i = 0; i < 1100; i++) {
        feed_format(f, "%.4f -@1 rt_loop:poll_begin loop_id=3 poll_max_ns=32000 timeout_ns=-1", 2 + i * 0.001);
        feed_format(f, "%.4f -@1 rt_loop:poll_end loop_id=3 progress=1 handler_id=7", 2.0002 + i * 0.001);
        feed_format(f, "%.4f -@1 vblk_request:begin request_id=%d device_id=6 head=%d loop_id=4", 2.0003 + i * 0.001,
                    i + 1, i % 8);
        feed_format(f, "%.4f -@1 vblk_request:complete request_id=%d", 2.0004 + i * 0.001, i + 1);
        feed_format(f, "%.4f -@1 vblk_request:end request_id=%d", 2.0004 + i * 0.001, i + 1);
        feed_format(f, "%.4f -@1 vblk_queue:interrupt device_id=6", 2.0004 + i * 0.001);
    }
    feed_end(f, 9);
    expect(f, "false-progress", "");
}

static void test_skipped_without_its_set(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, feed_baseline);
    feed_end(f, 9);
    assert_non_null(strstr(feed_skipped(f), "false-progress"));
    expect(f, "", "");
}

static void test_losses(void **state)
{
    struct feed *f = begin(FEED_ALL_SETS);

    polls(f, 1500, 7, 0, NULL);
    feed_loss(f, 1, 2.5, 2.6);
    feed_end(f, 9);
    expect(f, "events-lost", "false-progress");

    f = begin(FEED_ALL_SETS);
    polls(f, 2500, 7, 0, NULL);
    feed_loss(f, 1, 2.5, 2.6);
    feed_end(f, 9);
    expect(f, "events-lost false-progress", ""); /* the second row is whole */

    f = begin(FEED_ALL_SETS);
    polls(f, 1500, 7, 0, NULL);
    feed_loss(f, 2, 2.5, 2.6);
    feed_end(f, 9);
    expect(f, "events-lost false-progress", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_found_though_its_handler_runs_for_nothing),
        cmocka_unit_test(test_found_though_others_work),
        cmocka_unit_test(test_found_when_notified_is_never_cleared),
        cmocka_unit_test(test_silent_when_something_is_consumed),
        cmocka_unit_test(test_silent_below_the_limit),
        cmocka_unit_test(test_silent_when_timers_expire),
        cmocka_unit_test(test_spinning_descriptors_are_other_findings),
        cmocka_unit_test(test_without_recorded_requests),
        cmocka_unit_test(test_requests_of_another_loop_without_context),
        cmocka_unit_test(test_skipped_without_its_set),
        cmocka_unit_test(test_losses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
