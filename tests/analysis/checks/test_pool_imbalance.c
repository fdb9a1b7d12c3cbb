/*
 * Goal:   a thread that makes what another frees is reported, by both names; load that merely differs is not.
 * Method: samples of two threads with given rates in each direction.
 * Breaks: a hoarding pool is not explained, or producers and consumers that the pool evens out raise an alarm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "feed/feed.h"

struct rate {
    int takes, gives, misses, overflows;
};

/* Thread 12 with one rate and thread 13 with another, for so many seconds. */
static struct feed *run(struct rate first, struct rate second, int seconds)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);
    const struct rate *rates[] = { &first, &second };

    for (int i = 0; i <= seconds; i++)
        for (int j = 0; j < 2; j++)
            feed_format(f,
                        "%d.%d 19@3 rt_pool:local_sample thread_id=%d takes=%d gives=%d misses=%d "
                        "overflows=%d name=io%d",
                        2 + i, j, 12 + j, rates[j]->takes * i, rates[j]->gives * i, rates[j]->misses * i,
                        rates[j]->overflows * i, j);
    feed_end(f, seconds + 3);
    return f;
}

static void expect(struct rate first, struct rate second, int seconds, const char *finding)
{
    struct feed *f = run(first, second, seconds);

    if (*finding)
        (void)feed_finding(f, finding);
    else
        assert_false(feed_says(f, "pool-imbalance"));
    feed_destroy(f);
}

static void test_found(void **state)
{
    struct feed *f = run((struct rate){ 2000, 20, 1900, 0 }, (struct rate){ 30, 2000, 0, 15 }, 6);
    json_t *finding = feed_finding(f, "pool-imbalance"), *subject = json_object_get(finding, "subject");

    assert_string_equal(json_text_of(finding, "severity"), "warning");
    assert_int_equal(json_number_of(subject, "thread_id"), 12);
    assert_int_equal(json_number_of(subject, "giving_thread_id"), 13);
    assert_string_equal(json_text_of(subject, "thread"), "io0");
    assert_int_equal(json_number_of(finding, "count"), 6 * 1900);
    feed_destroy(f);
}

static void test_two_givers_are_one_finding(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);
    json_t *finding;

    for (int i = 0; i <= 6; i++) {
        feed_format(f, "%d.0 19@3 rt_pool:local_sample thread_id=12 takes=%d misses=%d", 2 + i, 2000 * i,
                    1900 * i);
        feed_format(f, "%d.1 19@3 rt_pool:local_sample thread_id=13 gives=%d overflows=%d", 2 + i, 1000 * i,
                    7 * i);
        feed_format(f, "%d.2 19@3 rt_pool:local_sample thread_id=14 gives=%d overflows=%d", 2 + i, 1000 * i,
                    8 * i);
    }
    feed_end(f, 9);
    finding = feed_finding(f, "pool-imbalance");
    assert_int_equal(json_number_of(finding, "count"), 6 * 1900);
    assert_int_equal(json_array_size(json_object_get(finding, "evidence")), 3);
    feed_destroy(f);
}

static void test_silent(void **state)
{
    const struct rate taker = { 2000, 0, 1900, 0 }, giver = { 0, 2000, 0, 15 };

    expect(taker, giver, 5, "pool-imbalance");
    expect(taker, giver, 4, "");
    /* evened out: no misses, or no overflows */
    expect((struct rate){ 2000, 0, 0, 0 }, (struct rate){ 0, 2000, 0, 0 }, 9, "");
    expect(taker, (struct rate){ 0, 2000, 0, 0 }, 9, "");
    expect((struct rate){ 2000, 0, 10, 0 }, giver, 9, "");
    /* both do both: that is thrash at most */
    expect((struct rate){ 2000, 2000, 900, 0 }, (struct rate){ 2000, 2000, 0, 15 }, 9, "");
    expect(taker, (struct rate){ 500, 2000, 0, 15 }, 9, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_two_givers_are_one_finding),
        cmocka_unit_test(test_silent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
