/*
 * Goal:   a discarded range gives its room back, a zeroed one reads as zeros, and nothing beside either changes.
 * Method: files with known bytes in both cache modes; ranges at odd places against a model, and what stat says of their room;
 *         a file system that knows one mode of fallocate and not the other (tmpfs); a block device through a loop device,
 *         where this process may make one.
 * If it fails: guests that trim keep their room for ever, or lose data beside what they trimmed, or find old data where they
 *         wrote zeros.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <linux/loop.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk_loop.h"

#define DISK_BYTES (4 << 20)

static char path[64];
static uint8_t model[DISK_BYTES];

static int set_up(void **state)
{
    (void)state;
    g_strlcpy(path, "/var/tmp/vblk-discard-XXXXXX", sizeof(path));
    disk_make(path, DISK_BYTES);
    for (unsigned i = 0; i < DISK_BYTES; i++)
        model[i] = disk_byte(i);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static void compare(struct disk_loop *dl, const char *when)
{
    uint8_t *bytes = NULL;

    assert_int_equal(posix_memalign((void **)&bytes, 4096, DISK_BYTES), 0);
    assert_int_equal(disk_loop_read(dl, 0, &(struct iovec){ bytes, DISK_BYTES }, 1), 0);
    for (unsigned i = 0; i < DISK_BYTES; i++)
        if (bytes[i] != model[i])
            fail_msg("%s: byte %u is %u instead of %u", when, i, bytes[i], model[i]);
    free(bytes);
}

static uint64_t room(void)
{
    struct stat st;
    int fd = open(path, O_RDONLY);

    fsync(fd); /* blocks are counted when they are allocated */
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, DISK_BYTES);
    close(fd);
    return (uint64_t)st.st_blocks * 512;
}

static const struct {
    uint64_t offset, size;
} ranges[] = {
    { 0, 4096 },        { 8192, 65536 },          { 512, 512 },        { 131072 + 512, 4096 }, { 262144 - 512, 1024 },
    { 1 << 20, 1 << 20 }, { (2 << 20) + 1536, 70000 / 512 * 512 }, { DISK_BYTES - 512, 512 },
    { DISK_BYTES - (1 << 20), 1 << 20 },
};

static void zeroes_in(const char *name, enum vblk_disk_cache cache, const char *inject)
{
    struct disk_loop dl;

    disk_loop_open(&dl, name, &(struct vblk_disk_options){ .cache = cache, .inject = inject });
    for (unsigned i = 0; i < G_N_ELEMENTS(ranges); i++) {
        assert_int_equal(disk_loop_write_zeroes(&dl, ranges[i].offset, ranges[i].size, i % 2 == 1), 0);
        memset(model + ranges[i].offset, 0, ranges[i].size);
        compare(&dl, "after zeros");
    }
    disk_loop_close(&dl);
}

static void test_zeroes(void **state)
{
    (void)state;
    zeroes_in(path, VBLK_DISK_CACHE_WRITEBACK, NULL);
}

static void test_zeroes_with_direct_io(void **state)
{
    (void)state;
    zeroes_in(path, VBLK_DISK_CACHE_NONE, "delay-us=1"); /* a disk in front of it hands ranges on */
}

/* tmpfs punches holes and cannot zero ranges: zeros are written. */
static void test_zeroes_where_the_file_system_cannot(void **state)
{
    char beside[64];

    (void)state;
    g_strlcpy(beside, path, sizeof(beside));
    g_strlcpy(path, "/dev/shm/vblk-discard-XXXXXX", sizeof(path));
    disk_make(path, DISK_BYTES);
    zeroes_in(path, VBLK_DISK_CACHE_WRITEBACK, NULL);
    unlink(path);
    g_strlcpy(path, beside, sizeof(path));
}

static void test_discards_give_room_back(void **state)
{
    struct disk_loop dl;
    uint64_t before = room();

    (void)state;
    disk_loop_open(&dl, path, &(struct vblk_disk_options){ 0 });
    assert_true(dl.facts.discard); /* /var/tmp can; else this machine tests nothing */
    assert_true(dl.facts.discard_align_bytes % 512 == 0);
    assert_int_equal(disk_loop_discard(&dl, 1 << 20, 2 << 20), 0);
    memset(model + (1 << 20), 0, 2 << 20); /* a hole in a file */
    compare(&dl, "after a discard");
    assert_true(room() <= before - (2 << 20));
    /* Zeros without leave to give back keep their room. */
    before = room();
    assert_int_equal(disk_loop_write_zeroes(&dl, 0, 1 << 20, false), 0);
    memset(model, 0, 1 << 20);
    compare(&dl, "after zeros that stay");
    assert_true(room() >= before);
    assert_int_equal(disk_loop_write_zeroes(&dl, 0, 1 << 20, true), 0);
    assert_true(room() <= before - (1 << 20));
    disk_loop_close(&dl);
}

static void test_a_read_only_disk_offers_none(void **state)
{
    struct disk_loop dl;

    (void)state;
    disk_loop_open(&dl, path, &(struct vblk_disk_options){ .read_only = true });
    assert_false(dl.facts.discard);
    disk_loop_close(&dl);
}

/* A size that is no multiple of the file system's block: the probe behind the end leaves the last bytes alone. */
static void test_the_probe_harms_nothing(void **state)
{
    struct disk_loop dl;
    uint8_t bytes[1536];

    (void)state;
    assert_int_equal(truncate(path, DISK_BYTES - 4096 + 1536), 0);
    disk_loop_open(&dl, path, &(struct vblk_disk_options){ 0 });
    assert_int_equal(disk_loop_read(&dl, DISK_BYTES - 4096, &(struct iovec){ bytes, sizeof(bytes) }, 1), 0);
    assert_memory_equal(bytes, model + DISK_BYTES - 4096, sizeof(bytes));
    assert_int_equal(dl.facts.size_bytes, DISK_BYTES - 4096 + 1536);
    disk_loop_close(&dl);
}

/* ---- a block device ---- */

/* The loop device's name in name_out, and its descriptor; -1: this process may have none. */
static int make_loop_device(char *name_out, size_t size, unsigned block_bytes)
{
    struct loop_config config = { .block_size = block_bytes, .info.lo_flags = LO_FLAGS_AUTOCLEAR };
    int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), device = -1, number;

    if (control < 0)
        return -1;
    config.fd = open(path, O_RDWR | O_CLOEXEC);
    /* Another process may take the free one first. */
    for (unsigned i = 0; i < 20 && device < 0 && (number = ioctl(control, LOOP_CTL_GET_FREE)) >= 0; i++) {
        g_snprintf(name_out, size, "/dev/loop%d", number);
        device = open(name_out, O_RDWR | O_CLOEXEC);
        if (device < 0)
            break;
        if (ioctl(device, LOOP_CONFIGURE, &config) != 0) {
            close(device);
            device = -1;
        }
    }
    close(config.fd);
    close(control);
    return device;
}

static void block_device(unsigned block_bytes)
{
    char name[32];
    int device = make_loop_device(name, sizeof(name), block_bytes);
    uint64_t before;
    struct disk_loop dl;

    if (device < 0) {
        print_message("no loop devices here (%s): block devices are not tested\n", g_strerror(errno));
        return;
    }
    zeroes_in(name, VBLK_DISK_CACHE_WRITEBACK, NULL);
    before = room();
    disk_loop_open(&dl, name, &(struct vblk_disk_options){ 0 });
    assert_int_equal(dl.facts.size_bytes, DISK_BYTES);
    assert_true(dl.facts.discard);
    assert_true(dl.facts.discard_align_bytes >= 512);
    assert_int_equal(disk_loop_discard(&dl, 512, (1 << 20) - 512), 0);
    assert_int_equal(disk_loop_flush(&dl), 0);
    assert_true(room() < before);
    disk_loop_close(&dl);
    close(device);
}

static void test_a_block_device(void **state)
{
    (void)state;
    block_device(512);
}

/* Ranges of sectors are not ranges of its blocks. */
static void test_a_block_device_of_4096_byte_blocks(void **state)
{
    (void)state;
    block_device(4096);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_zeroes),
        TEST(test_zeroes_with_direct_io),
        TEST(test_zeroes_where_the_file_system_cannot),
        TEST(test_discards_give_room_back),
        TEST(test_a_read_only_disk_offers_none),
        TEST(test_the_probe_harms_nothing),
        TEST(test_a_block_device),
        TEST(test_a_block_device_of_4096_byte_blocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
