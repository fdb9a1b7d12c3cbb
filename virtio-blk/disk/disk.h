/**
 * A disk: where the bytes are. Opened once, used from several loops at a time through a per-loop context.
 *
 *     struct vblk_disk *disk;
 *     vblk_disk_open("disk.img", &options, &disk, &message);
 *     struct vblk_disk_loop *ctx = vblk_disk_attach_loop(disk, loop, &error);     // in that loop's thread
 *     int result = vblk_disk_read_co(ctx, offset_bytes, iov, iov_count);          // in a coroutine of that loop
 */
#ifndef VBLK_DISK_H
#define VBLK_DISK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct rt_loop;
struct vblk_disk;
struct vblk_disk_loop;

enum vblk_disk_cache { VBLK_DISK_CACHE_WRITEBACK, VBLK_DISK_CACHE_NONE };

struct vblk_disk_options {
    bool read_only;
    enum vblk_disk_cache cache;
    unsigned nbd_reconnect_s; /**< how long requests wait for an NBD server that is lost; 0: they fail at once */
    const char *inject; /**< rules of an experiment (inject_rule.h), or NULL */
    bool incoming;      /**< another process has it now and gives it up: see vblk_disk_hold() */
};

struct vblk_disk_facts {
    uint64_t size_bytes;
    uint32_t align_bytes; /**< offsets, lengths and memory must be multiples (direct I/O); 1 otherwise */
    const char *backend;  /**< "null", "file", "nbd" */
    bool read_only;
    bool instant;         /**< reads and writes end at once and move no bytes (null): they never yield, also outside a coroutine,
                               and their order among themselves shows nowhere */
    bool discard;         /**< vblk_disk_discard_co() gives room back */
    uint32_t discard_align_bytes; /**< what it gives back best; a multiple of 512, or 0: unknown */
    /** What the driver is told about good sizes. 0: unknown, or nothing better than the block size. */
    uint32_t physical_block_bytes; /**< smaller writes make the storage read, modify and write */
    uint32_t alignment_bytes;      /**< where the first physical block begins */
    uint32_t io_min_bytes, io_optimal_bytes;
};

/**
 * @spec: a file or block device, null:SIZE (null:1G), or an NBD server (nbd_connect.h).
 *
 * Returns:   0, or -errno with one line in message_out (object, cause, remedy; caller frees with g_free): missing,
 *            unreadable, locked by another process (OFD locks on QEMU's bytes, so that QEMU and we exclude each
 *            other), size no multiple of 512, size 0.
 */
int vblk_disk_open(const char *spec, const struct vblk_disk_options *options, struct vblk_disk **disk_out,
                   char **message_out);
void vblk_disk_close(struct vblk_disk *disk); /**< no loop attached any more; NULL is fine */
void vblk_disk_facts(const struct vblk_disk *disk, struct vblk_disk_facts *facts_out);

/**
 * The right to use the disk, which one process has at a time (the locks of a file; other kinds have none). Open takes it,
 * unless the disk is incoming. Nothing is read or written without it.
 *
 * hold: take it, if it is not ours, and read the size again if somebody has changed it meanwhile: see vblk_disk_facts().
 * let_go: give it up, for another process that goes on. Nothing in flight, and flushed.
 *
 * Returns:   0; -EAGAIN: another process has it, and tries do not wait; or -errno of finding the size.
 * Thread:    the main loop's, while no loop is attached.
 */
int vblk_disk_hold(struct vblk_disk *disk);
void vblk_disk_let_go(struct vblk_disk *disk);

/**
 * Another size from now on; 0: what is behind the disk says (a file that was made longer, a volume that grew). A file that
 * is shorter than @size_bytes is made longer; one that is longer keeps its bytes. Nothing in flight.
 *
 * Returns:   0; -EINVAL: not a multiple of what the disk needs, or 0; -ENOSPC: larger than a block device; -EROFS: a
 *            read-only disk would have to grow; -EOPNOTSUPP: this kind of disk; -EBUSY: it
 *            would have to grow, and is not held; or -errno of ftruncate. The size is then
 *            what it was.
 */
int vblk_disk_resize(struct vblk_disk *disk, uint64_t size_bytes);

/** Per-loop state (for files: an io_uring). Loop's thread. One per loop and disk. */
int vblk_disk_attach_loop(struct vblk_disk *disk, struct rt_loop *loop, struct vblk_disk_loop **context_out);
void vblk_disk_detach_loop(struct vblk_disk_loop *context); /**< nothing in flight; loop's thread */

/**
 * Whole transfers: return 0 or -errno (short ones are continued inside). May yield. iov is not changed and must
 * live until return. Several may be in flight; submissions of one loop pass go to the kernel together.
 */
int vblk_disk_read_co(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov, int iov_count);
int vblk_disk_write_co(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov, int iov_count);
/**
 * Whether a write of this range makes the disk read, modify and write (direct I/O, not aligned to its block size).
 * The caller then keeps overlapping requests out while it runs.
 */
bool vblk_disk_write_needs_rmw(const struct vblk_disk *disk, uint64_t offset_bytes, uint64_t size_bytes);
/**
 * Let go of what a range holds; what it reads as afterwards is undefined. Also 0 when nothing could be given back: part of a
 * block, or a disk that cannot. The caller keeps overlapping requests out, blocks of facts.align_bytes that are touched
 * in part included, here and below.
 */
int vblk_disk_discard_co(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes);
/** The range reads as zeros afterwards, always; its room may be given back if @may_unmap. */
int vblk_disk_write_zeroes_co(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes, bool may_unmap);
/**
 * What was acknowledged before is on stable storage after. After a failure it may never be known again what is: then every
 * later flush fails, too.
 */
int vblk_disk_flush_co(struct vblk_disk_loop *context);

#endif
