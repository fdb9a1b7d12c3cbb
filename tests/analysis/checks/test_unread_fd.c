/*
 * Goal:   unread-fd is found for a handler that never reads, not for one that is stale, sometimes reads, or loses a race.
 * Method: rows of dispatches as text after a whole baseline; losses in and beside the rows.
 * Breaks: a spinning loop stays unexplained, or a healthy one is blamed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed.h"

static struct feed *begin(void)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    feed(f, "1.5 11@0 rt_loop:fd_attach loop_id=2 handler_id=30 fd=50 role=4\n");
    return f;
}

/* @count dispatches, a millisecond apart, of which each @every-th makes progress (0: none). */
static void dispatches(struct feed *f, double from_s, int count, int every)
{
    for (int i = 0; i < count; i++)
        feed_format(f, "%.4f 11@0 rt_loop:fd_dispatch loop_id=2 handler_id=30 fd=50 progress=%d",
                    from_s + i * 0.001, every && i % every == every - 1);
}

static void expect(struct feed *f, const char *findings, const char *inconclusive)
{
    assert_string_equal(feed_findings(f), findings);
    assert_string_equal(feed_inconclusive(f), inconclusive);
    feed_destroy(f);
}

static void test_found(void **state)
{
    struct feed *f = begin();
    json_t *finding, *subject;

    dispatches(f, 2, 250, 0);
    feed_end(f, 9);
    finding = feed_finding(f, "unread-fd");
    subject = json_object_get(finding, "subject");
    assert_string_equal(json_text_of(finding, "severity"), "error");
    assert_int_equal(json_number_of(finding, "count"), 250);
    assert_int_equal(json_number_of(subject, "handler_id"), 30);
    assert_int_equal(json_number_of(subject, "fd"), 50);
    assert_string_equal(json_text_of(subject, "loop"), "main");
    expect(f, "unread-fd", "");
}

static void test_found_after_it_was_removed(void **state)
{
    struct feed *f = begin();

    dispatches(f, 2, 100, 0);
    feed(f, "3 11@0 rt_loop:fd_detach loop_id=2 handler_id=30 fd=50\n");
    feed_end(f, 9);
    expect(f, "unread-fd", "");
}

static void test_silent_below_the_limit(void **state)
{
    struct feed *f = begin();

    dispatches(f, 2, 99, 0);
    feed_end(f, 9);
    expect(f, "", "");
}

static void test_silent_when_it_reads_now_and_then(void **state)
{
    struct feed *f = begin();

    dispatches(f, 2, 900, 90);
    feed_end(f, 9);
    expect(f, "", "");
}

static void test_silent_when_it_is_stale(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    feed(f, "2 12@1 vblk_dataplane:notifier_detach device_id=5 queue_index=0 fd=30 loop_id=3\n");
    for (int i = 0; i < 200; i++)
        feed_format(f, "3.%03d 12@1 rt_loop:fd_dispatch loop_id=3 handler_id=7 fd=30 progress=0", i);
    feed_end(f, 9);
    expect(f, "stale-fd", "");
}

static void test_silent_when_a_stale_rival_takes_all(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    feed(f, "2 11@0 rt_loop:fd_attach loop_id=2 handler_id=20 fd=30 role=2 device_id=5 queue_index=0\n");
    for (int i = 0; i < 200; i++)
        feed_format(f,
                    "3.%03d 11@0 rt_loop:fd_dispatch loop_id=2 handler_id=20 fd=30 progress=1\n"
                    "3.%03d 12@1 rt_loop:fd_dispatch loop_id=3 handler_id=7 fd=30 progress=0",
                    i, i);
    feed_end(f, 9);
    expect(f, "stale-fd", "");
}

static void test_skipped_without_its_set(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, feed_baseline);
    feed_end(f, 9);
    assert_non_null(strstr(feed_skipped(f), "unread-fd"));
    assert_int_equal(feed_status(f), 0);
    expect(f, "", "");
}

static void test_unsure_when_the_row_has_a_gap(void **state)
{
    struct feed *f = begin();

    feed_loss(f, 0, 2.040, 2.045);
    dispatches(f, 2, 100, 0);
    feed_end(f, 9);
    expect(f, "events-lost", "unread-fd");
}

static void test_stands_with_another_row_without_gap(void **state)
{
    struct feed *f = begin();

    feed_loss(f, 0, 2.040, 2.045);
    dispatches(f, 2, 300, 0);
    feed_end(f, 9);
    expect(f, "events-lost unread-fd", "");
}

static void test_stands_when_another_stream_has_a_gap(void **state)
{
    struct feed *f = begin();

    feed_loss(f, 1, 2.040, 2.045);
    dispatches(f, 2, 100, 0);
    feed_end(f, 9);
    expect(f, "events-lost unread-fd", "");
}

static void test_unsure_when_the_registration_is_unknown(void **state)
{
    /* It spins, but stale or unread, who knows: it was registered before. */
    struct feed *f = feed_create(FEED_ALL_SETS);

    dispatches(f, 2, 200, 0);
    feed_end(f, 9);
    expect(f, "", "stale-fd unread-fd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_found_after_it_was_removed),
        cmocka_unit_test(test_silent_below_the_limit),
        cmocka_unit_test(test_silent_when_it_reads_now_and_then),
        cmocka_unit_test(test_silent_when_it_is_stale),
        cmocka_unit_test(test_silent_when_a_stale_rival_takes_all),
        cmocka_unit_test(test_skipped_without_its_set),
        cmocka_unit_test(test_unsure_when_the_row_has_a_gap),
        cmocka_unit_test(test_stands_with_another_row_without_gap),
        cmocka_unit_test(test_stands_when_another_stream_has_a_gap),
        cmocka_unit_test(test_unsure_when_the_registration_is_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
