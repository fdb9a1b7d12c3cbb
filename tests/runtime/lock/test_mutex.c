/*
 * Goal:   a thread mutex excludes, counts, and knows its owner; one that is held over a yield is found.
 * Method: threads that add to a plain variable; the counters afterwards; a coroutine that yields while it holds one.
 * Broken: if this fails locks do not lock, or lock reports are wrong. That rt_lock:held_at_yield is emitted is
 *         integration_process's business; here only that the runtime survives the mistake.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/syscall.h>

#include "child.h"
#include "rt/coroutine.h"
#include "rt/lock.h"

#define THREADS 4
#define ROUNDS 20000

static struct rt_mutex lock;
static uint64_t sum; /* under lock */

static void *add(void *opaque)
{
    for (int i = 0; i < ROUNDS; i++) {
        rt_mutex_lock(&lock);
        sum++;
        rt_mutex_unlock(&lock);
    }
    return NULL;
}

static void test_excludes_and_counts(void **state)
{
    pthread_t threads[THREADS];

    rt_mutex_init(&lock, "test");
    sum = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(sum, THREADS * ROUNDS);
    assert_int_equal(lock.info.acquisitions, THREADS * ROUNDS);
    assert_int_equal(lock.info.waiters, 0);
    assert_true(lock.info.contentions <= lock.info.acquisitions);
    assert_true(lock.info.hold_ns > 0);
    assert_int_equal(lock.info.owner_thread_id, 0);
    rt_mutex_deinit(&lock);
}

static void *lock_once(void *opaque)
{
    rt_mutex_lock(&lock);
    rt_mutex_unlock(&lock);
    return NULL;
}

static void test_waits_are_seen_while_they_last(void **state)
{
    pthread_t waiter;

    rt_mutex_init(&lock, "test");
    rt_mutex_lock(&lock);
    assert_int_equal(lock.info.owner_thread_id, syscall(SYS_gettid));
    assert_int_equal(pthread_create(&waiter, NULL, lock_once, NULL), 0);
    while (atomic_load(&lock.info.waiters) == 0)
        sched_yield();
    rt_mutex_unlock(&lock);
    pthread_join(waiter, NULL);
    assert_int_equal(lock.info.contentions, 1);
    assert_int_equal(lock.info.acquisitions, 2);
    assert_true(lock.info.wait_ns > 0);
    assert_int_equal(lock.info.waiters, 0);
    rt_mutex_deinit(&lock);
}

static void test_trylock_says_no_and_counts_nothing(void **state)
{
    rt_mutex_init(&lock, "test");
    assert_true(rt_mutex_trylock(&lock));
    assert_false(rt_mutex_trylock(&lock));
    assert_int_equal(lock.info.acquisitions, 1);
    assert_int_equal(lock.info.contentions, 0);
    rt_mutex_unlock(&lock);
    rt_mutex_deinit(&lock);
}

static void test_unlocks_in_any_order(void **state)
{
    struct rt_mutex locks[3];

    for (int i = 0; i < 3; i++) {
        rt_mutex_init(&locks[i], "test");
        rt_mutex_lock(&locks[i]);
    }
    rt_mutex_unlock(&locks[1]);
    rt_mutex_lock(&locks[1]);
    rt_mutex_unlock(&locks[0]);
    rt_mutex_unlock(&locks[2]);
    rt_mutex_unlock(&locks[1]);
    for (int i = 0; i < 3; i++)
        rt_mutex_deinit(&locks[i]);
}

/* ---- the broken rule ---- */

static void hold_over_yield(void *opaque)
{
    rt_mutex_lock(&lock);
    rt_coroutine_yield();
    assert_int_equal(lock.info.owner_coroutine_id, rt_coroutine_id(rt_coroutine_self()));
    rt_mutex_unlock(&lock);
}

static void test_holding_over_a_yield_is_survived(void **state)
{
    struct rt_mutex own;
    struct rt_coroutine *co = rt_coroutine_create(hold_over_yield, NULL);

    rt_mutex_init(&lock, "test");
    rt_mutex_init(&own, "test");
    /* Also while the thread itself holds one, which stays the thread's. */
    rt_mutex_lock(&own);
    rt_coroutine_enter(co);
    assert_false(rt_mutex_trylock(&lock));
    rt_mutex_unlock(&own);
    rt_coroutine_enter(co);
    assert_int_equal(lock.info.owner_thread_id, 0);
    rt_mutex_deinit(&lock);
    rt_mutex_deinit(&own);
}

static void in_child_foreign_unlock(void *opaque)
{
    crash_plainly();
    fclose(stderr);
    rt_mutex_init(&lock, "test");
    rt_mutex_unlock(&lock);
}

static void test_unlock_without_lock_is_caught(void **state)
{
    int status = run_in_child(in_child_foreign_unlock, NULL);

    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_excludes_and_counts),
        cmocka_unit_test(test_waits_are_seen_while_they_last),
        cmocka_unit_test(test_trylock_says_no_and_counts_nothing),
        cmocka_unit_test(test_unlocks_in_any_order),
        cmocka_unit_test(test_holding_over_a_yield_is_survived),
        cmocka_unit_test(test_unlock_without_lock_is_caught),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
