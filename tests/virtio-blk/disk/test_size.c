/*
 * Goal:   sizes are read as people write them, and nothing else is.
 * Method: a table.
 * If it fails: a disk is served with the wrong size, or an overflow gives a small one for a huge one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "disk/size.h"

static void test_sizes(void **state)
{
    static const struct {
        const char *text;
        uint64_t size;
    } cases[] = {
        { "0", 0 },           { "1", 1 },
        { "512", 512 },       { "007", 7 },
        { "4K", 4096 },       { "4k", 4096 },
        { "1M", 1 << 20 },    { "1G", 1 << 30 },
        { "3t", UINT64_C(3) << 40 },
        { "2P", UINT64_C(2) << 50 },
        { "15E", UINT64_C(15) << 60 },
        { "18446744073709551615", UINT64_MAX },
        { "18014398509481983K", UINT64_MAX - 1023 },
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t size = 99;

        assert_true(vblk_size_parse(cases[i].text, &size));
        assert_true(size == cases[i].size);
    }
}

static void test_what_is_none(void **state)
{
    static const char *const texts[] = { "", "K", "-1", "+1", " 1", "1 ", "1.5G", "1KB", "1KK", "0x10", "G1", "1B", "1Z",
                                         "18446744073709551616", "16E", "18014398509481984K", "99999999999999999999999",
                                         "1\n", "1é" };

    (void)state;
    for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        uint64_t size = 99;

        if (vblk_size_parse(texts[i], &size))
            fail_msg("'%s' was taken as %llu", texts[i], (unsigned long long)size);
        assert_true(size == 99);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_sizes), cmocka_unit_test(test_what_is_none) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
