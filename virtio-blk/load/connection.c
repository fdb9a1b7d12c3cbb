/* The front end's socket: connecting, sending and receiving messages with descriptors. */
#include "front_end_state.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int fe_fail(struct front_end *fe, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int used = g_snprintf(fe->error, sizeof(fe->error), "%s: ", fe->socket_path);
    if (used > 0 && (size_t)used < sizeof(fe->error))
        g_vsnprintf(fe->error + used, sizeof(fe->error) - used, format, arguments);
    va_end(arguments);
    return error;
}

const char *fe_request_name(uint32_t request)
{
    static __thread char unknown[32];
    static const char *const names[] = {
        [WIRE_GET_FEATURES] = "GET_FEATURES",
        [WIRE_SET_FEATURES] = "SET_FEATURES",
        [WIRE_SET_OWNER] = "SET_OWNER",
        [WIRE_RESET_OWNER] = "RESET_OWNER",
        [WIRE_SET_MEM_TABLE] = "SET_MEM_TABLE",
        [WIRE_SET_LOG_BASE] = "SET_LOG_BASE",
        [WIRE_SET_LOG_FD] = "SET_LOG_FD",
        [WIRE_SET_VRING_NUM] = "SET_VRING_NUM",
        [WIRE_SET_VRING_ADDR] = "SET_VRING_ADDR",
        [WIRE_SET_VRING_BASE] = "SET_VRING_BASE",
        [WIRE_GET_VRING_BASE] = "GET_VRING_BASE",
        [WIRE_SET_VRING_KICK] = "SET_VRING_KICK",
        [WIRE_SET_VRING_CALL] = "SET_VRING_CALL",
        [WIRE_SET_VRING_ERR] = "SET_VRING_ERR",
        [WIRE_GET_PROTOCOL_FEATURES] = "GET_PROTOCOL_FEATURES",
        [WIRE_SET_PROTOCOL_FEATURES] = "SET_PROTOCOL_FEATURES",
        [WIRE_GET_QUEUE_NUM] = "GET_QUEUE_NUM",
        [WIRE_SET_VRING_ENABLE] = "SET_VRING_ENABLE",
        [WIRE_SET_BACKEND_REQ_FD] = "SET_BACKEND_REQ_FD",
        [WIRE_GET_CONFIG] = "GET_CONFIG",
        [WIRE_SET_CONFIG] = "SET_CONFIG",
        [WIRE_GET_INFLIGHT_FD] = "GET_INFLIGHT_FD",
        [WIRE_SET_INFLIGHT_FD] = "SET_INFLIGHT_FD",
        [WIRE_RESET_DEVICE] = "RESET_DEVICE",
        [WIRE_GET_MAX_MEM_SLOTS] = "GET_MAX_MEM_SLOTS",
        [WIRE_ADD_MEM_REG] = "ADD_MEM_REG",
        [WIRE_REM_MEM_REG] = "REM_MEM_REG",
        [WIRE_SET_STATUS] = "SET_STATUS",
        [WIRE_GET_STATUS] = "GET_STATUS",
    };
    if (request < G_N_ELEMENTS(names) && names[request])
        return names[request];
    g_snprintf(unknown, sizeof(unknown), "message %u", request);
    return unknown;
}

int fe_connect(struct front_end *fe)
{
    if (fe->options.fd >= 0) {
        fe->socket = fe->options.fd;
        return 0;
    }
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(fe->socket_path) >= sizeof(address.sun_path))
        return fe_fail(fe, -ENAMETOOLONG,
                       "cannot connect: a socket's path has at most %zu characters (use a shorter path)",
                       sizeof(address.sun_path) - 1);
    strcpy(address.sun_path, fe->socket_path);
    fe->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fe->socket < 0)
        return fe_fail(fe, -errno, "cannot make a socket: %s", g_strerror(errno));
    if (connect(fe->socket, (struct sockaddr *)&address, sizeof(address)) < 0) {
        int error = errno;
        const char *remedy = error == EACCES ? "check the socket's owner and mode"
                             : error == ENOTSOCK || error == EPROTOTYPE
                                 ? "name the server's stream socket"
                                 : "is the server running with this path?";
        return fe_fail(fe, -error, "cannot connect: %s (%s)", g_strerror(error), remedy);
    }
    return 0;
}

int fe_send_bytes(struct front_end *fe, const void *bytes, size_t size_bytes, const int *fds,
                  unsigned fd_count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 64)];
    } control = { 0 };
    struct iovec part = { .iov_base = (void *)bytes, .iov_len = size_bytes };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    if (fd_count > 64)
        return fe_fail(fe, -EINVAL, "cannot send %u descriptors at once", fd_count);
    if (fd_count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(header), fds, sizeof(int) * fd_count);
    }
    while (part.iov_len > 0) {
        ssize_t sent = sendmsg(fe->socket, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            int error = errno == EPIPE ? ECONNRESET : errno;
            return fe_fail(fe, -error, "cannot send: %s (did the server end? its log says why)",
                           g_strerror(error));
        }
        part.iov_base = (char *)part.iov_base + sent;
        part.iov_len -= sent;
        message.msg_control = NULL; /* descriptors travel with the first byte */
        message.msg_controllen = 0;
    }
    return 0;
}

int fe_send(struct front_end *fe, uint32_t request, uint32_t flags, const void *payload, uint32_t size_bytes,
            const int *fds, unsigned fd_count)
{
    g_autofree uint8_t *bytes = g_malloc(sizeof(struct wire_header) + size_bytes);
    struct wire_header header = { .request = request, .flags = flags | WIRE_VERSION, .size = size_bytes };
    memcpy(bytes, &header, sizeof(header));
    if (size_bytes > 0)
        memcpy(bytes + sizeof(header), payload, size_bytes);
    return fe_send_bytes(fe, bytes, sizeof(header) + size_bytes, fds, fd_count);
}

/* Fill @bytes completely; descriptors that come along are added to @message. */
static int recv_bytes(struct front_end *fe, void *bytes, size_t size_bytes, struct fe_message *message)
{
    uint8_t *to = bytes;
    gint64 end_us = g_get_monotonic_time() + (gint64)fe->options.timeout_ms * 1000;
    while (size_bytes > 0) {
        struct pollfd ready = { .fd = fe->socket, .events = POLLIN };
        gint64 left_us = end_us - g_get_monotonic_time();
        int count = poll(&ready, 1, left_us > 0 ? (int)(left_us / 1000) + 1 : 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return fe_fail(fe, -errno, "cannot wait for the server: %s", g_strerror(errno));
        if (count == 0)
            return -ETIMEDOUT;

        union {
            struct cmsghdr align;
            char bytes[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
        } control;
        struct iovec part = { .iov_base = to, .iov_len = size_bytes };
        struct msghdr header = { .msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof(control.bytes) };
        ssize_t got = recvmsg(fe->socket, &header, MSG_CMSG_CLOEXEC);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return -ECONNRESET;
        if (got < 0)
            return fe_fail(fe, -errno, "cannot receive: %s", g_strerror(errno));
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c)) {
            if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                continue;
            unsigned fd_count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (unsigned i = 0; i < fd_count; i++) {
                int fd;
                memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
                if (message->fd_count < WIRE_FDS_MAX)
                    message->fds[message->fd_count++] = fd;
                else
                    close(fd);
            }
        }
        to += got;
        size_bytes -= got;
    }
    return 0;
}

static void close_fds(struct fe_message *message)
{
    for (unsigned i = 0; i < message->fd_count; i++)
        close(message->fds[i]);
    message->fd_count = 0;
}

int fe_recv(struct front_end *fe, struct fe_message *message)
{
    message->fd_count = 0;
    int rc = recv_bytes(fe, &message->header, sizeof(message->header), message);
    if (rc == 0 && message->header.size > sizeof(message->payload))
        rc = fe_fail(fe, -EPROTO, "the server announces a message of %u bytes (is this a vhost-user socket?)",
                     message->header.size);
    if (rc == 0)
        rc = recv_bytes(fe, message->payload, message->header.size, message);
    if (rc == -ETIMEDOUT)
        fe_fail(fe, rc,
                "the server does not answer within %d ms (is it hung, or busy with another front end?)",
                fe->options.timeout_ms);
    if (rc == -ECONNRESET)
        fe_fail(fe, rc, "the server closed the connection (its log says why)");
    if (rc < 0)
        close_fds(message);
    return rc;
}

/* Receive the answer to @request and see that it is one. */
static int recv_answer(struct front_end *fe, uint32_t request, struct fe_message *answer)
{
    int rc = fe_recv(fe, answer);
    if (rc == -ETIMEDOUT)
        return fe_fail(
            fe, rc,
            "the server does not answer %s within %d ms (is it hung, or busy with another front end?)",
            fe_request_name(request), fe->options.timeout_ms);
    if (rc == -ECONNRESET)
        return fe_fail(fe, rc, "the server closed the connection at %s (its log says why)",
                       fe_request_name(request));
    if (rc < 0)
        return rc;
    if (answer->header.request != request || !(answer->header.flags & WIRE_REPLY) ||
        (answer->header.flags & 3) != WIRE_VERSION) {
        g_autofree char *got = g_strdup(fe_request_name(answer->header.request));
        close_fds(answer);
        return fe_fail(fe, -EPROTO, "the answer to %s is %s with flags %#x (is this a vhost-user socket?)",
                       fe_request_name(request), got, answer->header.flags);
    }
    return 0;
}

int fe_get(struct front_end *fe, uint32_t request, const void *payload, uint32_t size_bytes, void *answer_out,
           uint32_t answer_bytes)
{
    return fe_get_fd(fe, request, payload, size_bytes, answer_out, answer_bytes, NULL);
}

int fe_get_fd(struct front_end *fe, uint32_t request, const void *payload, uint32_t size_bytes, void *answer_out,
              uint32_t answer_bytes, int *fd_out)
{
    struct fe_message answer;
    int rc = fe_send(fe, request, 0, payload, size_bytes, NULL, 0);
    if (rc == 0)
        rc = recv_answer(fe, request, &answer);
    if (rc < 0)
        return rc;
    if (fd_out && answer.fd_count != 1) {
        close_fds(&answer);
        return fe_fail(fe, -EPROTO, "the answer to %s has %u descriptors instead of 1 (a fault of the server)",
                       fe_request_name(request), answer.fd_count);
    }
    if (fd_out && answer.header.size == answer_bytes)
        *fd_out = answer.fds[--answer.fd_count];
    close_fds(&answer);
    if (answer.header.size != answer_bytes)
        return fe_fail(fe, -EPROTO,
                       "the answer to %s has %u bytes instead of %u (the server does not support it so)",
                       fe_request_name(request), answer.header.size, answer_bytes);
    memcpy(answer_out, answer.payload, answer_bytes);
    return 0;
}

int fe_set(struct front_end *fe, uint32_t request, const void *payload, uint32_t size_bytes, const int *fds,
           unsigned fd_count)
{
    bool acknowledged = fe_has(fe->info.protocol_features, WIRE_P_REPLY_ACK);
    int rc = fe_send(fe, request, acknowledged ? WIRE_NEED_REPLY : 0, payload, size_bytes, fds, fd_count);
    if (rc < 0 || !acknowledged)
        return rc;

    struct fe_message answer;
    uint64_t verdict;
    rc = recv_answer(fe, request, &answer);
    if (rc < 0)
        return rc;
    close_fds(&answer);
    if (answer.header.size != sizeof(verdict))
        return fe_fail(fe, -EPROTO, "the acknowledgement of %s has %u bytes instead of 8",
                       fe_request_name(request), answer.header.size);
    memcpy(&verdict, answer.payload, sizeof(verdict));
    if (verdict != 0)
        return fe_fail(fe, -EREMOTEIO, "the server refuses %s (its log says why)", fe_request_name(request));
    return 0;
}

bool fe_gone(const struct front_end *fe)
{
    char byte;
    ssize_t got = recv(fe->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}
