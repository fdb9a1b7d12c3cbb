/* The split format: heads in one ring, used elements in another. Source: VIRTIO 1.2, 2.7. */
#include "virtqueue/internal.h"

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

int vblk_split_init(struct vblk_virtqueue *vq, const struct vblk_virtqueue_config *config)
{
    struct split_ring *ring = &vq->split;
    /* The event fields at the rings' ends are there for certain only if they were negotiated. */
    uint64_t tail_bytes = vq->event_idx ? sizeof(uint16_t) : 0;
    uint64_t size = config->size;
    if (size & (size - 1) || config->base > UINT16_MAX)
        return -EINVAL;
    void *desc = vhost_user_memory_map_user(vq->map, config->desc_user, size * sizeof(struct vring_desc));
    void *avail = vhost_user_memory_map_user(vq->map, config->avail_user, 4 + size * 2 + tail_bytes);
    void *used = vhost_user_memory_map_user(vq->map, config->used_user, 4 + size * 8 + tail_bytes);
    if (!desc || !avail || !used)
        return -EFAULT;
    /* Ours are checked, not the front end's: it chooses how far the two are apart. */
    if ((uintptr_t)desc % VRING_DESC_ALIGN_SIZE || (uintptr_t)avail % VRING_AVAIL_ALIGN_SIZE ||
        (uintptr_t)used % VRING_USED_ALIGN_SIZE)
        return -EINVAL;
    ring->desc = desc;
    ring->avail_flags = avail;
    ring->avail_index = ring->avail_flags + 1;
    ring->avail_ring = ring->avail_flags + 2;
    ring->used_event = ring->avail_ring + config->size;
    ring->used_flags = used;
    ring->used_index = ring->used_flags + 1;
    ring->used_ring = (uint32_t *)used + 1;
    ring->avail_event = ring->used_flags + 2 + 4 * config->size;
    vq->popped = ring->avail_seen = ring->asked_heads = ring->asked_chains = (uint16_t)config->base;
    vq->used = ring->signalled = ring_read16(ring->used_index);
    ring_write16(vq, ring->used_flags, 0, __ATOMIC_RELAXED);
    return 0;
}

/* ---- taking ---- */

static int walk_table(struct vblk_virtqueue *vq, struct chain *chain, const struct descriptor *indirect)
{
    struct table table;
    uint32_t index = 0;
    int error = vblk_table_find(vq, chain, indirect, &table);
    if (error)
        return error;
    for (unsigned seen = 0;; seen++) {
        struct descriptor descriptor;
        if (seen == table.count || seen == VBLK_VIRTQUEUE_CHAIN_MAX) {
            chain->reason =
                seen == table.count ? "an indirect table's chain loops" : "an indirect chain is too long";
            return -EPROTO;
        }
        error = table_read(vq, chain, &table, index, &descriptor);
        if (error)
            return error;
        if (descriptor.flags & VRING_DESC_F_INDIRECT) {
            chain->reason = "an indirect table is nested in another";
            return -EPROTO;
        }
        error = vblk_chain_add_buffer(vq, chain, &descriptor);
        if (error || !(descriptor.flags & VRING_DESC_F_NEXT))
            return error;
        index = descriptor.next;
        if (index >= table.count) {
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
        struct descriptor descriptor = descriptor_read(&vq->split.desc[index]);
        /* After any number of plain descriptors one may refer to a table; it is the last (2.7.5.3.2). */
        if (descriptor.flags & VRING_DESC_F_INDIRECT)
            return walk_table(vq, chain, &descriptor);
        int error = vblk_chain_add_buffer(vq, chain, &descriptor);
        if (error || !(descriptor.flags & VRING_DESC_F_NEXT))
            return error;
        index = descriptor.next;
        if (index >= vq->size) {
            chain->reason = "a descriptor's next one is out of range";
            return -EPROTO;
        }
    }
}

/* Tell the driver at which index to kick, then look whether it has passed it already. */
static uint16_t publish_event(struct vblk_virtqueue *vq)
{
    /* ORDER virtqueue.event, device's side of kicks */
    if (vq->event_idx) {
        vq->split.event = popped_index(vq);
        ring_exchange16(vq, vq->split.avail_event, vq->split.event);
    } else {
        ring_exchange16(vq, vq->split.used_flags, 0);
    }
    return le16toh(__atomic_load_n(vq->split.avail_index, __ATOMIC_SEQ_CST));
}

/* Entries to take, at most the queue's size; 0: empty; -EPROTO: the index cannot be. */
static int available(struct vblk_virtqueue *vq)
{
    uint16_t popped = popped_index(vq);
    if (vq->split.avail_seen != popped)
        return (uint16_t)(vq->split.avail_seen - popped);
    /* ORDER virtqueue.avail, device's side */
    uint16_t avail = le16toh(__atomic_load_n(vq->split.avail_index, __ATOMIC_ACQUIRE));
    /* An event index that stayed behind would keep the driver from kicking for what it adds next. */
    if (avail == popped && vq->event_idx && vq->split.event != popped &&
        atomic_load_explicit(&vq->notifications, memory_order_relaxed))
        avail = publish_event(vq);
    uint16_t count = avail - popped;
    if (count > vq->size)
        return -EPROTO;
    vq->split.avail_seen = avail;
    return count;
}

/* How many chains ahead the descriptor at its head is asked for, and how many what that one refers to. */
#define ASK_HEADS 8
#define ASK_CHAINS 4

/*
 * The driver, on another processor, has just written what is to be read: each first look would wait for the line to come
 * over. Those of several chains come together if they are asked for together. What is read here is a guess where to
 * look, checked like everything else when the chain is taken.
 */
static void ask_ahead(struct vblk_virtqueue *vq, uint16_t popped)
{
    struct split_ring *ring = &vq->split;
    uint16_t mask = vq->size - 1, ahead = ring->avail_seen - popped;
    uint16_t heads = popped + (ahead < ASK_HEADS ? ahead : ASK_HEADS);
    uint16_t chains = popped + (ahead < ASK_CHAINS ? ahead : ASK_CHAINS);
    for (; ring->asked_heads != heads; ring->asked_heads++)
        __builtin_prefetch(&ring->desc[ring_read16(&ring->avail_ring[ring->asked_heads & mask]) & mask]);
    for (; ring->asked_chains != chains; ring->asked_chains++) {
        uint16_t head = ring_read16(&ring->avail_ring[ring->asked_chains & mask]) & mask;
        struct descriptor first = descriptor_read(&ring->desc[head]);
        struct iovec at;
        if (first.size_bytes &&
            vhost_user_memory_map_translate_near(vq->map, &vq->region_hint, first.address, 1, &at, 1) == 1)
            __builtin_prefetch(at.iov_base);
    }
}

static int take_head(struct vblk_virtqueue *vq, struct chain *chain)
{
    if (vq->head_is_out[chain->head]) {
        chain->reason = "a head is made available while it is in use";
        return -EPROTO;
    }
    chain->holder = vblk_holder_take(vq);
    if (!chain->holder)
        return -ENOMEM;
    int error = walk(vq, chain, chain->head);
    return error ? error : 1;
}

int vblk_split_take(struct vblk_virtqueue *vq, struct chain *chain)
{
    int count = available(vq);
    if (count < 0)
        chain->reason = "the available index moved by more than the queue's size";
    if (count <= 0)
        return count;
    uint16_t popped = popped_index(vq);
    ask_ahead(vq, popped);
    chain->popped_after = popped + 1;
    chain->head = ring_read16(&vq->split.avail_ring[popped & (vq->size - 1)]);
    if (chain->head >= vq->size) {
        chain->reason = "a head is out of range";
        return -EPROTO;
    }
    return take_head(vq, chain);
}

int vblk_split_retake(struct vblk_virtqueue *vq, struct chain *chain, uint16_t head)
{
    chain->head = head;
    chain->popped_after = popped_index(vq);
    return take_head(vq, chain);
}

void vblk_split_set_popped(struct vblk_virtqueue *vq, uint16_t popped)
{
    atomic_store_explicit(&vq->popped, popped, memory_order_relaxed);
    vq->split.avail_seen = vq->split.asked_heads = vq->split.asked_chains = popped;
}

uint16_t vblk_split_peek(const struct vblk_virtqueue *vq)
{
    return ring_read16(vq->split.avail_index);
}

bool vblk_split_pending(const struct vblk_virtqueue *vq)
{
    const struct split_ring *ring = &vq->split;
    uint16_t popped = popped_index(vq);
    if (ring->avail_seen != popped)
        return true;
    /* Together with the index: the entry that will be next, whose line the driver has just taken away. */
    __builtin_prefetch(&ring->avail_ring[popped & (vq->size - 1)]);
    return ring_read16(ring->avail_index) != popped;
}

/* ---- giving back ---- */

void vblk_split_put(struct vblk_virtqueue *vq, const struct vblk_element *element, uint32_t written_bytes)
{
    uint16_t used = used_index(vq);
    uint32_t *entry = &vq->split.used_ring[2 * (used & (vq->size - 1))];
    ring_write32(vq, &entry[0], element->head);
    ring_write32(vq, &entry[1], written_bytes);
    used++;
    atomic_store_explicit(&vq->used, used, memory_order_relaxed);
    /* After 65,536 pushes without a decision the distance to the last one is lost. */
    if (used == vq->split.signalled)
        vq->signalled_valid = false;
}

unsigned vblk_split_waiting(const struct vblk_virtqueue *vq)
{
    return (uint16_t)(vq->split.avail_seen - popped_index(vq));
}

void vblk_split_publish(struct vblk_virtqueue *vq)
{
    /* ORDER virtqueue.used, device's side */
    ring_write16(vq, vq->split.used_index, used_index(vq), __ATOMIC_RELEASE);
}

/* ---- notification suppression ---- */

bool vblk_split_should_interrupt(struct vblk_virtqueue *vq)
{
    uint16_t used = used_index(vq), before = vq->split.signalled;
    bool valid = vq->signalled_valid;
    if (used == before && valid)
        return false;
    vq->split.signalled = used;
    vq->signalled_valid = true;
    /* Twice: a plain store is on its way to a driver that polls while the exchange still waits for all stores before it. */
    vblk_split_publish(vq);
    /* ORDER virtqueue.event, device's side of interrupts: the index again, as an exchange */
    ring_exchange16(vq, vq->split.used_index, used);
    if (!vq->event_idx)
        return !(le16toh(__atomic_load_n(vq->split.avail_flags, __ATOMIC_SEQ_CST)) & VRING_AVAIL_F_NO_INTERRUPT);
    uint16_t event = le16toh(__atomic_load_n(vq->split.used_event, __ATOMIC_SEQ_CST));
    /* Whether the index has passed event since the last decision, modulo 2^16 (2.7.10). */
    return !valid || (uint16_t)(used - event - 1) < (uint16_t)(used - before);
}

bool vblk_split_enable_notifications(struct vblk_virtqueue *vq)
{
    return publish_event(vq) != popped_index(vq);
}

void vblk_split_disable_notifications(struct vblk_virtqueue *vq)
{
    /* A kick too many does no harm, so nothing is ordered here. */
    if (vq->event_idx) {
        /* Flags stay 0 (2.7.10.1); an event on the far side of the index circle is not passed soon. */
        vq->split.event = popped_index(vq) + 0x8000;
        ring_write16(vq, vq->split.avail_event, vq->split.event, __ATOMIC_RELAXED);
    } else {
        ring_write16(vq, vq->split.used_flags, VRING_USED_F_NO_NOTIFY, __ATOMIC_RELAXED);
    }
}
