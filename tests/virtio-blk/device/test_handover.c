/*
 * Goal:   a guest that migrates takes its disk along: of two devices on one image exactly one has it, at every moment, and
 *         what the one acknowledged the other reads.
 * Method: two devices in this process (locks belong to open files, so that is as good as two processes), each with a front
 *         end; stopped with and without the dirty log, by message, reset and hang-up; taken back, grown, refused, and with a
 *         disk that cannot be flushed. A third open file says whether somebody holds the image.
 * If it fails: two processes write one image, or a guest that migrated, or did not after all, is without its disk.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "disk/disk.h"
#include "fe_control.h"
#include "served.h"

#define MIB (UINT64_C(1) << 20)
#define LOG_ALL (UINT64_C(1) << 26)
#define QUEUES 2

static char image[] = "/tmp/test_handover.XXXXXX";

struct end {
    struct served served;
    struct front_end *fe;
};

static struct end source, destination;

static int make_image(void **state)
{
    (void)state;
    return truncate(image, 0) == 0 && truncate(image, MIB) == 0 ? 0 : -1;
}

static void serve(struct end *end, bool incoming, const char *inject)
{
    served_start(&end->served,
                 &(struct vblk_device_options){
                     .blk_file = image, .queue_count = QUEUES, .incoming = incoming, .inject = inject },
                 1, 0);
}

static void connect_to(struct end *end)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;

    options.queue_count = QUEUES;
    options.protocol_wanted = 1ull << WIRE_P_BACKEND_REQ | 1ull << WIRE_P_RESET_DEVICE;
    end->fe = served_connect(&end->served, &options);
    if (fe_negotiate(end->fe) != 0 || fe_map(end->fe) != 0)
        fail_msg("%s", fe_error(end->fe));
    assert_int_equal(fe_open_backend_channel(end->fe), 0);
}

static void leave(struct end *end)
{
    fe_destroy(end->fe);
    served_stop(&end->served);
}

static void begin(const char *inject)
{
    serve(&source, false, inject);
    connect_to(&source);
    assert_int_equal(fe_start(source.fe), 0);
    serve(&destination, true, NULL);
    connect_to(&destination);
}

static void log_all(struct end *end, bool on)
{
    uint64_t features = fe_info(end->fe)->features | (on ? LOG_ALL : 0);

    assert_int_equal(fe_set(end->fe, WIRE_SET_FEATURES, &features, sizeof(features), NULL, 0), 0);
}

static bool is_held(void)
{
    const struct vblk_disk_options options = { .incoming = true };
    struct vblk_disk *disk;
    char *message;
    int error;

    assert_int_equal(vblk_disk_open(image, &options, &disk, &message), 0);
    error = vblk_disk_hold(disk);
    vblk_disk_close(disk);
    if (error != 0)
        assert_int_equal(error, -EAGAIN);
    return error != 0;
}

static uint8_t access_at(struct end *end, uint32_t type, uint64_t offset_bytes, char *data)
{
    return served_request(end->fe, QUEUES - 1, type, offset_bytes / 512, data, 512);
}

static void write_at(struct end *end, uint64_t offset_bytes, char byte)
{
    char data[512];

    memset(data, byte, sizeof(data));
    assert_int_equal(access_at(end, VIRTIO_BLK_T_OUT, offset_bytes, data), VIRTIO_BLK_S_OK);
}

static void expect_at(struct end *end, uint64_t offset_bytes, char byte)
{
    char data[512] = { 0 };

    assert_int_equal(access_at(end, VIRTIO_BLK_T_IN, offset_bytes, data), VIRTIO_BLK_S_OK);
    for (unsigned i = 0; i < sizeof(data); i++)
        assert_int_equal(data[i], byte);
}

static void test_there_and_back(void **state)
{
    struct end *from = &source, *to = &destination;

    (void)state;
    begin(NULL);
    for (char i = 1; i <= 6; i++) {
        struct end *next = to;

        write_at(from, 512 * i, i);
        assert_true(is_held());
        log_all(from, true);
        assert_int_equal(fe_stop(from->fe), 0);
        assert_false(is_held());
        log_all(from, false);
        assert_int_equal(fe_start(to->fe), 0);
        assert_true(is_held());
        for (char j = 1; j <= i; j++)
            expect_at(to, 512 * j, j);
        to = from;
        from = next;
    }
    leave(&destination);
    leave(&source);
}

/* Of several rings the last one counts. */
static void test_one_ring_of_two(void **state)
{
    uint16_t base;

    (void)state;
    begin(NULL);
    log_all(&source, true);
    assert_int_equal(fe_queue_stop(source.fe, 0, &base), 0);
    assert_true(is_held());
    write_at(&source, 0, 1);
    assert_int_equal(fe_queue_stop(source.fe, 1, &base), 0);
    assert_false(is_held());
    leave(&destination);
    leave(&source);
}

static void test_what_is_no_migration_keeps_the_disk(void **state)
{
    (void)state;
    begin(NULL);
    assert_int_equal(fe_stop(source.fe), 0);
    assert_true(is_held());
    assert_int_equal(fe_start(source.fe), 0);
    assert_int_equal(fe_reset_device(source.fe), 0);
    assert_true(is_held());
    fe_destroy(source.fe);
    connect_to(&source);
    assert_int_equal(fe_start(source.fe), 0);
    /* A front end that vanishes in the middle of one. */
    log_all(&source, true);
    fe_destroy(source.fe);
    connect_to(&source);
    assert_true(is_held());
    leave(&destination);
    leave(&source);
    assert_false(is_held());
}

/* QEMU resets the device before it stops the rings, and features are gone then. */
static void test_given_up_by_a_reset(void **state)
{
    (void)state;
    begin(NULL);
    write_at(&source, 0, 7);
    log_all(&source, true);
    assert_int_equal(fe_reset_device(source.fe), 0);
    assert_false(is_held());
    assert_int_equal(fe_start(destination.fe), 0);
    expect_at(&destination, 0, 7);
    leave(&destination);
    leave(&source);
}

/* The migration fails: the guest goes on where it was, and the other one is refused. */
static void test_taken_back(void **state)
{
    (void)state;
    begin(NULL);
    log_all(&source, true);
    assert_int_equal(fe_stop(source.fe), 0);
    assert_int_equal(fe_start(source.fe), 0);
    write_at(&source, 0, 3);
    assert_true(is_held());
    assert_int_not_equal(fe_start(destination.fe), 0);
    expect_at(&source, 0, 3);
    fe_destroy(destination.fe);
    /* The next try. */
    assert_int_equal(fe_stop(source.fe), 0);
    connect_to(&destination);
    assert_int_equal(fe_start(destination.fe), 0);
    expect_at(&destination, 0, 3);
    /* And now the source is: its rings were enabled before, so that their kicks start them, which cannot be answered. */
    (void)fe_start(source.fe);
    assert_false(served_is_started(source.served.device));
    write_at(&destination, 0, 4);
    leave(&destination);
    leave(&source);
}

struct resize {
    struct vblk_device *device;
    uint64_t size_bytes;
    int result;
};

static void resize_co(void *opaque)
{
    struct resize *resize = opaque;

    resize->result = vblk_device_resize_co(resize->device, resize->size_bytes);
}

static int resize(struct end *end, uint64_t size_bytes)
{
    struct resize resize = { .device = end->served.device, .size_bytes = size_bytes };

    served_run_co(&end->served, resize_co, &resize);
    return resize.result;
}

static uint64_t capacity_bytes(struct end *end)
{
    assert_int_equal(fe_read_config(end->fe), 0);
    return fe_info(end->fe)->config.capacity * 512;
}

static void expect_told(struct end *end)
{
    struct wire_header message;

    if (fe_backend_receive(end->fe, SERVED_DEADLINE_MS, 0, &message) != 0)
        fail_msg("%s", fe_error(end->fe));
    assert_int_equal(message.request, WIRE_BACKEND_CONFIG_CHANGE);
}

static void test_another_size(void **state)
{
    struct wire_header message;

    (void)state;
    begin(NULL);
    /* Not its own yet: it may look, and does not change it. */
    assert_int_equal(resize(&destination, 4 * MIB), -EBUSY);
    assert_int_equal(resize(&source, 2 * MIB), 0);
    expect_told(&source);
    assert_int_equal(capacity_bytes(&destination), MIB);
    log_all(&source, true);
    assert_int_equal(fe_stop(source.fe), 0);
    assert_int_equal(resize(&source, 4 * MIB), -EBUSY);
    assert_int_equal(fe_start(destination.fe), 0);
    expect_told(&destination);
    assert_int_equal(capacity_bytes(&destination), 2 * MIB);
    write_at(&destination, 2 * MIB - 512, 5);
    /* The file is as large as before, and the disk stays as small as somebody has made it. */
    assert_int_equal(resize(&destination, MIB), 0);
    expect_told(&destination);
    log_all(&destination, true);
    assert_int_equal(fe_stop(destination.fe), 0);
    assert_int_equal(fe_start(destination.fe), 0);
    assert_int_equal(fe_backend_receive(destination.fe, 0, 0, &message), -ETIMEDOUT);
    assert_int_equal(capacity_bytes(&destination), MIB);
    leave(&destination);
    leave(&source);
}

static void test_cut_off_to_nothing_meanwhile(void **state)
{
    (void)state;
    begin(NULL);
    log_all(&source, true);
    assert_int_equal(fe_stop(source.fe), 0);
    assert_int_equal(truncate(image, 0), 0);
    assert_int_not_equal(fe_start(destination.fe), 0);
    assert_int_equal(truncate(image, MIB), 0);
    assert_false(is_held());
    leave(&destination);
    leave(&source);
}

/* What may be lost is not handed on: the guest must hear of it here. */
static void test_a_disk_that_cannot_be_flushed_is_kept(void **state)
{
    (void)state;
    begin("error=100,op=flush");
    write_at(&source, 0, 1);
    log_all(&source, true);
    assert_int_equal(fe_stop(source.fe), 0);
    assert_true(is_held());
    assert_int_not_equal(fe_start(destination.fe), 0);
    assert_int_equal(fe_start(source.fe), 0);
    expect_at(&source, 0, 1);
    leave(&destination);
    leave(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_there_and_back, make_image),
        cmocka_unit_test_setup(test_one_ring_of_two, make_image),
        cmocka_unit_test_setup(test_what_is_no_migration_keeps_the_disk, make_image),
        cmocka_unit_test_setup(test_given_up_by_a_reset, make_image),
        cmocka_unit_test_setup(test_taken_back, make_image),
        cmocka_unit_test_setup(test_another_size, make_image),
        cmocka_unit_test_setup(test_cut_off_to_nothing_meanwhile, make_image),
        cmocka_unit_test_setup(test_a_disk_that_cannot_be_flushed_is_kept, make_image),
    };
    int fd = mkstemp(image), failed;

    if (fd < 0)
        return 1;
    close(fd);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(image);
    return failed;
}
