/*
 * Goal:   names are told where they are known and ids elsewhere; "everything is known" holds from a whole baseline on only.
 * Method: baselines whole, cut short, mixed up and with lost events.
 * Breaks: a check concludes from silence in a recording that began late.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/check.h"
#include "feed/feed.h"

static const struct process *first(struct feed *f)
{
    return analysis_process(feed_analysis(f), 0);
}

static void test_names_or_ids(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    feed(f, "2 12@1 rt_lock:create lock_id=6 class_name=tracked kind=1\n");
    assert_string_equal(loop_text(first(f), 3), "iothread0");
    assert_string_equal(loop_text(first(f), 9), "loop 9");
    assert_string_equal(device_text(first(f), 5), "disk");
    assert_string_equal(device_text(first(f), 6), "device 6");
    assert_string_equal(thread_text(first(f), 11), "vblkd (11)");
    assert_string_equal(thread_text(first(f), 12), "iothread0 (12)");
    assert_string_equal(thread_text(first(f), 99), "thread 99");
    assert_string_equal(thread_text(first(f), EVENT_UNKNOWN_ID), "an unknown thread");
    assert_string_equal(lock_text(first(f), 6), "tracked (lock 6)");
    assert_string_equal(lock_text(first(f), 7), "lock 7");
    feed_destroy(f);
}

static int64_t known_since(const char *lines, double loss_begin_s, double loss_end_s)
{
    struct feed *f = feed_create(FEED_ALL_SETS);
    int64_t since_ns;

    feed(f, lines);
    if (loss_end_s > 0)
        feed_loss(f, 3, loss_begin_s, loss_end_s);
    feed_end(f, 9);
    since_ns = process_known_since(first(f));
    feed_destroy(f);
    return since_ns;
}

static void test_known_from_a_whole_baseline_on(void **state)
{
    assert_int_equal(known_since(feed_baseline, 0, 0), 1100000000);
}

static void test_unknown_after_half_a_baseline(void **state)
{
    assert_int_equal(known_since("1 19@3 rt_process:baseline_begin serial=1\n", 0, 0), INT64_MAX);
    assert_int_equal(known_since("1 19@3 rt_process:baseline_end serial=1\n", 0, 0), INT64_MAX);
    assert_int_equal(known_since("1 19@3 rt_process:baseline_begin serial=1\n"
                                 "2 19@3 rt_process:baseline_end serial=2\n",
                                 0, 0),
                     INT64_MAX);
}

static void test_unknown_when_events_were_lost_inside(void **state)
{
    assert_int_equal(known_since(feed_baseline, 1.03, 1.05), INT64_MAX);
    assert_int_equal(known_since(feed_baseline, 1.15, 1.17), 1100000000);
}

static void test_a_second_baseline_makes_up_for_the_first(void **state)
{
    assert_int_equal(known_since("1.0 19@3 rt_process:baseline_begin serial=1\n"
                                 "1.2 19@3 rt_process:baseline_end serial=1\n"
                                 "2.0 19@3 rt_process:baseline_begin serial=2\n"
                                 "2.2 19@3 rt_process:baseline_end serial=2\n",
                                 1.05, 1.1),
                     2200000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_or_ids),
        cmocka_unit_test(test_known_from_a_whole_baseline_on),
        cmocka_unit_test(test_unknown_after_half_a_baseline),
        cmocka_unit_test(test_unknown_when_events_were_lost_inside),
        cmocka_unit_test(test_a_second_baseline_makes_up_for_the_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
