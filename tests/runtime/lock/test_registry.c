/*
 * Goal:   every lock that lives is listed once, with a number that no other lock ever had; the totals of a class hold what
 *         its locks did, also those that are gone.
 * Method: locks come and go, also in several threads at once; the registry is visited in between.
 * Broken: if this fails a baseline misses a lock, or names one that is gone, or statistics lose what was counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* ---- statistics of classes ---- */

struct wanted {
    const char *name;
    enum rt_lock_kind kind;
    struct rt_lock_class_stats found;
    unsigned times;
};

static void pick(const struct rt_lock_class_stats *stats, void *opaque)
{
    struct wanted *wanted = opaque;

    if (stats->kind != wanted->kind || strcmp(stats->class_name, wanted->name) != 0)
        return;
    wanted->found = *stats;
    wanted->times++;
}

static struct rt_lock_class_stats stats_of(const char *name, enum rt_lock_kind kind)
{
    struct wanted wanted = { .name = name, .kind = kind };

    rt_lock_each_class(pick, &wanted);
    assert_int_equal(wanted.times, 1);
    return wanted.found;
}

static void use(struct rt_mutex *mutex, unsigned times)
{
    while (times-- > 0) {
        rt_mutex_lock(mutex);
        rt_mutex_unlock(mutex);
    }
}

static void test_totals_of_a_class_outlive_its_locks(void **state)
{
    char name[] = "class-test";
    struct rt_mutex mutexes[2];
    struct rt_co_mutex co_mutex;
    struct rt_lock_class_stats stats, before;

    for (int i = 0; i < 2; i++)
        rt_mutex_init(&mutexes[i], name);
    rt_co_mutex_init(&co_mutex, name); /* another kind is another class */
    use(&mutexes[0], 100);
    use(&mutexes[1], 70);
    before = stats_of("class-test", RT_LOCK_THREAD_MUTEX);
    assert_int_equal(before.lock_count, 2);
    assert_int_equal(before.acquisitions, 170);
    assert_true(before.hold_ns > 0);
    assert_int_equal(stats_of("class-test", RT_LOCK_COROUTINE_MUTEX).acquisitions, 0);
    assert_int_equal(stats_of("class-test", RT_LOCK_COROUTINE_MUTEX).lock_count, 1);

    rt_mutex_deinit(&mutexes[0]);
    use(&mutexes[1], 5);
    stats = stats_of("class-test", RT_LOCK_THREAD_MUTEX);
    assert_int_equal(stats.lock_count, 1);
    assert_int_equal(stats.acquisitions, 175);
    assert_true(stats.hold_ns >= before.hold_ns);
    rt_mutex_deinit(&mutexes[1]);
    rt_co_mutex_deinit(&co_mutex);

    memset(name, 'x', sizeof(name) - 1); /* the name must live only as long as the lock does */
    stats = stats_of("class-test", RT_LOCK_THREAD_MUTEX);
    assert_int_equal(stats.lock_count, 0);
    assert_int_equal(stats.acquisitions, 175);
}

static void *wait_for(void *mutex)
{
    use(mutex, 1);
    return NULL;
}

static void test_who_is_waited_for_is_told_while_it_lasts(void **state)
{
    const char *name = "contended-test";
    struct rt_mutex idle, contended;
    struct rt_lock_class_stats stats;
    int64_t before_ns;
    pthread_t waiter;

    rt_mutex_init(&idle, name);
    rt_mutex_init(&contended, name);
    rt_mutex_lock(&idle);
    rt_mutex_lock(&contended);
    stats = stats_of(name, RT_LOCK_THREAD_MUTEX);
    assert_int_equal(stats.waiter_count, 0);
    assert_int_equal(stats.contended_lock_id, 0); /* held is not contended */
    assert_int_equal(stats.owner_thread_id, 0);
    assert_int_equal(pthread_create(&waiter, NULL, wait_for, &contended), 0);
    while ((stats = stats_of(name, RT_LOCK_THREAD_MUTEX)).waiter_count == 0)
        sched_yield();
    stats = stats_of(name, RT_LOCK_THREAD_MUTEX);
    assert_int_equal(stats.waiter_count, 1);
    assert_int_equal(stats.contended_lock_id, contended.info.lock_id);
    assert_int_equal(stats.owner_thread_id, syscall(SYS_gettid));
    assert_int_equal(stats.owner_coroutine_id, 0);
    before_ns = stats.contended_ns;
    assert_true(before_ns > 0);
    while (stats_of(name, RT_LOCK_THREAD_MUTEX).contended_ns == before_ns)
        ;
    assert_true(stats_of(name, RT_LOCK_THREAD_MUTEX).contended_ns > before_ns);
    rt_mutex_unlock(&contended);
    rt_mutex_unlock(&idle);
    pthread_join(waiter, NULL);
    stats = stats_of(name, RT_LOCK_THREAD_MUTEX);
    assert_int_equal(stats.contentions, 1);
    assert_true(stats.wait_ns >= (uint64_t)before_ns);
    assert_int_equal(stats.contended_lock_id, 0);
    assert_int_equal(stats.contended_ns, 0);
    rt_mutex_deinit(&idle);
    rt_mutex_deinit(&contended);
}

static atomic_int still_counting;

static void *count(void *opaque)
{
    for (int i = 0; i < 500; i++) {
        struct rt_mutex mutex;

        rt_mutex_init(&mutex, "moving-test");
        use(&mutex, 10);
        rt_mutex_deinit(&mutex);
    }
    atomic_fetch_sub(&still_counting, 1);
    return NULL;
}

static void test_totals_never_go_back(void **state)
{
    struct rt_mutex first;
    uint64_t last = 0;
    pthread_t threads[3];

    rt_mutex_init(&first, "moving-test"); /* so that there is the class */
    rt_mutex_deinit(&first);
    atomic_store(&still_counting, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    while (atomic_load(&still_counting) > 0) {
        uint64_t now = stats_of("moving-test", RT_LOCK_THREAD_MUTEX).acquisitions;

        assert_true(now >= last);
        last = now;
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(stats_of("moving-test", RT_LOCK_THREAD_MUTEX).acquisitions, 3 * 500 * 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_what_lives),
        cmocka_unit_test(test_threads_may_visit_and_change_it_at_once),
        cmocka_unit_test(test_totals_of_a_class_outlive_its_locks),
        cmocka_unit_test(test_who_is_waited_for_is_told_while_it_lasts),
        cmocka_unit_test(test_totals_never_go_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
