#include "vhost_user/dirty_log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "vhost_user/shared_mapping.h"

struct vhost_user_dirty_log {
    _Atomic bool gone;    /* set by the SIGBUS handler */
    _Atomic bool outside; /* a page beyond the end was written */
    uint64_t size_bytes;
    struct vhost_user_shared_mapping mapping;
};

int vhost_user_dirty_log_create(int fd, uint64_t offset_bytes, uint64_t size_bytes,
                                struct vhost_user_dirty_log **log_out, const char **reason_out)
{
    if (!size_bytes) {
        *reason_out = "its size is 0";
        return -EINVAL;
    }
    struct vhost_user_dirty_log *log = calloc(1, sizeof *log);
    if (!log) {
        *reason_out = "there is no memory left";
        return -ENOMEM;
    }
    log->size_bytes = size_bytes;
    int error = vhost_user_shared_mapping_create(&log->mapping, fd, offset_bytes, size_bytes, &log->gone, reason_out);
    if (error) {
        free(log);
        return error;
    }
    *log_out = log;
    return 0;
}

void vhost_user_dirty_log_destroy(struct vhost_user_dirty_log *log)
{
    if (!log)
        return;
    vhost_user_shared_mapping_destroy(&log->mapping);
    free(log);
}

void vhost_user_dirty_log_mark(struct vhost_user_dirty_log *log, uint64_t guest_address, uint64_t size_bytes)
{
    uint64_t last;
    if (!size_bytes)
        return;
    if (__builtin_add_overflow(guest_address, size_bytes - 1, &last) ||
        last / VHOST_USER_DIRTY_LOG_PAGE_BYTES / 8 >= log->size_bytes) {
        atomic_store_explicit(&log->outside, true, memory_order_relaxed);
        return;
    }
    uint64_t page = guest_address / VHOST_USER_DIRTY_LOG_PAGE_BYTES;
    last /= VHOST_USER_DIRTY_LOG_PAGE_BYTES;
    while (page <= last) {
        /* As many pages as this byte of the log has bits for. */
        uint64_t end = page / 8 == last / 8 ? last + 1 : (page / 8 + 1) * 8;
        uint8_t bits = (uint8_t)((1u << (end - page)) - 1) << page % 8;
        /* ORDER dirty_log.mark, device's side. The front end exchanges words; on a coherent machine that may be
         * mixed with bytes. */
        __atomic_fetch_or(&log->mapping.bytes[page / 8], bits, __ATOMIC_RELEASE);
        page = end;
    }
}

void vhost_user_dirty_log_mark_memory(struct vhost_user_dirty_log *log, const struct vhost_user_memory_map *map,
                                      const void *address, uint64_t size_bytes)
{
    uint64_t guest_address;
    if (!size_bytes)
        return;
    if (vhost_user_memory_map_guest(map, address, size_bytes, &guest_address) == 0)
        vhost_user_dirty_log_mark(log, guest_address, size_bytes);
    else
        atomic_store_explicit(&log->outside, true, memory_order_relaxed);
}

const char *vhost_user_dirty_log_failure(const struct vhost_user_dirty_log *log)
{
    if (atomic_load_explicit(&log->outside, memory_order_relaxed))
        return "memory was written that lies outside the dirty log";
    if (atomic_load_explicit(&log->gone, memory_order_relaxed))
        return "the dirty log is gone (its file was truncated)";
    return NULL;
}
