/**
 * The in-flight region: memory that the front end keeps for us, in which each queue notes the requests that it has
 * taken and not given back. It outlives this process: whoever serves the same front end next finds there what to do
 * again (inflight_split.h, inflight_packed.h).
 *
 *     GET_INFLIGHT_FD:  vhost_user_inflight_create_fd(&asked, packed, &answer, &fd);
 *     SET_INFLIGHT_FD:  vhost_user_inflight_map(&said, fd, &inflight, &reason);
 *     ring start:       part = vhost_user_inflight_queue(&inflight, index, packed, size, &reason);
 *     end:              vhost_user_inflight_unmap(&inflight);
 *
 * The region may come from another back end, and the front end may write into it at any time.
 *
 * Source:    vhost-user specification, "Inflight I/O tracking", "Inflight description".
 */
#ifndef VHOST_USER_INFLIGHT_H
#define VHOST_USER_INFLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "vhost_user/memory_map.h"
#include "vhost_user/protocol.h"

/** Each queue's part begins at a multiple of this, as in the other back ends that write such regions. */
#define VHOST_USER_INFLIGHT_ALIGN_BYTES 64
/** The largest ring of the specification. */
#define VHOST_USER_INFLIGHT_QUEUE_SIZE_MAX 32768

/** The only version there is; 0: nothing was written yet. */
#define VHOST_USER_INFLIGHT_VERSION 1

/** map NULL: the front end keeps none. */
struct vhost_user_inflight {
    struct vhost_user_memory_map *map;
    uint16_t queue_count, queue_size;
    uint64_t size_bytes;
};

/** Bytes from one queue's part to the next. */
uint64_t vhost_user_inflight_stride_bytes(bool packed, uint16_t queue_size);

/**
 * A new region for @asked->queue_count queues of @asked->queue_size entries, all zeros. Its size is sealed, so that it
 * cannot be cut off.
 *
 * Errors:    -EINVAL (no queue, or a size that no ring has), or -errno of making the file.
 * Ownership: fd_out is the caller's.
 */
int vhost_user_inflight_create_fd(const struct vhost_user_inflight_description *asked, bool packed,
                                  struct vhost_user_inflight_description *answer_out, int *fd_out);

/**
 * Errors:    -EINVAL or -errno; reason_out (a constant) says why. @fd stays the caller's.
 * Ownership: until vhost_user_inflight_unmap(); queues take references of map.
 */
int vhost_user_inflight_map(const struct vhost_user_inflight_description *said, int fd,
                            struct vhost_user_inflight *inflight_out, const char **reason_out);
void vhost_user_inflight_unmap(struct vhost_user_inflight *inflight); /**< also one that holds nothing */

/** The part of a ring of @size entries, or NULL with a reason: the region is too small for it. */
void *vhost_user_inflight_queue(const struct vhost_user_inflight *inflight, uint16_t index, bool packed,
                                uint16_t size, const char **reason_out);

#endif
