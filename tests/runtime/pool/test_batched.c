/*
 * Goal:   the batched pool keeps its promises: nothing is made anew at a steady depth, no thread holds more than two
 *         batches, and the global pool stays within its maxima (but for less than a batch).
 * Method: each case in a child process, whose pool is empty; coroutines are made and ended by the hundred, in one
 *         thread or made here and ended there, and the counters must come out exactly.
 * Broken: if this fails threads hoard stacks until vm.max_map_count is reached, or stacks are mapped at each request.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>

#include "lives.h"

#define BATCH RT_POOL_BATCH_SIZE

static struct rt_coroutine *lives[8 * BATCH];

/* ---- one thread ---- */

static void in_child_steady(void *opaque)
{
    make_lives(lives, 64);
    end_lives(lives, 64);
    for (int round = 0; round < 100; round++) {
        make_lives(lives, 64);
        end_lives(lives, 64);
    }
    CHILD_CHECK(thread_stats().misses == 64);
    CHILD_CHECK(thread_stats().takes == 64 * 101 && thread_stats().gives == 64 * 101);
    CHILD_CHECK(thread_stats().local_size == 64);
    CHILD_CHECK(pool_stats().stack_count == 64 && pool_stats().live_count == 0);
}

static void test_steady_depth_makes_nothing_new(void **state)
{
    assert_int_equal(run_in_child(in_child_steady, NULL), 0);
}

static void in_child_around_a_batch(void *opaque)
{
    /* Up and down across the edge between the two local batches: no traffic with the global pool. */
    make_lives(lives, 2 * BATCH);
    end_lives(lives, 2 * BATCH);
    for (int round = 0; round < 50; round++) {
        make_lives(lives, BATCH + 3);
        end_lives(lives, BATCH + 3);
    }
    CHILD_CHECK(thread_stats().misses == 2 * BATCH);
    CHILD_CHECK(thread_stats().local_size == 2 * BATCH);
    CHILD_CHECK(thread_stats().donations == 0 && thread_stats().overflows == 0);
    CHILD_CHECK(thread_stats().refills == 2 * BATCH); /* each miss had asked */
}

static void test_edge_of_a_batch_does_not_thrash(void **state)
{
    assert_int_equal(run_in_child(in_child_around_a_batch, NULL), 0);
}

#if !STACKS_ARE_DEAR /* ThreadSanitizer has one of its own */
static uint64_t locks_taken;

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*lock)(pthread_mutex_t *mutex);

    if (!lock)
        *(void **)&lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    locks_taken++;
    return lock(mutex);
}
#else
static uint64_t locks_taken;
#endif

static void in_child_locks(void *opaque)
{
    const int rounds = 200, depth = 3 * BATCH;
    struct rt_pool_thread_stats before, after;
    uint64_t locks;

    rt_pool_inc_max(BATCH);
    make_lives(lives, depth);
    end_lives(lives, depth);

    /* Within the local batches: none. */
    locks = locks_taken;
    CHILD_CHECK(locks > 0);
    for (int round = 0; round < rounds; round++) {
        make_lives(lives, BATCH);
        end_lives(lives, BATCH);
    }
    CHILD_CHECK(locks_taken == locks);

    /* Beyond them: one for a batch that moves, and nothing is made. */
    before = thread_stats();
    locks = locks_taken;
    for (int round = 0; round < rounds; round++) {
        make_lives(lives, depth);
        end_lives(lives, depth);
    }
    locks = locks_taken - locks;
    after = thread_stats();
    CHILD_CHECK(after.misses == before.misses && after.overflows == before.overflows);
    CHILD_CHECK(after.donations > before.donations && after.refills > before.refills);
    CHILD_CHECK(locks == after.donations - before.donations + after.refills - before.refills);
    CHILD_CHECK(locks <= (uint64_t)rounds * 2 * ((unsigned)depth / BATCH));
}

static void test_lock_is_taken_once_a_batch(void **state)
{
    assert_int_equal(run_in_child(in_child_locks, NULL), 0);
}

static void in_child_overflow(void *opaque)
{
    uint32_t before = pool_stats().global_max;

    CHILD_CHECK(before == BATCH);
    make_lives(lives, 5 * BATCH);
    CHILD_CHECK(pool_stats().stack_count == 5 * BATCH && pool_stats().live_count == 5 * BATCH);

    /* Two batches fill up here, the third give beyond them donates the first batch. */
    end_lives(lives, 2 * BATCH);
    CHILD_CHECK(thread_stats().local_size == 2 * BATCH && thread_stats().donations == 0);
    end_lives(lives + 2 * BATCH, 1);
    CHILD_CHECK(thread_stats().donations == 1 && pool_stats().global_size == BATCH && thread_stats().local_size == BATCH + 1);

    /* The global pool is full: batches are freed. */
    end_lives(lives + 2 * BATCH + 1, 3 * BATCH - 1);
    CHILD_CHECK(thread_stats().donations == 1 && thread_stats().overflows == 2);
    CHILD_CHECK(pool_stats().global_size == BATCH && thread_stats().local_size == 2 * BATCH);
    CHILD_CHECK(pool_stats().stack_count == 3 * BATCH && pool_stats().live_count == 0);
}

static void test_global_maximum_frees_the_rest(void **state)
{
    assert_int_equal(run_in_child(in_child_overflow, NULL), 0);
}

static void in_child_resize(void *opaque)
{
    rt_pool_inc_max(BATCH + 1);
    CHILD_CHECK(pool_stats().global_max == 2 * BATCH + 1);
    make_lives(lives, 6 * BATCH);
    end_lives(lives, 6 * BATCH);
    /* 2 batches are below the maximum, so a third is taken: less than a batch too much. */
    CHILD_CHECK(pool_stats().global_size == 3 * BATCH);
    CHILD_CHECK(thread_stats().donations == 3 && thread_stats().overflows == 1);

    /* A device goes: what it needed goes too, though nobody gives anything. */
    rt_pool_dec_max(BATCH + 1);
    CHILD_CHECK(pool_stats().global_max == BATCH);
    CHILD_CHECK(pool_stats().global_size >= BATCH && pool_stats().global_size < 2 * BATCH);
    CHILD_CHECK(pool_stats().stack_count == pool_stats().global_size + thread_stats().local_size);

    /* Nobody gets it below what it started with. */
    rt_pool_dec_max(1000);
    CHILD_CHECK(pool_stats().global_max == BATCH);
}

static void test_maximum_follows_devices(void **state)
{
    assert_int_equal(run_in_child(in_child_resize, NULL), 0);
}

static void in_child_hard_maximum(void *opaque)
{
    /* Stacks so large that the machine's memory allows for some two hundred idle ones. They are not touched. */
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), stack = memory / 8 / 192 / page * page;
    uint32_t hard_max;
    int count;

    if (stack > UINT32_MAX / 2)
        stack = UINT32_MAX / 2 + 1;
    if (rt_stack_configure(RT_STACK_GUARD_LIGHTWEIGHT, (uint32_t)stack) < 0) {
        /* Then mappings set the limit, and test_budget looks at that. */
        fprintf(stderr, "no lightweight guards on this kernel: mappings limit the pool\n");
        return;
    }
    hard_max = pool_stats().global_hard_max;
    CHILD_CHECK(hard_max > 0 && hard_max < 5 * BATCH);
    rt_pool_inc_max(100 * BATCH);
    /* Two batches stay here, as many as needed go over the maximum, one more must be refused. */
    count = (int)((hard_max + BATCH - 1) / BATCH + 3) * BATCH;
    make_lives(lives, count);
    end_lives(lives, count);
    CHILD_CHECK(pool_stats().global_size >= hard_max && pool_stats().global_size < hard_max + BATCH);
    CHILD_CHECK(thread_stats().overflows > 0);
}

static void test_hard_maximum_holds_whatever_devices_ask(void **state)
{
    assert_int_equal(run_in_child(in_child_hard_maximum, NULL), 0);
}

/* ---- several threads ---- */

struct handover {
    pthread_barrier_t barrier;
    int rounds, depth;
};

static void *end_there(void *opaque)
{
    struct handover *handover = opaque;

    for (int round = 0; round < handover->rounds; round++) {
        pthread_barrier_wait(&handover->barrier);
        end_lives(lives, handover->depth);
        pthread_barrier_wait(&handover->barrier);
    }
    CHILD_CHECK(thread_stats().takes == 0);
    CHILD_CHECK(thread_stats().gives == (uint64_t)handover->rounds * handover->depth);
    CHILD_CHECK(thread_stats().local_size <= 2 * BATCH);
    return NULL;
}

static void in_child_handover(void *opaque)
{
    struct handover handover = { .rounds = 30, .depth = 200 };
    uint32_t stacks_most = 0;
    pthread_t there;

    /* As one device with a queue of 512 does. */
    rt_pool_inc_max(256);
    pthread_barrier_init(&handover.barrier, NULL, 2);
    CHILD_CHECK(pthread_create(&there, NULL, end_there, &handover) == 0);
    for (int round = 0; round < handover.rounds; round++) {
        make_lives(lives, handover.depth);
        pthread_barrier_wait(&handover.barrier);
        pthread_barrier_wait(&handover.barrier);
        if (pool_stats().stack_count > stacks_most)
            stacks_most = pool_stats().stack_count;
        CHILD_CHECK(pool_stats().live_count == 0);
    }
    pthread_join(there, NULL);
    /* Two local pools, the global one with its overshoot: no more, however long it goes on. */
    CHILD_CHECK(stacks_most <= 2 * 2 * BATCH + BATCH + 256 + BATCH);
    /* And what was ended there comes back here: new ones are made only until the pools are filled. */
    CHILD_CHECK(thread_stats().misses <= stacks_most);
    CHILD_CHECK(thread_stats().refills > 0);
    CHILD_CHECK(pool_stats().live_count == 0);
    CHILD_CHECK(pool_stats().stack_count == pool_stats().global_size + thread_stats().local_size); /* the thread's went with it */
}

static void test_made_here_ended_there_stays_bounded(void **state)
{
    assert_int_equal(run_in_child(in_child_handover, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest one_thread[] = {
        cmocka_unit_test(test_steady_depth_makes_nothing_new),
        cmocka_unit_test(test_edge_of_a_batch_does_not_thrash),
        cmocka_unit_test(test_lock_is_taken_once_a_batch),
        cmocka_unit_test(test_global_maximum_frees_the_rest),
        cmocka_unit_test(test_maximum_follows_devices),
        cmocka_unit_test(test_hard_maximum_holds_whatever_devices_ask),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_here_ended_there_stays_bounded),
    };

    return (STACKS_ARE_DEAR ? 0 : cmocka_run_group_tests(one_thread, NULL, NULL)) + cmocka_run_group_tests(tests, NULL, NULL);
}
