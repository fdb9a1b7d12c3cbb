/*
 * Goal: work handed to a loop runs once, in order, in the loop's thread, and cancelled work does not run.
 * Method: bottom halves, posts and calls from the loop's own thread and from others.
 * If it fails: completions are lost, run twice, or run in the wrong thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "rt/iothread.h"
#include "rt/loop.h"
#include "until.h"

struct fixture {
    struct rt_loop *loop;
    int ran;
    int order[8];
    int length;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){ 0 };
    if (rt_loop_create("work", &fixture.loop) < 0)
        return -1;
    rt_loop_bind(fixture.loop);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rt_loop_destroy(f->loop);
    return 0;
}

static void run(void *opaque)
{
    struct fixture *f = opaque;
    f->ran++;
}

static void scheduled_often_runs_once(void **state)
{
    struct fixture *f = *state;
    struct rt_bh *bh = rt_bh_create(f->loop, run, f);
    for (int i = 0; i < 5; i++)
        rt_bh_schedule(bh);
    assert_true(rt_loop_pass(f->loop, true));
    assert_int_equal(f->ran, 1);
    assert_false(rt_loop_pass(f->loop, false));
    assert_int_equal(f->ran, 1);
    rt_bh_schedule(bh);
    assert_true(rt_loop_pass(f->loop, true));
    assert_int_equal(f->ran, 2);
    rt_bh_destroy(bh);
}

static void cancelled_does_not_run(void **state)
{
    struct fixture *f = *state;
    struct rt_bh *bh = rt_bh_create(f->loop, run, f);
    rt_bh_schedule(bh);
    rt_bh_cancel(bh);
    assert_false(rt_loop_pass(f->loop, false));
    assert_int_equal(f->ran, 0);
    rt_bh_schedule(bh);
    rt_bh_cancel(bh);
    rt_bh_schedule(bh);
    assert_true(rt_loop_pass(f->loop, false));
    assert_int_equal(f->ran, 1);
    rt_bh_destroy(bh);
}

static void destroyed_does_not_run(void **state)
{
    struct fixture *f = *state;
    struct rt_bh *bh = rt_bh_create(f->loop, run, f);
    rt_bh_schedule(bh);
    rt_bh_destroy(bh);
    assert_false(rt_loop_pass(f->loop, false));
    assert_int_equal(f->ran, 0);
    rt_bh_destroy(NULL);
}

struct self_made {
    struct fixture *f;
    struct rt_bh *bh;
};

static void destroy_self(void *opaque)
{
    struct self_made *self = opaque;
    self->f->ran++;
    rt_bh_schedule(self->bh);
    rt_bh_destroy(self->bh);
}

static void may_destroy_itself(void **state)
{
    struct fixture *f = *state;
    struct self_made self = { .f = f };
    self.bh = rt_bh_create(f->loop, destroy_self, &self);
    rt_bh_schedule(self.bh);
    assert_true(rt_loop_pass(f->loop, true));
    assert_false(rt_loop_pass(f->loop, false));
    assert_int_equal(f->ran, 1);
}

static void schedule_self(void *opaque)
{
    struct self_made *self = opaque;
    self->f->ran++;
    rt_bh_schedule(self->bh);
}

/* A bound on the work of a pass: otherwise this one would starve descriptors and timers for ever. */
static void queued_meanwhile_runs_in_the_next_pass(void **state)
{
    struct fixture *f = *state;
    struct self_made self = { .f = f };
    self.bh = rt_bh_create(f->loop, schedule_self, &self);
    rt_bh_schedule(self.bh);
    for (int pass = 1; pass <= 3; pass++) {
        assert_true(rt_loop_pass(f->loop, true)); /* does not block: there is work */
        assert_int_equal(f->ran, pass);
    }
    rt_bh_destroy(self.bh);
}

struct numbered {
    struct fixture *f;
    int number;
};

static void note(void *opaque)
{
    struct numbered *numbered = opaque;
    numbered->f->order[numbered->f->length++] = numbered->number;
}

static void *post_two(void *opaque)
{
    struct numbered *numbered = opaque;
    struct rt_loop *loop = numbered[0].f->loop;
    assert_int_equal(rt_loop_post(loop, note, &numbered[0]), 0);
    assert_int_equal(rt_loop_post(loop, note, &numbered[1]), 0);
    return NULL;
}

static void posts_keep_their_order(void **state)
{
    struct fixture *f = *state;
    struct numbered numbered[4] = { { f, 0 }, { f, 1 }, { f, 2 }, { f, 3 } };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, post_two, numbered), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    /* After what another thread has posted before, although this thread has a shorter way. */
    assert_int_equal(rt_loop_post(f->loop, note, &numbered[2]), 0);
    assert_int_equal(rt_loop_post(f->loop, note, &numbered[3]), 0);
    assert_true(rt_loop_pass(f->loop, true));
    assert_int_equal(f->length, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(f->order[i], i);
}

static void run_atomic(void *opaque)
{
    atomic_fetch_add((_Atomic int *)opaque, 1);
}

static void other_threads_wake_a_sleeping_loop(void **state)
{
    struct rt_iothread *io;
    _Atomic int ran = 0;
    assert_int_equal(rt_iothread_create("worker", 0, &io), 0);
    struct rt_loop *loop = rt_iothread_loop(io);
    for (int i = 1; i <= 200; i++) {
        assert_int_equal(rt_loop_post(loop, run_atomic, &ran), 0);
        UNTIL(atomic_load(&ran) == i);
    }
    rt_iothread_destroy(io);
}

static void remember_loop(void *opaque)
{
    *(struct rt_loop **)opaque = rt_loop_current();
}

static void call_runs_there_and_waits(void **state)
{
    struct fixture *f = *state;
    struct rt_iothread *io;
    struct rt_loop *where = NULL;
    assert_int_equal(rt_iothread_create("callee", 0, &io), 0);
    rt_loop_call(rt_iothread_loop(io), remember_loop, &where);
    assert_ptr_equal(where, rt_iothread_loop(io));
    rt_loop_call(f->loop, remember_loop, &where); /* its own: a plain call */
    assert_ptr_equal(where, f->loop);
    rt_iothread_destroy(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(scheduled_often_runs_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cancelled_does_not_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(destroyed_does_not_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(may_destroy_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(queued_meanwhile_runs_in_the_next_pass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(posts_keep_their_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_threads_wake_a_sleeping_loop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(call_runs_there_and_waits, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
