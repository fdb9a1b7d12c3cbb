/* What the front end says, message by message, and what it means for rings and dataplane: the operations behind the
 * vhost-user session. All in the session's coroutine, one after another. */
#include <errno.h>
#include <glib.h>
#include <linux/virtio_config.h>
#include <string.h>
#include <unistd.h>

#include "device/internal.h"
#include "vhost_user/protocol.h"

static struct vblk_queue *queue_at(void *opaque, uint16_t index)
{
    struct vblk_device *device = opaque;

    return index < device->queue_count ? &device->queues[index] : NULL;
}

static void connected(void *opaque, int fd)
{
    struct vblk_device *device = opaque;

    atomic_store_explicit(&device->connection_fd, fd, memory_order_relaxed);
}

static bool is_state(const struct vblk_device *device, enum vblk_state state)
{
    return atomic_load_explicit(&device->state, memory_order_relaxed) == state;
}

/* Front ends say which format they use before they say anything about rings. */
static bool is_packed(const struct vblk_device *device)
{
    return device->features >> VIRTIO_F_RING_PACKED & 1;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void replace_call_fd_co(struct vblk_queue *queue, int fd)
{
    int old;
    /* The loop may be writing to the old one: swap in its thread, then nobody does. */
    bool visiting = vblk_home_visit_co(queue);

    old = atomic_exchange_explicit(&queue->call_fd, fd, memory_order_relaxed);
    if (visiting) {
        /* Interrupts may have gone to the old one unheard. */
        if (fd >= 0 && !vblk_queue_write_event(queue, fd)) {
            atomic_store_explicit(&queue->call_fd, -1, memory_order_relaxed);
            close(fd);
        }
        vblk_home_return_co(queue);
    }
    close_fd(&old);
}

/*
 * Nothing is left of the driver: rings stopped and to be set up anew, features forgotten. Where a ring stopped can still be
 * asked for, and its call and error descriptors stay: front ends reset the device first and ask then, as part of a mere
 * pause, and give some descriptors once a connection.
 */
static void forget_driver_co(struct vblk_device *device)
{
    vblk_dataplane_stop_co(device);
    vblk_dataplane_abort_start_co(device);
    for (unsigned i = 0; i < device->queue_count; i++) {
        struct vblk_queue *queue = &device->queues[i];

        vblk_dataplane_stop_ring_co(queue); /* given a notifier, never part of a start */
        queue->size = 0;
        queue->base_is_past |= queue->has_base;
        queue->has_base = queue->has_address = false;
        atomic_store_explicit(&queue->enabled, false, memory_order_relaxed);
    }
    vblk_dataplane_settle(device);
    /* Another driver's rings begin elsewhere than it says, so the front end has to give it, or a new one, again. */
    vhost_user_inflight_unmap(&device->inflight);
    vblk_config_set_features(device, 0);
}

/* Nor of the front end: its descriptors are closed, its memory is let go. */
static void forget_front_end_co(struct vblk_device *device)
{
    struct vhost_user_memory_map *map;

    forget_driver_co(device);
    vblk_config_forget_front_end(device);
    device->tell_at_start = false; /* the next one reads it all */
    for (unsigned i = 0; i < device->queue_count; i++) {
        replace_call_fd_co(&device->queues[i], -1);
        close_fd(&device->queues[i].error_fd);
        device->queues[i].base_is_past = false;
    }
    map = device->map;
    device->map = NULL;
    vblk_dirty_set_log_co(device, NULL);
    vblk_dirty_set_fd_co(device, -1);
    vblk_memory_release_co(map);
}

static void disconnected_co(void *opaque, int error)
{
    struct vblk_device *device = opaque;

    (void)error; /* the session told it */
    atomic_store_explicit(&device->connection_fd, -1, memory_order_relaxed);
    atomic_store_explicit(&device->leaves_open, device->inflight.map != NULL, memory_order_relaxed);
    forget_front_end_co(device);
    atomic_store_explicit(&device->leaves_open, false, memory_order_relaxed);
}

static void ended(void *opaque)
{
    struct vblk_device *device = opaque;

    if (device->ended)
        device->ended(device->opaque);
}

static int reset_co(void *opaque)
{
    struct vblk_device *device = opaque;

    forget_front_end_co(device);
    return 0;
}

/* The cache mode stays: a front end that keeps a copy of the configuration does not read it again after a reset. */
static int reset_device_co(void *opaque)
{
    bool handover = vblk_handover_is_near(opaque); /* features are about to be forgotten */

    forget_driver_co(opaque);
    if (handover)
        vblk_handover_give_co(opaque);
    return 0;
}

static int set_features_co(void *opaque, uint64_t features)
{
    struct vblk_device *device = opaque;
    bool was_packed = is_packed(device);
    uint64_t changed = features ^ device->features;

    /* What a ring was created with it keeps, but for the dirty log, which a migration turns on and off. */
    if (changed & ~(UINT64_C(1) << VHOST_F_LOG_ALL))
        for (unsigned i = 0; i < device->queue_count; i++)
            if (device->queues[i].running)
                return -EBUSY;
    vblk_config_set_features(device, features);
    /* Where a ring of one format stopped says nothing about the other. */
    for (unsigned i = 0; i < device->queue_count && was_packed != is_packed(device); i++)
        device->queues[i].has_base = device->queues[i].base_is_past = false;
    if (changed & UINT64_C(1) << VHOST_F_LOG_ALL)
        vblk_dirty_apply_co(device);
    return 0;
}

static void set_log_co(void *opaque, struct vhost_user_dirty_log *log)
{
    vblk_dirty_set_log_co(opaque, log);
}

static void set_log_fd_co(void *opaque, int fd)
{
    vblk_dirty_set_fd_co(opaque, fd);
}

static int set_memory_co(void *opaque, struct vhost_user_memory_map *map, bool keeps_old)
{
    vblk_memory_set_co(opaque, map, keeps_old);
    return 0;
}

static int set_ring_size(void *opaque, uint16_t index, uint32_t size)
{
    struct vblk_queue *queue = queue_at(opaque, index);

    if (!queue || size == 0 || size > VBLK_VIRTQUEUE_SIZE_MAX || (!is_packed(opaque) && (size & (size - 1)) != 0))
        return -EINVAL;
    if (queue->running)
        return -EBUSY;
    queue->size = size;
    return 0;
}

static int set_ring_address_co(void *opaque, uint16_t index, const struct vhost_user_ring_address *address)
{
    struct vblk_queue *queue = queue_at(opaque, index);

    if (!queue)
        return -EINVAL;
    /* A running ring keeps its addresses; the message may come again to change the log flag. */
    if (queue->running && (address->desc_user != queue->address.desc_user ||
                           address->avail_user != queue->address.avail_user ||
                           address->used_user != queue->address.used_user))
        return -EBUSY;
    queue->address = *address;
    queue->has_address = true;
    vblk_dirty_apply_ring_co(queue);
    return 0;
}

static int set_ring_base(void *opaque, uint16_t index, uint32_t base)
{
    struct vblk_queue *queue = queue_at(opaque, index);

    if (!queue || (!is_packed(opaque) && base > UINT16_MAX))
        return -EINVAL;
    if (queue->running)
        return -EBUSY;
    queue->base = base;
    queue->has_base = true;
    queue->base_is_past = false;
    return 0;
}

/* Close the start, or let a ring join, when everything that this needs has been said. */
static int start_what_is_ready_co(struct vblk_queue *queue)
{
    struct vblk_device *device = queue->device;
    int error;

    if (queue->running || !vblk_dataplane_ring_ready(queue))
        return 0;
    if (is_state(device, VBLK_STARTED))
        return vblk_dataplane_add_ring_co(queue);
    vblk_dataplane_open_start(device);
    error = vblk_handover_take_co(device);
    if (error < 0) {
        vblk_dataplane_abort_start_co(device);
        return error;
    }
    error = vblk_dataplane_start_co(device);
    if (error == 0)
        vblk_resize_started_co(device);
    return error;
}

static int set_ring_kick_co(void *opaque, uint16_t index, int fd)
{
    struct vblk_queue *queue = queue_at(opaque, index);
    struct vblk_device *device = opaque;
    int error;

    if (!queue)
        return -EINVAL;
    if (queue->assigned) {
        /* A new notifier for a ring that has one: the ring stops, and starts with the new one. */
        vblk_dataplane_stop_ring_co(queue);
    }
    vblk_dataplane_open_start(device);
    error = vblk_notifier_assign(queue, fd);
    if (error < 0)
        return error;
    queue->has_kick = true;
    queue->polled = fd < 0;
    if (!vhost_user_session_has_protocol_features(device->session))
        atomic_store_explicit(&queue->enabled, true, memory_order_relaxed);
    if (!atomic_load_explicit(&queue->enabled, memory_order_relaxed))
        return 0;
    /* From here the descriptor is ours, whatever comes: a start that fails closes it. */
    error = start_what_is_ready_co(queue);
    if (error < 0)
        vblk_log(&device->log, VBLK_LOG_ERROR, "queue %u does not run: %s", index, g_strerror(-error));
    return 0;
}

static int set_ring_call(void *opaque, uint16_t index, int fd)
{
    struct vblk_queue *queue = queue_at(opaque, index);

    if (!queue)
        return -EINVAL;
    replace_call_fd_co(queue, fd);
    return 0;
}

static int set_ring_error(void *opaque, uint16_t index, int fd)
{
    struct vblk_queue *queue = queue_at(opaque, index);
    bool visiting;
    int old;

    if (!queue)
        return -EINVAL;
    visiting = vblk_home_visit_co(queue);
    old = queue->error_fd;
    queue->error_fd = fd;
    if (visiting)
        vblk_home_return_co(queue);
    close_fd(&old);
    return 0;
}

static int set_ring_enable_co(void *opaque, uint16_t index, bool enable)
{
    struct vblk_queue *queue = queue_at(opaque, index);

    if (!queue)
        return -EINVAL;
    atomic_store_explicit(&queue->enabled, enable, memory_order_relaxed);
    if (!enable) {
        /* The answer means that nothing more is taken: wait for a batch that is being taken just now. */
        if (queue->running && vblk_home_visit_co(queue))
            vblk_home_return_co(queue);
        return 0;
    }
    if (queue->running) {
        vblk_notifier_kick(queue); /* what came while it was disabled */
        return 0;
    }
    return start_what_is_ready_co(queue);
}

static int get_ring_base_co(void *opaque, uint16_t index, uint32_t *base_out)
{
    struct vblk_queue *queue = queue_at(opaque, index);
    struct vblk_device *device = opaque;

    if (!queue)
        return -EINVAL;
    vblk_dataplane_stop_ring_co(queue);
    vblk_dataplane_settle(device);
    if (vblk_handover_is_near(device) && !is_state(device, VBLK_STARTED))
        vblk_handover_give_co(device);
    *base_out = queue->base_is_past ? queue->base : vblk_queue_base(queue);
    return 0;
}

/* A ring that exists notes its requests in the region that it found. */
static int set_inflight(void *opaque, const struct vhost_user_inflight *inflight)
{
    struct vblk_device *device = opaque;

    for (unsigned i = 0; i < device->queue_count; i++)
        if (device->queues[i].vq)
            return -EBUSY;
    vhost_user_inflight_unmap(&device->inflight);
    device->inflight = *inflight;
    return 0;
}

static int get_config(void *opaque, uint32_t offset, uint32_t size, uint8_t *bytes_out)
{
    return vblk_config_read(opaque, offset, size, bytes_out);
}

static int set_config(void *opaque, uint32_t offset, uint32_t size, const uint8_t *bytes)
{
    return vblk_config_write(opaque, offset, size, bytes);
}

const struct vhost_user_ops vblk_ring_ops = {
    .connected = connected,
    .disconnected_co = disconnected_co,
    .ended = ended,
    .set_features_co = set_features_co,
    .set_log_co = set_log_co,
    .set_log_fd_co = set_log_fd_co,
    .set_memory_co = set_memory_co,
    .set_ring_size = set_ring_size,
    .set_ring_address_co = set_ring_address_co,
    .set_ring_base = set_ring_base,
    .set_ring_kick_co = set_ring_kick_co,
    .set_ring_call = set_ring_call,
    .set_ring_error = set_ring_error,
    .set_ring_enable_co = set_ring_enable_co,
    .get_ring_base_co = get_ring_base_co,
    .set_inflight = set_inflight,
    .reset_co = reset_co,
    .reset_device_co = reset_device_co,
    .get_config = get_config,
    .set_config = set_config,
};
