#include "device/status.h"

#include <linux/virtio_ring.h>
#include <linux/virtio_config.h>
#include <string.h>
#include <time.h>

#include "device/internal.h"

static const char *const state_names[] = {
    [VBLK_STOPPED] = "stopped",   [VBLK_STARTING] = "starting", [VBLK_STARTED] = "started",
    [VBLK_STOPPING] = "stopping", [VBLK_FAILED] = "failed",
};

static const char *const stage_names[] = {
    [VBLK_QUEUED] = "queued",
    [VBLK_SERIALISING] = "serialising",
    [VBLK_BACKEND] = "backend",
    [VBLK_COMPLETING] = "completing",
};

/* The kinds, and their places among the counters. */
static const struct {
    const char *name;
    uint8_t type; /* as in vblk_request:begin */
} kinds[VBLK_REQUEST_KIND_COUNT] = {
    [VBLK_REQUEST_READ] = { "read", 0 },          [VBLK_REQUEST_WRITE] = { "write", 1 },
    [VBLK_REQUEST_FLUSH] = { "flush", 4 },        [VBLK_REQUEST_GET_ID] = { "get_id", 8 },
    [VBLK_REQUEST_DISCARD] = { "discard", 11 },   [VBLK_REQUEST_WRITE_ZEROES] = { "write_zeroes", 13 },
    [VBLK_REQUEST_OTHER] = { "other", 255 },
};

const char *vblk_request_kind_name(enum vblk_request_kind kind)
{
    return kinds[kind].name;
}

static enum vblk_request_kind kind_of_type(uint8_t type)
{
    unsigned kind = 0;

    while (kind < VBLK_REQUEST_OTHER && kinds[kind].type != type)
        kind++;
    return kind;
}

static uint64_t read_count(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

int64_t vblk_status_coarse_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

bool vblk_status_read_request(const struct vblk_request *request, int64_t now_ns, struct vblk_request_status *status_out)
{
    /* ORDER request.slot: the id is stored last when a request begins; the same id before and after reading the rest
     * means that the rest belongs to it. */
    uint64_t id = atomic_load_explicit(&request->id, memory_order_acquire);

    *status_out = (struct vblk_request_status){
        .request_id = id,
        .queue_index = request->queue->index,
        .kind = kind_of_type(atomic_load_explicit(&request->type, memory_order_acquire)),
        .stage = stage_names[atomic_load_explicit(&request->stage, memory_order_acquire)],
        .offset_bytes = atomic_load_explicit(&request->told_offset_bytes, memory_order_acquire),
        .size_bytes = atomic_load_explicit(&request->told_size_bytes, memory_order_acquire),
        .age_ns = now_ns - atomic_load_explicit(&request->begin_ns, memory_order_acquire),
    };
    return id != 0 && atomic_load_explicit(&request->id, memory_order_relaxed) == id;
}

void vblk_device_status(struct vblk_device *device, struct vblk_device_status *status_out)
{
    *status_out = (struct vblk_device_status){
        .device_id = device->device_id,
        .name = device->name,
        .backend = device->facts.backend,
        .size_bytes = device->facts.size_bytes,
        .block_size_bytes = device->block_size_bytes,
        .read_only = device->facts.read_only,
        .connected = atomic_load_explicit(&device->connection_fd, memory_order_relaxed) >= 0,
        .state = state_names[atomic_load_explicit(&device->state, memory_order_relaxed)],
        .drain_depth = atomic_load_explicit(&device->drain_depth, memory_order_relaxed),
        .features = device->features,
        .queue_count = device->queue_count,
    };
    memcpy(status_out->serial, device->serial, VBLK_SERIAL_BYTES);
    if (device->map)
        vhost_user_memory_map_size(device->map, &status_out->memory_region_count, &status_out->memory_bytes);
    for (unsigned i = 0; i < device->queue_count; i++) {
        status_out->running_queue_count += device->queues[i].running;
        status_out->in_flight += atomic_load_explicit(&device->queues[i].in_flight, memory_order_relaxed);
    }
}

static void read_queue(const struct vblk_queue *queue, struct vblk_queue_status *status)
{
    *status = (struct vblk_queue_status){
        .index = queue->index,
        .size = queue->size,
        .enabled = atomic_load_explicit(&queue->enabled, memory_order_relaxed),
        .loop_id = rt_loop_id(queue->loop),
        .loop_name = rt_loop_name(queue->loop),
        .in_flight = atomic_load_explicit(&queue->in_flight, memory_order_relaxed),
        .kicks = read_count(&queue->counters.kicks),
        .empty_kicks = read_count(&queue->counters.empty_kicks),
        .pops = read_count(&queue->counters.pops),
        .completions = read_count(&queue->counters.completions),
        .interrupts = read_count(&queue->counters.interrupts),
        .suppressed_interrupts = read_count(&queue->counters.suppressed_interrupts),
    };
    if (atomic_load_explicit(&queue->broken, memory_order_relaxed)) {
        status->broken_reason = atomic_load_explicit(&queue->broken_reason, memory_order_relaxed);
        if (!status->broken_reason)
            status->broken_reason = "unknown"; /* it is being told just now */
    }
    for (unsigned kind = 0; kind < VBLK_REQUEST_KIND_COUNT; kind++) {
        const struct vblk_type_counters *counters = &queue->counters.by_type[vblk_type_index(kinds[kind].type)];

        status->by_kind[kind] = (struct vblk_request_totals){ .requests = read_count(&counters->requests),
                                                              .errors = read_count(&counters->errors),
                                                              .bytes = read_count(&counters->bytes) };
    }
    if (!queue->vq)
        return;
    status->has_ring = true;
    status->packed = queue->device->features & UINT64_C(1) << VIRTIO_F_RING_PACKED;
    status->attached = queue->handler != NULL;
    status->notifications_enabled = vblk_virtqueue_notifications_enabled(queue->vq);
    status->avail_index = vblk_virtqueue_peek_avail_index(queue->vq);
    status->popped_index = vblk_virtqueue_popped_index(queue->vq);
    status->used_index = vblk_virtqueue_used_index(queue->vq);
}

void vblk_device_each_queue(struct vblk_device *device,
                            void (*visit)(const struct vblk_queue_status *status, void *opaque), void *opaque)
{
    pthread_mutex_lock(&device->ring_lock);
    for (unsigned i = 0; i < device->queue_count; i++) {
        struct vblk_queue_status status;

        read_queue(&device->queues[i], &status);
        visit(&status, opaque);
    }
    pthread_mutex_unlock(&device->ring_lock);
}

void vblk_device_each_request(struct vblk_device *device,
                              void (*visit)(const struct vblk_request_status *status, void *opaque), void *opaque)
{
    int64_t now_ns = vblk_status_coarse_now_ns();

    pthread_mutex_lock(&device->ring_lock);
    for (unsigned i = 0; i < device->queue_count; i++)
        for (unsigned j = 0; j < device->queues[i].request_count; j++) {
            struct vblk_request_status status;

            if (vblk_status_read_request(&device->queues[i].requests[j], now_ns, &status))
                visit(&status, opaque);
        }
    pthread_mutex_unlock(&device->ring_lock);
}
