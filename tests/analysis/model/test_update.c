/*
 * Goal:   the model follows the events: lives of handlers, drains by thread, states, announcements that change nothing.
 * Method: events as text, then a look at the model.
 * Breaks: every check that asks the model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/check.h"
#include "feed/feed.h"

static struct feed *begin(void)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    return f;
}

static struct process *first(struct feed *f)
{
    return analysis_process(feed_analysis(f), 0);
}

static struct device *disk(struct feed *f)
{
    return process_device(first(f), 5);
}

static void test_baseline_is_taken_in(void **state)
{
    struct feed *f = begin();
    const struct handler *handler = process_handler(first(f), 7);

    assert_int_equal(process_loop(first(f), 3)->thread_id, 12);
    assert_true(handler->alive && handler->announced);
    assert_int_equal(handler->role, ROLE_HOST_NOTIFIER);
    assert_int_equal(handler->attach_vtid, EVENT_UNKNOWN_ID); /* not the sampler */
    assert_int_equal(disk(f)->state, STATE_STARTED);
    assert_int_equal(device_queue(disk(f), 0)->attached_loop, 3);
    assert_int_equal(device_queue(disk(f), 0)->owner_loop, 3);
    feed_destroy(f);
}

static void test_handler_lives_once(void **state)
{
    struct feed *f = begin();

    feed(f, "2 12@1 rt_loop:fd_detach loop_id=3 handler_id=7 fd=30\n");
    assert_null(process_handler(first(f), 7));
    feed(f,
         "2 12@1 rt_loop:fd_attach loop_id=3 handler_id=9 fd=30 role=5\n"); /* same descriptor, other life */
    assert_int_equal(process_handler(first(f), 9)->role, ROLE_COMPLETION);
    feed(f, "3 12@1 rt_loop:destroy loop_id=3\n");
    assert_null(process_handler(first(f), 9)); /* its registrations went with the loop */
    assert_true(process_loop(first(f), 3)->gone);
    assert_non_null(process_handler(first(f), 1)); /* main's */
    feed_destroy(f);
}

static void test_attach_remembers_the_drain(void **state)
{
    struct feed *f = begin();
    const struct handler *handler;

    feed(f, "2.0 11@0 vblk_dataplane:state device_id=5 old_state=2 new_state=3\n"
            "2.1 11@0 vblk_dataplane:drain_begin device_id=5 depth=1 state=3\n"
            "2.2 11@0 rt_loop:fd_attach loop_id=2 handler_id=20 fd=30 role=2 device_id=5\n"
            "2.2 12@1 rt_loop:fd_attach loop_id=3 handler_id=21 fd=31 role=2 device_id=5 queue_index=1\n");
    handler = process_handler(first(f), 20);
    assert_true(handler->attach_in_drain);
    assert_int_equal(handler->attach_drain.begin_ns, 2100000000);
    assert_int_equal(handler->attach_state, STATE_STOPPING);
    assert_int_equal(handler->attach_vtid, 11);
    assert_false(process_handler(first(f), 21)->attach_in_drain); /* another thread's */
    feed_destroy(f);
}

static void test_drains_by_thread(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 11@0 vblk_dataplane:drain_begin device_id=5 depth=1\n"
            "2.1 12@1 vblk_dataplane:drain_begin device_id=5 depth=2\n");
    assert_int_equal(device_drain_of(disk(f), 11)->depth, 1);
    assert_int_equal(device_drain_of(disk(f), 12)->depth, 2);
    assert_null(device_drain_of(disk(f), 13));
    feed(f, "2.2 11@0 vblk_dataplane:drain_end device_id=5 depth=2\n");
    assert_null(device_drain_of(disk(f), 11));
    assert_non_null(device_drain_of(disk(f), 12));
    feed(f, "2.3 12@1 vblk_dataplane:drain_end device_id=5 depth=1\n");
    assert_int_equal(disk(f)->drains->len, 0);
    feed_destroy(f);
}

static void test_open_drains_are_announced_once(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    for (int serial = 1; serial <= 2; serial++)
        feed_format(f,
                    "%d.0 19@3 rt_process:baseline_begin serial=%d\n"
                    "%d.1 19@3 vblk_dataplane:drain_begin device_id=5 depth=2\n"
                    "%d.2 19@3 rt_process:baseline_end serial=%d",
                    serial, serial, serial, serial, serial);
    assert_int_equal(disk(f)->drains->len, 2);
    assert_true(disk(f)->drains_known);
    feed_destroy(f);
}

static void test_announcement_yields_to_changes_unless_events_were_lost(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 11@0 vblk_dataplane:state device_id=5 old_state=2 new_state=3\n"
            "2.1 19@3 rt_process:baseline_begin serial=2\n"
            "2.2 19@3 vblk_dataplane:state device_id=5 old_state=2 new_state=2\n");
    assert_int_equal(disk(f)->state, STATE_STOPPING);
    feed_loss(f, 0, 3, 4);
    feed(f, "5.0 19@3 vblk_dataplane:state device_id=5 old_state=0 new_state=0\n");
    assert_int_equal(disk(f)->state, STATE_STOPPED);
    feed_destroy(f);
}

static void test_late_detach_does_not_undo_the_move(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 13@2 vblk_dataplane:notifier_attach device_id=5 queue_index=0 fd=30 loop_id=4\n"
            "2.1 12@1 vblk_dataplane:notifier_detach device_id=5 queue_index=0 fd=30 loop_id=3\n");
    assert_int_equal(device_queue(disk(f), 0)->attached_loop, 4);
    feed(f, "2.2 13@2 vblk_dataplane:notifier_detach device_id=5 queue_index=0 fd=30 loop_id=4\n");
    assert_int_equal(device_queue(disk(f), 0)->attached_loop, 0);
    feed_destroy(f);
}

static void test_samples_keep_first_and_last(void **state)
{
    struct feed *f = begin();

    feed(f, "2 19@3 rt_loop:sample loop_id=3 passes=10\n"
            "3 19@3 rt_loop:sample loop_id=3 passes=30\n"
            "3 19@3 rt_lock:sample lock_id=6 wait_ns=7\n"
            "3 19@3 vblk_queue:sample device_id=5 queue_index=0 kicks=4\n");
    assert_int_equal(process_loop(first(f), 3)->first.fields.rt_loop_sample.passes, 10);
    assert_int_equal(process_loop(first(f), 3)->last.fields.rt_loop_sample.passes, 30);
    assert_int_equal(process_lock(first(f), 6)->last.fields.rt_lock_sample.wait_ns, 7);
    assert_int_equal(device_queue(disk(f), 0)->last.fields.vblk_queue_sample.kicks, 4);
    feed_destroy(f);
}

static void test_process_ends_with_its_last_loop(void **state)
{
    struct feed *f = begin();

    feed(f, "2 12@1 rt_loop:destroy loop_id=3\n3 13@2 rt_loop:destroy loop_id=4\n");
    assert_false(first(f)->ended);
    feed(f, "4 11@0 rt_loop:destroy loop_id=2\n");
    assert_true(first(f)->ended);
    feed_end(f, 9);
    assert_int_equal(process_end_ns(first(f)), 4000000000);
    feed_destroy(f);
}

static void test_gone_objects_are_bounded(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    for (int id = 1; id < 10000; id++)
        feed_format(f,
                    "1 11@0 rt_loop:create loop_id=%d name=loop\n"
                    "1 11@0 rt_loop:fd_attach loop_id=%d handler_id=%d fd=3\n"
                    "1 11@0 rt_loop:destroy loop_id=%d\n"
                    "1 11@0 rt_lock:create lock_id=%d\n"
                    "1 11@0 rt_lock:destroy lock_id=%d",
                    id, id, id, id, id, id);
    assert_true(g_hash_table_size(first(f)->loops) < 5000);
    assert_true(g_hash_table_size(first(f)->locks) < 5000);
    assert_int_equal(g_hash_table_size(first(f)->handlers), 0);
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_baseline_is_taken_in),
        cmocka_unit_test(test_handler_lives_once),
        cmocka_unit_test(test_attach_remembers_the_drain),
        cmocka_unit_test(test_drains_by_thread),
        cmocka_unit_test(test_open_drains_are_announced_once),
        cmocka_unit_test(test_announcement_yields_to_changes_unless_events_were_lost),
        cmocka_unit_test(test_late_detach_does_not_undo_the_move),
        cmocka_unit_test(test_samples_keep_first_and_last),
        cmocka_unit_test(test_process_ends_with_its_last_loop),
        cmocka_unit_test(test_gone_objects_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
