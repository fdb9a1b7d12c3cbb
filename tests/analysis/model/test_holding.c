/*
 * Goal:   who holds and who waits is known by thread and coroutine, and nothing is left over that has ended.
 * Method: acquisitions, waits, releases and announcements as events; looks into the model.
 * Breaks: locks are blamed on the wrong coroutine, or memory grows with lost events.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/check.h"
#include "feed/feed.h"
#include "model/holding.h"

static const struct process *process(struct feed *f)
{
    return analysis_process(feed_analysis(f), 0);
}

static void test_hold(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, "1 12@1 rt_lock:acquired lock_id=4 thread_id=12 coroutine_id=71\n");
    assert_int_equal(process_hold(process(f), 4)->coroutine_id, 71);
    assert_int_equal(process_hold(process(f), 4)->tid, 12);
    assert_null(process_hold(process(f), 5));
    feed(f, "2 12@1 rt_lock:released lock_id=4 thread_id=12 coroutine_id=71\n");
    assert_null(process_hold(process(f), 4));
    feed(f, "3 12@1 rt_lock:acquired lock_id=4 thread_id=12\n4 12@1 rt_lock:destroy lock_id=4\n");
    assert_null(process_hold(process(f), 4));
    feed_end(f, 9);
    feed_destroy(f);
}

/* Readers of a reader/writer lock: whoever is named holds it; that one of them left must not leave a wrong name. */
static void test_held_by_several(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, "1 12@1 rt_lock:create lock_id=4 class_name=map kind=1\n"
            "2 12@1 rt_lock:acquired lock_id=4 thread_id=12 coroutine_id=71\n");
    assert_false(process_lock(process(f), 4)->is_shared);
    feed(f, "3 13@1 rt_lock:acquired lock_id=4 thread_id=13 coroutine_id=72\n");
    assert_false(process_lock(process(f), 4)->is_shared); /* a release may be lost */
    assert_int_equal(process_hold(process(f), 4)->coroutine_id, 72);
    feed(f, "4 13@1 rt_lock:released lock_id=4 thread_id=13 coroutine_id=72\n");
    assert_null(process_hold(process(f), 4));
    feed(f, "5 12@1 rt_lock:released lock_id=4 thread_id=12 coroutine_id=71\n");
    assert_null(process_hold(process(f), 4));
    assert_true(process_lock(process(f), 4)->is_shared);

    /* Only lost: the one who seemed to hold it has come again. */
    feed(f, "6 12@1 rt_lock:create lock_id=5 class_name=map kind=1\n"
            "6 12@1 rt_lock:acquired lock_id=5 thread_id=12 coroutine_id=71\n"
            "6 12@1 rt_lock:acquired lock_id=5 thread_id=12 coroutine_id=72\n"
            "6 12@1 rt_lock:released lock_id=5 thread_id=12 coroutine_id=72\n"
            "6 12@1 rt_lock:acquired lock_id=5 thread_id=12 coroutine_id=71\n"
            "6 12@1 rt_lock:released lock_id=5 thread_id=12 coroutine_id=71\n");
    assert_false(process_lock(process(f), 5)->is_shared);
    feed_end(f, 9);
    feed_destroy(f);
}

static void test_without_releases_nothing_is_held(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, "1 12@1 rt_lock:wait lock_id=4 thread_id=12 owner_thread_id=13\n"
            "2 12@1 rt_lock:acquired lock_id=4 thread_id=12 waited=1\n");
    assert_null(process_hold(process(f), 4));
    feed_end(f, 9);
    feed_destroy(f);
}

static void test_wait(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, "1 12@1 rt_lock:wait lock_id=4 thread_id=12 coroutine_id=71 owner_thread_id=13 "
            "owner_coroutine_id=72\n"
            "1 12@1 rt_lock:wait lock_id=5 thread_id=12 owner_thread_id=13\n");
    assert_int_equal(process_waiting(process(f), 99, 71)->lock_id, 4); /* wherever the coroutine runs */
    assert_int_equal(process_waiting(process(f), 12, 0)->lock_id, 5);
    assert_null(process_waiting(process(f), 13, 0));
    feed(f, "2 14@1 rt_lock:acquired lock_id=4 thread_id=14 coroutine_id=71 waited=1\n");
    assert_null(process_waiting(process(f), 12, 71));
    feed(f, "3 12@1 rt_lock:wait lock_id=6 thread_id=12 coroutine_id=73\n"
            "4 12@1 rt_coroutine:terminate coroutine_id=73 thread_id=12\n");
    assert_null(process_waiting(process(f), 12, 73));
    feed(f, "5 12@1 rt_lock:destroy lock_id=5\n");
    assert_null(process_waiting(process(f), 12, 0));
    feed_end(f, 9);
    feed_destroy(f);
}

static void test_lost_ends_do_not_pile_up(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, "1 12@1 rt_lock:create lock_id=4\n");
    feed_loss(f, 1, 1.5, 3);
    for (int i = 1; i <= 70000; i++)
        feed_format(f, "2 12@1 rt_lock:wait lock_id=4 thread_id=12 coroutine_id=%d", i);
    assert_true(g_hash_table_size(process(f)->waits) <= 65536);
    feed_end(f, 9);
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hold),
        cmocka_unit_test(test_held_by_several),
        cmocka_unit_test(test_without_releases_nothing_is_held),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_lost_ends_do_not_pile_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
