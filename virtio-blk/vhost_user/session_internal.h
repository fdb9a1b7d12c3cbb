/* What session.c (connection) and dispatch.c (messages) share. Main loop's thread, unless said otherwise. */
#ifndef VHOST_USER_SESSION_INTERNAL_H
#define VHOST_USER_SESSION_INTERNAL_H

#include <stdatomic.h>

#include "log/log.h"
#include "rt/process.h"
#include "vhost_user/backend_channel.h"
#include "vhost_user/listen.h"
#include "vhost_user/message.h"
#include "vhost_user/session.h"

enum vhost_user_wait { VHOST_USER_WAIT_NONE, VHOST_USER_WAIT_READ, VHOST_USER_WAIT_WRITE };

struct vhost_user_session {
    /* constant */
    char *name;
    uint32_t device_id;
    uint16_t queue_count;
    uint64_t features_offered;
    const struct vhost_user_ops *ops;
    void *opaque;
    struct rt_loop *loop;

    struct vblk_log log;
    struct rt_process_source source;

    struct vhost_user_listener listener; /* fd -1: a connected socket was given; path NULL: a listening one */
    struct rt_handler *listen_handler;   /* NULL while a front end is there */
    struct rt_timer *accept_again;
    int given_fd; /* connected, not yet served; else -1 */
    struct rt_bh *serve_given;

    /* the connection; coroutine NULL: there is none */
    int fd;
    struct rt_handler *handler; /* NULL: not watched for reading */
    struct rt_coroutine *coroutine, *destroyer;
    enum vhost_user_wait waiting;
    bool closing;
    uint64_t features, protocol_features; /* negotiated */
    bool features_accepted;               /* SET_FEATURES came last with features that are all right */
    uint8_t status;                       /* what the driver wrote; device_status.c */
    struct vhost_user_memory_map *map;    /* what the device took last, and keeps a reference of; or NULL */
    struct vhost_user_backend_channel channel;
    struct rt_handler *channel_handler; /* NULL: there is no channel */
    int offered_channel_fd;             /* came with the message just handled; else -1 */
    struct vhost_user_receiver receiver;
    struct vhost_user_sender sender;

    _Atomic int connected_fd; /* relaxed: the sampler asks */
};

#endif
