/*
 * Goal:   a handler is marked stale by what happened to its own queue after it was attached, with the time and the reason.
 * Method: events as text, then a look at the mark; how long is too long is the check's business (test_stale_fd).
 * Breaks: stale-fd and unread-fd.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/check.h"
#include "feed/feed.h"

static void expect(const char *lines, uint64_t handler_id, enum stale_reason reason, int64_t since_ns)
{
    struct feed *f = feed_create(FEED_ALL_SETS);
    const struct stale *stale;

    feed(f, feed_baseline);
    feed(f, lines);
    stale = &process_handler(analysis_process(feed_analysis(f), 0), handler_id)->stale;
    assert_int_equal(stale->reason, reason);
    if (reason)
        assert_int_equal(stale->since_ns, since_ns);
    feed_destroy(f);
}

#define DETACH "2 12@1 vblk_dataplane:notifier_detach device_id=5 queue_index=0 fd=30 loop_id=3\n"

static void test_reasons(void **state)
{
    expect("", 7, STALE_NOT, 0);
    expect(DETACH, 7, STALE_DETACHED, 2000000000);
    expect("2 11@0 vblk_dataplane:notifier_release device_id=5 queue_index=0 fd=30\n", 7, STALE_RELEASED,
           2000000000);
    expect("2 11@0 vblk_dataplane:state device_id=5 old_state=3 new_state=0\n", 7, STALE_STOPPED, 2000000000);
    expect("2 11@0 vblk_dataplane:device_destroy device_id=5\n", 7, STALE_STOPPED, 2000000000);
    expect("2 11@0 vblk_dataplane:loop_change device_id=5 queue_index=0 old_loop_id=3 new_loop_id=4\n", 7,
           STALE_MOVED, 2000000000);
}

static void test_only_its_own_queue_matters(void **state)
{
    expect(DETACH, 8, STALE_NOT, 0);
    expect("2 12@1 vblk_dataplane:notifier_detach device_id=6 queue_index=0 fd=30 loop_id=3\n", 7, STALE_NOT,
           0);
    expect("2 12@1 vblk_dataplane:notifier_detach device_id=5 queue_index=0 fd=30 loop_id=2\n", 7, STALE_NOT,
           0);
    expect("2 12@1 vblk_dataplane:notifier_release device_id=5 queue_index=0 fd=99\n", 7, STALE_NOT, 0);
    expect("2 11@0 vblk_dataplane:state device_id=6 old_state=3 new_state=0\n", 7, STALE_NOT, 0);
    expect(DETACH, 1, STALE_NOT, 0); /* a wake-up handler */
}

static void test_a_queue_that_comes_back_in_time_was_not_away(void **state)
{
    expect("2.0000 11@0 vblk_dataplane:loop_change device_id=5 queue_index=0 old_loop_id=3 new_loop_id=4\n"
           "2.0005 11@0 vblk_dataplane:loop_change device_id=5 queue_index=0 old_loop_id=4 new_loop_id=3\n",
           7, STALE_NOT, 0);
    expect("2.0 11@0 vblk_dataplane:loop_change device_id=5 queue_index=0 old_loop_id=3 new_loop_id=4\n"
           "2.5 11@0 vblk_dataplane:loop_change device_id=5 queue_index=0 old_loop_id=4 new_loop_id=3\n",
           7, STALE_MOVED, 2000000000);
}

static void test_a_lost_move_is_seen_by_the_next(void **state)
{
    /* Attached in loop 4 after a move that was lost; the next move starts there. */
    expect("2 13@2 rt_loop:fd_attach loop_id=4 handler_id=20 fd=30 role=2 device_id=5 queue_index=0\n"
           "3 11@0 vblk_dataplane:loop_change device_id=5 queue_index=0 old_loop_id=4 new_loop_id=2\n",
           20, STALE_MOVED, 3000000000);
}

static void test_the_first_reason_counts(void **state)
{
    expect(DETACH "3 11@0 vblk_dataplane:state device_id=5 old_state=3 new_state=0\n", 7, STALE_DETACHED,
           2000000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_only_its_own_queue_matters),
        cmocka_unit_test(test_a_queue_that_comes_back_in_time_was_not_away),
        cmocka_unit_test(test_a_lost_move_is_seen_by_the_next),
        cmocka_unit_test(test_the_first_reason_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
