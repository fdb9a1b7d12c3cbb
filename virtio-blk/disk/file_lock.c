/*
 * Image locks that QEMU understands. QEMU takes shared OFD locks on single bytes: byte 100 + i says "I use
 * permission i", byte 200 + i says "nobody else may use permission i". After taking its own, each side asks for the
 * opposite bytes of the others. Permissions that matter here: 0 read, 1 write, 3 resize.
 * Source: observed on qemu-storage-daemon, and its documentation of image locking.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#include "disk/backend.h"

#define RETRY_PAUSE_NS (10 * 1000000)
#define RETRIES 50

enum { USES = 100, FORBIDS = 200 };
enum { READ = 0, WRITE = 1, RESIZE = 3 };

static struct flock byte_lock(int base, int permission, short type)
{
    return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = base + permission, .l_len = 1 };
}

static int hold(int fd, int base, int permission)
{
    struct flock lock = byte_lock(base, permission, F_RDLCK);

    return fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : -errno;
}

static int held_by_others(int fd, int base, int permission)
{
    struct flock lock = byte_lock(base, permission, F_WRLCK);

    if (fcntl(fd, F_OFD_GETLK, &lock) != 0)
        return -errno;
    return lock.l_type == F_UNLCK ? 0 : -EAGAIN;
}

static int take_and_ask(int fd, bool read_only)
{
    /* Taken first, asked for afterwards: of two that start together at least one sees the other. */
    const struct {
        int base, permission;
        bool asked;
        bool writer_only;
    } steps[] = {
        { USES, READ, false, false },     { USES, WRITE, false, true },    { FORBIDS, WRITE, false, false },
        { FORBIDS, RESIZE, false, false }, { FORBIDS, READ, true, false },  { FORBIDS, WRITE, true, true },
        { USES, WRITE, true, false },     { USES, RESIZE, true, false },
    };

    for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        int error;

        if (steps[i].writer_only && read_only)
            continue;
        error = steps[i].asked ? held_by_others(fd, steps[i].base, steps[i].permission)
                               : hold(fd, steps[i].base, steps[i].permission);
        if (error < 0)
            return error == -EACCES ? -EAGAIN : error;
    }
    return 0;
}

int vblk_disk_file_try_lock(int fd, bool read_only)
{
    int error = take_and_ask(fd, read_only);

    if (error < 0)
        vblk_disk_file_unlock(fd); /* or two that start together would keep each other out */
    return error;
}

int vblk_disk_file_lock(int fd, bool read_only)
{
    const struct timespec pause = { .tv_nsec = RETRY_PAUSE_NS };
    int error = vblk_disk_file_try_lock(fd, read_only);

    /* A killed process's io_uring lets its files go a moment after the process is gone. */
    for (unsigned i = 0; error == -EAGAIN && i < RETRIES; i++) {
        (void)nanosleep(&pause, NULL);
        error = vblk_disk_file_try_lock(fd, read_only);
    }
    return error;
}

void vblk_disk_file_unlock(int fd)
{
    struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = USES, .l_len = 2 * (FORBIDS - USES) };

    (void)fcntl(fd, F_OFD_SETLK, &all);
}
