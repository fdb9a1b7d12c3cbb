/*
 * Goal: each handler has a polling window of its own: what one pays or costs changes nothing for the others, whoever is
 * polled in vain stops being polled, and whoever leaves polling while others go on is not deaf.
 * Method: a clock that moves only when it is read, and sleeps in which the test decides what happens and how long
 * they take: looks can be counted, and nothing depends on the machine's speed.
 * If it fails: idle queues slow busy ones down or keep a core busy; or a queue's notifications stay off while nobody
 * looks at it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "rt/loop.h"
#include "own_loop.h"

enum { CLOCK_STEP_NS = 100, LOOKS_PER_CLOCK = 16, WINDOW_MIN_NS = 4000, MAX_NS = 100000, PEEK_EVERY_NS = 1000, IDLE = 15 };

static int64_t clock_ns = 1000000000;

struct queue {
    struct rt_loop *loop;
    struct rt_handler *handler;
    int fd;
    int polls, begins, ends, done, kicks;
    int work_in;   /* there is work at the look after so many; -1: never */
    bool slips_in; /* at the next poll_end */
    int64_t work_ns; /* how long its work takes */
    void (*on_poll)(struct queue *q);
};

/* What happens in the next sleep. */
static struct {
    int64_t ns;
    struct queue *kicked;
    struct rt_loop *posted;
    int count; /* sleeps that there were */
} sleep_plan;

int64_t __wrap_rt_clock_ns(void);
int __real_epoll_wait(int epoll_fd, struct epoll_event *events, int events_max, int timeout_ms);
int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int events_max, int timeout_ms);
int __wrap_epoll_pwait2(int epoll_fd, struct epoll_event *events, int events_max, const struct timespec *timeout,
                        const sigset_t *mask);

int64_t __wrap_rt_clock_ns(void)
{
    return clock_ns += CLOCK_STEP_NS;
}

static void nothing(void *opaque)
{
}

static void *post(void *opaque)
{
    assert_int_equal(rt_loop_post(opaque, nothing, NULL), 0);
    return NULL;
}

static void sleep_as_planned(void)
{
    sleep_plan.count++;
    clock_ns += sleep_plan.ns;
    if (sleep_plan.kicked)
        assert_int_equal(eventfd_write(sleep_plan.kicked->fd, 1), 0);
    if (sleep_plan.posted) { /* another thread, which has to notify */
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, post, sleep_plan.posted), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int events_max, int timeout_ms)
{
    if (timeout_ms != 0)
        sleep_as_planned();
    return __real_epoll_wait(epoll_fd, events, events_max, 0);
}

int __wrap_epoll_pwait2(int epoll_fd, struct epoll_event *events, int events_max, const struct timespec *timeout,
                        const sigset_t *mask)
{
    sleep_as_planned();
    return __real_epoll_wait(epoll_fd, events, events_max, 0);
}

static bool queue_ready(void *opaque)
{
    struct queue *q = opaque;
    eventfd_t count;
    q->kicks++;
    return eventfd_read(q->fd, &count) == 0;
}

static bool queue_poll(void *opaque)
{
    struct queue *q = opaque;
    q->polls++;
    if (q->on_poll)
        q->on_poll(q);
    if (q->work_in < 0)
        return false;
    if (q->work_in > 0)
        q->work_in--;
    return q->work_in == 0;
}

static bool queue_poll_ready(void *opaque)
{
    struct queue *q = opaque;
    q->done++;
    clock_ns += q->work_ns;
    return true;
}

static void queue_poll_begin(void *opaque)
{
    struct queue *q = opaque;
    assert_int_equal(q->begins, q->ends);
    q->begins++;
}

static bool queue_poll_end(void *opaque)
{
    struct queue *q = opaque;
    q->ends++;
    assert_int_equal(q->begins, q->ends);
    bool slipped_in = q->slips_in;
    q->slips_in = false;
    return slipped_in;
}

static void attach(struct queue *q, struct rt_loop *loop)
{
    static const struct rt_fd_callbacks callbacks = { .ready = queue_ready,
                                                      .poll = queue_poll,
                                                      .poll_ready = queue_poll_ready,
                                                      .poll_begin = queue_poll_begin,
                                                      .poll_end = queue_poll_end };
    *q = (struct queue){ .loop = loop, .work_in = -1, .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) };
    assert_int_equal(rt_loop_attach_fd(loop, q->fd, RT_FD_HOST_NOTIFIER, 1, 0, &callbacks, q, &q->handler), 0);
}

static void detach(struct queue *q)
{
    rt_loop_detach_fd(q->handler);
    assert_int_equal(q->begins, q->ends);
    close(q->fd);
}

static int set_up_windows(void **state)
{
    if (set_up(state) < 0)
        return -1;
    rt_loop_set_poll(*state, MAX_NS);
    sleep_plan.kicked = NULL;
    sleep_plan.posted = NULL;
    return 0;
}

/* Pass until the loop has slept, for @ns, and @q was kicked at the end of that. */
static void sleep_until_kicked(struct queue *q, int64_t ns)
{
    int count = sleep_plan.count;
    sleep_plan.ns = ns;
    sleep_plan.kicked = q;
    while (sleep_plan.count == count)
        rt_loop_pass(q->loop, true);
    sleep_plan.kicked = NULL;
}

/* How long @q was polled since it had had @polls. */
static int64_t polled_ns(const struct queue *q, int polls)
{
    return (int64_t)(q->polls - polls) / LOOKS_PER_CLOCK * CLOCK_STEP_NS;
}

/* Kick it after sleeps that polling would have spared, until its window is at least @ns. */
static void open_window(struct queue *q, int64_t ns)
{
    int64_t window_ns;
    int sleeps = 0;
    do {
        int polls = q->polls;
        sleep_until_kicked(q, CLOCK_STEP_NS);
        window_ns = polled_ns(q, polls);
        assert_true(++sleeps <= 64);
    } while (window_ns < ns);
}

/* Sleeps that a longer window would have spared double it; that of others stays. */
static void own_sleeps_open_ones_own_window(void **state)
{
    struct queue a, b;
    attach(&a, *state);
    attach(&b, *state);
    sleep_until_kicked(&a, 1000);
    assert_int_equal(a.polls, 0); /* it was closed; now it opens */
    int64_t expected_ns = WINDOW_MIN_NS;
    for (int i = 0; i < 4; i++, expected_ns *= 2) {
        int polls = a.polls;
        sleep_until_kicked(&a, 1000);
        assert_in_range(polled_ns(&a, polls), expected_ns - 2 * CLOCK_STEP_NS, expected_ns + 2 * CLOCK_STEP_NS);
    }
    assert_int_equal(a.begins, 4);
    assert_int_equal(b.begins, 0);
    detach(&a);
    detach(&b);
}

/* A window never exceeds the maximum, and closes when its handler's sleeps get too long for it. */
static void long_sleeps_close_it(void **state)
{
    struct queue a;
    attach(&a, *state);
    open_window(&a, MAX_NS / 2);
    for (int i = 0; i < 4; i++)
        sleep_until_kicked(&a, 1000);
    int polls = a.polls;
    sleep_until_kicked(&a, 1000);
    assert_true(polled_ns(&a, polls) <= MAX_NS + CLOCK_STEP_NS);
    int sleeps = 0;
    do {
        polls = a.polls;
        sleep_until_kicked(&a, 2 * MAX_NS);
        assert_true(++sleeps <= 8); /* each halves it */
    } while (a.polls != polls);
    detach(&a);
}

/* Sleeps that others end: it is polled in vain, and closes after some windows' worth of that. */
static void polled_in_vain_it_closes(void **state)
{
    struct queue a, b;
    attach(&a, *state);
    attach(&b, *state);
    open_window(&a, WINDOW_MIN_NS);
    int polls, sleeps = 0;
    do {
        polls = a.polls;
        sleep_until_kicked(&b, 2 * MAX_NS);
        assert_true(++sleeps < 100);
    } while (a.polls != polls);
    assert_true(sleeps > 4); /* one in vain is no reason: a disk's answers come between a queue's requests */
    detach(&a);
    detach(&b);
}

/* The reason for windows of one's own: idle handlers cost an active one nothing for long. */
static void idle_ones_stop_being_polled(void **state, int work_in)
{
    struct queue active, idle[IDLE];
    attach(&active, *state);
    for (int i = 0; i < IDLE; i++)
        attach(&idle[i], *state);
    /* One after the other they have been active and are open. */
    for (int i = 0; i < IDLE; i++)
        sleep_until_kicked(&idle[i], CLOCK_STEP_NS);
    open_window(&active, 2 * WINDOW_MIN_NS);
    int open, passes = 0;
    do {
        active.work_in = work_in;
        assert_true(rt_loop_pass(*state, true));
        open = 0;
        for (int i = 0; i < IDLE; i++)
            open += idle[i].begins != idle[i].ends;
        assert_true(++passes < 1000000);
    } while (open > 0);

    int done = active.done, begins = active.begins, sleeps = sleep_plan.count, polls = 0;
    for (int i = 0; i < IDLE; i++)
        polls += idle[i].polls;
    int64_t begin_ns = clock_ns;
    for (int i = 0; i < 1000; i++) {
        active.work_in = work_in;
        assert_true(rt_loop_pass(*state, true));
    }
    assert_int_equal(active.done - done, 1000);
    assert_int_equal(active.begins, begins); /* its phase goes on over all of them */
    assert_int_equal(sleep_plan.count, sleeps);
    for (int i = 0; i < IDLE; i++)
        polls -= idle[i].polls;
    assert_in_range(-polls, 1, (clock_ns - begin_ns) / PEEK_EVERY_NS); /* all of them together */
    detach(&active);
    for (int i = 0; i < IDLE; i++)
        detach(&idle[i]);
}

static void idle_ones_beside_one_that_is_polled(void **state)
{
    idle_ones_stop_being_polled(state, 10 * LOOKS_PER_CLOCK);
}

/* Work at the first look of every pass: no phase lasts long enough for any window to run out. */
static void idle_ones_beside_one_that_is_never_idle(void **state)
{
    idle_ones_stop_being_polled(state, 1);
}

/* An idle handler that was open does not keep an active one's polling going either: it sleeps as soon as its own has
 * run out. */
static void phase_ends_with_the_last_window(void **state)
{
    struct queue narrow, wide;
    attach(&narrow, *state);
    attach(&wide, *state);
    open_window(&wide, 4 * WINDOW_MIN_NS);
    sleep_until_kicked(&narrow, 1000);
    int narrow_polls = narrow.polls, wide_polls = wide.polls;
    sleep_until_kicked(&narrow, MAX_NS / 2);
    assert_in_range(polled_ns(&narrow, narrow_polls), WINDOW_MIN_NS - 2 * CLOCK_STEP_NS,
                    WINDOW_MIN_NS + 2 * CLOCK_STEP_NS);
    assert_true(polled_ns(&wide, wide_polls) >= 4 * WINDOW_MIN_NS);
    assert_true(polled_ns(&wide, wide_polls) <= MAX_NS);
    detach(&narrow);
    detach(&wide);
}

/* Time in which it worked, or had no processor, is not time in which it was polled in vain. */
static void long_work_does_not_close_it(void **state)
{
    struct queue a;
    attach(&a, *state);
    open_window(&a, WINDOW_MIN_NS);
    a.work_ns = 50 * WINDOW_MIN_NS;
    a.work_in = 1;
    assert_true(rt_loop_pass(*state, true));
    int begins = a.begins, sleeps = sleep_plan.count;
    for (int i = 0; i < 100; i++) {
        a.work_in = 2 * LOOKS_PER_CLOCK;
        assert_true(rt_loop_pass(*state, true));
    }
    assert_int_equal(a.done, 101);
    assert_int_equal(a.begins, begins);
    assert_int_equal(sleep_plan.count, sleeps);
    detach(&a);
}

static struct queue *other;
static int other_ends, looks_after;

static void count_looks_after_other_left(struct queue *q)
{
    looks_after += other->ends > other_ends;
}

/* Who leaves while others go on gets poll_end then and there, and what slipped in is handled at once. */
static void who_leaves_is_not_deaf(void **state)
{
    struct queue narrow, wide;
    attach(&narrow, *state);
    attach(&wide, *state);
    open_window(&wide, 4 * WINDOW_MIN_NS);
    sleep_until_kicked(&narrow, 1000);
    other = &narrow;
    other_ends = narrow.ends;
    looks_after = 0;
    wide.on_poll = count_looks_after_other_left;
    sleep_until_kicked(&wide, 1000);
    assert_int_equal(narrow.ends, narrow.begins);
    assert_true(looks_after > LOOKS_PER_CLOCK); /* the other one was still polled then */

    narrow.slips_in = true;
    int sleeps = sleep_plan.count, wide_ends = wide.ends;
    assert_true(rt_loop_pass(*state, true));
    assert_int_equal(narrow.done, 1);
    assert_int_equal(wide.ends, wide_ends); /* nobody has blocked */
    assert_int_equal(sleep_plan.count, sleeps);
    detach(&narrow);
    detach(&wide);
}

static int looks_until_change;
static struct queue *changed;

static void detach_other(struct queue *q)
{
    if (--looks_until_change == 0)
        detach(changed);
}

static void attach_other(struct queue *q)
{
    if (--looks_until_change == 0)
        attach(changed, q->loop);
}

/* Handlers come and go in the middle of a phase. */
static void detached_in_the_middle_of_a_phase(void **state)
{
    struct queue a, b;
    attach(&a, *state);
    attach(&b, *state);
    open_window(&a, 2 * WINDOW_MIN_NS);
    open_window(&b, 2 * WINDOW_MIN_NS);
    changed = &a;
    looks_until_change = LOOKS_PER_CLOCK + 3;
    b.on_poll = detach_other;
    int polls = a.polls;
    sleep_until_kicked(&b, 1000);
    assert_in_range(a.polls - polls, LOOKS_PER_CLOCK, LOOKS_PER_CLOCK + 4);
    assert_int_equal(a.begins, a.ends);
    detach(&b);
}

static void attached_in_the_middle_of_a_phase(void **state)
{
    struct queue a, b;
    attach(&a, *state);
    open_window(&a, 2 * WINDOW_MIN_NS);
    changed = &b;
    looks_until_change = LOOKS_PER_CLOCK + 3;
    a.on_poll = attach_other;
    sleep_until_kicked(&a, 1000);
    assert_int_equal(b.begins, 0); /* it has not shown yet that polling it pays */
    sleep_until_kicked(&b, 1000);
    sleep_until_kicked(&b, 1000);
    assert_int_equal(b.begins, 1);
    assert_true(b.polls > 0);
    detach(&a);
    detach(&b);
}

/* Notifies have a window like a handler's, and no handler is polled because of them. */
static void notifies_have_their_own_window(void **state)
{
    struct queue a;
    struct rt_loop_stats stats;
    attach(&a, *state);
    for (int i = 0; i < 3; i++) {
        int count = sleep_plan.count;
        sleep_plan.ns = 1000;
        sleep_plan.posted = *state;
        while (sleep_plan.count == count)
            rt_loop_pass(*state, true);
        sleep_plan.posted = NULL;
    }
    rt_loop_pass(*state, false);
    rt_loop_stats(*state, &stats);
    assert_true(stats.polls >= 2);
    assert_int_equal(a.begins, 0);
    detach(&a);
}

/* Who is closed is looked at now and then while others are polled: its kick would be seen by the next look at the monitor
 * only. */
static void closed_ones_are_found_soon(void **state)
{
    struct queue active, closed[8];
    attach(&active, *state);
    for (int i = 0; i < 8; i++)
        attach(&closed[i], *state);
    open_window(&active, MAX_NS / 4);
    for (int i = 0; i < 8; i++)
        closed[i].work_in = 1;
    int64_t begin_ns = clock_ns;
    for (int i = 0; i < 8; i++) {
        active.work_in = 200 * LOOKS_PER_CLOCK;
        while (closed[i].done == 0) {
            assert_true(rt_loop_pass(*state, true));
            assert_true(clock_ns - begin_ns <= 2 * 8 * PEEK_EVERY_NS);
            closed[i].work_in = closed[i].done ? -1 : closed[i].work_in;
        }
    }
    detach(&active);
    for (int i = 0; i < 8; i++)
        detach(&closed[i]);
}

/* Turned off, on, and to RT_FOREVER while it runs: nobody is left without poll_end. */
static void maximum_changes(void **state)
{
    struct queue a, b;
    attach(&a, *state);
    attach(&b, *state);
    open_window(&a, 2 * WINDOW_MIN_NS);
    rt_loop_set_poll(*state, RT_FOREVER);
    b.work_in = 3;
    assert_true(rt_loop_pass(*state, true));
    assert_int_equal(a.begins - a.ends, 1);
    assert_int_equal(b.begins - b.ends, 1);
    rt_loop_set_poll(*state, MAX_NS);
    b.work_in = -1;
    sleep_until_kicked(&b, 1000);
    assert_int_equal(a.begins, a.ends);
    assert_int_equal(b.begins, b.ends);
    rt_loop_set_poll(*state, 0);
    int polls = a.polls + b.polls;
    sleep_until_kicked(&a, 1000);
    sleep_until_kicked(&a, 1000);
    assert_int_equal(a.polls + b.polls, polls);
    detach(&a);
    detach(&b);
}

/* While it is held nobody is polled, those who were in a phase have left it, and kicks end the sleep; after the release all is as
 * before. RT_FOREVER is not held. */
static void held_it_sleeps(void **state)
{
    struct queue a;
    attach(&a, *state);
    open_window(&a, 2 * WINDOW_MIN_NS);
    a.work_in = 1;
    assert_true(rt_loop_pass(*state, true));
    assert_int_equal(a.begins - a.ends, 1);
    a.work_in = -1;
    rt_loop_hold_polling(*state);
    rt_loop_hold_polling(*state);
    for (int i = 0; i < 4; i++) {
        int polls = a.polls, kicks = a.kicks;
        sleep_until_kicked(&a, CLOCK_STEP_NS);
        assert_true(a.polls - polls <= 1); /* a pass that does not sleep looks once at who is in a phase */
        assert_int_equal(a.kicks, kicks + 1);
        assert_int_equal(a.begins, a.ends);
        if (i == 1)
            rt_loop_release_polling(*state);
    }
    int polls = a.polls;
    rt_loop_release_polling(*state);
    sleep_until_kicked(&a, CLOCK_STEP_NS);
    assert_true(polled_ns(&a, polls) > WINDOW_MIN_NS);

    rt_loop_hold_polling(*state);
    rt_loop_set_poll(*state, RT_FOREVER);
    a.work_in = 3;
    assert_true(rt_loop_pass(*state, true));
    assert_int_equal(a.work_in, 0);
    a.work_in = -1;
    rt_loop_release_polling(*state);
    detach(&a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_windows, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(own_sleeps_open_ones_own_window),
        TEST(long_sleeps_close_it),
        TEST(polled_in_vain_it_closes),
        TEST(idle_ones_beside_one_that_is_polled),
        TEST(idle_ones_beside_one_that_is_never_idle),
        TEST(long_work_does_not_close_it),
        TEST(phase_ends_with_the_last_window),
        TEST(who_leaves_is_not_deaf),
        TEST(detached_in_the_middle_of_a_phase),
        TEST(attached_in_the_middle_of_a_phase),
        TEST(notifies_have_their_own_window),
        TEST(closed_ones_are_found_soon),
        TEST(maximum_changes),
        TEST(held_it_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
