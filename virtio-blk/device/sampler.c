/*
 * What this device tells in baselines and once a second. Runs in the sampler thread, never wakes a loop: it takes
 * ring_lock, under which the main loop replaces rings and notifiers change, and otherwise reads relaxed atomics.
 */
#include "device/internal.h"
#include "tracepoints/dataplane.h"
#include "tracepoints/queue.h"
#include "tracepoints/request.h"
#include "tracepoints/vhost_user.h"

#define SLOW_NS (INT64_C(1000000000))

static uint64_t read_count(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void vblk_sampler_trace_queue(struct vblk_queue *queue)
{
    struct vblk_queue_sample_fields fields;

    if (!lttng_ust_tracepoint_enabled(vblk_queue, sample))
        return;
    fields = (struct vblk_queue_sample_fields){
        .device_id = queue->device->device_id,
        .queue_index = queue->index,
        .avail_index = vblk_virtqueue_peek_avail_index(queue->vq),
        .popped_index = vblk_virtqueue_popped_index(queue->vq),
        .used_index = vblk_virtqueue_used_index(queue->vq),
        .in_flight = atomic_load_explicit(&queue->in_flight, memory_order_relaxed),
        .notifications_enabled = vblk_virtqueue_notifications_enabled(queue->vq),
        .kicks = read_count(&queue->counters.kicks),
        .empty_kicks = read_count(&queue->counters.empty_kicks),
        .pops = read_count(&queue->counters.pops),
        .completions = read_count(&queue->counters.completions),
        .interrupts = read_count(&queue->counters.interrupts),
        .suppressed_interrupts = read_count(&queue->counters.suppressed_interrupts),
    };
    lttng_ust_tracepoint(vblk_queue, sample, &fields);
}

static void trace_slow(const struct vblk_request *request, uint64_t id, int64_t age_ns, bool finished)
{
    const struct vblk_queue *queue = request->queue;

    lttng_ust_tracepoint(vblk_request, slow, id, queue->device->device_id, queue->index,
                         atomic_load_explicit(&request->type, memory_order_relaxed),
                         atomic_load_explicit(&request->stage, memory_order_relaxed), age_ns, finished);
}

static void look_for_slow(struct vblk_queue *queue, bool again)
{
    int64_t now_ns = vblk_status_coarse_now_ns();

    for (unsigned i = 0; i < queue->request_count; i++) {
        struct vblk_request *request = &queue->requests[i];
        struct vblk_request_status status;

        if (!vblk_status_read_request(request, now_ns, &status) || status.age_ns < SLOW_NS)
            continue;
        if (atomic_exchange_explicit(&request->slow, true, memory_order_relaxed) && !again)
            continue;
        trace_slow(request, status.request_id, status.age_ns, false);
    }
}

void vblk_sampler_request_ended(struct vblk_request *request)
{
    trace_slow(request, atomic_load_explicit(&request->id, memory_order_relaxed),
               vblk_status_coarse_now_ns() - atomic_load_explicit(&request->begin_ns, memory_order_relaxed), true);
}

static void baseline(void *opaque)
{
    struct vblk_device *device = opaque;
    uint32_t id = device->device_id;
    int connection_fd = atomic_load_explicit(&device->connection_fd, memory_order_relaxed);
    uint32_t depth, in_flight = 0;
    uint8_t state;

    pthread_mutex_lock(&device->ring_lock);
    /* Under the lock, as it changes: else an older state could be told after the change to a newer one. */
    state = atomic_load_explicit(&device->state, memory_order_relaxed);
    lttng_ust_tracepoint(vblk_dataplane, device_create, id, device->name, device->queue_count,
                         device->facts.size_bytes, device->facts.backend);
    if (connection_fd >= 0)
        lttng_ust_tracepoint(vhost_user, connect, id, connection_fd);
    lttng_ust_tracepoint(vblk_dataplane, state, id, state, state);
    for (unsigned i = 0; i < device->queue_count; i++) {
        struct vblk_queue *queue = &device->queues[i];

        if (queue->assigned)
            lttng_ust_tracepoint(vblk_dataplane, notifier_assign, id, i, queue->kick_fd);
        if (!queue->vq)
            continue;
        lttng_ust_tracepoint(vblk_dataplane, loop_change, id, i, rt_loop_id(queue->loop), rt_loop_id(queue->loop));
        if (queue->handler)
            lttng_ust_tracepoint(vblk_dataplane, notifier_attach, id, i, queue->kick_fd, rt_loop_id(queue->loop));
        in_flight += atomic_load_explicit(&queue->in_flight, memory_order_relaxed);
    }
    depth = atomic_load_explicit(&device->drain_depth, memory_order_relaxed);
    for (uint32_t d = 1; d <= depth; d++)
        lttng_ust_tracepoint(vblk_dataplane, drain_begin, id, d, in_flight, state);
    for (unsigned i = 0; i < device->queue_count; i++) {
        struct vblk_queue *queue = &device->queues[i];

        if (!queue->vq)
            continue;
        vblk_sampler_trace_queue(queue);
        look_for_slow(queue, true);
    }
    pthread_mutex_unlock(&device->ring_lock);
}

static void sample(void *opaque)
{
    struct vblk_device *device = opaque;

    pthread_mutex_lock(&device->ring_lock);
    for (unsigned i = 0; i < device->queue_count; i++) {
        struct vblk_queue *queue = &device->queues[i];

        vblk_event_guard_look(&queue->loop_guard);
        vblk_event_guard_look(&queue->main_guard);
        if (!queue->vq)
            continue;
        vblk_sampler_trace_queue(queue);
        look_for_slow(queue, false);
    }
    pthread_mutex_unlock(&device->ring_lock);
}

void vblk_sampler_init(struct vblk_device *device)
{
    device->source = (struct rt_process_source){ .baseline = baseline, .sample = sample, .opaque = device };
    rt_process_add_source(&device->source);
}

void vblk_sampler_deinit(struct vblk_device *device)
{
    rt_process_remove_source(&device->source);
}
