/*
 * A queue's host notifier (kick eventfd): given by the front end (assign), put into the loop that processes the
 * queue (attach), taken out (detach), and closed (release). It must be out of the loop before it is closed: epoll
 * keeps a closed descriptor whose file lives on elsewhere, and cannot remove it any more.
 *
 * What the sampler re-emits in a baseline (assigned, handler, loop) changes under ring_lock, together with the event.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "device/internal.h"
#include "tracepoints/dataplane.h"

static const struct rt_fd_callbacks notifier_callbacks = {
    .ready = vblk_queue_kicked,
    .poll = vblk_queue_poll,
    .poll_ready = vblk_queue_poll_ready,
    .poll_begin = vblk_queue_poll_begin,
    .poll_end = vblk_queue_poll_end,
};

int vblk_notifier_assign(struct vblk_queue *queue, int fd)
{
    struct vblk_device *device = queue->device;

    if (fd < 0) {
        /* A ring that is polled has a notifier, too: nobody kicks it, but the loop's polling goes through it. */
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd < 0)
            return -errno;
    }
    pthread_mutex_lock(&device->ring_lock);
    queue->kick_fd = fd;
    queue->assigned = true;
    lttng_ust_tracepoint(vblk_dataplane, notifier_assign, device->device_id, queue->index, fd);
    pthread_mutex_unlock(&device->ring_lock);
    return 0;
}

void vblk_notifier_commit(struct vblk_device *device, uint16_t count, bool assign)
{
    lttng_ust_tracepoint(vblk_dataplane, notifier_commit, device->device_id, count, assign);
}

void vblk_notifier_release(struct vblk_queue *queue)
{
    struct vblk_device *device = queue->device;

    pthread_mutex_lock(&device->ring_lock);
    queue->assigned = false;
    lttng_ust_tracepoint(vblk_dataplane, notifier_release, device->device_id, queue->index, queue->kick_fd);
    pthread_mutex_unlock(&device->ring_lock);
}

void vblk_notifier_close(struct vblk_queue *queue)
{
    vblk_fault_notifier_released(queue);
    close(queue->kick_fd);
    queue->kick_fd = -1;
    queue->has_kick = queue->polled = false;
}

void vblk_notifier_kick(struct vblk_queue *queue)
{
    if (!vblk_queue_write_event(queue, queue->kick_fd))
        vblk_queue_break(queue, -ETIMEDOUT, "its kick descriptor was full and blocked this thread");
}

bool vblk_notifier_is_attached(struct vblk_queue *queue)
{
    bool attached;

    /* A loop lets one go by itself that cannot be read. */
    pthread_mutex_lock(&queue->device->ring_lock);
    attached = queue->handler != NULL;
    pthread_mutex_unlock(&queue->device->ring_lock);
    return attached;
}

int vblk_notifier_attach(struct vblk_queue *queue)
{
    struct vblk_device *device = queue->device;
    struct rt_handler *handler;
    int error;

    const struct rt_fd_callbacks *callbacks = vblk_fault_callbacks(queue);

    /* The loop does not touch the ring yet: asking for kicks is ours. What came before is in the pending kick. */
    queue->polling = false;
    pthread_mutex_lock(&device->ring_lock); /* this marks, and which log to mark in may be changing just now: dirty.c */
    vblk_queue_set_notifications(queue, true, VBLK_ATTACH);
    pthread_mutex_unlock(&device->ring_lock);
    atomic_store_explicit(&queue->accepting, true, memory_order_release); /* ORDER queue.accept */
    error = rt_loop_attach_fd(queue->loop, queue->kick_fd, RT_FD_HOST_NOTIFIER, device->device_id, queue->index,
                              callbacks ? callbacks : &notifier_callbacks, queue, &handler);
    if (error < 0) {
        atomic_store_explicit(&queue->accepting, false, memory_order_relaxed);
        return error;
    }
    pthread_mutex_lock(&device->ring_lock);
    queue->handler = handler;
    lttng_ust_tracepoint(vblk_dataplane, notifier_attach, device->device_id, queue->index, queue->kick_fd,
                         rt_loop_id(queue->loop));
    vblk_sampler_trace_queue(queue);
    pthread_mutex_unlock(&device->ring_lock);
    return 0;
}

void vblk_notifier_detach(struct vblk_queue *queue)
{
    struct vblk_device *device = queue->device;
    struct rt_handler *handler;

    atomic_store_explicit(&queue->accepting, false, memory_order_relaxed);
    queue->stays_off = queue->was_polled && vblk_has_fault(device, VBLK_FAULT_NO_REENABLE_ON_ATTACH);
    pthread_mutex_lock(&device->ring_lock);
    handler = queue->handler;
    queue->handler = NULL;
    if (handler)
        lttng_ust_tracepoint(vblk_dataplane, notifier_detach, device->device_id, queue->index, queue->kick_fd,
                             rt_loop_id(queue->loop));
    pthread_mutex_unlock(&device->ring_lock);
    if (handler)
        rt_loop_detach_fd(handler);
}
