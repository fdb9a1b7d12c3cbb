/*
 * The dirty log of a front end that migrates the guest: who marks into which, and what a request has written.
 *
 * Logging is turned on and off, and logs are replaced, while rings run. A ring's log belongs to the ring's loop, so each
 * change is made there; when the message is answered no loop uses the old log any more, and every write that is
 * completed from then on is marked in the new one. Requests that were in flight are marked when they complete, by
 * what holds then. A drain that ends meanwhile attaches the ring from the main loop, which writes to the ring, too: hence
 * ring_lock.
 */
#include <errno.h>
#include <linux/virtio_blk.h>
#include <unistd.h>

#include "device/internal.h"
#include "vhost_user/protocol.h"

void vblk_dirty_apply(struct vblk_queue *queue)
{
    struct vblk_device *device = queue->device;
    bool all = device->features & UINT64_C(1) << VHOST_F_LOG_ALL;

    queue->dirty_log = all ? device->dirty_log : NULL;
    queue->dirty_log_fd = all ? device->dirty_log_fd : -1;
    if (queue->vq)
        vblk_virtqueue_set_log(queue->vq, queue->address.flags & VHOST_USER_VRING_F_LOG ? queue->dirty_log : NULL,
                               queue->address.log_guest);
}

void vblk_dirty_apply_ring_co(struct vblk_queue *queue)
{
    bool visiting = vblk_home_visit_co(queue);

    pthread_mutex_lock(&queue->device->ring_lock);
    vblk_dirty_apply(queue);
    pthread_mutex_unlock(&queue->device->ring_lock);
    if (visiting)
        vblk_home_return_co(queue);
}

void vblk_dirty_apply_co(struct vblk_device *device)
{
    for (unsigned i = 0; i < device->queue_count; i++)
        vblk_dirty_apply_ring_co(&device->queues[i]);
}

void vblk_dirty_set_log_co(struct vblk_device *device, struct vhost_user_dirty_log *log)
{
    struct vhost_user_dirty_log *old = device->dirty_log;

    if (!old && !log)
        return;
    device->dirty_log = log;
    vblk_dirty_apply_co(device);
    vhost_user_dirty_log_destroy(old);
}

void vblk_dirty_set_fd_co(struct vblk_device *device, int fd)
{
    int old = device->dirty_log_fd;

    if (old < 0 && fd < 0)
        return;
    device->dirty_log_fd = fd;
    vblk_dirty_apply_co(device);
    if (old >= 0)
        close(old);
}

void vblk_dirty_mark(const struct vblk_request *request, uint32_t data_bytes)
{
    /* The device's own may be changing just now, in the main loop. */
    const struct vhost_user_memory_map *map = vblk_virtqueue_memory(request->queue->vq);
    struct vhost_user_dirty_log *log = request->queue->dirty_log;
    /* A read that failed may have come half the way before it did. */
    uint32_t left = request->header_type == VIRTIO_BLK_T_IN ? request->size_bytes : data_bytes;

    for (int i = 0; i < request->data_count && left > 0; i++) {
        uint32_t part = request->data[i].iov_len < left ? request->data[i].iov_len : left;

        vhost_user_dirty_log_mark_memory(log, map, request->data[i].iov_base, part);
        left -= part;
    }
    vhost_user_dirty_log_mark_memory(log, map, request->status, 1);
}

void vblk_dirty_announce(struct vblk_queue *queue)
{
    const char *failure = vhost_user_dirty_log_failure(queue->dirty_log);

    if (failure)
        vblk_queue_break(queue, -EFAULT, failure);
    if (queue->dirty_log_fd >= 0 && !vblk_queue_write_event(queue, queue->dirty_log_fd))
        queue->dirty_log_fd = -1; /* it was full and blocked this thread: the bits say it as well */
}
