/*
 * The packed format: one ring, in which the driver makes descriptors available and the device overwrites them as used.
 * Two flags of each, compared with a counter that flips at every turn of the ring, say whose it is.
 *
 * Used elements are written in the order of completion, at the position where the used ones end, and take as many
 * entries as their chain had: so both positions are equal again when nothing is in flight.
 *
 * Source: VIRTIO 1.2, 2.8.
 */
#include "virtqueue/internal.h"

/*
 * The edges to the driver are those of split.c, at other places:
 *
 * ORDER virtqueue.avail
 *   driver:  writes descriptors, then the flags of a chain's first one after a write barrier (2.8.21.1)
 *   device:  loads these flags with acquire order, then reads the rest
 * ORDER virtqueue.used
 *   device:  writes data, id and length, then stores the flags with release order
 *   driver:  reads id and length after a read barrier (2.8.22)
 * ORDER virtqueue.event
 *   device, kicks:       stores its event suppression, then loads the next descriptor's flags
 *   driver, kicks:       stores the descriptor's flags, full barrier, then reads the event suppression (2.8.21.3.1)
 *   device, interrupts:  stores flags of used descriptors, full fence, then loads the driver's event suppression
 *   driver, interrupts:  stores its event suppression, full barrier, then reads the descriptor's flags (2.8.22)
 *   A used descriptor may be the driver's again by the time of the decision, so its flags cannot be stored once more
 *   by an exchange: here it is a lone fence. It orders no data, so ThreadSanitizer need not see it.
 */

/* How far vblk_packed_waiting() looks; a power of two. */
#define PEEK_AHEAD_MAX 16

#define AVAIL (1 << VRING_PACKED_DESC_F_AVAIL)
#define USED (1 << VRING_PACKED_DESC_F_USED)

static inline bool is_available(uint16_t flags, uint16_t at)
{
    return (flags & (AVAIL | USED)) == (at & PACKED_WRAP ? AVAIL : USED);
}

static uint16_t *flags_at(const struct vblk_virtqueue *vq, uint16_t at)
{
    return &vq->packed.desc[at & PACKED_INDEX].flags;
}

/* Entries from one position to another, in two turns of the ring. */
static unsigned distance(const struct vblk_virtqueue *vq, uint16_t from, uint16_t to)
{
    unsigned turn = (from ^ to) & PACKED_WRAP ? vq->size : 0;
    return (turn + (to & PACKED_INDEX) + 2u * vq->size - (from & PACKED_INDEX)) % (2u * vq->size);
}

int vblk_packed_init(struct vblk_virtqueue *vq, const struct vblk_virtqueue_config *config)
{
    uint16_t popped = (uint16_t)config->base, used = config->base >> 16;
    void *desc =
        vhost_user_memory_map_user(vq->map, config->desc_user, vq->size * sizeof(struct vring_packed_desc));
    void *driver =
        vhost_user_memory_map_user(vq->map, config->avail_user, sizeof(struct vring_packed_desc_event));
    void *device =
        vhost_user_memory_map_user(vq->map, config->used_user, sizeof(struct vring_packed_desc_event));
    if (!desc || !driver || !device)
        return -EFAULT;
    if ((uintptr_t)desc % sizeof(struct vring_packed_desc) ||
        (uintptr_t)driver % sizeof(struct vring_packed_desc_event) ||
        (uintptr_t)device % sizeof(struct vring_packed_desc_event))
        return -EINVAL;
    if ((popped & PACKED_INDEX) >= vq->size || (used & PACKED_INDEX) >= vq->size || distance(vq, used, popped) > vq->size)
        return -EINVAL;
    vq->packed = (struct packed_ring){ .desc = desc,
                                       .driver_event = driver,
                                       .device_event = device,
                                       /* Taken by an earlier queue and not given back: not the driver's. */
                                       .entries_out = distance(vq, used, popped) };
    vq->popped = popped;
    vq->used = used;
    return 0;
}

/* ---- taking ---- */

static int walk_table(struct vblk_virtqueue *vq, struct chain *chain, const struct descriptor *indirect)
{
    struct table table;
    int error = vblk_table_find(vq, chain, indirect, &table);
    if (!error && table.count > VBLK_VIRTQUEUE_CHAIN_MAX) {
        chain->reason = "an indirect chain is too long";
        error = -EPROTO;
    }
    /* One after another, all of them; of the flags only WRITE counts, the rest is to be ignored (2.8.7). */
    for (uint32_t i = 0; !error && i < table.count; i++) {
        struct descriptor descriptor;
        error = table_read(vq, chain, &table, i, &descriptor);
        descriptor.flags = descriptor.next;
        if (!error && descriptor.flags & VRING_DESC_F_INDIRECT) {
            /* Except this one: it can only be meant as what the driver must not do. */
            chain->reason = "an indirect table is nested in another";
            error = -EPROTO;
        }
        if (!error)
            error = vblk_chain_add_buffer(vq, chain, &descriptor);
    }
    return error;
}

/* From the head, whose flags are known. */
static int walk(struct vblk_virtqueue *vq, struct chain *chain, uint16_t at, uint16_t head_flags)
{
    for (unsigned seen = 0;; seen++) {
        if (vq->packed.entries_out + seen == vq->size) {
            chain->reason = seen == vq->size ? "a descriptor chain is longer than the ring"
                                             : "more descriptors are available than the ring has";
            return -EPROTO;
        }
        struct descriptor descriptor = descriptor_read(&vq->packed.desc[at & PACKED_INDEX]);
        uint16_t id = descriptor.flags;
        /* The flags of the head that were read first are the ones that count. */
        descriptor.flags = seen ? descriptor.next : head_flags;
        if (seen && !is_available(descriptor.flags, at)) {
            chain->reason = "a descriptor chain goes on in a descriptor that is not available";
            return -EPROTO;
        }
        at = packed_advance(vq, at, 1);
        int error = descriptor.flags & VRING_DESC_F_INDIRECT ? walk_table(vq, chain, &descriptor)
                                                             : vblk_chain_add_buffer(vq, chain, &descriptor);
        if (error)
            return error;
        if (descriptor.flags & VRING_DESC_F_NEXT)
            continue;
        /* The last one's is the buffer's. */
        chain->head = id;
        chain->popped_after = at;
        chain->holder->entry_count = (uint16_t)(seen + 1);
        return 0;
    }
}

/* Tell the driver at which position to kick, then look whether it has passed it already: flags of the next
 * descriptor. */
static uint16_t publish_event(struct vblk_virtqueue *vq)
{
    /* ORDER virtqueue.event, device's side of kicks */
    uint16_t popped = popped_index(vq);
    if (vq->event_idx) {
        vq->packed.event = popped;
        ring_write16(vq, &vq->packed.device_event->off_wrap, popped, __ATOMIC_RELAXED);
        ring_exchange16(vq, &vq->packed.device_event->flags, VRING_PACKED_EVENT_FLAG_DESC);
    } else {
        ring_exchange16(vq, &vq->packed.device_event->flags, VRING_PACKED_EVENT_FLAG_ENABLE);
    }
    return le16toh(__atomic_load_n(flags_at(vq, popped), __ATOMIC_SEQ_CST));
}

void vblk_packed_set_positions(struct vblk_virtqueue *vq, uint16_t used, uint16_t popped)
{
    vq->used = used;
    vq->popped = popped;
    vq->packed.entries_out = distance(vq, used, popped);
}

static int check_id(const struct vblk_virtqueue *vq, struct chain *chain)
{
    if (chain->head >= vq->size) {
        chain->reason = "a buffer id is out of range";
        return -EPROTO;
    }
    if (vq->head_is_out[chain->head]) {
        chain->reason = "a buffer id is made available while it is in use";
        return -EPROTO;
    }
    return 1;
}

/* What the ring held when the chain was taken; its entries are counted as out already. */
int vblk_packed_retake(struct vblk_virtqueue *vq, struct chain *chain, uint16_t slot)
{
    uint16_t count = vhost_user_inflight_packed_count(&vq->tracking.packed, slot);
    chain->slot = slot;
    chain->popped_after = popped_index(vq);
    chain->holder = vblk_holder_take(vq);
    if (!chain->holder)
        return -ENOMEM;
    for (uint16_t i = 0; i < count; i++) {
        struct vring_packed_desc copy;
        vhost_user_inflight_packed_read(&vq->tracking.packed, slot, i, &copy);
        const struct descriptor descriptor = { .address = le64toh(copy.addr),
                                               .size_bytes = le32toh(copy.len),
                                               .flags = le16toh(copy.flags) };
        int error = descriptor.flags & VRING_DESC_F_INDIRECT ? walk_table(vq, chain, &descriptor)
                                                             : vblk_chain_add_buffer(vq, chain, &descriptor);
        if (error)
            return error;
        chain->head = le16toh(copy.id);
    }
    chain->holder->entry_count = count;
    return check_id(vq, chain);
}

int vblk_packed_take(struct vblk_virtqueue *vq, struct chain *chain)
{
    uint16_t popped = popped_index(vq);
    /* ORDER virtqueue.avail, device's side */
    uint16_t flags = le16toh(__atomic_load_n(flags_at(vq, popped), __ATOMIC_ACQUIRE));
    if (!is_available(flags, popped)) {
        /* An event that stayed behind would keep the driver from kicking for what it adds next. */
        if (!vq->event_idx || vq->packed.event == popped ||
            !atomic_load_explicit(&vq->notifications, memory_order_relaxed))
            return 0;
        flags = publish_event(vq);
        if (!is_available(flags, popped))
            return 0;
    }
    chain->holder = vblk_holder_take(vq);
    if (!chain->holder)
        return -ENOMEM;
    int error = walk(vq, chain, popped, flags);
    if (error)
        return error;
    int sound = check_id(vq, chain);
    if (sound > 0)
        vq->packed.entries_out += chain->holder->entry_count;
    return sound;
}

bool vblk_packed_pending(const struct vblk_virtqueue *vq)
{
    uint16_t popped = popped_index(vq);
    return is_available(ring_read16(flags_at(vq, popped)), popped);
}

unsigned vblk_packed_waiting(const struct vblk_virtqueue *vq)
{
    /* Nobody says how many; a look at some tells about how many descriptors, which are hardly more than chains. */
    for (unsigned count = PEEK_AHEAD_MAX; count > 0; count /= 2) {
        uint16_t last;
        if (count > vq->size)
            continue;
        last = packed_advance(vq, popped_index(vq), count - 1);
        if (is_available(ring_read16(flags_at(vq, last)), last))
            return count;
    }
    return 0;
}

uint16_t vblk_packed_peek(const struct vblk_virtqueue *vq)
{
    uint16_t popped = popped_index(vq);
    return is_available(ring_read16(flags_at(vq, popped)), popped) ? popped + 1 : popped;
}

/* ---- giving back ---- */

void vblk_packed_put(struct vblk_virtqueue *vq, const struct vblk_element *element, uint32_t written_bytes)
{
    uint16_t used = used_index(vq), count = ((const struct holder *)element)->entry_count;
    struct vring_packed_desc *desc = &vq->packed.desc[used & PACKED_INDEX];
    uint16_t flags = (used & PACKED_WRAP ? AVAIL | USED : 0) | (written_bytes ? VRING_DESC_F_WRITE : 0);
    ring_write16(vq, &desc->id, element->head, __ATOMIC_RELAXED);
    ring_write32(vq, &desc->len, written_bytes);
    atomic_store_explicit(&vq->used, packed_advance(vq, used, count), memory_order_relaxed);
    vq->packed.entries_out -= count;
    vq->packed.entries_put += count;
    /* After a whole turn without a decision an event is ahead or behind, nobody knows. */
    if (vq->packed.entries_put > vq->size)
        vq->signalled_valid = false;
    /* A driver reads used descriptors in order, so it sees nothing of a batch before the first one's flags. */
    if (!vq->packed.unseen) {
        vq->packed.unseen = &desc->flags;
        vq->packed.unseen_flags = flags;
    } else {
        ring_write16(vq, &desc->flags, flags, __ATOMIC_RELAXED);
    }
}

void vblk_packed_publish(struct vblk_virtqueue *vq)
{
    /* ORDER virtqueue.used, device's side */
    if (vq->packed.unseen)
        ring_write16(vq, vq->packed.unseen, vq->packed.unseen_flags, __ATOMIC_RELEASE);
    vq->packed.unseen = NULL;
}

/* ---- notification suppression ---- */

static void full_fence(void)
{
#ifdef __SANITIZE_THREAD__
#pragma GCC diagnostic ignored "-Wtsan"
#endif
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

bool vblk_packed_should_interrupt(struct vblk_virtqueue *vq)
{
    uint16_t used = used_index(vq), count = (uint16_t)vq->packed.entries_put;
    bool valid = vq->signalled_valid;
    if (!vq->packed.entries_put && valid)
        return false;
    vq->packed.entries_put = 0;
    vq->signalled_valid = true;
    vblk_packed_publish(vq);
    full_fence(); /* ORDER virtqueue.event, device's side of interrupts */
    uint16_t flags = le16toh(__atomic_load_n(&vq->packed.driver_event->flags, __ATOMIC_SEQ_CST));
    if (flags == VRING_PACKED_EVENT_FLAG_DISABLE)
        return false;
    if (flags != VRING_PACKED_EVENT_FLAG_DESC || !vq->event_idx || !valid)
        return true;
    /* Whether a descriptor at event was used since the last decision (2.8.22); before this turn is below 0. */
    uint16_t off_wrap = le16toh(__atomic_load_n(&vq->packed.driver_event->off_wrap, __ATOMIC_SEQ_CST));
    uint16_t event = (off_wrap & PACKED_INDEX) - ((off_wrap ^ used) & PACKED_WRAP ? vq->size : 0);
    return (uint16_t)((used & PACKED_INDEX) - event - 1) < count;
}

bool vblk_packed_enable_notifications(struct vblk_virtqueue *vq)
{
    return is_available(publish_event(vq), popped_index(vq));
}

void vblk_packed_disable_notifications(struct vblk_virtqueue *vq)
{
    ring_write16(vq, &vq->packed.device_event->flags, VRING_PACKED_EVENT_FLAG_DISABLE, __ATOMIC_RELAXED);
}
