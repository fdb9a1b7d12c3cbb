/**
 * Tracked requests: overlapping serialising requests wait for each other, flushes keep their order.
 *
 * A request is serialising when the disk must read, modify and write for it. It waits for every overlapping request,
 * and later overlapping ones wait for it. Lists are per queue (a shard), each with a lock that on the usual path only
 * that queue's loop takes; only a serialising request visits all.
 *
 *     vblk_tracked_begin_co(disk, shard, &t);    // may wait for overlapping ones
 *     ...
 *     vblk_tracked_end(disk, shard, &t);
 */
#ifndef VBLK_TRACKED_H
#define VBLK_TRACKED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rt/lock.h"

struct vblk_tracked {
    uint64_t request_id;
    uint64_t offset_bytes, size_bytes; /**< of what it touches, widened for a read-modify-write */
    bool write;
    bool serialising;
    uint64_t ticket;                   /**< serialising ones: their order, under wait_lock; 0 until they have it */
    struct vblk_tracked *next, **at;   /**< shard's list, under its lock */
};

struct vblk_tracked_shard {
    struct rt_mutex lock; /**< class blk-tracked-requests */
    struct vblk_tracked *first;
    _Atomic uint64_t writes_done; /**< written by the queue's loop, under the lock; summed by flushes */
};

struct vblk_tracked_disk {
    struct vblk_tracked_shard *shards;
    unsigned shard_count;
    _Atomic uint32_t serialising_count;
    struct rt_mutex wait_lock;       /**< taken before a shard's lock */
    struct rt_co_queue waiting;      /**< for a request to end, under wait_lock */
    _Atomic uint32_t waiting_count;
    uint64_t last_ticket;            /**< under wait_lock */
    struct rt_mutex flush_lock;
    struct rt_co_queue flush_queue;  /**< under flush_lock */
    bool flush_active;
    uint64_t flushed_generation;
};

void vblk_tracked_init(struct vblk_tracked_disk *disk, unsigned shard_count);
void vblk_tracked_deinit(struct vblk_tracked_disk *disk); /**< nothing tracked */

/** Coroutine only: waits for overlapping requests where the rules say so. Trace: vblk_request:serialise_wait. */
void vblk_tracked_begin_co(struct vblk_tracked_disk *disk, unsigned shard, struct vblk_tracked *tracked);
/** The same loop as begin. @wrote: it changed the disk. */
void vblk_tracked_end(struct vblk_tracked_disk *disk, unsigned shard, struct vblk_tracked *tracked, bool wrote);

/**
 * Run flush(opaque) once for all writes that ended before this call. Flushes reach the disk one at a time and in the
 * order of their write generation; one whose writes another has flushed meanwhile returns 0 at once.
 */
int vblk_tracked_flush_co(struct vblk_tracked_disk *disk, int (*flush_co)(void *opaque), void *opaque);

#endif
