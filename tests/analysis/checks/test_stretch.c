/*
 * Goal:   rounds of samples are told apart, seconds in a row are counted, gaps and long windows break them.
 * Method: times as they come at 1 Hz, with a baseline in between and a lost round.
 * Breaks: a burst counts as sustained, or a sustained condition is never seen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "checks/stretch.h"

#define S INT64_C(1000000000)

static void test_rounds(void **state)
{
    struct round round = { 0 };

    assert_true(round_begins(&round, 5 * S));
    round_add(&round, 5 * S);
    assert_false(round_begins(&round, 5 * S + 1000));
    round_add(&round, 5 * S + S / 10); /* a baseline just behind */
    assert_int_equal(round.begin_ns, 5 * S);
    assert_int_equal(round.end_ns, 5 * S + S / 10);
    assert_true(round_begins(&round, 6 * S));
    round_add(&round, 6 * S);
    assert_int_equal(round.begin_ns, 6 * S);
}

static void test_seconds_in_a_row(void **state)
{
    struct stretch stretch = { 0 };

    assert_int_equal(stretch_seconds(&stretch), 0);
    assert_true(stretch_extend(&stretch, 1 * S, 2 * S));
    assert_false(stretch_extend(&stretch, 2 * S, 3 * S + S / 100));
    assert_int_equal(stretch_seconds(&stretch), 2);
    stretch_break(&stretch);
    assert_int_equal(stretch_seconds(&stretch), 0);
    assert_true(stretch_extend(&stretch, 4 * S, 5 * S));
    assert_int_equal(stretch_seconds(&stretch), 1);
}

static void test_gaps_and_long_windows(void **state)
{
    struct stretch stretch = { 0 };

    stretch_extend(&stretch, 1 * S, 2 * S);
    assert_true(stretch_extend(&stretch, 3 * S, 4 * S)); /* one window did not reach us */
    assert_int_equal(stretch_seconds(&stretch), 1);
    assert_false(stretch_extend(&stretch, 4 * S, 6 * S)); /* one round lost */
    assert_int_equal(stretch_seconds(&stretch), 3);
    stretch_extend(&stretch, 6 * S, 16 * S);
    assert_int_equal(stretch_seconds(&stretch), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_seconds_in_a_row),
        cmocka_unit_test(test_gaps_and_long_windows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
