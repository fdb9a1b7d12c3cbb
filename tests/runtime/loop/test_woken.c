/*
 * Goal: a coroutine that is woken from another thread goes on in the loop in which it ran, once for each wake-up.
 * Method: a coroutine that counts its lives in a loop's thread, woken by others; moves between two loops.
 * If it fails: coroutines run in a foreign thread, or a wake-up is lost and a request hangs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdatomic.h>

#include "rt/coroutine.h"
#include "rt/iothread.h"
#include "rt/loop.h"
#include "until.h"

struct sleeper {
    struct rt_coroutine *co;
    struct rt_loop *loop;
    _Atomic int turns;
    _Atomic bool asleep, ended, wrong_loop;
};

enum { TURNS = 500 };

static void sleep_and_count(void *opaque)
{
    struct sleeper *s = opaque;
    for (int i = 0; i < TURNS; i++) {
        atomic_store(&s->asleep, true);
        rt_coroutine_yield();
        if (rt_loop_current() != s->loop)
            atomic_store(&s->wrong_loop, true);
        atomic_fetch_add(&s->turns, 1);
    }
    atomic_store(&s->ended, true);
}

static void start(void *opaque)
{
    struct sleeper *s = opaque;
    s->co = rt_coroutine_create(sleep_and_count, s);
    rt_coroutine_enter(s->co);
}

static void woken_from_another_thread(void **state)
{
    struct rt_iothread *io;
    assert_int_equal(rt_iothread_create("coroutines", 0, &io), 0);
    struct sleeper s = { .loop = rt_iothread_loop(io) };
    rt_loop_call(s.loop, start, &s);
    for (int i = 1; i <= TURNS; i++) {
        UNTIL(atomic_load(&s.asleep));
        atomic_store(&s.asleep, false);
        rt_coroutine_wake(s.co);
        UNTIL(atomic_load(&s.turns) == i);
    }
    UNTIL(atomic_load(&s.ended));
    assert_false(s.wrong_loop);
    rt_iothread_destroy(io);
}

/* One hop: a wake-up of a coroutine in a loop that sleeps is one notify, one write of the eventfd, and the one pass that was
 * asleep: it goes on with the coroutine, and the next one sleeps again. */
static void wake_up_from_another_thread_is_one_hop(void **state)
{
    struct rt_iothread *io;
    assert_int_equal(rt_iothread_create("hop", 0, &io), 0);
    struct sleeper s = { .loop = rt_iothread_loop(io) };
    rt_loop_call(s.loop, start, &s);
    for (int i = 1; i <= TURNS; i++) {
        struct rt_loop_stats before = until_asleep(s.loop);
        rt_coroutine_wake(s.co);
        UNTIL(atomic_load(&s.turns) == i);
        struct rt_loop_stats after = until_asleep(s.loop);
        assert_int_equal(after.notifies - before.notifies, 1);
        assert_int_equal(after.event_writes - before.event_writes, 1);
        assert_int_equal(after.passes - before.passes, 1);
        assert_int_equal(after.dispatches - before.dispatches, 1); /* of the eventfd */
        assert_int_equal(after.idle_dispatches - before.idle_dispatches, 0);
    }
    assert_true(s.ended);
    rt_iothread_destroy(io);
}

struct traveller {
    struct rt_loop *loops[2];
    _Atomic int turns;
    _Atomic bool ended, wrong_loop;
};

static void travel(void *opaque)
{
    struct traveller *t = opaque;
    for (int i = 0; i < TURNS; i++) {
        rt_coroutine_move(t->loops[i % 2]);
        if (rt_loop_current() != t->loops[i % 2])
            atomic_store(&t->wrong_loop, true);
    }
    atomic_store(&t->ended, true);
}

static void start_travel(void *opaque)
{
    struct traveller *t = opaque;
    rt_coroutine_enter(rt_coroutine_create(travel, t));
}

static void moves_between_loops(void **state)
{
    struct rt_iothread *a, *b;
    assert_int_equal(rt_iothread_create("here", 0, &a), 0);
    assert_int_equal(rt_iothread_create("there", 0, &b), 0);
    struct traveller t = { .loops = { rt_iothread_loop(a), rt_iothread_loop(b) } };
    rt_loop_call(t.loops[0], start_travel, &t);
    UNTIL(atomic_load(&t.ended));
    assert_false(t.wrong_loop);
    rt_iothread_destroy(a);
    rt_iothread_destroy(b);
}

static int order[8], order_length;

static void note_twice(void *opaque)
{
    int number = *(int *)opaque;
    order[order_length++] = number;
    rt_coroutine_yield();
    order[order_length++] = number;
}

struct waker {
    struct rt_coroutine *co[3];
};

static void wake_all(void *opaque)
{
    struct waker *w = opaque;
    for (int i = 0; i < 3; i++)
        rt_coroutine_wake(w->co[i]);
}

/* Woken inside a coroutine they run when control is back in the loop, in the order in which they were woken. */
static void run_in_the_order_of_their_wake_ups(void **state)
{
    struct rt_loop *loop;
    int numbers[3] = { 0, 1, 2 };
    struct waker w;
    assert_int_equal(rt_loop_create("order", &loop), 0);
    rt_loop_bind(loop);
    for (int i = 0; i < 3; i++) {
        w.co[i] = rt_coroutine_create(note_twice, &numbers[i]);
        rt_coroutine_enter(w.co[i]);
    }
    rt_coroutine_enter(rt_coroutine_create(wake_all, &w));
    assert_int_equal(order_length, 3);
    assert_true(rt_loop_pass(loop, true));
    assert_int_equal(order_length, 6);
    for (int i = 0; i < 3; i++)
        assert_int_equal(order[3 + i], i);
    rt_loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(woken_from_another_thread),
        cmocka_unit_test(wake_up_from_another_thread_is_one_hop),
        cmocka_unit_test(moves_between_loops),
        cmocka_unit_test(run_in_the_order_of_their_wake_ups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
