/* What the files of this folder share. Nobody else includes it. */
#ifndef VBLK_CONTROL_INTERNAL_H
#define VBLK_CONTROL_INTERNAL_H

#include <glib.h>
#include <sys/queue.h>

#include "control/control.h"
#include "control/line_reader.h"
#include "rt/coroutine.h"
#include "rt/loop.h"
#include "vhost_user/listen.h"

/* Each has a stack and a line. */
#define VBLK_CONTROL_CLIENTS_MAX 64

struct vblk_connection {
    struct vblk_control *control;
    int fd;
    struct rt_handler *handler; /* NULL: not watched */
    struct rt_coroutine *coroutine;
    bool reading;               /* waits for the socket */
    struct vblk_line_reader reader;
    LIST_ENTRY(vblk_connection) link;
};

struct vblk_control {
    struct vblk_control_options options;
    int64_t created_ns;
    struct vhost_user_listener listener;
    struct rt_handler *listen_handler;
    struct rt_timer *accept_again;
    bool stopping;
    LIST_HEAD(, vblk_connection) connections;
    unsigned connection_count;
    struct rt_coroutine *destroyer; /* waits for the last connection */
};

/* connection.c: takes the socket; -errno: it was closed, and nobody is served. */
int vblk_connection_start(struct vblk_control *control, int fd);

#endif
