#include "guest.h"
#include "packed_guest.h"

#include <assert.h>
#include <linux/virtio_ring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct vhost_user_memory_region regions[3] = {
    { GUEST_LOW, GUEST_LOW_BYTES, GUEST_LOW + GUEST_USER_OFFSET, 0 },
    { GUEST_HIGH, GUEST_HIGH_BYTES, GUEST_HIGH + GUEST_USER_OFFSET, 0x1000 },
    { GUEST_FAR, GUEST_FAR_BYTES, GUEST_FAR + GUEST_USER_OFFSET, 0 },
};

/* A test that cannot be set up has nothing to say. */
static void must(bool condition, const char *what)
{
    if (!condition) {
        perror(what);
        abort();
    }
}

void guest_init(struct guest *guest, uint16_t size, uint64_t features, uint16_t base)
{
    const char *reason;
    unsigned at;
    *guest = (struct guest){ 0 };
    for (int i = 0; i < 3; i++) {
        guest->fds[i] = memfd_create("guest", MFD_CLOEXEC);
        must(guest->fds[i] >= 0, "memfd_create");
        must(ftruncate(guest->fds[i], (off_t)(regions[i].mmap_offset_bytes + regions[i].size_bytes)) == 0,
             "ftruncate");
    }
    must(vhost_user_memory_map_create(regions, guest->fds, 3, &guest->map, &reason, &at) == 0, "memory map");
    guest_restart(guest, size, features, base);
}

void guest_restart(struct guest *guest, uint16_t size, uint64_t features, uint16_t base)
{
    vblk_virtqueue_destroy(guest->vq);
    guest->size = size;
    for (int i = 0; i < 3; i++)
        memset(guest_at(guest, regions[i].guest_address), 0, regions[i].size_bytes);
    struct vblk_virtqueue_config config = guest_config(guest, features, base);
    if (features & GUEST_F_PACKED) {
        packed_guest_clear(guest, base);
        config.base |= (uint32_t)base << 16;
    } else {
        guest_set_avail_index(guest, base);
        __atomic_store_n((uint16_t *)guest_at(guest, GUEST_USED) + 1, base, __ATOMIC_RELAXED);
    }
    must(vblk_virtqueue_create(&config, guest->map, &guest->vq) == 0, "virtqueue");
}

struct vblk_virtqueue_config guest_config(const struct guest *guest, uint64_t features, uint32_t base)
{
    return (struct vblk_virtqueue_config){ .size = guest->size,
                                           .base = base,
                                           .features = features,
                                           .desc_user = GUEST_DESC + GUEST_USER_OFFSET,
                                           .avail_user = GUEST_AVAIL + GUEST_USER_OFFSET,
                                           .used_user = GUEST_USED + GUEST_USER_OFFSET };
}

void guest_deinit(struct guest *guest)
{
    vblk_virtqueue_destroy(guest->vq);
    vhost_user_memory_map_unref(guest->map);
    for (int i = 0; i < 3; i++)
        close(guest->fds[i]);
}

void *guest_at(const struct guest *guest, uint64_t guest_address)
{
    void *at = vhost_user_memory_map_user(guest->map, guest_address + GUEST_USER_OFFSET, 1);
    assert(at);
    return at;
}

void guest_desc_at(const struct guest *guest, uint64_t table, unsigned index, uint64_t address,
                   uint32_t size_bytes, uint16_t flags, uint16_t next)
{
    struct vring_desc *desc = guest_at(guest, table + index * sizeof *desc);
    __atomic_store_n(&desc->addr, address, __ATOMIC_RELAXED);
    __atomic_store_n(&desc->len, size_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&desc->flags, flags, __ATOMIC_RELAXED);
    __atomic_store_n(&desc->next, next, __ATOMIC_RELAXED);
}

void guest_desc(const struct guest *guest, unsigned index, uint64_t address, uint32_t size_bytes,
                uint16_t flags, uint16_t next)
{
    guest_desc_at(guest, GUEST_DESC, index, address, size_bytes, flags, next);
}

static uint16_t *avail(const struct guest *guest)
{
    return guest_at(guest, GUEST_AVAIL);
}

static uint16_t *used(const struct guest *guest)
{
    return guest_at(guest, GUEST_USED);
}

void guest_ring_entry(struct guest *guest, uint16_t at, uint16_t head)
{
    __atomic_store_n(&avail(guest)[2 + at % guest->size], head, __ATOMIC_RELAXED);
}

void guest_set_avail_index(struct guest *guest, uint16_t index)
{
    guest->avail_index = index;
    __atomic_store_n(&avail(guest)[1], index, __ATOMIC_SEQ_CST);
}

void guest_offer(struct guest *guest, uint16_t head)
{
    guest_ring_entry(guest, guest->avail_index, head);
    guest_set_avail_index(guest, guest->avail_index + 1);
}

void guest_set_avail_flags(struct guest *guest, uint16_t flags)
{
    __atomic_store_n(&avail(guest)[0], flags, __ATOMIC_SEQ_CST);
}

void guest_set_used_event(struct guest *guest, uint16_t event)
{
    __atomic_store_n(&avail(guest)[2 + guest->size], event, __ATOMIC_SEQ_CST);
}

uint16_t guest_avail_event(const struct guest *guest)
{
    return __atomic_load_n(&used(guest)[2 + 4 * guest->size], __ATOMIC_SEQ_CST);
}

uint16_t guest_used_flags(const struct guest *guest)
{
    return __atomic_load_n(&used(guest)[0], __ATOMIC_SEQ_CST);
}

uint16_t guest_used_index(const struct guest *guest)
{
    return __atomic_load_n(&used(guest)[1], __ATOMIC_SEQ_CST);
}

uint32_t guest_used_head(const struct guest *guest, uint16_t at)
{
    return __atomic_load_n((uint32_t *)guest_at(guest, GUEST_USED + 4) + 2 * (at % guest->size),
                           __ATOMIC_RELAXED);
}

uint32_t guest_used_bytes(const struct guest *guest, uint16_t at)
{
    return __atomic_load_n((uint32_t *)guest_at(guest, GUEST_USED + 4) + 2 * (at % guest->size) + 1,
                           __ATOMIC_RELAXED);
}

bool guest_need_event(uint16_t event, uint16_t after, uint16_t before)
{
    return vring_need_event(event, after, before);
}

static bool is_inside(const struct guest *guest, const struct iovec *iov)
{
    for (unsigned i = 0; i < 3; i++) {
        uintptr_t offset = (uintptr_t)iov->iov_base - (uintptr_t)guest_at(guest, regions[i].guest_address);
        if (offset < regions[i].size_bytes && iov->iov_len <= regions[i].size_bytes - offset)
            return true;
    }
    return false;
}

bool guest_is_sound(const struct guest *guest, const struct vblk_element *element)
{
    uint64_t out = 0, in = 0;
    bool sound = element->out_count + element->in_count > 0;
    for (unsigned i = 0; i < element->out_count; i++) {
        sound = sound && is_inside(guest, &element->out[i]);
        out += element->out[i].iov_len;
    }
    for (unsigned i = 0; i < element->in_count; i++) {
        sound = sound && is_inside(guest, &element->in[i]);
        in += element->in[i].iov_len;
    }
    return sound && out == element->out_bytes && in == element->in_bytes;
}
