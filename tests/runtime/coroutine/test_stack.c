/*
 * Goal:   stacks are counted truly, go back to the kernel, and running out of them is an error that says what to do.
 * Method: with each kind of guard, in a child process, many coroutines live at once; the runtime's counts are compared
 *         with the kernel's (/proc/self/maps). Then mappings, or address space, are used up on purpose.
 * Broken: if this fails reports on mappings are wrong, memory is not given back after a burst, or a server that meets
 *         vm.max_map_count dies instead of refusing a request.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

#include "child.h"
#include "mappings.h"
#include "rt/coroutine.h"
#include "rt/pool.h"
#include "rt/process.h"

#define LIVE 1500 /* not a whole number of slabs */
#define PINNED 100 /* at least one in each slab */

static void wait_once(void *opaque)
{
    char frame[8192];

    memset(frame, 1, sizeof(frame)); /* pages that must come back */
    __asm__ volatile("" : : "r"(frame) : "memory");
    rt_coroutine_yield();
}

static long resident_kb(void)
{
    char line[256];
    long kb = -1;
    FILE *file = fopen("/proc/self/status", "re");

    CHILD_CHECK(file != NULL);
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "VmRSS: %ld kB", &kb) == 1)
            break;
    fclose(file);
    return kb;
}

static long page_faults(void)
{
    struct rusage usage;

    CHILD_CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

static void in_child_count(void *opaque)
{
    enum rt_stack_guard guard = *(enum rt_stack_guard *)opaque;
    static struct rt_coroutine *cos[LIVE];
    struct rt_pool_global_stats stats;
    unsigned before, grown;
    long resident;

    CHILD_CHECK(rt_stack_configure(guard, 0) == 0);
    rt_pool_global_stats(&stats);
    CHILD_CHECK(stats.stack_count == 0 && stats.stack_vma_count == 0 && stats.live_count == 0);

    before = count_maps();
    for (int i = 0; i < LIVE; i++) {
        cos[i] = rt_coroutine_create(wait_once, NULL);
        CHILD_CHECK(cos[i] != NULL);
        rt_coroutine_enter(cos[i]);
    }
    grown = count_maps() - before;
    resident = resident_kb();
    rt_pool_global_stats(&stats);
    CHILD_CHECK(stats.stack_count == LIVE && stats.live_count == LIVE);
    if (guard == RT_STACK_GUARD_MPROTECT)
        CHILD_CHECK(stats.stack_vma_count == 2 * LIVE);
    /* The rest of the process may map a little meanwhile, or a slab may join a neighbour that is not ours. */
    CHILD_CHECK(stats.stack_vma_count <= grown + 8 && grown <= stats.stack_vma_count + 40);

    /* One stays in every slab, so that no slab can go: the others' pages and mappings go nevertheless. */
    for (int i = 0; i < LIVE; i++)
        if (i % PINNED != 0)
            rt_coroutine_enter(cos[i]);
    CHILD_CHECK(resident_kb() < resident - (LIVE - LIVE / PINNED - 5 * RT_POOL_BATCH_SIZE) * 8);
    rt_pool_global_stats(&stats);
    grown = count_maps() - before;
    CHILD_CHECK(stats.stack_vma_count <= grown + 20 && grown <= stats.stack_vma_count + 60);
    CHILD_CHECK(grown <= (guard == RT_STACK_GUARD_MPROTECT ? 2 * stats.stack_count + 60 : 60));

    for (int i = 0; i < LIVE; i += PINNED)
        rt_coroutine_enter(cos[i]);
    rt_pool_global_stats(&stats);
    CHILD_CHECK(stats.live_count == 0);
    /* Two batches here, one in the global pool and less than one beyond it: the rest went back. */
    CHILD_CHECK(stats.stack_count <= 4 * RT_POOL_BATCH_SIZE);
    CHILD_CHECK(stats.stack_vma_count <= (guard == RT_STACK_GUARD_MPROTECT ? LIVE : 40));
}

static void test_mprotect_stacks_are_counted(void **state)
{
    enum rt_stack_guard guard = RT_STACK_GUARD_MPROTECT;

    assert_int_equal(run_in_child(in_child_count, &guard), 0);
}

static void test_default_stacks_are_counted(void **state)
{
    enum rt_stack_guard guard = RT_STACK_GUARD_AUTO;

    assert_int_equal(run_in_child(in_child_count, &guard), 0);
}

/* ---- where their tops lie ---- */

/* Of two threads that make stacks in turn each gets every other one. */
static void in_child_tops(void *opaque)
{
    struct rt_coroutine *cos[RT_POOL_BATCH_SIZE];
    unsigned of_top[2][4096 / 64] = { 0 };

    for (unsigned i = 0; i < RT_POOL_BATCH_SIZE; i++) {
        cos[i] = rt_coroutine_create(wait_once, NULL);
        CHILD_CHECK(cos[i] != NULL);
        /* A handle points to the control block, at the top; this is the line of the cache that it falls into. */
        unsigned *count = &of_top[i % 2][(uintptr_t)cos[i] % 4096 / 64];
        CHILD_CHECK(++*count <= RT_POOL_BATCH_SIZE / 2 / 16);
    }
    for (unsigned i = 0; i < RT_POOL_BATCH_SIZE; i++) {
        rt_coroutine_enter(cos[i]);
        rt_coroutine_enter(cos[i]);
    }
}

static void test_tops_share_the_cache(void **state)
{
    assert_int_equal(run_in_child(in_child_tops, NULL), 0);
}

/* ---- memory of the idle ---- */

static void burst(struct rt_coroutine **cos)
{
    for (int i = 0; i < LIVE; i++) {
        cos[i] = rt_coroutine_create(wait_once, NULL);
        CHILD_CHECK(cos[i] != NULL);
        rt_coroutine_enter(cos[i]);
    }
    /* Ends in another order than it began. */
    for (int i = 0; i < LIVE; i += 2)
        rt_coroutine_enter(cos[i]);
    for (int i = 1; i < LIVE; i += 2)
        rt_coroutine_enter(cos[i]);
}

static void in_child_trim(void *opaque)
{
    static struct rt_coroutine *cos[LIVE];
    struct rt_pool_global_stats full, trimmed, again;
    long before_kb, full_kb, trimmed_kb, faults;
    unsigned full_maps;

    CHILD_CHECK(rt_stack_configure(*(enum rt_stack_guard *)opaque, 0) == 0);
    rt_pool_inc_max(2 * LIVE);
    burst(cos); /* what is counted below has been touched once */
    rt_pool_trim(0);
    before_kb = resident_kb();

    burst(cos);
    rt_pool_global_stats(&full);
    full_kb = resident_kb();
    full_maps = count_maps();
    CHILD_CHECK(full.global_size >= LIVE - 3 * RT_POOL_BATCH_SIZE);
    rt_pool_trim(3600 * 1000);
    CHILD_CHECK(resident_kb() > full_kb - 256); /* nobody has waited for an hour */

    rt_pool_trim(0);
    rt_pool_global_stats(&trimmed);
    trimmed_kb = resident_kb();
    fprintf(stderr, "resident: %ld KiB, in the burst %ld, afterwards %ld\n", before_kb, full_kb, trimmed_kb);
    /* Three pages a stack at least, but for one in each batch and what this thread holds. */
    CHILD_CHECK(full_kb - trimmed_kb > ((long)full.global_size - full.global_size / RT_POOL_BATCH_SIZE) * 11);
    CHILD_CHECK(trimmed.global_size == full.global_size && trimmed.stack_count == full.stack_count);
    CHILD_CHECK(trimmed.stack_vma_count == full.stack_vma_count);
    CHILD_CHECK(labs((long)count_maps() - (long)full_maps) <= 4); /* libc may map for itself */

    burst(cos);
    rt_pool_global_stats(&again);
    CHILD_CHECK(again.stack_count == full.stack_count); /* nothing new was needed */
    CHILD_CHECK(again.live_count == 0);

    /* What is destroyed while its memory is away: nobody touches it for that. */
    rt_pool_trim(0);
    faults = page_faults();
    rt_pool_dec_max(2 * LIVE);
    faults = page_faults() - faults;
    fprintf(stderr, "page faults of the end: %ld\n", faults);
    CHILD_CHECK(faults < (long)again.global_size / 2);
    rt_pool_global_stats(&again);
    CHILD_CHECK(again.stack_count <= 4 * RT_POOL_BATCH_SIZE);
}

static void test_memory_of_the_idle_goes_back(void **state)
{
    enum rt_stack_guard guards[] = { RT_STACK_GUARD_MPROTECT, RT_STACK_GUARD_AUTO };

    for (int i = 0; i < 2; i++)
        assert_int_equal(run_in_child(in_child_trim, &guards[i]), 0);
}

/* ---- running out ---- */

/* Coroutines until there are no more; then everything is as it was and goes on after some have ended. */
static void exhaust_and_recover(size_t most, void (*relieve)(void), char *hint, uint32_t hint_bytes)
{
    struct rt_coroutine **cos = calloc(most, sizeof(*cos));
    size_t count = 0;
    int error = 0;

    while (count < most) {
        errno = 0;
        cos[count] = rt_coroutine_create(wait_once, NULL);
        if (!cos[count]) {
            error = errno;
            break;
        }
        count++;
    }
    rt_stack_error_hint(hint, hint_bytes);
    relieve();
    CHILD_CHECK(error == ENOMEM);
    CHILD_CHECK(count > 0 && count < most);

    for (size_t i = 0; i < count; i++) {
        rt_coroutine_enter(cos[i]);
        rt_coroutine_enter(cos[i]);
    }
    for (size_t i = 0; i < count; i++) {
        cos[i] = rt_coroutine_create(wait_once, NULL);
        CHILD_CHECK(cos[i] != NULL);
    }
    for (size_t i = 0; i < count; i++) {
        rt_coroutine_enter(cos[i]);
        rt_coroutine_enter(cos[i]);
    }
    free(cos);
}

static char *filler;
static size_t filler_bytes;

static void unmap_filler(void)
{
    munmap(filler, filler_bytes);
}

static void in_child_mappings(void *opaque)
{
    struct rt_stack_facts facts;
    uint32_t spare = 600, count;
    char hint[512], limit[64];

    CHILD_CHECK(rt_stack_configure(RT_STACK_GUARD_MPROTECT, 0) == 0);
    rt_stack_facts(&facts);
    CHILD_CHECK(facts.max_map_count != RT_POOL_NO_LIMIT);
    count = facts.max_map_count - count_maps() - spare;
    filler = fill_mappings(count);
    filler_bytes = count * (size_t)sysconf(_SC_PAGESIZE);
    exhaust_and_recover(spare, unmap_filler, hint, sizeof(hint));

    snprintf(limit, sizeof(limit), "sysctl -w vm.max_map_count=%u", facts.max_map_count * 4);
    fprintf(stderr, "%s\n", hint);
    CHILD_CHECK(strstr(hint, limit) != NULL);
}

static void test_exhausted_mappings_are_an_error(void **state)
{
    assert_int_equal(run_in_child(in_child_mappings, NULL), 0);
}

static struct rlimit former_limit;

static void lift_limit(void)
{
    setrlimit(RLIMIT_AS, &former_limit);
}

static void in_child_memory(void *opaque)
{
    unsigned long pages;
    char hint[512];
    FILE *file = fopen("/proc/self/statm", "re");

    CHILD_CHECK(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    getrlimit(RLIMIT_AS, &former_limit);
    CHILD_CHECK(rt_stack_configure(RT_STACK_GUARD_AUTO, 0) == 0);
    struct rlimit limit = former_limit;
    limit.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + 40 * 1024 * 1024;
    setrlimit(RLIMIT_AS, &limit);
    exhaust_and_recover(2000, lift_limit, hint, sizeof(hint));
    fprintf(stderr, "%s\n", hint);
    CHILD_CHECK(strstr(hint, "ulimit -v") != NULL && strstr(hint, "sysctl") == NULL);
}

static void test_exhausted_memory_is_an_error(void **state)
{
    assert_int_equal(run_in_child(in_child_memory, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mprotect_stacks_are_counted),
        cmocka_unit_test(test_default_stacks_are_counted),
        cmocka_unit_test(test_tops_share_the_cache),
        cmocka_unit_test(test_memory_of_the_idle_goes_back),
        cmocka_unit_test(test_exhausted_mappings_are_an_error),
        cmocka_unit_test(test_exhausted_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
