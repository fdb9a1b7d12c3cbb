/*
 * Goal:   notify-me-unbalanced is found when the flag is not back at 0 before a loop goes on after a wait, and only then.
 * Method: transitions and waits of one loop as text, under either policy; losses between them.
 * Breaks: every notification costs system calls, or is lost, and nobody says why; or a right loop is blamed.
 *
 * Thread 12 on processor 1 runs iothread0 (loop 3).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed.h"

#define RAISE(old, new) "12@1 rt_loop:notify_me loop_id=3 old_value=" old " new_value=" new "\n"
#define SLEEP "12@1 rt_loop:wait_begin loop_id=3 timeout_ns=-1\n"
#define WAKE "12@1 rt_loop:wait_end loop_id=3 ready_count=1\n"
#define POLL "12@1 rt_loop:poll_begin loop_id=3 timeout_ns=-1\n"
#define POLLED "12@1 rt_loop:poll_end loop_id=3 progress=0\n"

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

static void test_found_each_way(void **state)
{
    static const char *const orders[] = {
        /* never lowered: blocks again, polls, raises from what is left */
        "2 " RAISE("0", "1") "2 " SLEEP "3 " WAKE "4 " SLEEP,
        "2 " RAISE("0", "1") "2 " SLEEP "3 " WAKE "4 " POLL,
        "2 " RAISE("0", "1") "2 " SLEEP "3 " WAKE "4 " RAISE("1", "2") "4 " SLEEP,
        /* lowered, but not to 0 */
        "2 " RAISE("0", "2") "2 " SLEEP "3 " WAKE "3 " RAISE("2", "1") "4 " RAISE("1", "3"),
        /* lowered twice */
        "2 " RAISE("0", "1") "2 " SLEEP "3 " WAKE
                             "3 " RAISE("1", "0") "3 " RAISE("0", "4294967295") "4 " RAISE("4294967295", "0"),
        /* raised, kept from sleeping by its second look, not lowered */
        "2 " RAISE("0", "1") "3 " RAISE("1", "2") "4 " SLEEP,
    };

    for (unsigned i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        struct feed *f = begin();
        json_t *finding;

        feed(f, orders[i]);
        feed_end(f, 9);
        if (strcmp(feed_findings(f), "notify-me-unbalanced"))
            fail_msg("order %u: '%s'", i, feed_findings(f));
        finding = feed_finding(f, "notify-me-unbalanced");
        assert_string_equal(json_text_of(finding, "severity"), "error");
        assert_int_equal(json_number_of(finding, "count"), 1);
        assert_string_equal(json_text_of(json_object_get(finding, "subject"), "loop"), "iothread0");
        expect(f, "notify-me-unbalanced", "");
    }
}

static void test_right_orders_are_silent(void **state)
{
    static const char *const orders[] = {
        /* raised only to block */
        "2 " POLL "2 " POLLED "2 " RAISE("0", "1") "2 " SLEEP "3 " WAKE
                                                   "3 " RAISE("1", "0") "4 " POLL "4 " POLLED
                                                                        "4 " RAISE("0", "1") "4 " SLEEP,
        /* raised before polling, in steps of 2 */
        "2 " RAISE("0", "2") "2 " POLL "2 " POLLED "2 " SLEEP "3 " WAKE "3 " RAISE("2", "0") "4 " RAISE(
            "0", "2") "4 " POLL "4 " POLLED "4 " RAISE("2", "0") "4 " RAISE("0", "2") "4 " SLEEP,
        /* its second look kept it from sleeping */
        "2 " RAISE("0", "1") "2 " RAISE("1", "0") "3 " RAISE("0", "1") "3 " SLEEP "4 " WAKE
                                                                       "4 " RAISE("1", "0"),
        /* a look without blocking needs no flag */
        "2 12@1 rt_loop:wait_begin loop_id=3 timeout_ns=0\n2 " WAKE
        "3 12@1 rt_loop:wait_begin loop_id=3 timeout_ns=0\n",
        /* lowered in two steps */
        "2 " RAISE("0", "2") "2 " SLEEP "3 " WAKE "3 " RAISE("2", "1") "3 " RAISE("1", "0") "4 " SLEEP,
        /* the recording ends right after a wait, and began in one */
        "2 " WAKE "2 " RAISE("1", "0") "3 " RAISE("0", "1") "3 " SLEEP "4 " WAKE,
        /* what it was before the recording is unknown */
        "2 " WAKE "2 " SLEEP "3 " WAKE "3 " POLL,
    };

    for (unsigned i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        struct feed *f = begin();

        feed(f, orders[i]);
        feed_end(f, 9);
        if (*feed_findings(f) || *feed_inconclusive(f))
            fail_msg("order %u: %s / %s", i, feed_findings(f), feed_inconclusive(f));
        feed_destroy(f);
    }
}

static void test_loops_are_apart(void **state)
{
    struct feed *f = begin();

    feed(f, "2 " RAISE("0", "1") "2 " SLEEP "3 " WAKE "3 " RAISE("1", "0"));
    feed(f,
         "4 13@2 rt_loop:notify_me loop_id=4 old_value=0 new_value=1\n4 13@2 rt_loop:wait_begin loop_id=4\n"
         "5 " RAISE("0", "1") "5 " SLEEP);
    feed_end(f, 9);
    expect(f, "", "");
}

static void announced(int notify_me, const char *findings)
{
    struct feed *f = begin();

    feed(f, "2 19@3 rt_process:baseline_begin serial=2\n");
    feed_format(f, "2 19@3 rt_loop:state loop_id=3 notify_me=%d waiting=1 waiting_ns=5 timeout_ns=-1",
                notify_me);
    feed(f, "2 19@3 rt_process:baseline_end serial=2\n3 " WAKE "4 " POLL);
    feed_end(f, 9);
    expect(f, findings, "");
}

static void test_raised_before_the_recording(void **state)
{
    announced(1, "notify-me-unbalanced");
    announced(0, "");
}

static void test_skipped_without_its_set(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, feed_baseline);
    feed_end(f, 9);
    assert_non_null(strstr(feed_skipped(f), "notify-me-unbalanced"));
    expect(f, "", "");
}

static void with_loss(const char *events, unsigned cpu, double begin_s, double end_s, const char *findings,
                      const char *inconclusive)
{
    struct feed *f = begin();

    feed(f, events);
    feed_loss(f, cpu, begin_s, end_s);
    feed_end(f, 9);
    expect(f, findings, inconclusive);
}

static void test_losses(void **state)
{
    const char *once = "2 " RAISE("0", "1") "2 " SLEEP "3 " WAKE "4 " SLEEP;

    with_loss(once, 1, 3.1, 3.2, "events-lost", "notify-me-unbalanced"); /* it may have been lowered */
    with_loss(once, 1, 2.1, 2.2, "events-lost",
              "notify-me-unbalanced"); /* and another wait begun without it */
    with_loss(once, 0, 3.1, 3.2, "events-lost notify-me-unbalanced", "");
    with_loss(once, 1, 5, 6, "events-lost notify-me-unbalanced", "");
    with_loss("2 " RAISE("0", "1") "2 " SLEEP "3 " WAKE "4 " RAISE("1", "2"), 1, 3.1, 3.2,
              "events-lost notify-me-unbalanced", ""); /* it says itself that it was 1 */
    with_loss("2 " RAISE("0", "1") "2 " SLEEP "3 " WAKE "4 " SLEEP "5 " WAKE "6 " SLEEP, 1, 2.1, 2.2,
              "events-lost", "notify-me-unbalanced");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_each_way),          cmocka_unit_test(test_right_orders_are_silent),
        cmocka_unit_test(test_loops_are_apart),         cmocka_unit_test(test_raised_before_the_recording),
        cmocka_unit_test(test_skipped_without_its_set), cmocka_unit_test(test_losses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
