/* What a front end that migrates the guest says about the dirty log. */
#include <errno.h>

#include "vhost_user/dirty_log.h"
#include "vhost_user/exchange.h"

int vhost_user_set_log_base_co(struct exchange *exchange)
{
    const struct vhost_user_log *wire = &exchange->message->payload.log;
    struct vhost_user_session *session = exchange->session;
    struct vhost_user_dirty_log *log;
    int error = vhost_user_dirty_log_create(exchange->message->fds[0], wire->offset_bytes, wire->size_bytes, &log,
                                            &exchange->reason);
    if (error)
        return error;
    session->ops->set_log_co(session->opaque, log);
    /* The new log is in use and the old one is not: the front end may take the old one's bits for the last time. */
    return reply_u64(exchange, 0);
}

int vhost_user_set_log_fd_co(struct exchange *exchange)
{
    struct vhost_user_message *message = exchange->message;
    struct vhost_user_session *session = exchange->session;
    int error = make_non_blocking(exchange, message->fds[0]);
    if (error)
        return error;
    session->ops->set_log_fd_co(session->opaque, vhost_user_message_take_fd(message, 0));
    return 0;
}
