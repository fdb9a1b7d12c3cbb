/* Provider vblk_request: one guest request, from descriptor chain to used ring. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER vblk_request
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tracepoints/request.h"

#if !defined(TRACEPOINTS_REQUEST_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TRACEPOINTS_REQUEST_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* clang-format off: the blocks below are read as tables, also by tracepoints/catalogue */

LTTNG_UST_TRACEPOINT_ENUM(vblk_request, request_type,
    LTTNG_UST_TP_ENUM_VALUES(
        lttng_ust_field_enum_value("read", 0)
        lttng_ust_field_enum_value("write", 1)
        lttng_ust_field_enum_value("flush", 4)
        lttng_ust_field_enum_value("get_id", 8)
        lttng_ust_field_enum_value("discard", 11)
        lttng_ust_field_enum_value("write_zeroes", 13)
        lttng_ust_field_enum_value("other", 255)))

LTTNG_UST_TRACEPOINT_ENUM(vblk_request, request_stage,
    LTTNG_UST_TP_ENUM_VALUES(
        lttng_ust_field_enum_value("queued", 0)
        lttng_ust_field_enum_value("serialising", 1)
        lttng_ust_field_enum_value("backend", 2)
        lttng_ust_field_enum_value("completing", 3)))

/*
 * begin      A descriptor chain was taken from the ring and accepted, in this loop; head is its first
 *            descriptor.
 * Emitted:   virtio-blk/device, once per request.
 * Pairs:     vblk_request:end or vblk_request:abandoned by request_id. Neither: in flight when tracing
 *            stopped.
 * Set:       request
 * Baseline:  no
 * Read by:   stuck-request, slow-requests, wrong-loop, lost-request, missing-interrupt.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_request, begin,
    LTTNG_UST_TP_ARGS(uint64_t, request_id, uint32_t, device_id, uint16_t, queue_index, uint16_t, head,
                      uint8_t, type, uint64_t, offset_bytes, uint32_t, size_bytes, uint32_t, loop_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, request_id, request_id)
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint16_t, queue_index, queue_index)
        lttng_ust_field_integer(uint16_t, head, head)
        lttng_ust_field_enum(vblk_request, request_type, uint8_t, type, type)
        lttng_ust_field_integer(uint64_t, offset_bytes, offset_bytes)
        lttng_ust_field_integer(uint32_t, size_bytes, size_bytes)
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)))

/*
 * submit     The request was handed to the backend.
 * Emitted:   virtio-blk/device, before the disk is called.
 * Pairs:     vblk_request:complete by request_id.
 * Set:       request
 * Baseline:  no
 * Read by:   slow-requests, stuck-request (stage).
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_request, submit,
    LTTNG_UST_TP_ARGS(uint64_t, request_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, request_id, request_id)))

/*
 * complete   The backend answered (negative errno on failure).
 * Emitted:   virtio-blk/device, in the completion.
 * Pairs:     vblk_request:submit by request_id.
 * Set:       request
 * Baseline:  no
 * Read by:   slow-requests, stuck-request (stage).
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_request, complete,
    LTTNG_UST_TP_ARGS(uint64_t, request_id, int32_t, result),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, request_id, request_id)
        lttng_ust_field_integer(int32_t, result, result)))

/*
 * end        The status byte was pushed to the used ring (0 ok, 1 I/O error, 2 unsupported).
 * Emitted:   virtio-blk/device, after the push; the driver sees what a batch pushed at the latest when the batch ends.
 * Pairs:     vblk_request:begin by request_id.
 * Set:       request
 * Baseline:  no
 * Read by:   stuck-request, slow-requests, lost-request, missing-interrupt.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_request, end,
    LTTNG_UST_TP_ARGS(uint64_t, request_id, uint8_t, status),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, request_id, request_id)
        lttng_ust_field_integer(uint8_t, status, status)))

/*
 * serialise_wait
 *            The request waits for an overlapping one.
 * Emitted:   virtio-blk/device, before the coroutine waits.
 * Pairs:     vblk_request:submit of request_id, when it goes on.
 * Set:       core
 * Baseline:  no
 * Read by:   stuck-request (chain of blockers), lock-across-yield (cycles).
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_request, serialise_wait,
    LTTNG_UST_TP_ARGS(uint64_t, request_id, uint64_t, blocking_request_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, request_id, request_id)
        lttng_ust_field_integer(uint64_t, blocking_request_id, blocking_request_id)))

/*
 * slow       The request is older than the configured limit; finished 0: while it is open, 1: when it
 *            ends.
 * Emitted:   the sampler thread, once while it is open; virtio-blk/device, once when it ends.
 * Set:       core
 * Baseline:  yes, for open requests older than 1 s
 * Read by:   stuck-request.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_request, slow,
    LTTNG_UST_TP_ARGS(uint64_t, request_id, uint32_t, device_id, uint16_t, queue_index, uint8_t, type,
                      uint8_t, stage, uint64_t, age_ns, uint8_t, finished),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, request_id, request_id)
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint16_t, queue_index, queue_index)
        lttng_ust_field_enum(vblk_request, request_type, uint8_t, type, type)
        lttng_ust_field_enum(vblk_request, request_stage, uint8_t, stage, stage)
        lttng_ust_field_integer(uint64_t, age_ns, age_ns)
        lttng_ust_field_integer(uint8_t, finished, finished)))

/*
 * recovered  The request is resubmitted from the in-flight region after a restart, under a new
 *            request_id; it is counted in pops.
 * Emitted:   virtio-blk/device, at recovery.
 * Pairs:     the vblk_request:begin that follows, by request_id.
 * Set:       core
 * Baseline:  no
 * Read by:   lost-request, stuck-request.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_request, recovered,
    LTTNG_UST_TP_ARGS(uint64_t, request_id, uint32_t, device_id, uint16_t, queue_index, uint16_t, head),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, request_id, request_id)
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint16_t, queue_index, queue_index)
        lttng_ust_field_integer(uint16_t, head, head)))

/*
 * abandoned  The request's driver is gone (device reset, or a front end without in-flight region left):
 *            it will not be reported, rightly.
 * Emitted:   virtio-blk/device, when it is dropped.
 * Pairs:     vblk_request:begin by request_id.
 * Set:       core
 * Baseline:  no
 * Read by:   stuck-request, lost-request.
 */
LTTNG_UST_TRACEPOINT_EVENT(vblk_request, abandoned,
    LTTNG_UST_TP_ARGS(uint64_t, request_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, request_id, request_id)))

/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
