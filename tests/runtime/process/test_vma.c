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

#include <sys/mman.h>
#include <unistd.h>

#include "child.h"
#include "rt/loop.h"
#include "rt/pool.h"
#include "rt/process.h"

static unsigned count_lines(const char *path)
{
    unsigned count = 0;
    int c;
    FILE *file = fopen(path, "re");

    CHILD_CHECK(file != NULL);
    while ((c = getc(file)) != EOF)
        count += c == '\n';
    fclose(file);
    return count;
}

static void in_child_count(void *opaque)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned extra = 4000, counted;
    char *pages = mmap(NULL, extra * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int64_t deadline_ns;

    CHILD_CHECK(pages != MAP_FAILED);
    for (unsigned i = 0; i < extra; i += 2)
        CHILD_CHECK(mprotect(pages + i * page, page, PROT_READ) == 0);
    counted = rt_process_vma_count();
    CHILD_CHECK(counted + 8 >= count_lines("/proc/self/maps") && counted <= count_lines("/proc/self/maps") + 8);
    CHILD_CHECK(counted >= extra);

    /* Old for a while, but not for ever. */
    munmap(pages, extra * page);
    deadline_ns = rt_clock_ns() + INT64_C(15000000000);
    while (rt_process_vma_count() == counted)
        CHILD_CHECK(rt_clock_ns() < deadline_ns);
    CHILD_CHECK(rt_process_vma_count() < counted - extra / 2);
}

static void test_counts_what_the_kernel_counts(void **state)
{
    assert_int_equal(run_in_child(in_child_count, NULL), 0);
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
        cmocka_unit_test(test_limit_is_the_sysctl),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
