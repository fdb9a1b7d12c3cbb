/**
 * A split ring's part of the in-flight region.
 *
 *     count = vhost_user_inflight_split_recover(part, capacity, size, used_index, pending, &counter, ...);
 *     ... resubmit pending[0, count) in that order; the next available index is used_index + count ...
 *     take:  vhost_user_inflight_split_take(part, head, counter++);
 *     give:  vhost_user_inflight_split_link(part, head);                  // any number of these
 *            the ring's used index goes on                               // visible to the driver
 *            vhost_user_inflight_split_clear(part, head);                // for each of them
 *            vhost_user_inflight_split_settle(part, used_index);
 *
 * ORDER inflight.split: a process that ends between any two instructions leaves a region and a ring from which its
 * successor learns exactly what was taken and not given back.
 *   take:     counter, then inflight: before anything is done for the request
 *   give:     next and last_batch_head, then the ring's used index, then inflight, then used_idx
 *   recover:  a used_idx that is behind the ring's used index: as many heads from last_batch_head on were given
 *   All are release stores, so that each comes after all before it. What ends a process does not undo what it has
 *   stored, so no fence is needed: the order of the instructions is what counts.
 * If weaker: a request that was completed is done again and completed twice, or one that was not is forgotten.
 * Test: tests/virtio-blk/virtqueue/test_tracking.c, which looks at the memory after each instruction.
 *
 * Source:    vhost-user specification, "Inflight I/O tracking", split virtqueue.
 */
#ifndef VHOST_USER_INFLIGHT_SPLIT_H
#define VHOST_USER_INFLIGHT_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

/* As in memory that is shared with other back ends: nothing may move. Host byte order. */
struct vhost_user_inflight_split_entry {
    uint8_t inflight;
    uint8_t padding[5];
    uint16_t next;    /* of the last batch that was given back */
    uint64_t counter; /* when it was taken */
};

struct vhost_user_inflight_split {
    uint64_t features;
    uint16_t version;
    uint16_t desc_num;
    uint16_t last_batch_head;
    uint16_t used_idx;
    struct vhost_user_inflight_split_entry desc[]; /* by head */
};

_Static_assert(sizeof(struct vhost_user_inflight_split_entry) == 16, "DescStateSplit");
_Static_assert(sizeof(struct vhost_user_inflight_split) == 16, "QueueRegionSplit");

/** What was in flight: the head, or the entry of its first descriptor in a packed ring's part. */
struct vhost_user_inflight_pending {
    uint64_t counter;
    uint16_t slot;
};

/**
 * Make the region agree with the ring, whose used index is @used_index, and tell what was in flight. A region that was
 * never used is made ready instead (is_new_out), with nothing in flight. Memory that the front end can write: each field
 * is read once and checked on the copy. @capacity is the number of entries that there is room for (the region's queue
 * size), @size the ring's, which its driver may have chosen smaller.
 *
 * Shape:     pending_out[size], sorted by the order in which they were taken; entries [0, return) are written.
 * Returns:   how many are in flight.
 * Errors:    -EINVAL with a reason (a constant): the region cannot be believed; nothing of it was changed that
 *            another back end could need.
 */
int vhost_user_inflight_split_recover(struct vhost_user_inflight_split *part, uint16_t capacity,
                                      uint16_t size, uint16_t used_index,
                                      struct vhost_user_inflight_pending *pending_out, uint64_t *counter_out,
                                      bool *is_new_out, const char **reason_out);

/** Oldest first, for both formats. */
void vhost_user_inflight_sort(struct vhost_user_inflight_pending *pending, unsigned count);

/* ORDER inflight.split, take */
static inline void vhost_user_inflight_split_take(struct vhost_user_inflight_split *part, uint16_t head,
                                                  uint64_t counter)
{
    __atomic_store_n(&part->desc[head].counter, counter, __ATOMIC_RELAXED);
    __atomic_store_n(&part->desc[head].inflight, 1, __ATOMIC_RELEASE);
}

/* ORDER inflight.split, give: before the ring's used index */
static inline void vhost_user_inflight_split_link(struct vhost_user_inflight_split *part, uint16_t head)
{
    uint16_t last = __atomic_load_n(&part->last_batch_head, __ATOMIC_RELAXED); /* only passed on: not checked */
    __atomic_store_n(&part->desc[head].next, last, __ATOMIC_RELEASE);
    __atomic_store_n(&part->last_batch_head, head, __ATOMIC_RELEASE);
}

/* ORDER inflight.split, give: after it */
static inline void vhost_user_inflight_split_clear(struct vhost_user_inflight_split *part, uint16_t head)
{
    __atomic_store_n(&part->desc[head].inflight, 0, __ATOMIC_RELEASE);
}

static inline void vhost_user_inflight_split_settle(struct vhost_user_inflight_split *part,
                                                    uint16_t used_index)
{
    __atomic_store_n(&part->used_idx, used_index, __ATOMIC_RELEASE);
}

#endif
