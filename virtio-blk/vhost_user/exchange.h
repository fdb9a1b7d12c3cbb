/* One message while it is handled: what the table of dispatch.c and the files with handlers share. Nobody else includes
 * it. */
#ifndef VHOST_USER_EXCHANGE_H
#define VHOST_USER_EXCHANGE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "vhost_user/dispatch.h"
#include "vhost_user/session_internal.h"

struct exchange {
    struct vhost_user_session *session;
    struct vhost_user_message *message;
    struct vhost_user_reply *reply;
    const char *reason; /* why it is refused; NULL: what the errno says */
    int at;             /* which ring or region; -1: none */
    bool is_fatal;
};

/* What a handler returns that does not do as it is told. */
static inline int refuse(struct exchange *exchange, int error, const char *reason)
{
    exchange->reason = reason;
    return error;
}

static inline int reply_u64(struct exchange *exchange, uint64_t value)
{
    exchange->reply->payload.u64 = value;
    exchange->reply->size_bytes = sizeof value;
    return 0;
}

/* The flag is of the open file, which the front end has too; it is set against accidents, not against malice. */
static inline int make_non_blocking(struct exchange *exchange, int fd)
{
    struct stat status;
    /* The front end's own end of the connection, kept open here, would hide that the front end has left. */
    if (fstat(fd, &status) < 0 || S_ISSOCK(status.st_mode))
        return refuse(exchange, -EINVAL, "its descriptor is a socket");
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
        return refuse(exchange, -errno, "its descriptor cannot be made non-blocking");
    return 0;
}

/* memory_table.c: what is guest memory. */
int vhost_user_set_mem_table_co(struct exchange *exchange);
int vhost_user_get_max_mem_slots(struct exchange *exchange);
int vhost_user_add_mem_reg_co(struct exchange *exchange);
int vhost_user_rem_mem_reg_co(struct exchange *exchange);

/* dirty_log_messages.c */
int vhost_user_set_log_base_co(struct exchange *exchange);
int vhost_user_set_log_fd_co(struct exchange *exchange);
/* device_status.c: the device as a whole. */
int vhost_user_reset_device_co(struct exchange *exchange);
int vhost_user_set_status_co(struct exchange *exchange);
int vhost_user_get_status(struct exchange *exchange);
/* inflight_messages.c */
int vhost_user_get_inflight_fd(struct exchange *exchange);
int vhost_user_set_inflight_fd(struct exchange *exchange);

#endif
