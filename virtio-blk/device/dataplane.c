/*
 * Start, stop and drain: who owns the host notifiers when. runtime/ knows loops, queue.c knows requests; here is
 * only the order, because the order is what historically went wrong.
 *
 * Start: every ring that is ready is collected, its notifiers are committed in one transaction, the disk moves to
 * the IOThreads (which drains) with the started flag clear, so that the drain's callbacks leave the notifiers alone,
 * each notifier is kicked once for requests that are in the ring already, the flag is set, and the notifiers are
 * attached by their loops' own threads. Stop: the flag cleared, detached by their loops' threads, released in one
 * transaction, closed, then drained and the disk moved back, a last interrupt.
 *
 * A drain may come from any coroutine of the main loop, also between two steps of a start or a stop, and drains nest.
 *
 * ORDER dataplane.started: the flag says that a drain's end may attach; nothing is watched when it is closed.
 *   start:  prepare the rings with the flag clear, then set it [S2]; attach each ring in its loop unless drained [S3]
 *   stop:   clear it [S1] before the first detach; the same when a start fails
 *   drain:  depth + 1 [D1]; detach in each ring's loop, behind an attach that is on its way there [D2]; wait for
 *           requests [D3]; when the outermost one ends and the flag is set: kick and attach [D4]
 *   Which rings: a ring runs only while it may be attached, so one that joins or leaves alone is like a device of one.
 * If weaker: a loop watches a descriptor that is closed, or is not its own, and is at 100 %; or a request is taken
 * while the disk is drained.
 * Test: tests/model/dataplane.pml.
 *
 * Everything runs in the session's coroutine, which goes to the loop in whose thread something has to be done
 * (rt_coroutine_move) and comes back: nobody blocks a thread to wait for another.
 */
#include <errno.h>
#include <glib.h>
#include <string.h>

#include "device/internal.h"
#include "rt/pool.h"
#include "tracepoints/dataplane.h"

static void set_state(struct vblk_device *device, enum vblk_state state)
{
    uint8_t old_state = atomic_load_explicit(&device->state, memory_order_relaxed);

    pthread_mutex_lock(&device->ring_lock);
    atomic_store_explicit(&device->state, state, memory_order_relaxed);
    lttng_ust_tracepoint(vblk_dataplane, state, device->device_id, old_state, state);
    pthread_mutex_unlock(&device->ring_lock);
}

static enum vblk_state get_state(const struct vblk_device *device)
{
    return atomic_load_explicit(&device->state, memory_order_relaxed);
}

static bool is_faulty(const struct vblk_device *device)
{
    return device->faults & VBLK_FAULT_STARTED_BEFORE_ATTACH;
}

static void set_started(struct vblk_device *device, bool started)
{
    /* ORDER dataplane.started [S1 S2]: set after everything that a queue's loop needs is in place; paired with the
     * acquire of vblk_dataplane_drain_end(), and with `accepting` in the loops. */
    atomic_store_explicit(&device->started, started, memory_order_release);
}

static bool is_started(const struct vblk_device *device)
{
    return atomic_load_explicit(&device->started, memory_order_acquire); /* ORDER dataplane.started [D4] */
}

static uint32_t total_in_flight(const struct vblk_device *device)
{
    uint32_t total = 0;

    for (unsigned i = 0; i < device->queue_count; i++)
        total += atomic_load_explicit(&device->queues[i].in_flight, memory_order_relaxed);
    return total;
}

/* The pool's maximum follows the rings: half of their entries, as the mechanism's history found enough. */
static void resize_pool(struct vblk_device *device)
{
    uint32_t entries = 0, share;

    for (unsigned i = 0; i < device->queue_count; i++)
        if (device->queues[i].running)
            entries += device->queues[i].size;
    share = entries / 2;
    if (share > device->pool_share)
        rt_pool_inc_max(share - device->pool_share);
    else if (share < device->pool_share)
        rt_pool_dec_max(device->pool_share - share);
    device->pool_share = share;
}

/* ---- drain ---- */

void vblk_dataplane_drain_begin_co(struct vblk_device *device)
{
    uint32_t depth = atomic_load_explicit(&device->drain_depth, memory_order_relaxed) + 1;

    pthread_mutex_lock(&device->ring_lock);
    atomic_store_explicit(&device->drain_depth, depth, memory_order_relaxed); /* ORDER dataplane.started [D1] */
    lttng_ust_tracepoint(vblk_dataplane, drain_begin, device->device_id, depth, total_in_flight(device),
                         get_state(device));
    pthread_mutex_unlock(&device->ring_lock);
    for (unsigned i = 0; i < device->queue_count; i++) {
        struct vblk_queue *queue = &device->queues[i];

        if (!queue->vq || !vblk_home_visit_co(queue))
            continue;
        /* ORDER dataplane.started [D2]: whatever the flag says: a stop may have cleared it and not be here yet. */
        vblk_notifier_detach(queue);
        vblk_queue_drain_co(queue); /* ORDER dataplane.started [D3] */
        vblk_home_return_co(queue); /* where one may look whether the next one has a ring */
    }
}

void vblk_dataplane_drain_end(struct vblk_device *device)
{
    uint32_t depth = atomic_load_explicit(&device->drain_depth, memory_order_relaxed);
    uint32_t in_flight = total_in_flight(device); /* once attached, more comes */

    if (depth == 1 && is_started(device)) {
        for (unsigned i = 0; i < device->queue_count; i++) {
            struct vblk_queue *queue = &device->queues[i];
            int error;

            /* ORDER dataplane.move [V2] */
            if (!queue->running || !queue->vq || queue->moving || vblk_notifier_is_attached(queue))
                continue;
            if (is_faulty(device) && get_state(device) != VBLK_STARTED) {
                vblk_fault_attach_again(queue);
                continue;
            }
            vblk_notifier_kick(queue);
            error = vblk_notifier_attach(queue);
            if (error < 0)
                vblk_queue_break(queue, error, "its notifier could not be attached again after a drain");
        }
    }
    pthread_mutex_lock(&device->ring_lock);
    lttng_ust_tracepoint(vblk_dataplane, drain_end, device->device_id, depth, in_flight, get_state(device));
    atomic_store_explicit(&device->drain_depth, depth - 1, memory_order_relaxed);
    pthread_mutex_unlock(&device->ring_lock);
}

bool vblk_dataplane_may_attach(const struct vblk_queue *queue)
{
    return queue->running && queue->vq && is_started(queue->device) &&
           atomic_load_explicit(&queue->device->drain_depth, memory_order_relaxed) == 0;
}

/* ---- start ---- */

bool vblk_dataplane_ring_ready(const struct vblk_queue *queue)
{
    return queue->has_kick && queue->has_address && queue->size > 0 && queue->device->map;
}

void vblk_dataplane_open_start(struct vblk_device *device)
{
    if (get_state(device) == VBLK_STOPPED || get_state(device) == VBLK_FAILED)
        set_state(device, VBLK_STARTING);
}

/* The notifier leaves the loop, by the loop's own thread. */
static void quiesce_co(struct vblk_queue *queue)
{
    /* Also without handler: the loop lets one go by itself that cannot be read, and may be doing so just now. */
    if (!vblk_home_visit_co(queue))
        return;
    vblk_notifier_detach(queue);
    vblk_home_return_co(queue);
}

/* Undo what a start did for this ring, whatever that was: its requests end, the last interrupt is sent. */
static void retire_co(struct vblk_queue *queue)
{
    struct vblk_device *device = queue->device;

    if (vblk_home_visit_co(queue)) {
        vblk_queue_drain_co(queue);
        vblk_home_leave_co(queue);
    }
    if (queue->loop != device->main_loop)
        vblk_home_change_loop(queue, device->main_loop);
    vblk_queue_destroy_ring(queue);
    queue->running = false;
    queue->restarted = true; /* next time */
}

/* The rings of this start, or all that have a notifier, in one transaction. */
static void release_all(struct vblk_device *device, bool all)
{
    uint16_t count = 0;

    for (unsigned i = 0; i < device->queue_count; i++)
        if (device->queues[i].assigned && (all || device->queues[i].running)) {
            vblk_notifier_release(&device->queues[i]);
            count++;
        }
    if (count > 0)
        vblk_notifier_commit(device, count, false);
    /* Only after the transaction: until then somebody could still be told about them. */
    for (unsigned i = 0; i < device->queue_count; i++) {
        struct vblk_queue *queue = &device->queues[i];

        if (queue->kick_fd >= 0 && !queue->assigned)
            vblk_notifier_close(queue);
    }
}

void vblk_dataplane_abort_start_co(struct vblk_device *device)
{
    if (get_state(device) != VBLK_STARTING)
        return;
    set_started(device, false);
    for (unsigned i = 0; i < device->queue_count; i++)
        quiesce_co(&device->queues[i]);
    for (unsigned i = 0; i < device->queue_count; i++)
        retire_co(&device->queues[i]);
    release_all(device, true);
    resize_pool(device);
    set_state(device, VBLK_FAILED);
}

void vblk_dataplane_settle(struct vblk_device *device)
{
    for (unsigned i = 0; i < device->queue_count; i++)
        if (device->queues[i].assigned)
            return;
    if (get_state(device) == VBLK_STARTING)
        set_state(device, VBLK_FAILED);
    if (get_state(device) == VBLK_FAILED)
        set_state(device, VBLK_STOPPED);
}

/* Give a ring its virtqueue and its place in the home loop. */
static int prepare_co(struct vblk_queue *queue)
{
    int error = vblk_queue_create_ring(queue);

    if (error < 0)
        return error;
    atomic_store_explicit(&queue->broken, false, memory_order_relaxed);
    vblk_queue_take_over(queue);
    return vblk_home_enter_co(queue);
}

static int attach_co(struct vblk_queue *queue)
{
    struct vblk_device *device = queue->device;
    int error = 0;

    rt_co_rwlock_read_co(&device->home_lock);
    /* ORDER dataplane.started [S3]: drained just now: the drain's end attaches. ORDER dataplane.move [V3]: or it, or a move,
     * has done so while this waited. */
    if (vblk_dataplane_may_attach(queue) && !vblk_notifier_is_attached(queue)) {
        rt_coroutine_move(queue->home);
        error = vblk_notifier_attach(queue);
        rt_coroutine_move(device->main_loop);
    }
    rt_co_rwlock_unlock(&device->home_lock);
    return error;
}

int vblk_dataplane_start_co(struct vblk_device *device)
{
    uint16_t count = 0;
    int error = 0;

    if (is_faulty(device))
        set_started(device, true);
    for (unsigned i = 0; i < device->queue_count; i++)
        if (vblk_dataplane_ring_ready(&device->queues[i])) {
            device->queues[i].running = true;
            count++;
        }
    vblk_notifier_commit(device, count, true);

    vblk_dataplane_drain_begin_co(device);
    for (unsigned i = 0; i < device->queue_count && error == 0; i++)
        if (device->queues[i].running)
            error = prepare_co(&device->queues[i]);
    vblk_dataplane_drain_end(device);
    if (error < 0)
        goto fail;
    for (unsigned i = 0; i < device->queue_count; i++)
        if (device->queues[i].running) {
            vblk_home_change_loop(&device->queues[i], device->queues[i].home);
            vblk_notifier_kick(&device->queues[i]);
        }
    resize_pool(device);

    set_started(device, true);
    for (unsigned i = 0; i < device->queue_count && error == 0; i++)
        if (device->queues[i].running)
            error = attach_co(&device->queues[i]);
    if (error < 0)
        goto fail;
    set_state(device, VBLK_STARTED);
    return 0;

fail:
    vblk_log(&device->log, VBLK_LOG_ERROR, "cannot start: %s", g_strerror(-error));
    vblk_dataplane_abort_start_co(device);
    return error;
}

int vblk_dataplane_add_ring_co(struct vblk_queue *queue)
{
    struct vblk_device *device = queue->device;
    int error;

    vblk_notifier_commit(device, 1, true);
    error = prepare_co(queue);
    if (error == 0) {
        vblk_home_change_loop(queue, queue->home);
        vblk_notifier_kick(queue);
        queue->running = true; /* not before: a drain's end would attach it to the main loop */
        error = attach_co(queue);
    }
    if (error < 0) {
        vblk_log(&device->log, VBLK_LOG_ERROR, "queue %u: cannot start: %s", queue->index, g_strerror(-error));
        retire_co(queue);
        vblk_notifier_release(queue);
        vblk_notifier_commit(device, 1, false);
        vblk_notifier_close(queue);
    }
    resize_pool(device);
    return error;
}

/* ---- stop ---- */

void vblk_dataplane_stop_co(struct vblk_device *device)
{
    bool faulty = is_faulty(device);

    if (get_state(device) != VBLK_STARTED)
        return;
    set_state(device, VBLK_STOPPING);
    if (!faulty)
        set_started(device, false); /* before the first detach: else a drain that ends meanwhile attaches again */
    for (unsigned i = 0; i < device->queue_count; i++)
        if (device->queues[i].running)
            quiesce_co(&device->queues[i]);
    if (!faulty)
        release_all(device, false);

    vblk_dataplane_drain_begin_co(device);
    for (unsigned i = 0; i < device->queue_count; i++) {
        struct vblk_queue *queue = &device->queues[i];

        if (!queue->running)
            continue;
        if (vblk_home_visit_co(queue))
            vblk_home_leave_co(queue);
        vblk_home_change_loop(queue, device->main_loop);
    }
    vblk_dataplane_drain_end(device);

    if (faulty) {
        release_all(device, false);
        set_started(device, false);
    }
    for (unsigned i = 0; i < device->queue_count; i++)
        if (device->queues[i].running)
            retire_co(&device->queues[i]);
    resize_pool(device);
    set_state(device, VBLK_STOPPED);
}

void vblk_dataplane_stop_ring_co(struct vblk_queue *queue)
{
    struct vblk_device *device = queue->device;
    unsigned running = 0;

    for (unsigned i = 0; i < device->queue_count; i++)
        running += device->queues[i].running;
    if (queue->running && running == 1) {
        vblk_dataplane_stop_co(device);
        return;
    }
    if (queue->running) {
        queue->running = false; /* from here on no drain attaches it */
        quiesce_co(queue);
        vblk_notifier_release(queue);
        vblk_notifier_commit(device, 1, false);
        vblk_notifier_close(queue);
        retire_co(queue);
        resize_pool(device);
    } else if (queue->assigned) {
        vblk_notifier_release(queue);
        vblk_notifier_commit(device, 1, false);
        vblk_notifier_close(queue);
    }
}
