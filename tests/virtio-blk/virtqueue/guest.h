/*
 * A guest for tests: memory in three regions and a driver that writes descriptors wherever the test wants
 * them.
 *
 *     struct guest guest;
 *     guest_init(&guest, 16, features, base);
 *     guest_desc(&guest, 0, GUEST_DATA, 512, 0, 0);
 *     guest_offer(&guest, 0);
 *     ... vblk_virtqueue_pop(guest.vq, ...)
 *     guest_deinit(&guest);
 *
 * Regions: "low" and "high" are adjacent for the guest but not for us; "far" stands alone. Rings lie in low.
 * Ring memory is accessed by relaxed atomics, as the device is under test with another thread in some tests.
 */
#ifndef TEST_GUEST_H
#define TEST_GUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "virtqueue/virtqueue.h"

enum guest_layout {
    GUEST_LOW = 0x100000,
    GUEST_LOW_BYTES = 0x40000,
    GUEST_HIGH = GUEST_LOW + GUEST_LOW_BYTES,
    GUEST_HIGH_BYTES = 0x20000,
    GUEST_FAR = 0x4000000,
    GUEST_FAR_BYTES = 0x10000,
    /* in low */
    GUEST_DESC = GUEST_LOW,
    GUEST_AVAIL = GUEST_LOW + 0x8000,
    GUEST_USED = GUEST_LOW + 0xa000,
    GUEST_DATA = GUEST_LOW + 0x10000,
};
#define GUEST_USER_OFFSET UINT64_C(0x7f0000000000) /* user address = guest address + this */
#define GUEST_F_INDIRECT (UINT64_C(1) << 28)
#define GUEST_F_EVENT_IDX (UINT64_C(1) << 29)
#define GUEST_F_PACKED (UINT64_C(1) << 34) /* the driver is then in packed_guest.h */

struct guest {
    int fds[3];
    struct vhost_user_memory_map *map;
    struct vblk_virtqueue *vq;
    uint16_t size, avail_index; /* packed: the next position, with its wrap counter */
};

/* Both rings begin at @base (packed: both positions). All of memory is 0, or marks nothing available. */
void guest_init(struct guest *guest, uint16_t size, uint64_t features, uint16_t base);
/* The same memory, 0 again, and another queue. No element is out. */
void guest_restart(struct guest *guest, uint16_t size, uint64_t features, uint16_t base);
void guest_deinit(struct guest *guest);
/* The queue's configuration, for tests that make another one in the same memory. */
struct vblk_virtqueue_config guest_config(const struct guest *guest, uint64_t features, uint32_t base);

/* Our address of a guest address (one region). */
void *guest_at(const struct guest *guest, uint64_t guest_address);

/* A descriptor anywhere in memory (aligned to 8), and one of the ring's table. */
void guest_desc_at(const struct guest *guest, uint64_t table, unsigned index, uint64_t address,
                   uint32_t size_bytes, uint16_t flags, uint16_t next);
void guest_desc(const struct guest *guest, unsigned index, uint64_t address, uint32_t size_bytes,
                uint16_t flags, uint16_t next);

/* Put a head into the available ring; and publish the index (release), which is given or goes on by one. */
void guest_ring_entry(struct guest *guest, uint16_t at, uint16_t head);
void guest_set_avail_index(struct guest *guest, uint16_t index);
void guest_offer(struct guest *guest, uint16_t head);

void guest_set_avail_flags(struct guest *guest, uint16_t flags);
void guest_set_used_event(struct guest *guest, uint16_t event);
uint16_t guest_avail_event(const struct guest *guest);
uint16_t guest_used_flags(const struct guest *guest);
uint16_t guest_used_index(const struct guest *guest); /* acquire */
uint32_t guest_used_head(const struct guest *guest, uint16_t at);
uint32_t guest_used_bytes(const struct guest *guest, uint16_t at);

/* Whether a driver that moved its index from @before would kick, or one that saw the used index would be
 * woken. */
bool guest_need_event(uint16_t event, uint16_t after, uint16_t before);

/* Whether all buffers of an element lie in guest memory, and their sizes are what the element says. */
bool guest_is_sound(const struct guest *guest, const struct vblk_element *element);

#endif
