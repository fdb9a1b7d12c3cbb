/*
 * Goal: busy, polling and waiting time add up to the time since the loop got its thread, at any moment, and never go back.
 * Method: look from another thread while the loop changes between its phases as fast as it can, and while it sleeps.
 * If it fails: shares of a thread's time in reports are wrong, and lock contention is measured against a wrong busy time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdatomic.h>

#include "rt/iothread.h"
#include "rt/loop.h"
#include "own_loop.h"
#include "until.h"

static uint64_t wall_of(const struct rt_loop_stats *stats)
{
    return stats->busy_ns + stats->poll_ns + stats->wait_ns;
}

static void count_up(void *opaque)
{
    atomic_fetch_add((_Atomic int *)opaque, 1);
}

static void nothing_before_a_thread_runs_it(void **state)
{
    struct rt_loop *loop;
    assert_int_equal(rt_loop_create("unbound", &loop), 0);
    struct rt_loop_stats stats = stats_of(loop);
    assert_int_equal(wall_of(&stats), 0);
    int64_t before_ns = rt_clock_ns();
    rt_loop_bind(loop);
    stats = stats_of(loop);
    assert_true(wall_of(&stats) <= (uint64_t)(rt_clock_ns() - before_ns));
    assert_int_equal(stats.poll_ns + stats.wait_ns, 0);
    rt_loop_destroy(loop);
}

/* Sums are compared with the clock around the look: what happens between the two is the only slack. */
static void sums_to_wall_time(void **state)
{
    struct rt_iothread *io;
    _Atomic int runs = 0;
    int64_t created_after_ns = rt_clock_ns();
    assert_int_equal(rt_iothread_create("phases", 20000, &io), 0);
    int64_t created_before_ns = rt_clock_ns();
    struct rt_loop *loop = rt_iothread_loop(io);
    struct rt_loop_stats last = { 0 };
    for (int i = 0; i < 20000; i++) {
        if (i % 4 == 0)
            assert_int_equal(rt_loop_post(loop, count_up, &runs), 0);
        int64_t before_ns = rt_clock_ns();
        struct rt_loop_stats now = stats_of(loop);
        int64_t after_ns = rt_clock_ns();
        assert_true(wall_of(&now) >= (uint64_t)(before_ns - created_before_ns));
        assert_true(wall_of(&now) <= (uint64_t)(after_ns - created_after_ns));
        assert_true(now.busy_ns >= last.busy_ns && now.poll_ns >= last.poll_ns &&
                    now.wait_ns >= last.wait_ns);
        last = now;
    }
    UNTIL(atomic_load(&runs) == 5000);
    rt_iothread_destroy(io);
}

static void open_wait_is_included(void **state)
{
    struct rt_iothread *io;
    assert_int_equal(rt_iothread_create("waits", 0, &io), 0);
    struct rt_loop_stats before = stats_of(rt_iothread_loop(io)), after;
    UNTIL((after = stats_of(rt_iothread_loop(io)),
           after.passes == before.passes && after.wait_ns > before.wait_ns) ||
          (before = after, false));
    rt_iothread_destroy(io);
}

static void tracing_walks_all_loops(void **state)
{
    struct rt_iothread *io;
    struct rt_loop *loop;
    assert_int_equal(rt_loop_create("unbound", &loop), 0);
    assert_int_equal(rt_iothread_create("bound", 0, &io), 0);
    uint64_t notifies = stats_of(rt_iothread_loop(io)).notifies;
    for (int i = 0; i < 100; i++) {
        rt_loop_trace_baseline();
        rt_loop_trace_samples();
    }
    assert_int_equal(stats_of(rt_iothread_loop(io)).notifies, notifies); /* wakes nobody */
    rt_iothread_destroy(io);
    rt_loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_before_a_thread_runs_it),
        cmocka_unit_test(sums_to_wall_time),
        cmocka_unit_test(open_wait_is_included),
        cmocka_unit_test(tracing_walks_all_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
