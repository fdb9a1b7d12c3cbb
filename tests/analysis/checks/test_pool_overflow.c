/*
 * Goal:   pool-overflow is found when batches are freed and made anew in five seconds in a row, not for bursts, for a pool
 *         that only shrinks, or for misses alone.
 * Method: one round of samples a second, as text.
 * Breaks: a pool that is too small goes unnoticed, or a burst at boot raises an alarm.
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

static void sample(struct feed *f, unsigned second, unsigned misses, unsigned overflows)
{
    feed_format(f,
                "%u 19@3 rt_process:vma_sample live_count=900\n"
                "%u 19@3 rt_pool:local_sample thread_id=12 misses=%u overflows=%u\n"
                "%u 19@3 rt_pool:local_sample thread_id=13 misses=0 overflows=0\n"
                "%u 19@3 rt_pool:global_sample global_size=512 global_max=512 global_hard_max=16000",
                second, second, misses, overflows, second, second);
}

static void test_sustained(void **state)
{
    struct feed *f = begin();
    json_t *finding;

    for (unsigned i = 0; i <= 6; i++)
        sample(f, 2 + i, 1000 + 256 * i, 50 + 2 * i);
    feed_end(f, 20);
    assert_string_equal(feed_findings(f), "pool-overflow");
    finding = feed_finding(f, "pool-overflow");
    assert_string_equal(json_text_of(finding, "severity"), "warning");
    assert_int_equal(json_number_of(finding, "count"), 12);
    assert_int_equal(json_number_of(finding, "begin_ns"), 2000000000);
    assert_int_equal(json_number_of(finding, "end_ns"), 8000000000);
    /* 900 alive at once, in batches of 128 */
    assert_int_equal(json_number_of(json_object_get(finding, "subject"), "suggested_pool_size"), 1024);
    feed_destroy(f);
}

/* The per-thread policy frees one coroutine at a time. */
static void test_sustained_one_by_one(void **state)
{
    struct feed *f = begin();

    for (unsigned i = 0; i <= 6; i++) {
        sample(f, 2 + i, 50 * i, 40 * i);
        for (unsigned j = 0; j < 40; j++)
            feed_format(f,
                        "%u.5 12@1 rt_pool:overflow thread_id=12 dropped=1 global_size=128 global_max=128 "
                        "global_hard_max=4294967295",
                        2 + i);
    }
    feed_end(f, 20);
    assert_string_equal(feed_findings(f), "pool-overflow");
    assert_int_equal(json_number_of(feed_finding(f, "pool-overflow"), "count"), 6 * 40);
    feed_destroy(f);
}

static void test_silent_on_four_seconds(void **state)
{
    struct feed *f = begin();

    for (unsigned i = 0; i <= 4; i++)
        sample(f, 2 + i, 256 * i, 2 * i);
    for (unsigned i = 5; i < 12; i++)
        sample(f, 2 + i, 256 * 4, 2 * 4);
    feed_end(f, 20);
    assert_string_equal(feed_findings(f), "");
    feed_destroy(f);
}

static void test_silent_when_interrupted(void **state)
{
    /* Three seconds, a quiet one, three seconds. */
    struct feed *f = begin();
    unsigned total = 0;

    for (unsigned i = 0; i < 12; i++) {
        total += i % 4 != 3;
        sample(f, 2 + i, 256 * total, 2 * total);
    }
    feed_end(f, 20);
    assert_string_equal(feed_findings(f), "");
    feed_destroy(f);
}

static void test_silent_when_nothing_is_made_anew(void **state)
{
    struct feed *f = begin();

    for (unsigned i = 0; i <= 10; i++)
        sample(f, 2 + i, 7 * i, 2 * i);
    feed_end(f, 20);
    assert_string_equal(feed_findings(f), "");
    feed_destroy(f);
}

static void test_silent_on_misses_alone(void **state)
{
    struct feed *f = begin();

    for (unsigned i = 0; i <= 10; i++)
        sample(f, 2 + i, 500 * i, 9);
    feed_end(f, 20);
    assert_string_equal(feed_findings(f), "");
    feed_destroy(f);
}

static void test_what_was_before_the_recording_does_not_count(void **state)
{
    struct feed *f = begin();

    for (unsigned i = 0; i <= 10; i++)
        sample(f, 2 + i, 100000, 1000);
    feed_end(f, 20);
    assert_string_equal(feed_findings(f), "");
    feed_destroy(f);
}

static void test_a_baseline_between_samples_does_not_matter(void **state)
{
    struct feed *f = begin();

    for (unsigned i = 0; i <= 6; i++) {
        sample(f, 2 + i, 256 * i, 2 * i);
        feed_format(f, "%u.2 19@3 rt_pool:local_sample thread_id=12 misses=%u overflows=%u", 2 + i, 256 * i,
                    2 * i);
    }
    feed_end(f, 20);
    assert_string_equal(feed_findings(f), "pool-overflow");
    feed_destroy(f);
}

static void test_a_lost_sample_does_not_matter(void **state)
{
    struct feed *f = begin();

    for (unsigned i = 0; i <= 6; i++)
        if (i != 3)
            sample(f, 2 + i, 256 * i, 2 * i);
    feed_end(f, 20);
    assert_string_equal(feed_findings(f), "pool-overflow");
    feed_destroy(f);
}

/* What came between two samples that are far apart may have come at once. */
static void test_silent_when_samples_are_too_far_apart(void **state)
{
    struct feed *f = begin();

    sample(f, 2, 1000, 50);
    sample(f, 9, 3000, 66);
    sample(f, 10, 3000, 66);
    feed_end(f, 20);
    assert_string_equal(feed_findings(f), "");
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sustained),
        cmocka_unit_test(test_sustained_one_by_one),
        cmocka_unit_test(test_silent_on_four_seconds),
        cmocka_unit_test(test_silent_when_samples_are_too_far_apart),
        cmocka_unit_test(test_silent_when_interrupted),
        cmocka_unit_test(test_silent_when_nothing_is_made_anew),
        cmocka_unit_test(test_silent_on_misses_alone),
        cmocka_unit_test(test_what_was_before_the_recording_does_not_count),
        cmocka_unit_test(test_a_baseline_between_samples_does_not_matter),
        cmocka_unit_test(test_a_lost_sample_does_not_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
