/*
 * Goal:   exactly the bytes that were asked for are mapped, and what cannot be mapped safely is refused with the reason.
 * Method: a file with a pattern, ranges at odd offsets, ranges past its end, sums that overflow, descriptors that are no
 *         memory; then the file is cut under the mapping.
 * Broken: the device reads and writes at another place than the front end meant, or a front end kills it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>

#include "vhost_user/shared_mapping.h"

#define PAGE 4096
#define FILE_BYTES (4 * PAGE)

static struct sigaction ours; /* cmocka puts its own handler in its place for each test */

static int make_file(void)
{
    int fd = memfd_create("shared", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
    for (unsigned i = 0; i < FILE_BYTES; i++) {
        uint8_t byte = (uint8_t)(i / 7);
        assert_int_equal(pwrite(fd, &byte, 1, i), 1);
    }
    return fd;
}

static void maps_what_was_asked_for(void **state)
{
    static const struct {
        uint64_t offset_bytes, size_bytes;
    } ranges[] = { { 0, FILE_BYTES }, { 0, 1 }, { 1, 1 }, { PAGE - 1, 2 }, { PAGE, PAGE }, { FILE_BYTES - 1, 1 } };
    int fd = make_file();
    for (unsigned i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        struct vhost_user_shared_mapping mapping;
        _Atomic bool broken = false;
        const char *reason = NULL;
        uint64_t offset = ranges[i].offset_bytes, size = ranges[i].size_bytes;
        assert_int_equal(vhost_user_shared_mapping_create(&mapping, fd, offset, size, &broken, &reason), 0);
        assert_int_equal(mapping.bytes[0], (uint8_t)(offset / 7));
        assert_int_equal(mapping.bytes[size - 1], (uint8_t)((offset + size - 1) / 7));
        vhost_user_shared_mapping_destroy(&mapping);
        assert_null(mapping.bytes);
        vhost_user_shared_mapping_destroy(&mapping); /* nothing is mapped: fine */
        assert_false(broken);
    }
    close(fd);
}

static void refuses_what_is_no_such_memory(void **state)
{
    int file = make_file(), read_only, event = eventfd(0, 0), epoll = epoll_create1(0), ends[2],
        directory = open("/tmp", O_RDONLY);
    char path[64];
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    read_only = open(path, O_RDONLY);
    const struct {
        int fd;
        uint64_t offset_bytes, size_bytes;
        int error;
        const char *reason;
    } cases[] = {
        { file, 0, FILE_BYTES + 1, -EINVAL, "it ends past the end of its file" },
        { file, FILE_BYTES, 1, -EINVAL, "it ends past the end of its file" },
        { file, UINT64_MAX, 2, -EINVAL, "its offset and size overflow" },
        { file, 1, UINT64_MAX, -EINVAL, "its offset and size overflow" },
        { file, INT64_MAX, 1, -EINVAL, "its offset and size overflow" },
        { event, 0, 8, -EINVAL, "it ends past the end of its file" },
        { epoll, 0, 8, -EINVAL, "it ends past the end of its file" },
        { ends[0], 0, 8, -EINVAL, "its descriptor is no memory" },
        { directory, 0, 1, -EINVAL, "its descriptor is no memory" },
        { read_only, 0, 8, -EACCES, "it cannot be mapped" },
        { -1, 0, 8, -EBADF, "its descriptor cannot be examined" },
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct vhost_user_shared_mapping mapping = { 0 };
        _Atomic bool broken = false;
        const char *reason = NULL;
        int error = vhost_user_shared_mapping_create(&mapping, cases[i].fd, cases[i].offset_bytes,
                                                     cases[i].size_bytes, &broken, &reason);
        /* Anonymous inodes are files of size 0 to some kernels and no files to others. */
        if (cases[i].fd == event || cases[i].fd == epoll) {
            assert_int_equal(error, -EINVAL);
            continue;
        }
        if (error != cases[i].error || strcmp(reason, cases[i].reason) != 0)
            fail_msg("case %u: %d, %s", i, error, reason);
        assert_null(mapping.bytes);
    }
    close(file);
    close(read_only);
    close(event);
    close(epoll);
    close(ends[0]);
    close(ends[1]);
    close(directory);
}

static void a_file_that_shrinks_is_told(void **state)
{
    sigaction(SIGBUS, &ours, NULL);
    int fd = make_file();
    struct vhost_user_shared_mapping mapping;
    _Atomic bool broken = false;
    const char *reason = NULL;
    assert_int_equal(vhost_user_shared_mapping_create(&mapping, fd, 10, 2 * PAGE, &broken, &reason), 0);
    assert_int_equal(ftruncate(fd, PAGE), 0);
    assert_int_equal(*(volatile uint8_t *)&mapping.bytes[0], 10 / 7);
    assert_false(broken);
    assert_int_equal(*(volatile uint8_t *)&mapping.bytes[PAGE], 0);
    assert_true(broken);
    vhost_user_shared_mapping_destroy(&mapping);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_what_was_asked_for),
        cmocka_unit_test(refuses_what_is_no_such_memory),
        cmocka_unit_test(a_file_that_shrinks_is_told),
    };
    struct vhost_user_shared_mapping mapping;
    _Atomic bool broken = false;
    const char *reason;
    int fd = make_file();
    /* The first one installs the handler of SIGBUS. */
    if (vhost_user_shared_mapping_create(&mapping, fd, 0, 1, &broken, &reason) != 0)
        return 1;
    vhost_user_shared_mapping_destroy(&mapping);
    close(fd);
    sigaction(SIGBUS, NULL, &ours);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
