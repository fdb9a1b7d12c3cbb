/**
 * The guest's memory as the front end shared it: guest and front-end addresses to ours.
 *
 *     struct vhost_user_memory_map *map;
 *     int error = vhost_user_memory_map_create(regions, fds, count, &map);
 *     count = vhost_user_memory_map_translate(map, gpa, size_bytes, iov, iov_max);
 *     vhost_user_memory_map_unref(map);
 */
#ifndef VHOST_USER_MEMORY_MAP_H
#define VHOST_USER_MEMORY_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define VHOST_USER_REGIONS_MAX 509

struct vhost_user_memory_map;

/** As on the wire. Source: vhost-user specification, "Memory region description". */
struct vhost_user_memory_region {
    uint64_t guest_address, size_bytes, user_address, mmap_offset_bytes;
};

/**
 * Map @count regions; fds[i] backs regions[i].
 *
 * Returns:   0, or -EINVAL (none or too many regions, overlap, overflow, size 0, a region that ends past its
 *            file, so that no access can raise SIGBUS as things are), or -errno of mmap. reason_out then says
 *            why in a few words (a constant) and region_out which region.
 * Ownership: fds stay the caller's. The map starts with one reference; it is immutable.
 */
int vhost_user_memory_map_create(const struct vhost_user_memory_region *regions, const int *fds,
                                 unsigned count, struct vhost_user_memory_map **map_out,
                                 const char **reason_out, unsigned *region_out);

/**
 * A map with one region more, or one less, than @map (NULL: one without regions). The others are shared, not mapped
 * anew: their bytes stay where they are, and whoever still uses @map is not disturbed. A region that was removed is
 * unmapped when the last map that holds it goes.
 *
 * Remove:    the region with the same guest address, user address and size; *map_out is NULL when it was the last.
 * Returns:   0; -EINVAL as for create; -ENOENT: there is no such region; -ENOMEM; or -errno of mmap. reason_out then
 *            says why in a few words (a constant).
 * Ownership: fd stays the caller's; @map keeps its references, map_out gets one.
 */
int vhost_user_memory_map_add(const struct vhost_user_memory_map *map,
                              const struct vhost_user_memory_region *region, int fd,
                              struct vhost_user_memory_map **map_out, const char **reason_out);
int vhost_user_memory_map_remove(const struct vhost_user_memory_map *map,
                                 const struct vhost_user_memory_region *region,
                                 struct vhost_user_memory_map **map_out, const char **reason_out);

struct vhost_user_memory_map *vhost_user_memory_map_ref(struct vhost_user_memory_map *map);
void vhost_user_memory_map_unref(struct vhost_user_memory_map *map); /**< any thread; NULL is fine */

/**
 * Guest-physical range to our addresses; a range may cross adjacent regions (legal) and then takes several
 * entries.
 *
 * Returns:   entries written, 1..iov_max; -EFAULT if any byte is outside; -E2BIG if iov_max is too small.
 *            size_bytes 0: -EINVAL.
 */
int vhost_user_memory_map_translate(const struct vhost_user_memory_map *map, uint64_t guest_address,
                                    uint64_t size_bytes, struct iovec *iov, int iov_max);

/** The region of the last hit, by value. All zero to begin with; of one map, and of one thread at a time. */
struct vhost_user_memory_hint {
    uint64_t guest_address, size_bytes;
    uint8_t *bytes;
};

/** For the function below: the hint does not help. */
int vhost_user_memory_map_translate_far(const struct vhost_user_memory_map *map, struct vhost_user_memory_hint *hint,
                                        uint64_t guest_address, uint64_t size_bytes, struct iovec *iov, int iov_max);

/** The same with a memory of where the last hit was. Chains of one queue mostly lie in one region: two comparisons and no call. */
static inline int vhost_user_memory_map_translate_near(const struct vhost_user_memory_map *map,
                                                       struct vhost_user_memory_hint *hint, uint64_t guest_address,
                                                       uint64_t size_bytes, struct iovec *iov, int iov_max)
{
    /* Both wrap to something huge below the region's begin, and for size 0: that is for the other one to refuse. */
    uint64_t offset = guest_address - hint->guest_address;

    if (offset < hint->size_bytes && size_bytes - 1 < hint->size_bytes - offset && iov_max > 0) {
        iov->iov_base = hint->bytes + offset;
        iov->iov_len = size_bytes;
        return 1;
    }
    return vhost_user_memory_map_translate_far(map, hint, guest_address, size_bytes, iov, iov_max);
}

/** Front-end (user) address of a ring to ours; the whole range must lie in one region, else NULL. */
void *vhost_user_memory_map_user(const struct vhost_user_memory_map *map, uint64_t user_address,
                                 uint64_t size_bytes);

/** How many regions, and what they hold together. Thread: any. */
void vhost_user_memory_map_size(const struct vhost_user_memory_map *map, unsigned *region_count_out, uint64_t *bytes_out);

/**
 * The way back: where @size_bytes from one of our addresses are in guest memory. For what translate() returned,
 * each piece by itself: the range must lie in one region, else -EFAULT. It looks at one region after the other.
 */
int vhost_user_memory_map_guest(const struct vhost_user_memory_map *map, const void *address, uint64_t size_bytes,
                                uint64_t *guest_address_out);

/**
 * Whether the front end has cut off memory that it had shared (truncated its file): the pages that were
 * touched since read as zeros, nothing of them reaches the guest, and a queue in this memory must stop. See
 * memory_guard.h. Once it is, a map stays broken; one without the region that was cut off is whole. Thread: any.
 */
bool vhost_user_memory_map_broken(struct vhost_user_memory_map *map);

#endif
