/*
 * Goal:   whatever the policy, no life is left out of the counts, a thread leaves nothing behind, what is made here may
 *         end there, and the policy is chosen once.
 * Method: each case with each policy, in a child process whose pool is empty.
 * Broken: if this fails the statistics lie, threads that go leave their stacks behind, or a policy changes while
 *         coroutines wait in the pool of another.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "lives.h"

static struct rt_coroutine *lives[512];

static void with_policy(void (*fn)(void *opaque), enum rt_pool_policy policy)
{
    int status = run_in_child(fn, &policy);

    if (status != 0)
        print_error("with --coroutine-pool=%s\n", rt_pool_policy_name(policy));
    assert_int_equal(status, 0);
}

static void with_each_policy(void (*fn)(void *opaque))
{
    with_policy(fn, RT_POOL_BATCHED);
    with_policy(fn, RT_POOL_PER_THREAD);
    with_policy(fn, RT_POOL_NONE);
}

static void configure(const void *opaque)
{
    enum rt_pool_policy policy = *(const enum rt_pool_policy *)opaque;

    CHILD_CHECK(rt_pool_configure(policy) == 0);
    CHILD_CHECK(rt_pool_policy() == policy);
}

/* ---- the choice ---- */

static void test_policies_have_names(void **state)
{
    assert_string_equal(rt_pool_policy_name(RT_POOL_BATCHED), "batched");
    assert_string_equal(rt_pool_policy_name(RT_POOL_PER_THREAD), "per-thread");
    assert_string_equal(rt_pool_policy_name(RT_POOL_NONE), "none");
    assert_null(rt_pool_policy_name(RT_POOL_NONE + 1));
    assert_int_equal(rt_pool_policy(), RT_POOL_BATCHED); /* what nobody chose */
}

static void in_child_choose(void *opaque)
{
    CHILD_CHECK(rt_pool_configure(RT_POOL_NONE + 1) == -EINVAL);
    CHILD_CHECK(rt_pool_configure(RT_POOL_NONE) == 0);
    configure(opaque); /* as often as one likes, until it matters */
    make_lives(lives, 1);
    CHILD_CHECK(rt_pool_configure(RT_POOL_NONE) == -EBUSY);
    CHILD_CHECK(rt_pool_policy() == *(enum rt_pool_policy *)opaque);
    end_lives(lives, 1);
}

static void in_child_change_maximum(void *opaque)
{
    configure(opaque);
    rt_pool_inc_max(1);
    CHILD_CHECK(rt_pool_configure(RT_POOL_BATCHED) == -EBUSY);
}

static void in_child_ask_for_limits(void *opaque)
{
    configure(opaque);
    (void)pool_stats();
    CHILD_CHECK(rt_pool_configure(RT_POOL_BATCHED) == -EBUSY);
}

static void test_policy_is_chosen_before_it_matters(void **state)
{
    with_each_policy(in_child_choose);
    with_each_policy(in_child_change_maximum);
    with_each_policy(in_child_ask_for_limits);
}

/* ---- one thread ---- */

static void in_child_counts(void *opaque)
{
    const int depths[] = { 1, 100, 300, 3, 200, 1 };
    uint64_t ended = 0;

    configure(opaque);
    for (unsigned i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        struct rt_pool_thread_stats mine;
        struct rt_pool_global_stats all;

        make_lives(lives, depths[i]);
        CHILD_CHECK(pool_stats().live_count == (uint32_t)depths[i]);
        CHILD_CHECK(pool_stats().stack_count >= (uint32_t)depths[i]);
        CHILD_CHECK(thread_stats().takes == ended + (uint64_t)depths[i] && thread_stats().gives == ended);
        end_lives(lives, depths[i]);
        ended += (uint64_t)depths[i];
        mine = thread_stats();
        all = pool_stats();
        CHILD_CHECK(mine.takes == ended && mine.gives == ended);
        CHILD_CHECK(mine.misses > 0 && mine.misses <= mine.takes);
        CHILD_CHECK(mine.misses >= all.stack_count); /* a stack is made by a miss only */
        CHILD_CHECK(all.live_count == 0);
        CHILD_CHECK(all.stack_count == all.global_size + mine.local_size); /* every idle stack waits somewhere */
    }
}

static void test_each_life_and_each_stack_is_counted(void **state)
{
    with_each_policy(in_child_counts);
}

/* ---- several threads ---- */

#define HANDOVER_DEPTH (STACKS_ARE_DEAR ? 5 : 200)

struct handover {
    pthread_barrier_t barrier;
    int rounds;
};

static void *end_there(void *opaque)
{
    struct handover *handover = opaque;

    for (int round = 0; round < handover->rounds; round++) {
        pthread_barrier_wait(&handover->barrier);
        end_lives(lives, HANDOVER_DEPTH);
        pthread_barrier_wait(&handover->barrier);
    }
    CHILD_CHECK(thread_stats().takes == 0);
    CHILD_CHECK(thread_stats().gives == (uint64_t)handover->rounds * HANDOVER_DEPTH);
    return NULL;
}

static void in_child_handover(void *opaque)
{
    struct handover handover = { .rounds = 20 };
    pthread_t there;

    configure(opaque);
    pthread_barrier_init(&handover.barrier, NULL, 2);
    CHILD_CHECK(pthread_create(&there, NULL, end_there, &handover) == 0);
    for (int round = 0; round < handover.rounds; round++) {
        make_lives(lives, HANDOVER_DEPTH);
        pthread_barrier_wait(&handover.barrier);
        pthread_barrier_wait(&handover.barrier);
        CHILD_CHECK(pool_stats().live_count == 0);
    }
    pthread_join(there, NULL);
    CHILD_CHECK(thread_stats().gives == 0);
    CHILD_CHECK(thread_stats().takes == (uint64_t)handover.rounds * HANDOVER_DEPTH);
    /* The thread's own went with it. */
    CHILD_CHECK(pool_stats().stack_count == pool_stats().global_size + thread_stats().local_size);
}

static void test_made_here_ended_there_is_counted(void **state)
{
    with_each_policy(in_child_handover);
}

#define LEAVING_ROUNDS 50

static void *make_and_leave(void *opaque)
{
    make_lives(lives, 2);
    atomic_store((_Atomic bool *)opaque, true);
    return NULL;
}

/* A thread's counts move to those of ended threads: at no moment may they be in neither. */
static void in_child_counted_while_leaving(void *opaque)
{
    configure(opaque);
    for (int round = 0; round < LEAVING_ROUNDS; round++) {
        _Atomic bool made = false;
        pthread_t thread;

        CHILD_CHECK(pthread_create(&thread, NULL, make_and_leave, &made) == 0);
        while (!atomic_load(&made))
            sched_yield();
        do
            CHILD_CHECK(pool_stats().live_count == 2);
        while (pthread_tryjoin_np(thread, NULL) != 0);
        end_lives(lives, 2);
    }
}

static void test_lives_are_counted_while_their_thread_leaves(void **state)
{
    with_each_policy(in_child_counted_while_leaving);
}

#define OWN (STACKS_ARE_DEAR ? 8 : 64)

static void *use_and_leave(void *opaque)
{
    struct rt_coroutine *own[64];

    make_lives(own, OWN);
    end_lives(own, OWN);
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

    configure(opaque);
    make_lives(lives, 10);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;

        CHILD_CHECK(pthread_create(&thread, NULL, use_and_leave, NULL) == 0);
        pthread_join(thread, NULL);
    }
    CHILD_CHECK(pool_stats().stack_count == 10 + pool_stats().global_size); /* what is shared may stay */
    CHILD_CHECK(pool_stats().live_count == 10); /* of which some counts are of threads that are gone */
    rt_pool_each_thread(count_thread, &threads);
    CHILD_CHECK(threads == 1);
    end_lives(lives, 10);
    CHILD_CHECK(pool_stats().live_count == 0);
}

static void test_thread_exit_frees_its_pool(void **state)
{
    with_each_policy(in_child_thread_exit);
}

/* A destructor of somebody else's thread-local that runs after ours and uses coroutines once more. */
static pthread_key_t late_key;

static void use_late(void *opaque)
{
    struct rt_coroutine *own[3];

    make_lives(own, 3);
    end_lives(own, 3);
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

    configure(opaque);
    use_late(NULL); /* the runtime's key comes first, so its destructor runs first */
    CHILD_CHECK(pthread_key_create(&late_key, use_late) == 0);
    CHILD_CHECK(pthread_create(&thread, NULL, leave_with_destructor, NULL) == 0);
    pthread_join(thread, NULL);
    CHILD_CHECK(pool_stats().stack_count == pool_stats().global_size + thread_stats().local_size);
    CHILD_CHECK(pool_stats().live_count == 0);
}

static void test_use_after_thread_exit_is_cleaned_up_too(void **state)
{
    with_each_policy(in_child_late_use);
}

int main(void)
{
    const struct CMUnitTest one_thread[] = {
        cmocka_unit_test(test_each_life_and_each_stack_is_counted),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies_have_names),
        cmocka_unit_test(test_policy_is_chosen_before_it_matters),
        cmocka_unit_test(test_made_here_ended_there_is_counted),
        cmocka_unit_test(test_lives_are_counted_while_their_thread_leaves),
        cmocka_unit_test(test_thread_exit_frees_its_pool),
        cmocka_unit_test(test_use_after_thread_exit_is_cleaned_up_too),
    };

    return (STACKS_ARE_DEAR ? 0 : cmocka_run_group_tests(one_thread, NULL, NULL)) + cmocka_run_group_tests(tests, NULL, NULL);
}
