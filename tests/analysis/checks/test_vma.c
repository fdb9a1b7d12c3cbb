/*
 * Goal:   vma-pressure and vma-exhausted name who holds the mappings, with the right severity, and are silent with headroom.
 * Method: samples as text against a limit of 10,000 mappings, 2 mappings a stack.
 * Breaks: an operator raises a limit where a pool hoards, or shrinks a pool where requests are really in flight.
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

/* @stacks of which @live are in use, and @other mappings. */
static void sample(struct feed *f, unsigned second, unsigned stacks, unsigned live, unsigned other)
{
    feed_format(
        f,
        "%u.0 19@3 rt_process:vma_sample vma_count=%u max_map_count=10000 stack_count=%u stack_vma_count=%u "
        "live_count=%u",
        second, stacks * 2 + other, stacks, stacks * 2, live);
}

static void pools(struct feed *f, unsigned second, unsigned main_size, unsigned iothread_size)
{
    feed_format(f,
                "%u.1 19@3 rt_pool:local_sample thread_id=11 local_size=%u name=vblkd\n"
                "%u.1 19@3 rt_pool:local_sample thread_id=12 local_size=%u name=iothread0",
                second, main_size, second, iothread_size);
}

static void expect_one(struct feed *f, const char *id, const char *severity, const char *cause)
{
    json_t *finding;

    assert_string_equal(feed_findings(f), id);
    finding = feed_finding(f, id);
    assert_string_equal(json_text_of(finding, "severity"), severity);
    assert_string_equal(json_text_of(finding, "cause"), cause);
}

static void test_idle_stacks_by_thread(void **state)
{
    struct feed *f = begin();
    json_t *threads;

    for (unsigned second = 2; second < 8; second++) {
        sample(f, second, 4200, 1000, 200);
        pools(f, second, 128, 3072);
    }
    feed_end(f, 9);
    expect_one(f, "vma-pressure", "warning", "pooled-idle");
    threads = json_object_get(json_object_get(feed_finding(f, "vma-pressure"), "subject"), "threads");
    assert_string_equal(json_text_of(json_array_get(threads, 0), "name"), "iothread0");
    assert_int_equal(json_number_of(json_array_get(threads, 0), "idle_stacks"), 3072);
    assert_int_equal(json_number_of(json_array_get(threads, 0), "mappings"), 6144);
    assert_non_null(strstr(json_text_of(feed_finding(f, "vma-pressure"), "summary"), "iothread0 (12)"));
    feed_destroy(f);
}

static void test_true_concurrency(void **state)
{
    struct feed *f = begin();

    sample(f, 2, 4500, 4400, 200);
    feed_end(f, 9);
    expect_one(f, "vma-pressure", "error", "concurrency");
    feed_destroy(f);
}

static void test_mappings_of_others(void **state)
{
    struct feed *f = begin();

    sample(f, 2, 500, 100, 8000);
    feed_end(f, 9);
    expect_one(f, "vma-pressure", "error", "other-mappings");
    feed_destroy(f);
}

static void test_silent_with_headroom(void **state)
{
    struct feed *f = begin();

    sample(f, 2, 3900, 3900, 199);
    feed_end(f, 9);
    assert_string_equal(feed_findings(f), "");
    feed_destroy(f);
}

static void test_cheap_stacks_are_not_blamed(void **state)
{
    /* Lightweight guards: 100,000 idle stacks in 800 mappings; the rest is not ours. */
    struct feed *f = begin();

    feed(f, "2 19@3 rt_process:vma_sample vma_count=9000 max_map_count=10000 stack_count=100000 "
            "stack_vma_count=800 "
            "live_count=10\n");
    feed_end(f, 9);
    expect_one(f, "vma-pressure", "error", "other-mappings");
    feed_destroy(f);
}

static void test_cost_per_stack_is_taken_from_info(void **state)
{
    /* A sample without stack_vma_count: info says 2 mappings a stack. */
    struct feed *f = begin();

    feed(f,
         "2 19@3 rt_process:vma_sample vma_count=9000 max_map_count=10000 stack_count=4000 live_count=10\n");
    feed_end(f, 9);
    expect_one(f, "vma-pressure", "error", "pooled-idle");
    feed_destroy(f);
}

static void test_forecast_while_growing_only(void **state)
{
    struct feed *f = begin();
    json_t *forecast;

    for (unsigned second = 2; second < 12; second++)
        sample(f, second, 3500 + 100 * (second - 2), 100, 0);
    feed_end(f, 13);
    forecast = json_object_get(json_object_get(feed_finding(f, "vma-pressure"), "subject"), "forecast_s");
    /* 8,800 of 10,000 at the end, 200 a second */
    assert_true(json_is_real(forecast) && json_real_value(forecast) > 5.9 && json_real_value(forecast) < 6.1);
    feed_destroy(f);

    f = begin();
    sample(f, 2, 1000, 100, 0);
    for (unsigned second = 3; second < 12; second++)
        sample(f, second, 4400, 100, 0);
    feed_end(f, 13);
    forecast = json_object_get(json_object_get(feed_finding(f, "vma-pressure"), "subject"), "forecast_s");
    assert_null(forecast);
    feed_destroy(f);
}

static void test_exhausted_replaces_pressure(void **state)
{
    struct feed *f = begin();

    for (unsigned second = 2; second < 8; second++) {
        sample(f, second, 4900, 100, 100);
        pools(f, second, 100, 4700);
    }
    feed(
        f,
        "8.0 12@1 rt_process:vma_exhausted operation=mprotect error=-12 vma_count=10000 max_map_count=10000\n"
        "8.1 12@1 rt_process:vma_exhausted operation=mprotect error=-12 vma_count=10000 "
        "max_map_count=10000\n");
    feed_end(f, 9);
    expect_one(f, "vma-exhausted", "error", "pooled-idle");
    assert_int_equal(json_number_of(feed_finding(f, "vma-exhausted"), "count"), 2);
    assert_int_equal(json_number_of(feed_finding(f, "vma-exhausted"), "begin_ns"), 8000000000);
    feed_destroy(f);
}

static void test_exhausted_between_two_samples(void **state)
{
    /* A second ago there was room: what came since was needed. */
    struct feed *f = begin();

    sample(f, 2, 1000, 100, 300);
    feed(f,
         "2.9 12@1 rt_process:vma_exhausted operation=mmap error=-12 vma_count=10000 max_map_count=10000\n");
    feed_end(f, 9);
    expect_one(f, "vma-exhausted", "error", "concurrency");
    feed_destroy(f);
}

static void test_one_finding_per_process(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, "2 7:11@0 rt_process:vma_sample vma_count=85 max_map_count=100\n"
            "2 8:11@0 rt_process:vma_sample vma_count=95 max_map_count=100\n"
            "2 9:11@0 rt_process:vma_sample vma_count=75 max_map_count=100\n");
    feed_end(f, 9);
    assert_string_equal(feed_findings(f), "vma-pressure vma-pressure");
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_stacks_by_thread),
        cmocka_unit_test(test_true_concurrency),
        cmocka_unit_test(test_mappings_of_others),
        cmocka_unit_test(test_silent_with_headroom),
        cmocka_unit_test(test_cheap_stacks_are_not_blamed),
        cmocka_unit_test(test_cost_per_stack_is_taken_from_info),
        cmocka_unit_test(test_forecast_while_growing_only),
        cmocka_unit_test(test_exhausted_replaces_pressure),
        cmocka_unit_test(test_exhausted_between_two_samples),
        cmocka_unit_test(test_one_finding_per_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
