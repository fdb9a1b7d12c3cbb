/*
 * Goal:   the process knows how many mappings it has and may have, cheaply.
 * Method: counts are compared with /proc/self/maps and the sysctl; many counts in a row must not all read the file.
 * Broken: if this fails warnings about vm.max_map_count come too late, or the sampler burns a core.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "child.h"
#include "mappings.h"
#include "rt/coroutine.h"
#include "rt/loop.h"
#include "rt/pool.h"
#include "rt/process.h"

static void in_child_count(void *opaque)
{
    unsigned extra = 4000, counted;
    char *pages = fill_mappings(extra);
    int64_t deadline_ns;

    counted = rt_process_vma_count();
    CHILD_CHECK(counted + 8 >= count_maps() && counted <= count_maps() + 8);
    CHILD_CHECK(counted >= extra);

    /* Old for a while, but not for ever. */
    munmap(pages, extra * (size_t)sysconf(_SC_PAGESIZE));
    deadline_ns = rt_clock_ns() + INT64_C(15000000000);
    while (rt_process_vma_count() == counted)
        CHILD_CHECK(rt_clock_ns() < deadline_ns);
    CHILD_CHECK(rt_process_vma_count() < counted - extra / 2);
}

static void test_counts_what_the_kernel_counts(void **state)
{
    assert_int_equal(run_in_child(in_child_count, NULL), 0);
}

static void wait_for_ever(void *opaque)
{
    rt_coroutine_yield();
}

/* A burst uses mappings up faster than they are counted. */
static void in_child_burst(void *opaque)
{
    unsigned lines, counted, stacks = 600;

    CHILD_CHECK(rt_stack_configure(RT_STACK_GUARD_MPROTECT, 0) == 0);
    fill_mappings(40000); /* to be counted again soon would be dear */
    counted = rt_process_vma_count();
    for (unsigned i = 0; i < stacks; i++) {
        struct rt_coroutine *co = rt_coroutine_create(wait_for_ever, NULL);

        CHILD_CHECK(co != NULL);
        rt_coroutine_enter(co);
    }
    CHILD_CHECK(rt_process_vma_count() >= counted + 2 * stacks);
    counted = rt_process_vma_count();
    lines = count_maps();
    CHILD_CHECK(counted + 40 >= lines && counted <= lines + 40);
}

static void test_a_burst_of_stacks_is_seen_at_once(void **state)
{
#if defined(__SANITIZE_THREAD__)
    skip(); /* it maps for itself with every stack */
#endif
    assert_int_equal(run_in_child(in_child_burst, NULL), 0);
}

static void test_limit_is_the_sysctl(void **state)
{
    struct rt_stack_facts facts;
    unsigned limit;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%u", &limit), 1);
    fclose(file);
    rt_stack_facts(&facts);
    assert_int_equal(facts.max_map_count, limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_what_the_kernel_counts),
        cmocka_unit_test(test_a_burst_of_stacks_is_seen_at_once),
        cmocka_unit_test(test_limit_is_the_sysctl),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
