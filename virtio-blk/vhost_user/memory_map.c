#include "vhost_user/memory_map.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "vhost_user/shared_mapping.h"

struct region {
    uint64_t guest_address, size_bytes;
    uint64_t user_address;
    struct vhost_user_shared_mapping mapping;
};

struct vhost_user_memory_map {
    _Atomic unsigned references;
    _Atomic bool broken; /* set by the SIGBUS handler */
    unsigned count;
    struct region regions[]; /* by guest address */
};

static int map_region(struct region *region, _Atomic bool *broken, const struct vhost_user_memory_region *wire, int fd,
                      const char **reason)
{
    region->guest_address = wire->guest_address;
    region->size_bytes = wire->size_bytes;
    region->user_address = wire->user_address;
    return vhost_user_shared_mapping_create(&region->mapping, fd, wire->mmap_offset_bytes, wire->size_bytes, broken,
                                            reason);
}

static int by_guest_address(const void *left, const void *right)
{
    uint64_t a = ((const struct region *)left)->guest_address,
             b = ((const struct region *)right)->guest_address;
    return (a > b) - (a < b);
}

static bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

/* Before anything is mapped, so that a refused table costs nothing. */
static int check(const struct vhost_user_memory_region *regions, unsigned count, const char **reason,
                 unsigned *at)
{
    *at = 0;
    if (count == 0 || count > VHOST_USER_REGIONS_MAX) {
        *reason = count ? "there are too many regions" : "there are no regions";
        return -EINVAL;
    }
    for (unsigned i = 0; i < count; i++) {
        uint64_t end;
        *at = i;
        if (!regions[i].size_bytes) {
            *reason = "its size is 0";
            return -EINVAL;
        }
        if (__builtin_add_overflow(regions[i].guest_address, regions[i].size_bytes, &end) ||
            __builtin_add_overflow(regions[i].user_address, regions[i].size_bytes, &end)) {
            *reason = "its address and size overflow";
            return -EINVAL;
        }
        for (unsigned j = 0; j < i; j++) {
            if (overlap(regions[i].guest_address, regions[i].size_bytes, regions[j].guest_address,
                        regions[j].size_bytes) ||
                overlap(regions[i].user_address, regions[i].size_bytes, regions[j].user_address,
                        regions[j].size_bytes)) {
                *reason = "it overlaps another one";
                return -EINVAL;
            }
        }
    }
    return 0;
}

int vhost_user_memory_map_create(const struct vhost_user_memory_region *regions, const int *fds,
                                 unsigned count, struct vhost_user_memory_map **map_out,
                                 const char **reason_out, unsigned *region_out)
{
    int error = check(regions, count, reason_out, region_out);
    if (error)
        return error;
    struct vhost_user_memory_map *map = calloc(1, sizeof *map + count * sizeof map->regions[0]);
    if (!map) {
        *reason_out = "there is no memory left";
        return -ENOMEM;
    }
    map->references = 1;
    for (; map->count < count; map->count++) {
        error = map_region(&map->regions[map->count], &map->broken, &regions[map->count], fds[map->count],
                           reason_out);
        if (error) {
            *region_out = map->count;
            vhost_user_memory_map_unref(map);
            return error;
        }
    }
    qsort(map->regions, count, sizeof map->regions[0], by_guest_address);
    *map_out = map;
    return 0;
}

struct vhost_user_memory_map *vhost_user_memory_map_ref(struct vhost_user_memory_map *map)
{
    /* Whoever refs holds a reference already, so nothing needs to be ordered. */
    atomic_fetch_add_explicit(&map->references, 1, memory_order_relaxed);
    return map;
}

void vhost_user_memory_map_unref(struct vhost_user_memory_map *map)
{
    /* Each holder's last access comes before the unmapping by whoever is last: one acq_rel counter is both
     * sides. */
    if (!map || atomic_fetch_sub_explicit(&map->references, 1, memory_order_acq_rel) != 1)
        return;
    for (unsigned i = 0; i < map->count; i++)
        vhost_user_shared_mapping_destroy(&map->regions[i].mapping);
    free(map);
}

/* The address minus the region's begin wraps to something huge below it: one comparison for both bounds. */
static bool holds(const struct region *region, uint64_t guest_address)
{
    return guest_address - region->guest_address < region->size_bytes;
}

/* Index of the region that holds the address, or count. */
static unsigned find(const struct vhost_user_memory_map *map, uint64_t guest_address)
{
    unsigned low = 0, high = map->count;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (guest_address < map->regions[middle].guest_address)
            high = middle;
        else if (holds(&map->regions[middle], guest_address))
            return middle;
        else
            low = middle + 1;
    }
    return map->count;
}

int vhost_user_memory_map_translate_near(const struct vhost_user_memory_map *map, unsigned *hint_inout,
                                         uint64_t guest_address, uint64_t size_bytes, struct iovec *iov,
                                         int iov_max)
{
    unsigned at = *hint_inout;
    if (!size_bytes)
        return -EINVAL;
    if (at >= map->count || !holds(&map->regions[at], guest_address)) {
        at = find(map, guest_address);
        if (at == map->count)
            return -EFAULT;
        *hint_inout = at;
    }
    for (int used = 0;; at++) {
        const struct region *region = &map->regions[at];
        /* No overflow: create() has checked address + size of each region, and the next one is held to begin
         * there. */
        uint64_t inside = region->size_bytes - (guest_address - region->guest_address);
        if (used == iov_max)
            return -E2BIG;
        iov[used].iov_base = region->mapping.bytes + (guest_address - region->guest_address);
        iov[used++].iov_len = size_bytes < inside ? size_bytes : inside;
        if (size_bytes <= inside)
            return used;
        guest_address += inside;
        size_bytes -= inside;
        if (at + 1 == map->count || map->regions[at + 1].guest_address != guest_address)
            return -EFAULT;
    }
}

int vhost_user_memory_map_translate(const struct vhost_user_memory_map *map, uint64_t guest_address,
                                    uint64_t size_bytes, struct iovec *iov, int iov_max)
{
    unsigned hint = 0;
    return vhost_user_memory_map_translate_near(map, &hint, guest_address, size_bytes, iov, iov_max);
}

void *vhost_user_memory_map_user(const struct vhost_user_memory_map *map, uint64_t user_address,
                                 uint64_t size_bytes)
{
    for (unsigned i = 0; i < map->count; i++) {
        const struct region *region = &map->regions[i];
        uint64_t offset = user_address - region->user_address;
        if (offset < region->size_bytes)
            return size_bytes <= region->size_bytes - offset ? region->mapping.bytes + offset : NULL;
    }
    return NULL;
}

int vhost_user_memory_map_guest(const struct vhost_user_memory_map *map, const void *address, uint64_t size_bytes,
                                uint64_t *guest_address_out)
{
    for (unsigned i = 0; i < map->count; i++) {
        const struct region *region = &map->regions[i];
        uint64_t offset = (uintptr_t)address - (uintptr_t)region->mapping.bytes;
        if (offset < region->size_bytes && size_bytes <= region->size_bytes - offset) {
            *guest_address_out = region->guest_address + offset;
            return 0;
        }
    }
    return -EFAULT;
}

bool vhost_user_memory_map_broken(const struct vhost_user_memory_map *map)
{
    return atomic_load_explicit(&map->broken, memory_order_relaxed);
}

void vhost_user_memory_map_size(const struct vhost_user_memory_map *map, unsigned *region_count_out, uint64_t *bytes_out)
{
    *region_count_out = map->count;
    *bytes_out = 0;
    for (unsigned i = 0; i < map->count; i++)
        *bytes_out += map->regions[i].size_bytes;
}
