/*
 * A disk that changes its size while it is in use.
 *
 * The device is drained meanwhile: requests that were taken before end as they began, inside the old size; those taken
 * afterwards are compared with the new one, so none is ever beyond what the driver was told when it ends. That also makes
 * the size a plain field for the IOThreads.
 */
#include <errno.h>
#include <glib.h>

#include "device/internal.h"

int vblk_config_changed_co(struct vblk_device *device)
{
    return vhost_user_session_config_changed(device->session) ? 0 : -ENOTCONN;
}

void vblk_resize_started_co(struct vblk_device *device)
{
    if (device->tell_at_start)
        (void)vblk_config_changed_co(device);
    device->tell_at_start = false;
}

/* The disk's size is the device's from now on, in whole blocks of the driver's. Nothing is in flight. */
static int adopt_size(struct vblk_device *device)
{
    struct vblk_disk_facts facts;
    uint64_t excess_bytes;
    int error = 0;

    vblk_disk_facts(device->disk, &facts);
    excess_bytes = facts.size_bytes % device->block_size_bytes; /* of what was found behind it */
    if (excess_bytes > 0 && facts.size_bytes > excess_bytes) {
        error = vblk_disk_resize(device->disk, facts.size_bytes - excess_bytes);
        vblk_disk_facts(device->disk, &facts);
    }
    pthread_mutex_lock(&device->ring_lock); /* the sampler reads it */
    device->facts.size_bytes = facts.size_bytes;
    pthread_mutex_unlock(&device->ring_lock);
    return error;
}

int vblk_resize_look(struct vblk_device *device)
{
    uint64_t old_bytes = device->facts.size_bytes;
    int error = adopt_size(device);

    if (error < 0 || device->facts.size_bytes == old_bytes)
        return error;
    vblk_log(&device->log, VBLK_LOG_INFO, "found with %" G_GUINT64_FORMAT " bytes, which were %" G_GUINT64_FORMAT,
             device->facts.size_bytes, old_bytes);
    device->tell_at_start = true;
    return 0;
}

int vblk_device_resize_co(struct vblk_device *device, uint64_t size_bytes)
{
    uint64_t old_bytes, new_bytes;
    int error;

    if (size_bytes % device->block_size_bytes != 0)
        return -EINVAL;
    vblk_dataplane_drain_begin_co(device);
    old_bytes = device->facts.size_bytes;
    error = vblk_disk_resize(device->disk, size_bytes);
    if (error == 0)
        error = adopt_size(device);
    new_bytes = device->facts.size_bytes;
    vblk_dataplane_drain_end(device);
    if (error < 0) {
        vblk_log(&device->log, VBLK_LOG_ERROR, "cannot be resized to %" G_GUINT64_FORMAT " bytes: %s", size_bytes,
                 g_strerror(-error));
        return error;
    }
    vblk_log(&device->log, VBLK_LOG_INFO, "resized from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT " bytes", old_bytes,
             new_bytes);
    if (new_bytes == old_bytes)
        return 0;
    if (vblk_config_changed_co(device) < 0)
        vblk_log(&device->log, VBLK_LOG_INFO, "the new size is seen when the front end asks next: it was not told");
    /* QEMU does not listen while its device is stopped, and later shows the driver what it read before. */
    device->tell_at_start = atomic_load_explicit(&device->state, memory_order_relaxed) != VBLK_STARTED;
    return 0;
}
