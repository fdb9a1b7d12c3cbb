/**
 * What a kind of disk provides to disk.c; one file a kind. Requests that arrive here are inside the disk and
 * aligned to facts.align_bytes (offset, length and every memory address).
 */
#ifndef VBLK_DISK_BACKEND_H
#define VBLK_DISK_BACKEND_H

#include <sys/stat.h>

#include "disk/disk.h"

struct vblk_disk_ops {
    void (*close)(struct vblk_disk *disk);
    int (*attach_loop)(struct vblk_disk *disk, struct rt_loop *loop, struct vblk_disk_loop **context_out);
    void (*detach_loop)(struct vblk_disk_loop *context);
    int (*read_co)(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov, int iov_count);
    int (*write_co)(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov, int iov_count);
    int (*flush_co)(struct vblk_disk_loop *context);
    /* Ranges are multiples of range_align_bytes. NULL, or -EOPNOTSUPP: nothing happened, do without (zeros are then
     * written). What succeeds is done. */
    int (*discard_co)(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes);
    int (*write_zeroes_co)(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes, bool may_unmap);
    /** May be NULL. *size_inout: asked for (0: whatever there is), then what it is; multiples are the caller's business. */
    int (*resize)(struct vblk_disk *disk, uint64_t *size_inout);
    /** Both may be NULL: nobody can be kept out. *changed_out: there is another size behind the disk now. */
    int (*hold)(struct vblk_disk *disk, bool *changed_out);
    void (*let_go)(struct vblk_disk *disk);
};

/** First member of every kind's own structure. */
struct vblk_disk {
    const struct vblk_disk_ops *ops;
    struct vblk_disk_facts facts;
    uint32_t range_align_bytes; /* of discard and write_zeroes, a power of two; 0: any */
};

struct vblk_disk_loop {
    struct vblk_disk *disk;
};

int vblk_disk_null_open(const char *size_text, const struct vblk_disk_options *options, struct vblk_disk **disk_out,
                        char **message_out);
/** An NBD server (nbd_connect.h says which specs); one that cannot be reached now is refused. */
int vblk_disk_nbd_open(const char *spec, const struct vblk_disk_options *options, struct vblk_disk **disk_out,
                       char **message_out);
int vblk_disk_file_open(const char *path, const struct vblk_disk_options *options, struct vblk_disk **disk_out,
                        char **message_out);

/**
 * Put the rules of an experiment (inject_rule.h) in front of a disk.
 *
 * Ownership: on success @inner belongs to the new disk; on failure (a rule that cannot be read) it stays the caller's.
 */
int vblk_disk_inject_open(struct vblk_disk *inner, const char *rules, struct vblk_disk **disk_out, char **message_out);

/** Fill in what a writable file or block device that is open does with discards. */
void vblk_disk_file_find_discard(int fd, const struct stat *st, struct vblk_disk *disk);

/**
 * Lock an open image as QEMU locks its own, so that QEMU and vblkd exclude each other.
 *
 * Waits up to half a second for one that is about to let go.
 *
 * Returns:   0; -EAGAIN: another process has it; -errno of fcntl (a file system without locks: -ENOLCK, -EINVAL).
 * Ownership: the lock belongs to the open file description and ends with it, which an io_uring may keep alive.
 */
int vblk_disk_file_lock(int fd, bool read_only);
/** The same without waiting; who is refused holds nothing. */
int vblk_disk_file_try_lock(int fd, bool read_only);
/** At once, whoever else holds the open file. */
void vblk_disk_file_unlock(int fd);

#endif
