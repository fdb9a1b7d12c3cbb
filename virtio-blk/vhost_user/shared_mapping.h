/**
 * Part of a file that the front end shared, mapped so that nothing it does to the file can kill the process.
 *
 *     struct vhost_user_shared_mapping mapping;
 *     int error = vhost_user_shared_mapping_create(&mapping, fd, offset_bytes, size_bytes, &broken, &reason);
 *     ... mapping.bytes[0 .. size_bytes) ...
 *     vhost_user_shared_mapping_destroy(&mapping);
 */
#ifndef VHOST_USER_SHARED_MAPPING_H
#define VHOST_USER_SHARED_MAPPING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vhost_user_memory_guard;

struct vhost_user_shared_mapping {
    uint8_t *bytes; /**< the first byte that was asked for; NULL: nothing is mapped */
    void *mapping;  /**< whole pages */
    size_t mapping_bytes;
    struct vhost_user_memory_guard *guard;
};

/**
 * Map @size_bytes (above 0) from @offset_bytes for reading and writing; what is mapped stays out of core files.
 *
 * Returns:   0; -EINVAL: offset and size overflow, it ends past its file, or the descriptor is no memory; or -errno
 *            of mmap. reason_out then says why in a few words (a constant).
 * Ownership: fd stays the caller's. *broken is set when the file turns out to have been truncated
 *            (memory_guard.h); it must live until destroy.
 */
int vhost_user_shared_mapping_create(struct vhost_user_shared_mapping *mapping_out, int fd, uint64_t offset_bytes,
                                     uint64_t size_bytes, _Atomic bool *broken, const char **reason_out);
/** No thread touches it any more. One that was never created (all zeros) is fine. */
void vhost_user_shared_mapping_destroy(struct vhost_user_shared_mapping *mapping);

#endif
