/*
 * What the files of this folder share. Nobody else includes it.
 *
 *     virtqueue.c   the interface: which format, what is out, what was given back
 *     split.c       where a split ring keeps heads, indices and events
 *     packed.c      the same of a packed ring
 *     tracking.c    what is noted in the in-flight region, and taken from there first
 *     chain.c       memory for elements, and the rules that a chain of descriptors must keep
 */
#ifndef VBLK_VIRTQUEUE_INTERNAL_H
#define VBLK_VIRTQUEUE_INTERNAL_H

#include <endian.h>
#include <errno.h>
#include <linux/virtio_ring.h>
#include <stdatomic.h>
#include <stddef.h>

#include "vhost_user/inflight_packed.h"
#include "vhost_user/inflight_split.h"
#include "virtqueue/virtqueue.h"

#define VBLK_IOV_INLINE 8

/* An element with the memory for its buffers; first, so that the pointers convert. */
struct holder {
    struct vblk_element element;
    struct iovec *iov;
    unsigned iov_max;
    uint16_t entry_count; /* of a packed ring, which the chain takes */
    uint16_t slot;        /* in its part of the in-flight region */
    struct holder *next_free;
    struct iovec iov_inline[VBLK_IOV_INLINE];
};

struct split_ring {
    const struct vring_desc *desc;
    uint16_t *avail_flags, *avail_index, *avail_ring, *used_event;
    uint16_t *used_flags, *used_index, *avail_event;
    uint32_t *used_ring; /* pairs: head, written bytes */
    uint16_t avail_seen; /* the available index as checked last; entries [popped, avail_seen) may be taken */
    uint16_t asked_heads, asked_chains; /* up to where their descriptors, and what these begin with, were prefetched */
    uint16_t signalled;  /* used index at the last decision about an interrupt */
    uint16_t event;      /* what avail_event holds */
};

/* Positions are an index of the ring with the wrap counter in bit 15, as the ring's own event offsets are. */
struct packed_ring {
    struct vring_packed_desc *desc;
    struct vring_packed_desc_event *driver_event, *device_event;
    uint16_t event;       /* the position in device_event */
    unsigned entries_out; /* of the ring: what the driver may not have made available again */
    unsigned entries_put; /* since the last decision about an interrupt; counts only while signalled_valid */
    uint16_t *unseen;     /* flags of the first used descriptor that was put and not published; NULL: none */
    uint16_t unseen_flags; /* what they are to become */
};

/* The queue's part of the in-flight region. */
struct tracking {
    struct vhost_user_memory_map *map; /* NULL: the front end keeps none, and nothing else is valid */
    struct vhost_user_inflight_split *split; /* NULL on a packed ring */
    uint64_t counter;                        /* split */
    struct vhost_user_inflight_packed_queue packed;
    struct vhost_user_inflight_pending *pending; /* [pending_next, pending_count) is to be taken before the ring's */
    unsigned pending_next, pending_count;
    uint16_t *unseen; /* [unseen_count]: slots that were put and not published */
    unsigned unseen_count;
    bool resumed;        /* another process may have been at this ring */
    const char *refused; /* why the region cannot be believed; NULL: it can */
};

struct vblk_virtqueue {
    /* constant */
    struct vhost_user_memory_map *map;
    uint16_t size;
    bool is_packed, event_idx, indirect;
    const uint8_t *used_area; /* what the device writes of the ring but descriptors */
    uint64_t used_area_bytes;

    /* the queue's loop; atomic (relaxed) where the sampler looks on */
    struct vhost_user_dirty_log *log; /* NULL: writes to the ring need not be marked */
    uint64_t log_guest;               /* by which address those to the used area are */
    struct tracking tracking;
    union {
        struct split_ring split;
        struct packed_ring packed;
    };
    _Atomic uint16_t popped, used; /* split: indices of 16 bits; packed: positions */
    _Atomic bool notifications;
    bool broken;
    bool signalled_valid;
    struct vhost_user_memory_hint region_hint;
    unsigned in_flight, iov_in_flight;
    struct holder *free;
    bool head_is_out[]; /* by head, or buffer id */
};

/* What is known of the chain that is being read. */
struct chain {
    struct holder *holder;
    unsigned iov_count, out_count;
    uint64_t out_bytes, in_bytes;
    uint16_t head;
    uint16_t popped_after; /* what `popped` becomes when the chain is taken */
    bool recovered; /* from the in-flight region, and from where there: packed */
    uint16_t slot;
    const char *reason; /* of -EPROTO */
};

struct descriptor {
    uint64_t address;
    uint32_t size_bytes;
    uint16_t flags;
    uint16_t next; /* split: of the chain; packed: the buffer's id */
};

/* An indirect table, which lies at any address and may cross memory regions. */
struct table {
    uint64_t address;
    uint32_t count;    /* descriptors */
    const void *plain; /* it is in one piece and aligned: read as it lies; or NULL */
};

/* virtqueue.c: mark in the dirty log what was written, after the write. */
void vblk_ring_mark(struct vblk_virtqueue *vq, const void *at, uint64_t size_bytes);

static inline void ring_written(struct vblk_virtqueue *vq, const void *at, uint64_t size_bytes)
{
    if (__builtin_expect(vq->log != NULL, 0))
        vblk_ring_mark(vq, at, size_bytes);
}

/* ---- ring memory: one access each, and every write of this folder to it ---- */

static inline uint16_t ring_read16(const uint16_t *at)
{
    return le16toh(__atomic_load_n(at, __ATOMIC_RELAXED));
}

static inline void ring_write16(struct vblk_virtqueue *vq, uint16_t *at, uint16_t value, int order)
{
    __atomic_store_n(at, htole16(value), order);
    ring_written(vq, at, sizeof *at);
}

static inline void ring_write32(struct vblk_virtqueue *vq, uint32_t *at, uint32_t value)
{
    __atomic_store_n(at, htole32(value), __ATOMIC_RELAXED);
    ring_written(vq, at, sizeof *at);
}

/* A write after which the other side's word may be read (ORDER virtqueue.event). */
static inline void ring_exchange16(struct vblk_virtqueue *vq, uint16_t *at, uint16_t value)
{
    __atomic_exchange_n(at, htole16(value), __ATOMIC_SEQ_CST);
    ring_written(vq, at, sizeof *at);
}

/* As a split ring has it; a packed one has the last two fields the other way round. */
static inline struct descriptor descriptor_unpack(uint64_t low, uint64_t high)
{
    high = le64toh(high);
    return (struct descriptor){ .address = le64toh(low),
                                .size_bytes = (uint32_t)high,
                                .flags = (uint16_t)(high >> 32),
                                .next = high >> 48 };
}

/* 16 bytes in two reads; nothing depends on the two being of the same moment. */
static inline struct descriptor descriptor_read(const void *at)
{
    const uint64_t *words = at;
    return descriptor_unpack(__atomic_load_n(&words[0], __ATOMIC_RELAXED),
                             __atomic_load_n(&words[1], __ATOMIC_RELAXED));
}

static inline uint16_t popped_index(const struct vblk_virtqueue *vq)
{
    return atomic_load_explicit(&vq->popped, memory_order_relaxed);
}

static inline uint16_t used_index(const struct vblk_virtqueue *vq)
{
    return atomic_load_explicit(&vq->used, memory_order_relaxed);
}

#define PACKED_INDEX 0x7fff
#define PACKED_WRAP 0x8000

/* A position of a packed ring, @count entries on. */
static inline uint16_t packed_advance(const struct vblk_virtqueue *vq, uint16_t at, unsigned count)
{
    unsigned index = (at & PACKED_INDEX) + count;
    return (uint16_t)(index < vq->size ? (at & PACKED_WRAP) | index
                                       : ((at & PACKED_WRAP) ^ PACKED_WRAP) | (index - vq->size));
}

/* chain.c. Errors: -EPROTO with chain->reason, -ENOMEM. */
struct holder *vblk_holder_take(struct vblk_virtqueue *vq);
void vblk_holder_give(struct vblk_virtqueue *vq, struct holder *holder);
void vblk_holder_free_all(struct vblk_virtqueue *vq);
int vblk_chain_add_buffer(struct vblk_virtqueue *vq, struct chain *chain, const struct descriptor *descriptor);
int vblk_table_find(struct vblk_virtqueue *vq, struct chain *chain, const struct descriptor *descriptor,
                    struct table *table_out);
int vblk_table_gather(struct vblk_virtqueue *vq, struct chain *chain, uint64_t address,
                      struct descriptor *descriptor_out);

/* A table's descriptor, fields as descriptor_unpack() has them. */
static inline int table_read(struct vblk_virtqueue *vq, struct chain *chain, const struct table *table,
                             uint32_t index, struct descriptor *descriptor_out)
{
    if (!table->plain)
        return vblk_table_gather(vq, chain, table->address + index * sizeof(struct vring_desc), descriptor_out);
    *descriptor_out = descriptor_read((const struct vring_desc *)table->plain + index);
    return 0;
}

/*
 * A format. take() reads the next chain: 1, or 0 if there is none, or -ENOMEM, or -EPROTO with chain->reason. The
 * caller moves `popped` on or gives chain->holder back. put() writes a used element and moves `used` on; publish() shows the
 * driver all that were put. should_interrupt() publishes, too.
 */
int vblk_split_init(struct vblk_virtqueue *vq, const struct vblk_virtqueue_config *config);
int vblk_split_take(struct vblk_virtqueue *vq, struct chain *chain);
int vblk_split_retake(struct vblk_virtqueue *vq, struct chain *chain, uint16_t head); /* popped stays */
void vblk_split_set_popped(struct vblk_virtqueue *vq, uint16_t popped);
void vblk_split_put(struct vblk_virtqueue *vq, const struct vblk_element *element, uint32_t written_bytes);
void vblk_split_publish(struct vblk_virtqueue *vq);
unsigned vblk_split_waiting(const struct vblk_virtqueue *vq);
bool vblk_split_pending(const struct vblk_virtqueue *vq);
uint16_t vblk_split_peek(const struct vblk_virtqueue *vq);
bool vblk_split_should_interrupt(struct vblk_virtqueue *vq);
bool vblk_split_enable_notifications(struct vblk_virtqueue *vq);
void vblk_split_disable_notifications(struct vblk_virtqueue *vq);

int vblk_packed_init(struct vblk_virtqueue *vq, const struct vblk_virtqueue_config *config);
void vblk_packed_set_positions(struct vblk_virtqueue *vq, uint16_t used, uint16_t popped);
int vblk_packed_retake(struct vblk_virtqueue *vq, struct chain *chain, uint16_t slot); /* popped stays */
int vblk_packed_take(struct vblk_virtqueue *vq, struct chain *chain);
void vblk_packed_put(struct vblk_virtqueue *vq, const struct vblk_element *element, uint32_t written_bytes);
void vblk_packed_publish(struct vblk_virtqueue *vq);
unsigned vblk_packed_waiting(const struct vblk_virtqueue *vq);
bool vblk_packed_pending(const struct vblk_virtqueue *vq);
uint16_t vblk_packed_peek(const struct vblk_virtqueue *vq);
bool vblk_packed_should_interrupt(struct vblk_virtqueue *vq);
bool vblk_packed_enable_notifications(struct vblk_virtqueue *vq);
void vblk_packed_disable_notifications(struct vblk_virtqueue *vq);

/* tracking.c. All but the first two only while tracking.map is there. */
int vblk_tracking_init(struct vblk_virtqueue *vq, const struct vblk_virtqueue_config *config); /* after the format's */
void vblk_tracking_deinit(struct vblk_virtqueue *vq);
int vblk_tracking_check(const struct vblk_virtqueue *vq, struct chain *chain); /* 0, or -EPROTO with a reason */
int vblk_tracking_take(struct vblk_virtqueue *vq, struct chain *chain);        /* as a format's take() */
void vblk_tracking_taken(struct vblk_virtqueue *vq, struct chain *chain); /* before anything is done for it */
void vblk_tracking_put(struct vblk_virtqueue *vq, const struct vblk_element *element); /* before the format's */
void vblk_tracking_published(struct vblk_virtqueue *vq);                               /* after the format's */

static inline bool tracking_is_pending(const struct vblk_virtqueue *vq)
{
    return vq->tracking.pending_next < vq->tracking.pending_count;
}

#endif
