/*
 * Driver side of a virtqueue, split or packed, that carries virtio-blk requests.
 *
 * Every request that may be in flight has a slot: header, data buffer, status byte and descriptors,
 * laid out once in memory shared with the server. Issuing a request again with the same type and
 * length writes a sector number, a status byte and one ring entry (packed: its descriptors in the ring), nothing else.
 *
 *     fe_queue_prepare(queue, slot, VIRTIO_BLK_T_IN, sector, 4096, FE_FROM_DEVICE);
 *     fe_queue_submit(queue, slot);           // any number of these ...
 *     fe_queue_publish(queue);                // ... then one index update and at most one kick
 *     while ((n = fe_queue_reap(queue, slots, 32)) == 0)
 *         fe_queue_wait(queue);
 *
 * Threads: one thread drives a queue; fe_queue_wake() may be called from any thread.
 *
 * ORDER fe.kick: the server sees the request or we kick.
 *   fe_queue_publish(): store avail->idx, then load avail_event (or used->flags), both seq_cst
 *   server:             store avail_event (or used->flags), then load avail->idx (VIRTIO 1.2, 2.7.13.4.1)
 * ORDER fe.interrupt: we see the completion or the server interrupts.
 *   fe_queue_arm():     store used_event (or avail->flags), then load used->idx, both seq_cst
 *   server:             store used->idx, then load used_event (or avail->flags) (VIRTIO 1.2, 2.7.14)
 * ORDER fe.publish: release store of avail->idx after descriptors and ring entries; the server's
 *   acquire load pairs with it. The used ring is the same with the sides exchanged.
 * On a packed ring the flags of the next descriptor stand for both indices, and the two event suppression structures for
 * avail_event, used_event and the flags: fe_queue_packed.c.
 *
 * Source: VIRTIO 1.2, 2.7 (split virtqueues), 2.8 (packed virtqueues), 5.2.6 (block device operation).
 */
#ifndef LOAD_FE_QUEUE_H
#define LOAD_FE_QUEUE_H

#include <linux/virtio_blk.h>
#include <linux/virtio_ring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fe_direction { FE_TO_DEVICE, FE_FROM_DEVICE };

/* Shape of a queue, decided before its memory exists. */
struct fe_queue_layout {
    uint16_t size;          /* ring entries; split: a power of two */
    uint16_t slot_count;    /* requests that may be in flight */
    uint32_t slot_bytes;    /* data buffer of each slot */
    uint32_t segment_bytes; /* longest data descriptor; 0: a slot's data is one descriptor */
    bool packed;
    bool indirect;
    bool event_idx;
};

struct fe_slot {
    struct virtio_blk_outhdr *header;
    uint8_t *status;
    uint8_t *data;
    struct vring_desc *chain; /* indirect table, or this slot's part of the descriptor table */
    struct vring_packed_desc *packed_chain; /* indirect table, or what submit() copies into the ring */
    uint16_t chain_length;
    uint16_t head; /* descriptor index that goes into the available ring; packed: the buffer id */
    bool in_flight;
    /* What the chain describes now; prepare() rebuilds it only if that changes. */
    enum fe_direction direction;
    uint32_t type;
    uint32_t bytes;
    uint32_t used_bytes; /* what the server says it wrote, after reap */
};

struct fe_queue {
    /* Set by init, constant afterwards. */
    struct fe_queue_layout layout;
    struct vring_desc *desc;
    struct vring_avail *avail;
    struct vring_used *used;
    /* The same three areas of a packed ring: 2.8. */
    struct vring_packed_desc *packed_desc;
    struct vring_packed_desc_event *driver_event; /* we write */
    struct vring_packed_desc_event *device_event; /* the server writes */
    uint16_t *used_event;  /* we write: VIRTIO 1.2, 2.7.7 */
    uint16_t *avail_event; /* the server writes: VIRTIO 1.2, 2.7.10 */
    uint8_t *memory;
    uint64_t guest_addr; /* of memory */
    struct fe_slot *slots;
    uint16_t *slot_of_head; /* [layout.size]; FE_NO_SLOT where no chain begins */

    /* Changed only while the ring is stopped. -1: none. */
    int kick_fd;
    int call_fd;

    /* Queue thread only. */
    uint16_t *free_slots;
    uint16_t free_count;
    uint16_t in_flight;
    /* Split: indices. Packed: positions, with the wrap counter in bit 15. */
    uint16_t avail_next;
    uint16_t avail_published;
    uint16_t last_used;
    uint16_t head_flags;    /* packed: of the first descriptor that was submitted and not published */
    uint16_t entries_ready; /* packed: submitted and not published */
    uint16_t used_event_written;
    bool suppressed; /* interrupts are switched off for good: the queue is polled */
    bool call_fd_nonblocking;
    uint64_t kick_count;
    uint64_t wait_count;
    uint64_t used_length_wrong_count; /* used length above what the request let the server write */
    char broken[128];                 /* what the server did wrong, after -EPROTO */
};

#define FE_NO_SLOT 0xffffu

/** Largest layout.slot_count that @layout's ring size allows; 0 if one request does not fit. */
unsigned fe_queue_slots_max(const struct fe_queue_layout *layout);

/** Bytes of shared memory that a queue of this layout needs; a multiple of the page size. */
size_t fe_queue_memory_bytes(const struct fe_queue_layout *layout);

/**
 * Lay a queue out in @memory (zeroed, page-aligned, fe_queue_memory_bytes() long), which the server
 * knows by @guest_addr.
 *
 * Ownership: the caller owns @memory until fe_queue_deinit().
 */
void fe_queue_init(struct fe_queue *queue, const struct fe_queue_layout *layout, void *memory,
                   uint64_t guest_addr);
void fe_queue_deinit(struct fe_queue *queue);

/** Guest address of a byte in the queue's memory. */
static inline uint64_t fe_queue_guest_addr(const struct fe_queue *queue, const void *byte)
{
    return queue->guest_addr + (uint64_t)((const uint8_t *)byte - queue->memory);
}

/** Take a free slot; FE_NO_SLOT if all are in use. fe_queue_give() returns it. */
uint16_t fe_queue_take(struct fe_queue *queue);
void fe_queue_give(struct fe_queue *queue, uint16_t slot);

/**
 * Describe a request in @slot: @bytes of the slot's data in @direction (0: no data, as for a flush).
 *
 * Units: @sector in 512 bytes. @bytes is at most layout.slot_bytes.
 */
void fe_queue_prepare(struct fe_queue *queue, uint16_t slot, uint32_t type, uint64_t sector, uint32_t bytes,
                      enum fe_direction direction);

/** Put a prepared slot into the available ring; the server sees it after fe_queue_publish(). */
void fe_queue_submit(struct fe_queue *queue, uint16_t slot);

/**
 * Show all submitted slots to the server and kick it if it asks for that.
 *
 * Returns: true if the server was kicked.
 */
bool fe_queue_publish(struct fe_queue *queue);

/** Kick unconditionally. Harmless at any time; needed once after a ring is started with requests in it. */
void fe_queue_kick(struct fe_queue *queue);

/**
 * Collect completed slots, at most @max. The caller reads slot->status and gives each slot back.
 *
 * Returns: how many, 0 if none.
 * Errors:  -EPROTO  a used element names a request that is not in flight; queue->broken says what.
 */
int fe_queue_reap(struct fe_queue *queue, uint16_t *slots, unsigned max);

/** Switch interrupts off for good: the caller polls with fe_queue_reap(). */
void fe_queue_suppress(struct fe_queue *queue);

/** Ask for an interrupt at the next completion. Returns true if one is there already: do not sleep. */
bool fe_queue_arm(struct fe_queue *queue);

/**
 * Sleep until the server interrupts or fe_queue_wake() is called. May return without reason.
 *
 * Errors: -errno of reading the call eventfd.
 */
int fe_queue_wait(struct fe_queue *queue);

/** End a fe_queue_wait(), or the next one. Any thread. */
void fe_queue_wake(struct fe_queue *queue);

/**
 * Where the server's completions end, reaped or not: what GET_VRING_BASE answers if everything that the server took is
 * complete, and where it goes on after SET_VRING_BASE. Encoded as in these messages: split: an index; packed: the
 * available position and, in the upper half, the used one, which are equal.
 * Threads: the queue's, or any while nobody drives the queue.
 */
uint32_t fe_queue_base(const struct fe_queue *queue);

#endif
