/*
 * Goal:   the disk without bytes has the size that was asked for, takes everything and touches no memory.
 * Method: open with good and bad sizes; reads and writes in a coroutine.
 * If it fails: measurements of everything else measure the disk.
 */
#include <errno.h>
#include <glib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "disk_loop.h"

static void test_bad_sizes(void **state)
{
    static const char *const specs[] = { "null:", "null:0", "null:511", "null:1X", "null:-1", "null:16E" };

    (void)state;
    for (unsigned i = 0; i < G_N_ELEMENTS(specs); i++) {
        struct vblk_disk *disk = NULL;
        char *message = NULL;

        assert_int_equal(vblk_disk_open(specs[i], &(struct vblk_disk_options){ 0 }, &disk, &message), -EINVAL);
        assert_null(disk);
        assert_true(g_str_has_prefix(message, specs[i]));
        g_free(message);
    }
}

static void test_memory_is_left_alone(void **state)
{
    struct disk_loop dl;
    char buffer[4096];
    const struct iovec iov = { .iov_base = buffer, .iov_len = sizeof(buffer) };

    (void)state;
    memset(buffer, 0x5a, sizeof(buffer));
    disk_loop_open(&dl, "null:1G", &(struct vblk_disk_options){ .read_only = true, .cache = VBLK_DISK_CACHE_NONE });
    assert_int_equal(dl.facts.size_bytes, 1 << 30);
    assert_int_equal(dl.facts.align_bytes, 1);
    assert_true(dl.facts.read_only);
    assert_string_equal(dl.facts.backend, "null");
    assert_false(vblk_disk_write_needs_rmw(dl.disk, 512, 512));
    assert_int_equal(disk_loop_read(&dl, 0, &iov, 1), 0);
    assert_int_equal(disk_loop_write(&dl, 512, &iov, 1), 0);
    assert_int_equal(disk_loop_flush(&dl), 0);
    for (unsigned i = 0; i < sizeof(buffer); i++)
        assert_int_equal(buffer[i], 0x5a);
    disk_loop_close(&dl);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_bad_sizes), cmocka_unit_test(test_memory_is_left_alone) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
