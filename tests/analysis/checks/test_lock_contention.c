/*
 * Goal:   waits above the share of busy time, second after second, are reported, with who waits for whom and what would help.
 * Method: samples of one lock and two loops with given rates; waits as events.
 * Breaks: queues that halve the throughput are not explained, or every lock raises an alarm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "feed/feed.h"

struct rate {
    int seconds;
    int waits, wait_us, hold_us; /* of the lock in each second */
    int busy_us;                 /* of each of the two loops */
};

/* Lock 4, used by threads 12 and 13 (loops 3 and 4); one wait in ten is seen as an event, which changes nothing. */
static struct feed *run(unsigned sets, const struct rate *rates)
{
    struct feed *f = feed_create(sets);
    long waits = 7, wait_us = 7000000, hold_us = 7, busy_us = 0;
    int second = 2;

    feed(f, feed_baseline);
    feed(f, "1.2 19@3 rt_lock:create lock_id=4 class_name=tracked kind=1");
    for (int last = 0; !last; rates++) {
        last = !rates->seconds;
        for (int i = 0; i < (last ? 1 : rates->seconds); i++, second++) {
            for (int loop = 2; loop <= 4; loop++)
                feed_format(f, "%d.1 19@3 rt_loop:sample loop_id=%d busy_ns=%ld", second, loop,
                            loop == 2 ? second * 900000000L : busy_us * 1000);
            feed_format(
                f,
                "%d.1 19@3 rt_lock:sample lock_id=4 acquisitions=%ld contentions=%ld wait_ns=%ld hold_ns=%ld",
                second, waits * 2, waits, wait_us * 1000, hold_us * 1000);
            for (int j = 0; j < rates->waits / 10; j++)
                feed_format(
                    f,
                    "%d.%d1 12@1 rt_lock:wait lock_id=4 thread_id=12 coroutine_id=%d owner_thread_id=13 "
                    "owner_coroutine_id=6\n"
                    "%d.%d1 12@1 rt_lock:acquired lock_id=4 thread_id=12 coroutine_id=%d waited=1\n",
                    second, 2 + j % 8 / 2, 100 + j, second, 2 + j % 8 / 2, 100 + j);
            waits += rates->waits;
            wait_us += rates->wait_us;
            hold_us += rates->hold_us;
            busy_us += rates->busy_us;
        }
    }
    return f;
}

static void expect(const struct rate *rates, const char *verdict)
{
    struct feed *f = run(FEED_CORE_ONLY, rates);

    feed_end(f, 90);
    assert_string_equal(feed_verdict(f), verdict);
    feed_destroy(f);
}

static void test_found(void **state)
{
    struct feed *f =
        run(FEED_CORE_ONLY, (struct rate[]){ { 2, 0, 0, 0, 10000 }, { 6, 50, 4000, 40, 20000 }, { 0 } });
    json_t *finding, *subject;

    feed_end(f, 90);
    finding = feed_finding(f, "lock-contention");
    subject = json_object_get(finding, "subject");
    assert_string_equal(json_text_of(finding, "severity"), "warning");
    assert_int_equal(json_number_of(finding, "count"), 300);
    assert_int_equal(json_number_of(finding, "begin_ns"), 4100000000);
    assert_int_equal(json_number_of(finding, "end_ns"), 10100000000);
    assert_int_equal(json_number_of(subject, "lock_id"), 4);
    assert_string_equal(json_text_of(subject, "class_name"), "tracked");
    assert_true(feed_says(f, "takes 10 % of the busy time"));
    assert_true(feed_says(f, "iothread0 (12) waited for iothread1 (13)"));
    feed_destroy(f);
}

static void test_limits(void **state)
{
    expect((struct rate[]){ { 5, 20, 2001, 1, 20000 }, { 0 } }, "lock-contention/");
    expect((struct rate[]){ { 5, 20, 2000, 1, 20000 }, { 0 } }, "/"); /* 5 % are not above 5 % */
    expect((struct rate[]){ { 5, 19, 4000, 1, 20000 }, { 0 } }, "/"); /* fewer than 100 waits */
    expect((struct rate[]){ { 4, 90, 9000, 1, 20000 }, { 9, 0, 0, 1, 20000 }, { 0 } }, "/"); /* a burst */
    expect(
        (struct rate[]){
            { 4, 90, 9000, 1, 20000 }, { 1, 90, 1000, 1, 20000 }, { 4, 90, 9000, 1, 20000 }, { 0 } },
        "/");
}

/* The main loop, which is busy all the time and has nothing to do with the lock, does not dilute it. */
static void test_only_users_count(void **state)
{
    expect((struct rate[]){ { 9, 50, 4000, 1, 20000 }, { 0 } }, "lock-contention/");
}

static const struct rate heavy[] = { { 6, 50, 4000, 40, 20000 }, { 0 } };

static void test_says_when_a_thread_mutex_would_do(void **state)
{
    struct feed *f = run(FEED_ALL_SETS, heavy);

    feed_end(f, 90);
    assert_true(feed_says(f, "never held across a yield, so a thread mutex would do"));
    feed_destroy(f);

    f = run(FEED_CORE_ONLY, heavy); /* cannot know */
    feed_end(f, 90);
    assert_false(feed_says(f, "so a thread mutex would do"));
    feed_destroy(f);

    f = run(FEED_ALL_SETS, heavy);
    feed(f, "20 12@1 rt_lock:acquired lock_id=4 thread_id=12 coroutine_id=77\n"
            "20 12@1 rt_coroutine:yield coroutine_id=77 thread_id=12\n"
            "21 12@1 rt_lock:released lock_id=4 thread_id=12 coroutine_id=77\n");
    feed_end(f, 90);
    assert_true(feed_says(f, "lock-contention"));
    assert_false(feed_says(f, "so a thread mutex would do"));
    feed_destroy(f);

    f = run(FEED_ALL_SETS, heavy); /* a reader/writer lock: which reader yields is not known */
    feed(f, "20 12@1 rt_lock:acquired lock_id=4 thread_id=12 coroutine_id=77\n"
            "20 13@1 rt_lock:acquired lock_id=4 thread_id=13 coroutine_id=78\n"
            "20 12@1 rt_coroutine:yield coroutine_id=77 thread_id=12\n"
            "21 12@1 rt_lock:released lock_id=4 thread_id=12 coroutine_id=77\n"
            "21 13@1 rt_lock:released lock_id=4 thread_id=13 coroutine_id=78\n");
    feed_end(f, 90);
    assert_true(feed_says(f, "lock-contention"));
    assert_false(feed_says(f, "so a thread mutex would do"));
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_only_users_count),
        cmocka_unit_test(test_says_when_a_thread_mutex_would_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
