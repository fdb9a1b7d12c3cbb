/* Provider vblk_queue: one virtqueue: notifications in both directions and ring state. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER vblk_queue
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tracepoints/queue.h"

#if !defined(TRACEPOINTS_QUEUE_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TRACEPOINTS_QUEUE_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* clang-format off: the blocks below are read as tables, also by tracepoints/catalogue */

/* A tracepoint takes at most 10 arguments; an event with more fields takes them in a struct. LTTng reads
 * this file several times, hence the guard. */
#ifndef TRACEPOINTS_QUEUE_FIELDS
#define TRACEPOINTS_QUEUE_FIELDS
struct vblk_queue_sample_fields {
    uint32_t device_id;
    uint16_t queue_index;
    uint16_t avail_index;
    uint16_t popped_index;
    uint16_t used_index;
    uint32_t in_flight;
    uint8_t notifications_enabled;
    uint64_t kicks;
    uint64_t empty_kicks;
    uint64_t pops;
    uint64_t completions;
    uint64_t interrupts;
    uint64_t suppressed_interrupts;
};
#endif

LTTNG_UST_TRACEPOINT_ENUM(vblk_queue, notifications_reason,
    LTTNG_UST_TP_ENUM_VALUES(
        lttng_ust_field_enum_value("processing", 0)
        lttng_ust_field_enum_value("polling", 1)
        lttng_ust_field_enum_value("attach", 2)
        lttng_ust_field_enum_value("detach", 3)))

/*
 * notifications
 *            The device asks the driver to kick, or not to.
 * Emitted:   virtio-blk/device, after the ring was told.
 * Set:       loop
 * Baseline:  no
 * Read by:   deaf-queue.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_queue, notifications,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, uint16_t, queue_index, uint8_t, enabled, uint8_t, reason),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint16_t, queue_index, queue_index)
        lttng_ust_field_integer(uint8_t, enabled, enabled)
        lttng_ust_field_enum(vblk_queue, notifications_reason, uint8_t, reason, reason)))

/*
 * kick       The notifier fired and the queue is being looked at.
 * Emitted:   virtio-blk/device, by the queue's loop thread, before it looks.
 * Set:       request
 * Baseline:  no
 * Read by:   unread-fd, deaf-queue (evidence).
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_queue, kick,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, uint16_t, queue_index),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint16_t, queue_index, queue_index)))

/*
 * interrupt  The driver was notified of completions; suppressed 1: it wished not to be.
 * Emitted:   virtio-blk/device, after the used ring was published.
 * Pairs:     the vblk_request:end events before it on the queue.
 * Set:       request
 * Baseline:  no
 * Read by:   missing-interrupt.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_queue, interrupt,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, uint16_t, queue_index, uint8_t, suppressed),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint16_t, queue_index, queue_index)
        lttng_ust_field_integer(uint8_t, suppressed, suppressed)))

/*
 * sample     Ring state and running totals. avail_index differs from popped_index: requests that the
 *            device has not seen. On a packed ring avail_index is popped_index + 1 when the next
 *            descriptor is available, else popped_index. The totals count descriptor chains.
 * Emitted:   the sampler thread, once a second and in every baseline, for every queue; and at attach
 *            and detach.
 * Set:       core
 * Baseline:  yes
 * Read by:   deaf-queue, missing-interrupt, lost-request.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_queue, sample,
    LTTNG_UST_TP_ARGS(const struct vblk_queue_sample_fields *, fields),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, fields->device_id)
        lttng_ust_field_integer(uint16_t, queue_index, fields->queue_index)
        lttng_ust_field_integer(uint16_t, avail_index, fields->avail_index)
        lttng_ust_field_integer(uint16_t, popped_index, fields->popped_index)
        lttng_ust_field_integer(uint16_t, used_index, fields->used_index)
        lttng_ust_field_integer(uint32_t, in_flight, fields->in_flight)
        lttng_ust_field_integer(uint8_t, notifications_enabled, fields->notifications_enabled)
        lttng_ust_field_integer(uint64_t, kicks, fields->kicks)
        lttng_ust_field_integer(uint64_t, empty_kicks, fields->empty_kicks)
        lttng_ust_field_integer(uint64_t, pops, fields->pops)
        lttng_ust_field_integer(uint64_t, completions, fields->completions)
        lttng_ust_field_integer(uint64_t, interrupts, fields->interrupts)
        lttng_ust_field_integer(uint64_t, suppressed_interrupts, fields->suppressed_interrupts)))

/*
 * broken     The driver broke the protocol and the queue stops; reason says how.
 * Emitted:   virtio-blk/device, on the failing exit.
 * Set:       core
 * Baseline:  no
 * Read by:   queue-broken.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_queue, broken,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, uint16_t, queue_index, int32_t, error, const char *, reason),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint16_t, queue_index, queue_index)
        lttng_ust_field_integer(int32_t, error, error)
        lttng_ust_field_string(reason, reason)))

/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
