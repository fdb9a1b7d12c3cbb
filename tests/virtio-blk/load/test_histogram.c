/*
 * Goal: percentiles within 1 % of the exact ones, exact minimum, maximum, mean, and merging that loses nothing.
 * Method: fill with known values over many magnitudes and compare with the sorted list.
 * If it fails: every latency that vblk-load prints is in doubt.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "histogram.h"
#include "random_order.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static void test_percentiles_against_sorted_values(void **state)
{
    enum { COUNT = 20000 };
    static uint64_t values[COUNT];
    uint64_t seed = 7;
    struct histogram *histogram = histogram_create();
    for (unsigned i = 0; i < COUNT; i++) {
        values[i] = random_next(&seed) >> random_below(&seed, 64);
        histogram_add(histogram, values[i]);
    }
    qsort(values, COUNT, sizeof(values[0]), compare);
    for (double percent = 0.01; percent <= 100; percent += 0.37) {
        uint64_t exact = values[(unsigned)ceil(percent / 100 * COUNT) - 1];
        uint64_t found = histogram_percentile(histogram, percent);
        double difference = fabs((double)found - (double)exact);
        if (difference > 0.01 * (double)exact)
            fail_msg("%.2f %%: %llu instead of %llu", percent, (unsigned long long)found,
                     (unsigned long long)exact);
    }
    assert_int_equal(histogram_min(histogram), values[0]);
    assert_int_equal(histogram_max(histogram), values[COUNT - 1]);
    assert_int_equal(histogram_percentile(histogram, 100), values[COUNT - 1]);
    histogram_destroy(histogram);
}

static void test_every_magnitude_has_a_bucket(void **state)
{
    for (unsigned bit = 0; bit < 64; bit++)
        for (int offset = -1; offset <= 1; offset++) {
            uint64_t value = (1ull << bit) + offset;
            struct histogram *histogram = histogram_create();
            histogram_add(histogram, value);
            assert_int_equal(histogram_percentile(histogram, 50), value); /* clamped to min and max: exact */
            histogram_add(histogram, 0);
            histogram_add(histogram, UINT64_MAX);
            double found = (double)histogram_percentile(histogram, 60);
            assert_true(fabs(found - (double)value) <= 0.01 * (double)value);
            histogram_destroy(histogram);
        }
}

static void test_moments(void **state)
{
    struct histogram *histogram = histogram_create();
    const uint64_t values[] = { 2, 4, 4, 4, 5, 5, 7, 9 };
    for (unsigned i = 0; i < 8; i++)
        histogram_add(histogram, values[i]);
    assert_true(fabs(histogram_mean(histogram) - 5) < 1e-12);
    assert_true(fabs(histogram_stddev(histogram) - 2) < 1e-12);
    histogram_destroy(histogram);
}

static void test_empty(void **state)
{
    struct histogram *histogram = histogram_create();
    assert_int_equal(histogram_count(histogram), 0);
    assert_int_equal(histogram_min(histogram), 0);
    assert_int_equal(histogram_percentile(histogram, 99), 0);
    assert_true(histogram_mean(histogram) == 0 && histogram_stddev(histogram) == 0);
    histogram_destroy(histogram);
}

static void test_merge_equals_adding_all_to_one(void **state)
{
    struct histogram *parts[3] = { histogram_create(), histogram_create(), histogram_create() };
    struct histogram *whole = histogram_create();
    uint64_t seed = 3;
    for (unsigned i = 0; i < 10000; i++) {
        uint64_t value = random_below(&seed, 1000000);
        histogram_add(parts[i % 2], value);
        histogram_add(whole, value);
    }
    histogram_merge(parts[2], parts[0]);
    histogram_merge(parts[2], parts[1]);
    assert_int_equal(histogram_count(parts[2]), histogram_count(whole));
    assert_int_equal(histogram_min(parts[2]), histogram_min(whole));
    assert_int_equal(histogram_max(parts[2]), histogram_max(whole));
    assert_true(histogram_mean(parts[2]) == histogram_mean(whole));
    for (unsigned percent = 0; percent <= 100; percent++)
        assert_int_equal(histogram_percentile(parts[2], percent), histogram_percentile(whole, percent));
    for (unsigned i = 0; i < 3; i++)
        histogram_destroy(parts[i]);
    histogram_destroy(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles_against_sorted_values),
        cmocka_unit_test(test_every_magnitude_has_a_bucket),
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_merge_equals_adding_all_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
