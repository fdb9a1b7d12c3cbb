#include "vhost_user/backend_channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int vhost_user_backend_channel_check(int fd)
{
    int domain = 0, type = 0;
    socklen_t size = sizeof domain;
    struct sockaddr_storage peer;
    socklen_t peer_bytes = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0)
        return -errno;
    if (domain != AF_UNIX || type != SOCK_STREAM)
        return -EINVAL;
    if (getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) < 0)
        return -errno;
    /* One end of a pair has no name. What was connected to a path may be the front end's own end of the connection: kept
     * open here, it would hide for ever that the front end has left. */
    return peer_bytes > sizeof peer.ss_family ? -EINVAL : 0;
}

void vhost_user_backend_channel_open(struct vhost_user_backend_channel *channel, int fd)
{
    channel->fd = fd;
    channel->unanswered = 0;
    channel->have_bytes = 0;
}

void vhost_user_backend_channel_close(struct vhost_user_backend_channel *channel)
{
    if (channel->fd >= 0)
        close(channel->fd);
    channel->fd = -1;
}

int vhost_user_backend_channel_tell(struct vhost_user_backend_channel *channel, bool asks)
{
    const struct vhost_user_header message = {
        .request = VHOST_USER_BACKEND_CONFIG_CHANGE_MSG,
        .flags = VHOST_USER_VERSION | (asks ? VHOST_USER_NEED_REPLY : 0),
    };
    ssize_t sent;
    if (channel->fd < 0)
        return -ENOTCONN;
    do
        sent = send(channel->fd, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    /* The kernel takes so few bytes as a whole or not at all. */
    if (sent != (ssize_t)sizeof message)
        return -EPROTO;
    channel->unanswered += asks;
    return 0;
}

int vhost_user_backend_channel_receive(struct vhost_user_backend_channel *channel, uint64_t *verdict_out)
{
    const struct vhost_user_header *header = &channel->answer.header;
    size_t size_bytes = sizeof channel->answer;
    while (channel->have_bytes < size_bytes) {
        /* Without room for descriptors the kernel closes what comes along. */
        ssize_t got = recv(channel->fd, (uint8_t *)&channel->answer + channel->have_bytes,
                           size_bytes - channel->have_bytes, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno == EWOULDBLOCK ? -EAGAIN : -errno;
        if (got == 0)
            return channel->have_bytes ? -ECONNRESET : 0;
        channel->have_bytes += (size_t)got;
    }
    channel->have_bytes = 0;
    if (!channel->unanswered || header->request != VHOST_USER_BACKEND_CONFIG_CHANGE_MSG ||
        (header->flags & (VHOST_USER_VERSION_MASK | VHOST_USER_REPLY)) != (VHOST_USER_VERSION | VHOST_USER_REPLY) ||
        header->size_bytes != sizeof *verdict_out)
        return -EPROTO;
    channel->unanswered--;
    memcpy(verdict_out, channel->answer.verdict, sizeof *verdict_out);
    return 1;
}
