/**
 * A packed ring's part of the in-flight region. Its entries are a copy of the descriptors that were taken, since the ring's
 * are overwritten; entries that hold none form a list of free ones.
 *
 *     count = vhost_user_inflight_packed_recover(&packed, part, capacity, ring, size, &position, pending, ...);
 *     ... resubmit pending[0, count) in that order, from vhost_user_inflight_packed_read() ...
 *     take:  slot = vhost_user_inflight_packed_begin(&packed);
 *            vhost_user_inflight_packed_add(&packed, descriptor, is_last);   // for each of the chain
 *            vhost_user_inflight_packed_commit(&packed);
 *     give:  vhost_user_inflight_packed_link(&packed, slot);                 // any number of these
 *            vhost_user_inflight_packed_advance(&packed, used_index, used_wrap);
 *            the first used descriptor's flags                               // visible to the driver
 *            vhost_user_inflight_packed_clear(&packed, slot);                // for each of them
 *            vhost_user_inflight_packed_settle(&packed);
 *
 * ORDER inflight.packed: as inflight.split (inflight_split.h); all are release stores.
 *   take:     the first entry's num, counter and inflight, then each descriptor's copy and free_head, then old_free_head
 *   give:     the free list, used_idx and used_wrap_counter, then the descriptor's flags in the ring, then inflight, then
 *             the old_ fields
 *   recover:  a position that differs from the old one counts if the ring's descriptor there is used; else all goes
 *             back to the old_ fields. What the free list holds is not in flight.
 * If weaker: a request that was completed is done again and completed twice, or one that was not is forgotten.
 * Test: tests/virtio-blk/virtqueue/test_tracking.c, which looks at the memory after each instruction.
 *
 * The front end can write into the region at any time, so the free list is kept in memory of our own and only
 * mirrored there.
 *
 * Source:    vhost-user specification, "Inflight I/O tracking", packed virtqueue; VIRTIO 1.2, 2.8.
 */
#ifndef VHOST_USER_INFLIGHT_PACKED_H
#define VHOST_USER_INFLIGHT_PACKED_H

#include <linux/virtio_ring.h>
#include <stdbool.h>
#include <stdint.h>

#include "vhost_user/inflight_split.h"

/* As in memory that is shared with other back ends: nothing may move. Host byte order. */
struct vhost_user_inflight_packed_entry {
    uint8_t inflight; /* this and the next two: of a chain's first entry */
    uint8_t padding;
    uint16_t next;    /* of the free list, and of the chain */
    uint16_t last;
    uint16_t num;
    uint64_t counter;
    uint16_t id; /* this and what follows: the descriptor */
    uint16_t flags;
    uint32_t len;
    uint64_t addr;
};

struct vhost_user_inflight_packed {
    uint64_t features;
    uint16_t version;
    uint16_t desc_num;
    uint16_t free_head;
    uint16_t old_free_head;
    uint16_t used_idx;
    uint16_t old_used_idx;
    uint8_t used_wrap_counter;
    uint8_t old_used_wrap_counter;
    uint8_t padding[7];
    struct vhost_user_inflight_packed_entry desc[];
};

_Static_assert(sizeof(struct vhost_user_inflight_packed_entry) == 32, "DescStatePacked");
_Static_assert(sizeof(struct vhost_user_inflight_packed) == 32, "QueueRegionPacked");

/** Where the device is in the ring. */
struct vhost_user_inflight_position {
    uint16_t used_index, avail_index;
    bool used_wrap, avail_wrap;
};

/** The device's handle. @part NULL: nothing is tracked. */
struct vhost_user_inflight_packed_queue {
    struct vhost_user_inflight_packed *part;
    uint16_t *next; /* [desc_num]: our own copy of the links */
    uint16_t *last; /* [desc_num]: of a chain's first entry */
    uint16_t desc_num;
    uint16_t free_head, old_free_head;
    uint16_t used_index;
    bool used_wrap;
    uint64_t counter;
};

/**
 * Make the region agree with @ring, and tell what was in flight. For a new region @position_inout is where the ring is
 * (of SET_VRING_BASE), for one that was in use (is_old_out) it is replaced by what the region says.
 *
 * Shape:     pending_out[size], sorted by the order in which they were taken; entries [0, return) are written.
 * Returns:   how many chains are in flight.
 * Errors:    -EINVAL with a reason (a constant): the region cannot be believed. -ENOMEM.
 * Ownership: until vhost_user_inflight_packed_deinit(), also after an error.
 */
int vhost_user_inflight_packed_recover(struct vhost_user_inflight_packed_queue *queue,
                                       struct vhost_user_inflight_packed *part, uint16_t capacity,
                                       const struct vring_packed_desc *ring, uint16_t size,
                                       struct vhost_user_inflight_position *position_inout,
                                       struct vhost_user_inflight_pending *pending_out, bool *is_old_out,
                                       const char **reason_out);
void vhost_user_inflight_packed_deinit(struct vhost_user_inflight_packed_queue *queue);

/** Descriptors of a chain that was in flight, and the @number -th of them, as it was in the ring (little endian). */
uint16_t vhost_user_inflight_packed_count(const struct vhost_user_inflight_packed_queue *queue, uint16_t slot);
void vhost_user_inflight_packed_read(const struct vhost_user_inflight_packed_queue *queue, uint16_t slot,
                                     uint16_t number, struct vring_packed_desc *descriptor_out);

/** A chain begins; its slot. */
uint16_t vhost_user_inflight_packed_begin(struct vhost_user_inflight_packed_queue *queue);
/** One descriptor of it, read from the ring already (little endian). */
void vhost_user_inflight_packed_add(struct vhost_user_inflight_packed_queue *queue,
                                    const struct vring_packed_desc *descriptor, bool is_last);
void vhost_user_inflight_packed_commit(struct vhost_user_inflight_packed_queue *queue);

void vhost_user_inflight_packed_link(struct vhost_user_inflight_packed_queue *queue, uint16_t slot);
void vhost_user_inflight_packed_advance(struct vhost_user_inflight_packed_queue *queue, uint16_t used_index,
                                        bool used_wrap);
void vhost_user_inflight_packed_clear(struct vhost_user_inflight_packed_queue *queue, uint16_t slot);
void vhost_user_inflight_packed_settle(struct vhost_user_inflight_packed_queue *queue);

#endif
