/*
 * Goal:   needless-event-writes is found by a loop's totals over the whole recording, at the contract's limits.
 * Method: samples as text, with and without the notifications themselves.
 * Breaks: the cost of a flag that is up while polling goes unseen, or a few writes at a race are reported.
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

/* Totals at the begin and at the end. */
static struct feed *samples(unsigned sets, int notifies, int writes)
{
    struct feed *f = feed_create(sets);

    feed(f, feed_baseline);
    feed(f,
         "2 19@3 rt_loop:sample loop_id=3 notifies=5000 event_writes=5000 event_writes_while_polling=4000\n"
         "2 19@3 vblk_queue:sample device_id=5 queue_index=0 pops=100\n");
    feed_format(f,
                "9 19@3 rt_loop:sample loop_id=3 notifies=%d event_writes=%d event_writes_while_polling=%d",
                5000 + notifies, 5000 + writes, 4000 + writes);
    feed(f, "9 19@3 vblk_queue:sample device_id=5 queue_index=0 pops=200\n");
    return f;
}

static void test_found_with_its_cost(void **state)
{
    struct feed *f = samples(FEED_CORE_ONLY, 1000, 400);
    json_t *finding;

    feed_end(f, 9);
    finding = feed_finding(f, "needless-event-writes");
    assert_string_equal(json_text_of(finding, "severity"), "warning");
    assert_int_equal(json_number_of(finding, "count"), 400);
    assert_string_equal(json_text_of(json_object_get(finding, "subject"), "loop"), "iothread0");
    assert_non_null(strstr(json_text_of(finding, "summary"), "4.00 needless system calls per request"));
    expect(f, "needless-event-writes", "");
}

static void test_evidence_from_the_loop(void **state)
{
    struct feed *f = samples(FEED_ALL_SETS, 1000, 400);
    json_t *evidence;

    feed(f, "9.1 12@1 rt_loop:poll_begin loop_id=3 timeout_ns=-1\n"
            "9.2 13@2 rt_loop:notify loop_id=3 thread_id=13 notify_me=1 wrote_event=1\n");
    feed_end(f, 10);
    evidence = json_object_get(feed_finding(f, "needless-event-writes"), "evidence");
    assert_int_equal(json_array_size(evidence), 3);
    expect(f, "needless-event-writes", "");
}

static void test_limits(void **state)
{
    static const struct {
        int notifies, writes;
        bool found;
    } cases[] = {
        { 2000, 100, true }, { 2001, 100, false }, { 99, 99, false }, { 10000, 0, false }, { 100, 100, true }
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct feed *f = samples(FEED_CORE_ONLY, cases[i].notifies, cases[i].writes);

        feed_end(f, 9);
        expect(f, cases[i].found ? "needless-event-writes" : "", "");
    }
}

static void test_a_loop_that_is_born_counts_from_nothing(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, feed_baseline);
    feed(f, "2 11@0 rt_loop:create loop_id=9 name=new thread_id=14\n"
            "3 19@3 rt_loop:sample loop_id=9 notifies=500 event_writes_while_polling=500\n");
    feed_end(f, 9);
    expect(f, "needless-event-writes", "");
}

static void test_a_lost_sample_changes_nothing(void **state)
{
    struct feed *f = samples(FEED_CORE_ONLY, 1000, 400);

    feed_loss(f, 3, 3, 8);
    feed_end(f, 9);
    expect(f, "events-lost needless-event-writes", "");
}

static void test_writes_before_the_recording(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, feed_baseline);
    feed(f,
         "2 19@3 rt_loop:sample loop_id=3 notifies=5000 event_writes=5000 event_writes_while_polling=4000\n");
    feed_end(f, 9);
    expect(f, "", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_with_its_cost),
        cmocka_unit_test(test_evidence_from_the_loop),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_a_loop_that_is_born_counts_from_nothing),
        cmocka_unit_test(test_a_lost_sample_changes_nothing),
        cmocka_unit_test(test_writes_before_the_recording),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
