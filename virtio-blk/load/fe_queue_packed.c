/*
 * Driver side of a packed ring: see fe_queue.h.
 *
 * The ring's descriptors are written anew for each request, because the server overwrites them. A batch becomes visible
 * at once: the server looks at descriptors in turn, so whatever follows the batch's first one may be complete before that
 * one's flags are stored, which is what publishing is.
 *
 * ORDER fe.publish: the flags of a batch's first descriptor (seq_cst) after all else; the server's acquire load pairs.
 *   Used descriptors: the server's release store of flags, our acquire load, then id and length.
 * ORDER fe.kick:      publish: store the flags, then load device_event->flags and off_wrap, all seq_cst (2.8.21.3.1)
 * ORDER fe.interrupt: arm: store driver_event, then load the next used descriptor's flags, both seq_cst (2.8.22)
 *
 * Source: VIRTIO 1.2, 2.8.
 */
#include "fe_queue_packed.h"

#include <endian.h>

#define WRAP 0x8000u
#define AVAIL (1u << VRING_PACKED_DESC_F_AVAIL)
#define USED (1u << VRING_PACKED_DESC_F_USED)

static unsigned index_of(uint16_t at)
{
    return at & ~WRAP;
}

static uint16_t advance(const struct fe_queue *queue, uint16_t at, unsigned count)
{
    unsigned index = index_of(at) + count;
    unsigned wrap = at & WRAP;
    if (index >= queue->layout.size) {
        index -= queue->layout.size;
        wrap ^= WRAP;
    }
    return wrap | index;
}

static unsigned entry_count(const struct fe_queue *queue, const struct fe_slot *slot)
{
    return queue->layout.indirect ? 1 : slot->chain_length;
}

void fe_packed_init(struct fe_queue *queue)
{
    queue->packed_desc = (struct vring_packed_desc *)queue->desc;
    queue->driver_event = (struct vring_packed_desc_event *)queue->avail;
    queue->device_event = (struct vring_packed_desc_event *)queue->used;
    /* Both wrap counters begin at 1: 2.8.1. */
    queue->avail_next = queue->avail_published = queue->last_used = WRAP;
}

void fe_packed_write_desc(const struct fe_queue *queue, struct fe_slot *slot, unsigned position, const void *byte,
                          uint32_t bytes, uint16_t flags)
{
    /* A table has no NEXT, its length says where it ends; in the ring only the last id counts. */
    slot->packed_chain[position] = (struct vring_packed_desc){
        .addr = htole64(fe_queue_guest_addr(queue, byte)),
        .len = htole32(bytes),
        .id = htole16(queue->layout.indirect ? 0 : slot->head),
        .flags = htole16(queue->layout.indirect ? flags & VRING_DESC_F_WRITE : flags),
    };
}

void fe_packed_submit(struct fe_queue *queue, struct fe_slot *slot)
{
    struct vring_packed_desc table = {
        .addr = htole64(fe_queue_guest_addr(queue, slot->packed_chain)),
        .len = htole32(slot->chain_length * sizeof(struct vring_packed_desc)),
        .id = htole16(slot->head),
        .flags = htole16(VRING_DESC_F_INDIRECT),
    };
    const struct vring_packed_desc *from = queue->layout.indirect ? &table : slot->packed_chain;
    unsigned count = entry_count(queue, slot);
    for (unsigned i = 0; i < count; i++) {
        uint16_t at = queue->avail_next;
        struct vring_packed_desc *to = &queue->packed_desc[index_of(at)];
        uint16_t flags = from[i].flags | htole16(at & WRAP ? AVAIL : USED);
        to->addr = from[i].addr;
        to->len = from[i].len;
        to->id = from[i].id;
        if (at == queue->avail_published)
            queue->head_flags = flags;
        else
            __atomic_store_n(&to->flags, flags, __ATOMIC_RELAXED);
        queue->avail_next = advance(queue, at, 1);
    }
    queue->entries_ready += count;
}

/* Whether one of the last @count entries before @now is the event's; one of the turn before has an index below 0. */
static bool passed(const struct fe_queue *queue, uint16_t off_wrap, uint16_t now, uint16_t count)
{
    uint16_t event = index_of(off_wrap) - ((off_wrap ^ now) & WRAP ? queue->layout.size : 0);
    return vring_need_event(event, index_of(now), index_of(now) - count);
}

bool fe_packed_publish(struct fe_queue *queue, uint16_t before)
{
    uint16_t count = queue->entries_ready;
    queue->entries_ready = 0;
    /* ORDER fe.publish, ORDER fe.kick */
    __atomic_store_n(&queue->packed_desc[index_of(before)].flags, queue->head_flags, __ATOMIC_SEQ_CST);
    uint16_t flags = le16toh(__atomic_load_n(&queue->device_event->flags, __ATOMIC_SEQ_CST));
    if (flags != VRING_PACKED_EVENT_FLAG_DESC || !queue->layout.event_idx)
        return flags != VRING_PACKED_EVENT_FLAG_DISABLE;
    uint16_t off_wrap = le16toh(__atomic_load_n(&queue->device_event->off_wrap, __ATOMIC_SEQ_CST));
    return passed(queue, off_wrap, queue->avail_published, count);
}

static bool is_used(const struct fe_queue *queue, uint16_t at, int order)
{
    uint16_t flags = le16toh(__atomic_load_n(&queue->packed_desc[index_of(at)].flags, order));
    return (flags & (AVAIL | USED)) == (at & WRAP ? AVAIL | USED : 0);
}

int fe_packed_reap(struct fe_queue *queue, uint16_t *slots, unsigned max)
{
    unsigned count = 0;
    /* ORDER fe.publish, the server's: id and length are read after the flags. */
    while (count < max && is_used(queue, queue->last_used, __ATOMIC_ACQUIRE)) {
        const struct vring_packed_desc *desc = &queue->packed_desc[index_of(queue->last_used)];
        uint16_t id = le16toh(__atomic_load_n(&desc->id, __ATOMIC_RELAXED));
        if (id >= queue->layout.slot_count)
            return fe_queue_broken(queue, "a used descriptor names a buffer that does not exist", id);
        struct fe_slot *slot = &queue->slots[id];
        if (!slot->in_flight)
            return fe_queue_broken(queue, "a request was completed that was not in flight, buffer", id);
        fe_queue_completed(queue, slot, le32toh(__atomic_load_n(&desc->len, __ATOMIC_RELAXED)));
        queue->last_used = advance(queue, queue->last_used, entry_count(queue, slot));
        slots[count++] = id;
    }
    return count;
}

void fe_packed_suppress(struct fe_queue *queue)
{
    __atomic_store_n(&queue->driver_event->flags, htole16(VRING_PACKED_EVENT_FLAG_DISABLE), __ATOMIC_RELAXED);
}

bool fe_packed_arm(struct fe_queue *queue)
{
    uint16_t flags = queue->layout.event_idx ? VRING_PACKED_EVENT_FLAG_DESC : VRING_PACKED_EVENT_FLAG_ENABLE;
    /* ORDER fe.interrupt; the position is there before the flags that make it count. */
    __atomic_store_n(&queue->driver_event->off_wrap, htole16(queue->last_used), __ATOMIC_RELAXED);
    __atomic_store_n(&queue->driver_event->flags, htole16(flags), __ATOMIC_SEQ_CST);
    return is_used(queue, queue->last_used, __ATOMIC_SEQ_CST);
}

uint32_t fe_packed_base(const struct fe_queue *queue)
{
    uint16_t at = queue->last_used;
    /* No further than requests are in flight: what lies beyond may say anything. */
    for (unsigned left = queue->in_flight; left > 0 && is_used(queue, at, __ATOMIC_ACQUIRE); left--) {
        uint16_t id = le16toh(__atomic_load_n(&queue->packed_desc[index_of(at)].id, __ATOMIC_RELAXED));
        if (id >= queue->layout.slot_count)
            break; /* fe_queue_reap() will say so */
        at = advance(queue, at, entry_count(queue, &queue->slots[id]));
    }
    return at | (uint32_t)at << 16;
}
