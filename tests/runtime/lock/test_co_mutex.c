/*
 * Goal:   a coroutine mutex excludes over yields and is handed over in the order of arrival.
 * Method: in one thread, coroutines that queue for it write down their turns. Threads: stress_co_mutex.
 * Broken: if this fails a waiter is overtaken, forgotten, or two coroutines own the lock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "journal.h"
#include "rt/coroutine.h"
#include "rt/lock.h"

static struct rt_co_mutex lock;
static int inside;

static int begin(void **state)
{
    *state = journal_begin();
    rt_co_mutex_init(&lock, "test");
    return 0;
}

static int finish(void **state)
{
    rt_co_mutex_deinit(&lock);
    rt_loop_destroy(*state);
    return 0;
}

static void hold_over_yield(void *opaque)
{
    char name = *(char *)opaque;

    rt_co_mutex_lock_co(&lock);
    assert_int_equal(inside++, 0);
    assert_int_equal(lock.info.owner_coroutine_id, rt_coroutine_id(rt_coroutine_self()));
    note(name);
    rt_coroutine_yield();
    inside--;
    rt_co_mutex_unlock(&lock);
}

static void test_handed_over_in_order(void **state)
{
    char names[] = "abcd";
    struct rt_coroutine *cos[4];

    for (int i = 0; i < 4; i++) {
        cos[i] = rt_coroutine_create(hold_over_yield, &names[i]);
        rt_coroutine_enter(cos[i]);
    }
    assert_string_equal(journal, "a");
    assert_int_equal(lock.info.waiters, 3);
    for (int i = 0; i < 4; i++) {
        rt_coroutine_enter(cos[i]); /* unlocks and ends; the next is queued, not run */
        assert_int_equal(strlen(journal), i + 1);
        /* Who waits now learns whom it waits for: not nobody. */
        assert_int_equal(lock.info.owner_coroutine_id, i < 3 ? rt_coroutine_id(cos[i + 1]) : 0);
        assert_int_equal(lock.info.owner_thread_id, i < 3 ? gettid() : 0);
        run_pending(*state);
    }
    assert_string_equal(journal, "abcd");
    assert_int_equal(lock.info.acquisitions, 4);
    assert_int_equal(lock.info.contentions, 3);
    assert_true(lock.info.wait_ns > 0 && lock.info.hold_ns > 0);
    assert_int_equal(lock.info.waiters, 0);
}

/* Between the unlock and the next owner's turn the lock is not free: nobody overtakes. */
static void unlock_and_try(void *opaque)
{
    rt_co_mutex_lock_co(&lock);
    rt_coroutine_yield();
    rt_co_mutex_unlock(&lock);
    assert_false(rt_co_mutex_trylock(&lock));
    note('t');
}

static void test_nobody_overtakes_the_next_owner(void **state)
{
    char name = 'b';
    struct rt_coroutine *first = rt_coroutine_create(unlock_and_try, NULL);
    struct rt_coroutine *second = rt_coroutine_create(hold_over_yield, &name);

    rt_coroutine_enter(first);
    rt_coroutine_enter(second);
    rt_coroutine_enter(first);
    assert_string_equal(journal, "t");
    run_pending(*state);
    assert_string_equal(journal, "tb");
    rt_coroutine_enter(second);
}

static void lock_free_one(void *opaque)
{
    assert_true(rt_co_mutex_trylock(&lock));
    assert_false(rt_co_mutex_trylock(&lock));
    rt_co_mutex_unlock(&lock);
    rt_co_mutex_lock_co(&lock);
    rt_co_mutex_unlock(&lock);
    note('x');
}

static void test_free_lock_does_not_yield(void **state)
{
    rt_coroutine_enter(rt_coroutine_create(lock_free_one, NULL));
    assert_string_equal(journal, "x");
    assert_int_equal(lock.info.contentions, 0);
    assert_int_equal(lock.info.acquisitions, 2);
    assert_int_equal(lock.info.owner_coroutine_id, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_handed_over_in_order, begin, finish),
        cmocka_unit_test_setup_teardown(test_nobody_overtakes_the_next_owner, begin, finish),
        cmocka_unit_test_setup_teardown(test_free_lock_does_not_yield, begin, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
