/*
 * Goal:   lost events are told, as info, with streams and intervals, whatever sets were recorded.
 * Method: losses given to an analysis, with and without events of ours.
 * Breaks: a reader trusts a recording that has holes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed.h"

static void test_intervals_and_streams(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);
    json_t *finding, *trace;

    feed(f, "1 11@0 vhost_user:message device_id=5\n");
    feed_loss(f, 0, 2, 3);
    feed_loss(f, 0, 4, 5);
    feed_cut(f, 1, 6);
    feed_end(f, 9);
    finding = feed_finding(f, "events-lost");
    assert_string_equal(json_text_of(finding, "severity"), "info");
    assert_int_equal(json_number_of(finding, "count"), 3);
    assert_int_equal(json_number_of(finding, "begin_ns"), 2000000000);
    assert_int_equal(json_number_of(finding, "end_ns"), 9000000000);
    assert_int_equal(json_number_of(json_object_get(finding, "subject"), "streams"), 2);
    trace = json_object_get(feed_report(f), "trace");
    assert_int_equal(json_array_size(json_object_get(trace, "lost_intervals")), 2);
    assert_int_equal(json_array_size(json_object_get(trace, "cut_streams")), 1);
    assert_int_equal(feed_status(f), 0); /* info counts as nothing */
    feed_destroy(f);
}

static void test_silent_without_loss(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, "1 11@0 vhost_user:message device_id=5\n");
    feed_end(f, 9);
    assert_string_equal(feed_findings(f), "");
    feed_destroy(f);
}

static void test_needs_no_set(void **state)
{
    struct feed *f = feed_create(0);

    feed_loss(f, 0, 2, 3);
    feed_end(f, 9);
    assert_string_equal(feed_findings(f), "events-lost");
    assert_null(strstr(feed_skipped(f), "events-lost"));
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_intervals_and_streams),
        cmocka_unit_test(test_silent_without_loss),
        cmocka_unit_test(test_needs_no_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
