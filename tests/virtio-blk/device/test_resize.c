/*
 * Goal:   a disk changes its size while it is in use: the front end is told, requests are compared with the size of the
 *         moment, and nothing in the file is lost.
 * Method: devices in this process on a file and on nothing; grown, shrunk, re-read and refused, idle and under load from
 *         another thread, with and without a channel for telling.
 * If it fails: a guest writes beyond its disk or cannot use what it was given, or a file is cut off.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fe_control.h"
#include "served.h"

#define MIB (UINT64_C(1) << 20)

static struct served served;
static char image[] = "/tmp/test_resize.XXXXXX";

struct resize {
    uint64_t size_bytes;
    int result;
};

static void resize_co(void *opaque)
{
    struct resize *resize = opaque;

    resize->result = vblk_device_resize_co(served.device, resize->size_bytes);
}

static int resize(uint64_t size_bytes)
{
    struct resize resize = { .size_bytes = size_bytes };

    served_run_co(&served, resize_co, &resize);
    return resize.result;
}

static void serve(const char *blk_file, bool read_only, uint32_t block_size_bytes)
{
    served_start(&served,
                 &(struct vblk_device_options){
                     .blk_file = blk_file, .queue_count = 2, .read_only = read_only, .block_size_bytes = block_size_bytes },
                 2, 0);
}

static struct front_end *front_end(bool with_channel)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    struct front_end *fe;

    options.queue_count = 2;
    options.protocol_wanted = 1ull << WIRE_P_BACKEND_REQ;
    fe = served_front_end(&served, &options);
    if (with_channel)
        assert_int_equal(fe_open_backend_channel(fe), 0);
    return fe;
}

static uint64_t capacity_bytes(struct front_end *fe)
{
    assert_int_equal(fe_read_config(fe), 0);
    return fe_info(fe)->config.capacity * 512;
}

static void expect_told(struct front_end *fe)
{
    struct wire_header message;

    if (fe_backend_receive(fe, SERVED_DEADLINE_MS, 0, &message) != 0)
        fail_msg("%s", fe_error(fe));
    assert_int_equal(message.request, WIRE_BACKEND_CONFIG_CHANGE);
}

static void expect_not_told(struct front_end *fe)
{
    struct wire_header message;

    assert_int_equal(fe_backend_receive(fe, 0, 0, &message), -ETIMEDOUT);
}

static uint8_t access_at(struct front_end *fe, uint32_t type, uint64_t offset_bytes)
{
    char data[512];

    memset(data, 0x5a, sizeof(data));
    return served_request(fe, 0, type, offset_bytes / 512, data, sizeof(data));
}

static void assert_ends_at(struct front_end *fe, uint64_t size_bytes)
{
    assert_int_equal(capacity_bytes(fe), size_bytes);
    assert_int_equal(access_at(fe, VIRTIO_BLK_T_OUT, size_bytes - 512), VIRTIO_BLK_S_OK);
    assert_int_equal(access_at(fe, VIRTIO_BLK_T_OUT, size_bytes), VIRTIO_BLK_S_IOERR);
    assert_int_equal(access_at(fe, VIRTIO_BLK_T_IN, size_bytes), VIRTIO_BLK_S_IOERR);
}

static uint64_t file_bytes(void)
{
    struct stat status;

    assert_int_equal(stat(image, &status), 0);
    return status.st_size;
}

static int make_image(void **state)
{
    (void)state;
    assert_int_equal(truncate(image, MIB), 0);
    return 0;
}

static void test_a_file_grows_and_is_never_cut(void **state)
{
    struct front_end *fe;
    int fd = open(image, O_RDONLY);
    char byte;

    (void)state;
    serve(image, false, 512);
    fe = front_end(true);
    assert_ends_at(fe, MIB);
    assert_int_equal(resize(3 * MIB), 0);
    expect_told(fe);
    assert_ends_at(fe, 3 * MIB);
    assert_int_equal(file_bytes(), 3 * MIB);
    /* Smaller: the driver sees less, the file keeps its bytes. */
    assert_int_equal(resize(2 * MIB), 0);
    expect_told(fe);
    assert_ends_at(fe, 2 * MIB);
    assert_int_equal(file_bytes(), 3 * MIB);
    assert_int_equal(pread(fd, &byte, 1, 3 * MIB - 512), 1);
    assert_int_equal(byte, 0x5a);
    /* As large as it is. */
    assert_int_equal(resize(0), 0);
    expect_told(fe);
    assert_ends_at(fe, 3 * MIB);
    /* Somebody else made it longer, and not to a whole block. */
    assert_int_equal(truncate(image, 4 * MIB + 100), 0);
    assert_int_equal(resize(0), 0);
    expect_told(fe);
    assert_ends_at(fe, 4 * MIB);
    /* Nothing changes: nothing is told. */
    assert_int_equal(resize(4 * MIB), 0);
    expect_not_told(fe);
    fe_destroy(fe);
    served_stop(&served);
    close(fd);
}

/* What is found behind the disk is cut to whole blocks of the driver's. */
static void test_whole_blocks(void **state)
{
    struct front_end *fe;

    (void)state;
    serve(image, false, 4096);
    fe = front_end(true);
    assert_int_equal(truncate(image, 4 * MIB + 3584), 0);
    assert_int_equal(resize(0), 0);
    expect_told(fe);
    assert_ends_at(fe, 4 * MIB);
    fe_destroy(fe);
    served_stop(&served);
}

static void test_what_cannot_be(void **state)
{
    struct front_end *fe;

    (void)state;
    serve(image, false, 4096);
    fe = front_end(true);
    assert_int_equal(resize(2 * MIB + 512), -EINVAL); /* no whole blocks of the driver's */
    assert_int_equal(resize(2 * MIB + 1), -EINVAL);
    assert_int_equal(resize(UINT64_C(1) << 63), -EINVAL); /* the file system's own limit, or the kernel's */
    assert_int_equal(capacity_bytes(fe), MIB);
    assert_int_equal(file_bytes(), MIB);
    /* Cut off by somebody else to nothing. */
    assert_int_equal(truncate(image, 0), 0);
    assert_int_equal(resize(0), -EINVAL);
    assert_int_equal(capacity_bytes(fe), MIB);
    expect_not_told(fe);
    fe_destroy(fe);
    served_stop(&served);

    assert_int_equal(truncate(image, MIB), 0);
    serve(image, true, 512);
    fe = front_end(true);
    assert_int_equal(resize(2 * MIB), -EROFS);
    assert_int_equal(file_bytes(), MIB);
    assert_int_equal(truncate(image, 2 * MIB), 0);
    assert_int_equal(resize(2 * MIB), 0);
    expect_told(fe);
    assert_int_equal(capacity_bytes(fe), 2 * MIB);
    fe_destroy(fe);
    served_stop(&served);
}

static void test_without_a_channel_or_a_front_end(void **state)
{
    struct front_end *fe;

    (void)state;
    serve("null:1M", false, 512);
    assert_int_equal(resize(2 * MIB), 0);
    fe = front_end(false);
    assert_ends_at(fe, 2 * MIB);
    assert_int_equal(resize(4 * MIB), 0);
    assert_ends_at(fe, 4 * MIB); /* found when asked */
    assert_int_equal(resize(0), 0);
    assert_ends_at(fe, 4 * MIB);
    fe_destroy(fe);
    served_stop(&served);
}

/* A front end that does not listen while its device is stopped is told once more when it has started. */
static void test_resized_while_stopped(void **state)
{
    struct front_end *fe;

    (void)state;
    serve("null:1M", false, 512);
    fe = front_end(true);
    assert_int_equal(fe_stop(fe), 0);
    assert_int_equal(resize(2 * MIB), 0);
    expect_told(fe);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(fe_start(fe), 0);
        if (i == 0)
            expect_told(fe);
        assert_ends_at(fe, 2 * MIB);
        expect_not_told(fe);
        assert_int_equal(fe_stop(fe), 0);
    }
    assert_int_equal(resize(MIB), 0);
    fe_destroy(fe);
    /* What the next one reads is right from the beginning. */
    fe = front_end(true);
    assert_ends_at(fe, MIB);
    expect_not_told(fe);
    fe_destroy(fe);
    served_stop(&served);
}

struct reader {
    pthread_t thread;
    struct front_end *fe;
    _Atomic bool stop;
    uint64_t done;
};

/* Always inside the smaller size. */
static void *read_on(void *opaque)
{
    struct reader *reader = opaque;

    while (!atomic_load(&reader->stop)) {
        assert_int_equal(served_request(reader->fe, 1, VIRTIO_BLK_T_IN, 8 * (reader->done % 100), NULL, 4096),
                         VIRTIO_BLK_S_OK);
        reader->done++;
    }
    return NULL;
}

static void test_resizes_under_load(void **state)
{
    struct reader reader = { 0 };

    (void)state;
    serve(image, false, 512);
    reader.fe = front_end(true);
    assert_int_equal(pthread_create(&reader.thread, NULL, read_on, &reader), 0);
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(resize(MIB * (1 + i % 2)), 0);
        if (i > 0)
            expect_told(reader.fe);
    }
    atomic_store(&reader.stop, true);
    pthread_join(reader.thread, NULL);
    assert_true(reader.done > 0);
    assert_ends_at(reader.fe, 2 * MIB);
    fe_destroy(reader.fe);
    served_stop(&served);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_file_grows_and_is_never_cut, make_image),
        cmocka_unit_test_setup(test_whole_blocks, make_image),
        cmocka_unit_test_setup(test_what_cannot_be, make_image),
        cmocka_unit_test(test_without_a_channel_or_a_front_end),
        cmocka_unit_test(test_resized_while_stopped),
        cmocka_unit_test_setup(test_resizes_under_load, make_image),
    };
    int fd = mkstemp(image), failed;

    if (fd < 0)
        return 1;
    close(fd);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(image);
    return failed;
}
