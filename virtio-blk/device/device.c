/* A device's life: its disk, its queues, its session. */
#include "device/device.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "device/internal.h"
#include "tracepoints/dataplane.h"

static _Atomic uint32_t last_device_id;

static void init_queues(struct vblk_device *device, uint16_t queue_count)
{
    device->queue_count = queue_count;
    device->queues = g_new0(struct vblk_queue, queue_count);
    for (unsigned i = 0; i < queue_count; i++) {
        struct vblk_queue *queue = &device->queues[i];

        queue->device = device;
        queue->index = i;
        queue->kick_fd = queue->error_fd = -1;
        atomic_init(&queue->call_fd, -1);
        queue->home = device->loops[i % device->loop_count];
        queue->loop = device->main_loop;
    }
}

static void free_device(struct vblk_device *device)
{
    vblk_fault_cleanup(device); /* also of a device that was never whole */
    vblk_disk_close(device->disk);
    vblk_tracked_deinit(&device->tracked);
    vblk_disk_errors_deinit(&device->disk_errors);
    pthread_mutex_destroy(&device->ring_lock);
    rt_co_rwlock_deinit(&device->home_lock);
    g_free(device->queues);
    g_free(device->disk_loops);
    g_free(device->loops);
    g_free(device->name);
    g_free(device);
}

int vblk_device_open_disk(const struct vblk_device_options *options, struct vblk_disk **disk_out, char **message_out)
{
    struct vblk_disk_options disk_options = { .read_only = options->read_only, .cache = options->cache,
                                              .inject = options->inject, .incoming = options->incoming,
                                              .nbd_reconnect_s = options->nbd_reconnect_s };

    return vblk_disk_open(options->blk_file, &disk_options, disk_out, message_out);
}

int vblk_device_create(const struct vblk_device_options *options, struct vblk_disk *disk, struct vblk_device **device_out,
                       char **message_out)
{
    struct vblk_device *device = g_new0(struct vblk_device, 1);
    struct vhost_user_session_options session_options;
    const char *name = options->name ? options->name : options->socket_path ? options->socket_path : "vblkd";
    const char *serial = options->serial;
    int error;

    device->disk = disk;
    vblk_disk_facts(device->disk, &device->facts);
    if (device->facts.size_bytes % options->block_size_bytes != 0) {
        *message_out = g_strdup_printf("%s: its size of %" G_GUINT64_FORMAT " bytes is no multiple of the block size %u: a driver "
                                       "would not reach its end (try --block-size=512)", options->blk_file,
                                       device->facts.size_bytes, options->block_size_bytes);
        vblk_disk_close(device->disk);
        g_free(device);
        return -EINVAL;
    }
    device->holds_disk = !options->incoming;
    device->name = g_strdup(name);
    vblk_log_init(&device->log, device->name);
    device->device_id = atomic_fetch_add_explicit(&last_device_id, 1, memory_order_relaxed) + 1;
    device->block_size_bytes = options->block_size_bytes;
    device->faults = options->faults;
    device->instant = options->instant_on_loop && device->facts.instant && options->faults == 0;
    device->main_loop = options->main_loop;
    device->ended = options->ended;
    device->opaque = options->opaque;
    device->loop_count = options->loop_count;
    device->loops = g_memdup2(options->loops, options->loop_count * sizeof(options->loops[0]));
    device->disk_loops = g_new0(struct vblk_disk_loop *, options->loop_count);
    atomic_init(&device->connection_fd, -1);
    device->dirty_log_fd = -1;
    vblk_config_forget_front_end(device);
    if (!serial) {
        /* The end of the name tells more than its beginning: names are paths. */
        size_t length = strlen(name);

        serial = length > VBLK_SERIAL_BYTES ? name + length - VBLK_SERIAL_BYTES : name;
    }
    memcpy(device->serial, serial, strnlen(serial, VBLK_SERIAL_BYTES));
    pthread_mutex_init(&device->ring_lock, NULL);
    rt_co_rwlock_init(&device->home_lock, "blk-queue-home");
    vblk_tracked_init(&device->tracked, options->request_lock ? options->request_lock : vblk_request_lock_at(0),
                      options->queue_count);
    vblk_disk_errors_init(&device->disk_errors, device->name, options->on_disk_error);
    init_queues(device, options->queue_count);
    vblk_fault_init(device);

    lttng_ust_tracepoint(vblk_dataplane, device_create, device->device_id, device->name, device->queue_count,
                         device->facts.size_bytes, device->facts.backend);
    vblk_sampler_init(device);
    session_options = (struct vhost_user_session_options){
        .name = device->name,
        .device_id = device->device_id,
        .queue_count = device->queue_count,
        .features = vblk_config_features(device),
        .socket_path = options->socket_path,
        .fd = options->fd,
        .socket_mode = options->socket_mode,
        .socket_group = options->socket_group,
        .ops = &vblk_ring_ops,
        .opaque = device,
    };
    error = vhost_user_session_create(&session_options, &device->session, message_out);
    if (error < 0) {
        vblk_sampler_deinit(device);
        lttng_ust_tracepoint(vblk_dataplane, device_destroy, device->device_id);
        free_device(device);
        return error;
    }
    *device_out = device;
    return 0;
}

static void close_disk(void *opaque)
{
    vblk_disk_close(opaque);
}

/* What the page cache holds of a file is written now, which may take minutes: other disks need the main loop. */
static void close_disk_co(struct vblk_device *device)
{
    struct vblk_disk *disk = device->disk;

    device->disk = NULL;
    rt_offload_co("close-disk", close_disk, disk);
}

void vblk_device_destroy_co(struct vblk_device *device)
{
    if (!device)
        return;
    vhost_user_session_destroy_co(device->session);
    /* Moves that were under way or in line have ended. */
    rt_co_rwlock_write_co(&device->home_lock);
    rt_co_rwlock_unlock(&device->home_lock);
    vblk_fault_cleanup(device);
    /* Work that was posted to an IOThread for a queue has run when this comes back from it. */
    for (unsigned i = 0; i < device->loop_count; i++)
        rt_coroutine_move(device->loops[i]);
    rt_coroutine_move(device->main_loop);
    close_disk_co(device);
    vblk_sampler_deinit(device);
    lttng_ust_tracepoint(vblk_dataplane, device_destroy, device->device_id);
    free_device(device);
}

void vblk_device_drain_begin_co(struct vblk_device *device)
{
    vblk_dataplane_drain_begin_co(device);
}

void vblk_device_drain_end(struct vblk_device *device)
{
    vblk_dataplane_drain_end(device);
}

uint32_t vblk_device_coroutines_max(const struct vblk_device *device)
{
    return (uint32_t)device->queue_count * VBLK_QUEUE_SIZE_USUAL;
}
