/*
 * Device status and reset.
 *
 * Status is what the driver has written, as virtio transports keep it; nothing starts or stops by it but by 0, which resets.
 * The device answers through one bit: FEATURES_OK stays only if the features were accepted. DEVICE_NEEDS_RESET is not used:
 * a queue that breaks stops alone here, and the others go on.
 *
 * A reset forgets what belongs to the driver: rings and features. Memory, the back end's channel, the protocol features and
 * whether they were agreed on belong to the connection; front ends do not announce them again. QEMU 7.2 writes status 0 as the
 * first act of every stop, also when it only pauses the guest, and goes on with SET_VRING_ENABLE and GET_VRING_BASE.
 *
 * Source: vhost-user specification, VHOST_USER_SET_STATUS, GET_STATUS, RESET_DEVICE; VIRTIO 1.2, 2.1.
 */
#include <errno.h>
#include <linux/virtio_config.h>

#include "vhost_user/exchange.h"

#define KNOWN                                                                                                \
    (VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER | VIRTIO_CONFIG_S_DRIVER_OK |                      \
     VIRTIO_CONFIG_S_FEATURES_OK | VIRTIO_CONFIG_S_FAILED)

int vhost_user_reset_device_co(struct exchange *exchange)
{
    struct vhost_user_session *session = exchange->session;
    session->features &= UINT64_C(1) << VHOST_USER_F_PROTOCOL_FEATURES; /* the front end's, not the driver's */
    session->features_accepted = false;
    session->status = 0;
    return session->ops->reset_device_co(session->opaque);
}

int vhost_user_set_status_co(struct exchange *exchange)
{
    struct vhost_user_session *session = exchange->session;
    uint64_t status = exchange->message->payload.u64;
    if (!status)
        return vhost_user_reset_device_co(exchange);
    if (status & ~(uint64_t)KNOWN)
        return refuse(exchange, -EINVAL, "a bit is unknown, or not the driver's to set");
    if (session->status & ~status)
        return refuse(exchange, -EINVAL, "it takes a bit back (only 0, a reset, does that)");
    if (!session->features_accepted)
        status &= ~(uint64_t)VIRTIO_CONFIG_S_FEATURES_OK;
    session->status = (uint8_t)status;
    return 0;
}

int vhost_user_get_status(struct exchange *exchange)
{
    return reply_u64(exchange, exchange->session->status);
}
