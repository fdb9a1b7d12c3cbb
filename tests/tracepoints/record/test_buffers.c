/* Goal: buffer sizes that LTTng accepts (powers of two), and no more memory than is promised.
 * Method: sizes as users write them; the defaults against this machine.
 * If it fails: channels are refused, or a recording takes a small machine's memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "buffers.h"
#include "error.h"

#include <unistd.h>

static uint64_t detail_bytes(const char *text)
{
    struct record_buffers buffers[RECORD_CHANNEL_COUNT] = { { 1, 1 }, { 1, 1 } };

    assert_true(record_buffers_parse(text, buffers, NULL));
    assert_int_equal(buffers[RECORD_CHANNEL_CORE].piece_bytes, 1); /* not touched */
    return buffers[RECORD_CHANNEL_DETAIL].piece_bytes * buffers[RECORD_CHANNEL_DETAIL].piece_count;
}

static void sizes(void **state)
{
    assert_int_equal(detail_bytes("256K"), 256 << 10);
    assert_int_equal(detail_bytes("1048576"), 1 << 20);
    assert_int_equal(detail_bytes("64M"), 64 << 20);
    assert_int_equal(detail_bytes("16G"), UINT64_C(16) << 30);
}

static void bad_sizes(void **state)
{
    static const char *const bad[] = { "",
                                       "0",
                                       "K",
                                       "-1M",
                                       " 1M",
                                       "128K",
                                       "32G",
                                       "300M",
                                       "1MiB",
                                       "1.5G",
                                       "1T",
                                       "0x100000",
                                       "18446744073709551616K" };

    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        struct record_buffers buffers[RECORD_CHANNEL_COUNT] = { { 1, 1 }, { 1, 1 } };
        GError *error = NULL;

        assert_false(record_buffers_parse(bad[i], buffers, &error));
        assert_int_equal(buffers[RECORD_CHANNEL_DETAIL].piece_bytes, 1);
        assert_int_equal(error->code, RECORD_ERROR_USAGE);
        g_error_free(error);
    }
}

static void defaults(void **state)
{
    struct record_buffers buffers[RECORD_CHANNEL_COUNT];
    uint64_t memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);

    record_buffers_default(buffers);
    for (int channel = 0; channel < RECORD_CHANNEL_COUNT; channel++) {
        assert_int_equal(buffers[channel].piece_bytes & (buffers[channel].piece_bytes - 1), 0);
        assert_true(buffers[channel].piece_bytes >= (uint64_t)sysconf(_SC_PAGESIZE));
    }
    assert_true(record_buffers_total_bytes(buffers) <= memory_bytes / 4);
    assert_true(record_buffers_total_bytes(buffers) % sysconf(_SC_NPROCESSORS_CONF) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(bad_sizes),
        cmocka_unit_test(defaults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
