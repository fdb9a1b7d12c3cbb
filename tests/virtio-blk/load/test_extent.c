/*
 * Goal: a run never reaches beyond the disk, and what does not fit is refused with a remedy.
 * Method: fit options to made-up disks.
 * If it fails: requests go beyond the end, or a part of the disk is never tested.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "extent.h"

#include <string.h>

static struct load_options options;
static struct fe_info info;

static int reset(void **state)
{
    options = (struct load_options){ .socket_path = (char *)"/s", .block_bytes = 4096, .queue_count = 2 };
    info = (struct fe_info){ .config_known = true,
                             .features = 1ull << VIRTIO_BLK_F_BLK_SIZE,
                             .config = { .capacity = 100, .blk_size = 512 } };
    return 0;
}

static void assert_refused(gboolean writes, const char *words)
{
    struct extent extent;
    g_autofree char *problem = NULL;
    assert_false(extent_init(&extent, &options, &info, writes, &problem));
    if (!strstr(problem, words))
        fail_msg("'%s' does not say '%s'", problem, words);
}

static void test_whole_blocks_only(void **state)
{
    struct extent extent;
    char *problem = NULL;
    assert_true(extent_init(&extent, &options, &info, TRUE, &problem));
    assert_int_equal(extent.block_count, 12); /* 100 sectors hold 12.5 */
    assert_int_equal(extent_sector(&extent, 11), 88);
    options.offset_bytes = 4 * 512;
    assert_true(extent_init(&extent, &options, &info, TRUE, &problem));
    assert_int_equal(extent.block_count, 12);
    assert_int_equal(extent_sector(&extent, 11) + extent.block_sectors, 100);
}

static void test_refusals(void **state)
{
    options.size_bytes = 101 * 512;
    assert_refused(FALSE, "beyond the disk");
    options.size_bytes = 96 * 512;
    options.offset_bytes = 8 * 512;
    assert_refused(FALSE, "beyond the disk");
    reset(NULL);
    options.offset_bytes = UINT64_MAX / 512 * 512;
    assert_refused(FALSE, "beyond the disk");
    reset(NULL);
    options.queue_count = 13;
    assert_refused(FALSE, "fewer than the queues");
    reset(NULL);
    info.config.blk_size = 4096;
    options.block_bytes = 2048;
    assert_refused(FALSE, "blocks of 4096 bytes");
    reset(NULL);
    info.config.capacity = UINT64_MAX;
    assert_refused(FALSE, "a fault of the server");
    reset(NULL);
    info.features |= 1ull << VIRTIO_BLK_F_RO;
    assert_refused(TRUE, "read-only");
    reset(NULL);
    info.config_known = false;
    assert_refused(FALSE, "--size");
}

static void test_size_from_the_user_where_the_server_cannot_tell(void **state)
{
    struct extent extent;
    char *problem = NULL;
    info.config_known = false;
    options.size_bytes = 64 * 4096;
    options.offset_bytes = 4096;
    assert_true(extent_init(&extent, &options, &info, TRUE, &problem));
    assert_int_equal(extent.block_count, 64);
    assert_int_equal(extent.first_sector, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_whole_blocks_only, reset),
        cmocka_unit_test_setup(test_refusals, reset),
        cmocka_unit_test_setup(test_size_from_the_user_where_the_server_cannot_tell, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
