/*
 * Goal:   a grid loses nothing: totals keep their sum however often the step doubles, a gauge its last value.
 * Method: columns filled over times that outgrow the grid, and values at the edges of steps.
 * Breaks: plots and comparisons show rates that never were.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "series/grid.h"

#define BEGIN INT64_C(1700000000000000000)

static int64_t value(const struct column *column, unsigned step)
{
    json_t *json = column_json(column);
    const json_t *at = json_array_get(json, step);
    const int64_t result = json_is_integer(at) ? json_integer_value(at) : -1;

    assert_non_null(at);
    json_decref(json);
    return result;
}

static void test_growth_is_spread_over_the_steps_between(void **state)
{
    struct grid *grid = grid_create(BEGIN);
    struct column *total = grid_column(grid, COLUMN_TOTAL);

    /* from the middle of step 1 to the middle of step 3 */
    column_add(total, BEGIN + GRID_STEP_NS * 3 / 2, BEGIN + GRID_STEP_NS * 7 / 2, 1001);
    assert_int_equal(grid_steps(grid), 4);
    assert_int_equal(value(total, 0), -1);
    assert_int_equal(value(total, 1), 250);
    assert_int_equal(value(total, 2), 500);
    assert_int_equal(value(total, 3), 251);
    assert_int_equal(column_sum(total), 1001);
    /* what ends at an edge does not touch the step behind it */
    column_add(total, BEGIN + GRID_STEP_NS * 4, BEGIN + GRID_STEP_NS * 5, 7);
    assert_int_equal(value(total, 4), 7);
    assert_int_equal(grid_steps(grid), 6);
    assert_int_equal(value(total, 5), -1);
    /* no time between, no growth, before the begin */
    column_add(total, BEGIN, BEGIN, 3);
    column_add(total, BEGIN + GRID_STEP_NS * 5, BEGIN + GRID_STEP_NS * 6, 0);
    assert_int_equal(value(total, 0), 3);
    assert_int_equal(value(total, 5), 0);
    column_add(total, BEGIN - 5, BEGIN - 2, 4);
    assert_int_equal(value(total, 0), 7);
    grid_destroy(grid);
}

static void test_step_doubles(void **state)
{
    struct grid *grid = grid_create(BEGIN);
    struct column *total = grid_column(grid, COLUMN_TOTAL), *gauge = grid_column(grid, COLUMN_GAUGE);
    const int64_t second = INT64_C(1000000000), end = 3600;

    for (int64_t at = 0; at < end; at++) {
        column_set(gauge, BEGIN + at * second, at);
        column_add(total, BEGIN + at * second, BEGIN + (at + 1) * second, 17);
    }
    assert_int_equal(column_sum(total), 17 * end);
    assert_in_range(grid_steps(grid), GRID_STEPS_MAX / 2, GRID_STEPS_MAX);
    assert_int_equal(grid_step_ns(grid), GRID_STEP_NS * 1024);
    assert_int_equal(value(gauge, 0), 10); /* 0 .. 10.24 s: the last value of that time */
    assert_int_equal(grid_begin_ns(grid), BEGIN);
    /* far away at once: a clock that jumped must not take time or memory */
    grid_reach(grid, INT64_MAX / 2 + BEGIN);
    assert_true(grid_steps(grid) <= GRID_STEPS_MAX);
    assert_int_equal(column_sum(total), 17 * end);
    assert_int_equal(value(gauge, 0), end - 1);
    grid_destroy(grid);
}

static void test_large_growth_keeps_its_sum(void **state)
{
    struct grid *grid = grid_create(0);
    struct column *total = grid_column(grid, COLUMN_TOTAL);
    const int64_t growth = INT64_C(123456789012345677);

    column_add(total, 1, GRID_STEP_NS * 599 + 3, growth);
    assert_int_equal(column_sum(total), growth);
    grid_reach(grid, GRID_STEP_NS * 601);
    assert_int_equal(column_sum(total), growth);
    grid_destroy(grid);
}

static void test_nothing_known(void **state)
{
    struct grid *grid = grid_create(BEGIN);
    struct column *gauge = grid_column(grid, COLUMN_GAUGE);

    grid_reach(grid, BEGIN + GRID_STEP_NS);
    assert_int_equal(grid_steps(grid), 2);
    assert_int_equal(value(gauge, 0), -1);
    assert_int_equal(value(gauge, 1), -1);
    assert_int_equal(column_sum(gauge), 0);
    grid_destroy(grid);
    grid_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growth_is_spread_over_the_steps_between),
        cmocka_unit_test(test_step_doubles),
        cmocka_unit_test(test_large_growth_keeps_its_sum),
        cmocka_unit_test(test_nothing_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
