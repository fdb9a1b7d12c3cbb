/*
 * Goal:   a stack that overflows hits its guard, whichever kind of guard is in use.
 * Method: for each kind a child process walks down a coroutine's stack until it dies; where it died is compared with
 *         the size of the stack. A kernel without lightweight guards is checked to say so and to fall back.
 * Broken: if this fails an overflow writes silently into another request's stack.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "child.h"
#include "rt/coroutine.h"
#include "rt/pool.h"

#define PAGE_BYTES ((uintptr_t)sysconf(_SC_PAGESIZE))

/* Shared with the child. */
struct report {
    enum rt_stack_guard guard;
    int configured;
    struct rt_stack_facts facts;
    char guard_name[32];
    volatile uintptr_t reached_bytes; /* below the first frame */
};

static struct report *shared(enum rt_stack_guard guard)
{
    struct report *report =
        mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(report != MAP_FAILED);
    report->guard = guard;
    return report;
}

static void walk_down(void *opaque)
{
    struct report *report = opaque;
    volatile char *top = __builtin_frame_address(0);

    for (uintptr_t below = PAGE_BYTES;; below += 64) {
        top[-(intptr_t)below] = 1;
        report->reached_bytes = below;
    }
}

static void in_child_overflow(void *opaque)
{
    struct report *report = opaque;

    report->configured = rt_stack_configure(report->guard, 0);
    if (report->configured < 0)
        return;
    rt_stack_facts(&report->facts);
    strncpy(report->guard_name, report->facts.guard_name, sizeof(report->guard_name) - 1);
    crash_plainly();
    /* Neighbours on both sides, so that there is something to write into. */
    CHILD_CHECK(rt_coroutine_create(walk_down, report) != NULL);
    struct rt_coroutine *middle = rt_coroutine_create(walk_down, report);
    CHILD_CHECK(middle && rt_coroutine_create(walk_down, report));
    rt_coroutine_enter(middle);
}

static void check_overflow(const struct report *report, int status)
{
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
    assert_true(report->reached_bytes < report->facts.stack_bytes);
    /* Control block, colour and first frames take less than three pages. */
    assert_true(report->reached_bytes > report->facts.stack_bytes - 3 * PAGE_BYTES);
}

static void test_mprotect_guard_stops_overflow(void **state)
{
    struct report *report = shared(RT_STACK_GUARD_MPROTECT);
    int status = run_in_child(in_child_overflow, report);

    assert_int_equal(report->configured, 0);
    check_overflow(report, status);
    assert_string_equal(report->guard_name, "mprotect");
    assert_in_range(report->facts.mappings_per_1000_stacks, 1990, 2050);
}

static void test_lightweight_guard_stops_overflow_or_is_refused(void **state)
{
    struct report *report = shared(RT_STACK_GUARD_LIGHTWEIGHT);
    int status = run_in_child(in_child_overflow, report);

    if (report->configured == -EOPNOTSUPP) {
        print_message("this kernel has no lightweight guards: their refusal and the fallback are tested instead\n");
        assert_int_equal(status, 0);
    } else {
        check_overflow(report, status);
        assert_string_equal(report->guard_name, "lightweight");
        assert_in_range(report->facts.mappings_per_1000_stacks, 0, 100);
    }
}

static void test_auto_takes_what_works(void **state)
{
    struct report *asked = shared(RT_STACK_GUARD_LIGHTWEIGHT), *report = shared(RT_STACK_GUARD_AUTO);
    int status;

    run_in_child(in_child_overflow, asked);
    status = run_in_child(in_child_overflow, report);
    assert_int_equal(report->configured, 0);
    check_overflow(report, status);
    assert_string_equal(report->guard_name, asked->configured == 0 ? "lightweight" : "mprotect");
}

static void in_child_wrong_choices(void *opaque)
{
    CHILD_CHECK(rt_stack_configure(RT_STACK_GUARD_AUTO, 12345) == -EINVAL);
    CHILD_CHECK(rt_stack_configure(RT_STACK_GUARD_AUTO, (uint32_t)PAGE_BYTES) == -EINVAL);
    CHILD_CHECK(rt_stack_configure((enum rt_stack_guard)(RT_STACK_GUARD_MPROTECT + 1), 0) == -EINVAL);
    CHILD_CHECK(rt_stack_configure(RT_STACK_GUARD_AUTO, 256 * 1024) == 0);
    CHILD_CHECK(rt_stack_configure(RT_STACK_GUARD_AUTO, 0) == -EBUSY);
    struct rt_stack_facts facts;
    rt_stack_facts(&facts);
    CHILD_CHECK(facts.stack_bytes == 256 * 1024);
}

static void test_wrong_choices_are_refused(void **state)
{
    assert_int_equal(run_in_child(in_child_wrong_choices, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mprotect_guard_stops_overflow),
        cmocka_unit_test(test_lightweight_guard_stops_overflow_or_is_refused),
        cmocka_unit_test(test_auto_takes_what_works),
        cmocka_unit_test(test_wrong_choices_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
