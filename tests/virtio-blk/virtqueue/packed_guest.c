#include "packed_guest.h"

#include <linux/virtio_ring.h>

#define AVAIL (1 << VRING_PACKED_DESC_F_AVAIL)
#define USED (1 << VRING_PACKED_DESC_F_USED)

static struct vring_packed_desc *entry(const struct guest *guest, uint64_t table, unsigned index)
{
    return guest_at(guest, table + index * sizeof(struct vring_packed_desc));
}

uint16_t packed_advance(const struct guest *guest, uint16_t at, unsigned count)
{
    unsigned position = (at & 0x7fffu) + count;
    bool wrap = at & 0x8000;
    for (; position >= guest->size; position -= guest->size)
        wrap = !wrap;
    return (uint16_t)(position | (wrap ? 0x8000u : 0));
}

uint16_t packed_available(uint16_t at)
{
    return at & 0x8000 ? AVAIL : USED;
}

void packed_guest_clear(struct guest *guest, uint16_t base)
{
    guest->avail_index = base;
    /* Used in the turn before, from here on: neither available nor used in this one. */
    for (unsigned i = 0; i < guest->size; i++) {
        uint16_t at = packed_advance(guest, base, i);
        __atomic_store_n(&entry(guest, GUEST_DESC, at & 0x7fff)->flags, at & 0x8000 ? 0 : AVAIL | USED,
                         __ATOMIC_RELAXED);
    }
}

void packed_desc_at(const struct guest *guest, uint64_t table, unsigned index, uint64_t address,
                    uint32_t size_bytes, uint16_t id, uint16_t flags)
{
    struct vring_packed_desc *desc = entry(guest, table, index);
    __atomic_store_n(&desc->addr, address, __ATOMIC_RELAXED);
    __atomic_store_n(&desc->len, size_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&desc->id, id, __ATOMIC_RELAXED);
    __atomic_store_n(&desc->flags, flags, __ATOMIC_SEQ_CST);
}

void packed_desc(const struct guest *guest, uint16_t at, uint64_t address, uint32_t size_bytes, uint16_t id,
                 uint16_t flags)
{
    packed_desc_at(guest, GUEST_DESC, at & 0x7fff, address, size_bytes, id, flags);
}

void packed_offer(struct guest *guest, const struct packed_part *parts, unsigned count, uint16_t id)
{
    for (unsigned i = count; i-- > 0;) {
        uint16_t at = packed_advance(guest, guest->avail_index, i);
        bool last = i + 1 == count;
        packed_desc(guest, at, parts[i].address, parts[i].size_bytes, last ? id : 0xffff,
                    parts[i].flags | packed_available(at) | (last ? 0 : VRING_DESC_F_NEXT));
    }
    guest->avail_index = packed_advance(guest, guest->avail_index, count);
}

bool packed_used(const struct guest *guest, uint16_t at, uint16_t *id_out, uint32_t *size_bytes_out)
{
    struct vring_packed_desc *desc = entry(guest, GUEST_DESC, at & 0x7fff);
    uint16_t flags = __atomic_load_n(&desc->flags, __ATOMIC_SEQ_CST);
    if ((flags & (AVAIL | USED)) != (at & 0x8000 ? AVAIL | USED : 0))
        return false;
    *id_out = __atomic_load_n(&desc->id, __ATOMIC_RELAXED);
    *size_bytes_out = __atomic_load_n(&desc->len, __ATOMIC_RELAXED);
    return true;
}

static struct vring_packed_desc_event *event(const struct guest *guest, uint64_t area)
{
    return guest_at(guest, area);
}

void packed_set_driver_event(const struct guest *guest, uint16_t flags, uint16_t position)
{
    __atomic_store_n(&event(guest, GUEST_AVAIL)->off_wrap, position, __ATOMIC_RELAXED);
    __atomic_store_n(&event(guest, GUEST_AVAIL)->flags, flags, __ATOMIC_SEQ_CST);
}

uint16_t packed_device_flags(const struct guest *guest)
{
    return __atomic_load_n(&event(guest, GUEST_USED)->flags, __ATOMIC_SEQ_CST);
}

uint16_t packed_device_event(const struct guest *guest)
{
    return __atomic_load_n(&event(guest, GUEST_USED)->off_wrap, __ATOMIC_SEQ_CST);
}

bool packed_need_kick(const struct guest *guest, unsigned count)
{
    uint16_t flags = packed_device_flags(guest), position = packed_device_event(guest);
    if (flags != VRING_PACKED_EVENT_FLAG_DESC)
        return flags != VRING_PACKED_EVENT_FLAG_DISABLE;
    /* One by one, as the words of the specification have it, and not by a formula that the device may share. */
    for (unsigned back = 1; back <= count; back++)
        if (packed_advance(guest, guest->avail_index, 2u * guest->size - back) == position)
            return true;
    return false;
}
