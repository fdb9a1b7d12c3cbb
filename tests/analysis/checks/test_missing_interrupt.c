/*
 * Goal:   completions that no interrupt follows are reported; deferred, suppressed and covered ones, and stops, are not.
 * Method: ends and interrupts of a queue with known gaps.
 * Breaks: a guest that sleeps for ever is not explained, or a driver that wants no interrupts raises an alarm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "feed/feed.h"

#define DONE(time, id)                                                                                       \
    time " 12@1 vblk_request:begin request_id=" id " device_id=5 queue_index=1 head=" id " loop_id=3\n" time \
         " 12@1 vblk_request:end request_id=" id "\n"
#define INTERRUPT(time, suppressed)                                                                          \
    time " 12@1 vblk_queue:interrupt device_id=5 queue_index=1 suppressed=" suppressed "\n"
#define ALIVE(time) time " 19@3 rt_process:vma_sample vma_count=1\n"

static struct feed *run(const char *lines)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    feed(f, lines);
    return f;
}

static void expect(struct feed *f, const char *verdict)
{
    feed_end(f, 19);
    assert_string_equal(feed_verdict(f), verdict);
    feed_destroy(f);
}

static void test_last_batch(void **state)
{
    struct feed *f = run(DONE("2", "1") INTERRUPT("2", "0") DONE("3", "2") DONE("3", "3") ALIVE("8"));
    json_t *finding, *subject;

    feed_end(f, 19);
    finding = feed_finding(f, "missing-interrupt");
    subject = json_object_get(finding, "subject");
    assert_string_equal(json_text_of(finding, "severity"), "error");
    assert_int_equal(json_number_of(finding, "count"), 2);
    assert_int_equal(json_number_of(finding, "begin_ns"), 3000000000);
    assert_int_equal(json_number_of(subject, "device_id"), 5);
    assert_int_equal(json_number_of(subject, "queue_index"), 1);
    assert_int_equal(json_number_of(subject, "request_id"), 2);
    assert_string_equal(feed_findings(f), "missing-interrupt");
    feed_destroy(f);
}

static void test_too_late(void **state)
{
    expect(run(DONE("2", "1") INTERRUPT("3.5", "0") ALIVE("8")), "missing-interrupt/");
}

static void test_a_queue_that_never_interrupts(void **state)
{
    struct feed *f = run("");

    for (int i = 0; i < 50; i++)
        feed_format(f,
                    "%.1f 12@1 vblk_request:begin request_id=%d device_id=5 queue_index=1 head=%d loop_id=3\n"
                    "%.1f 12@1 vblk_request:end request_id=%d\n",
                    2 + i * 0.1, i + 1, i, 2 + i * 0.1, i + 1);
    expect(f, "missing-interrupt/");
}

static void test_silent(void **state)
{
    expect(run(DONE("2", "1") INTERRUPT("2.9", "0") ALIVE("8")), "/");                  /* deferred */
    expect(run(DONE("2", "1") INTERRUPT("2", "1") ALIVE("8")), "/");                    /* suppressed */
    expect(run(DONE("2", "1") DONE("2.5", "2") INTERRUPT("2.9", "0") ALIVE("8")), "/"); /* one for both */
    expect(run(DONE("2", "1") ALIVE("2.9")), "/");                                      /* the trace ends */
}

static void test_a_stop_ends_the_debt(void **state)
{
    expect(run(DONE("2", "1") "2.5 11@0 vblk_dataplane:state device_id=5 old_state=2 new_state=3\n"
                              "2.6 11@0 vblk_dataplane:state device_id=5 old_state=3 new_state=0\n"
                              "2.6 12@1 rt_loop:fd_detach loop_id=3 handler_id=7 fd=30\n"
                              "2.6 12@1 rt_loop:fd_detach loop_id=3 handler_id=8 fd=31\n" ALIVE("8")),
           "/");
    expect(run(DONE("2", "1") "2.5 11@0 vhost_user:disconnect device_id=5\n" ALIVE("8")), "/");
    /* too late all the same */
    expect(run(DONE("2", "1") "3.5 11@0 vhost_user:disconnect device_id=5\n" ALIVE("8")),
           "missing-interrupt/");
    /* another device's */
    expect(run(DONE("2", "1") "2.5 11@0 vhost_user:disconnect device_id=6\n" ALIVE("8")),
           "missing-interrupt/");
}

static void test_nobody_waits(void **state)
{
    static const char *const ends[] = {
        "2.1 11@0 vblk_dataplane:state device_id=5 old_state=3 new_state=0\n"
        "2.1 12@1 rt_loop:fd_detach loop_id=3 handler_id=7 fd=30\n"
        "2.1 12@1 rt_loop:fd_detach loop_id=3 handler_id=8 fd=31\n",
        "2.1 11@0 vhost_user:disconnect device_id=5\n",
    };

    for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct feed *f =
            run("2 12@1 vblk_request:begin request_id=1 device_id=5 queue_index=1 head=1 loop_id=3\n"
                "2 11@0 vblk_dataplane:state device_id=5 old_state=2 new_state=3\n");

        feed(f, ends[i]);
        feed(f, "3 12@1 vblk_request:end request_id=1\n" ALIVE("8"));
        feed_end(f, 19);
        assert_false(feed_says(f, "missing-interrupt"));
        feed_destroy(f);
    }
}

static void test_losses(void **state)
{
    const char *lines = DONE("2", "1") INTERRUPT("2", "0") DONE("3", "2") ALIVE("8");
    struct feed *f = run(lines);

    feed_loss(f, 1, 3.2, 3.4);
    expect(f, "/missing-interrupt");
    f = run(lines);
    feed_loss(f, 1, 5, 6);
    expect(f, "missing-interrupt/");
    f = run(lines);
    feed_loss(f, 2, 3.2, 3.4);
    expect(f, "missing-interrupt/");
    f = run(DONE("2", "1") ALIVE("4") INTERRUPT("4", "0") DONE("5", "2")
                ALIVE("8")); /* a second one that is sure */
    feed_loss(f, 1, 2.2, 2.4);
    expect(f, "missing-interrupt/");
}

static void test_needs_the_request_set(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed_end(f, 9);
    assert_true(feed_says(f, "{\"id\": \"missing-interrupt\", \"reason\": \"set request not recorded\"}"));
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_batch),
        cmocka_unit_test(test_too_late),
        cmocka_unit_test(test_a_queue_that_never_interrupts),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_a_stop_ends_the_debt),
        cmocka_unit_test(test_nobody_waits),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_needs_the_request_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
