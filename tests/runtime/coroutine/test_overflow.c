/*
 * Goal:   a coroutine that overflows its stack says who it is before the process dies as it would have; nothing else is
 *         called an overflow.
 * Method: child processes that overflow, with either guard, in a plain thread and in an IOThread, dereference NULL, are
 *         killed, or have a handler of their own; their stderr and their wait status are read.
 * Broken: if this fails a crash names nobody, or a report hides the crash, its core dump or another handler.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "child.h"
#include "rt/coroutine.h"
#include "rt/iothread.h"
#include "rt/loop.h"
#include "rt/pool.h"

#define OTHER_HANDLER_STATUS 42

static int output_fd;

struct death {
    int status;
    char output[4096];
};

/* What the child writes to stderr, and how it ends. */
static void watch(void (*fn)(void *opaque), void *opaque, struct death *death_out)
{
    ssize_t length;

    output_fd = memfd_create("stderr", MFD_CLOEXEC);
    assert_true(output_fd >= 0);
    death_out->status = run_in_child(fn, opaque);
    length = pread(output_fd, death_out->output, sizeof(death_out->output) - 1, 0);
    assert_true(length >= 0);
    death_out->output[length] = 0;
    close(output_fd);
}

static void start(rt_coroutine_fn *fn, void *opaque)
{
    struct rt_coroutine *co = rt_coroutine_create(fn, opaque);

    CHILD_CHECK(co != NULL);
    rt_coroutine_enter(co);
}

static void nothing(void *opaque)
{
}

/* After a first life: at the first switch AddressSanitizer may have something to say about swapcontext(). */
static void begin_report(void)
{
    start(nothing, NULL);
    CHILD_CHECK(dup2(output_fd, STDERR_FILENO) == STDERR_FILENO);
    CHILD_CHECK(rt_stack_report_overflow() == 0);
}

static void report_overflows(enum rt_stack_guard guard)
{
    crash_plainly();
    CHILD_CHECK(rt_stack_configure(guard, 0) == 0);
    begin_report();
}

static void assert_killed(const struct death *death, int signal_number)
{
    if (!WIFSIGNALED(death->status) || WTERMSIG(death->status) != signal_number)
        fail_msg("status %#x, output: %s", (unsigned)death->status, death->output);
}

/* What a sanitizer would say first is not the subject. */
#define UNCHECKED __attribute__((no_sanitize("address"), no_sanitize("undefined")))

UNCHECKED static void walk_down(void *opaque)
{
    volatile char *top = __builtin_frame_address(0);

    for (uintptr_t below = 4096;; below += 64)
        top[-(intptr_t)below] = 1;
}

/* ---- overflows ---- */

static void in_child_overflow(void *opaque)
{
    report_overflows(*(enum rt_stack_guard *)opaque);
    start(walk_down, NULL);
}

static void check_overflow(enum rt_stack_guard guard)
{
    unsigned long long touched, base, top;
    unsigned thread_id, id, kib;
    struct death death;
    const char *at;

    watch(in_child_overflow, &guard, &death);
    assert_killed(&death, SIGSEGV);
    assert_int_equal(sscanf(death.output, "%*[^:]: coroutine %u (function 0x", &id), 1);
    assert_int_equal(id, 2);
    assert_non_null(strstr(death.output, "named by: addr2line -fe "));
    at = strstr(death.output, " has overflowed its stack in thread ");
    assert_non_null(at);
    assert_int_equal(sscanf(at,
                            " has overflowed its stack in thread %u \"%*[^\"]\": it touched 0x%llx in the guard page "
                            "below its %u KiB from 0x%llx to 0x%llx (",
                            &thread_id, &touched, &kib, &base, &top),
                     5);
    assert_int_equal(kib, 64);
    assert_int_equal(top - base, 64 * 1024);
    assert_true(touched < base && touched >= base - (unsigned long long)sysconf(_SC_PAGESIZE));
    assert_non_null(strstr(death.output, "rt_stack_configure()"));
    assert_int_equal(death.output[strlen(death.output) - 1], '\n');
}

static void test_overflow_of_an_mprotect_guard_is_reported(void **state)
{
    check_overflow(RT_STACK_GUARD_MPROTECT);
}

static void test_overflow_of_the_default_guard_is_reported(void **state)
{
    check_overflow(RT_STACK_GUARD_AUTO);
}

static void post_overflow(void *opaque)
{
    start(walk_down, NULL);
}

static void in_child_iothread(void *opaque)
{
    struct rt_iothread *iothread;

    report_overflows(RT_STACK_GUARD_AUTO);
    CHILD_CHECK(rt_iothread_create("overflowing", 0, &iothread) == 0);
    dprintf(STDERR_FILENO, "loop %u\n", rt_loop_id(rt_iothread_loop(iothread)));
    rt_loop_call(rt_iothread_loop(iothread), post_overflow, NULL);
}

static void test_thread_and_loop_are_named(void **state)
{
    char expected[64];
    struct death death;
    unsigned loop_id;

    watch(in_child_iothread, NULL, &death);
    assert_killed(&death, SIGSEGV);
    assert_int_equal(sscanf(death.output, "loop %u\n", &loop_id), 1);
    snprintf(expected, sizeof(expected), "\"overflowing\", loop %u: it touched", loop_id);
    if (!strstr(death.output, expected))
        fail_msg("no '%s' in: %s", expected, death.output);
}

/* The slabs of a burst are unmapped and used again; then others overflow on what comes of it. */
static void yield_once(void *opaque)
{
    rt_coroutine_yield();
}

static void in_child_after_burst(void *opaque)
{
    static struct rt_coroutine *cos[4 * RT_POOL_BATCH_SIZE];
    size_t count = sizeof(cos) / sizeof(cos[0]);

    report_overflows(RT_STACK_GUARD_AUTO);
    for (int burst = 0; burst < 3; burst++) {
        for (size_t i = 0; i < count; i++) {
            cos[i] = rt_coroutine_create(yield_once, NULL);
            CHILD_CHECK(cos[i] != NULL);
            rt_coroutine_enter(cos[i]);
        }
        for (size_t i = 0; i < count; i++)
            rt_coroutine_enter(cos[i]);
    }
    start(walk_down, NULL);
}

static void test_found_after_slabs_came_and_went(void **state)
{
    struct death death;
    char expected[64];

    watch(in_child_after_burst, NULL, &death);
    assert_killed(&death, SIGSEGV);
    snprintf(expected, sizeof(expected), ": coroutine %d (", 1 + 3 * 4 * RT_POOL_BATCH_SIZE + 1);
    assert_non_null(strstr(death.output, expected));
}

/* ---- what is none ---- */

UNCHECKED static void dereference_null(void *opaque)
{
    *(volatile char *)opaque = 1;
}

static void in_child_null(void *opaque)
{
    report_overflows(RT_STACK_GUARD_AUTO);
    start(dereference_null, NULL);
}

static void in_child_killed(void *opaque)
{
    report_overflows(RT_STACK_GUARD_AUTO);
    kill(getpid(), SIGSEGV);
}

/* QEMU's user-mode emulation adds a line of its own when the program that it emulates is killed. */
static const char *own_words(const struct death *death)
{
    const char *line_end = strchr(death->output, '\n');

    return strncmp(death->output, "qemu: ", 6) == 0 && line_end ? line_end + 1 : death->output;
}

static void test_other_faults_crash_as_usual(void **state)
{
    struct death death;

    watch(in_child_null, NULL, &death);
    assert_killed(&death, SIGSEGV);
    assert_string_equal(own_words(&death), "");
    watch(in_child_killed, NULL, &death);
    assert_killed(&death, SIGSEGV);
    assert_string_equal(own_words(&death), "");
}

/* ---- other handlers ---- */

static void on_other_fault(int signal_number)
{
    _exit(OTHER_HANDLER_STATUS);
}

static void in_child_other_handler(void *opaque)
{
    crash_plainly();
    signal(SIGSEGV, on_other_fault);
    begin_report();
    CHILD_CHECK(rt_stack_report_overflow() == 0); /* once more changes nothing */
    start(*(rt_coroutine_fn **)opaque, NULL);
}

static void test_former_handler_is_called(void **state)
{
    rt_coroutine_fn *fn = dereference_null;
    struct death death;

    watch(in_child_other_handler, &fn, &death);
    assert_true(WIFEXITED(death.status));
    assert_int_equal(WEXITSTATUS(death.status), OTHER_HANDLER_STATUS);
    assert_string_equal(death.output, "");
    fn = walk_down;
    watch(in_child_other_handler, &fn, &death);
    assert_true(WIFEXITED(death.status));
    assert_int_equal(WEXITSTATUS(death.status), OTHER_HANDLER_STATUS);
    assert_non_null(strstr(death.output, "has overflowed its stack"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overflow_of_an_mprotect_guard_is_reported),
        cmocka_unit_test(test_overflow_of_the_default_guard_is_reported),
        cmocka_unit_test(test_thread_and_loop_are_named),
        cmocka_unit_test(test_found_after_slabs_came_and_went),
        cmocka_unit_test(test_other_faults_crash_as_usual),
        cmocka_unit_test(test_former_handler_is_called),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
