#include "kinds.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int one_of(int ends[2], unsigned keep)
{
    close(ends[!keep]);
    return ends[keep];
}

static int open_memory(void)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC);

    if (ftruncate(fd, 1 << 20) != 0)
        return -1;
    return fd;
}

int kind_open(char kind, const struct front_end *fe)
{
    int ends[2], fd, again;
    char path[64];
    FILE *file;

    switch (kind) {
    case 'e':
        return eventfd(0, EFD_CLOEXEC);
    case 'E':
        fd = eventfd(0, EFD_CLOEXEC);
        return eventfd_write(fd, UINT64_MAX - 1) == 0 ? fd : -1;
    case 'p':
        return pipe2(ends, O_CLOEXEC) == 0 ? one_of(ends, 0) : -1;
    case 'P':
        return pipe2(ends, O_CLOEXEC) == 0 ? one_of(ends, 1) : -1;
    case 'f':
        file = tmpfile();
        fd = dup(fileno(file));
        fclose(file);
        return ftruncate(fd, 4096) == 0 ? fd : -1;
    case 'd':
        return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    case 'o':
        return epoll_create1(EPOLL_CLOEXEC);
    case 's':
        return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 ? one_of(ends, 0) : -1;
    case 'm':
        return open_memory();
    case 'r':
        fd = open_memory();
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        again = open(path, O_RDONLY | O_CLOEXEC);
        close(fd);
        return again;
    case 'z':
        return open("/dev/zero", O_RDWR | O_CLOEXEC);
    case 'n':
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    case 't':
        return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    case 'u':
        return dup(fe_socket(fe));
    case 'w':
        if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0)
            return -1;
        if (send(ends[1], "12345678", 8, 0) != 8)
            return -1;
        return one_of(ends, 0);
    default:
        return -1;
    }
}
