/*
 * Goal:   quantiles are within 3 % of the truth over the whole range, exact at the edges.
 * Method: known distributions.
 * Breaks: latencies in reports, slow-requests.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "histogram/histogram.h"

static void near(int64_t value, int64_t truth)
{
    assert_true(value >= truth && (double)value <= (double)truth * 1.0325 + 1);
}

static void test_uniform(void **state)
{
    struct histogram *h = histogram_create();

    for (int64_t i = 1; i <= 100000; i++)
        histogram_add(h, i * 1000);
    assert_int_equal(histogram_count(h), 100000);
    assert_int_equal(histogram_sum(h), INT64_C(5000050000000));
    near(histogram_quantile(h, 0.5), 50000000);
    near(histogram_quantile(h, 0.99), 99000000);
    assert_int_equal(histogram_quantile(h, 1), 100000000);
    histogram_destroy(h);
}

static void test_edges(void **state)
{
    struct histogram *h = histogram_create();

    assert_int_equal(histogram_quantile(h, 0.5), 0);
    histogram_add(h, -5);
    assert_int_equal(histogram_quantile(h, 1), 0);
    histogram_add(h, INT64_MAX);
    assert_int_equal(histogram_max(h), INT64_MAX);
    assert_int_equal(histogram_quantile(h, 1), INT64_MAX);
    assert_int_equal(histogram_quantile(h, 0), 0);
    histogram_destroy(h);
    histogram_destroy(NULL);
}

static void test_every_magnitude(void **state)
{
    for (int shift = 0; shift < 60; shift++) {
        struct histogram *h = histogram_create();
        const int64_t value = (INT64_C(1) << shift) + (INT64_C(1) << shift) / 3;

        histogram_add(h, value);
        histogram_add(h, INT64_MAX / 2);
        near(histogram_quantile(h, 0.5), value);
        histogram_destroy(h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_every_magnitude),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
