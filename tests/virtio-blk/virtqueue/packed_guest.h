/*
 * The driver of a packed ring, in the guest of guest.h.
 *
 *     guest_init(&guest, 16, GUEST_F_PACKED, 0x8000);
 *     packed_offer(&guest, (struct packed_part[]){ { GUEST_DATA, 512, 0 } }, 1, 7);
 *     ... pop, push
 *     if (packed_used(&guest, 0x8000, &id, &size_bytes)) ...
 *
 * A position is an index of the ring with the wrap counter in bit 15; guest->avail_index is the next one to be made
 * available. Source: VIRTIO 1.2, 2.8.
 */
#ifndef TEST_PACKED_GUEST_H
#define TEST_PACKED_GUEST_H

#include "guest.h"

struct packed_part {
    uint64_t address;
    uint32_t size_bytes;
    uint16_t flags; /* WRITE, INDIRECT; NEXT and the rest are added */
};

/* As a driver leaves an unused ring of which both sides are at @base. */
void packed_guest_clear(struct guest *guest, uint16_t base);

uint16_t packed_advance(const struct guest *guest, uint16_t at, unsigned count);
/* The two flags that say "available" at @at. */
uint16_t packed_available(uint16_t at);

/* A descriptor anywhere in memory, all flags as given; and one of the ring. The flags are written last (release). */
void packed_desc_at(const struct guest *guest, uint64_t table, unsigned index, uint64_t address,
                    uint32_t size_bytes, uint16_t id, uint16_t flags);
void packed_desc(const struct guest *guest, uint16_t at, uint64_t address, uint32_t size_bytes, uint16_t id,
                 uint16_t flags);

/* A chain at the next position, its first descriptor last (seq_cst). Only the last one has the id, others 0xffff. */
void packed_offer(struct guest *guest, const struct packed_part *parts, unsigned count, uint16_t id);

/* Whether the descriptor at @at was used (acquire), for which buffer, and how many bytes were written. */
bool packed_used(const struct guest *guest, uint16_t at, uint16_t *id_out, uint32_t *size_bytes_out);

void packed_set_driver_event(const struct guest *guest, uint16_t flags, uint16_t position);
uint16_t packed_device_flags(const struct guest *guest);
uint16_t packed_device_event(const struct guest *guest);
/* Whether a driver that made the @count entries before avail_index available would kick. */
bool packed_need_kick(const struct guest *guest, unsigned count);

#endif
