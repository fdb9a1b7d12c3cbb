/*
 * Goal: timers run once, never early, in the order of their deadlines, whoever arms them.
 * Method: one loop; deadlines in the past and some milliseconds ahead; arming from another thread while the loop sleeps.
 * If it fails: timeouts are missed, a sleeping loop misses a timer armed elsewhere, or one timer starves the rest.
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

struct alarm {
    struct rt_timer *timer;
    int64_t deadline_ns;
    int64_t ran_at_ns;
    int runs;
    int place; /* in the order of runs */
    struct rt_timer *cancel;
};

static int run_count;

static void run(void *opaque)
{
    struct alarm *alarm = opaque;
    alarm->ran_at_ns = rt_clock_ns();
    alarm->runs++;
    alarm->place = run_count++;
    if (alarm->cancel)
        rt_timer_cancel(alarm->cancel);
}

static void arm(struct alarm *alarm, struct rt_loop *loop, int64_t deadline_ns)
{
    if (!alarm->timer)
        alarm->timer = rt_timer_create(loop, run, alarm);
    alarm->deadline_ns = deadline_ns;
    rt_timer_arm(alarm->timer, deadline_ns);
}

static void runs_once_and_not_early(void **state)
{
    struct rt_loop *loop = *state;
    struct alarm alarm = { 0 };
    arm(&alarm, loop, rt_clock_ns() + 3000000);
    while (alarm.runs == 0)
        rt_loop_pass(loop, true);
    assert_true(alarm.ran_at_ns >= alarm.deadline_ns);
    assert_false(rt_loop_pass(loop, false));
    assert_int_equal(alarm.runs, 1);
    rt_timer_destroy(alarm.timer);
}

/* A precise timeout sleeps once and long enough: it does not come back early and spin up to the deadline. */
static void sleeps_up_to_the_deadline(void **state)
{
    struct rt_loop *loop = *state;
    struct alarm alarm = { 0 };
    struct rt_loop_stats before, after;
    do { /* once more if the deadline was over before the pass began */
        alarm.runs = 0;
        rt_loop_stats(loop, &before);
        arm(&alarm, loop, rt_clock_ns() + 2500000);
        while (alarm.runs == 0)
            rt_loop_pass(loop, true);
        rt_loop_stats(loop, &after);
        assert_int_equal(after.passes - before.passes, 1);
    } while (after.wait_ns == before.wait_ns);
    rt_timer_destroy(alarm.timer);
}

static void past_deadline_runs_in_the_next_pass(void **state)
{
    struct rt_loop *loop = *state;
    struct alarm alarm = { 0 };
    arm(&alarm, loop, 1);
    assert_true(rt_loop_pass(loop, false));
    assert_int_equal(alarm.runs, 1);
    rt_timer_destroy(alarm.timer);
}

static void cancelled_and_destroyed_do_not_run(void **state)
{
    struct rt_loop *loop = *state;
    struct alarm cancelled = { 0 }, destroyed = { 0 };
    arm(&cancelled, loop, 1);
    arm(&destroyed, loop, 1);
    rt_timer_cancel(cancelled.timer);
    rt_timer_destroy(destroyed.timer);
    assert_false(rt_loop_pass(loop, false));
    assert_int_equal(cancelled.runs + destroyed.runs, 0);
    rt_timer_destroy(cancelled.timer);
    rt_timer_destroy(NULL);
}

/* Both are due in the same pass when the first one cancels the second. */
static void cancelled_by_another_of_the_same_pass(void **state)
{
    struct rt_loop *loop = *state;
    struct alarm first = { 0 }, second = { 0 };
    arm(&second, loop, 2);
    first.cancel = second.timer;
    arm(&first, loop, 1);
    assert_true(rt_loop_pass(loop, false));
    assert_int_equal(first.runs, 1);
    assert_int_equal(second.runs, 0);
    assert_false(rt_loop_pass(loop, false));
    rt_timer_destroy(first.timer);
    rt_timer_destroy(second.timer);
}

static void rearmed_counts_from_the_new_deadline(void **state)
{
    struct rt_loop *loop = *state;
    struct alarm alarm = { 0 };
    arm(&alarm, loop, rt_clock_ns() + INT64_C(3600000000000));
    arm(&alarm, loop, 1);
    assert_true(rt_loop_pass(loop, false));
    arm(&alarm, loop, 1);
    arm(&alarm, loop, rt_clock_ns() + INT64_C(3600000000000));
    assert_false(rt_loop_pass(loop, false));
    assert_int_equal(alarm.runs, 1);
    rt_timer_destroy(alarm.timer);
}

static void many_run_in_order(void **state)
{
    struct rt_loop *loop = *state;
    enum { COUNT = 500, DEADLINES = 100 };
    static struct alarm alarms[COUNT];
    static bool armed[COUNT];
    unsigned seed = 4711;
    for (int i = 0; i < COUNT; i++) {
        seed = seed * 1103515245 + 12345;
        arm(&alarms[i], loop, 1 + (seed >> 16) % DEADLINES);
        armed[i] = true;
        /* A heap has to be put in order after removals from its middle, too. */
        if (i % 7 == 0) {
            rt_timer_cancel(alarms[i / 2].timer);
            armed[i / 2] = false;
        }
    }
    run_count = 0;
    while (rt_loop_pass(loop, false)) {
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(alarms[i].runs, armed[i]);
        for (int j = 0; j < i; j++) {
            if (armed[i] && armed[j]) /* equal deadlines: in the order in which they were armed */
                assert_int_equal(alarms[j].deadline_ns <= alarms[i].deadline_ns,
                                 alarms[j].place < alarms[i].place);
        }
    }
    for (int i = 0; i < COUNT; i++)
        rt_timer_destroy(alarms[i].timer);
}

/* Due at the same time, more than one pass runs: all run, in order, a bounded number in each pass. */
static void ten_thousand_run_in_order(void **state)
{
    struct rt_loop *loop = *state;
    enum { COUNT = 10000, BOUND = 256 };
    static struct alarm alarms[COUNT];
    for (int i = COUNT - 1; i >= 0; i--)
        arm(&alarms[i], loop, 1 + i / 2); /* pairs of equal ones, armed the later one first */
    run_count = 0;
    while (run_count < COUNT) {
        int before = run_count;
        assert_true(rt_loop_pass(loop, true)); /* does not block while some are left */
        assert_in_range(run_count - before, 1, BOUND);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(alarms[i].runs, 1);
        assert_int_equal(alarms[i].place, i ^ 1);
        rt_timer_destroy(alarms[i].timer);
    }
    assert_false(rt_loop_pass(loop, false));
}

/* Some are left to the next pass when others are cancelled, moved away, or destroyed. */
static void left_out_can_be_cancelled(void **state)
{
    struct rt_loop *loop = *state;
    enum { COUNT = 600 };
    static struct alarm alarms[COUNT];
    for (int i = 0; i < COUNT; i++)
        arm(&alarms[i], loop, 1);
    run_count = 0;
    assert_true(rt_loop_pass(loop, true));
    int ran = run_count;
    assert_true(ran < COUNT - 3);
    rt_timer_cancel(alarms[COUNT - 1].timer);
    rt_timer_destroy(alarms[COUNT - 2].timer);
    arm(&alarms[COUNT - 3], loop, rt_clock_ns() + INT64_C(3600000000000));
    while (run_count < COUNT - 3)
        assert_true(rt_loop_pass(loop, true));
    assert_false(rt_loop_pass(loop, false));
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(alarms[i].runs, i < COUNT - 3);
        if (i != COUNT - 2)
            rt_timer_destroy(alarms[i].timer);
    }
}

static void rearm_for_the_past(void *opaque)
{
    struct alarm *alarm = opaque;
    alarm->runs++;
    rt_timer_arm(alarm->timer, 1);
}

static void always_due_starves_nobody(void **state)
{
    struct rt_loop *loop = *state;
    struct alarm greedy = { 0 };
    greedy.timer = rt_timer_create(loop, rearm_for_the_past, &greedy);
    rt_timer_arm(greedy.timer, 1);
    for (int i = 1; i <= 5; i++) {
        assert_true(rt_loop_pass(loop, true));
        assert_int_equal(greedy.runs, i);
    }
    rt_timer_destroy(greedy.timer);
}

static void run_atomic(void *opaque)
{
    atomic_fetch_add((_Atomic int *)opaque, 1);
}

/* The loop sleeps without limit, then until an hour from now; each time another thread arms something earlier. */
static void armed_from_another_thread_wakes_the_loop(void **state)
{
    struct rt_iothread *io;
    assert_int_equal(rt_iothread_create("timers", 0, &io), 0);
    _Atomic int runs = 0, never = 0;
    struct rt_timer *timer = rt_timer_create(rt_iothread_loop(io), run_atomic, &runs);
    struct rt_timer *hour = rt_timer_create(rt_iothread_loop(io), run_atomic, &never);
    for (int i = 1; i <= 50; i++) {
        rt_timer_arm(timer, rt_clock_ns() + 100000);
        UNTIL(atomic_load(&runs) == i);
        if (i == 25)
            rt_timer_arm(hour, rt_clock_ns() + INT64_C(3600000000000));
    }
    assert_int_equal(never, 0);
    rt_timer_cancel(hour);
    struct rt_loop *loop = rt_iothread_loop(io);
    rt_loop_call(loop, (void (*)(void *))rt_timer_destroy, timer);
    rt_loop_call(loop, (void (*)(void *))rt_timer_destroy, hour);
    rt_iothread_destroy(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(runs_once_and_not_early, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sleeps_up_to_the_deadline, set_up, tear_down),
        cmocka_unit_test_setup_teardown(past_deadline_runs_in_the_next_pass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cancelled_and_destroyed_do_not_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cancelled_by_another_of_the_same_pass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rearmed_counts_from_the_new_deadline, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_run_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ten_thousand_run_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(left_out_can_be_cancelled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(always_due_starves_nobody, set_up, tear_down),
        cmocka_unit_test(armed_from_another_thread_wakes_the_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
