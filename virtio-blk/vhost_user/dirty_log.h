/**
 * The dirty log: a bitmap in memory that the front end shares while it migrates the guest. The device sets the bit of
 * each page that it has written, so that the front end sends the page (again).
 *
 *     struct vhost_user_dirty_log *log;
 *     int error = vhost_user_dirty_log_create(fd, offset_bytes, size_bytes, &log, &reason);
 *     memcpy(to, from, size_bytes);
 *     vhost_user_dirty_log_mark_memory(log, map, to, size_bytes);     // after the write
 *     if ((reason = vhost_user_dirty_log_failure(log))) stop: the front end would miss a page
 *     vhost_user_dirty_log_destroy(log);
 *
 * ORDER dirty_log.mark: a page is sent after its last write.
 *   device:     writes the page, then sets its bit by an atomic OR with release order
 *   front end:  takes and clears bits by an atomic exchange, then reads the pages
 * If weaker, or if a bit that is set already were left alone after a plain look: the front end takes the bit, reads the
 * page as it was before the write, and nobody tells it again. The destination's guest goes on with an old page.
 * Test: tests/virtio-blk/vhost_user/stress_dirty_log.c.
 *
 * Thread:    any, marks at the same time too; create and destroy while nobody marks.
 * Source:    vhost-user specification, "Migration"; a bit stands for 4 KiB whatever the page size is.
 */
#ifndef VHOST_USER_DIRTY_LOG_H
#define VHOST_USER_DIRTY_LOG_H

#include <stdint.h>
#include <sys/uio.h>

#include "vhost_user/memory_map.h"

#define VHOST_USER_DIRTY_LOG_PAGE_BYTES 4096

struct vhost_user_dirty_log;

/**
 * Map the log that begins @offset_bytes into the file @fd. The memory is hostile: it may be cut off at any time.
 *
 * Returns:   0, -EINVAL, -ENOMEM or -errno of mmap, with the reason in a few words (a constant). Its first bit is that
 *            of guest address 0.
 * Ownership: fd stays the caller's.
 */
int vhost_user_dirty_log_create(int fd, uint64_t offset_bytes, uint64_t size_bytes,
                                struct vhost_user_dirty_log **log_out, const char **reason_out);
void vhost_user_dirty_log_destroy(struct vhost_user_dirty_log *log); /**< NULL is fine */

/** The guest's pages from @guest_address on were written. 0 bytes: none. */
void vhost_user_dirty_log_mark(struct vhost_user_dirty_log *log, uint64_t guest_address, uint64_t size_bytes);

/** The same for memory by our address: @size_bytes that vhost_user_memory_map_translate() gave out in one piece. */
void vhost_user_dirty_log_mark_memory(struct vhost_user_dirty_log *log, const struct vhost_user_memory_map *map,
                                      const void *address, uint64_t size_bytes);

/**
 * NULL, or why a mark could not be made (a constant): its page lies beyond the log, or the log's file was truncated.
 * From then on the front end does not learn of all writes.
 */
const char *vhost_user_dirty_log_failure(const struct vhost_user_dirty_log *log);

#endif
