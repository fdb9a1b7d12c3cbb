/*
 * Goal:   the per-thread policy is the one that batches replaced, with its failure: threads hoard until the process has no
 *         mapping left, under a load that the batched policy bears.
 * Method: lives in a child process, whose counters must come out exactly. For the failure threads have a burst of coroutines
 *         each, one after the other, with mprotect guards and half of all mappings in use by others.
 * Broken: if this fails comparisons with the old policy compare with something else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "lives.h"
#include "mappings.h"
#include "rt/process.h"

static struct rt_coroutine *lives[5000];

static void begin(void)
{
    CHILD_CHECK(rt_pool_configure(RT_POOL_PER_THREAD) == 0);
}

/* ---- the lists ---- */

static void in_child_release_list(void *opaque)
{
    begin();
    CHILD_CHECK(pool_stats().global_max == 128 && pool_stats().global_hard_max == RT_POOL_NO_LIMIT);

    /* What ends goes to the release list, which is left alone until it holds more than 64. */
    make_lives(lives, 64);
    end_lives(lives, 64);
    CHILD_CHECK(pool_stats().global_size == 64 && thread_stats().local_size == 0);
    make_lives(lives, 1);
    CHILD_CHECK(thread_stats().misses == 65 && thread_stats().refills == 65 && pool_stats().global_size == 64);
    end_lives(lives, 1);

    /* Then it is taken whole. */
    make_lives(lives, 1);
    CHILD_CHECK(thread_stats().misses == 65 && thread_stats().refills == 66);
    CHILD_CHECK(pool_stats().global_size == 0 && thread_stats().local_size == 64);
    end_lives(lives, 1);
    CHILD_CHECK(thread_stats().donations == 66 && thread_stats().overflows == 0);
}

static void test_release_list_is_taken_whole(void **state)
{
    assert_int_equal(run_in_child(in_child_release_list, NULL), 0);
}

static void in_child_bounds(void *opaque)
{
    begin();
    make_lives(lives, 300);
    end_lives(lives, 300);
    /* Twice the maximum there, the maximum here, the rest is freed. */
    CHILD_CHECK(pool_stats().global_size == 128 && thread_stats().local_size == 64);
    CHILD_CHECK(thread_stats().donations == 128 && thread_stats().overflows == 300 - 128 - 64);
    CHILD_CHECK(pool_stats().stack_count == 128 + 64);
}

static void test_maximum_bounds_each_list(void **state)
{
    assert_int_equal(run_in_child(in_child_bounds, NULL), 0);
}

static void in_child_resize(void *opaque)
{
    begin();
    rt_pool_inc_max(100);
    CHILD_CHECK(pool_stats().global_max == 2 * (64 + 100));
    make_lives(lives, 600);
    end_lives(lives, 600);
    CHILD_CHECK(pool_stats().global_size == 328 && thread_stats().local_size == 164);
    /* What is there stays when the device goes. */
    rt_pool_dec_max(100);
    CHILD_CHECK(pool_stats().global_max == 128 && pool_stats().stack_count == 328 + 164);
    rt_pool_dec_max(5);
    CHILD_CHECK(pool_stats().global_max == 128);
    for (int i = 0; i < 3; i++)
        rt_pool_inc_max(INT32_MAX);
    CHILD_CHECK(pool_stats().global_max == RT_POOL_NO_LIMIT);
}

static void test_maximum_follows_devices(void **state)
{
    assert_int_equal(run_in_child(in_child_resize, NULL), 0);
}

/* ---- the failure ---- */

#define THREADS 8
#define BURST 5000
#define MAPPINGS_FOR_STACKS 32000

struct burst {
    sem_t begin, done;
    bool failed;
    char hint[512];
};

/* A burst, and one coroutine at a time after it. Whatever happens, every life ends. */
static void *run_burst(void *opaque)
{
    struct burst *burst = opaque;
    int count = 0;

    sem_wait(&burst->begin);
    while (count < BURST && !burst->failed) {
        lives[count] = rt_coroutine_create(live_until_entered, NULL);
        if (!lives[count]) {
            CHILD_CHECK(errno == ENOMEM);
            rt_stack_error_hint(burst->hint, sizeof(burst->hint));
            burst->failed = true;
        } else {
            rt_coroutine_enter(lives[count++]);
        }
    }
    end_lives(lives, count);
    if (!burst->failed) {
        make_lives(lives, 1);
        end_lives(lives, 1);
    }
    sem_post(&burst->done);
    sem_wait(&burst->begin); /* alive until all are done */
    return NULL;
}

/* Returns how many bursts succeeded, one after the other, before the first that did not. */
static int run_bursts(enum rt_pool_policy policy, char *hint_out, uint32_t *stacks_out)
{
    static struct burst bursts[THREADS];
    struct rt_stack_facts facts;
    pthread_t threads[THREADS];
    int good = 0;

    CHILD_CHECK(rt_pool_configure(policy) == 0);
    CHILD_CHECK(rt_stack_configure(RT_STACK_GUARD_MPROTECT, 0) == 0);
    rt_stack_facts(&facts);
    CHILD_CHECK(facts.max_map_count > 2 * MAPPINGS_FOR_STACKS);
    rt_pool_inc_max(2 * 4 * 1024 / 2); /* two devices with four queues of 1024 */
    for (int i = 0; i < THREADS; i++) {
        sem_init(&bursts[i].begin, 0, 0);
        sem_init(&bursts[i].done, 0, 0);
        CHILD_CHECK(pthread_create(&threads[i], NULL, run_burst, &bursts[i]) == 0);
    }
    fill_mappings(facts.max_map_count - count_maps() - MAPPINGS_FOR_STACKS);
    for (; good < THREADS; good++) {
        sem_post(&bursts[good].begin);
        sem_wait(&bursts[good].done);
        if (bursts[good].failed) {
            memcpy(hint_out, bursts[good].hint, sizeof(bursts[good].hint));
            break;
        }
        CHILD_CHECK(pool_stats().live_count == 0);
        *stacks_out = pool_stats().stack_count;
    }
    return good;
}

static void in_child_hoarding(void *opaque)
{
    char hint[512];
    uint32_t stacks = 0;
    int good = run_bursts(RT_POOL_PER_THREAD, hint, &stacks);

    /* Each thread made its own and kept them, though there were never more than a burst in use. */
    CHILD_CHECK(good == MAPPINGS_FOR_STACKS / 2 / BURST);
    CHILD_CHECK(stacks == (uint32_t)good * BURST);
    CHILD_CHECK(strstr(hint, "vm.max_map_count") != NULL);
    fprintf(stderr, "after %d bursts of %d: %s\n", good, BURST, hint);
}

static void in_child_not_hoarding(void *opaque)
{
    char hint[512];
    uint32_t stacks = 0;

    CHILD_CHECK(run_bursts(RT_POOL_BATCHED, hint, &stacks) == THREADS);
    /* Two batches for each thread, and the global pool with less than a batch beyond its maximum. */
    CHILD_CHECK(stacks <= THREADS * 2 * RT_POOL_BATCH_SIZE + pool_stats().global_max + RT_POOL_BATCH_SIZE);
    CHILD_CHECK(pool_stats().global_size < pool_stats().global_hard_max + RT_POOL_BATCH_SIZE);
}

static void test_threads_hoard_until_mappings_run_out(void **state)
{
    assert_int_equal(run_in_child(in_child_hoarding, NULL), 0);
    assert_int_equal(run_in_child(in_child_not_hoarding, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest one_thread[] = {
        cmocka_unit_test(test_maximum_bounds_each_list),
        cmocka_unit_test(test_maximum_follows_devices),
        cmocka_unit_test(test_threads_hoard_until_mappings_run_out),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_release_list_is_taken_whole),
    };

    return (STACKS_ARE_DEAR ? 0 : cmocka_run_group_tests(one_thread, NULL, NULL)) + cmocka_run_group_tests(tests, NULL, NULL);
}
