/*
 * Goal:   a queue that the driver broke is reported, by name, once per queue; one that failed otherwise is not the driver's fault.
 * Method: the device's own event, for two queues, one twice.
 * Breaks: an operator would look for the fault in the device instead of the guest, or in the guest instead of the host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed.h"

static void test_reports_queue_and_reason(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);
    json_t *finding, *subject;

    feed(f,
         "1 22@0 vblk_dataplane:device_create device_id=3 name=disk queue_count=2\n"
         "2 11@1 vblk_queue:broken device_id=3 queue_index=1 error=-71 reason=descriptor~outside~memory\n"
         "3 11@1 vblk_queue:broken device_id=3 queue_index=1 error=-71 reason=descriptor~outside~memory\n");
    feed_end(f, 9);
    finding = feed_finding(f, "queue-broken");
    subject = json_object_get(finding, "subject");
    assert_string_equal(json_text_of(finding, "severity"), "error");
    assert_int_equal(json_number_of(finding, "count"), 2);
    assert_int_equal(json_number_of(finding, "begin_ns"), 2000000000);
    assert_int_equal(json_number_of(subject, "device_id"), 3);
    assert_int_equal(json_number_of(subject, "queue_index"), 1);
    assert_string_equal(json_text_of(subject, "device"), "disk");
    assert_non_null(strstr(json_text_of(finding, "summary"), "the driver broke the protocol: descriptor outside memory"));
    assert_int_equal(feed_status(f), 1);
    feed_destroy(f);
}

static void test_a_failed_dirty_log_is_not_the_drivers_fault(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);
    json_t *finding;

    feed(f, "1 11@1 vblk_queue:broken device_id=3 queue_index=1 error=-14 reason=the~log~is~gone\n");
    feed_end(f, 9);
    finding = feed_finding(f, "queue-broken");
    assert_null(strstr(json_text_of(finding, "summary"), "the driver broke"));
    assert_non_null(strstr(json_text_of(finding, "summary"), "the log is gone"));
    assert_non_null(strstr(json_text_of(finding, "advice"), "nothing wrong"));
    feed_destroy(f);
}

static void test_one_finding_per_queue(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, "1 11@1 vblk_queue:broken device_id=3 queue_index=1 error=-71\n"
            "2 11@1 vblk_queue:broken device_id=3 queue_index=0 error=-71\n"
            "3 11@1 vblk_queue:broken device_id=4 queue_index=0 error=-71\n");
    feed_end(f, 9);
    assert_string_equal(feed_findings(f), "queue-broken queue-broken queue-broken");
    feed_destroy(f);
}

static void test_silent_without_event(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, "1 11@1 vblk_queue:sample device_id=3 queue_index=1\n");
    feed_end(f, 9);
    assert_string_equal(feed_findings(f), "");
    assert_int_equal(feed_status(f), 0);
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reports_queue_and_reason),
        cmocka_unit_test(test_a_failed_dirty_log_is_not_the_drivers_fault),
        cmocka_unit_test(test_one_finding_per_queue),
        cmocka_unit_test(test_silent_without_event),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
