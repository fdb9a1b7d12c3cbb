/*
 * Goal:   discards and write-zeroes do what their segments say, all of it or nothing, wherever the driver cuts them, and stand
 *         in order with what overlaps; whatever is wrong in them is refused with the status that the standard names.
 * Method: lists cut at each byte through the parser; lists of every kind through a device in this process with a file; requests
 *         that overlap a slow one. Writes without a cache that the driver knows of are flushed before they are acknowledged:
 *         counted by flushes that fail.
 * If it fails: a driver destroys data that it did not name, or finds data where it wrote zeros, or loses acknowledged writes.
 */
#include <fcntl.h>
#include <glib.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_config.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "served.h"

#define SECTORS 4096
#define UNMAP VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP

typedef struct virtio_blk_discard_write_zeroes segment; /* this machine's byte order is the ring's */

static char path[64];

static int set_up(void **state)
{
    uint8_t *bytes = g_malloc(SECTORS * 512);
    int fd;

    (void)state;
    memset(bytes, 0x77, SECTORS * 512);
    g_strlcpy(path, "/var/tmp/vblk-range-XXXXXX", sizeof(path));
    fd = mkstemp(path);
    assert_int_equal(write(fd, bytes, SECTORS * 512), SECTORS * 512);
    close(fd);
    g_free(bytes);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

/* ---- parsing ---- */

static void test_segments_cut_anywhere(void **state)
{
    const segment list[2] = { { 5, 8, UNMAP }, { UINT64_C(1) << 40, 3, 0 } };
    uint8_t bytes[sizeof(list)];

    (void)state;
    memcpy(bytes, list, sizeof(bytes));
    for (unsigned first = 0; first <= sizeof(bytes); first++)
        for (unsigned second = first; second <= sizeof(bytes); second++) {
            struct iovec iov[3] = { { bytes, first }, { bytes + first, second - first },
                                    { bytes + second, sizeof(bytes) - second } };
            struct vblk_request request = { 0 };

            vblk_range_parse(&request, iov, 3, sizeof(bytes));
            assert_int_equal(request.segment_count, 2);
            assert_int_equal(request.segments[0].sector, 5);
            assert_int_equal(request.segments[0].sector_count, 8);
            assert_int_equal(request.segments[0].flags, UNMAP);
            assert_true(request.segments[1].sector == UINT64_C(1) << 40);
            assert_int_equal(request.size_bytes, 11 * 512); /* what a trace tells */
            assert_int_equal(request.offset_bytes, 5 * 512);
            g_free(request.segments);
        }
}

static void test_lists_of_a_wrong_length(void **state)
{
    static const uint32_t lengths[] = { 0, 1, 15, 17, 31, 33 * 16, 33 * 16 - 1 };
    uint8_t bytes[33 * 16] = { 0 };

    (void)state;
    for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++) {
        struct iovec iov = { bytes, lengths[i] };
        struct vblk_request request = { 0 };

        vblk_range_parse(&request, &iov, 1, lengths[i]);
        assert_int_equal(request.segment_count, 0);
        assert_null(request.segments);
    }
}

static void test_sizes_beyond_the_trace(void **state)
{
    const segment list[2] = { { UINT64_MAX, UINT32_MAX, 0 }, { 0, UINT32_MAX, 0 } };
    struct iovec iov = { (void *)list, sizeof(list) };
    struct vblk_request request = { 0 };

    (void)state;
    vblk_range_parse(&request, &iov, 1, sizeof(list));
    assert_true(request.offset_bytes == UINT64_MAX);
    assert_int_equal(request.size_bytes, UINT32_MAX / 512 * 512);
    g_free(request.segments);
}

/* ---- through a device ---- */

static uint8_t send(struct front_end *fe, uint32_t type, const segment *list, unsigned count)
{
    return served_request(fe, 0, type, 0, (void *)list, count * sizeof(*list));
}

/* Sectors [first, first + count) hold only this byte. */
static void expect(struct front_end *fe, unsigned first, unsigned count, uint8_t byte)
{
    uint8_t data[512];

    for (unsigned sector = first; sector < first + count; sector++) {
        assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, sector, data, 512), VIRTIO_BLK_S_OK);
        for (unsigned i = 0; i < 512; i++)
            if (data[i] != byte)
                fail_msg("sector %u, byte %u: %#x instead of %#x", sector, i, data[i], byte);
    }
}

static void test_what_segments_say(void **state)
{
    const segment zeroes[] = { { 0, 1, 0 }, { 100, 9, UNMAP }, { 103, 10, 0 }, { SECTORS - 1, 1, UNMAP }, { 7, 0, 0 } };
    const segment discards[] = { { 1000, 64, 0 }, { 1024, 8, 0 } };
    struct served served;
    struct front_end *fe;

    (void)state;
    served_start(&served, &(struct vblk_device_options){ .blk_file = path }, 1, 0);
    fe = served_front_end(&served, NULL);
    assert_true(fe_info(fe)->features >> VIRTIO_BLK_F_DISCARD & 1);
    assert_true(fe_info(fe)->features >> VIRTIO_BLK_F_WRITE_ZEROES & 1);
    assert_int_equal(send(fe, VIRTIO_BLK_T_WRITE_ZEROES, zeroes, G_N_ELEMENTS(zeroes)), VIRTIO_BLK_S_OK);
    expect(fe, 0, 1, 0);
    expect(fe, 1, 20, 0x77);
    expect(fe, 99, 1, 0x77);
    expect(fe, 100, 13, 0);
    expect(fe, 113, 1, 0x77);
    expect(fe, SECTORS - 2, 1, 0x77);
    expect(fe, SECTORS - 1, 1, 0);
    assert_int_equal(send(fe, VIRTIO_BLK_T_DISCARD, discards, G_N_ELEMENTS(discards)), VIRTIO_BLK_S_OK);
    expect(fe, 999, 1, 0x77);
    expect(fe, 1064, 1, 0x77);
    fe_destroy(fe);
    served_stop(&served);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        uint32_t type;
        segment list[3];
        unsigned count;
        uint8_t status;
    } cases[] = {
        { VIRTIO_BLK_T_DISCARD, { { 0, 8, UNMAP } }, 1, VIRTIO_BLK_S_UNSUPP },
        { VIRTIO_BLK_T_DISCARD, { { 0, 8, 2 } }, 1, VIRTIO_BLK_S_UNSUPP },
        { VIRTIO_BLK_T_WRITE_ZEROES, { { 0, 8, 2 } }, 1, VIRTIO_BLK_S_UNSUPP },
        { VIRTIO_BLK_T_WRITE_ZEROES, { { 0, 8, UNMAP | 0x80000000 } }, 1, VIRTIO_BLK_S_UNSUPP },
        { VIRTIO_BLK_T_WRITE_ZEROES, { { 0, 8, 0 }, { SECTORS, 8, 4 } }, 2, VIRTIO_BLK_S_UNSUPP },
        { VIRTIO_BLK_T_WRITE_ZEROES, { { 0, 8, 0 }, { SECTORS, 1, 0 } }, 2, VIRTIO_BLK_S_IOERR },
        { VIRTIO_BLK_T_WRITE_ZEROES, { { SECTORS - 7, 8, 0 } }, 1, VIRTIO_BLK_S_IOERR },
        { VIRTIO_BLK_T_WRITE_ZEROES, { { 0, SECTORS + 1, 0 } }, 1, VIRTIO_BLK_S_IOERR },
        { VIRTIO_BLK_T_WRITE_ZEROES, { { 0, UINT32_MAX, 0 } }, 1, VIRTIO_BLK_S_IOERR },
        { VIRTIO_BLK_T_WRITE_ZEROES, { { UINT64_MAX, 8, 0 } }, 1, VIRTIO_BLK_S_IOERR },
        { VIRTIO_BLK_T_WRITE_ZEROES, { { UINT64_C(1) << 55, 8, 0 } }, 1, VIRTIO_BLK_S_IOERR },
        { VIRTIO_BLK_T_DISCARD, { { SECTORS + 1, 0, 0 } }, 1, VIRTIO_BLK_S_IOERR },
        { VIRTIO_BLK_T_DISCARD, { { 0, 0, 0 } }, 0, VIRTIO_BLK_S_IOERR },
        { VIRTIO_BLK_T_WRITE_ZEROES, { { 0, 0, 0 } }, 0, VIRTIO_BLK_S_IOERR },
    };
    uint8_t half[24] = { 0 };
    segment many[VBLK_SEGMENTS_MAX + 1];
    struct served served;
    struct front_end *fe;
    struct fe_queue *queue;
    uint16_t slot;

    (void)state;
    served_start(&served, &(struct vblk_device_options){ .blk_file = path }, 1, 0);
    fe = served_front_end(&served, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint8_t status = send(fe, cases[i].type, cases[i].list, cases[i].count);

        if (status != cases[i].status)
            fail_msg("case %u: status %u instead of %u", i, status, cases[i].status);
    }
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_WRITE_ZEROES, 0, half, sizeof(half)), VIRTIO_BLK_S_IOERR);
    for (unsigned i = 0; i < G_N_ELEMENTS(many); i++)
        many[i] = (segment){ i, 1, 0 };
    assert_int_equal(send(fe, VIRTIO_BLK_T_WRITE_ZEROES, many, G_N_ELEMENTS(many)), VIRTIO_BLK_S_IOERR);
    /* The list where the device is to write it. */
    queue = fe_queue(fe, 0);
    slot = fe_queue_take(queue);
    fe_queue_prepare(queue, slot, VIRTIO_BLK_T_WRITE_ZEROES, 0, 16, FE_FROM_DEVICE);
    fe_queue_submit(queue, slot);
    assert_int_equal(served_reap(fe, 0), slot);
    assert_int_equal(*queue->slots[slot].status, VIRTIO_BLK_S_IOERR);
    fe_queue_give(queue, slot);
    /* Not even the good segments before a bad one were carried out. */
    expect(fe, 0, 64, 0x77);
    assert_int_equal(send(fe, VIRTIO_BLK_T_WRITE_ZEROES, many, VBLK_SEGMENTS_MAX), VIRTIO_BLK_S_OK);
    expect(fe, 0, VBLK_SEGMENTS_MAX, 0);
    expect(fe, VBLK_SEGMENTS_MAX, 1, 0x77);
    fe_destroy(fe);
    served_stop(&served);
}

static void test_what_was_not_negotiated(void **state)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    const segment one = { 0, 8, 0 };
    struct served served;
    struct front_end *fe;

    (void)state;
    options.features_mask = ~(UINT64_C(1) << VIRTIO_BLK_F_DISCARD | UINT64_C(1) << VIRTIO_BLK_F_WRITE_ZEROES);
    served_start(&served, &(struct vblk_device_options){ .blk_file = path }, 1, 0);
    fe = served_front_end(&served, &options);
    assert_int_equal(send(fe, VIRTIO_BLK_T_DISCARD, &one, 1), VIRTIO_BLK_S_UNSUPP);
    assert_int_equal(send(fe, VIRTIO_BLK_T_WRITE_ZEROES, &one, 1), VIRTIO_BLK_S_UNSUPP);
    expect(fe, 0, 8, 0x77);
    fe_destroy(fe);
    served_stop(&served);

    served_start(&served, &(struct vblk_device_options){ .blk_file = path, .read_only = true }, 1, 0);
    fe = served_front_end(&served, NULL);
    assert_false(fe_info(fe)->features_offered >> VIRTIO_BLK_F_DISCARD & 1);
    assert_false(fe_info(fe)->features_offered >> VIRTIO_BLK_F_WRITE_ZEROES & 1);
    assert_int_equal(send(fe, VIRTIO_BLK_T_DISCARD, &one, 1), VIRTIO_BLK_S_IOERR);
    assert_int_equal(send(fe, VIRTIO_BLK_T_WRITE_ZEROES, &one, 1), VIRTIO_BLK_S_IOERR);
    expect(fe, 0, 8, 0x77);
    fe_destroy(fe);
    served_stop(&served);
}

/* A write that comes while zeros are on their way to the same sectors stands after them, one beside them does not wait. */
static void test_overlapping_requests_wait(void **state)
{
    const segment zeroes = { 64, 64, 0 };
    uint8_t data[512];
    struct served served;
    struct front_end *fe;
    uint16_t first, overlapping, beside, read;

    (void)state;
    memset(data, 0x99, sizeof(data));
    served_start(&served, &(struct vblk_device_options){ .blk_file = path, .inject = "op=write-zeroes,delay-us=1000000" },
                 1, 0);
    fe = served_front_end(&served, NULL);
    first = served_submit(fe, 0, VIRTIO_BLK_T_WRITE_ZEROES, 0, &zeroes, sizeof(zeroes));
    overlapping = served_submit(fe, 0, VIRTIO_BLK_T_OUT, 127, data, 512);
    read = served_submit(fe, 0, VIRTIO_BLK_T_IN, 64, NULL, 512);
    beside = served_submit(fe, 0, VIRTIO_BLK_T_OUT, 128, data, 512);
    assert_int_equal(served_reap(fe, 0), beside);
    assert_int_equal(served_reap(fe, 0), first);
    for (unsigned i = 0; i < 2; i++) {
        uint16_t slot = served_reap(fe, 0);

        assert_true(slot == overlapping || slot == read);
        assert_int_equal(*fe_queue(fe, 0)->slots[slot].status, VIRTIO_BLK_S_OK);
    }
    assert_int_equal(fe_queue(fe, 0)->slots[read].data[0], 0);
    for (unsigned i = 0; i < 4; i++)
        fe_queue_give(fe_queue(fe, 0), ((uint16_t[]){ first, overlapping, beside, read })[i]);
    expect(fe, 64, 63, 0);
    expect(fe, 127, 2, 0x99);
    fe_destroy(fe);
    served_stop(&served);
}

static void test_a_disk_that_fails(void **state)
{
    const segment list[] = { { 0, 8, 0 }, { 16, 8, 0 } };
    struct served served;
    struct front_end *fe;

    (void)state;
    served_start(&served, &(struct vblk_device_options){ .blk_file = path,
                 .inject = "op=write-zeroes,skip=1,count=1,error=100;op=discard,error=100,errno=ENOSPC" }, 1, 0);
    fe = served_front_end(&served, NULL);
    assert_int_equal(send(fe, VIRTIO_BLK_T_WRITE_ZEROES, list, 2), VIRTIO_BLK_S_IOERR); /* the second one */
    expect(fe, 16, 8, 0x77);
    assert_int_equal(send(fe, VIRTIO_BLK_T_WRITE_ZEROES, list, 2), VIRTIO_BLK_S_OK);
    assert_int_equal(send(fe, VIRTIO_BLK_T_DISCARD, list, 1), VIRTIO_BLK_S_IOERR);
    fe_destroy(fe);
    served_stop(&served);
}

/* ---- a cache that the driver does not know of ---- */

static void writes_are_stable(uint64_t features_mask, bool stable)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    const segment zeroes = { 8, 8, 0 };
    uint8_t data[512] = { 0 };
    uint8_t status = stable ? VIRTIO_BLK_S_IOERR : VIRTIO_BLK_S_OK;
    struct served served;
    struct front_end *fe;

    options.features_mask = features_mask;
    served_start(&served, &(struct vblk_device_options){ .blk_file = path, .inject = "op=flush,error=100" }, 1, 0);
    fe = served_front_end(&served, &options);
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_OUT, 0, data, 512), status);
    assert_int_equal(send(fe, VIRTIO_BLK_T_WRITE_ZEROES, &zeroes, 1), status);
    assert_int_equal(send(fe, VIRTIO_BLK_T_DISCARD, &zeroes, 1), status);
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, 0, data, 512), VIRTIO_BLK_S_OK);
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_FLUSH, 0, NULL, 0), VIRTIO_BLK_S_IOERR);
    fe_destroy(fe);
    served_stop(&served);
}

static void test_writes_without_a_known_cache_are_flushed(void **state)
{
    (void)state;
    writes_are_stable(~(UINT64_C(1) << VIRTIO_BLK_F_CONFIG_WCE), false);
    writes_are_stable(~(UINT64_C(1) << VIRTIO_BLK_F_CONFIG_WCE | UINT64_C(1) << VIRTIO_BLK_F_FLUSH), true);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments_cut_anywhere),
        cmocka_unit_test(test_lists_of_a_wrong_length),
        cmocka_unit_test(test_sizes_beyond_the_trace),
        TEST(test_what_segments_say),
        TEST(test_what_is_refused),
        TEST(test_what_was_not_negotiated),
        TEST(test_overlapping_requests_wait),
        TEST(test_a_disk_that_fails),
        TEST(test_writes_without_a_known_cache_are_flushed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
