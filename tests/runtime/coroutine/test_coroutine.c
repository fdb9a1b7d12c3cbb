/*
 * Goal:   coroutines run, stop, go on and end in the right order, and a wake-up is never lost.
 * Method: small coroutines write down what they do; built twice, on Boost.Context and on swapcontext().
 * Broken: if this fails nothing above coroutines can work: switches, nesting, or wake-ups in one thread are wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "child.h"
#include "rt/coroutine.h"

/* What ran, in order, as letters. */
static char journal[256];

static void note(char letter)
{
    size_t length = strlen(journal);

    assert_true(length + 1 < sizeof(journal));
    journal[length] = letter;
    journal[length + 1] = 0;
}

static int begin(void **state)
{
    journal[0] = 0;
    return 0;
}

static void start(rt_coroutine_fn *fn, void *opaque)
{
    struct rt_coroutine *co = rt_coroutine_create(fn, opaque);

    assert_non_null(co);
    rt_coroutine_enter(co);
}

/* ---- enter, yield, end ---- */

static void twice(void *opaque)
{
    assert_ptr_equal(opaque, journal);
    note('a');
    rt_coroutine_yield();
    note('b');
}

static void test_enter_and_yield_take_turns(void **state)
{
    struct rt_coroutine *co = rt_coroutine_create(twice, journal);

    assert_string_equal(journal, ""); /* created is not entered */
    rt_coroutine_enter(co);
    note('1');
    rt_coroutine_enter(co);
    note('2');
    assert_string_equal(journal, "a1b2");
}

static void innermost(void *opaque)
{
    note('x');
    rt_coroutine_yield();
    note('z');
}

static void outer(void *opaque)
{
    struct rt_coroutine **inner = opaque;

    *inner = rt_coroutine_create(innermost, NULL);
    note('a');
    rt_coroutine_enter(*inner);
    note('b'); /* the inner one yielded to us, not to the thread */
    rt_coroutine_yield();
    note('c');
}

static void test_yield_returns_to_who_entered(void **state)
{
    struct rt_coroutine *inner;
    struct rt_coroutine *co = rt_coroutine_create(outer, &inner);

    rt_coroutine_enter(co);
    note('1');
    rt_coroutine_enter(inner); /* now the thread is its caller */
    note('2');
    rt_coroutine_enter(co);
    assert_string_equal(journal, "axb1z2c");
}

static void nest(void *opaque)
{
    unsigned *left = opaque;

    assert_true(rt_in_coroutine());
    if (--*left > 0)
        start(nest, left);
    rt_coroutine_self(); /* still somebody after the inner ones have ended */
}

static void test_nesting_is_deep(void **state)
{
    unsigned left = 300;

    start(nest, &left);
    assert_int_equal(left, 0);
    assert_false(rt_in_coroutine());
}

/* Recursion with something to lose at each level, in memory, in integer and in floating-point registers. */
static double descend(int depth, double weight)
{
    volatile char page[200];
    double below;

    memset((char *)page, depth, sizeof(page));
    if (depth == 0) {
        rt_coroutine_yield();
        return 0;
    }
    below = descend(depth - 1, weight * 0.5);
    for (size_t i = 0; i < sizeof(page); i++)
        assert_int_equal((char)page[i], (char)depth);
    return below + weight;
}

static void deep(void *opaque)
{
    *(double *)opaque = descend(40, 1.0);
}

static void test_yield_from_deep_keeps_frames(void **state)
{
    double sums[3] = { 0 };
    struct rt_coroutine *cos[3];

    for (int i = 0; i < 3; i++) {
        cos[i] = rt_coroutine_create(deep, &sums[i]);
        rt_coroutine_enter(cos[i]);
    }
    for (int i = 0; i < 3; i++)
        rt_coroutine_enter(cos[i]);
    for (int i = 0; i < 3; i++)
        assert_true(sums[i] > 1.999999 && sums[i] < 2);
}

/* ---- identity ---- */

static void tell_id(void *opaque)
{
    *(uint64_t *)opaque = rt_coroutine_id(rt_coroutine_self());
    rt_coroutine_yield();
    assert_int_equal(*(uint64_t *)opaque, rt_coroutine_id(rt_coroutine_self()));
}

static void test_ids_are_never_reused(void **state)
{
    uint64_t last = 0;

    assert_int_equal(rt_coroutine_id(rt_coroutine_self()), 0);
    /* More than one block of ids, all on one object that comes back from the pool. */
    for (int i = 0; i < 10000; i++) {
        uint64_t id = 0;
        struct rt_coroutine *co = rt_coroutine_create(tell_id, &id);

        rt_coroutine_enter(co);
        assert_int_equal(id, rt_coroutine_id(co));
        assert_true(id > last);
        last = id;
        rt_coroutine_enter(co);
    }
}

/* ---- wake-ups ---- */

static void test_wake_outside_enters_at_once(void **state)
{
    struct rt_coroutine *co = rt_coroutine_create(twice, journal);

    rt_coroutine_wake(co);
    note('1');
    rt_coroutine_wake(co);
    note('2');
    assert_string_equal(journal, "a1b2");
}

static void wake_other(void *opaque)
{
    note('w');
    rt_coroutine_wake(opaque);
    note('v'); /* it did not run inside us */
    rt_coroutine_yield();
    note('u');
}

static void test_wake_inside_waits_its_turn(void **state)
{
    struct rt_coroutine *sleeper = rt_coroutine_create(twice, journal);
    struct rt_coroutine *waker = rt_coroutine_create(wake_other, sleeper);

    rt_coroutine_enter(sleeper);
    rt_coroutine_enter(waker);
    note('1');
    rt_coroutine_enter(waker);
    assert_string_equal(journal, "awvb1u");
}

/* As when a request completes while it is being submitted. */
static void wake_self(void *opaque)
{
    for (int i = 0; i < 3; i++) {
        rt_coroutine_wake(rt_coroutine_self());
        note('a');
        rt_coroutine_yield();
        note('b');
    }
}

static void test_wake_before_yield_is_kept(void **state)
{
    start(wake_self, NULL);
    assert_string_equal(journal, "ababab");
}

/* ---- mistakes ---- */

static void enter_self(void *opaque)
{
    rt_coroutine_enter(rt_coroutine_self());
}

static void in_child_enter_self(void *opaque)
{
    crash_plainly();
    fclose(stderr);
    rt_coroutine_enter(rt_coroutine_create(enter_self, NULL));
}

static void in_child_yield_outside(void *opaque)
{
    crash_plainly();
    fclose(stderr);
    rt_coroutine_yield();
}

static void test_mistakes_are_caught(void **state)
{
    int status = run_in_child(in_child_enter_self, NULL);

    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    status = run_in_child(in_child_yield_outside, NULL);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_enter_and_yield_take_turns, begin),
        cmocka_unit_test_setup(test_yield_returns_to_who_entered, begin),
        cmocka_unit_test_setup(test_nesting_is_deep, begin),
        cmocka_unit_test_setup(test_yield_from_deep_keeps_frames, begin),
        cmocka_unit_test_setup(test_ids_are_never_reused, begin),
        cmocka_unit_test_setup(test_wake_outside_enters_at_once, begin),
        cmocka_unit_test_setup(test_wake_inside_waits_its_turn, begin),
        cmocka_unit_test_setup(test_wake_before_yield_is_kept, begin),
        cmocka_unit_test_setup(test_mistakes_are_caught, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
