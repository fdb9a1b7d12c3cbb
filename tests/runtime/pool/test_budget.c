/*
 * Goal:   the hard maximum of idle coroutines is what the machine bears.
 * Method: with either guard, in a child process, it is compared with the machine's own files.
 * Broken: if this fails idle stacks can use up vm.max_map_count or memory that others need.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "child.h"
#include "rt/pool.h"

static uint32_t hard_max(void)
{
    struct rt_pool_global_stats stats;

    rt_pool_global_stats(&stats);
    return stats.global_hard_max;
}

static void in_child_mappings(void *opaque)
{
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    unsigned limit;

    CHILD_CHECK(file && fscanf(file, "%u", &limit) == 1);
    fclose(file);
    CHILD_CHECK(rt_stack_configure(RT_STACK_GUARD_MPROTECT, 0) == 0);
    CHILD_CHECK(hard_max() == limit / 4);
}

static void test_mappings_limit_stacks_that_cost_them(void **state)
{
    assert_int_equal(run_in_child(in_child_mappings, NULL), 0);
}

static void in_child_memory(void *opaque)
{
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    struct rt_stack_facts facts;

    if (rt_stack_configure(RT_STACK_GUARD_LIGHTWEIGHT, 1024 * 1024) < 0) {
        fprintf(stderr, "no lightweight guards on this kernel: mappings are the limit in any case\n");
        return;
    }
    rt_stack_facts(&facts);
    CHILD_CHECK(facts.mappings_per_1000_stacks < 1000);
    /* A cgroup may allow less than the machine has. */
    CHILD_CHECK(hard_max() > 0 && hard_max() <= memory / 8 / facts.stack_bytes);
    CHILD_CHECK((uint64_t)hard_max() * facts.stack_bytes <= memory / 8);
}

static void test_memory_limits_stacks_that_cost_no_mapping(void **state)
{
    assert_int_equal(run_in_child(in_child_memory, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mappings_limit_stacks_that_cost_them),
        cmocka_unit_test(test_memory_limits_stacks_that_cost_no_mapping),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
