/**
 * What each message means: who may send it, with which payload and descriptors, what is called and what is answered.
 *
 * One row of the table in dispatch.c is one message; a new message is a new row and its handler.
 */
#ifndef VHOST_USER_DISPATCH_H
#define VHOST_USER_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "vhost_user/message.h"

struct vhost_user_session;

struct vhost_user_reply {
    union {
        uint64_t u64;
        struct vhost_user_vring_state state;
        struct vhost_user_config config;
        struct vhost_user_inflight_description inflight;
    } payload;
    size_t size_bytes; /**< 0: no reply, unless is_empty */
    bool is_empty;     /**< a reply without payload, which says that a question cannot be answered */
    bool has_fd;       /**< fd goes with it; the caller closes it then */
    int fd;
};

/**
 * Handle one message. A refused one is traced, logged and answered here; what is left of its descriptors is the
 * caller's to close.
 *
 * Returns:   0, also for a refused message after which the next can be understood; -errno if the connection has to
 *            end: descriptors are missing or too many, or the front end waits for an answer that does not exist.
 */
int vhost_user_dispatch_co(struct vhost_user_session *session, struct vhost_user_message *message,
                           struct vhost_user_reply *reply_out);

#endif
