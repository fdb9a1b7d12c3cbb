/*
 * Goal:   any framing of a request that the specification allows is understood, and a hostile one harms nothing.
 * Method: the parser gets the same request cut into pieces at every pair of places; then a device in this process gets
 *         requests beyond the disk, with sectors that overflow, of odd sizes, of unknown types, and writes to a read-only disk.
 * If it fails: guests with unusual drivers lose data, or a malicious one writes where it must not.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "served.h"

#define DATA_BYTES 20
#define HEADER_BYTES 16

/* Cut bytes [0, size) at two places (which may be the ends) into pieces of memory of their own size, so that a
 * sanitizer sees every step beyond. */
static uint16_t cut(struct iovec *iov, uint8_t *bytes, size_t size, size_t first, size_t second)
{
    const size_t ends[] = { first, second, size };
    size_t begin = 0;
    uint16_t count = 0;

    for (unsigned i = 0; i < 3; i++) {
        if (ends[i] > begin) {
            iov[count].iov_len = ends[i] - begin;
            iov[count].iov_base = malloc(iov[count].iov_len);
            memcpy(iov[count++].iov_base, bytes + begin, ends[i] - begin);
        }
        begin = ends[i] > begin ? ends[i] : begin;
    }
    return count;
}

static void put_header(uint8_t *bytes, uint32_t type, uint64_t sector)
{
    type = htole32(type);
    sector = htole64(sector);
    memset(bytes, 0, HEADER_BYTES);
    memcpy(bytes, &type, 4);
    memcpy(bytes + 8, &sector, 8);
}

struct chain {
    struct vblk_element element;
    struct iovec out[3], in[3], all[6];
    struct vblk_request request;
};

static void make_chain(struct chain *chain, uint8_t *out, size_t out_bytes, size_t a, size_t b, uint8_t *in,
                       size_t in_bytes, size_t c, size_t d)
{
    memset(chain, 0, sizeof(*chain));
    chain->element.out = chain->out;
    chain->element.in = chain->in;
    chain->element.out_count = cut(chain->out, out, out_bytes, a, b);
    chain->element.in_count = cut(chain->in, in, in_bytes, c, d);
    chain->element.out_bytes = out_bytes;
    chain->element.in_bytes = in_bytes;
    chain->request.element = &chain->element;
    memcpy(chain->all, chain->out, sizeof(chain->out));
    memcpy(chain->all + 3, chain->in, sizeof(chain->in));
}

static void free_chain(struct chain *chain)
{
    for (unsigned i = 0; i < 6; i++)
        free(chain->all[i].iov_base); /* as they were: parsing moves the others */
}

static size_t gather(const struct vblk_request *request, uint8_t *to)
{
    size_t bytes = 0;

    for (int i = 0; i < request->data_count; i++) {
        assert_true(request->data[i].iov_len > 0);
        memcpy(to + bytes, request->data[i].iov_base, request->data[i].iov_len);
        bytes += request->data[i].iov_len;
    }
    return bytes;
}

static void test_a_write_cut_anywhere(void **state)
{
    uint8_t out[HEADER_BYTES + DATA_BYTES], status = 0xff, data[DATA_BYTES];
    const char *reason;
    struct chain chain;

    (void)state;
    put_header(out, VIRTIO_BLK_T_OUT, 7);
    for (unsigned i = 0; i < DATA_BYTES; i++)
        out[HEADER_BYTES + i] = i;
    for (size_t a = 0; a <= sizeof(out); a++)
        for (size_t b = a; b <= sizeof(out); b++) {
            make_chain(&chain, out, sizeof(out), a, b, &status, 1, 0, 0);
            assert_int_equal(vblk_request_parse(&chain.request, &reason), 0);
            assert_int_equal(chain.request.header_type, VIRTIO_BLK_T_OUT);
            assert_int_equal(chain.request.offset_bytes, 7 * 512);
            assert_int_equal(chain.request.size_bytes, DATA_BYTES);
            assert_int_equal(gather(&chain.request, data), DATA_BYTES);
            assert_memory_equal(data, out + HEADER_BYTES, DATA_BYTES);
            assert_ptr_equal(chain.request.status, chain.all[3].iov_base);
            free_chain(&chain);
        }
}

static void test_a_read_cut_anywhere(void **state)
{
    uint8_t out[HEADER_BYTES], in[DATA_BYTES + 1], data[DATA_BYTES];
    const char *reason;
    struct chain chain;

    (void)state;
    put_header(out, VIRTIO_BLK_T_IN, 3);
    for (unsigned i = 0; i < sizeof(in); i++)
        in[i] = i;
    for (size_t a = 0; a <= sizeof(out); a++)
        for (size_t c = 0; c <= sizeof(in); c++)
            for (size_t d = c; d <= sizeof(in); d++) {
                make_chain(&chain, out, sizeof(out), a, a, in, sizeof(in), c, d);
                assert_int_equal(vblk_request_parse(&chain.request, &reason), 0);
                assert_int_equal(chain.request.size_bytes, DATA_BYTES);
                assert_int_equal(gather(&chain.request, data), DATA_BYTES);
                assert_memory_equal(data, in, DATA_BYTES);
                assert_int_equal(*chain.request.status, DATA_BYTES); /* the last byte */
                free_chain(&chain);
            }
}

static void test_no_header_or_no_status(void **state)
{
    uint8_t out[HEADER_BYTES] = { 0 }, status = 0;
    const char *reason;
    struct chain chain;

    (void)state;
    for (size_t bytes = 0; bytes < HEADER_BYTES; bytes++) {
        reason = NULL;
        make_chain(&chain, out, bytes, bytes / 2, bytes, &status, 1, 0, 0);
        assert_int_equal(vblk_request_parse(&chain.request, &reason), -EPROTO);
        assert_non_null(strstr(reason, "header"));
        free_chain(&chain);
    }
    make_chain(&chain, out, HEADER_BYTES, 0, 0, &status, 0, 0, 0);
    assert_int_equal(vblk_request_parse(&chain.request, &reason), -EPROTO);
    assert_non_null(strstr(reason, "status"));
    free_chain(&chain);
}

static void test_only_a_status_byte(void **state)
{
    static const uint32_t types[] = { VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT, VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, 99 };
    uint8_t out[HEADER_BYTES], status = 0;
    const char *reason;
    struct chain chain;

    (void)state;
    for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        put_header(out, types[i], 0);
        make_chain(&chain, out, HEADER_BYTES, 0, 0, &status, 1, 0, 0);
        assert_int_equal(vblk_request_parse(&chain.request, &reason), 0);
        assert_int_equal(chain.request.size_bytes, 0);
        assert_int_equal(chain.request.data_count, 0);
        assert_int_equal(atomic_load(&chain.request.type), types[i] == 99 ? 255 : types[i]);
        free_chain(&chain);
    }
}

static void test_sectors_that_overflow(void **state)
{
    static const uint64_t sectors[] = { UINT64_C(1) << 55, UINT64_MAX, (UINT64_C(1) << 55) + 1, UINT64_MAX / 512 + 1 };
    uint8_t out[HEADER_BYTES], in[513] = { 0 };
    const char *reason;
    struct chain chain;

    (void)state;
    for (unsigned i = 0; i < sizeof(sectors) / sizeof(sectors[0]); i++) {
        put_header(out, VIRTIO_BLK_T_IN, sectors[i]);
        make_chain(&chain, out, HEADER_BYTES, 0, 0, in, sizeof(in), 0, 0);
        assert_int_equal(vblk_request_parse(&chain.request, &reason), 0);
        assert_true(chain.request.offset_bytes == UINT64_MAX);
        free_chain(&chain);
    }
}

/* ---- through a device ---- */

#define DISK_SECTORS 64

static void make_disk(char *path, uint8_t byte)
{
    static uint8_t bytes[DISK_SECTORS * 512];
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    memset(bytes, byte, sizeof(bytes));
    assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    close(fd);
}

static void test_ranges_outside_the_disk(void **state)
{
    static const struct {
        uint64_t sector;
        uint32_t bytes;
        uint8_t status;
    } cases[] = {
        { 0, 512, VIRTIO_BLK_S_OK },
        { DISK_SECTORS - 1, 512, VIRTIO_BLK_S_OK },
        { DISK_SECTORS - 8, 4096, VIRTIO_BLK_S_OK },
        { DISK_SECTORS - 7, 4096, VIRTIO_BLK_S_IOERR },
        { DISK_SECTORS, 512, VIRTIO_BLK_S_IOERR },
        { DISK_SECTORS, 0, VIRTIO_BLK_S_OK },
        { DISK_SECTORS + 1, 0, VIRTIO_BLK_S_IOERR },
        { UINT64_C(1) << 55, 512, VIRTIO_BLK_S_IOERR },
        { UINT64_MAX, 512, VIRTIO_BLK_S_IOERR },
        { UINT64_MAX / 512, 512, VIRTIO_BLK_S_IOERR },
        { 0, 511, VIRTIO_BLK_S_IOERR },
        { 0, 513, VIRTIO_BLK_S_IOERR },
        { 0, 1, VIRTIO_BLK_S_IOERR },
    };
    char disk[] = "/tmp/vblk-request-XXXXXX";
    uint8_t data[4096], sector[512];
    struct served served;
    struct front_end *fe;
    int fd;

    (void)state;
    make_disk(disk, 0x11);
    served_start(&served, &(struct vblk_device_options){ .blk_file = disk }, 1, 0);
    fe = served_front_end(&served, NULL);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, cases[i].sector, data, cases[i].bytes),
                         cases[i].status);
        memset(data, cases[i].status == VIRTIO_BLK_S_OK ? 0x11 : 0xee, sizeof(data));
        assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_OUT, cases[i].sector, data, cases[i].bytes),
                         cases[i].status);
    }
    fe_destroy(fe);
    served_stop(&served);
    /* What was refused has written nothing anywhere. */
    memset(data, 0x11, 512);
    fd = open(disk, O_RDONLY);
    for (unsigned i = 0; i < DISK_SECTORS; i++) {
        assert_int_equal(read(fd, sector, 512), 512);
        assert_memory_equal(sector, data, 512);
    }
    assert_int_equal(read(fd, sector, 1), 0);
    close(fd);
    unlink(disk);
}

/* The driver gave a write memory that is the device's to write, and a read the opposite. */
static void test_data_on_the_wrong_side(void **state)
{
    static const struct {
        uint32_t type;
        enum fe_direction direction;
    } cases[] = { { VIRTIO_BLK_T_OUT, FE_FROM_DEVICE }, { VIRTIO_BLK_T_IN, FE_TO_DEVICE } };
    struct served served;
    struct front_end *fe;

    (void)state;
    served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M" }, 1, 0);
    fe = served_front_end(&served, NULL);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fe_queue *queue = fe_queue(fe, 0);
        uint16_t slot = fe_queue_take(queue);

        fe_queue_prepare(queue, slot, cases[i].type, 0, 512, cases[i].direction);
        fe_queue_submit(queue, slot);
        assert_int_equal(served_reap(fe, 0), slot);
        assert_int_equal(*queue->slots[slot].status, VIRTIO_BLK_S_IOERR);
        fe_queue_give(queue, slot);
    }
    fe_destroy(fe);
    served_stop(&served);
}

static void test_read_only_disks_refuse_writes(void **state)
{
    char disk[] = "/tmp/vblk-request-XXXXXX";
    uint8_t data[512] = { 0 };
    struct served served;
    struct front_end *fe;

    (void)state;
    make_disk(disk, 0x22);
    served_start(&served, &(struct vblk_device_options){ .blk_file = disk, .read_only = true }, 1, 0);
    fe = served_front_end(&served, NULL);
    assert_true(fe_info(fe)->features_offered >> VIRTIO_BLK_F_RO & 1);
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_OUT, 0, data, 512), VIRTIO_BLK_S_IOERR);
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_FLUSH, 0, NULL, 0), VIRTIO_BLK_S_OK);
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, 0, data, 512), VIRTIO_BLK_S_OK);
    assert_int_equal(data[0], 0x22);
    fe_destroy(fe);
    served_stop(&served);
    unlink(disk);
}

static void test_serial_in_buffers_of_any_size(void **state)
{
    static const char serial[VBLK_SERIAL_BYTES + 1] = "serial-of-20-bytes-x";
    struct served served;
    struct front_end *fe;
    char id[32];

    (void)state;
    served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M", .serial = serial }, 1, 0);
    fe = served_front_end(&served, NULL);
    for (uint32_t bytes = 0; bytes <= sizeof(id); bytes++) {
        uint32_t want = bytes < VBLK_SERIAL_BYTES ? bytes : VBLK_SERIAL_BYTES;
        uint16_t slot = served_submit(fe, 0, VIRTIO_BLK_T_GET_ID, 0, NULL, bytes);
        const struct fe_slot *done = &fe_queue(fe, 0)->slots[slot];

        memset(done->data, 0xa5, sizeof(id));
        assert_int_equal(served_reap(fe, 0), slot);
        assert_int_equal(*done->status, VIRTIO_BLK_S_OK);
        assert_int_equal(done->used_bytes, want + 1);
        assert_memory_equal(done->data, serial, want);
        assert_int_equal(done->data[want], 0xa5);
        fe_queue_give(fe_queue(fe, 0), slot);
    }
    fe_destroy(fe);
    served_stop(&served);
}

static void test_unknown_types(void **state)
{
    static const uint32_t types[] = { 2, 3, 5, 6, 7, 9, 10, 12, 14, 255, 256,
                                      0x80000000, UINT32_MAX };
    struct served served;
    struct front_end *fe;
    uint8_t data[512];

    (void)state;
    served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M" }, 1, 0);
    fe = served_front_end(&served, NULL);
    for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        assert_int_equal(served_request(fe, 0, types[i], 0, data, 512), VIRTIO_BLK_S_UNSUPP);
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, 0, data, 512), VIRTIO_BLK_S_OK);
    fe_destroy(fe);
    served_stop(&served);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_write_cut_anywhere),
        cmocka_unit_test(test_a_read_cut_anywhere),
        cmocka_unit_test(test_no_header_or_no_status),
        cmocka_unit_test(test_only_a_status_byte),
        cmocka_unit_test(test_sectors_that_overflow),
        cmocka_unit_test(test_ranges_outside_the_disk),
        cmocka_unit_test(test_data_on_the_wrong_side),
        cmocka_unit_test(test_read_only_disks_refuse_writes),
        cmocka_unit_test(test_serial_in_buffers_of_any_size),
        cmocka_unit_test(test_unknown_types),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
