#include "front_end_wire.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FDS_MAX 32

static void must(bool condition, const char *what)
{
    if (!condition) {
        perror(what);
        abort();
    }
}

bool wire_send_bytes(int fd, const void *bytes, size_t size_bytes, const int *fds, unsigned fd_count)
{
    union {
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control = { 0 };
    struct iovec iov = { (void *)(uintptr_t)bytes, size_bytes };
    struct msghdr to = { .msg_iov = &iov, .msg_iovlen = 1 };
    must(fd_count <= FDS_MAX, "too many descriptors for the test");
    if (fd_count) {
        to.msg_control = control.bytes;
        to.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&to);
        *header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(fd_count * sizeof(int)),
                                    .cmsg_level = SOL_SOCKET,
                                    .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
    }
    ssize_t sent = sendmsg(fd, &to, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
        return false;
    must(sent == (ssize_t)size_bytes, "sendmsg");
    return true;
}

bool wire_send(int fd, uint32_t request, uint32_t flags, const void *payload, uint32_t size_bytes,
               const int *fds, unsigned fd_count)
{
    struct vhost_user_header header = { request, flags, size_bytes };
    uint8_t bytes[sizeof header + 8192];
    must(size_bytes <= 8192, "too large for the test");
    memcpy(bytes, &header, sizeof header);
    if (size_bytes)
        memcpy(bytes + sizeof header, payload, size_bytes);
    return wire_send_bytes(fd, bytes, sizeof header + size_bytes, fds, fd_count);
}

static bool read_all(int fd, void *to, size_t size_bytes)
{
    while (size_bytes) {
        ssize_t got = read(fd, to, size_bytes);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return false;
        must(got > 0, "read");
        to = (uint8_t *)to + got;
        size_bytes -= (size_t)got;
    }
    return true;
}

int wire_receive(int fd, uint32_t *request_out, void *payload_out)
{
    struct vhost_user_header header;
    if (!read_all(fd, &header, sizeof header))
        return -1;
    must(header.flags == (VHOST_USER_VERSION | VHOST_USER_REPLY), "a reply's flags");
    must(header.size_bytes <= sizeof(struct vhost_user_config), "a reply's size");
    *request_out = header.request;
    return read_all(fd, payload_out, header.size_bytes) ? (int)header.size_bytes : -1;
}

int64_t wire_ask(int fd, uint32_t request, const void *payload, uint32_t size_bytes, const int *fds,
                 unsigned fd_count)
{
    struct vhost_user_config reply;
    uint32_t answered;
    uint64_t value;
    if (!wire_send(fd, request, WIRE_ACK, payload, size_bytes, fds, fd_count))
        return -1;
    if (wire_receive(fd, &answered, &reply) < 0)
        return -1;
    must(answered == request, "an answer to another question");
    memcpy(&value, &reply, sizeof value);
    return (int64_t)value;
}

void wire_negotiate(int fd, uint64_t features)
{
    uint64_t protocol = (uint64_t)wire_ask(fd, VHOST_USER_GET_PROTOCOL_FEATURES, NULL, 0, NULL, 0);
    must(protocol >> VHOST_USER_PROTOCOL_F_REPLY_ACK & 1, "REPLY_ACK");
    must(wire_ask(fd, VHOST_USER_SET_PROTOCOL_FEATURES, &protocol, sizeof protocol, NULL, 0) == 0,
         "protocol features");
    features |= UINT64_C(1) << VHOST_USER_F_PROTOCOL_FEATURES;
    must(wire_ask(fd, VHOST_USER_SET_FEATURES, &features, sizeof features, NULL, 0) == 0, "features");
}

bool wire_ended(int fd)
{
    char byte;
    ssize_t got = read(fd, &byte, 1);
    return got == 0 || (got < 0 && errno == ECONNRESET);
}

unsigned wire_count_fds(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;
    must(directory, "/proc/self/fd");
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}
