/*
 * Goal: a random order visits every block exactly once, differs between seeds, and is the same for the same seed.
 * Method: mark what is visited, for sizes around powers of two and a large odd one.
 * If it fails: verify misses blocks or writes one twice, and its verdict is worth nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "random_order.h"

#include <glib.h>

static void test_is_a_permutation(void **state)
{
    const uint64_t counts[] = { 1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4095, 4096, 4097, 100003 };
    for (unsigned i = 0; i < G_N_ELEMENTS(counts); i++) {
        g_autofree uint8_t *visited = g_new0(uint8_t, counts[i]);
        struct random_order order;
        random_order_init(&order, counts[i], 42 + i);
        for (uint64_t position = 0; position < counts[i]; position++) {
            uint64_t element = random_order_at(&order, position);
            assert_true(element < counts[i]);
            assert_int_equal(visited[element]++, 0);
        }
    }
}

static void test_seeds(void **state)
{
    struct random_order one, same, other;
    random_order_init(&one, 10000, 1);
    random_order_init(&same, 10000, 1);
    random_order_init(&other, 10000, 2);
    unsigned equal = 0, in_order = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        assert_int_equal(random_order_at(&one, i), random_order_at(&same, i));
        equal += random_order_at(&one, i) == random_order_at(&other, i);
        in_order += random_order_at(&one, i) == i;
    }
    /* One expected coincidence each; twenty do not happen by chance. */
    assert_true(equal < 20 && in_order < 20);
}

static void test_below_stays_below_and_reaches_all(void **state)
{
    uint64_t seed = 5;
    unsigned seen[7] = { 0 };
    for (unsigned i = 0; i < 7000; i++)
        seen[random_below(&seed, 7)]++;
    for (unsigned i = 0; i < 7; i++)
        assert_in_range(seen[i], 800, 1200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_a_permutation),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_below_stays_below_and_reaches_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
