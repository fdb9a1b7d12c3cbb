/*
 * Goal:   loop-hog is told of a handler that held its loop longer than our limit, with who waited.
 * Method: the loop's own events, longer and shorter than the limit, amid requests, as text.
 * Breaks: a loop that stands still for a third of a second is not explained, or a lower limit of the device raises an alarm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed.h"

static void expect(struct feed *f, const char *findings, const char *inconclusive)
{
    assert_string_equal(feed_findings(f), findings);
    assert_string_equal(feed_inconclusive(f), inconclusive);
    feed_destroy(f);
}

static struct feed *begin(unsigned sets)
{
    struct feed *f = feed_create(sets);

    feed(f, feed_baseline);
    return f;
}

static void test_found_with_who_waited(void **state)
{
    struct feed *f = begin(FEED_ALL_SETS);
    json_t *finding, *subject;

    feed(f, "2.0 12@1 vblk_request:begin request_id=1 device_id=5 queue_index=0 head=1 loop_id=3\n"
            "2.0 13@2 vblk_request:begin request_id=2 device_id=6 queue_index=0 head=1 loop_id=4\n"
            "2.5 12@1 rt_loop:hog loop_id=3 handler_id=8 duration_ns=350000000\n"
            "2.6 12@1 vblk_request:begin request_id=3 device_id=5 queue_index=0 head=2 loop_id=3\n"
            "2.7 12@1 rt_loop:wait_begin loop_id=3 timeout_ns=-1\n"
            "2.7 13@2 vblk_request:begin request_id=4 device_id=6 queue_index=0 head=2 loop_id=4\n"
            "2.8 12@1 vblk_request:begin request_id=5 device_id=5 queue_index=0 head=3 loop_id=3\n"
            "2.9 12@1 rt_loop:wait_begin loop_id=3 timeout_ns=-1\n"
            "3.0 12@1 vblk_request:begin request_id=6 device_id=5 queue_index=0 head=4 loop_id=3\n"
            "3.5 12@1 rt_loop:hog loop_id=3 handler_id=8 duration_ns=150000000\n");
    feed_end(f, 4);
    finding = feed_finding(f, "loop-hog");
    subject = json_object_get(finding, "subject");
    assert_string_equal(json_text_of(finding, "severity"), "warning");
    assert_int_equal(json_number_of(finding, "count"), 2);
    assert_int_equal(json_number_of(finding, "begin_ns"), 2150000000);
    assert_int_equal(json_number_of(subject, "handler_id"), 8);
    assert_int_equal(json_number_of(subject, "fd"), 31);
    assert_string_equal(json_text_of(subject, "loop"), "iothread0");
    assert_non_null(strstr(json_text_of(finding, "summary"), "350.000 ms"));
    assert_non_null(strstr(json_text_of(finding, "summary"), "1 requests in flight and 2 new ones waited"));
    expect(f, "loop-hog", "");
}

static void test_core_alone(void **state)
{
    struct feed *f = begin(FEED_CORE_ONLY);

    feed(f, "2.5 12@1 rt_loop:hog loop_id=3 handler_id=0 duration_ns=100000001\n");
    feed_end(f, 4);
    assert_null(strstr(json_text_of(feed_finding(f, "loop-hog"), "summary"), "waited"));
    assert_non_null(
        strstr(json_text_of(feed_finding(f, "loop-hog"), "summary"), "published work or a timer"));
    expect(f, "loop-hog", "");
}

static void test_one_finding_a_handler(void **state)
{
    struct feed *f = begin(FEED_CORE_ONLY);

    feed(f, "2.5 12@1 rt_loop:hog loop_id=3 handler_id=7 duration_ns=200000000\n"
            "2.5 12@1 rt_loop:hog loop_id=3 handler_id=8 duration_ns=200000000\n"
            "2.6 12@1 rt_loop:hog loop_id=3 handler_id=7 duration_ns=200000000\n");
    feed_end(f, 4);
    expect(f, "loop-hog loop-hog", "");
}

static void test_silent_up_to_the_limit(void **state)
{
    struct feed *f = begin(FEED_CORE_ONLY);

    feed(f, "2.5 12@1 rt_loop:hog loop_id=3 handler_id=7 duration_ns=100000000\n"
            "2.6 12@1 rt_loop:hog loop_id=3 handler_id=7 duration_ns=60000000\n");
    feed_end(f, 4);
    expect(f, "", "");
}

static void test_limit_is_an_option(void **state)
{
    struct analysis_options options;
    struct feed *f;

    analysis_options_init(&options);
    options.loop_hog_ns = 50000000;
    f = feed_create_with(FEED_CORE_ONLY, &options);
    feed(f, "2.6 12@1 rt_loop:hog loop_id=3 handler_id=7 duration_ns=60000000\n3 12@1 rt_loop:destroy "
            "loop_id=3\n");
    feed_end(f, 4);
    expect(f, "loop-hog", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_with_who_waited), cmocka_unit_test(test_core_alone),
        cmocka_unit_test(test_one_finding_a_handler), cmocka_unit_test(test_silent_up_to_the_limit),
        cmocka_unit_test(test_limit_is_an_option),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
