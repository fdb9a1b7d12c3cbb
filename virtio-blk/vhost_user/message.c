#include "vhost_user/message.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void vhost_user_receiver_init(struct vhost_user_receiver *receiver, int fd)
{
    receiver->fd = fd;
    receiver->have_bytes = 0;
    receiver->message.fd_count = 0;
}

int vhost_user_receiver_has_header(const struct vhost_user_receiver *receiver)
{
    return receiver->have_bytes >= sizeof receiver->message.header;
}

void vhost_user_receiver_next(struct vhost_user_receiver *receiver)
{
    for (unsigned i = 0; i < receiver->message.fd_count; i++)
        if (receiver->message.fds[i] >= 0)
            close(receiver->message.fds[i]);
    vhost_user_receiver_init(receiver, receiver->fd);
}

int vhost_user_message_take_fd(struct vhost_user_message *message, unsigned index)
{
    assert(index < message->fd_count);
    int fd = message->fds[index];
    message->fds[index] = -1;
    return fd;
}

/* Keep what came with the bytes just read. -EPROTO if that is more than a message may have. */
static int take_descriptors(struct vhost_user_message *message, struct msghdr *from)
{
    int error = from->msg_flags & MSG_CTRUNC ? -EPROTO : 0;
    for (struct cmsghdr *control = CMSG_FIRSTHDR(from); control; control = CMSG_NXTHDR(from, control)) {
        if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(control) + i * sizeof fd, sizeof fd);
            if (message->fd_count < VHOST_USER_FDS_MAX) {
                message->fds[message->fd_count++] = fd;
            } else {
                close(fd);
                error = -EPROTO;
            }
        }
    }
    return error;
}

/* Read up to @size_bytes, never past the message: the kernel keeps descriptors with the bytes they were sent with. */
static int receive_some(struct vhost_user_receiver *receiver, void *to, size_t size_bytes)
{
    union {
        /* Credentials come too if whoever handed us the socket asked for them. */
        char bytes[CMSG_SPACE(VHOST_USER_FDS_MAX * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control;
    struct iovec iov = { to, size_bytes };
    struct msghdr from = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes
    };
    ssize_t got;
    do
        got = recvmsg(receiver->fd, &from, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    int error = take_descriptors(&receiver->message, &from);
    if (error)
        return error;
    if (got == 0)
        return receiver->have_bytes || receiver->message.fd_count ? -ECONNRESET : 0;
    receiver->have_bytes += (size_t)got;
    return 1;
}

static int check_header(const struct vhost_user_header *header)
{
    if ((header->flags & VHOST_USER_VERSION_MASK) != VHOST_USER_VERSION || header->flags & VHOST_USER_REPLY)
        return -EPROTO;
    return header->size_bytes > VHOST_USER_PAYLOAD_BYTES_MAX ? -EMSGSIZE : 0;
}

int vhost_user_receive(struct vhost_user_receiver *receiver)
{
    struct vhost_user_message *message = &receiver->message;
    for (;;) {
        size_t have = receiver->have_bytes;
        int got;
        if (have < sizeof message->header) {
            got = receive_some(receiver, (uint8_t *)&message->header + have, sizeof message->header - have);
        } else {
            int error = check_header(&message->header);
            if (error)
                return error;
            have -= sizeof message->header;
            if (have == message->header.size_bytes)
                return 1;
            got = receive_some(receiver, message->payload.bytes + have, message->header.size_bytes - have);
        }
        if (got != 1)
            return got;
    }
}

void vhost_user_sender_init(struct vhost_user_sender *sender, int fd, const struct vhost_user_header *request,
                            const void *payload, size_t size_bytes)
{
    assert(size_bytes <= sizeof sender->reply.payload);
    sender->fd = fd;
    sender->attached_fd = -1;
    sender->sent_bytes = 0;
    sender->size_bytes = sizeof sender->reply.header + size_bytes;
    sender->reply.header = (struct vhost_user_header){ .request = request->request,
                                                       .flags = VHOST_USER_VERSION | VHOST_USER_REPLY,
                                                       .size_bytes = (uint32_t)size_bytes };
    memcpy(sender->reply.payload, payload, size_bytes);
}

static ssize_t send_with_fd(const struct vhost_user_sender *sender)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = { 0 };
    struct iovec iov = { (void *)(uintptr_t)&sender->reply, sender->size_bytes };
    struct msghdr to = { .msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes };
    struct cmsghdr *header = CMSG_FIRSTHDR(&to);
    *header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
                                .cmsg_level = SOL_SOCKET,
                                .cmsg_type = SCM_RIGHTS };
    memcpy(CMSG_DATA(header), &sender->attached_fd, sizeof(int));
    return sendmsg(sender->fd, &to, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int vhost_user_send(struct vhost_user_sender *sender)
{
    while (sender->sent_bytes < sender->size_bytes) {
        ssize_t sent = sender->attached_fd >= 0 && !sender->sent_bytes
                           ? send_with_fd(sender)
                           : send(sender->fd, (uint8_t *)&sender->reply + sender->sent_bytes,
                                  sender->size_bytes - sender->sent_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return errno == EWOULDBLOCK ? -EAGAIN : -errno;
        if (sent > 0)
            sender->sent_bytes += (size_t)sent;
    }
    return 1;
}
