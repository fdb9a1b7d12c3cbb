/*
 * Goal:   every lock that lives is listed once, with a number that no other lock ever had.
 * Method: locks come and go, also in several threads at once; the registry is visited in between.
 * Broken: if this fails a baseline misses a lock, or names one that is gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "rt/lock.h"

struct seen {
    unsigned count, coroutine_kind;
    uint64_t highest_id;
};

static void visit(const struct rt_lock_info *info, void *opaque)
{
    struct seen *seen = opaque;

    if (strcmp(info->class_name, "registry-test") != 0)
        return;
    seen->count++;
    seen->coroutine_kind += info->kind == RT_LOCK_COROUTINE_MUTEX;
    if (info->lock_id > seen->highest_id)
        seen->highest_id = info->lock_id;
}

static struct seen look(void)
{
    struct seen seen = { 0 };

    rt_lock_each(visit, &seen);
    return seen;
}

static void test_lists_what_lives(void **state)
{
    struct rt_mutex mutexes[3];
    struct rt_co_mutex co_mutex;
    uint64_t last_id;

    for (int i = 0; i < 3; i++)
        rt_mutex_init(&mutexes[i], "registry-test");
    rt_co_mutex_init(&co_mutex, "registry-test");
    assert_int_equal(look().count, 4);
    assert_int_equal(look().coroutine_kind, 1);

    rt_mutex_deinit(&mutexes[1]);
    assert_int_equal(look().count, 3);
    last_id = look().highest_id;
    rt_mutex_init(&mutexes[1], "registry-test");
    assert_true(mutexes[1].info.lock_id > last_id);

    for (int i = 0; i < 3; i++)
        rt_mutex_deinit(&mutexes[i]);
    rt_co_mutex_deinit(&co_mutex);
    assert_int_equal(look().count, 0);
}

static void *come_and_go(void *opaque)
{
    for (int i = 0; i < 2000; i++) {
        struct rt_mutex mutex;

        rt_mutex_init(&mutex, "registry-test");
        rt_mutex_lock(&mutex);
        rt_mutex_unlock(&mutex);
        rt_mutex_deinit(&mutex);
    }
    return NULL;
}

static void test_threads_may_visit_and_change_it_at_once(void **state)
{
    pthread_t threads[3];

    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    for (int i = 0; i < 200; i++)
        assert_true(look().count <= 3);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(look().count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_what_lives),
        cmocka_unit_test(test_threads_may_visit_and_change_it_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
