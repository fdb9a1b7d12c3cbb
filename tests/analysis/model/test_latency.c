/*
 * Goal:   stages of requests are told apart; open, abandoned and half-seen requests do not distort them.
 * Method: requests with known times.
 * Breaks: the latency table blames the wrong stage.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed.h"

static json_t *stage(struct feed *f, const char *name)
{
    return json_object_get(json_object_get(json_object_get(feed_report(f), "latency"), "stages"), name);
}

static void test_stages(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);
    json_t *latency;

    feed(f, "1.000000 12@1 vblk_request:begin request_id=1 device_id=5\n"
            "1.000010 12@1 vblk_request:submit request_id=1\n"
            "1.000040 12@1 vblk_request:complete request_id=1\n"
            "1.000100 12@1 vblk_request:end request_id=1\n"
            "# began before the recording; never ends; abandoned\n"
            "2.0 12@1 vblk_request:end request_id=2\n"
            "3.0 12@1 vblk_request:begin request_id=3 device_id=5 head=3\n"
            "4.0 12@1 vblk_request:begin request_id=4 device_id=5 head=4\n"
            "4.5 12@1 vblk_request:abandoned request_id=4\n");
    feed_end(f, 9);
    latency = json_object_get(feed_report(f), "latency");
    assert_int_equal(json_number_of(latency, "requests"), 1);
    assert_int_equal(json_number_of(latency, "in_flight"), 1);
    assert_int_equal(json_number_of(stage(f, "queued"), "max_ns"), 10000);
    assert_int_equal(json_number_of(stage(f, "backend"), "max_ns"), 30000);
    assert_int_equal(json_number_of(stage(f, "completing"), "max_ns"), 60000);
    assert_int_equal(json_number_of(stage(f, "total"), "max_ns"), 100000);
    feed_destroy(f);
}

static void test_two_processes_may_use_the_same_id(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, "1.0 7:12@1 vblk_request:begin request_id=1 device_id=5\n"
            "2.0 8:12@1 vblk_request:begin request_id=1 device_id=5\n"
            "2.1 8:12@1 vblk_request:end request_id=1\n"
            "3.0 7:12@1 vblk_request:end request_id=1\n");
    feed_end(f, 9);
    assert_int_equal(json_number_of(stage(f, "total"), "count"), 2);
    assert_int_equal(json_number_of(stage(f, "total"), "max_ns"), 2000000000);
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_two_processes_may_use_the_same_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
