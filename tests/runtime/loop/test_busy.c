/*
 * Goal: a loop that never blocks does everything that one does which sleeps: published work, timers, descriptors that
 * cannot be polled, detaches, an end; it sleeps when nobody is attached; and its time adds up.
 * Method: a loop in a thread of its own under RT_WHILE_ATTACHED, with handlers whose work is a counter in memory.
 * If it fails: with vblkd --busy-poll a disk does not stop or drain, a queue goes deaf, an idle device burns a
 * core, memory grows while disks come and go, or the shares of a thread's time in reports are wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rt/coroutine.h"
#include "rt/iothread.h"
#include "rt/loop.h"
#include "own_loop.h"
#include "until.h"

struct queue {
    struct rt_loop *loop;
    struct rt_handler *handler;
    int fd;
    _Atomic int work, done, kicks; /* work: in "the ring" */
    _Atomic int begins, ends;
    int64_t work_ns;               /* how long each piece takes */
    void (*before)(struct queue *q);
};

static bool queue_ready(void *opaque)
{
    struct queue *q = opaque;
    eventfd_t count;
    if (eventfd_read(q->fd, &count) < 0)
        return false;
    atomic_fetch_add(&q->kicks, (int)count);
    return true;
}

static bool queue_poll(void *opaque)
{
    struct queue *q = opaque;
    return atomic_load_explicit(&q->work, memory_order_acquire) > 0;
}

static bool queue_poll_ready(void *opaque)
{
    struct queue *q = opaque;
    if (q->before)
        q->before(q);
    int work = atomic_exchange(&q->work, 0);
    int64_t end_ns = rt_clock_ns() + q->work_ns * work;
    while (q->work_ns > 0 && rt_clock_ns() < end_ns) {
    }
    atomic_fetch_add(&q->done, work);
    return work > 0;
}

static void queue_poll_begin(void *opaque)
{
    struct queue *q = opaque;
    atomic_fetch_add(&q->begins, 1);
}

static bool queue_poll_end(void *opaque)
{
    struct queue *q = opaque;
    atomic_fetch_add(&q->ends, 1);
    return queue_poll(q);
}

static void attach(struct queue *q, struct rt_loop *loop)
{
    static const struct rt_fd_callbacks callbacks = { .ready = queue_ready,
                                                      .poll = queue_poll,
                                                      .poll_ready = queue_poll_ready,
                                                      .poll_begin = queue_poll_begin,
                                                      .poll_end = queue_poll_end };
    q->loop = loop;
    q->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_int_equal(rt_loop_attach_fd(loop, q->fd, RT_FD_HOST_NOTIFIER, 1, 0, &callbacks, q, &q->handler), 0);
}

static void detach(struct queue *q)
{
    rt_loop_detach_fd(q->handler);
    assert_int_equal(q->begins, q->ends);
    close(q->fd);
}

static void serve(struct queue *q, int count)
{
    int done = atomic_load(&q->done) + count;
    atomic_fetch_add(&q->work, count);
    UNTIL(atomic_load(&q->done) == done);
}

static int start(void **state)
{
    struct rt_iothread *io;
    if (rt_iothread_create("busy", RT_WHILE_ATTACHED, &io) < 0)
        return -1;
    *state = io;
    return 0;
}

static int stop(void **state)
{
    rt_iothread_destroy(*state);
    return 0;
}

static void count_up(void *opaque)
{
    atomic_fetch_add((_Atomic int *)opaque, 1);
}

/* The attach alone wakes it, nothing else: no kick comes. Between the detach of the last and the next attach it sleeps. */
static void it_sleeps_while_nobody_is_attached(void **state)
{
    struct rt_loop *loop = rt_iothread_loop(*state);
    struct queue q = { 0 }, other = { 0 };
    for (int i = 0; i < 20; i++) {
        (void)until_asleep(loop);
        attach(&q, loop);
        serve(&q, 1);
        attach(&other, loop);
        serve(&other, 2);
        detach(&q);
        serve(&other, 1);
        detach(&other);
    }
    (void)until_asleep(loop);
    assert_int_equal(atomic_load(&q.kicks) + atomic_load(&other.kicks), 0);
}

/* Notifications stay off from the first round to the detach, and no notify costs a system call. */
static void it_never_blocks_while_somebody_is(void **state)
{
    struct rt_loop *loop = rt_iothread_loop(*state);
    struct queue q = { 0 };
    _Atomic int runs = 0;
    attach(&q, loop);
    serve(&q, 1);
    struct rt_loop_stats before = stats_of(loop);
    for (int i = 1; i <= 500; i++) {
        serve(&q, 3);
        if (i % 5 == 0) {
            assert_int_equal(rt_loop_post(loop, count_up, &runs), 0);
            UNTIL(atomic_load(&runs) == i / 5);
        }
    }
    struct rt_loop_stats after = stats_of(loop);
    assert_int_equal(after.wait_ns, before.wait_ns);
    assert_int_equal(after.event_writes, before.event_writes);
    assert_int_equal(after.notifies - before.notifies, 100);
    assert_true(after.polls_useful > before.polls_useful && after.polls >= after.polls_useful);
    assert_int_equal(after.idle_dispatches, before.idle_dispatches);
    assert_int_equal(q.begins, 1);
    assert_int_equal(q.ends, 0);
    detach(&q);
}

struct sleeper {
    _Atomic(struct rt_coroutine *) co;
    _Atomic int woken;
};

static void sleep_and_count(void *opaque)
{
    struct sleeper *s = opaque;
    atomic_store(&s->co, rt_coroutine_self());
    rt_coroutine_yield();
    atomic_fetch_add(&s->woken, 1);
}

static void start_sleeper(void *opaque)
{
    rt_coroutine_enter(rt_coroutine_create(sleep_and_count, opaque));
}

static bool plain_ready(void *opaque)
{
    return queue_ready(opaque);
}

/* Also while each round finds work: @keep_working does the same from the loop's own thread. */
static void keep_working(struct queue *q)
{
    atomic_fetch_add(&q->work, 1);
}

static void everything_else_has_its_turn(void **state)
{
    struct rt_loop *loop = rt_iothread_loop(*state);
    for (int always = 0; always < 2; always++) {
        static const struct rt_fd_callbacks plain_callbacks = { .ready = plain_ready };
        struct queue q = { 0 }, plain = { .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) };
        _Atomic int runs = 0, rings = 0;
        struct sleeper sleeper = { 0 };
        attach(&q, loop);
        serve(&q, 1);
        assert_int_equal(rt_loop_attach_fd(loop, plain.fd, RT_FD_OTHER, 0, 0, &plain_callbacks, &plain, &plain.handler),
                         0);
        struct rt_timer *timer = rt_timer_create(loop, count_up, &rings);
        if (always) {
            q.before = keep_working; /* read by the loop's thread after the addition to work */
            atomic_fetch_add(&q.work, 1);
        }
        for (int i = 1; i <= 20; i++) {
            assert_int_equal(rt_loop_post(loop, count_up, &runs), 0);
            UNTIL(atomic_load(&runs) == i);
            rt_timer_arm(timer, rt_clock_ns() + 100000);
            UNTIL(atomic_load(&rings) == i);
            assert_int_equal(eventfd_write(plain.fd, 1), 0);
            UNTIL(atomic_load(&plain.kicks) == i);
            atomic_store(&sleeper.co, NULL);
            assert_int_equal(rt_loop_post(loop, start_sleeper, &sleeper), 0);
            UNTIL(atomic_load(&sleeper.co));
            rt_coroutine_wake(atomic_load(&sleeper.co));
            UNTIL(atomic_load(&sleeper.woken) == i);
        }
        rt_loop_detach_fd(plain.handler);
        close(plain.fd);
        detach(&q);
        rt_loop_call(loop, (void (*)(void *))rt_timer_destroy, timer);
    }
}

/* It goes on polling until it has taken up the change, then sleeps; a kick is not lost in between. */
static void it_can_be_told_to_sleep(void **state)
{
    struct rt_loop *loop = rt_iothread_loop(*state);
    struct queue q = { 0 };
    attach(&q, loop);
    for (int i = 1; i <= 10; i++) {
        serve(&q, 1);
        rt_loop_set_poll(loop, 0);
        (void)until_asleep(loop);
        assert_int_equal(q.ends, i);
        eventfd_write(q.fd, 1);
        UNTIL(atomic_load(&q.kicks) == i);
        rt_loop_set_poll(loop, RT_WHILE_ATTACHED);
    }
    serve(&q, 1);
    detach(&q);
}

static void nest(struct queue *q)
{
    static _Atomic int runs;
    int before = atomic_load(&runs);
    assert_int_equal(rt_loop_post(q->loop, count_up, &runs), 0);
    while (atomic_load(&runs) == before)
        (void)rt_loop_pass(q->loop, true);
}

/* A pass that is nested in a handler's work polls the others, and leaves the round something to go on with. */
static void work_may_nest_passes_and_detach(void **state)
{
    struct rt_loop *loop = rt_iothread_loop(*state);
    struct queue q = { .before = nest }, other = { 0 };
    attach(&q, loop);
    attach(&other, loop);
    for (int i = 0; i < 100; i++) {
        serve(&q, 1);
        serve(&other, 1);
    }
    detach(&other);
    serve(&q, 1);
    detach(&q);
}

/* Stays on the stack until it has seen its own descriptor reported more often than a monitor needs to take it for one that
 * would be reported for ever. */
static void nest_while_kicked(struct queue *q)
{
    assert_int_equal(eventfd_write(q->fd, 1), 0);
    for (int i = 0; i < 10; i++)
        (void)rt_loop_pass(q->loop, false);
}

/* What was kicked while its own work nested passes, and what is kicked later, when it is not polled any more. */
static void a_descriptor_is_heard_again_after_nested_passes(void **state)
{
    struct rt_loop *loop = rt_iothread_loop(*state);
    struct queue q = { .before = nest_while_kicked };
    attach(&q, loop);
    for (int i = 1; i <= 20; i++) {
        serve(&q, 1);
        UNTIL(atomic_load(&q.kicks) == 2 * i - 1);
        rt_loop_set_poll(loop, 0);
        (void)until_asleep(loop);
        assert_int_equal(eventfd_write(q.fd, 1), 0);
        UNTIL(atomic_load(&q.kicks) == 2 * i);
        rt_loop_set_poll(loop, RT_WHILE_ATTACHED);
    }
    detach(&q);
}

static _Atomic(void *) doomed; /* the handler whose end the test waits for; NULL: none, or it was freed */

void __real_free(void *memory);
void __wrap_free(void *memory);

void __wrap_free(void *memory)
{
    void *expected = memory;
    if (memory)
        (void)atomic_compare_exchange_strong(&doomed, &expected, NULL);
    __real_free(memory);
}

static void come_and_go(struct queue *q)
{
    struct queue guest = { 0 };
    attach(&guest, q->loop);
    atomic_store(&doomed, guest.handler);
    detach(&guest);
}

/* Nothing but rounds comes after the detach: no notify, no descriptor, no timer. */
static void who_leaves_in_a_round_is_freed_without_a_pass(void **state)
{
    struct rt_loop *loop = rt_iothread_loop(*state);
    struct queue q = { .before = come_and_go };
    attach(&q, loop);
    for (int i = 0; i < 100; i++) {
        serve(&q, 1);
        UNTIL(!atomic_load(&doomed));
    }
    detach(&q);
}

/* By the clock around each look, and never back; and what the work took is busy time, by and large: the rest of the time the
 * loop found nothing. */
static void its_time_adds_up(void **state)
{
    struct rt_loop *loop = rt_iothread_loop(*state);
    struct queue q = { .work_ns = 20000 };
    attach(&q, loop);
    serve(&q, 1);
    struct rt_loop_stats first = stats_of(loop), last = first;
    int64_t first_ns = rt_clock_ns();
    for (int i = 0; i < 1000; i++) {
        if (i % 10 == 0)
            serve(&q, 5);
        struct rt_loop_stats now = stats_of(loop);
        int64_t after_ns = rt_clock_ns();
        assert_true(now.busy_ns >= last.busy_ns && now.poll_ns >= last.poll_ns && now.wait_ns == last.wait_ns);
        uint64_t grown_ns = now.busy_ns + now.poll_ns - first.busy_ns - first.poll_ns;
        assert_true(grown_ns <= (uint64_t)(after_ns - first_ns) + 10000000);
        last = now;
    }
    assert_true(last.busy_ns > first.busy_ns && last.poll_ns > first.poll_ns);
    detach(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_sleeps_while_nobody_is_attached, start, stop),
        cmocka_unit_test_setup_teardown(it_never_blocks_while_somebody_is, start, stop),
        cmocka_unit_test_setup_teardown(everything_else_has_its_turn, start, stop),
        cmocka_unit_test_setup_teardown(it_can_be_told_to_sleep, start, stop),
        cmocka_unit_test_setup_teardown(work_may_nest_passes_and_detach, start, stop),
        cmocka_unit_test_setup_teardown(a_descriptor_is_heard_again_after_nested_passes, start, stop),
        cmocka_unit_test_setup_teardown(who_leaves_in_a_round_is_freed_without_a_pass, start, stop),
        cmocka_unit_test_setup_teardown(its_time_adds_up, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
