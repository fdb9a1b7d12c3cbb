/*
 * Goal: a stamped sector proves where it belongs and that it is whole; every other content is named for what it is.
 * Method: stamp, damage in one way each, check verdict and words.
 * If it fails: verify overlooks corruption, or calls a healthy disk corrupt.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "stamp.h"

#include <string.h>

static const struct stamp written = { .sector = 1234, .block = 154, .seed = 9, .generation = 3 };

static void check(const uint8_t *bytes, uint64_t low, uint64_t high, bool right, const char *words)
{
    struct stamp expected = written;
    char reason[200] = "";
    expected.generation = low;
    assert_int_equal(stamp_check(bytes, &expected, high, reason, sizeof(reason)), right);
    if (words && !strstr(reason, words))
        fail_msg("'%s' does not say '%s'", reason, words);
}

static void test_every_single_bit_counts(void **state)
{
    uint8_t bytes[STAMP_SECTOR_BYTES];
    struct stamp found;
    stamp_write(bytes, &written);
    assert_int_equal(stamp_read(bytes, &found), STAMP_WHOLE);
    assert_memory_equal(&found, &written, sizeof(found));
    for (unsigned bit = 0; bit < STAMP_SECTOR_BYTES * 8; bit++) {
        bytes[bit / 8] ^= 1 << bit % 8;
        assert_int_not_equal(stamp_read(bytes, &found), STAMP_WHOLE);
        check(bytes, 3, 3, false, NULL);
        bytes[bit / 8] ^= 1 << bit % 8;
    }
    check(bytes, 3, 3, true, NULL);
}

static void test_generations(void **state)
{
    uint8_t bytes[STAMP_SECTOR_BYTES];
    stamp_write(bytes, &written);
    check(bytes, 1, 3, true, NULL);
    check(bytes, 3, 9, true, NULL);
    check(bytes, 0, 3, true, NULL);
    check(bytes, 4, 5, false, "a later write is lost");
    check(bytes, 1, 2, false, "never written");
}

static void test_what_was_there_before(void **state)
{
    uint8_t bytes[STAMP_SECTOR_BYTES] = { 0 };
    struct stamp other = written;
    check(bytes, 1, 1, false, "zeroes");
    check(bytes, 0, 1, true, NULL);
    memset(bytes, 0x5a, sizeof(bytes));
    check(bytes, 1, 1, false, "no stamp, begins with 5a5a5a5a5a5a5a5a");
    check(bytes, 0, 1, true, NULL);
    other.seed = 8;
    stamp_write(bytes, &other);
    check(bytes, 3, 3, false, "seed 8");
    check(bytes, 0, 3, true, NULL);
}

static void test_misplaced_is_wrong_even_where_nothing_was_acknowledged(void **state)
{
    uint8_t bytes[STAMP_SECTOR_BYTES];
    struct stamp other = written;
    other.sector++;
    stamp_write(bytes, &other);
    check(bytes, 3, 3, false, "misplaced: sector 1235");
    check(bytes, 0, 3, false, "misplaced");
    stamp_write(bytes, &written);
    bytes[100] ^= 1;
    check(bytes, 0, 3, false, "corrupted: 1 bytes changed from byte 100 on");
}

static void test_neighbours_differ_everywhere(void **state)
{
    uint8_t one[STAMP_SECTOR_BYTES], two[STAMP_SECTOR_BYTES];
    struct stamp other = written;
    other.generation++;
    stamp_write(one, &written);
    stamp_write(two, &other);
    for (unsigned at = 40; at < STAMP_SECTOR_BYTES; at += 8)
        assert_memory_not_equal(one + at, two + at, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_single_bit_counts),
        cmocka_unit_test(test_generations),
        cmocka_unit_test(test_what_was_there_before),
        cmocka_unit_test(test_misplaced_is_wrong_even_where_nothing_was_acknowledged),
        cmocka_unit_test(test_neighbours_differ_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
