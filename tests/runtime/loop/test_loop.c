/*
 * Goal: a loop can be made, bound, run, quit from anywhere, nested and destroyed in any state, and sleeps
 * when there is nothing to do.
 * Method: one loop in this thread, or in a thread of its own; its statistics tell what it did.
 * If it fails: a device hangs when it is stopped, or costs CPU time while idle.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "rt/iothread.h"
#include "rt/loop.h"
#include "until.h"

static void create_names_and_numbers(void **state)
{
    struct rt_loop *a, *b;
    assert_int_equal(rt_loop_create("a", &a), 0);
    assert_int_equal(rt_loop_create("b", &b), 0);
    assert_string_equal(rt_loop_name(a), "a");
    assert_true(rt_loop_id(a) > 0);
    assert_true(rt_loop_id(b) > rt_loop_id(a));
    uint32_t last_id = rt_loop_id(b);
    rt_loop_destroy(b);
    assert_int_equal(rt_loop_create("c", &b), 0);
    assert_true(rt_loop_id(b) > last_id); /* ids are never used again */
    rt_loop_destroy(a);
    rt_loop_destroy(b);
    rt_loop_destroy(NULL);
}

static void bind_makes_it_current(void **state)
{
    struct rt_loop *loop;
    assert_null(rt_loop_current());
    assert_int_equal(rt_loop_create("bound", &loop), 0);
    assert_null(rt_loop_current());
    rt_loop_bind(loop);
    assert_ptr_equal(rt_loop_current(), loop);
    rt_loop_destroy(loop);
    assert_null(rt_loop_current());
}

static void idle_pass_returns_at_once(void **state)
{
    struct rt_loop *loop;
    assert_int_equal(rt_loop_create("idle", &loop), 0);
    rt_loop_bind(loop);
    assert_false(rt_loop_pass(loop, false));
    rt_loop_destroy(loop);
}

static void count_up(void *opaque)
{
    atomic_fetch_add((_Atomic int *)opaque, 1);
}

static void quit_own(void *opaque)
{
    rt_loop_quit(opaque);
}

static void quit_is_sticky(void **state)
{
    struct rt_loop *loop;
    assert_int_equal(rt_loop_create("quit", &loop), 0);
    rt_loop_bind(loop);
    rt_loop_quit(loop);
    rt_loop_run(loop); /* returns, although the quit came first */
    rt_loop_run(loop);
    rt_loop_destroy(loop);

    assert_int_equal(rt_loop_create("quit-inside", &loop), 0);
    rt_loop_bind(loop);
    assert_int_equal(rt_loop_post(loop, quit_own, loop), 0);
    rt_loop_run(loop);
    rt_loop_destroy(loop);
}

struct nesting {
    struct rt_loop *loop;
    _Atomic int inner;
    bool saw_inner;
};

static void wait_for_inner(void *opaque)
{
    struct nesting *nesting = opaque;
    while (atomic_load(&nesting->inner) == 0)
        rt_loop_pass(nesting->loop, true);
    nesting->saw_inner = true;
}

/* The outer pass has both in its hands; the first waits for the second. */
static void nested_pass_goes_on_with_the_outer_ones_work(void **state)
{
    struct nesting nesting = { 0 };
    assert_int_equal(rt_loop_create("nested", &nesting.loop), 0);
    rt_loop_bind(nesting.loop);
    assert_int_equal(rt_loop_post(nesting.loop, wait_for_inner, &nesting), 0);
    assert_int_equal(rt_loop_post(nesting.loop, count_up, &nesting.inner), 0);
    assert_true(rt_loop_pass(nesting.loop, true));
    assert_true(nesting.saw_inner);
    assert_int_equal(nesting.inner, 1);
    rt_loop_destroy(nesting.loop);
}

static void never_run_is_freed(void **state)
{
    struct rt_loop *loop;
    _Atomic int count = 0;
    assert_int_equal(rt_loop_create("unrun", &loop), 0);
    assert_int_equal(rt_loop_post(loop, count_up, &count), 0);
    rt_loop_destroy(loop); /* the leak sanitizer looks for the post */
    assert_int_equal(count, 0);
}

static bool never_ready(void *opaque)
{
    return false;
}

static void note_thread(void *opaque)
{
    *(pid_t *)opaque = gettid();
}

/* How often the kernel has put this thread to sleep or away: it cannot have woken up without it. @state_out: 'S' asleep. */
static uint64_t switches_of(pid_t thread_id, char *state_out)
{
    char path[64], line[128];
    uint64_t sum = 0, number;
    snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)thread_id);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        (void)sscanf(line, "State: %c", state_out);
        if (sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &number) == 1 ||
            sscanf(line, "nonvoluntary_ctxt_switches: %" SCNu64, &number) == 1)
            sum += number;
    }
    fclose(file);
    return sum;
}

/* An hour ahead. */
static void arm_far_timers(struct rt_loop *loop, struct rt_timer **timers, int timer_count)
{
    static _Atomic int never;
    for (int i = 0; i < timer_count; i++) {
        timers[i] = rt_timer_create(loop, count_up, &never);
        rt_timer_arm(timers[i], rt_clock_ns() + INT64_C(3600000000000) + i);
    }
}

/* Zero wake-ups while idle, whatever is attached and armed: not one pass and not one switch of its thread in a second. It polls
 * when there is something to do; an idle handler that can be polled does not keep it from sleeping. */
static void idle_loop_sleeps(void **state)
{
    enum { HANDLERS = 500, TIMERS = 10000, OBSERVED_NS = 1000000000 };
    static const struct rt_fd_callbacks pollable = { .ready = never_ready, .poll = never_ready, .poll_ready = never_ready };
    static struct rt_handler *handlers[HANDLERS];
    static struct rt_timer *timers[TIMERS];
    static int fds[HANDLERS];
    struct rt_iothread *io;
    assert_int_equal(rt_iothread_create("sleeper", 32000, &io), 0);
    struct rt_loop *loop = rt_iothread_loop(io);
    struct rt_loop_stats before, after;
    pid_t thread_id;
    rt_loop_call(loop, note_thread, &thread_id);
    for (int i = 0; i < HANDLERS; i++) {
        fds[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        assert_int_equal(rt_loop_attach_fd(loop, fds[i], RT_FD_OTHER, 0, 0, &pollable, NULL, &handlers[i]), 0);
    }
    arm_far_timers(loop, timers, TIMERS);
    (void)until_asleep(loop);
    char thread_state = 0;
    uint64_t switches;
    UNTIL((switches = switches_of(thread_id, &thread_state), thread_state == 'S'));
    rt_loop_stats(loop, &before);
    nanosleep(&(struct timespec){ .tv_sec = OBSERVED_NS / 1000000000 }, NULL);
    assert_int_equal(switches_of(thread_id, &thread_state), switches);
    rt_loop_stats(loop, &after);
    assert_int_equal(after.passes, before.passes);
    assert_int_equal(after.busy_ns, before.busy_ns);
    assert_int_equal(after.poll_ns, before.poll_ns);
    assert_true(after.wait_ns - before.wait_ns >= OBSERVED_NS);
    for (int i = 0; i < HANDLERS; i++) {
        rt_loop_detach_fd(handlers[i]);
        close(fds[i]);
    }
    rt_iothread_destroy(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_names_and_numbers),
        cmocka_unit_test(bind_makes_it_current),
        cmocka_unit_test(idle_pass_returns_at_once),
        cmocka_unit_test(quit_is_sticky),
        cmocka_unit_test(nested_pass_goes_on_with_the_outer_ones_work),
        cmocka_unit_test(never_run_is_freed),
        cmocka_unit_test(idle_loop_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
