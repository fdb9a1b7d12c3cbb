#include "virtqueue/virtqueue.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <linux/virtio_ring.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/*
 * The driver may change ring memory at any moment. Each field is read by one relaxed atomic access (the
 * compiler can neither split nor repeat it) and used from the copy. Three edges cross to the driver; its side
 * is what VIRTIO 1.2 requires of drivers, and vblk-load's queue when that is the driver:
 *
 * ORDER virtqueue.avail: a head that the index announces, its descriptors and its buffers are there when we
 * read them.
 *   driver:  writes descriptors and ring entry, then the index after a write barrier (2.7.13.3)
 *   device:  loads the index with acquire order, then reads the rest
 *   If weaker: stale descriptors are taken for new ones.
 *
 * ORDER virtqueue.used: a driver that sees the used index sees the element and the data.
 *   device:  writes data and element, then stores the index with release order
 *   driver:  reads the element after a read barrier (2.7.14)
 *   If weaker: the guest reads a block before it is there.
 *
 * ORDER virtqueue.event: of two sides that each publish and then look, at least one sees the other (store
 * buffering).
 *   device, kicks:       stores avail_event or flags, then loads the available index
 *   driver, kicks:       stores the available index, full barrier, then reads avail_event or flags (2.7.13.4.1)
 *   device, interrupts:  stores the used index, then loads used_event or flags
 *   driver, interrupts:  stores used_event or flags, full barrier, then reads the used index (2.7.14)
 *   Our stores are seq_cst exchanges and our loads seq_cst, because lone fences are invisible to
 *   ThreadSanitizer; the exchange costs what a full fence costs.
 *   If weaker: both read old values, and the queue sleeps on work for ever.
 *
 * Test: tests/virtio-blk/virtqueue/stress_virtqueue.c.
 */

#define IOV_INLINE 8
#define IOV_KEPT_MAX 256

/* An element with the memory for its buffers; first, so that the pointers convert. */
struct holder {
    struct vblk_element element;
    struct iovec *iov;
    unsigned iov_max;
    struct holder *next_free;
    struct iovec iov_inline[IOV_INLINE];
};

struct vblk_virtqueue {
    /* constant */
    struct vhost_user_memory_map *map;
    const struct vring_desc *desc;
    uint16_t *avail_flags, *avail_index, *avail_ring, *used_event;
    uint16_t *used_flags, *used_index_at, *avail_event;
    uint32_t *used_ring; /* pairs: head, written bytes */
    uint16_t size;
    bool event_idx, indirect;

    /* the queue's loop; atomic (relaxed) where the sampler looks on */
    _Atomic uint16_t popped, used;
    _Atomic bool notifications;
    bool broken;
    bool signalled_valid;
    uint16_t avail_seen; /* the available index as checked last; entries [popped, avail_seen) may be taken */
    uint16_t signalled;  /* used index at the last decision about an interrupt */
    uint16_t event;      /* what avail_event holds */
    unsigned region_hint;
    unsigned in_flight, iov_in_flight;
    struct holder *free;
    bool head_is_out[]; /* by head */
};

/* What is known of the chain that is being read. */
struct chain {
    struct holder *holder;
    unsigned iov_count, out_count;
    uint64_t out_bytes, in_bytes;
    const char *reason;
};

struct descriptor {
    uint64_t address;
    uint32_t size_bytes;
    uint16_t flags, next;
};

static uint16_t read16(const uint16_t *at)
{
    return le16toh(__atomic_load_n(at, __ATOMIC_RELAXED));
}

static void write16(uint16_t *at, uint16_t value)
{
    __atomic_store_n(at, htole16(value), __ATOMIC_RELAXED);
}

static void write32(uint32_t *at, uint32_t value)
{
    __atomic_store_n(at, htole32(value), __ATOMIC_RELAXED);
}

static uint16_t popped_index(const struct vblk_virtqueue *vq)
{
    return atomic_load_explicit(&vq->popped, memory_order_relaxed);
}

static uint16_t used_index(const struct vblk_virtqueue *vq)
{
    return atomic_load_explicit(&vq->used, memory_order_relaxed);
}

/* ---- life ---- */

static int locate(struct vblk_virtqueue *vq, const struct vblk_virtqueue_config *config)
{
    /* The event fields at the rings' ends are there for certain only if they were negotiated. */
    uint64_t tail_bytes = vq->event_idx ? sizeof(uint16_t) : 0;
    uint64_t size = config->size;
    void *desc = vhost_user_memory_map_user(vq->map, config->desc_user, size * sizeof(struct vring_desc));
    void *avail = vhost_user_memory_map_user(vq->map, config->avail_user, 4 + size * 2 + tail_bytes);
    void *used = vhost_user_memory_map_user(vq->map, config->used_user, 4 + size * 8 + tail_bytes);
    if (!desc || !avail || !used)
        return -EFAULT;
    /* Ours are checked, not the front end's: it chooses how far the two are apart. */
    if ((uintptr_t)desc % VRING_DESC_ALIGN_SIZE || (uintptr_t)avail % VRING_AVAIL_ALIGN_SIZE ||
        (uintptr_t)used % VRING_USED_ALIGN_SIZE)
        return -EINVAL;
    vq->desc = desc;
    vq->avail_flags = avail;
    vq->avail_index = vq->avail_flags + 1;
    vq->avail_ring = vq->avail_flags + 2;
    vq->used_event = vq->avail_ring + config->size;
    vq->used_flags = used;
    vq->used_index_at = vq->used_flags + 1;
    vq->used_ring = (uint32_t *)used + 1;
    vq->avail_event = vq->used_flags + 2 + 4 * config->size;
    return 0;
}

int vblk_virtqueue_create(const struct vblk_virtqueue_config *config, struct vhost_user_memory_map *map,
                          struct vblk_virtqueue **vq_out)
{
    uint16_t size = config->size;
    if (!size || size > VBLK_VIRTQUEUE_SIZE_MAX || (size & (size - 1)))
        return -EINVAL;
    struct vblk_virtqueue *vq = calloc(1, sizeof *vq + size * sizeof vq->head_is_out[0]);
    if (!vq)
        return -ENOMEM;
    vq->size = size;
    vq->event_idx = config->features & 1ULL << VIRTIO_RING_F_EVENT_IDX;
    vq->indirect = config->features & 1ULL << VIRTIO_RING_F_INDIRECT_DESC;
    vq->map = map;
    int error = locate(vq, config);
    if (error) {
        free(vq);
        return error;
    }
    vhost_user_memory_map_ref(map);
    vq->popped = vq->avail_seen = config->base;
    vq->used = vq->signalled = read16(vq->used_index_at);
    write16(vq->used_flags, 0);
    (void)vblk_virtqueue_enable_notifications(vq);
    *vq_out = vq;
    return 0;
}

void vblk_virtqueue_destroy(struct vblk_virtqueue *vq)
{
    if (!vq)
        return;
    assert(vq->in_flight == 0);
    while (vq->free) {
        struct holder *holder = vq->free;
        vq->free = holder->next_free;
        if (holder->iov != holder->iov_inline)
            free(holder->iov);
        free(holder);
    }
    vhost_user_memory_map_unref(vq->map);
    free(vq);
}

/* ---- memory for elements ---- */

static struct holder *take_holder(struct vblk_virtqueue *vq)
{
    struct holder *holder = vq->free;
    if (holder) {
        vq->free = holder->next_free;
        if (holder->iov != holder->iov_inline)
            vq->iov_in_flight += holder->iov_max;
        return holder;
    }
    holder = malloc(sizeof *holder);
    if (holder) {
        holder->iov = holder->iov_inline;
        holder->iov_max = IOV_INLINE;
    }
    return holder;
}

static void give_holder(struct vblk_virtqueue *vq, struct holder *holder)
{
    if (holder->iov != holder->iov_inline) {
        vq->iov_in_flight -= holder->iov_max;
        if (holder->iov_max > IOV_KEPT_MAX) {
            free(holder->iov);
            holder->iov = holder->iov_inline;
            holder->iov_max = IOV_INLINE;
        }
    }
    holder->next_free = vq->free;
    vq->free = holder;
}

/* More room for buffers. The sum over a queue has a bound, so that a guest cannot make the process eat the
 * host. */
static int grow(struct vblk_virtqueue *vq, struct chain *chain)
{
    struct holder *holder = chain->holder;
    if (holder->iov_max == VBLK_VIRTQUEUE_IOV_MAX) {
        chain->reason = "a descriptor chain has too many pieces";
        return -EPROTO;
    }
    bool was_inline = holder->iov == holder->iov_inline;
    unsigned larger =
        holder->iov_max * 4 < VBLK_VIRTQUEUE_IOV_MAX ? holder->iov_max * 4 : VBLK_VIRTQUEUE_IOV_MAX;
    unsigned added = larger - (was_inline ? 0 : holder->iov_max);
    if (vq->in_flight && vq->iov_in_flight + added > VBLK_VIRTQUEUE_IOV_BUDGET)
        return -ENOMEM;
    struct iovec *iov = realloc(was_inline ? NULL : holder->iov, larger * sizeof *iov);
    if (!iov)
        return -ENOMEM;
    if (was_inline)
        memcpy(iov, holder->iov_inline, chain->iov_count * sizeof *iov);
    holder->iov = iov;
    holder->iov_max = larger;
    vq->iov_in_flight += added;
    return 0;
}

/* ---- reading a chain ---- */

static struct descriptor unpack(uint64_t low, uint64_t high)
{
    high = le64toh(high);
    return (struct descriptor){ .address = le64toh(low),
                                .size_bytes = (uint32_t)high,
                                .flags = (uint16_t)(high >> 32),
                                .next = high >> 48 };
}

/* 16 bytes in two reads; nothing depends on the two being of the same moment. */
static struct descriptor read_descriptor(const void *at)
{
    const uint64_t *words = at;
    return unpack(__atomic_load_n(&words[0], __ATOMIC_RELAXED), __atomic_load_n(&words[1], __ATOMIC_RELAXED));
}

/* An indirect table may lie at any address, also across memory regions: byte by byte then. */
static int gather_descriptor(struct vblk_virtqueue *vq, uint64_t address, struct descriptor *descriptor_out)
{
    struct iovec pieces[sizeof(struct vring_desc)];
    uint64_t words[2];
    uint8_t *to = (uint8_t *)words;
    int count = vhost_user_memory_map_translate_near(vq->map, &vq->region_hint, address, sizeof words, pieces,
                                                     sizeof words);
    if (count < 0)
        return count;
    for (int i = 0; i < count; i++)
        for (size_t j = 0; j < pieces[i].iov_len; j++)
            *to++ = __atomic_load_n((const uint8_t *)pieces[i].iov_base + j, __ATOMIC_RELAXED);
    *descriptor_out = unpack(words[0], words[1]);
    return 0;
}

static int add_buffer(struct vblk_virtqueue *vq, struct chain *chain, const struct descriptor *descriptor)
{
    bool writable = descriptor->flags & VRING_DESC_F_WRITE;
    if (!descriptor->size_bytes) {
        chain->reason = "a descriptor has length 0";
        return -EPROTO;
    }
    if (!writable && chain->in_bytes) {
        chain->reason = "a readable descriptor follows a writable one";
        return -EPROTO;
    }
    int count;
    for (;;) {
        struct holder *holder = chain->holder;
        count = vhost_user_memory_map_translate_near(vq->map, &vq->region_hint, descriptor->address,
                                                     descriptor->size_bytes, holder->iov + chain->iov_count,
                                                     (int)(holder->iov_max - chain->iov_count));
        if (count != -E2BIG)
            break;
        int error = grow(vq, chain);
        if (error)
            return error;
    }
    if (count < 0) {
        chain->reason = "a descriptor lies outside guest memory";
        return -EPROTO;
    }
    chain->iov_count += (unsigned)count;
    if (writable) {
        chain->in_bytes += descriptor->size_bytes;
    } else {
        chain->out_bytes += descriptor->size_bytes;
        chain->out_count = chain->iov_count;
    }
    if (chain->in_bytes > UINT32_MAX || chain->out_bytes > UINT32_MAX) {
        chain->reason = "a descriptor chain is 4 GiB or longer";
        return -EPROTO;
    }
    return 0;
}

static int walk_indirect(struct vblk_virtqueue *vq, struct chain *chain, const struct descriptor *table)
{
    if (!vq->indirect || table->flags & VRING_DESC_F_NEXT) {
        chain->reason = vq->indirect ? "an indirect descriptor has a next one"
                                     : "an indirect descriptor, which was not negotiated";
        return -EPROTO;
    }
    if (!table->size_bytes || table->size_bytes % sizeof(struct vring_desc)) {
        chain->reason = "an indirect table's length is no multiple of 16, or 0";
        return -EPROTO;
    }
    uint32_t count = table->size_bytes / sizeof(struct vring_desc);
    /* All of it must be there, also what the chain does not use; in one piece and aligned it is read as it
     * lies. */
    struct iovec whole[16];
    int pieces = vhost_user_memory_map_translate_near(vq->map, &vq->region_hint, table->address,
                                                      table->size_bytes, whole, 16);
    bool plain = pieces == 1 && (uintptr_t)whole[0].iov_base % sizeof(uint64_t) == 0;
    if (pieces < 0 && pieces != -E2BIG) {
        chain->reason = "an indirect table lies outside guest memory";
        return -EPROTO;
    }
    uint32_t index = 0;
    for (unsigned seen = 0;; seen++) {
        struct descriptor descriptor;
        if (seen == count || seen == VBLK_VIRTQUEUE_CHAIN_MAX) {
            chain->reason =
                seen == count ? "an indirect table's chain loops" : "an indirect chain is too long";
            return -EPROTO;
        }
        if (plain) {
            descriptor = read_descriptor((const struct vring_desc *)whole[0].iov_base + index);
        } else if (gather_descriptor(vq, table->address + index * sizeof(struct vring_desc), &descriptor) <
                   0) {
            chain->reason = "an indirect table lies outside guest memory";
            return -EPROTO;
        }
        if (descriptor.flags & VRING_DESC_F_INDIRECT) {
            chain->reason = "an indirect table is nested in another";
            return -EPROTO;
        }
        int error = add_buffer(vq, chain, &descriptor);
        if (error || !(descriptor.flags & VRING_DESC_F_NEXT))
            return error;
        index = descriptor.next;
        if (index >= count) {
            chain->reason = "an indirect table's chain leaves the table";
            return -EPROTO;
        }
    }
}

static int walk(struct vblk_virtqueue *vq, struct chain *chain, uint16_t head)
{
    uint16_t index = head;
    for (unsigned seen = 0;; seen++) {
        if (seen == vq->size) {
            chain->reason = "a descriptor chain loops";
            return -EPROTO;
        }
        struct descriptor descriptor = read_descriptor(&vq->desc[index]);
        /* After any number of plain descriptors one may refer to a table; it is the last (2.7.5.3.2). */
        if (descriptor.flags & VRING_DESC_F_INDIRECT)
            return walk_indirect(vq, chain, &descriptor);
        int error = add_buffer(vq, chain, &descriptor);
        if (error || !(descriptor.flags & VRING_DESC_F_NEXT))
            return error;
        index = descriptor.next;
        if (index >= vq->size) {
            chain->reason = "a descriptor's next one is out of range";
            return -EPROTO;
        }
    }
}

/* ---- pop and push ---- */

/* Tell the driver at which index to kick, then look whether it has passed it already. */
static uint16_t publish_event(struct vblk_virtqueue *vq)
{
    /* ORDER virtqueue.event, device's side of kicks */
    if (vq->event_idx) {
        vq->event = popped_index(vq);
        __atomic_exchange_n(vq->avail_event, htole16(vq->event), __ATOMIC_SEQ_CST);
    } else {
        __atomic_exchange_n(vq->used_flags, 0, __ATOMIC_SEQ_CST);
    }
    return le16toh(__atomic_load_n(vq->avail_index, __ATOMIC_SEQ_CST));
}

/* Entries to take, at most the queue's size; 0: empty; -EPROTO: the index cannot be. */
static int available(struct vblk_virtqueue *vq)
{
    uint16_t popped = popped_index(vq);
    if (vq->avail_seen != popped)
        return (uint16_t)(vq->avail_seen - popped);
    /* ORDER virtqueue.avail, device's side */
    uint16_t avail = le16toh(__atomic_load_n(vq->avail_index, __ATOMIC_ACQUIRE));
    /* An event index that stayed behind would keep the driver from kicking for what it adds next. */
    if (avail == popped && vq->event_idx && vq->event != popped &&
        atomic_load_explicit(&vq->notifications, memory_order_relaxed))
        avail = publish_event(vq);
    uint16_t count = avail - popped;
    if (count > vq->size)
        return -EPROTO;
    vq->avail_seen = avail;
    return count;
}

static struct vblk_element *break_queue(struct vblk_virtqueue *vq, const char *reason, int *error_out,
                                        const char **reason_out)
{
    vq->broken = true;
    *error_out = -EPROTO;
    *reason_out = reason;
    return NULL;
}

struct vblk_element *vblk_virtqueue_pop(struct vblk_virtqueue *vq, int *error_out, const char **reason_out)
{
    *error_out = 0;
    if (vq->broken)
        return break_queue(vq, "the queue was broken before", error_out, reason_out);
    int count = available(vq);
    /* What was read from memory that is gone are zeros that look like a ring. */
    if (vhost_user_memory_map_broken(vq->map))
        return break_queue(vq, "guest memory is gone (its file was truncated)", error_out, reason_out);
    if (count < 0)
        return break_queue(vq, "the available index moved by more than the queue's size", error_out,
                           reason_out);
    if (!count)
        return NULL;

    uint16_t popped = popped_index(vq);
    uint16_t head = read16(&vq->avail_ring[popped & (vq->size - 1)]);
    if (head >= vq->size)
        return break_queue(vq, "a head is out of range", error_out, reason_out);
    if (vq->head_is_out[head])
        return break_queue(vq, "a head is made available while it is in use", error_out, reason_out);

    struct chain chain = { .holder = take_holder(vq) };
    if (!chain.holder) {
        *error_out = -ENOMEM;
        return NULL;
    }
    int error = walk(vq, &chain, head);
    if (!error && vhost_user_memory_map_broken(vq->map)) {
        error = -EPROTO;
        chain.reason = "guest memory is gone (its file was truncated)";
    }
    if (error) {
        give_holder(vq, chain.holder);
        if (error == -EPROTO)
            return break_queue(vq, chain.reason, error_out, reason_out);
        *error_out = error;
        return NULL;
    }
    chain.holder->element = (struct vblk_element){
        .head = head,
        .out_count = (uint16_t)chain.out_count,
        .in_count = (uint16_t)(chain.iov_count - chain.out_count),
        .out_bytes = (uint32_t)chain.out_bytes,
        .in_bytes = (uint32_t)chain.in_bytes,
        .out = chain.holder->iov,
        .in = chain.holder->iov + chain.out_count,
    };
    vq->head_is_out[head] = true;
    vq->in_flight++;
    atomic_store_explicit(&vq->popped, popped + 1, memory_order_relaxed);
    return &chain.holder->element;
}

void vblk_virtqueue_push(struct vblk_virtqueue *vq, struct vblk_element *element, uint32_t written_bytes)
{
    uint16_t used = used_index(vq);
    uint32_t *entry = &vq->used_ring[2 * (used & (vq->size - 1))];
    assert(vq->head_is_out[element->head] && written_bytes <= element->in_bytes);
    write32(&entry[0], element->head);
    write32(&entry[1], written_bytes);
    vq->head_is_out[element->head] = false;
    vq->in_flight--;
    used++;
    atomic_store_explicit(&vq->used, used, memory_order_relaxed);
    /* After 65,536 pushes without a decision the distance to the last one is lost. */
    if (used == vq->signalled)
        vq->signalled_valid = false;
    /* ORDER virtqueue.used, device's side */
    __atomic_store_n(vq->used_index_at, htole16(used), __ATOMIC_RELEASE);
    give_holder(vq, (struct holder *)element);
}

void vblk_virtqueue_discard(struct vblk_virtqueue *vq, struct vblk_element *element)
{
    assert(vq->head_is_out[element->head]);
    vq->head_is_out[element->head] = false;
    vq->in_flight--;
    vq->broken = true;
    give_holder(vq, (struct holder *)element);
}

bool vblk_virtqueue_pending(struct vblk_virtqueue *vq)
{
    uint16_t popped = popped_index(vq);
    return !vq->broken && (vq->avail_seen != popped || read16(vq->avail_index) != popped);
}

/* ---- notification suppression ---- */

bool vblk_virtqueue_should_interrupt(struct vblk_virtqueue *vq)
{
    uint16_t used = used_index(vq), before = vq->signalled;
    bool valid = vq->signalled_valid;
    if (used == before && valid)
        return false;
    vq->signalled = used;
    vq->signalled_valid = true;
    /* ORDER virtqueue.event, device's side of interrupts: the index again, as an exchange */
    __atomic_exchange_n(vq->used_index_at, htole16(used), __ATOMIC_SEQ_CST);
    if (!vq->event_idx)
        return !(le16toh(__atomic_load_n(vq->avail_flags, __ATOMIC_SEQ_CST)) & VRING_AVAIL_F_NO_INTERRUPT);
    uint16_t event = le16toh(__atomic_load_n(vq->used_event, __ATOMIC_SEQ_CST));
    /* Whether the index has passed event since the last decision, modulo 2^16 (2.7.10). */
    return !valid || (uint16_t)(used - event - 1) < (uint16_t)(used - before);
}

bool vblk_virtqueue_enable_notifications(struct vblk_virtqueue *vq)
{
    atomic_store_explicit(&vq->notifications, true, memory_order_relaxed);
    return publish_event(vq) != popped_index(vq);
}

void vblk_virtqueue_disable_notifications(struct vblk_virtqueue *vq)
{
    atomic_store_explicit(&vq->notifications, false, memory_order_relaxed);
    /* A kick too many does no harm, so nothing is ordered here. */
    if (vq->event_idx) {
        /* Flags stay 0 (2.7.10.1); an event on the far side of the index circle is not passed soon. */
        vq->event = popped_index(vq) + 0x8000;
        write16(vq->avail_event, vq->event);
    } else {
        write16(vq->used_flags, VRING_USED_F_NO_NOTIFY);
    }
}

bool vblk_virtqueue_notifications_enabled(const struct vblk_virtqueue *vq)
{
    return atomic_load_explicit(&vq->notifications, memory_order_relaxed);
}

uint16_t vblk_virtqueue_peek_avail_index(const struct vblk_virtqueue *vq)
{
    return read16(vq->avail_index);
}

uint16_t vblk_virtqueue_popped_index(const struct vblk_virtqueue *vq)
{
    return popped_index(vq);
}

uint16_t vblk_virtqueue_used_index(const struct vblk_virtqueue *vq)
{
    return used_index(vq);
}
