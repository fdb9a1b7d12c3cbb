/*
 * Goal: a loop that polls sees work in memory without system calls, keeps to the poll_begin/poll_end contract, adapts its
 * window, and forgets neither descriptors that cannot be polled nor timers.
 * Method: handlers whose work is a flag in memory; loops in this thread, where each pass can be looked at, and in others.
 * If it fails: a queue goes deaf (its driver's notifications stay off while the loop sleeps), polling costs system calls or
 * burns a core for nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rt/iothread.h"
#include "rt/loop.h"
#include "own_loop.h"
#include "until.h"

#define SECOND_NS INT64_C(1000000000)

/* A queue as a device would poll it. */
struct queue {
    struct rt_loop *loop;
    struct rt_handler *handler;
    int fd;
    _Atomic int work; /* in "the ring" */
    _Atomic int done;
    _Atomic int begins, ends;
    _Atomic bool notifications; /* what the driver was asked for */
    bool slips_in;              /* work arrives just when polling ends */
};

static bool queue_ready(void *opaque)
{
    struct queue *q = opaque;
    eventfd_t count;
    return eventfd_read(q->fd, &count) == 0;
}

static bool queue_poll(void *opaque)
{
    struct queue *q = opaque;
    return atomic_load(&q->work) > 0;
}

static bool queue_poll_ready(void *opaque)
{
    struct queue *q = opaque;
    int work = atomic_exchange(&q->work, 0);
    atomic_fetch_add(&q->done, work);
    return work > 0;
}

static void queue_poll_begin(void *opaque)
{
    struct queue *q = opaque;
    assert_int_equal(q->begins, q->ends); /* never twice */
    atomic_store(&q->notifications, false); /* before the count, which another thread waits for */
    atomic_fetch_add(&q->begins, 1);
}

static bool queue_poll_end(void *opaque)
{
    struct queue *q = opaque;
    atomic_fetch_add(&q->ends, 1);
    assert_int_equal(q->begins, q->ends);
    atomic_store(&q->notifications, true);
    if (q->slips_in) {
        q->slips_in = false;
        atomic_fetch_add(&q->work, 1);
    }
    return atomic_load(&q->work) > 0;
}

static void queue_attach(struct queue *q, struct rt_loop *loop)
{
    static const struct rt_fd_callbacks callbacks = { .ready = queue_ready,
                                                      .poll = queue_poll,
                                                      .poll_ready = queue_poll_ready,
                                                      .poll_begin = queue_poll_begin,
                                                      .poll_end = queue_poll_end };
    q->loop = loop;
    q->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    atomic_store(&q->notifications, true);
    assert_int_equal(rt_loop_attach_fd(loop, q->fd, RT_FD_HOST_NOTIFIER, 1, 0, &callbacks, q, &q->handler),
                     0);
}

static void queue_detach(struct queue *q)
{
    rt_loop_detach_fd(q->handler);
    assert_int_equal(q->begins, q->ends);
    assert_true(q->notifications);
    close(q->fd);
}

static void nothing(void *opaque)
{
}

/* Wake @loop when it has gone to sleep: its wait gets longer while its passes do not get more. */
static void *post_when_asleep(void *opaque)
{
    struct rt_loop *loop = opaque;
    struct rt_loop_stats before = stats_of(loop), now;
    UNTIL((now = stats_of(loop), now.passes == before.passes && now.wait_ns > before.wait_ns) ||
          (before = now, false));
    assert_int_equal(rt_loop_post(loop, nothing, NULL), 0);
    return NULL;
}

/* A pass that sleeps and is woken by another thread. */
static void sleep_until_posted(struct rt_loop *loop)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, post_when_asleep, loop), 0);
    uint64_t wait_ns = stats_of(loop).wait_ns;
    while (stats_of(loop).wait_ns == wait_ns)
        rt_loop_pass(loop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A pass that is ended by a timer, if by nothing before. */
static void pass_until_timer(struct rt_loop *loop, int64_t sleep_ns)
{
    struct rt_timer *timer = rt_timer_create(loop, nothing, NULL);
    rt_timer_arm(timer, rt_clock_ns() + sleep_ns);
    rt_loop_pass(loop, true);
    rt_timer_destroy(timer);
}

/* A pass that polls or sleeps until a timer ends it. On a busy machine a timer may be due before its pass begins. */
static void sleep_until_timer(struct rt_loop *loop, int64_t sleep_ns)
{
    struct rt_loop_stats before = stats_of(loop), now;
    do {
        pass_until_timer(loop, sleep_ns);
        now = stats_of(loop);
    } while (now.polls == before.polls && now.wait_ns == before.wait_ns);
}

static void does_not_poll_by_default(void **state)
{
    struct rt_loop *loop = *state;
    struct queue q = { .work = 1 };
    queue_attach(&q, loop);
    sleep_until_timer(loop, 1000000);
    assert_int_equal(stats_of(loop).polls, 0);
    assert_int_equal(q.done + q.begins, 0);
    queue_detach(&q);
}

/* The window of notifies opens when a longer one would have seen the work, and closes again when sleeps get longer than the maximum. */
static void window_grows_and_shrinks(void **state)
{
    struct rt_loop *loop = *state;
    struct queue q = { 0 };
    queue_attach(&q, loop);
    rt_loop_set_poll(loop, 100 * SECOND_NS); /* every sleep of this test is shorter */
    rt_loop_pass(loop, false);
    sleep_until_posted(loop);
    assert_int_equal(stats_of(loop).polls, 0);
    sleep_until_posted(loop); /* it polls now, not long enough yet */
    assert_int_equal(stats_of(loop).polls, 1);
    assert_int_equal(q.begins, 0); /* for notifies: no reason to look at handlers; test_poll_windows has those */

    rt_loop_set_poll(loop, 1000000);
    rt_loop_pass(loop, false);
    /* Each halves it: from whatever it was at most 64 times. */
    uint64_t polls;
    int sleeps = 0;
    do {
        polls = stats_of(loop).polls;
        sleep_until_timer(loop, 3000000);
        assert_true(++sleeps <= 64);
    } while (stats_of(loop).polls != polls);
    assert_true(q.notifications);
    queue_detach(&q);
}

static void busy_polling_sees_memory_without_system_calls(void **state)
{
    struct rt_iothread *io;
    assert_int_equal(rt_iothread_create("busy", RT_FOREVER, &io), 0);
    struct rt_loop *loop = rt_iothread_loop(io);
    struct queue q = { 0 };
    queue_attach(&q, loop);
    UNTIL((atomic_fetch_add(&q.work, 1), atomic_load(&q.begins) == 1)); /* with the pass after the attach */
    assert_false(q.notifications);
    for (int i = 0; i < 200; i++) {
        int done = atomic_load(&q.done);
        atomic_fetch_add(&q.work, 1);
        UNTIL(atomic_load(&q.done) > done);
        assert_int_equal(rt_loop_post(loop, nothing, NULL), 0);
    }
    struct rt_loop_stats stats = stats_of(loop);
    assert_true(stats.notifies >= 200);
    assert_int_equal(stats.event_writes, 0); /* nobody had to wake it */
    assert_int_equal(stats.event_writes_while_polling, 0);
    assert_int_equal(stats.wait_ns, 0);
    queue_detach(&q); /* by another thread, in the middle of polling */
    rt_iothread_destroy(io);
}

static bool note_ready(void *opaque)
{
    struct queue *q = opaque;
    atomic_fetch_add(&q->done, 1);
    return queue_ready(q);
}

static void busy_polling_forgets_no_descriptor_and_no_timer(void **state)
{
    struct rt_loop *loop = *state;
    static const struct rt_fd_callbacks callbacks = { .ready = note_ready };
    struct queue plain = { .loop = loop, .fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC) };
    struct queue q = { 0 };
    queue_attach(&q, loop);
    assert_int_equal(rt_loop_attach_fd(loop, plain.fd, RT_FD_OTHER, 0, 0, &callbacks, &plain, &plain.handler),
                     0);
    rt_loop_set_poll(loop, RT_FOREVER);
    rt_loop_pass(loop, false);
    assert_int_equal(plain.done, 1);
    eventfd_write(plain.fd, 1);
    assert_true(rt_loop_pass(loop, true)); /* polls until it looks at the monitor */
    assert_int_equal(plain.done, 2);

    /* Also while polling always finds something. */
    eventfd_write(plain.fd, 1);
    int64_t deadline_ns = rt_clock_ns() + UNTIL_DEADLINE_NS;
    while (plain.done == 2) {
        q.work = 1;
        assert_true(rt_loop_pass(loop, true));
        assert_true(rt_clock_ns() < deadline_ns);
    }
    sleep_until_timer(loop, 1000000);
    assert_int_equal(stats_of(loop).wait_ns, 0);
    rt_loop_detach_fd(plain.handler);
    close(plain.fd);
    queue_detach(&q);
}

static void work_that_slips_in_is_not_slept_on(void **state)
{
    struct rt_loop *loop = *state;
    struct queue q = { 0 };
    queue_attach(&q, loop);
    rt_loop_set_poll(loop, RT_FOREVER);
    sleep_until_timer(loop, 1000000);
    assert_int_equal(q.begins, 1);
    assert_int_equal(q.ends, 0);
    rt_loop_set_poll(loop, 0);
    rt_loop_pass(loop, false);
    q.slips_in = true;
    assert_true(rt_loop_pass(loop, true)); /* poll_end has found it: would sleep for ever otherwise */
    assert_int_equal(q.ends, 1);
    assert_int_equal(q.done, 1);
    assert_int_equal(stats_of(loop).wait_ns, 0);
    queue_detach(&q);
}

/* Passes that do not wait must look too: the driver was told to be silent. */
static void passes_without_time_look_too(void **state)
{
    struct rt_loop *loop = *state;
    struct queue q = { 0 };
    queue_attach(&q, loop);
    rt_loop_set_poll(loop, RT_FOREVER);
    sleep_until_timer(loop, 1000000);
    assert_false(q.notifications);
    q.work = 3;
    assert_true(rt_loop_pass(loop, false));
    assert_int_equal(q.done, 3);
    queue_detach(&q);
}

static void detach_while_polling_ends_it(void **state)
{
    struct rt_loop *loop = *state;
    struct queue q = { 0 }, other = { 0 };
    queue_attach(&q, loop);
    queue_attach(&other, loop);
    rt_loop_set_poll(loop, RT_FOREVER);
    sleep_until_timer(loop, 1000000);
    queue_detach(&q);
    assert_int_equal(q.ends, 1);
    assert_int_equal(other.ends, 0);
    /* Attached again in the middle of it: a new life, its own begin. */
    queue_attach(&q, loop);
    sleep_until_timer(loop, 1000000);
    assert_int_equal(q.begins, 2);
    assert_int_equal(other.begins, 1);
    queue_detach(&q);
    queue_detach(&other);
}

struct nesting {
    struct queue q;
    bool nested;
};

static bool nest(void *opaque)
{
    struct nesting *n = opaque;
    assert_false(n->nested);
    n->nested = true;
    pass_until_timer(n->q.loop, 1000000); /* work is still set: polling would end at once, again and again */
    n->nested = false;
    return queue_poll_ready(&n->q);
}

static void nested_pass_does_not_poll_its_own_handler(void **state)
{
    struct rt_loop *loop = *state;
    static const struct rt_fd_callbacks callbacks = { .ready = queue_ready,
                                                      .poll = queue_poll,
                                                      .poll_ready = nest };
    struct nesting n = { .q = { .loop = loop, .work = 1, .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) } };
    assert_int_equal(rt_loop_attach_fd(loop, n.q.fd, RT_FD_OTHER, 0, 0, &callbacks, &n, &n.q.handler), 0);
    rt_loop_set_poll(loop, RT_FOREVER);
    rt_loop_pass(loop, false);
    uint64_t passes = stats_of(loop).passes;
    assert_true(rt_loop_pass(loop, true));
    assert_int_equal(stats_of(loop).passes - passes, 2);
    assert_int_equal(n.q.done, 1);
    rt_loop_detach_fd(n.q.handler);
    close(n.q.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(does_not_poll_by_default, set_up, tear_down),
        cmocka_unit_test_setup_teardown(window_grows_and_shrinks, set_up, tear_down),
        cmocka_unit_test(busy_polling_sees_memory_without_system_calls),
        cmocka_unit_test_setup_teardown(busy_polling_forgets_no_descriptor_and_no_timer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(work_that_slips_in_is_not_slept_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(passes_without_time_look_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(detach_while_polling_ends_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nested_pass_does_not_poll_its_own_handler, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
