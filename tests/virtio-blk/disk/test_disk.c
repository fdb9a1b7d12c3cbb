/*
 * Goal:   transfers of any range and memory arrive whole, whatever the backend wants to have aligned.
 * Method: a backend in memory with blocks of 4096 bytes that refuses whatever is not aligned, in front of it random
 *         transfers against a model, in pieces at odd addresses; failures of each step.
 * If it fails: direct I/O corrupts neighbours of what was written, or an error is lost.
 */
#include <errno.h>
#include <glib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "disk/backend.h"

#define ALIGN 4096u
#define DISK_BYTES (16 * ALIGN)

static uint8_t bytes[DISK_BYTES], model[DISK_BYTES];
static int read_result, write_result;
static unsigned read_count, write_count;

static int transfer(bool write, uint64_t offset, const struct iovec *iov, int count)
{
    assert_int_equal(offset % ALIGN, 0);
    for (int i = 0; i < count; i++) {
        assert_int_equal((uintptr_t)iov[i].iov_base % ALIGN, 0);
        assert_int_equal(iov[i].iov_len % ALIGN, 0);
        assert_true(offset + iov[i].iov_len <= DISK_BYTES);
        if (write)
            memcpy(bytes + offset, iov[i].iov_base, iov[i].iov_len);
        else
            memcpy(iov[i].iov_base, bytes + offset, iov[i].iov_len);
        offset += iov[i].iov_len;
    }
    return 0;
}

static int read_blocks(struct vblk_disk_loop *context, uint64_t offset, const struct iovec *iov, int count)
{
    (void)context;
    read_count++;
    return read_result < 0 ? read_result : transfer(false, offset, iov, count);
}

static int write_blocks(struct vblk_disk_loop *context, uint64_t offset, const struct iovec *iov, int count)
{
    (void)context;
    write_count++;
    return write_result < 0 ? write_result : transfer(true, offset, iov, count);
}

static const struct vblk_disk_ops ops = { .read_co = read_blocks, .write_co = write_blocks };
static struct vblk_disk disk = { .ops = &ops, .facts = { .size_bytes = DISK_BYTES, .align_bytes = ALIGN } };
static struct vblk_disk_loop context = { .disk = &disk };

static int set_up(void **state)
{
    (void)state;
    for (unsigned i = 0; i < DISK_BYTES; i++)
        model[i] = bytes[i] = i * 13 + i / 256;
    read_result = write_result = 0;
    read_count = write_count = 0;
    return 0;
}

/* Pieces of random lengths that sum up to @size, in one buffer that starts at an odd place. */
static int cut(struct iovec *iov, int max, uint8_t *buffer, size_t size, GRand *random)
{
    int count = 0;

    while (size > 0) {
        size_t part = count + 1 == max ? size : (size_t)g_rand_int_range(random, 1, (int)size + 1);

        iov[count++] = (struct iovec){ .iov_base = buffer, .iov_len = part };
        buffer += part;
        size -= part;
    }
    return count;
}

static void test_random_transfers(void **state)
{
    guint32 seed = (guint32)g_get_real_time();
    GRand *random = g_rand_new_with_seed(seed);
    uint8_t *buffer = g_malloc(DISK_BYTES + 64);

    (void)state;
    print_message("seed %u\n", seed);
    for (unsigned round = 0; round < 3000; round++) {
        uint64_t offset = (uint64_t)g_rand_int_range(random, 0, DISK_BYTES / 512) * 512;
        size_t size = (size_t)g_rand_int_range(random, 1, (gint32)(DISK_BYTES - offset) / 512 + 1) * 512;
        uint8_t *at = buffer + g_rand_int_range(random, 0, 64);
        struct iovec iov[5];
        int count = cut(iov, 5, at, size, random);

        if (g_rand_boolean(random)) {
            for (size_t i = 0; i < size; i++)
                at[i] = model[offset + i] = g_rand_int(random);
            assert_int_equal(vblk_disk_write_co(&context, offset, iov, count), 0);
            assert_memory_equal(bytes, model, DISK_BYTES);
        } else {
            memset(at, 0, size);
            assert_int_equal(vblk_disk_read_co(&context, offset, iov, count), 0);
            assert_memory_equal(at, model + offset, size);
        }
    }
    g_free(buffer);
    g_rand_free(random);
}

static void test_what_is_aligned_goes_straight(void **state)
{
    void *buffer = NULL;
    struct iovec iov[2];

    (void)state;
    assert_int_equal(posix_memalign(&buffer, ALIGN, 3 * ALIGN), 0);
    memset(buffer, 0, 3 * ALIGN);
    iov[0] = (struct iovec){ .iov_base = buffer, .iov_len = ALIGN };
    iov[1] = (struct iovec){ .iov_base = (char *)buffer + 2 * ALIGN, .iov_len = ALIGN };
    assert_int_equal(vblk_disk_write_co(&context, ALIGN, iov, 2), 0);
    assert_int_equal(read_count, 0);
    assert_int_equal(write_count, 1);
    /* Aligned on the disk, not in memory: copied, but not read first. */
    iov[0].iov_base = (char *)buffer + 1;
    assert_int_equal(vblk_disk_write_co(&context, ALIGN, iov, 1), 0);
    assert_int_equal(read_count, 0);
    assert_int_equal(vblk_disk_write_co(&context, ALIGN + 512, iov, 1), 0);
    assert_int_equal(read_count, 1);
    free(buffer);
}

static void test_needs_rmw(void **state)
{
    (void)state;
    assert_false(vblk_disk_write_needs_rmw(&disk, 0, ALIGN));
    assert_false(vblk_disk_write_needs_rmw(&disk, 3 * ALIGN, 2 * ALIGN));
    assert_true(vblk_disk_write_needs_rmw(&disk, 512, ALIGN));
    assert_true(vblk_disk_write_needs_rmw(&disk, ALIGN, ALIGN + 512));
    assert_true(vblk_disk_write_needs_rmw(&disk, 0, 512));
}

static void test_errors_come_through(void **state)
{
    uint8_t buffer[512] = { 0 };
    const struct iovec iov = { .iov_base = buffer, .iov_len = sizeof(buffer) };

    (void)state;
    read_result = -EIO;
    assert_int_equal(vblk_disk_read_co(&context, 512, &iov, 1), -EIO);
    /* What could not be read must not be written over. */
    assert_int_equal(vblk_disk_write_co(&context, 512, &iov, 1), -EIO);
    assert_int_equal(write_count, 0);
    read_result = 0;
    write_result = -ENOSPC;
    assert_int_equal(vblk_disk_write_co(&context, 512, &iov, 1), -ENOSPC);
    assert_memory_equal(bytes, model, DISK_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_random_transfers, set_up),
        cmocka_unit_test_setup(test_what_is_aligned_goes_straight, set_up),
        cmocka_unit_test_setup(test_needs_rmw, set_up),
        cmocka_unit_test_setup(test_errors_come_through, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
