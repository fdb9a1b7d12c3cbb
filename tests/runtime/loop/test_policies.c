/*
 * Goal: what is chosen before the first loop holds for every loop, and cannot change under one.
 * Method: choose while there is no loop and while there is one; names are those of the options.
 * If it fails: a trace names another policy than the one that ran, or loops of one process disagree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>

#include "rt/loop.h"

static void defaults_are_named(void **state)
{
    assert_string_equal(rt_loop_monitor_name(), "epoll");
    assert_string_equal(rt_notify_policy_name(), "blocking-only");
    assert_int_equal(rt_loop_configure(&(struct rt_loop_policies){ 0 }), 0);
    assert_string_equal(rt_loop_monitor_name(), "epoll");
    assert_string_equal(rt_notify_policy_name(), "blocking-only");
}

static void cannot_change_under_a_loop(void **state)
{
    const struct rt_loop_policies defaults = { 0 };
    struct rt_loop *loop;
    assert_int_equal(rt_loop_create("fixed", &loop), 0);
    assert_int_equal(rt_loop_configure(&defaults), -EBUSY);
    rt_loop_destroy(loop);
    assert_int_equal(rt_loop_configure(&defaults), 0);
}

static void notify_policy_is_chosen(void **state)
{
    const struct rt_loop_policies always = { .notify = RT_NOTIFY_ALWAYS }, defaults = { 0 };
    assert_int_equal(rt_loop_configure(&always), 0);
    assert_string_equal(rt_notify_policy_name(), "always");
    assert_int_equal(rt_loop_configure(&defaults), 0);
    assert_string_equal(rt_notify_policy_name(), "blocking-only");
}

static void unknown_values_are_refused(void **state)
{
    const struct rt_loop_policies monitor = { .monitor = 99 }, notify = { .notify = 99 };
    assert_int_equal(rt_loop_configure(&monitor), -EINVAL);
    assert_int_equal(rt_loop_configure(&notify), -EINVAL);
    assert_string_equal(rt_loop_monitor_name(), "epoll");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_named),
        cmocka_unit_test(cannot_change_under_a_loop),
        cmocka_unit_test(notify_policy_is_chosen),
        cmocka_unit_test(unknown_values_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
