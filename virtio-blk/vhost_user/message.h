/**
 * One vhost-user message on a stream socket: whole, with its descriptors, or an error.
 *
 *     struct vhost_user_receiver receiver;
 *     vhost_user_receiver_init(&receiver, fd);
 *     while ((got = vhost_user_receive(&receiver)) == -EAGAIN)
 *         wait until fd is readable;
 *     if (got == 1) { use receiver.message; take fds out of it }
 *     vhost_user_receiver_next(&receiver);             // closes what was not taken
 *
 * A message may come byte by byte and its descriptors with any of its bytes. None is ever leaked: what arrives is in
 * message.fds, or closed.
 *
 * Thread:    one at a time. Never blocks.
 */
#ifndef VHOST_USER_MESSAGE_H
#define VHOST_USER_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "vhost_user/protocol.h"

/** The specification's largest number: one a region. */
#define VHOST_USER_FDS_MAX VHOST_USER_TABLE_REGIONS_MAX
/**
 * Payloads up to here are read, so that a message that is not known, or too long for what it is, can be refused and
 * the next one understood. One that says it is longer ends the connection.
 */
#define VHOST_USER_PAYLOAD_BYTES_MAX 4096

struct vhost_user_message {
    struct vhost_user_header header;
    union {
        uint64_t u64;
        struct vhost_user_vring_state state;
        struct vhost_user_log log;
        struct vhost_user_vring_address address;
        struct vhost_user_memory_table memory;
        struct vhost_user_memory_slot slot;
        struct vhost_user_config config;
        struct vhost_user_inflight_description inflight;
        uint8_t bytes[VHOST_USER_PAYLOAD_BYTES_MAX];
    } payload;
    int fds[VHOST_USER_FDS_MAX]; /**< -1: taken */
    unsigned fd_count;
};

struct vhost_user_receiver {
    int fd;
    size_t have_bytes; /* of header and payload together */
    struct vhost_user_message message;
};

void vhost_user_receiver_init(struct vhost_user_receiver *receiver, int fd);

/**
 * Go on reading.
 *
 * Returns:   1: message is complete; the same again until vhost_user_receiver_next().
 *            0: the other side has closed, between two messages.
 * Errors:    -EAGAIN      more must come.
 *            -ECONNRESET  closed in the middle of a message.
 *            -EPROTO      another version, a reply, or more descriptors than VHOST_USER_FDS_MAX (also when this
 *                         process has no descriptor left: the kernel drops them and says no more).
 *            -EMSGSIZE    a payload above VHOST_USER_PAYLOAD_BYTES_MAX.
 *            or -errno of recvmsg. After any but -EAGAIN nothing on this socket can be understood any more.
 *            message.header is what was read once 12 bytes are there (vhost_user_receiver_has_header()).
 */
int vhost_user_receive(struct vhost_user_receiver *receiver);

int vhost_user_receiver_has_header(const struct vhost_user_receiver *receiver);

/** Close the message's descriptors and be ready for another; also the end of a receiver. */
void vhost_user_receiver_next(struct vhost_user_receiver *receiver);

/** The descriptor at @index now belongs to the caller. */
int vhost_user_message_take_fd(struct vhost_user_message *message, unsigned index);

/** An answer that is being sent. */
struct vhost_user_sender {
    int fd;
    int attached_fd; /* goes with the first byte; -1: none */
    size_t sent_bytes, size_bytes;
    struct {
        struct vhost_user_header header;
        uint8_t payload[sizeof(struct vhost_user_config)];
    } reply;
};

/** The reply to @request: @size_bytes of @payload, copied. A descriptor may then be put into attached_fd; it stays the
 *  caller's. */
void vhost_user_sender_init(struct vhost_user_sender *sender, int fd, const struct vhost_user_header *request,
                            const void *payload, size_t size_bytes);

/** Returns 1 when all is sent, -EAGAIN, or -errno of sendmsg (-EPIPE without a signal). */
int vhost_user_send(struct vhost_user_sender *sender);

#endif
