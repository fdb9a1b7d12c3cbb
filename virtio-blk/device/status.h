/**
 * What a device tells about itself at any time, whether or not anything is traced: its state, its queues, its requests.
 * Values are those of the 1 Hz samples, read under the lock that the sampler takes; no loop is woken or waited for.
 *
 *     struct vblk_device_status status;
 *     vblk_device_status(device, &status);
 *     vblk_device_each_queue(device, visit_queue, opaque);
 *     vblk_device_each_request(device, visit_request, opaque);
 *
 * Thread:    the main loop's. A visitor must not yield, and starts and stops nothing.
 * Ownership: strings live as long as the device.
 */
#ifndef VBLK_DEVICE_STATUS_H
#define VBLK_DEVICE_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

struct vblk_device_status {
    uint32_t device_id;
    const char *name, *backend;
    char serial[VBLK_SERIAL_BYTES + 1];
    uint64_t size_bytes;
    uint32_t block_size_bytes;
    bool read_only;
    bool connected;         /**< a front end is there */
    const char *state;      /**< as in vblk_dataplane:state: "stopped", "starting", "started", "stopping", "failed" */
    uint32_t drain_depth;   /**< drains that are open */
    uint64_t features;      /**< negotiated; 0: none yet */
    unsigned memory_region_count;
    uint64_t memory_bytes;  /**< that the front end shares */
    uint16_t queue_count, running_queue_count;
    uint32_t in_flight;
};

/** One kind of request. Totals since the device was created; bytes are those that succeeded. */
struct vblk_request_totals {
    uint64_t requests, errors, bytes;
};

/** Values of vblk_request:begin that have totals of their own; all others are VBLK_REQUEST_OTHER. */
enum vblk_request_kind {
    VBLK_REQUEST_READ,
    VBLK_REQUEST_WRITE,
    VBLK_REQUEST_FLUSH,
    VBLK_REQUEST_GET_ID,
    VBLK_REQUEST_DISCARD,
    VBLK_REQUEST_WRITE_ZEROES,
    VBLK_REQUEST_OTHER,
    VBLK_REQUEST_KIND_COUNT,
};

/** "read", "write", "flush", "get_id", "discard", "write_zeroes", "other". */
const char *vblk_request_kind_name(enum vblk_request_kind kind);

struct vblk_queue_status {
    uint16_t index;
    uint32_t size;              /**< what the front end said; 0: nothing yet */
    bool has_ring;              /**< it is part of a start: what follows to in_flight is known */
    bool packed, attached, notifications_enabled;
    uint16_t avail_index, popped_index, used_index;
    bool enabled;
    const char *broken_reason;  /**< NULL: it is not broken */
    uint32_t loop_id;           /**< of the loop that processes it now */
    const char *loop_name;
    uint32_t in_flight;
    /* Totals since the device was created. */
    uint64_t kicks, empty_kicks, pops, completions, interrupts, suppressed_interrupts;
    struct vblk_request_totals by_kind[VBLK_REQUEST_KIND_COUNT];
};

/** One request that was taken from its ring and not given back. */
struct vblk_request_status {
    uint64_t request_id;
    uint16_t queue_index;
    enum vblk_request_kind kind;
    const char *stage;       /**< as in vblk_request:slow: "queued", "serialising", "backend", "completing" */
    uint64_t offset_bytes;
    uint32_t size_bytes;
    int64_t age_ns;          /**< to a tick of the coarse clock (some milliseconds) */
};

void vblk_device_status(struct vblk_device *device, struct vblk_device_status *status_out);
/** Every queue that the device offers, also those that nobody uses. */
void vblk_device_each_queue(struct vblk_device *device,
                            void (*visit)(const struct vblk_queue_status *status, void *opaque), void *opaque);
/** In no order. Requests that begin or end meanwhile may be missing. */
void vblk_device_each_request(struct vblk_device *device,
                              void (*visit)(const struct vblk_request_status *status, void *opaque), void *opaque);

#endif
