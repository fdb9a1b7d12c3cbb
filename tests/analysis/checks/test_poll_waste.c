/*
 * Goal:   poll-waste is told of a loop that polls most of its time for nothing, and which handler keeps the window open.
 * Method: samples at both sides of the limits, and adjustments, as text.
 * Breaks: a burnt processor goes unexplained, or polling that pays is called waste.
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

static struct feed *samples(unsigned sets, int poll_ms, int other_ms, int polls, int useful)
{
    struct feed *f = feed_create(sets);

    feed(f, feed_baseline);
    feed(f,
         "2 19@3 rt_loop:sample loop_id=3 polls=900 polls_useful=900 busy_ns=5000000000 poll_ns=7000000000 "
         "wait_ns=9000000000\n");
    feed_format(f,
                "9 19@3 rt_loop:sample loop_id=3 polls=%d polls_useful=%d busy_ns=5000000000 "
                "poll_ns=%d000000 wait_ns=%d000000",
                900 + polls, 900 + useful, 7000 + poll_ms, 9000 + other_ms);
    return f;
}

static void test_found(void **state)
{
    struct feed *f = samples(FEED_CORE_ONLY, 6000, 1000, 1000, 10);
    json_t *finding, *evidence;

    feed(f, "9.1 12@1 rt_loop:poll_adjust loop_id=3 old_ns=4000 new_ns=8000 handler_id=8\n"
            "9.2 12@1 rt_loop:poll_adjust loop_id=3 old_ns=8000 new_ns=16000 handler_id=7\n"
            "9.3 12@1 rt_loop:poll_adjust loop_id=3 old_ns=16000 new_ns=32000 handler_id=7\n"
            "9.4 12@1 rt_loop:poll_adjust loop_id=3 old_ns=32000 new_ns=16000 handler_id=8\n"
            "9.5 12@1 rt_loop:poll_adjust loop_id=3 old_ns=16000 new_ns=8000 handler_id=8\n");
    feed_end(f, 10);
    finding = feed_finding(f, "poll-waste");
    assert_string_equal(json_text_of(finding, "severity"), "info");
    assert_int_equal(json_number_of(finding, "count"), 990);
    assert_int_equal(json_number_of(json_object_get(finding, "subject"), "handler_id"), 7);
    assert_non_null(strstr(json_text_of(finding, "summary"), "handler 7 (queue 0 of disk)"));
    /* Its own window, not the one that was adjusted last; evidence is in the order of time. */
    evidence = json_array_get(json_object_get(finding, "evidence"), 1);
    assert_string_equal(json_text_of(evidence, "event"), "rt_loop:poll_adjust");
    assert_non_null(strstr(json_text_of(evidence, "text"), "up to 32000 ns"));
    assert_int_equal(feed_status(f), 0);
    expect(f, "poll-waste", "");
}

static void test_keeper_by_what_ended_polls(void **state)
{
    struct feed *f = samples(FEED_ALL_SETS, 6000, 1000, 1000, 10);

    feed(f, "9.1 12@1 rt_loop:poll_end loop_id=3 progress=1 handler_id=8\n"
            "9.1 12@1 rt_loop:poll_end loop_id=3 progress=0 handler_id=7\n");
    for (int i = 0; i < 40; i++)
        feed_format(f, "9.2 12@1 rt_loop:poll_end loop_id=3 progress=1 handler_id=%d", i % 2 ? 8 : 100 + i);
    feed_end(f, 10);
    assert_int_equal(json_number_of(json_object_get(feed_finding(f, "poll-waste"), "subject"), "handler_id"),
                     8);
    expect(f, "poll-waste", "");
}

static void test_limits(void **state)
{
    static const struct {
        int poll_ms, other_ms, polls, useful;
        bool found;
    } cases[] = { { 3501, 3500, 100, 4, true },
                  { 3500, 3500, 100, 4, false },
                  { 7000, 0, 100, 5, false },
                  { 7000, 0, 100, 99, false },
                  { 7000, 0, 0, 0, false } };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct feed *f =
            samples(FEED_CORE_ONLY, cases[i].poll_ms, cases[i].other_ms, cases[i].polls, cases[i].useful);

        feed_end(f, 9);
        expect(f, cases[i].found ? "poll-waste" : "", "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_keeper_by_what_ended_polls),
        cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
