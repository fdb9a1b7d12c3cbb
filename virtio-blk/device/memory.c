/*
 * The guest's memory, as the front end shares it: changes while rings run, and letting go.
 *
 * When the guest is gone we may hold the last reference, and giving half a GiB back to the kernel takes hundreds of
 * milliseconds (seen: 312 ms for 512 MiB): a thread of its own does that, so that the main loop goes on serving other
 * disks; the session's coroutine waits.
 */
#include <errno.h>
#include <glib.h>

#include "device/internal.h"

static void release_memory(void *opaque)
{
    vhost_user_memory_map_unref(opaque);
}

void vblk_memory_release_co(struct vhost_user_memory_map *map)
{
    if (map)
        rt_offload_co("unmap", release_memory, map);
}

/* A ring rests while no memory holds it: detached, and without a virtqueue. A front end that changes a region takes it
 * away first and gives it anew, and the ring goes on where it stood. */
static void renew_ring(struct vblk_queue *queue)
{
    bool was_there = queue->vq;
    int error = -EFAULT;

    vblk_queue_destroy_ring(queue);
    if (queue->device->map)
        error = vblk_queue_create_ring(queue);
    if (error < 0 && was_there)
        vblk_log(&queue->device->log, VBLK_LOG_WARNING,
                 "queue %u: its ring is not in the guest's memory any more: %s; it rests until it is", queue->index,
                 g_strerror(-error));
    else if (error == 0 && !was_there)
        vblk_log(&queue->device->log, VBLK_LOG_INFO, "queue %u: its ring is in the guest's memory again", queue->index);
}

/* Whether every ring can go on where it is when memory is added. */
static bool no_ring_rests(const struct vblk_device *device)
{
    for (unsigned i = 0; i < device->queue_count; i++)
        if (device->queues[i].running && !device->queues[i].vq)
            return false;
    return true;
}

/* More memory, and everything that was there stays where it is: nothing has to wait for requests in flight. */
static void extend_co(struct vblk_device *device)
{
    for (unsigned i = 0; i < device->queue_count; i++) {
        struct vblk_queue *queue = &device->queues[i];
        bool visiting = queue->vq && vblk_home_visit_co(queue);

        if (queue->vq)
            vblk_virtqueue_extend_memory(queue->vq, device->map);
        if (visiting)
            vblk_home_return_co(queue);
    }
}

/* A region may leave: requests in flight may use it. */
static void exchange_co(struct vblk_device *device, struct vhost_user_memory_map *map)
{
    bool running = atomic_load_explicit(&device->state, memory_order_relaxed) == VBLK_STARTED;

    if (running)
        vblk_dataplane_drain_begin_co(device);
    device->map = map;
    for (unsigned i = 0; i < device->queue_count; i++)
        if (device->queues[i].running)
            renew_ring(&device->queues[i]);
    if (running)
        vblk_dataplane_drain_end(device);
}

void vblk_memory_set_co(struct vblk_device *device, struct vhost_user_memory_map *map, bool keeps_old)
{
    struct vhost_user_memory_map *old = device->map;

    if (map)
        vhost_user_memory_map_ref(map);
    if (keeps_old && no_ring_rests(device)) {
        device->map = map;
        extend_co(device);
    } else {
        exchange_co(device, map);
    }
    vblk_memory_release_co(old);
}
