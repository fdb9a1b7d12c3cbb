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
#include <sys/eventfd.h>
#include <unistd.h>

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

/* ---- the tables ---- */

struct seen {
    struct rt_loop *loop;
    uint64_t handler_id;
    unsigned loops, handlers;
    struct rt_handler_stats stats;
};

static void see_handler(const struct rt_handler_stats *stats, void *opaque)
{
    struct seen *seen = opaque;
    seen->handlers++;
    if (stats->handler_id == seen->handler_id)
        seen->stats = *stats;
}

static void see_loop(struct rt_loop *loop, void *opaque)
{
    struct seen *seen = opaque;
    seen->loops += loop == seen->loop;
}

static bool nothing_there(void *opaque)
{
    return false;
}

static bool there_once(void *opaque)
{
    bool *there = opaque;
    bool was = *there;
    *there = false;
    return was;
}

static bool look_once(void *opaque)
{
    return *(bool *)opaque;
}

static void handlers_are_counted_one_by_one(void **state)
{
    static const struct rt_fd_callbacks idle = { .ready = nothing_there };
    static const struct rt_fd_callbacks polled = { .ready = nothing_there, .poll = look_once, .poll_ready = there_once };
    struct rt_handler *handlers[2];
    struct rt_loop *loop;
    bool there = true;
    int fds[2];
    assert_int_equal(rt_loop_create("table", &loop), 0);
    rt_loop_bind(loop);
    for (int i = 0; i < 2; i++)
        fds[i] = eventfd(i == 0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_int_equal(rt_loop_attach_fd(loop, fds[0], RT_FD_HOST_NOTIFIER, 7, 3, &idle, NULL, &handlers[0]), 0);
    for (int i = 0; i < 3; i++)
        rt_loop_pass(loop, false);

    struct seen seen = { .loop = loop, .handler_id = rt_handler_id(handlers[0]) };
    rt_loop_each(see_loop, &seen);
    rt_loop_each_handler(loop, see_handler, &seen);
    assert_int_equal(seen.loops, 1);
    assert_int_equal(seen.handlers, 2); /* with the loop's own eventfd */
    assert_int_equal(seen.stats.fd, fds[0]);
    assert_int_equal(seen.stats.role, RT_FD_HOST_NOTIFIER);
    assert_int_equal(seen.stats.device_id, 7);
    assert_int_equal(seen.stats.queue_index, 3);
    assert_false(seen.stats.can_poll);
    assert_int_equal(seen.stats.dispatches, 3);
    assert_int_equal(seen.stats.idle_dispatches, 3);
    assert_int_equal(seen.stats.poll_dispatches, 0);
    rt_loop_detach_fd(handlers[0]);

    rt_loop_set_poll(loop, RT_FOREVER);
    assert_int_equal(rt_loop_poll_max_ns(loop), RT_FOREVER);
    assert_true(rt_loop_thread_id(loop) > 0);
    assert_int_equal(rt_loop_attach_fd(loop, fds[1], RT_FD_OTHER, 0, 0, &polled, &there, &handlers[1]), 0);
    while (there)
        rt_loop_pass(loop, true);
    seen = (struct seen){ .handler_id = rt_handler_id(handlers[1]) };
    rt_loop_each_handler(loop, see_handler, &seen);
    assert_int_equal(seen.handlers, 2); /* what is detached is not listed */
    assert_true(seen.stats.can_poll);
    assert_int_equal(seen.stats.dispatches, 1);
    assert_int_equal(seen.stats.poll_dispatches, 1);
    assert_int_equal(seen.stats.idle_dispatches, 0);
    rt_loop_detach_fd(handlers[1]);
    for (int i = 0; i < 2; i++)
        close(fds[i]);
    rt_loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_before_a_thread_runs_it),
        cmocka_unit_test(sums_to_wall_time),
        cmocka_unit_test(open_wait_is_included),
        cmocka_unit_test(tracing_walks_all_loops),
        cmocka_unit_test(handlers_are_counted_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
