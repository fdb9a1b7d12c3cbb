/*
 * Goal:   two writers, or a writer and a reader, never have one image; two readers may.
 * Method: descriptors of one file in this process (the locks belong to open files, so that is as good as two processes),
 *         in every combination and order, and after the first is closed. Against QEMU: integration_vblkd.
 * If it fails: two processes destroy an image, or a disk cannot be shared read-only.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <unistd.h>

#include "disk/backend.h"

static char path[] = "/tmp/vblk-lock-XXXXXX";

static int open_file(bool read_only)
{
    int fd = open(path, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static void test_combinations(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        bool first_reads = i & 1, second_reads = i & 2;
        int first = open_file(first_reads), second = open_file(second_reads), third = open_file(second_reads);

        assert_int_equal(vblk_disk_file_lock(first, first_reads), 0);
        assert_int_equal(vblk_disk_file_lock(second, second_reads), first_reads && second_reads ? 0 : -EAGAIN);
        close(second); /* a refused one holds nothing afterwards */
        close(first);
        assert_int_equal(vblk_disk_file_lock(third, second_reads), 0);
        close(third);
    }
}

static void test_many_readers_keep_a_writer_out(void **state)
{
    int readers[3], writer = open_file(false);

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        readers[i] = open_file(true);
        assert_int_equal(vblk_disk_file_lock(readers[i], true), 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        int refused = open_file(false);

        assert_int_equal(vblk_disk_file_lock(refused, false), -EAGAIN);
        close(refused);
        close(readers[i]);
    }
    assert_int_equal(vblk_disk_file_lock(writer, false), 0);
    close(writer);
}

/* What a process that only asks sees, as QEMU does: bytes 100 + permission are in use, 200 + permission forbidden. */
static bool is_locked(int fd, int byte)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };

    assert_int_equal(fcntl(fd, F_OFD_GETLK, &lock), 0);
    return lock.l_type != F_UNLCK;
}

static void test_bytes(void **state)
{
    int writer = open_file(false), other = open_file(false);

    (void)state;
    assert_int_equal(vblk_disk_file_lock(writer, false), 0);
    assert_true(is_locked(other, 100) && is_locked(other, 101));
    assert_true(is_locked(other, 201) && is_locked(other, 203));
    assert_false(is_locked(other, 200)); /* others may read, as far as we are concerned */
    close(writer);
    close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_many_readers_keep_a_writer_out),
        cmocka_unit_test(test_bytes),
    };
    int result;

    close(mkstemp(path));
    result = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return result;
}
