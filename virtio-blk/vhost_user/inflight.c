#include "vhost_user/inflight.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vhost_user/inflight_packed.h"
#include "vhost_user/inflight_split.h"

uint64_t vhost_user_inflight_stride_bytes(bool packed, uint16_t queue_size)
{
    uint64_t bytes = packed ? sizeof(struct vhost_user_inflight_packed) +
                                  queue_size * sizeof(struct vhost_user_inflight_packed_entry)
                            : sizeof(struct vhost_user_inflight_split) +
                                  queue_size * sizeof(struct vhost_user_inflight_split_entry);
    return (bytes + VHOST_USER_INFLIGHT_ALIGN_BYTES - 1) & ~(uint64_t)(VHOST_USER_INFLIGHT_ALIGN_BYTES - 1);
}

static bool is_possible(const struct vhost_user_inflight_description *description)
{
    return description->queue_count && description->queue_size &&
           description->queue_size <= VHOST_USER_INFLIGHT_QUEUE_SIZE_MAX;
}

int vhost_user_inflight_create_fd(const struct vhost_user_inflight_description *asked, bool packed,
                                  struct vhost_user_inflight_description *answer_out, int *fd_out)
{
    if (!is_possible(asked))
        return -EINVAL;
    uint64_t size_bytes = asked->queue_count * vhost_user_inflight_stride_bytes(packed, asked->queue_size);
    int fd = memfd_create("vblkd-inflight", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)size_bytes) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    *answer_out = (struct vhost_user_inflight_description){ .size_bytes = size_bytes,
                                                            .queue_count = asked->queue_count,
                                                            .queue_size = asked->queue_size };
    *fd_out = fd;
    return 0;
}

int vhost_user_inflight_map(const struct vhost_user_inflight_description *said, int fd,
                            struct vhost_user_inflight *inflight_out, const char **reason_out)
{
    /* It is shared memory like the guest's: the same checks, the same guard against truncation. It has no guest
     * address, and 0 stands for its first byte. */
    const struct vhost_user_memory_region region = { .size_bytes = said->size_bytes,
                                                     .mmap_offset_bytes = said->offset_bytes };
    struct vhost_user_memory_map *map;
    unsigned at;
    if (!is_possible(said)) {
        *reason_out = "no ring has such a size, or there is no queue";
        return -EINVAL;
    }
    if (said->offset_bytes % sizeof(uint64_t)) {
        *reason_out = "its offset is no multiple of 8";
        return -EINVAL;
    }
    if (said->size_bytes < said->queue_count * vhost_user_inflight_stride_bytes(false, said->queue_size)) {
        *reason_out = "it is too small for its queues";
        return -EINVAL;
    }
    int error = vhost_user_memory_map_create(&region, &fd, 1, &map, reason_out, &at);
    if (error)
        return error;
    *inflight_out = (struct vhost_user_inflight){ .map = map,
                                                  .queue_count = said->queue_count,
                                                  .queue_size = said->queue_size,
                                                  .size_bytes = said->size_bytes };
    return 0;
}

void vhost_user_inflight_unmap(struct vhost_user_inflight *inflight)
{
    vhost_user_memory_map_unref(inflight->map);
    *inflight = (struct vhost_user_inflight){ 0 };
}

void *vhost_user_inflight_queue(const struct vhost_user_inflight *inflight, uint16_t index, bool packed,
                                uint16_t size, const char **reason_out)
{
    uint64_t stride = vhost_user_inflight_stride_bytes(packed, inflight->queue_size);
    if (index >= inflight->queue_count || size > inflight->queue_size) {
        *reason_out = "the in-flight region has no room for this ring";
        return NULL;
    }
    /* It was measured before the ring's format was known. */
    void *part = vhost_user_memory_map_user(inflight->map, index * stride, stride);
    if (!part)
        *reason_out = "the in-flight region is too small for its queues";
    return part;
}
