#include "fe_control.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front_end_state.h"

int fe_memory_slots(struct front_end *fe, uint64_t *count_out)
{
    return fe_get(fe, WIRE_GET_MAX_MEM_SLOTS, NULL, 0, count_out, sizeof(*count_out));
}

static int send_slot(struct front_end *fe, uint32_t request, const struct wire_memory_region *region, int fd)
{
    struct wire_memory_slot slot = { .region = *region };
    return fe_set(fe, request, &slot, sizeof(slot), &fd, fd >= 0 ? 1 : 0);
}

int fe_add_memory(struct front_end *fe, const struct wire_memory_region *region, int fd)
{
    return send_slot(fe, WIRE_ADD_MEM_REG, region, fd);
}

int fe_remove_memory(struct front_end *fe, const struct wire_memory_region *region, int fd)
{
    return send_slot(fe, WIRE_REM_MEM_REG, region, fd);
}

int fe_set_status(struct front_end *fe, uint64_t status)
{
    return fe_set(fe, WIRE_SET_STATUS, &status, sizeof(status), NULL, 0);
}

int fe_get_status(struct front_end *fe, uint64_t *status_out)
{
    return fe_get(fe, WIRE_GET_STATUS, NULL, 0, status_out, sizeof(*status_out));
}

int fe_reset_device(struct front_end *fe)
{
    return fe_set(fe, WIRE_RESET_DEVICE, NULL, 0, NULL, 0);
}

int fe_write_config(struct front_end *fe, uint32_t offset, uint8_t value, enum wire_config_writer writer)
{
    struct {
        struct wire_config_header header;
        uint8_t value;
    } message = { .header = { .offset = offset, .size = 1, .flags = writer }, .value = value };
    return fe_set(fe, WIRE_SET_CONFIG, &message, sizeof(message.header) + 1, NULL, 0);
}

int fe_open_backend_channel(struct front_end *fe)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return fe_fail(fe, -errno, "cannot make a socket: %s (raise the limit of open files)", g_strerror(errno));
    int rc = fe_set(fe, WIRE_SET_BACKEND_REQ_FD, NULL, 0, &ends[1], 1);
    close(ends[1]);
    if (rc < 0) {
        close(ends[0]);
        return rc;
    }
    if (fe->backend_channel >= 0)
        close(fe->backend_channel);
    fe->backend_channel = ends[0];
    return 0;
}

int fe_backend_channel(const struct front_end *fe)
{
    return fe->backend_channel;
}

int fe_backend_receive(struct front_end *fe, int timeout_ms, uint64_t verdict, struct wire_header *header_out)
{
    struct wire_header answer;
    uint8_t bytes[sizeof(answer) + sizeof(verdict)];
    struct pollfd ready = { .fd = fe->backend_channel, .events = POLLIN };
    if (poll(&ready, 1, timeout_ms) == 0)
        return fe_fail(fe, -ETIMEDOUT, "the server says nothing on its channel within %d ms", timeout_ms);
    /* Messages of servers have no payload here, and a header is written at once. */
    ssize_t got = recv(fe->backend_channel, header_out, sizeof(*header_out), 0);
    if (got == 0 || (got < 0 && errno == ECONNRESET))
        return fe_fail(fe, -ECONNRESET, "the server closed its channel (its log says why)");
    if (got != sizeof(*header_out) || header_out->size != 0 || (header_out->flags & 3) != WIRE_VERSION ||
        header_out->flags & WIRE_REPLY)
        return fe_fail(fe, -EPROTO, "the server's channel does not speak vhost-user");
    if (!(header_out->flags & WIRE_NEED_REPLY))
        return 0;
    answer = (struct wire_header){ .request = header_out->request,
                                   .flags = WIRE_VERSION | WIRE_REPLY,
                                   .size = sizeof(verdict) };
    memcpy(bytes, &answer, sizeof(answer));
    memcpy(bytes + sizeof(answer), &verdict, sizeof(verdict));
    if (send(fe->backend_channel, bytes, sizeof(bytes), MSG_NOSIGNAL) != (ssize_t)sizeof(bytes))
        return fe_fail(fe, -ECONNRESET, "the server closed its channel before it had its answer");
    return 0;
}
