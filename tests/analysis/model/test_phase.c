/*
 * Goal:   the model knows whether a loop sleeps, since when and with which limit, also for one asleep before the recording.
 * Method: a loop's own events and announcements as text, then a look at the model.
 * Breaks: lost wake-ups and deaf queues are missed, or loops that work are taken for asleep.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/check.h"
#include "feed/feed.h"

#define S INT64_C(1000000000)

static struct feed *begin(void)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    return f;
}

static const struct loop *io(struct feed *f)
{
    return process_loop(analysis_process(feed_analysis(f), 0), 3);
}

static void test_own_events(void **state)
{
    struct feed *f = begin();

    assert_false(io(f)->sleep.asleep);
    assert_int_equal(loop_vtid(io(f)), 12); /* announced */
    feed(f, "2 22@1 rt_loop:wait_begin loop_id=3 timeout_ns=-1\n");
    assert_true(loop_sleeps_without_limit(io(f)));
    assert_int_equal(io(f)->sleep.since_ns, 2 * S);
    assert_int_equal(loop_vtid(io(f)), 22); /* seen */
    feed(f, "3 11@0 rt_loop:publish loop_id=3 thread_id=11\n3 11@0 rt_loop:notify loop_id=3 thread_id=11\n");
    assert_true(io(f)->sleep.asleep);
    feed(f, "4 22@1 rt_loop:wait_end loop_id=3\n");
    assert_false(io(f)->sleep.asleep);
    assert_true(io(f)->sleep.known);
    assert_int_equal(io(f)->sleep.end_ns, 4 * S);
    feed(f, "5 22@1 rt_loop:wait_begin loop_id=3 timeout_ns=7\n");
    assert_true(io(f)->sleep.asleep);
    assert_false(loop_sleeps_without_limit(io(f)));
    feed(f, "6 22@1 rt_loop:poll_begin loop_id=3 timeout_ns=9\n");
    assert_false(io(f)->sleep.asleep);
    assert_true(io(f)->polling);
    assert_int_equal(io(f)->poll_timeout_ns, 9);
    feed(f, "7 22@1 rt_loop:poll_end loop_id=3\n");
    assert_false(io(f)->polling);
    feed_destroy(f);
}

static void test_any_sign_of_life_ends_a_sleep(void **state)
{
    static const char *const signs[] = { "fd_dispatch loop_id=3 handler_id=7",
                                         "work_run loop_id=3 count=1",
                                         "notify_accept loop_id=3",
                                         "notify_me loop_id=3 old_value=1",
                                         "hog loop_id=3",
                                         "destroy loop_id=3" };

    for (unsigned i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        struct feed *f = begin();

        feed(f, "2 12@1 rt_loop:wait_begin loop_id=3 timeout_ns=-1\n");
        feed_format(f, "3 12@1 rt_loop:%s", signs[i]);
        assert_false(io(f)->sleep.asleep);
        feed_destroy(f);
    }
}

static void test_end_of_an_unseen_begin(void **state)
{
    struct feed *f = begin();

    feed(f, "3 12@1 rt_loop:wait_end loop_id=3\n");
    assert_false(io(f)->sleep.asleep);
    assert_false(io(f)->sleep.known);
    feed_destroy(f);
}

static void state_at(struct feed *f, double at_s, const char *text)
{
    feed_format(f, "%.6f 19@3 rt_process:baseline_begin serial=2", at_s);
    feed_format(f, "%.6f 19@3 rt_loop:state loop_id=3 notify_me=1 %s", at_s + 0.00001, text);
    feed_format(f, "%.6f 19@3 rt_process:baseline_end serial=2", at_s + 0.00002);
}

static void test_asleep_before_the_recording(void **state)
{
    struct feed *f = begin();

    state_at(f, 2, "waiting=1 waiting_ns=1500000000 timeout_ns=-1");
    assert_true(loop_sleeps_without_limit(io(f)));
    assert_int_equal(io(f)->sleep.since_ns, S / 2 + 10000);
    feed_destroy(f);
}

static void test_announcement_yields_to_own_events(void **state)
{
    struct feed *f = begin();

    feed(f, "2 12@1 rt_loop:wait_end loop_id=3\n");
    state_at(f, 2.00001, "waiting=1 waiting_ns=1000000 timeout_ns=-1"); /* read just before it woke */
    assert_false(io(f)->sleep.asleep);
    feed(f, "3 12@1 rt_loop:wait_begin loop_id=3 timeout_ns=5\n");
    state_at(f, 4, "waiting=1 waiting_ns=1000010000 timeout_ns=-1"); /* the same sleep */
    assert_int_equal(io(f)->sleep.timeout_ns, 5);
    feed_destroy(f);
}

static void test_announcement_tells_what_was_not_seen(void **state)
{
    struct feed *f = begin();

    feed(f, "2 12@1 rt_loop:wait_end loop_id=3\n");
    state_at(f, 4, "waiting=1 waiting_ns=1000000000 timeout_ns=-1"); /* fell asleep after that */
    assert_true(loop_sleeps_without_limit(io(f)));
    state_at(f, 6, "waiting=1 waiting_ns=500000000 timeout_ns=-1"); /* woke in between */
    assert_int_equal(io(f)->sleep.since_ns, 5 * S + S / 2 + 10000);
    state_at(f, 7, "waiting=0");
    assert_false(io(f)->sleep.asleep);
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_events),
        cmocka_unit_test(test_any_sign_of_life_ends_a_sleep),
        cmocka_unit_test(test_end_of_an_unseen_begin),
        cmocka_unit_test(test_asleep_before_the_recording),
        cmocka_unit_test(test_announcement_yields_to_own_events),
        cmocka_unit_test(test_announcement_tells_what_was_not_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
