/*
 * Goal:   slow when more than one request in a thousand is, exactly; the dearest stage is named.
 * Method: rows of requests with known times in each stage.
 * Breaks: the wrong part is blamed, or a single slow request raises an alarm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "feed/feed.h"

enum { QUEUED, BACKEND, COMPLETING };

struct run {
    struct feed *feed;
    double now_s;
    int id;
};

static struct run begin(void)
{
    struct run run = { .feed = feed_create(FEED_ALL_SETS), .now_s = 2 };

    feed(run.feed, feed_baseline);
    return run;
}

/* One after the other; the given stage takes @long_s in the first @slow of them, 10 us otherwise. */
static void requests(struct run *run, int device, int count, int slow, int stage, double long_s)
{
    static const char *const next[] = { "submit", "complete", "end" };

    for (int i = 0; i < count; i++) {
        feed_format(run->feed, "%.6f 12@1 vblk_request:begin request_id=%d device_id=%d head=1 loop_id=3",
                    run->now_s, ++run->id, device);
        for (int j = QUEUED; j <= COMPLETING; j++) {
            run->now_s += j == stage && i < slow ? long_s : 0.00001;
            feed_format(run->feed, "%.6f 12@1 vblk_request:%s request_id=%d", run->now_s, next[j], run->id);
        }
        feed_format(run->feed, "%.6f 12@1 vblk_queue:interrupt device_id=%d", run->now_s, device);
    }
}

static void expect(struct run *run, const char *verdict)
{
    feed_end(run->feed, run->now_s + 1);
    assert_string_equal(feed_verdict(run->feed), verdict);
    feed_destroy(run->feed);
}

static void test_backend_and_the_device_is_clean(void **state)
{
    struct run run = begin();
    json_t *finding;

    requests(&run, 5, 1000, 2, BACKEND, 0.15);
    feed_end(run.feed, run.now_s + 1);
    finding = feed_finding(run.feed, "slow-requests");
    assert_string_equal(json_text_of(finding, "severity"), "warning");
    assert_string_equal(json_text_of(finding, "cause"), "backend");
    assert_int_equal(json_number_of(finding, "count"), 2);
    assert_int_equal(json_number_of(json_object_get(finding, "subject"), "device_id"), 5);
    assert_true(feed_says(run.feed, "the device itself is clean"));
    assert_string_equal(feed_findings(run.feed), "slow-requests");
    feed_destroy(run.feed);
}

static void test_other_stages(void **state)
{
    static const char *const causes[] = { "queued", "backend", "completing" };

    for (int stage = QUEUED; stage <= COMPLETING; stage++) {
        struct run run = begin();

        requests(&run, 5, 1000, 5, stage, 0.15);
        feed_end(run.feed, run.now_s + 1);
        assert_string_equal(json_text_of(feed_finding(run.feed, "slow-requests"), "cause"), causes[stage]);
        feed_destroy(run.feed);
    }
}

static void test_waiting_for_another_is_a_stage(void **state)
{
    struct run run = begin();

    requests(&run, 5, 1000, 0, BACKEND, 0);
    for (int i = 0; i < 3; i++) {
        feed_format(run.feed,
                    "%.6f 12@1 vblk_request:begin request_id=%d device_id=5 head=2 loop_id=3\n"
                    "%.6f 12@1 vblk_request:serialise_wait request_id=%d blocking_request_id=1",
                    run.now_s, 2000 + i, run.now_s, 2000 + i);
        run.now_s += 0.2;
        feed_format(run.feed,
                    "%.6f 12@1 vblk_request:submit request_id=%d\n%.6f 12@1 vblk_request:end request_id=%d\n"
                    "%.6f 12@1 vblk_queue:interrupt device_id=5",
                    run.now_s, 2000 + i, run.now_s, 2000 + i, run.now_s);
    }
    feed_end(run.feed, run.now_s + 1);
    assert_string_equal(json_text_of(feed_finding(run.feed, "slow-requests"), "cause"), "serialising");
    feed_destroy(run.feed);
}

static void test_silent(void **state)
{
    struct run run = begin();

    requests(&run, 5, 1000, 1, BACKEND, 5); /* one in a thousand */
    expect(&run, "/");
    run = begin();
    requests(&run, 5, 999, 50, BACKEND, 0.2); /* too few to say */
    expect(&run, "/");
    run = begin();
    requests(&run, 5, 1000, 50, BACKEND, 0.0999); /* all within the limit, by little */
    expect(&run, "/");
}

static void test_each_device_for_itself(void **state)
{
    struct run run = begin();

    requests(&run, 6, 1000, 2, BACKEND, 0.15); /* two in all are no more than 1 in 1000 of both */
    requests(&run, 5, 1200, 0, BACKEND, 0);
    feed_end(run.feed, run.now_s + 1);
    assert_int_equal(
        json_number_of(json_object_get(feed_finding(run.feed, "slow-requests"), "subject"), "device_id"), 6);
    feed_destroy(run.feed);
}

static void test_small_devices_together(void **state)
{
    struct run run = begin();

    requests(&run, 6, 600, 3, BACKEND, 0.15);
    requests(&run, 5, 600, 3, BACKEND, 0.15);
    expect(&run, "slow-requests/");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backend_and_the_device_is_clean), cmocka_unit_test(test_other_stages),
        cmocka_unit_test(test_waiting_for_another_is_a_stage),  cmocka_unit_test(test_silent),
        cmocka_unit_test(test_each_device_for_itself),          cmocka_unit_test(test_small_devices_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
