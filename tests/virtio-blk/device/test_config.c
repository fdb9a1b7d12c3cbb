/*
 * Goal:   a driver reads the right configuration in pieces of any size, and nothing beyond it.
 * Method: every offset and size against the structure as the specification lays it out, written down here byte by byte.
 * If it fails: a guest sees a disk of the wrong size or reads memory of the device.
 */
#include <errno.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "device/internal.h"

static struct vblk_device device = {
    .facts = { .size_bytes = UINT64_C(0x123456789abcde) * 512,
               .discard = true,
               .discard_align_bytes = 1024,
               .physical_block_bytes = 16384,
               .alignment_bytes = 8192,
               .io_min_bytes = 0x102 * 4096,
               .io_optimal_bytes = 0x30201 * 4096 },
    .block_size_bytes = 4096,
    .queue_count = 0x40,
    .writeback = true,
};

static void expected_bytes(uint8_t bytes[VHOST_USER_CONFIG_MAX])
{
    static const uint8_t capacity[] = { 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0 };

    memset(bytes, 0, VHOST_USER_CONFIG_MAX);
    memcpy(bytes, capacity, 8);
    bytes[12] = 126;    /* seg_max */
    bytes[21] = 0x10;   /* blk_size 0x1000 */
    bytes[24] = 2;      /* physical_block_exp: 4 blocks */
    bytes[25] = 2;      /* alignment_offset */
    bytes[26] = 2;      /* min_io_size 0x102 */
    bytes[27] = 1;
    bytes[28] = 1;      /* opt_io_size 0x30201 */
    bytes[29] = 2;
    bytes[30] = 3;
    bytes[32] = 1;      /* writeback */
    bytes[34] = 0x40;   /* num_queues */
    bytes[38] = 0x20;   /* max_discard_sectors 0x200000: 1 GiB */
    bytes[40] = 32;     /* max_discard_seg */
    bytes[44] = 8;      /* discard_sector_alignment: the block size, which is larger than the disk's */
    bytes[50] = 2;      /* max_write_zeroes_sectors 0x20000: 64 MiB */
    bytes[52] = 32;     /* max_write_zeroes_seg */
    bytes[56] = 1;      /* write_zeroes_may_unmap */
}

static void test_every_piece(void **state)
{
    uint8_t expected[VHOST_USER_CONFIG_MAX], bytes[VHOST_USER_CONFIG_MAX + 1];

    (void)state;
    expected_bytes(expected);
    for (uint32_t offset = 0; offset <= VHOST_USER_CONFIG_MAX; offset++)
        for (uint32_t size = 0; size <= VHOST_USER_CONFIG_MAX - offset; size++) {
            memset(bytes, 0xa5, sizeof(bytes));
            assert_int_equal(vblk_config_read(&device, offset, size, bytes), 0);
            assert_memory_equal(bytes, expected + offset, size);
            assert_int_equal(bytes[size], 0xa5);
        }
}

static void test_beyond_the_end(void **state)
{
    static const struct {
        uint32_t offset, size;
    } cases[] = { { 0, 257 }, { 256, 1 }, { 257, 0 }, { UINT32_MAX, 2 }, { 2, UINT32_MAX }, { 255, 2 } };
    uint8_t byte = 0xa5;

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(vblk_config_read(&device, cases[i].offset, cases[i].size, &byte), -EINVAL);
    assert_int_equal(byte, 0xa5);
}

static void test_read_only_is_offered_when_it_is(void **state)
{
    struct vblk_device read_only = { .facts = { .read_only = true } };
    uint64_t features = vblk_config_features(&device);

    (void)state;
    assert_false(features >> VIRTIO_BLK_F_RO & 1);
    assert_true(features >> VIRTIO_F_VERSION_1 & 1);
    assert_true(features >> VIRTIO_BLK_F_FLUSH & 1);
    assert_true(features >> VIRTIO_BLK_F_CONFIG_WCE & 1);
    assert_true(features >> VIRTIO_BLK_F_TOPOLOGY & 1);
    assert_true(features >> VIRTIO_RING_F_EVENT_IDX & 1);
    assert_true(features >> VIRTIO_BLK_F_DISCARD & 1);
    assert_true(features >> VIRTIO_BLK_F_WRITE_ZEROES & 1);
    assert_int_equal(vblk_config_features(&read_only),
                     (features | UINT64_C(1) << VIRTIO_BLK_F_RO) &
                         ~(UINT64_C(1) << VIRTIO_BLK_F_DISCARD | UINT64_C(1) << VIRTIO_BLK_F_WRITE_ZEROES));
}

/* Where discards give nothing back zeros can be written all the same. */
static void test_a_disk_that_cannot_discard(void **state)
{
    struct vblk_device plain = { .facts = { .size_bytes = 1 << 20 }, .block_size_bytes = 512 };
    struct virtio_blk_config config;

    (void)state;
    assert_false(vblk_config_features(&plain) >> VIRTIO_BLK_F_DISCARD & 1);
    assert_true(vblk_config_features(&plain) >> VIRTIO_BLK_F_WRITE_ZEROES & 1);
    assert_int_equal(vblk_config_read(&plain, 0, sizeof(config), (uint8_t *)&config), 0);
    assert_int_equal(config.max_discard_sectors, 0);
    assert_int_equal(config.max_discard_seg, 0);
    assert_int_equal(config.write_zeroes_may_unmap, 0);
    assert_int_not_equal(config.max_write_zeroes_sectors, 0);
}

static struct virtio_blk_config read_config(const struct vblk_device *from)
{
    struct virtio_blk_config config;

    assert_int_equal(vblk_config_read(from, 0, sizeof(config), (uint8_t *)&config), 0);
    return config;
}

/* What no field can hold is not told, rather than told wrongly. */
static void test_topology_at_its_limits(void **state)
{
    static const struct {
        struct vblk_disk_facts facts;
        uint32_t block;
        uint8_t exponent, offset;
        uint16_t io_min;
        uint32_t io_optimal;
    } cases[] = {
        { { .physical_block_bytes = 0 }, 512, 0, 0, 0, 0 },
        { { .physical_block_bytes = 512 }, 4096, 0, 0, 0, 0 },
        { { .physical_block_bytes = 4096, .io_min_bytes = 4096 }, 512, 3, 0, 8, 0 },
        { { .physical_block_bytes = 3000 }, 512, 3, 0, 0, 0 },
        { { .physical_block_bytes = UINT32_MAX }, 512, 23, 0, 0, 0 },
        { { .alignment_bytes = 255 * 512, .io_min_bytes = 65535 * 512 }, 512, 0, 255, 65535, 0 },
        { { .alignment_bytes = 256 * 512, .io_min_bytes = 65536 * 512 }, 512, 0, 0, 0, 0 },
        { { .io_optimal_bytes = UINT32_MAX }, 512, 0, 0, 0, UINT32_MAX / 512 },
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vblk_device any = { .facts = cases[i].facts, .block_size_bytes = cases[i].block };
        struct virtio_blk_config config = read_config(&any);

        assert_int_equal(config.physical_block_exp, cases[i].exponent);
        assert_int_equal(config.alignment_offset, cases[i].offset);
        assert_int_equal(config.min_io_size, cases[i].io_min);
        assert_int_equal(config.opt_io_size, cases[i].io_optimal);
    }
}

static void test_one_byte_can_be_written(void **state)
{
    struct vblk_device any = { .block_size_bytes = 512 };
    uint8_t bytes[VHOST_USER_CONFIG_MAX] = { 0 };

    (void)state;
    vblk_config_forget_front_end(&any);
    assert_int_equal(read_config(&any).wce, 1);
    for (uint32_t offset = 0; offset < VHOST_USER_CONFIG_MAX; offset++)
        for (uint32_t size = 1; size <= 8 && size <= VHOST_USER_CONFIG_MAX - offset; size++)
            assert_int_equal(vblk_config_write(&any, offset, size, bytes), offset == 32 && size == 1 ? 0 : -EINVAL);
    assert_int_equal(read_config(&any).wce, 0);
    for (unsigned value = 2; value < 256; value++) {
        bytes[0] = value;
        assert_int_equal(vblk_config_write(&any, 32, 1, bytes), -EINVAL);
    }
    bytes[0] = 1;
    assert_int_equal(vblk_config_write(&any, 32, 1, bytes), 0);
    assert_int_equal(read_config(&any).wce, 1);
}

/* The driver's choice outlives the driver, since a front end may go on showing it; but not one that cannot flush. */
static void test_the_cache_mode_and_features(void **state)
{
    const uint64_t flush = 1u << VIRTIO_BLK_F_FLUSH, wce = 1u << VIRTIO_BLK_F_CONFIG_WCE;
    struct vblk_device any = { .block_size_bytes = 512 };
    const uint8_t off = 0;

    (void)state;
    vblk_config_forget_front_end(&any);
    vblk_config_set_features(&any, flush | wce);
    assert_true(atomic_load(&any.writeback));
    assert_int_equal(vblk_config_write(&any, 32, 1, &off), 0);
    vblk_config_set_features(&any, 0);
    vblk_config_set_features(&any, flush | wce);
    assert_false(atomic_load(&any.writeback));
    vblk_config_forget_front_end(&any);
    assert_true(atomic_load(&any.writeback));
    vblk_config_set_features(&any, wce);
    assert_int_equal(read_config(&any).wce, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_piece),
        cmocka_unit_test(test_beyond_the_end),
        cmocka_unit_test(test_read_only_is_offered_when_it_is),
        cmocka_unit_test(test_a_disk_that_cannot_discard),
        cmocka_unit_test(test_topology_at_its_limits),
        cmocka_unit_test(test_one_byte_can_be_written),
        cmocka_unit_test(test_the_cache_mode_and_features),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
