/*
 * Goal:   each request counts once in each stage that it went through, in the bucket and at the time that are right.
 * Method: requests with known times; the report's series.
 * Breaks: histograms and heat map of latency.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed.h"

/* How many requests the stage's bucket that holds @duration_ns has, all over time (-1) or in a step. */
static int64_t counted(struct feed *f, const char *stage, int64_t duration_ns, int step)
{
    json_t *latency = json_object_get(json_object_get(feed_report(f), "series"), "latency");
    const json_t *histogram = json_object_get(json_object_get(latency, "stages"), stage);
    const json_t *from = json_object_get(histogram, "from_ns");
    const json_t *rows = json_object_get(json_object_get(latency, "heat"), stage);
    const size_t buckets = json_array_size(json_object_get(histogram, "counts"));

    assert_int_equal(json_array_size(rows), buckets);
    for (size_t i = 0; i < buckets; i++) {
        if (json_integer_value(json_array_get(from, i)) > duration_ns ||
            json_integer_value(json_array_get(from, i + 1)) <= duration_ns)
            continue;
        return json_integer_value(step < 0 ? json_array_get(json_object_get(histogram, "counts"), i)
                                           : json_array_get(json_array_get(rows, i), (size_t)step));
    }
    return -1;
}

static void test_stages(void **state)
{
    struct analysis_options options;
    struct feed *f;

    analysis_options_init(&options);
    options.series = true;
    f = feed_create_with(FEED_ALL_SETS, &options);
    feed(f, "1.000000 12@1 vblk_request:begin request_id=1 device_id=5\n"
            "1.000010 12@1 vblk_request:submit request_id=1\n"
            "1.000040 12@1 vblk_request:complete request_id=1\n"
            "1.000100 12@1 vblk_request:end request_id=1\n"
            "1.100000 12@1 vblk_request:begin request_id=3 device_id=5\n"
            "1.100100 12@1 vblk_request:end request_id=3\n"
            "# began before the recording: how long it took is not known\n"
            "1.2 12@1 vblk_request:end request_id=2\n");
    feed_end(f, 1.3);
    assert_int_equal(counted(f, "queued", 10000, -1), 1);
    assert_int_equal(counted(f, "backend", 30000, -1), 1);
    assert_int_equal(counted(f, "completing", 60000, -1), 1);
    assert_int_equal(counted(f, "total", 100000, -1), 2);
    assert_int_equal(counted(f, "total", 100000, 0), 1);
    assert_int_equal(counted(f, "total", 100000, 10), 1);
    assert_int_equal(counted(f, "total", 100000, 5), 0);
    assert_int_equal(counted(f, "serialising", 1, -1), -1);
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
