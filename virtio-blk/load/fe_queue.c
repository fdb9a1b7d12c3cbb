/* Driver side of a virtqueue with prebuilt virtio-blk requests: see fe_queue.h. Rings that are not packed are here. */
#include "fe_queue_packed.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <glib.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define LINE_BYTES 64u

/* Half the index space: no batch of completions is long enough to reach it. */
#define USED_EVENT_FAR 0x8000u

static size_t round_up(size_t value, size_t step)
{
    return (value + step - 1) / step * step;
}

static unsigned segment_count(const struct fe_queue_layout *layout, uint32_t bytes)
{
    if (bytes == 0)
        return 0;
    if (layout->segment_bytes == 0)
        return 1;
    return (bytes + layout->segment_bytes - 1) / layout->segment_bytes;
}

static unsigned chain_length_max(const struct fe_queue_layout *layout)
{
    return segment_count(layout, layout->slot_bytes) + 2;
}

unsigned fe_queue_slots_max(const struct fe_queue_layout *layout)
{
    unsigned length = chain_length_max(layout);
    /* No chain may be longer than the queue, indirect or not: VIRTIO 1.2, 2.7.5.3.1. */
    if (length > layout->size)
        return 0;
    return layout->indirect ? layout->size : layout->size / length;
}

/* Where each part lies, from the start of the queue's memory. Header and table are written by us,
 * the status byte by the server: they are kept on different cache lines. */
struct offsets {
    size_t avail, used, control, control_stride, status, data, data_stride, end;
};

static struct offsets offsets_of(const struct fe_queue_layout *layout)
{
    struct offsets o;
    o.avail = round_up(sizeof(struct vring_desc) * layout->size, LINE_BYTES);
    o.used = round_up(o.avail + sizeof(uint16_t) * (3 + layout->size), PAGE_BYTES);
    o.control =
        round_up(o.used + 3 * sizeof(uint16_t) + sizeof(struct vring_used_elem) * layout->size, PAGE_BYTES);
    size_t table = layout->indirect || layout->packed ? sizeof(struct vring_desc) * chain_length_max(layout) : 0;
    o.status = round_up(sizeof(struct virtio_blk_outhdr) + table, LINE_BYTES);
    o.control_stride = o.status + LINE_BYTES;
    o.data = round_up(o.control + o.control_stride * layout->slot_count, PAGE_BYTES);
    o.data_stride = round_up(layout->slot_bytes, PAGE_BYTES);
    o.end = o.data + o.data_stride * layout->slot_count;
    return o;
}

size_t fe_queue_memory_bytes(const struct fe_queue_layout *layout)
{
    return offsets_of(layout).end;
}

void fe_queue_init(struct fe_queue *queue, const struct fe_queue_layout *layout, void *memory,
                   uint64_t guest_addr)
{
    assert(layout->slot_count > 0 && layout->slot_count <= fe_queue_slots_max(layout));
    assert(layout->packed || (layout->size & (layout->size - 1)) == 0);
    struct offsets o = offsets_of(layout);
    uint8_t *base = memory;

    memset(queue, 0, sizeof(*queue));
    queue->layout = *layout;
    queue->memory = base;
    queue->guest_addr = guest_addr;
    queue->desc = (struct vring_desc *)base;
    queue->avail = (struct vring_avail *)(base + o.avail);
    queue->used = (struct vring_used *)(base + o.used);
    queue->used_event = &queue->avail->ring[layout->size];
    queue->avail_event = (uint16_t *)&queue->used->ring[layout->size];
    queue->kick_fd = -1;
    queue->call_fd = -1;
    queue->slots = g_new0(struct fe_slot, layout->slot_count);
    queue->free_slots = g_new0(uint16_t, layout->slot_count);
    queue->slot_of_head = g_new(uint16_t, layout->size);
    memset(queue->slot_of_head, 0xff, sizeof(uint16_t) * layout->size);

    for (unsigned i = 0; i < layout->slot_count; i++) {
        struct fe_slot *slot = &queue->slots[i];
        uint8_t *control = base + o.control + i * o.control_stride;
        slot->header = (struct virtio_blk_outhdr *)control;
        slot->status = control + o.status;
        slot->data = base + o.data + i * o.data_stride;
        slot->head = layout->indirect || layout->packed ? i : i * chain_length_max(layout);
        slot->chain = layout->indirect ? (struct vring_desc *)(control + sizeof(*slot->header))
                                       : &queue->desc[slot->head];
        if (layout->packed)
            slot->packed_chain = (struct vring_packed_desc *)(control + sizeof(*slot->header));
        slot->type = UINT32_MAX; /* describes nothing yet */
        queue->slot_of_head[slot->head] = i;
        /* The stack hands out slot 0 first, so that few requests touch little memory. */
        queue->free_slots[i] = layout->slot_count - 1 - i;
    }
    queue->free_count = layout->slot_count;
    if (layout->packed)
        fe_packed_init(queue);
}

void fe_queue_deinit(struct fe_queue *queue)
{
    g_clear_pointer(&queue->slots, g_free);
    g_clear_pointer(&queue->free_slots, g_free);
    g_clear_pointer(&queue->slot_of_head, g_free);
}

uint16_t fe_queue_take(struct fe_queue *queue)
{
    return queue->free_count ? queue->free_slots[--queue->free_count] : FE_NO_SLOT;
}

void fe_queue_give(struct fe_queue *queue, uint16_t slot)
{
    assert(queue->free_count < queue->layout.slot_count && !queue->slots[slot].in_flight);
    queue->free_slots[queue->free_count++] = slot;
}

/* @position counts within the chain; in the descriptor table `next` is relative to the slot's head. */
static void write_desc(const struct fe_queue *queue, struct fe_slot *slot, unsigned position,
                       const void *byte, uint32_t bytes, uint16_t flags)
{
    unsigned first = queue->layout.indirect ? 0 : slot->head;
    if (queue->layout.packed) {
        fe_packed_write_desc(queue, slot, position, byte, bytes, flags);
        return;
    }
    slot->chain[position] = (struct vring_desc){
        .addr = htole64(fe_queue_guest_addr(queue, byte)),
        .len = htole32(bytes),
        .flags = htole16(flags),
        .next = htole16(flags & VRING_DESC_F_NEXT ? first + position + 1 : 0),
    };
}

static void build_chain(struct fe_queue *queue, struct fe_slot *slot)
{
    uint16_t data_flags = VRING_DESC_F_NEXT | (slot->direction == FE_FROM_DEVICE ? VRING_DESC_F_WRITE : 0);
    uint32_t step = queue->layout.segment_bytes ? queue->layout.segment_bytes : slot->bytes;
    unsigned length = 0;

    write_desc(queue, slot, length++, slot->header, sizeof(*slot->header), VRING_DESC_F_NEXT);
    for (uint32_t at = 0; at < slot->bytes; at += step) {
        uint32_t left = slot->bytes - at;
        write_desc(queue, slot, length++, slot->data + at, left < step ? left : step, data_flags);
    }
    write_desc(queue, slot, length++, slot->status, 1, VRING_DESC_F_WRITE);
    slot->chain_length = length;
    if (queue->layout.indirect && !queue->layout.packed)
        queue->desc[slot->head] = (struct vring_desc){
            .addr = htole64(fe_queue_guest_addr(queue, slot->chain)),
            .len = htole32(length * sizeof(struct vring_desc)),
            .flags = htole16(VRING_DESC_F_INDIRECT),
        };
}

void fe_queue_prepare(struct fe_queue *queue, uint16_t index, uint32_t type, uint64_t sector, uint32_t bytes,
                      enum fe_direction direction)
{
    struct fe_slot *slot = &queue->slots[index];
    assert(bytes <= queue->layout.slot_bytes && !slot->in_flight);
    slot->header->sector = htole64(sector);
    /* No status that the standard defines: a server that completes without writing one is seen. */
    *slot->status = 0xff;
    if (slot->type == type && slot->bytes == bytes && slot->direction == direction)
        return;
    slot->type = type;
    slot->bytes = bytes;
    slot->direction = direction;
    slot->header->type = htole32(type);
    slot->header->ioprio = 0;
    build_chain(queue, slot);
}

void fe_queue_submit(struct fe_queue *queue, uint16_t index)
{
    struct fe_slot *slot = &queue->slots[index];
    slot->in_flight = true;
    queue->in_flight++;
    if (queue->layout.packed) {
        fe_packed_submit(queue, slot);
        return;
    }
    queue->avail->ring[queue->avail_next & (queue->layout.size - 1)] = htole16(slot->head);
    queue->avail_next++;
}

bool fe_queue_publish(struct fe_queue *queue)
{
    uint16_t before = queue->avail_published;
    uint16_t now = queue->avail_next;
    if (before == now)
        return false;
    queue->avail_published = now;
    bool wanted;
    /* ORDER fe.publish, ORDER fe.kick */
    if (!queue->layout.packed)
        __atomic_store_n(&queue->avail->idx, htole16(now), __ATOMIC_SEQ_CST);
    if (queue->layout.packed)
        wanted = fe_packed_publish(queue, before);
    else if (queue->layout.event_idx)
        wanted =
            vring_need_event(le16toh(__atomic_load_n(queue->avail_event, __ATOMIC_SEQ_CST)), now, before);
    else
        wanted = !(le16toh(__atomic_load_n(&queue->used->flags, __ATOMIC_SEQ_CST)) & VRING_USED_F_NO_NOTIFY);
    if (wanted)
        fe_queue_kick(queue);
    return wanted;
}

void fe_queue_kick(struct fe_queue *queue)
{
    if (queue->kick_fd < 0)
        return;
    queue->kick_count++;
    /* The only failure is a full counter, and then the server has its wake-up already. */
    (void)eventfd_write(queue->kick_fd, 1);
}

int fe_queue_broken(struct fe_queue *queue, const char *what, unsigned value)
{
    snprintf(queue->broken, sizeof(queue->broken), "%s (%u)", what, value);
    return -EPROTO;
}

void fe_queue_completed(struct fe_queue *queue, struct fe_slot *slot, uint32_t used_bytes)
{
    slot->in_flight = false;
    slot->used_bytes = used_bytes;
    if (used_bytes > (slot->direction == FE_FROM_DEVICE ? slot->bytes : 0) + 1)
        queue->used_length_wrong_count++;
    queue->in_flight--;
}

int fe_queue_reap(struct fe_queue *queue, uint16_t *slots, unsigned max)
{
    if (queue->layout.packed)
        return fe_packed_reap(queue, slots, max);
    /* ORDER fe.publish, the used ring's side: entries are read after the index. */
    uint16_t index = le16toh(__atomic_load_n(&queue->used->idx, __ATOMIC_ACQUIRE));
    uint16_t count = index - queue->last_used;
    if (count == 0) {
        /* The only one comes with its element, whose line the server takes away. Of several that would be in its way. */
        if (queue->in_flight == 1)
            __builtin_prefetch(&queue->used->ring[queue->last_used & (queue->layout.size - 1)]);
        return 0;
    }
    if (count > queue->in_flight)
        return fe_queue_broken(queue, "the used index ran ahead of the requests in flight", count);
    if (count > max)
        count = max;

    for (unsigned i = 0; i < count; i++) {
        struct vring_used_elem *element = &queue->used->ring[queue->last_used & (queue->layout.size - 1)];
        uint32_t head = le32toh(element->id);
        if (head >= queue->layout.size || queue->slot_of_head[head] == FE_NO_SLOT)
            return fe_queue_broken(queue, "the used ring names a descriptor that begins no request", head);
        uint16_t at = queue->slot_of_head[head];
        struct fe_slot *slot = &queue->slots[at];
        if (!slot->in_flight)
            return fe_queue_broken(queue, "a request was completed that was not in flight, descriptor", head);
        fe_queue_completed(queue, slot, le32toh(element->len));
        queue->last_used++;
        slots[i] = at;
    }
    /* The distance shrinks with every completion: move the event away long before it is reached. */
    if (queue->suppressed && queue->layout.event_idx &&
        (uint16_t)(queue->used_event_written - queue->last_used) < USED_EVENT_FAR / 2)
        fe_queue_suppress(queue);
    return count;
}

void fe_queue_suppress(struct fe_queue *queue)
{
    queue->suppressed = true;
    /* A hint: a late interrupt only adds to a counter that nobody reads, so no order is needed. */
    if (queue->layout.packed) {
        fe_packed_suppress(queue);
    } else if (queue->layout.event_idx) {
        queue->used_event_written = queue->last_used + USED_EVENT_FAR;
        __atomic_store_n(queue->used_event, htole16(queue->used_event_written), __ATOMIC_RELAXED);
    } else {
        __atomic_store_n(&queue->avail->flags, htole16(VRING_AVAIL_F_NO_INTERRUPT), __ATOMIC_RELAXED);
    }
}

bool fe_queue_arm(struct fe_queue *queue)
{
    queue->suppressed = false;
    if (queue->layout.packed)
        return fe_packed_arm(queue);
    /* ORDER fe.interrupt */
    if (queue->layout.event_idx) {
        queue->used_event_written = queue->last_used;
        __atomic_store_n(queue->used_event, htole16(queue->last_used), __ATOMIC_SEQ_CST);
    } else {
        __atomic_store_n(&queue->avail->flags, 0, __ATOMIC_SEQ_CST);
    }
    return le16toh(__atomic_load_n(&queue->used->idx, __ATOMIC_SEQ_CST)) != queue->last_used;
}

int fe_queue_wait(struct fe_queue *queue)
{
    if (!fe_queue_arm(queue)) {
        queue->wait_count++;
        for (;;) {
            eventfd_t count;
            /* One blocking read does for a sleep, but the server shares the file's flags and may
             * have made it non-blocking: then poll first. */
            if (queue->call_fd_nonblocking) {
                struct pollfd poll_fd = { .fd = queue->call_fd, .events = POLLIN };
                if (poll(&poll_fd, 1, -1) < 0 && errno != EINTR)
                    return -errno;
            }
            if (eventfd_read(queue->call_fd, &count) == 0)
                break;
            if (errno == EAGAIN)
                queue->call_fd_nonblocking = true;
            else if (errno != EINTR)
                return -errno;
        }
    }
    /* Without EVENT_IDX an armed queue interrupts at every completion: off until the next wait. The event of a packed
     * ring comes by again after two turns. */
    if (queue->layout.packed)
        fe_packed_suppress(queue);
    else if (!queue->layout.event_idx)
        __atomic_store_n(&queue->avail->flags, htole16(VRING_AVAIL_F_NO_INTERRUPT), __ATOMIC_RELAXED);
    return 0;
}

void fe_queue_wake(struct fe_queue *queue)
{
    (void)eventfd_write(queue->call_fd, 1); /* a full counter wakes as well */
}

uint32_t fe_queue_base(const struct fe_queue *queue)
{
    if (queue->layout.packed)
        return fe_packed_base(queue);
    return le16toh(__atomic_load_n(&queue->used->idx, __ATOMIC_ACQUIRE));
}
