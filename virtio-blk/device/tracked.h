/**
 * Tracked requests: overlapping serialising requests wait for each other, flushes keep their order.
 *
 * A request is serialising when the disk must read, modify and write for it, and a discard or write-zeroes is. It waits for every overlapping request,
 * and later overlapping ones wait for it. How the lists are locked is a policy (request_lock.h); what follows from it
 * is the same under each.
 *
 *     vblk_tracked_begin_co(disk, queue_index, &t);    // may wait for overlapping ones
 *     ...
 *     vblk_tracked_end_co(disk, queue_index, &t, wrote);
 */
#ifndef VBLK_TRACKED_H
#define VBLK_TRACKED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/request_lock.h"
#include "rt/lock.h"

/** The class of the lists' locks in traces and reports, under every policy. */
#define VBLK_TRACKED_LOCK_CLASS "blk-tracked-requests"

struct vblk_tracked {
    uint64_t request_id;
    uint64_t offset_bytes, size_bytes; /**< of what it touches, widened for a read-modify-write */
    bool write;
    bool serialising;
    uint64_t ticket;                   /**< serialising ones: their order, under wait_lock; 0 until they have it */
    struct vblk_tracked *next, **at;   /**< in its list, under that one's lock */
};

struct vblk_tracked_list {
    /* Two lists share no cache line: their loops would fight for it without ever taking each other's lock. */
    _Alignas(64) union vblk_lock lock;
    struct vblk_tracked *first;
    _Atomic uint64_t writes_done; /**< written under the lock; summed by flushes */
};

struct vblk_tracked_disk {
    const struct vblk_request_lock *policy;
    struct vblk_tracked_list *lists;
    unsigned list_count;
    union vblk_lock *wait_lock;     /**< the first list's, or the next member */
    union vblk_lock own_wait_lock;
    _Atomic uint32_t serialising_count;
    _Atomic uint32_t waiting_count;

    /* Under wait_lock. */
    struct rt_co_queue waiting;     /**< for a request to end */
    uint64_t last_ticket;
    struct rt_co_queue flush_queue; /**< for the active flush */
    bool flush_active;
    uint64_t flushed_generation;
};

void vblk_tracked_init(struct vblk_tracked_disk *disk, const struct vblk_request_lock *policy, unsigned queue_count);
void vblk_tracked_deinit(struct vblk_tracked_disk *disk); /**< nothing tracked */

/** Coroutine only: waits for overlapping requests where the rules say so. Trace: vblk_request:serialise_wait. */
void vblk_tracked_begin_co(struct vblk_tracked_disk *disk, unsigned queue_index, struct vblk_tracked *tracked);
/** Coroutine only; the same loop as begin. @wrote: it changed the disk. */
void vblk_tracked_end_co(struct vblk_tracked_disk *disk, unsigned queue_index, struct vblk_tracked *tracked, bool wrote);

/**
 * Run flush(opaque) once for all writes that ended before this call. Flushes reach the disk one at a time and in the
 * order of their write generation; one whose writes another has flushed meanwhile returns 0 at once. Coroutine only.
 */
int vblk_tracked_flush_co(struct vblk_tracked_disk *disk, int (*flush_co)(void *opaque), void *opaque);

#endif
