/*
 * Goal:   without a pool every life makes a stack and frees it, whatever devices ask for.
 * Method: lives in a child process; the counters must come out exactly.
 * Broken: if this fails comparisons with "no pool" compare with something else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lives.h"

static void in_child_lives(void *opaque)
{
    struct rt_coroutine *lives[30];

    CHILD_CHECK(rt_pool_configure(RT_POOL_NONE) == 0);
    rt_pool_inc_max(1000);
    for (uint64_t round = 1; round <= 10; round++) {
        make_lives(lives, 30);
        CHILD_CHECK(pool_stats().stack_count == 30 && pool_stats().live_count == 30);
        end_lives(lives, 30);
        CHILD_CHECK(pool_stats().stack_count == 0 && pool_stats().live_count == 0);
        CHILD_CHECK(thread_stats().takes == 30 * round && thread_stats().misses == 30 * round);
    }
    CHILD_CHECK(thread_stats().local_size == 0 && thread_stats().donations == 0 && thread_stats().overflows == 0);
    CHILD_CHECK(pool_stats().global_size == 0 && pool_stats().global_max == 0 && pool_stats().global_hard_max == 0);
    rt_pool_dec_max(1000);
    CHILD_CHECK(pool_stats().global_max == 0);
}

static void test_nothing_is_kept(void **state)
{
    assert_int_equal(run_in_child(in_child_lives, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
