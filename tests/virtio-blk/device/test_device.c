/*
 * Goal:   a device that cannot be made leaves nothing and says why in one line; one that can is named, numbered and ends.
 * Method: devices in this process with disks and sockets that do not work, descriptors counted around them; connected and
 *         listening sockets that are handed over; the serial number that is made from the name; where a file is synced.
 * If it fails: a management tool that tries again and again exhausts the process, or an operator does not learn why.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <glib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "served.h"

static struct served served;

static int set_up(void **state)
{
    (void)state;
    served_start_loops(&served, 2, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    served_stop_loops(&served);
    return 0;
}

static void refuse(const struct vblk_device_options *options, const char *words)
{
    unsigned before = served_count_fds();

    for (unsigned i = 0; i < 3; i++) {
        char *message = NULL;

        assert_true(served_create(&served, options, &message) < 0);
        assert_non_null(message);
        assert_non_null(strstr(message, words));
        assert_null(strchr(message, '\n'));
        g_free(message);
    }
    /* Whether a socket is in use is asked by connecting: its device, here in the same process, closes that soon. */
    for (unsigned i = 0; i < SERVED_DEADLINE_MS && served_count_fds() > before; i++)
        usleep(1000);
    assert_int_equal(served_count_fds(), before);
}

static void test_what_cannot_be_served(void **state)
{
    (void)state;
    refuse(&(struct vblk_device_options){ .blk_file = "/nonexistent/disk" }, "/nonexistent/disk: cannot open disk");
    refuse(&(struct vblk_device_options){ .blk_file = "null:4608", .block_size_bytes = 4096 }, "no multiple of the block size 4096");
    refuse(&(struct vblk_device_options){ .blk_file = "null:0" }, "null:0: not a disk size");
    refuse(&(struct vblk_device_options){ .blk_file = "null:1M", .socket_path = "/nonexistent/socket", .fd = -1 },
           "/nonexistent/socket");
    refuse(&(struct vblk_device_options){ .blk_file = "null:1M", .fd = 999 }, "descriptor 999");
}

static void test_socket_in_use(void **state)
{
    struct vblk_device *first;
    char *message = NULL;

    (void)state;
    assert_int_equal(served_create(&served, &(struct vblk_device_options){ .blk_file = "null:1M" }, &message), 0);
    first = served.device;
    refuse(&(struct vblk_device_options){ .blk_file = "null:1M" }, served.path);
    served.device = first;
    served_destroy(&served);
    /* Free again. */
    assert_int_equal(served_create(&served, &(struct vblk_device_options){ .blk_file = "null:1M" }, &message), 0);
    served_destroy(&served);
    assert_int_not_equal(access(served.path, F_OK), 0);
}

static void assert_serial(const struct vblk_device_options *options, const char *serial)
{
    struct front_end *fe;
    char id[VBLK_SERIAL_BYTES], expected[VBLK_SERIAL_BYTES] = { 0 };

    assert_int_equal(served_create(&served, options, NULL), 0);
    fe = served_front_end(&served, NULL);
    memcpy(expected, serial, strlen(serial));
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_GET_ID, 0, id, sizeof(id)), VIRTIO_BLK_S_OK);
    assert_memory_equal(id, expected, sizeof(id));
    fe_destroy(fe);
    served_destroy(&served);
}

static void test_serial_number(void **state)
{
    (void)state;
    assert_serial(&(struct vblk_device_options){ .blk_file = "null:1M", .serial = "S1" }, "S1");
    assert_serial(&(struct vblk_device_options){ .blk_file = "null:1M", .name = "short" }, "short");
    assert_serial(&(struct vblk_device_options){ .blk_file = "null:1M", .name = "a-name-of-more-than-20-bytes" },
                  "of-more-than-20-bytes" + 1);
    assert_serial(&(struct vblk_device_options){ .blk_file = "null:1M" },
                  served.path + strlen(served.path) - VBLK_SERIAL_BYTES);
}

static void test_ids_count_up(void **state)
{
    uint32_t last = 0;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(served_create(&served, &(struct vblk_device_options){ .blk_file = "null:1M" }, NULL), 0);
        assert_true(served.device->device_id > last);
        last = served.device->device_id;
        served_destroy(&served);
    }
}

static _Atomic unsigned ended_count;

static void ended(void *opaque)
{
    atomic_fetch_add((_Atomic unsigned *)opaque, 1);
}

static bool has_ended(struct vblk_device *device)
{
    (void)device;
    return atomic_load(&ended_count) > 0;
}

static void test_connected_socket_ends_with_its_front_end(void **state)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    struct front_end *fe;
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(served_create(&served,
                                   &(struct vblk_device_options){ .blk_file = "null:1M", .fd = fds[0], .ended = ended,
                                                                  .opaque = &ended_count },
                                   NULL),
                     0);
    options.fd = fds[1];
    fe = served_front_end(&served, &options);
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512), VIRTIO_BLK_S_OK);
    assert_int_equal(atomic_load(&ended_count), 0);
    fe_destroy(fe);
    served_wait(&served, has_ended, "it tells that nobody can come any more");
    served_destroy(&served);
    assert_int_equal(atomic_load(&ended_count), 1);
}

static void test_listening_socket_goes_on(void **state)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    g_strlcpy(address.sun_path, served.path, sizeof(address.sun_path));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(served_create(&served, &(struct vblk_device_options){ .blk_file = "null:1M", .fd = fd }, NULL), 0);
    for (unsigned i = 0; i < 3; i++) {
        struct front_end *fe = served_front_end(&served, NULL);

        assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512), VIRTIO_BLK_S_OK);
        fe_destroy(fe);
    }
    served_destroy(&served);
    unlink(served.path);
}

static void test_all_queues_in_turn(void **state)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    struct front_end *fe;

    (void)state;
    options.queue_count = VBLK_QUEUES_MAX;
    assert_int_equal(served_create(&served,
                                   &(struct vblk_device_options){ .blk_file = "null:1M", .queue_count = VBLK_QUEUES_MAX },
                                   NULL),
                     0);
    fe = served_front_end(&served, &options);
    assert_int_equal(fe_info(fe)->queue_count_max, VBLK_QUEUES_MAX);
    for (unsigned i = 0; i < VBLK_QUEUES_MAX; i++) {
        assert_int_equal(served_request(fe, i, VIRTIO_BLK_T_IN, 0, NULL, 512), VIRTIO_BLK_S_OK);
        assert_ptr_equal(served.device->queues[i].home, served.loops[i % 2]);
    }
    assert_int_equal(fe_stop(fe), 0);
    fe_destroy(fe);
    served_destroy(&served);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static _Atomic unsigned sync_count, sync_in_loop_count;

/* The C library's, as the disk calls it: it can take minutes. */
int fdatasync(int fd)
{
    atomic_fetch_add(&sync_count, 1);
    if (rt_loop_current())
        atomic_fetch_add(&sync_in_loop_count, 1);
    return fsync(fd);
}

static void test_closing_a_file_holds_no_loop(void **state)
{
    char *path = g_build_filename(served.directory, "disk", NULL);

    (void)state;
    assert_true(g_file_set_contents(path, "", 0, NULL));
    assert_int_equal(truncate(path, 1 << 20), 0);
    assert_int_equal(served_create(&served, &(struct vblk_device_options){ .blk_file = path }, NULL), 0);
    served_destroy(&served);
    assert_int_equal(atomic_load(&sync_count), 1);
    assert_int_equal(atomic_load(&sync_in_loop_count), 0);
    unlink(path);
    g_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_cannot_be_served),
        TEST(test_socket_in_use),
        TEST(test_serial_number),
        TEST(test_ids_count_up),
        TEST(test_connected_socket_ends_with_its_front_end),
        TEST(test_listening_socket_goes_on),
        TEST(test_all_queues_in_turn),
        TEST(test_closing_a_file_holds_no_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
