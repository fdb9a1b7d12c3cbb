/* GET_INFLIGHT_FD and SET_INFLIGHT_FD. Source: vhost-user specification, "Inflight I/O tracking". */
#include <errno.h>
#include <linux/virtio_config.h>
#include <string.h>

#include "vhost_user/exchange.h"
#include "vhost_user/inflight.h"

static int check(struct exchange *exchange)
{
    const struct vhost_user_inflight_description *said = &exchange->message->payload.inflight;
    if (said->queue_count > exchange->session->queue_count)
        return refuse(exchange, -EINVAL, "it is for more rings than the device has");
    return 0;
}

int vhost_user_get_inflight_fd(struct exchange *exchange)
{
    const struct vhost_user_session *session = exchange->session;
    /* Features may come later: then there is room for either format. */
    uint64_t features = session->features ? session->features : session->features_offered;
    int error = check(exchange);
    if (!error)
        error = vhost_user_inflight_create_fd(&exchange->message->payload.inflight,
                                              features >> VIRTIO_F_RING_PACKED & 1,
                                              &exchange->reply->payload.inflight, &exchange->reply->fd);
    if (error)
        return error;
    exchange->reply->has_fd = true;
    /* Some front ends count the padding at the end, others do not: as they ask, so they are answered. */
    exchange->reply->size_bytes = exchange->message->header.size_bytes;
    return 0;
}

int vhost_user_set_inflight_fd(struct exchange *exchange)
{
    struct vhost_user_session *session = exchange->session;
    struct vhost_user_inflight inflight;
    int error = check(exchange);
    if (!error)
        error = vhost_user_inflight_map(&exchange->message->payload.inflight, exchange->message->fds[0],
                                        &inflight, &exchange->reason);
    if (error)
        return error;
    error = session->ops->set_inflight(session->opaque, &inflight);
    if (error)
        vhost_user_inflight_unmap(&inflight);
    return error;
}
