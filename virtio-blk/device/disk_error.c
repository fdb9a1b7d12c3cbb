#include "device/disk_error.h"

#include <glib.h>
#include <linux/virtio_blk.h>

#include "device/internal.h"

void vblk_disk_errors_init(struct vblk_disk_errors *errors, const char *name, enum vblk_on_disk_error policy)
{
    *errors = (struct vblk_disk_errors){ .policy = policy };
    vblk_log_init(&errors->log, name);
    rt_mutex_init(&errors->lock, "blk-disk-errors");
    rt_co_queue_init(&errors->waiting);
}

void vblk_disk_errors_deinit(struct vblk_disk_errors *errors)
{
    rt_mutex_deinit(&errors->lock);
}

static bool is_paused(const struct vblk_disk_errors *errors)
{
    return atomic_load_explicit(&errors->pauses, memory_order_relaxed) & 1;
}

static void wait_locked_co(struct vblk_disk_errors *errors, struct vblk_request *request)
{
    const struct vblk_queue *queue = request->queue;

    vblk_request_set_stage(request, VBLK_BACKEND); /* what it waits for is the disk */
    errors->waiting_count++;
    while (is_paused(errors) && queue->drains == 0)
        (void)rt_co_queue_wait_mutex_co(&errors->waiting, &errors->lock); /* nobody cancels */
    errors->waiting_count--;
}

uint32_t vblk_disk_error_gate_co(struct vblk_request *request)
{
    const struct vblk_queue *queue = request->queue;
    struct vblk_disk_errors *errors = &queue->device->disk_errors;

    /* A hint: whoever comes past it just as the device pauses goes to the disk, as those that are there already. */
    if (is_paused(errors) && queue->drains == 0) {
        rt_mutex_lock(&errors->lock);
        wait_locked_co(errors, request);
        rt_mutex_unlock(&errors->lock);
    }
    return atomic_load_explicit(&errors->pauses, memory_order_relaxed);
}

static const char *name_of(const struct vblk_request *request)
{
    switch (request->header_type) {
    case VIRTIO_BLK_T_IN:
        return "read";
    case VIRTIO_BLK_T_OUT:
        return "write";
    case VIRTIO_BLK_T_FLUSH:
        return "flush";
    case VIRTIO_BLK_T_DISCARD:
        return "discard";
    default:
        return "write-zeroes";
    }
}

static void report(struct vblk_disk_errors *errors, const struct vblk_request *request, int result, const char *outcome)
{
    vblk_log(&errors->log, VBLK_LOG_ERROR, "%s of %u bytes at %" G_GUINT64_FORMAT ": %s; %s", name_of(request),
             request->size_bytes, request->offset_bytes, g_strerror(-result), outcome);
}

bool vblk_disk_error_retry_co(struct vblk_request *request, int result, uint32_t seen)
{
    const struct vblk_queue *queue = request->queue;
    struct vblk_disk_errors *errors = &queue->device->disk_errors;

    if (errors->policy == VBLK_DISK_ERROR_REPORT) {
        report(errors, request, result, "the driver is told");
        return false;
    }
    if (queue->drains > 0 && atomic_load_explicit(&queue->device->leaves_open, memory_order_relaxed)) {
        report(errors, request, result, "it stays open in the front end's in-flight region");
        request->left_open = true;
        return false;
    }
    if (queue->drains > 0) {
        report(errors, request, result, "the driver is told, because its queue is stopping");
        return false;
    }
    rt_mutex_lock(&errors->lock);
    /* If it was resumed since this request went to the disk, then somebody knows better than this error. */
    if (atomic_load_explicit(&errors->pauses, memory_order_relaxed) == seen && !(seen & 1)) {
        atomic_store_explicit(&errors->pauses, seen + 1, memory_order_relaxed);
        report(errors, request, result,
               "the device is paused (look after the disk, then send the control socket's command 'resume')");
    }
    wait_locked_co(errors, request);
    rt_mutex_unlock(&errors->lock);
    return true;
}

void vblk_disk_errors_drain_begin(struct vblk_queue *queue)
{
    struct vblk_disk_errors *errors = &queue->device->disk_errors;

    queue->drains++;
    rt_mutex_lock(&errors->lock);
    rt_co_queue_wake_all(&errors->waiting); /* those of other queues look and wait again */
    rt_mutex_unlock(&errors->lock);
}

void vblk_disk_errors_drain_end(struct vblk_queue *queue)
{
    queue->drains--;
}

unsigned vblk_device_resume_co(struct vblk_device *device)
{
    struct vblk_disk_errors *errors = &device->disk_errors;
    unsigned waiting;

    rt_mutex_lock(&errors->lock);
    waiting = errors->waiting_count;
    if (is_paused(errors)) {
        atomic_fetch_add_explicit(&errors->pauses, 1, memory_order_relaxed);
        vblk_log(&errors->log, VBLK_LOG_INFO, "resumed: %u requests are tried again", waiting);
    }
    rt_co_queue_wake_all(&errors->waiting);
    rt_mutex_unlock(&errors->lock);
    return waiting;
}

bool vblk_device_is_paused(const struct vblk_device *device)
{
    return is_paused(&device->disk_errors);
}
