/*
 * Goal:   the batched pool keeps its promises: nothing is made anew at a steady depth, no thread holds more than two
 *         batches, the global pool stays within its maxima (but for less than a batch), a thread leaves nothing behind, and
 *         no life is left out of the counts.
 * Method: each case in a child process, whose pool is empty; coroutines are made and ended by the hundred, in one
 *         thread or made here and ended there, and the counters must come out exactly.
 * Broken: if this fails threads hoard stacks until vm.max_map_count is reached, or stacks are mapped at each request.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>

#include "child.h"
#include "rt/coroutine.h"
#include "rt/pool.h"

#define BATCH RT_POOL_BATCH_SIZE

static void wait_once(void *opaque)
{
    rt_coroutine_yield();
}

static void make(struct rt_coroutine **lives, int count)
{
    for (int i = 0; i < count; i++) {
        lives[i] = rt_coroutine_create(wait_once, NULL);
        CHILD_CHECK(lives[i] != NULL);
        rt_coroutine_enter(lives[i]);
    }
}

static void end(struct rt_coroutine **lives, int count)
{
    for (int i = 0; i < count; i++)
        rt_coroutine_enter(lives[i]);
}

static struct rt_pool_global_stats global(void)
{
    struct rt_pool_global_stats stats;

    rt_pool_global_stats(&stats);
    return stats;
}

struct search {
    int32_t thread_id;
    struct rt_pool_thread_stats found;
};

static void match(const struct rt_pool_thread_stats *stats, void *opaque)
{
    struct search *search = opaque;

    if (stats->thread_id == search->thread_id)
        search->found = *stats;
}

static struct rt_pool_thread_stats mine(void)
{
    struct search search = { .thread_id = (int32_t)syscall(SYS_gettid) };

    rt_pool_each_thread(match, &search);
    return search.found;
}

static struct rt_coroutine *lives[8 * BATCH];

/* ---- one thread ---- */

static void in_child_steady(void *opaque)
{
    make(lives, 64);
    end(lives, 64);
    for (int round = 0; round < 100; round++) {
        make(lives, 64);
        end(lives, 64);
    }
    CHILD_CHECK(mine().misses == 64);
    CHILD_CHECK(mine().takes == 64 * 101 && mine().gives == 64 * 101);
    CHILD_CHECK(mine().local_size == 64);
    CHILD_CHECK(global().stack_count == 64 && global().live_count == 0);
}

static void test_steady_depth_makes_nothing_new(void **state)
{
    assert_int_equal(run_in_child(in_child_steady, NULL), 0);
}

static void in_child_around_a_batch(void *opaque)
{
    /* Up and down across the edge between the two local batches: no traffic with the global pool. */
    make(lives, 2 * BATCH);
    end(lives, 2 * BATCH);
    for (int round = 0; round < 50; round++) {
        make(lives, BATCH + 3);
        end(lives, BATCH + 3);
    }
    CHILD_CHECK(mine().misses == 2 * BATCH);
    CHILD_CHECK(mine().local_size == 2 * BATCH);
    CHILD_CHECK(mine().donations == 0 && mine().overflows == 0);
    CHILD_CHECK(mine().refills == 2 * BATCH); /* each miss had asked */
}

static void test_edge_of_a_batch_does_not_thrash(void **state)
{
    assert_int_equal(run_in_child(in_child_around_a_batch, NULL), 0);
}

static void in_child_overflow(void *opaque)
{
    uint32_t before = global().global_max;

    CHILD_CHECK(before == BATCH);
    make(lives, 5 * BATCH);
    CHILD_CHECK(global().stack_count == 5 * BATCH && global().live_count == 5 * BATCH);

    /* Two batches fill up here, the third give beyond them donates the first batch. */
    end(lives, 2 * BATCH);
    CHILD_CHECK(mine().local_size == 2 * BATCH && mine().donations == 0);
    end(lives + 2 * BATCH, 1);
    CHILD_CHECK(mine().donations == 1 && global().global_size == BATCH && mine().local_size == BATCH + 1);

    /* The global pool is full: batches are freed. */
    end(lives + 2 * BATCH + 1, 3 * BATCH - 1);
    CHILD_CHECK(mine().donations == 1 && mine().overflows == 2);
    CHILD_CHECK(global().global_size == BATCH && mine().local_size == 2 * BATCH);
    CHILD_CHECK(global().stack_count == 3 * BATCH && global().live_count == 0);
}

static void test_global_maximum_frees_the_rest(void **state)
{
    assert_int_equal(run_in_child(in_child_overflow, NULL), 0);
}

static void in_child_resize(void *opaque)
{
    rt_pool_inc_max(BATCH + 1);
    CHILD_CHECK(global().global_max == 2 * BATCH + 1);
    make(lives, 6 * BATCH);
    end(lives, 6 * BATCH);
    /* 2 batches are below the maximum, so a third is taken: less than a batch too much. */
    CHILD_CHECK(global().global_size == 3 * BATCH);
    CHILD_CHECK(mine().donations == 3 && mine().overflows == 1);

    /* A device goes: what it needed goes too, though nobody gives anything. */
    rt_pool_dec_max(BATCH + 1);
    CHILD_CHECK(global().global_max == BATCH);
    CHILD_CHECK(global().global_size >= BATCH && global().global_size < 2 * BATCH);
    CHILD_CHECK(global().stack_count == global().global_size + mine().local_size);

    /* Nobody gets it below what it started with. */
    rt_pool_dec_max(1000);
    CHILD_CHECK(global().global_max == BATCH);
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
    hard_max = global().global_hard_max;
    CHILD_CHECK(hard_max > 0 && hard_max < 5 * BATCH);
    rt_pool_inc_max(100 * BATCH);
    /* Two batches stay here, as many as needed go over the maximum, one more must be refused. */
    count = (int)((hard_max + BATCH - 1) / BATCH + 3) * BATCH;
    make(lives, count);
    end(lives, count);
    CHILD_CHECK(global().global_size >= hard_max && global().global_size < hard_max + BATCH);
    CHILD_CHECK(mine().overflows > 0);
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
        end(lives, handover->depth);
        pthread_barrier_wait(&handover->barrier);
    }
    CHILD_CHECK(mine().takes == 0);
    CHILD_CHECK(mine().gives == (uint64_t)handover->rounds * handover->depth);
    CHILD_CHECK(mine().local_size <= 2 * BATCH);
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
        make(lives, handover.depth);
        pthread_barrier_wait(&handover.barrier);
        pthread_barrier_wait(&handover.barrier);
        if (global().stack_count > stacks_most)
            stacks_most = global().stack_count;
        CHILD_CHECK(global().live_count == 0);
    }
    pthread_join(there, NULL);
    /* Two local pools, the global one with its overshoot: no more, however long it goes on. */
    CHILD_CHECK(stacks_most <= 2 * 2 * BATCH + BATCH + 256 + BATCH);
    /* And what was ended there comes back here: new ones are made only until the pools are filled. */
    CHILD_CHECK(mine().misses <= stacks_most);
    CHILD_CHECK(mine().refills > 0);
    CHILD_CHECK(global().live_count == 0);
    CHILD_CHECK(global().stack_count == global().global_size + mine().local_size); /* the thread's went with it */
}

static void test_made_here_ended_there_stays_bounded(void **state)
{
    assert_int_equal(run_in_child(in_child_handover, NULL), 0);
}

static void *use_and_leave(void *opaque)
{
    struct rt_coroutine *own[BATCH / 2];

    make(own, BATCH / 2);
    end(own, BATCH / 2);
    return NULL;
}

static void count_thread(const struct rt_pool_thread_stats *stats, void *opaque)
{
    ++*(int *)opaque;
    CHILD_CHECK(strlen(stats->name) > 0);
}

static void in_child_thread_exit(void *opaque)
{
    int threads = 0;

    make(lives, 10);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;

        CHILD_CHECK(pthread_create(&thread, NULL, use_and_leave, NULL) == 0);
        pthread_join(thread, NULL);
    }
    CHILD_CHECK(global().stack_count == 10);
    CHILD_CHECK(global().live_count == 10); /* of which some counts are of threads that are gone */
    rt_pool_each_thread(count_thread, &threads);
    CHILD_CHECK(threads == 1);
    end(lives, 10);
    CHILD_CHECK(global().live_count == 0);
}

#define MADE_BY_LEAVER 2 /* few: each is a new stack, which is slow under ThreadSanitizer */

static void *make_and_leave(void *opaque)
{
    make(lives, MADE_BY_LEAVER);
    atomic_store((_Atomic bool *)opaque, true);
    return NULL;
}

/* A thread's counts move to those of ended threads: at no moment may they be in neither. */
static void in_child_counted_while_leaving(void *opaque)
{
    for (int round = 0; round < 200; round++) {
        _Atomic bool made = false;
        pthread_t thread;

        CHILD_CHECK(pthread_create(&thread, NULL, make_and_leave, &made) == 0);
        while (!atomic_load(&made))
            sched_yield();
        do
            CHILD_CHECK(global().live_count == MADE_BY_LEAVER);
        while (pthread_tryjoin_np(thread, NULL) != 0);
        end(lives, MADE_BY_LEAVER);
    }
}

static void test_lives_are_counted_while_their_thread_leaves(void **state)
{
    assert_int_equal(run_in_child(in_child_counted_while_leaving, NULL), 0);
}

static void test_thread_exit_frees_its_pool(void **state)
{
    assert_int_equal(run_in_child(in_child_thread_exit, NULL), 0);
}

/* A destructor of somebody else's thread-local that runs after ours and uses coroutines once more. */
static pthread_key_t late_key;

static void use_late(void *opaque)
{
    struct rt_coroutine *own[3];

    make(own, 3);
    end(own, 3);
}

static void *leave_with_destructor(void *opaque)
{
    use_late(NULL);
    pthread_setspecific(late_key, lives);
    return NULL;
}

static void in_child_late_use(void *opaque)
{
    pthread_t thread;

    use_late(NULL); /* the runtime's key comes first, so its destructor runs first */
    CHILD_CHECK(pthread_key_create(&late_key, use_late) == 0);
    CHILD_CHECK(pthread_create(&thread, NULL, leave_with_destructor, NULL) == 0);
    pthread_join(thread, NULL);
    CHILD_CHECK(global().stack_count == mine().local_size && global().live_count == 0);
}

static void test_use_after_thread_exit_is_cleaned_up_too(void **state)
{
    assert_int_equal(run_in_child(in_child_late_use, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steady_depth_makes_nothing_new),
        cmocka_unit_test(test_edge_of_a_batch_does_not_thrash),
        cmocka_unit_test(test_global_maximum_frees_the_rest),
        cmocka_unit_test(test_maximum_follows_devices),
        cmocka_unit_test(test_hard_maximum_holds_whatever_devices_ask),
        cmocka_unit_test(test_made_here_ended_there_stays_bounded),
        cmocka_unit_test(test_lives_are_counted_while_their_thread_leaves),
        cmocka_unit_test(test_thread_exit_frees_its_pool),
        cmocka_unit_test(test_use_after_thread_exit_is_cleaned_up_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
