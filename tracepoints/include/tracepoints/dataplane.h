/* Provider vblk_dataplane: a device's dataplane: its states, its queues' host notifiers, its drains. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER vblk_dataplane
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tracepoints/dataplane.h"

#if !defined(TRACEPOINTS_DATAPLANE_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TRACEPOINTS_DATAPLANE_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* clang-format off: the blocks below are read as tables, also by tracepoints/catalogue */

LTTNG_UST_TRACEPOINT_ENUM(vblk_dataplane, dataplane_state,
    LTTNG_UST_TP_ENUM_VALUES(
        lttng_ust_field_enum_value("stopped", 0)
        lttng_ust_field_enum_value("starting", 1)
        lttng_ust_field_enum_value("started", 2)
        lttng_ust_field_enum_value("stopping", 3)
        lttng_ust_field_enum_value("failed", 4)))

/*
 * device_create
 *            A device exists, backed by this kind of disk.
 * Emitted:   virtio-blk/device, before its first other event.
 * Pairs:     vblk_dataplane:device_destroy by device_id.
 * Set:       core
 * Baseline:  yes
 * Read by:   every check that names a device; lost-request (same name after a restart).
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_dataplane, device_create,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, const char *, name, uint16_t, queue_count,
                      uint64_t, capacity_bytes, const char *, backend),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_string(name, name)
        lttng_ust_field_integer(uint16_t, queue_count, queue_count)
        lttng_ust_field_integer(uint64_t, capacity_bytes, capacity_bytes)
        lttng_ust_field_string(backend, backend)))

/*
 * device_destroy
 *            The device is gone.
 * Emitted:   virtio-blk/device, after its last other event.
 * Pairs:     vblk_dataplane:device_create by device_id.
 * Set:       core
 * Baseline:  no
 * Read by:   every check that names a device.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_dataplane, device_destroy,
    LTTNG_UST_TP_ARGS(uint32_t, device_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)))

/*
 * state      The state machine moved. Changes that exist: stopped to starting, starting to started or
 *            failed, started to stopping, stopping to stopped, failed to stopped or starting. Start and
 *            stop own the notifiers in starting and stopping. The flag that drain callbacks look at is
 *            another one and is not traced.
 * Emitted:   virtio-blk/device, as the first and the last act of start and of stop.
 * Set:       core
 * Baseline:  yes, with old_state = new_state
 * Read by:   drain-order, stale-fd.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_dataplane, state,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, uint8_t, old_state, uint8_t, new_state),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_enum(vblk_dataplane, dataplane_state, uint8_t, old_state, old_state)
        lttng_ust_field_enum(vblk_dataplane, dataplane_state, uint8_t, new_state, new_state)))

/*
 * notifier_assign
 *            The front end gave the queue its host notifier (kick eventfd).
 * Emitted:   virtio-blk/device, in start.
 * Pairs:     vblk_dataplane:notifier_release by device_id and queue_index.
 * Set:       core
 * Baseline:  yes
 * Read by:   stale-fd.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_dataplane, notifier_assign,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, uint16_t, queue_index, int32_t, fd),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint16_t, queue_index, queue_index)
        lttng_ust_field_integer(int32_t, fd, fd)))

/*
 * notifier_release
 *            The notifier was taken away and closed.
 * Emitted:   virtio-blk/device, in stop, and on the failing exit of start.
 * Pairs:     vblk_dataplane:notifier_assign by device_id and queue_index.
 * Set:       core
 * Baseline:  no
 * Read by:   stale-fd.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_dataplane, notifier_release,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, uint16_t, queue_index, int32_t, fd),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint16_t, queue_index, queue_index)
        lttng_ust_field_integer(int32_t, fd, fd)))

/*
 * notifier_attach
 *            The queue's owner put its notifier into a loop.
 * Emitted:   virtio-blk/device, in start, at a drain's end, or when a queue moves.
 * Pairs:     vblk_dataplane:notifier_detach by device_id, queue_index and loop_id.
 * Set:       core
 * Baseline:  yes
 * Read by:   stale-fd, deaf-queue, drain-order.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_dataplane, notifier_attach,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, uint16_t, queue_index, int32_t, fd, uint32_t, loop_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint16_t, queue_index, queue_index)
        lttng_ust_field_integer(int32_t, fd, fd)
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)))

/*
 * notifier_detach
 *            The queue's owner took its notifier out of a loop.
 * Emitted:   virtio-blk/device, in stop, at a drain's begin, or when a queue moves.
 * Pairs:     vblk_dataplane:notifier_attach by device_id, queue_index and loop_id.
 * Set:       core
 * Baseline:  no
 * Read by:   stale-fd, deaf-queue, drain-order.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_dataplane, notifier_detach,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, uint16_t, queue_index, int32_t, fd, uint32_t, loop_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint16_t, queue_index, queue_index)
        lttng_ust_field_integer(int32_t, fd, fd)
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)))

/*
 * notifier_commit
 *            One transaction changed count notifiers; assign 1: they were assigned, 0: released.
 * Emitted:   virtio-blk/device, at the end of the transaction.
 * Set:       core
 * Baseline:  no
 * Read by:   stale-fd (evidence).
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_dataplane, notifier_commit,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, uint16_t, count, uint8_t, assign),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint16_t, count, count)
        lttng_ust_field_integer(uint8_t, assign, assign)))

/*
 * drain_begin
 *            A drain begins. depth counts it: 1 is the outermost. The detaches that it makes follow
 *            before its drain_end, in the draining thread.
 * Emitted:   virtio-blk/device, by the draining thread.
 * Pairs:     vblk_dataplane:drain_end by device_id and depth. No end: still draining when tracing
 *            stopped.
 * Set:       core
 * Baseline:  yes, for drains that are open
 * Read by:   drain-order, stale-fd, deaf-queue.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_dataplane, drain_begin,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, uint32_t, depth, uint32_t, in_flight, uint8_t, state),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint32_t, depth, depth)
        lttng_ust_field_integer(uint32_t, in_flight, in_flight)
        lttng_ust_field_enum(vblk_dataplane, dataplane_state, uint8_t, state, state)))

/*
 * drain_end  A drain ends. depth still counts it; in_flight of the outermost is 0. The attaches that it
 *            makes come before.
 * Emitted:   virtio-blk/device, by the draining thread.
 * Pairs:     vblk_dataplane:drain_begin by device_id and depth.
 * Set:       core
 * Baseline:  no
 * Read by:   drain-order, stale-fd, deaf-queue.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_dataplane, drain_end,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, uint32_t, depth, uint32_t, in_flight, uint8_t, state),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint32_t, depth, depth)
        lttng_ust_field_integer(uint32_t, in_flight, in_flight)
        lttng_ust_field_enum(vblk_dataplane, dataplane_state, uint8_t, state, state)))

/*
 * loop_change
 *            Another loop processes the queue from now on.
 * Emitted:   virtio-blk/device, when a queue gets or changes its loop.
 * Set:       core
 * Baseline:  yes, with old_loop_id = new_loop_id
 * Read by:   wrong-loop, stale-fd.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_dataplane, loop_change,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, uint16_t, queue_index, uint32_t, old_loop_id,
                      uint32_t, new_loop_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint16_t, queue_index, queue_index)
        lttng_ust_field_integer(uint32_t, old_loop_id, old_loop_id)
        lttng_ust_field_integer(uint32_t, new_loop_id, new_loop_id)))

/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
