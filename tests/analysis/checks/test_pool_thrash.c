/*
 * Goal:   misses above the share, second after second, are reported; bursts, small loads and full pools are not.
 * Method: samples of two threads with given rates.
 * Breaks: a pool that is far too small is not explained, or booting raises an alarm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed.h"

struct rate {
    int seconds, takes, misses; /* of each of two threads, in each second */
};

static struct feed *run_with(const struct rate *rates, const char *global_pool)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);
    int second = 2;
    long takes = 5000, misses = 5000; /* what was before does not count */

    feed(f, global_pool);
    for (; rates->seconds; rates++) {
        for (int i = 0; i < rates->seconds; i++, second++) {
            for (int tid = 12; tid <= 13; tid++)
                feed_format(
                    f, "%d.%d 19@3 rt_pool:local_sample thread_id=%d takes=%ld gives=%ld misses=%ld name=io",
                    second, tid, tid, takes, takes, misses);
            takes += rates->takes;
            misses += rates->misses;
        }
    }
    for (int tid = 12; tid <= 13; tid++)
        feed_format(f, "%d.%d 19@3 rt_pool:local_sample thread_id=%d takes=%ld gives=%ld misses=%ld name=io",
                    second, tid, tid, takes, takes, misses);
    feed_end(f, second + 1);
    return f;
}

static struct feed *run(const struct rate *rates)
{
    return run_with(rates, "1.9 19@3 rt_pool:global_sample global_size=100 global_max=128 global_hard_max=4294967295");
}

static void expect(const struct rate *rates, const char *verdict)
{
    struct feed *f = run(rates);

    assert_string_equal(feed_verdict(f), verdict);
    feed_destroy(f);
}

static void test_found(void **state)
{
    const struct rate rates[] = { { 3, 1000, 0 }, { 7, 1000, 400 }, { 2, 1000, 0 }, { 0 } };
    struct feed *f = run(rates);
    json_t *finding;

    finding = feed_finding(f, "pool-thrash");
    assert_string_equal(json_text_of(finding, "severity"), "warning");
    assert_int_equal(json_number_of(finding, "count"), 2 * 7 * 400);
    assert_int_equal(json_number_of(finding, "begin_ns"), 5130000000);
    assert_int_equal(json_number_of(finding, "end_ns"), 12130000000);
    assert_string_equal(feed_verdict(f), "pool-thrash/");
    feed_destroy(f);
}

static void test_advice_fits_the_pool(void **state)
{
    const struct rate rates[] = { { 7, 1000, 1000 }, { 0 } };
    struct feed *f = run(rates);

    assert_non_null(strstr(json_text_of(feed_finding(f, "pool-thrash"), "advice"), "hard maximum (none)"));
    feed_destroy(f);

    /* A process without a pool is not told to make it larger. */
    f = run_with(rates, "1.9 19@3 rt_pool:global_sample global_size=0 global_max=0 global_hard_max=0");
    assert_non_null(strstr(json_text_of(feed_finding(f, "pool-thrash"), "summary"), "no coroutine pool"));
    assert_non_null(strstr(json_text_of(feed_finding(f, "pool-thrash"), "advice"), "--coroutine-pool=batched"));
    feed_destroy(f);
}

static void test_limits(void **state)
{
    expect((struct rate[]){ { 5, 1000, 51 }, { 0 } }, "pool-thrash/");
    expect((struct rate[]){ { 9, 1000, 50 }, { 0 } }, "/");                  /* 5 % are not above 5 % */
    expect((struct rate[]){ { 4, 1000, 400 }, { 9, 1000, 0 }, { 0 } }, "/"); /* a burst */
    expect((struct rate[]){ { 4, 1000, 400 }, { 1, 1000, 0 }, { 4, 1000, 400 }, { 0 } }, "/");
    expect((struct rate[]){ { 5, 99, 90 }, { 0 } }, "/"); /* fewer than 1000 takes */
    expect((struct rate[]){ { 5, 100, 90 }, { 0 } }, "pool-thrash/");
    expect((struct rate[]){ { 60, 0, 0 }, { 0 } }, "/");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_advice_fits_the_pool),
        cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
