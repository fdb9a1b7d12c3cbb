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
#include <stdatomic.h>
#include <string.h>

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

/* Zero wake-ups while idle: not one pass more between two looks that are some time apart. */
static void idle_loop_sleeps(void **state)
{
    struct rt_iothread *io;
    assert_int_equal(rt_iothread_create("sleeper", 0, &io), 0);
    struct rt_loop *loop = rt_iothread_loop(io);
    struct rt_loop_stats before, after;
    /* It has gone to sleep when its waiting time grows while its passes do not. */
    rt_loop_stats(loop, &before);
    UNTIL((rt_loop_stats(loop, &after), after.passes == before.passes && after.wait_ns > before.wait_ns) ||
          (before = after, false));
    rt_loop_stats(loop, &before);
    UNTIL((rt_loop_stats(loop, &after), after.wait_ns - before.wait_ns > 50000000));
    assert_int_equal(after.passes, before.passes);
    assert_int_equal(after.busy_ns, before.busy_ns);
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
