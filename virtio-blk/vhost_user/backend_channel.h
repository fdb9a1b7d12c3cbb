/**
 * The channel on which a back end speaks first (SET_BACKEND_REQ_FD): it tells that the configuration space has changed.
 *
 *     if (vhost_user_backend_channel_check(fd) == 0)
 *         vhost_user_backend_channel_open(&channel, fd);
 *     vhost_user_backend_channel_tell(&channel, true);
 *     while ((got = vhost_user_backend_channel_receive(&channel, &verdict)) == 1)     // whenever it is readable
 *         note the verdict
 *
 * The front end owns the other end and may close it, fill it, or send rubbish: nothing here blocks, and whatever happens
 * ends the channel at most.
 *
 * Thread:    one at a time.
 * Source:    vhost-user specification, "Back-end communication", VHOST_USER_BACKEND_CONFIG_CHANGE_MSG.
 */
#ifndef VHOST_USER_BACKEND_CHANNEL_H
#define VHOST_USER_BACKEND_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vhost_user/protocol.h"

struct vhost_user_backend_channel {
    int fd;              /**< -1: there is none; to be watched for reading */
    unsigned unanswered; /* messages that asked for an answer */
    size_t have_bytes;   /* of the next answer */
    struct {
        struct vhost_user_header header;
        uint8_t verdict[sizeof(uint64_t)];
    } answer;
};

/** Whether a descriptor from outside can be one: 0, -ENOTSOCK, -EINVAL (another kind of socket, or not one of a pair) or -ENOTCONN. */
int vhost_user_backend_channel_check(int fd);

/** Ownership: fd is the channel's. What the channel was before is forgotten, not closed. */
void vhost_user_backend_channel_open(struct vhost_user_backend_channel *channel, int fd);
/** Not watched any more. */
void vhost_user_backend_channel_close(struct vhost_user_backend_channel *channel);

/**
 * Tell that the configuration has changed. @asks: for an answer (REPLY_ACK).
 *
 * Returns:   0; -ENOTCONN: there is no channel; -EAGAIN: it is full. It is full of messages that say the same and are
 *            still to be read, so nothing is lost. Else -errno: the channel is of no use any more.
 */
int vhost_user_backend_channel_tell(struct vhost_user_backend_channel *channel, bool asks);

/**
 * Take one answer.
 *
 * Returns:   1: verdict_out is 0 if the front end did what it was told; -EAGAIN: more must come; 0: the front end has
 *            closed; -EPROTO: this is no answer to anything that was asked; or -errno. After any but 1 and -EAGAIN the
 *            channel is of no use any more.
 */
int vhost_user_backend_channel_receive(struct vhost_user_backend_channel *channel, uint64_t *verdict_out);

#endif
