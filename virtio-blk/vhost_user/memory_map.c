#include "vhost_user/memory_map.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "vhost_user/memory_guard.h"
#include "vhost_user/shared_mapping.h"

/* One region's pages. Maps that are made from each other share them; they go with the last of these. */
struct pages {
    _Atomic unsigned references;
    _Atomic bool broken; /* set by the SIGBUS handler */
    struct vhost_user_shared_mapping mapping;
};

struct region {
    uint64_t guest_address, size_bytes;
    uint64_t user_address;
    uint8_t *bytes; /* where the region's first byte is */
    struct pages *pages;
};

/*
 * ORDER memory_map.broken: whoever reads memory that was cut off learns it from the map before he believes what he read.
 *   memory_guard.c, heal(): store the pages' `broken`, then add to the count of faults (release)
 *   look_again():           load that count (acquire), then each region's `broken`; store the map's, then `looked_at`
 *                           (release)
 *   vhost_user_memory_map_broken(): load the count (acquire) and looked_at (acquire), then the map's `broken`
 * So asking costs two loads for as long as no access in this process has failed.
 * If weaker: a thread sees the count of a fault and not its flag, and goes on with zeros as if the driver had written them.
 */
struct vhost_user_memory_map {
    _Atomic unsigned references;
    _Atomic uint32_t looked_at; /* how many faults there had been when `broken` was right */
    _Atomic bool broken;
    unsigned count;
    struct region regions[]; /* by guest address */
};

static void release_pages(struct pages *pages)
{
    /* As for the map itself: one acq_rel counter is both sides. */
    if (atomic_fetch_sub_explicit(&pages->references, 1, memory_order_acq_rel) != 1)
        return;
    vhost_user_shared_mapping_destroy(&pages->mapping);
    free(pages);
}

static int map_region(struct region *region, const struct vhost_user_memory_region *wire, int fd,
                      const char **reason)
{
    struct pages *pages = calloc(1, sizeof *pages);
    if (!pages) {
        *reason = "there is no memory left";
        return -ENOMEM;
    }
    pages->references = 1;
    int error = vhost_user_shared_mapping_create(&pages->mapping, fd, wire->mmap_offset_bytes, wire->size_bytes,
                                                 &pages->broken, reason);
    if (error) {
        free(pages);
        return error;
    }
    *region = (struct region){ .guest_address = wire->guest_address,
                               .size_bytes = wire->size_bytes,
                               .user_address = wire->user_address,
                               .bytes = pages->mapping.bytes,
                               .pages = pages };
    return 0;
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

static int check_region(const struct vhost_user_memory_region *region, const char **reason)
{
    uint64_t end;
    if (!region->size_bytes) {
        *reason = "its size is 0";
        return -EINVAL;
    }
    if (__builtin_add_overflow(region->guest_address, region->size_bytes, &end) ||
        __builtin_add_overflow(region->user_address, region->size_bytes, &end)) {
        *reason = "its address and size overflow";
        return -EINVAL;
    }
    return 0;
}

static int check_count(unsigned count, const char **reason)
{
    if (count > 0 && count <= VHOST_USER_REGIONS_MAX)
        return 0;
    *reason = count ? "there are too many regions" : "there are no regions";
    return -EINVAL;
}

/* Before anything is mapped, so that a refused table costs nothing. */
static int check_table(const struct vhost_user_memory_region *regions, unsigned count, const char **reason,
                       unsigned *at)
{
    *at = 0;
    int error = check_count(count, reason);
    for (unsigned i = 0; i < count && !error; i++) {
        *at = i;
        error = check_region(&regions[i], reason);
        for (unsigned j = 0; j < i && !error; j++) {
            if (overlap(regions[i].guest_address, regions[i].size_bytes, regions[j].guest_address,
                        regions[j].size_bytes) ||
                overlap(regions[i].user_address, regions[i].size_bytes, regions[j].user_address,
                        regions[j].size_bytes)) {
                *reason = "it overlaps another one";
                error = -EINVAL;
            }
        }
    }
    return error;
}

static struct vhost_user_memory_map *new_map(unsigned count, const char **reason)
{
    struct vhost_user_memory_map *map = calloc(1, sizeof *map + count * sizeof map->regions[0]);
    if (!map) {
        *reason = "there is no memory left";
        return NULL;
    }
    map->references = 1;
    return map;
}

int vhost_user_memory_map_create(const struct vhost_user_memory_region *regions, const int *fds,
                                 unsigned count, struct vhost_user_memory_map **map_out,
                                 const char **reason_out, unsigned *region_out)
{
    int error = check_table(regions, count, reason_out, region_out);
    if (error)
        return error;
    struct vhost_user_memory_map *map = new_map(count, reason_out);
    if (!map)
        return -ENOMEM;
    for (; map->count < count; map->count++) {
        error = map_region(&map->regions[map->count], &regions[map->count], fds[map->count], reason_out);
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

/* One more region of @map, shared with whoever has it already. */
static void share_region(struct vhost_user_memory_map *map, const struct region *region)
{
    /* The map it comes from holds a reference, so nothing needs to be ordered. */
    atomic_fetch_add_explicit(&region->pages->references, 1, memory_order_relaxed);
    map->regions[map->count++] = *region;
}

int vhost_user_memory_map_add(const struct vhost_user_memory_map *map,
                              const struct vhost_user_memory_region *region, int fd,
                              struct vhost_user_memory_map **map_out, const char **reason_out)
{
    unsigned count = map ? map->count : 0;
    int error = check_count(count + 1, reason_out);
    if (!error)
        error = check_region(region, reason_out);
    for (unsigned i = 0; i < count && !error; i++) {
        const struct region *other = &map->regions[i];
        if (overlap(region->guest_address, region->size_bytes, other->guest_address, other->size_bytes) ||
            overlap(region->user_address, region->size_bytes, other->user_address, other->size_bytes)) {
            *reason_out = "it overlaps another one";
            error = -EINVAL;
        }
    }
    if (error)
        return error;
    struct vhost_user_memory_map *larger = new_map(count + 1, reason_out);
    if (!larger)
        return -ENOMEM;
    for (unsigned i = 0; i < count; i++)
        share_region(larger, &map->regions[i]);
    error = map_region(&larger->regions[count], region, fd, reason_out);
    if (error) {
        vhost_user_memory_map_unref(larger);
        return error;
    }
    larger->count++;
    qsort(larger->regions, larger->count, sizeof larger->regions[0], by_guest_address);
    *map_out = larger;
    return 0;
}

int vhost_user_memory_map_remove(const struct vhost_user_memory_map *map,
                                 const struct vhost_user_memory_region *region,
                                 struct vhost_user_memory_map **map_out, const char **reason_out)
{
    unsigned count = map ? map->count : 0, at = 0;
    while (at < count && (map->regions[at].guest_address != region->guest_address ||
                          map->regions[at].user_address != region->user_address ||
                          map->regions[at].size_bytes != region->size_bytes))
        at++;
    if (at == count) {
        *reason_out = "there is no region with these addresses and this size";
        return -ENOENT;
    }
    struct vhost_user_memory_map *smaller = NULL;
    if (count > 1) {
        smaller = new_map(count - 1, reason_out);
        if (!smaller)
            return -ENOMEM;
        for (unsigned i = 0; i < count; i++)
            if (i != at)
                share_region(smaller, &map->regions[i]);
    }
    *map_out = smaller;
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
        release_pages(map->regions[i].pages);
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

int vhost_user_memory_map_translate_far(const struct vhost_user_memory_map *map, struct vhost_user_memory_hint *hint,
                                        uint64_t guest_address, uint64_t size_bytes, struct iovec *iov, int iov_max)
{
    unsigned at;
    if (!size_bytes)
        return -EINVAL;
    at = find(map, guest_address);
    if (at == map->count)
        return -EFAULT;
    *hint = (struct vhost_user_memory_hint){ .guest_address = map->regions[at].guest_address,
                                             .size_bytes = map->regions[at].size_bytes,
                                             .bytes = map->regions[at].bytes };
    for (int used = 0;; at++) {
        const struct region *region = &map->regions[at];
        /* No overflow: create() has checked address + size of each region, and the next one is held to begin
         * there. */
        uint64_t inside = region->size_bytes - (guest_address - region->guest_address);
        if (used == iov_max)
            return -E2BIG;
        iov[used].iov_base = region->bytes + (guest_address - region->guest_address);
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
    struct vhost_user_memory_hint hint = { 0 };
    return vhost_user_memory_map_translate_far(map, &hint, guest_address, size_bytes, iov, iov_max);
}

void *vhost_user_memory_map_user(const struct vhost_user_memory_map *map, uint64_t user_address,
                                 uint64_t size_bytes)
{
    for (unsigned i = 0; i < map->count; i++) {
        const struct region *region = &map->regions[i];
        uint64_t offset = user_address - region->user_address;
        if (offset < region->size_bytes)
            return size_bytes <= region->size_bytes - offset ? region->bytes + offset : NULL;
    }
    return NULL;
}

int vhost_user_memory_map_guest(const struct vhost_user_memory_map *map, const void *address, uint64_t size_bytes,
                                uint64_t *guest_address_out)
{
    for (unsigned i = 0; i < map->count; i++) {
        const struct region *region = &map->regions[i];
        uint64_t offset = (uintptr_t)address - (uintptr_t)region->bytes;
        if (offset < region->size_bytes && size_bytes <= region->size_bytes - offset) {
            *guest_address_out = region->guest_address + offset;
            return 0;
        }
    }
    return -EFAULT;
}

/* ORDER memory_map.broken */
static void look_again(struct vhost_user_memory_map *map, uint32_t faults)
{
    for (unsigned i = 0; i < map->count; i++)
        if (atomic_load_explicit(&map->regions[i].pages->broken, memory_order_relaxed))
            atomic_store_explicit(&map->broken, true, memory_order_relaxed);
    atomic_store_explicit(&map->looked_at, faults, memory_order_release);
}

bool vhost_user_memory_map_broken(struct vhost_user_memory_map *map)
{
    uint32_t faults = vhost_user_memory_guard_faults();
    if (faults != atomic_load_explicit(&map->looked_at, memory_order_acquire))
        look_again(map, faults);
    return atomic_load_explicit(&map->broken, memory_order_relaxed);
}

void vhost_user_memory_map_size(const struct vhost_user_memory_map *map, unsigned *region_count_out, uint64_t *bytes_out)
{
    *region_count_out = map->count;
    *bytes_out = 0;
    for (unsigned i = 0; i < map->count; i++)
        *bytes_out += map->regions[i].size_bytes;
}
