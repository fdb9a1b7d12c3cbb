/*
 * Goal:   coroutines that wait for a condition are woken in the order of arrival, one or all, and own the lock again; and
 *         none of them waits for what a shutdown has called off.
 * Method: in one loop, with each kind of lock, coroutines wait and write down when they go on.
 * Broken: if this fails a request that waits for an overlapping one, or a flush, sleeps for ever or runs too early.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "journal.h"
#include "rt/coroutine.h"
#include "rt/lock.h"

static struct rt_mutex mutex;
static struct rt_co_mutex co_mutex;
static struct rt_co_queue queue;

static int begin(void **state)
{
    *state = journal_begin();
    rt_mutex_init(&mutex, "test-thread");
    rt_co_mutex_init(&co_mutex, "test-coroutine");
    rt_co_queue_init(&queue);
    return 0;
}

static int finish(void **state)
{
    assert_true(rt_co_queue_empty(&queue));
    rt_mutex_deinit(&mutex);
    rt_co_mutex_deinit(&co_mutex);
    rt_loop_destroy(*state);
    return 0;
}

static void wait_with_mutex(void *opaque)
{
    rt_mutex_lock(&mutex);
    assert_int_equal(rt_co_queue_wait_mutex_co(&queue, &mutex), 0);
    note(*(char *)opaque);
    assert_true(mutex.info.owner_thread_id != 0);
    rt_mutex_unlock(&mutex);
}

static void test_wakes_in_order_with_a_thread_mutex(void **state)
{
    char names[] = "abc";

    for (int i = 0; i < 3; i++)
        rt_coroutine_enter(rt_coroutine_create(wait_with_mutex, &names[i]));
    assert_false(rt_co_queue_empty(&queue));

    /* The waker holds the lock that the woken one wants, in the same thread: it must not be entered yet. */
    rt_mutex_lock(&mutex);
    assert_true(rt_co_queue_wake_one(&queue));
    rt_mutex_unlock(&mutex);
    assert_string_equal(journal, "");
    run_pending(*state);
    assert_string_equal(journal, "a");

    rt_mutex_lock(&mutex);
    assert_true(rt_co_queue_wake_all(&queue));
    assert_false(rt_co_queue_wake_all(&queue));
    assert_false(rt_co_queue_wake_one(&queue));
    rt_mutex_unlock(&mutex);
    run_pending(*state);
    assert_string_equal(journal, "abc");
}

static void wait_with_co_mutex(void *opaque)
{
    rt_co_mutex_lock_co(&co_mutex);
    assert_int_equal(rt_co_queue_wait_co_mutex_co(&queue, &co_mutex), 0);
    assert_int_equal(co_mutex.info.owner_coroutine_id, rt_coroutine_id(rt_coroutine_self()));
    note(*(char *)opaque);
    rt_co_mutex_unlock(&co_mutex);
}

static void wake_all_holding(void *opaque)
{
    rt_co_mutex_lock_co(&co_mutex);
    assert_true(rt_co_queue_wake_all(&queue));
    rt_coroutine_yield(); /* the woken ones run and line up for the lock */
    note('-');
    rt_co_mutex_unlock(&co_mutex);
}

static void test_wakes_in_order_with_a_coroutine_mutex(void **state)
{
    char names[] = "abc";
    struct rt_coroutine *waker = rt_coroutine_create(wake_all_holding, NULL);

    for (int i = 0; i < 3; i++)
        rt_coroutine_enter(rt_coroutine_create(wait_with_co_mutex, &names[i]));
    rt_coroutine_enter(waker);
    run_pending(*state);
    assert_string_equal(journal, "");
    rt_coroutine_enter(waker);
    run_pending(*state);
    assert_string_equal(journal, "-abc");
}

/* ---- cancelled ---- */

static void wait_for_ever(void *opaque)
{
    int result;

    rt_mutex_lock(&mutex);
    result = rt_co_queue_wait_mutex_co(&queue, &mutex);
    assert_true(mutex.info.owner_thread_id != 0);
    note(result == 0 ? *(char *)opaque : '!');
    rt_mutex_unlock(&mutex);
}

static void wait_for_ever_co(void *opaque)
{
    int result;

    rt_co_mutex_lock_co(&co_mutex);
    result = rt_co_queue_wait_co_mutex_co(&queue, &co_mutex);
    assert_int_equal(co_mutex.info.owner_coroutine_id, rt_coroutine_id(rt_coroutine_self()));
    note(result == 0 ? *(char *)opaque : '!');
    rt_co_mutex_unlock(&co_mutex);
}

static void test_a_cancelled_queue_lets_all_go(void **state)
{
    char names[] = "abcd";

    for (int i = 0; i < 3; i++)
        rt_coroutine_enter(rt_coroutine_create(wait_for_ever, &names[i]));
    rt_mutex_lock(&mutex);
    assert_true(rt_co_queue_wake_one(&queue)); /* a's was a wake-up: it comes first, and means something */
    rt_co_queue_cancel(&queue);
    assert_true(rt_co_queue_empty(&queue));
    rt_mutex_unlock(&mutex);
    run_pending(*state);
    assert_string_equal(journal, "a!!");

    /* Whoever comes later does not wait at all. */
    rt_coroutine_enter(rt_coroutine_create(wait_for_ever, &names[3]));
    assert_string_equal(journal, "a!!!");
    rt_co_queue_cancel(&queue); /* once more does nothing */

    rt_co_queue_init(&queue);
    rt_coroutine_enter(rt_coroutine_create(wait_for_ever, &names[3]));
    assert_string_equal(journal, "a!!!");
    rt_mutex_lock(&mutex);
    rt_co_queue_wake_all(&queue);
    rt_mutex_unlock(&mutex);
    run_pending(*state);
    assert_string_equal(journal, "a!!!d");
}

static void cancel_holding(void *opaque)
{
    rt_co_mutex_lock_co(&co_mutex);
    rt_co_queue_cancel(&queue);
    rt_coroutine_yield(); /* they stand in line for the lock meanwhile */
    note('-');
    rt_co_mutex_unlock(&co_mutex);
}

static void test_it_is_cancelled_under_a_coroutine_mutex(void **state)
{
    char names[] = "ab";
    struct rt_coroutine *canceller = rt_coroutine_create(cancel_holding, NULL);

    for (int i = 0; i < 2; i++)
        rt_coroutine_enter(rt_coroutine_create(wait_for_ever_co, &names[i]));
    rt_coroutine_enter(canceller);
    run_pending(*state);
    assert_string_equal(journal, "");
    rt_coroutine_enter(canceller);
    run_pending(*state);
    assert_string_equal(journal, "-!!");
    rt_coroutine_enter(rt_coroutine_create(wait_for_ever_co, &names[0]));
    assert_string_equal(journal, "-!!!");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_wakes_in_order_with_a_thread_mutex, begin, finish),
        cmocka_unit_test_setup_teardown(test_wakes_in_order_with_a_coroutine_mutex, begin, finish),
        cmocka_unit_test_setup_teardown(test_a_cancelled_queue_lets_all_go, begin, finish),
        cmocka_unit_test_setup_teardown(test_it_is_cancelled_under_a_coroutine_mutex, begin, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
