/*
 * Goal:   probabilities are right to many digits, and what is called significant is what Benjamini and Hochberg's rule says.
 * Method: Student's distribution against its closed forms for 1, 2 and 4 degrees of freedom and against tables; Welch's test against
 *         R's t.test() of its data set "sleep"; the rule against an example worked out by hand.
 * Breaks: a comparison would call noise a regression, or hide one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "compare/statistics.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void assert_near(double actual, double expected, double distance)
{
    if (!(fabs(actual - expected) <= distance))
        fail_msg("%.15g is not %.15g", actual, expected);
}

static void test_student_has_its_closed_forms(void **state)
{
    static const double t[] = { 0, 0.1, 0.7, 1, 2.5, 12.7, 63.6, 1000 };

    for (size_t i = 0; i < COUNT(t); i++) {
        const double root = t[i] / sqrt(t[i] * t[i] + 4), s = t[i] * t[i] / (4 + t[i] * t[i]);

        assert_near(student_p(t[i], 1), 1 - 2 / M_PI * atan(t[i]), 1e-12);
        assert_near(student_p(-t[i], 2), 1 - t[i] / sqrt(t[i] * t[i] + 2), 1e-12);
        assert_near(student_p(t[i], 4), 1 - root * (1 + (1 - s) / 2), 1e-12);
    }
    /* two-sided 5 % points of tables */
    assert_near(student_p(12.7062047364, 1), 0.05, 1e-9);
    assert_near(student_p(2.2281388520, 10), 0.05, 1e-9);
    assert_near(student_p(1.9599639845, 1e9), 0.05, 1e-7);
}

static void test_welch_as_in_r(void **state)
{
    static const double old[] = { 0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0 };
    static const double new[] = { 1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4 };
    static const double few[] = { 5, 5 }, others[] = { 6, 6, 6 };

    assert_near(welch_p(old, 10, new, 10), 0.07939, 5e-6);
    assert_near(welch_p(new, 10, old, 10), welch_p(old, 10, new, 10), 1e-15);
    assert_near(welch_p(old, 10, old, 10), 1, 1e-12);
    assert_near(welch_p(few, 2, few, 2), 1, 0);
    assert_near(welch_p(few, 2, others, 3), 0, 0);
    assert_true(isnan(welch_p(old, 1, new, 10)));
    assert_true(isnan(welch_p(old, 10, new, 0)));
}

static void test_false_discoveries_are_bounded(void **state)
{
    /* limits of the ranks: 0.01 0.02 0.03 0.04 0.05; 0.039 is the last that keeps to its own, and takes 0.029 along */
    static const double p[] = { 0.039, NAN, 0.9, 0.001, 0.0292, 0.035 }, none[] = { 0.04, 0.5, NAN }, alone[] = { 0.05 };
    static const bool expected[] = { true, false, false, true, true, true };
    bool found[COUNT(p)];

    select_significant(p, COUNT(p), 0.05, found);
    for (size_t i = 0; i < COUNT(p); i++)
        assert_int_equal(found[i], expected[i]);
    select_significant(none, COUNT(none), 0.05, found);
    for (size_t i = 0; i < COUNT(none); i++)
        assert_false(found[i]);
    select_significant(alone, 1, 0.05, found);
    assert_true(found[0]);
    select_significant(none, 0, 0.05, found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_student_has_its_closed_forms),
        cmocka_unit_test(test_welch_as_in_r),
        cmocka_unit_test(test_false_discoveries_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
