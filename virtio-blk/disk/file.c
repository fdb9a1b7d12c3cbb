/*
 * Files and block devices through io_uring: one ring a loop. Requests of one pass are submitted together by a
 * bottom half; completions are found by polling the ring in memory, or by the ring's descriptor in the monitor.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <limits.h>
#include <liburing.h>
#include <linux/fs.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk/backend.h"
#include "log/log.h"
#include "rt/coroutine.h"
#include "rt/loop.h"

#define RING_ENTRIES 256
#define FILE_BLOCK_BYTES_MAX 4096
/* How often a thread that writes looks which processors it has: somebody may have pinned it. */
#define LOOK_AT_CPUS_NS (100 * INT64_C(1000000))

struct file_disk {
    struct vblk_disk disk;
    int fd;
    char *path;
    bool direct;
    bool held;            /* its locks are ours, or cannot be had by anybody */
    uint64_t there_bytes; /* as large as the file was when we looked or changed it */
    /* What the file system turned out not to do, for all loops; a loop that has not seen it yet asks once more. */
    _Atomic bool no_punch_hole, no_zero_range;
    _Atomic int sync_error; /* negative errno once data in the page cache may have been lost */
};

/* For an entry of the submission queue; on the stack of the coroutine that waits. */
struct file_waiter {
    struct rt_coroutine *co;
    struct file_waiter *next;
};

struct file_loop {
    struct vblk_disk_loop context;
    struct io_uring ring;
    struct rt_bh *submit_bh;
    struct rt_handler *handler;
    int fd;                  /* index 0 of the registered files, or the descriptor */
    unsigned sqe_flags;
    bool direct;
    struct rt_loop *rt_loop;
    unsigned written;        /* buffered writes in flight */
    bool shares_cpu;         /* with the kernel's threads that do them, as of looked_ns */
    bool holds_polling;
    int64_t looked_ns;       /* 0: never */
    bool reaped; /* since the descriptor's handler ran */
    struct file_waiter *waiters, **last_waiter;
};

/* Lives on the stack of the coroutine that waits for it. */
struct file_op {
    struct rt_coroutine *co;
    int result;
};

/*
 * A buffered write that the file system cannot do without waiting (ext4 can none) is done by a thread that the kernel makes for
 * this one, and which has this one's processors. If that is a single one, whoever polls for the end of the write takes from it
 * what it needs to end.
 */
static bool file_shares_cpu(struct file_loop *loop)
{
    int64_t now_ns = rt_clock_ns();
    cpu_set_t cpus;

    if (loop->looked_ns == 0 || now_ns - loop->looked_ns >= LOOK_AT_CPUS_NS) {
        loop->looked_ns = now_ns;
        loop->shares_cpu = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) == 1;
    }
    return loop->shares_cpu;
}

/* After every change of what is written. */
static void file_hold_polling(struct file_loop *loop)
{
    bool holds = loop->written > 0 && file_shares_cpu(loop);

    if (holds == loop->holds_polling)
        return;
    loop->holds_polling = holds;
    if (holds)
        rt_loop_hold_polling(loop->rt_loop);
    else
        rt_loop_release_polling(loop->rt_loop);
}

static bool file_reap(struct file_loop *loop)
{
    struct io_uring_cqe *cqe;
    bool progress = false;

    /* One at a time: the coroutine that is entered may start further requests on this ring. */
    while (io_uring_peek_cqe(&loop->ring, &cqe) == 0) {
        struct file_op *op = io_uring_cqe_get_data(cqe);

        op->result = cqe->res;
        io_uring_cqe_seen(&loop->ring, cqe);
        progress = loop->reaped = true;
        rt_coroutine_enter(op->co);
    }
    if (progress && loop->holds_polling)
        file_hold_polling(loop);
    return progress;
}

/* Each takes an entry, or comes back here. */
static void file_wake_waiters(struct file_loop *loop)
{
    while (loop->waiters && io_uring_sq_space_left(&loop->ring) > 0) {
        struct file_waiter *waiter = loop->waiters;

        loop->waiters = waiter->next;
        if (!loop->waiters)
            loop->last_waiter = &loop->waiters;
        rt_coroutine_enter(waiter->co);
    }
}

static void file_submit(void *opaque)
{
    struct file_loop *loop = opaque;

    while (io_uring_sq_ready(&loop->ring) > 0) {
        int result = io_uring_submit(&loop->ring);

        /* Busy: completions must be taken first; what is left is submitted when they come. */
        if (result == -EINTR)
            continue;
        if (result < 0)
            break;
    }
    /* Page-cache hits complete inside the call. */
    file_reap(loop);
    file_wake_waiters(loop);
    file_hold_polling(loop);
    if (io_uring_sq_ready(&loop->ring) > 0 || loop->waiters)
        rt_bh_schedule(loop->submit_bh);
}

static bool file_poll(void *opaque)
{
    struct file_loop *loop = opaque;

    return io_uring_cq_ready(&loop->ring) > 0 ||
           (IO_URING_READ_ONCE(*loop->ring.sq.kflags) & IORING_SQ_TASKRUN) != 0;
}

static bool file_poll_ready(void *opaque)
{
    struct file_loop *loop = opaque;

    if (io_uring_cq_ready(&loop->ring) == 0)
        io_uring_get_events(&loop->ring);
    return file_reap(loop);
}

static bool file_ready(void *opaque)
{
    struct file_loop *loop = opaque;
    bool reaped;

    (void)file_poll_ready(loop);
    /* What made the descriptor ready may have been taken by polling, or when it was submitted, before the monitor told of
     * it: nothing was left unread. */
    reaped = loop->reaped;
    loop->reaped = false;
    return reaped;
}

static const struct rt_fd_callbacks file_callbacks = {
    .ready = file_ready,
    .poll = file_poll,
    .poll_ready = file_poll_ready,
};

static void file_wait_for_room_co(struct file_loop *loop)
{
    struct file_waiter waiter = { .co = rt_coroutine_self() };

    *loop->last_waiter = &waiter;
    loop->last_waiter = &waiter.next;
    rt_bh_schedule(loop->submit_bh);
    rt_coroutine_yield();
}

static struct io_uring_sqe *file_sqe_co(struct file_loop *loop)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&loop->ring);

    while (!sqe) {
        /* Busy: a kernel whose completions must be taken first. That is the loop's work, not this coroutine's. */
        if (io_uring_submit(&loop->ring) <= 0)
            file_wait_for_room_co(loop);
        sqe = io_uring_get_sqe(&loop->ring);
    }
    if (io_uring_sq_ready(&loop->ring) == 1)
        rt_bh_schedule(loop->submit_bh);
    return sqe;
}

static int file_wait_co(struct file_loop *loop, struct io_uring_sqe *sqe)
{
    struct file_op op = { .co = rt_coroutine_self() };

    sqe->flags |= loop->sqe_flags;
    io_uring_sqe_set_data(sqe, &op);
    rt_coroutine_yield();
    return op.result;
}

static void iov_skip(struct iovec *iov, int *iov_count, size_t bytes)
{
    int skip = 0;

    while (skip < *iov_count && bytes >= iov[skip].iov_len)
        bytes -= iov[skip++].iov_len;
    *iov_count -= skip;
    memmove(iov, iov + skip, *iov_count * sizeof(*iov));
    if (bytes > 0) {
        iov[0].iov_base = (char *)iov[0].iov_base + bytes;
        iov[0].iov_len -= bytes;
    }
}

static int file_transfer_co(struct file_loop *loop, bool write, uint64_t offset_bytes, const struct iovec *iov,
                            int iov_count)
{
    struct iovec *rest = NULL; /* a copy to advance, once a transfer came back short */
    size_t left = 0;
    int result;

    for (int i = 0; i < iov_count; i++)
        left += iov[i].iov_len;
    for (;;) {
        const struct iovec *now = rest ? rest : iov;
        /* A chain that crosses memory regions can have more pieces than the kernel takes: the rest comes after. */
        int now_count = MIN(iov_count, IOV_MAX);
        struct io_uring_sqe *sqe = file_sqe_co(loop);

        if (iov_count == 1 && write)
            io_uring_prep_write(sqe, loop->fd, now->iov_base, now->iov_len, offset_bytes);
        else if (iov_count == 1)
            io_uring_prep_read(sqe, loop->fd, now->iov_base, now->iov_len, offset_bytes);
        else if (write)
            io_uring_prep_writev(sqe, loop->fd, now, now_count, offset_bytes);
        else
            io_uring_prep_readv(sqe, loop->fd, now, now_count, offset_bytes);
        loop->written += write && !loop->direct;
        result = file_wait_co(loop, sqe);
        loop->written -= write && !loop->direct;
        if (result == -EINTR || result == -EAGAIN)
            continue;
        if (result < 0)
            break;
        if (result == 0) {
            /* The file became shorter than the disk, or nothing fits any more. */
            result = write ? -ENOSPC : -EIO;
            break;
        }
        left -= result;
        offset_bytes += result;
        if (left == 0) {
            result = 0;
            break;
        }
        if (!rest)
            rest = g_memdup2(iov, iov_count * sizeof(*iov));
        iov_skip(rest, &iov_count, result);
    }
    g_free(rest);
    return result;
}

static int file_read_co(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov, int iov_count)
{
    return file_transfer_co((struct file_loop *)context, false, offset_bytes, iov, iov_count);
}

static int file_write_co(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov, int iov_count)
{
    return file_transfer_co((struct file_loop *)context, true, offset_bytes, iov, iov_count);
}

/* After a failed sync the kernel may take for clean what it could not write: the next sync would succeed and the data be gone.
 * Which data cannot be known, so no later flush may succeed. Direct I/O leaves nothing there. */
static int file_flush_co(struct vblk_disk_loop *context)
{
    struct file_loop *loop = (struct file_loop *)context;
    struct file_disk *file = (struct file_disk *)context->disk;
    int result = atomic_load_explicit(&file->sync_error, memory_order_relaxed);

    if (result < 0)
        return result;
    do {
        struct io_uring_sqe *sqe = file_sqe_co(loop);

        io_uring_prep_fsync(sqe, loop->fd, IORING_FSYNC_DATASYNC);
        result = file_wait_co(loop, sqe);
    } while (result == -EINTR || result == -EAGAIN);
    if (result < 0 && !file->direct)
        atomic_store_explicit(&file->sync_error, result, memory_order_relaxed);
    return result;
}

/* ---- ranges: fallocate, which block devices understand, too ---- */

/* @unsupported: that this was found out. -EINVAL: a kernel or a device that does not know the mode; the range is right. */
static int file_fallocate_co(struct file_loop *loop, int mode, uint64_t offset_bytes, uint64_t size_bytes,
                             _Atomic bool *unsupported)
{
    int result;

    if (atomic_load_explicit(unsupported, memory_order_relaxed))
        return -EOPNOTSUPP;
    do {
        struct io_uring_sqe *sqe = file_sqe_co(loop);

        io_uring_prep_fallocate(sqe, loop->fd, mode | FALLOC_FL_KEEP_SIZE, offset_bytes, size_bytes);
        result = file_wait_co(loop, sqe);
    } while (result == -EINTR || result == -EAGAIN);
    if (result == -EOPNOTSUPP || result == -EINVAL || result == -ENOSYS || result == -ENODEV) {
        atomic_store_explicit(unsupported, true, memory_order_relaxed);
        result = -EOPNOTSUPP;
    }
    return result;
}

static int file_discard_co(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes)
{
    struct file_disk *file = (struct file_disk *)context->disk;

    return file_fallocate_co((struct file_loop *)context, FALLOC_FL_PUNCH_HOLE, offset_bytes, size_bytes,
                             &file->no_punch_hole);
}

/* A hole reads as zeros, in files and (the kernel promises it for this mode) in block devices. */
static int file_write_zeroes_co(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes, bool may_unmap)
{
    struct file_disk *file = (struct file_disk *)context->disk;
    int result = -EOPNOTSUPP;

    if (may_unmap)
        result = file_discard_co(context, offset_bytes, size_bytes);
    if (result == -EOPNOTSUPP)
        result = file_fallocate_co((struct file_loop *)context, FALLOC_FL_ZERO_RANGE, offset_bytes, size_bytes,
                                   &file->no_zero_range);
    return result;
}

static int ring_init(struct io_uring *ring)
{
    /* Newest first: completions run when this thread enters the kernel (5.19), then plain (5.1). Deferring them
     * until we ask (DEFER_TASKRUN) is out: the monitor watches the ring's descriptor, and a completion that waits to
     * be asked for does not wake whoever polls that (seen on Linux 6.18: the loop slept on). */
    static const unsigned flags[] = {
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
        0,
    };
    int result = -EINVAL;

    for (unsigned i = 0; i < G_N_ELEMENTS(flags) && result == -EINVAL; i++)
        result = io_uring_queue_init(RING_ENTRIES, ring, flags[i]);
    return result;
}

static int file_attach_loop(struct vblk_disk *disk, struct rt_loop *rt_loop, struct vblk_disk_loop **context_out)
{
    struct file_disk *file = (struct file_disk *)disk;
    struct file_loop *loop = g_new0(struct file_loop, 1);
    int result;

    loop->context.disk = disk;
    loop->last_waiter = &loop->waiters;
    loop->fd = file->fd;
    loop->direct = file->direct;
    loop->rt_loop = rt_loop;
    result = ring_init(&loop->ring);
    if (result < 0)
        goto fail_ring;
    if (io_uring_register_files(&loop->ring, &file->fd, 1) == 0) {
        loop->fd = 0;
        loop->sqe_flags = IOSQE_FIXED_FILE;
    }
    loop->submit_bh = rt_bh_create(rt_loop, file_submit, loop);
    result = -ENOMEM;
    if (loop->submit_bh)
        result = rt_loop_attach_fd(rt_loop, loop->ring.ring_fd, RT_FD_COMPLETION, 0, 0, &file_callbacks, loop,
                                   &loop->handler);
    if (result < 0)
        goto fail_attach;
    *context_out = &loop->context;
    return 0;

fail_attach:
    rt_bh_destroy(loop->submit_bh);
    io_uring_queue_exit(&loop->ring);
fail_ring:
    g_free(loop);
    return result;
}

static void file_detach_loop(struct vblk_disk_loop *context)
{
    struct file_loop *loop = (struct file_loop *)context;

    rt_loop_detach_fd(loop->handler);
    rt_bh_destroy(loop->submit_bh);
    io_uring_queue_exit(&loop->ring);
    g_free(loop);
}

static void file_close(struct vblk_disk *disk)
{
    struct file_disk *file = (struct file_disk *)disk;

    /* The page cache would keep acknowledged writes over our end, but not over the machine's. */
    if (!disk->facts.read_only && file->held && fdatasync(file->fd) != 0)
        vblk_log(NULL, VBLK_LOG_ERROR, "%s: cannot sync at close: %s; the last writes may be lost if this machine fails",
                 file->path, g_strerror(errno));
    /* A ring that ended keeps the file a while: whoever comes next must not find it locked. */
    vblk_disk_file_unlock(file->fd);
    close(file->fd);
    g_free(file->path);
    g_free(file);
}

static int file_size(int fd, const struct stat *st, uint64_t *size_out)
{
    if (S_ISBLK(st->st_mode))
        return ioctl(fd, BLKGETSIZE64, size_out) == 0 ? 0 : -errno;
    *size_out = st->st_size;
    return 0;
}

static int file_resize(struct vblk_disk *disk, uint64_t *size_inout)
{
    struct file_disk *file = (struct file_disk *)disk;
    uint64_t there_bytes;
    struct stat st;
    int error = fstat(file->fd, &st) != 0 ? -errno : file_size(file->fd, &st, &there_bytes);

    if (error < 0)
        return error;
    file->there_bytes = there_bytes;
    if (*size_inout == 0)
        *size_inout = there_bytes;
    /* Smaller: what lies beyond stays in the file, since somebody may have made a mistake. */
    if (*size_inout <= there_bytes)
        return 0;
    if (S_ISBLK(st.st_mode))
        return -ENOSPC;
    if (disk->facts.read_only)
        return -EROFS;
    if (!file->held)
        return -EBUSY;
    if (ftruncate(file->fd, *size_inout) != 0)
        return -errno;
    file->there_bytes = *size_inout;
    return 0;
}

static void warn_unlocked(const char *path, int error)
{
    vblk_log(NULL, VBLK_LOG_WARNING, "%s: cannot be locked against other processes: %s; continuing without", path,
             g_strerror(-error));
}

static int file_hold(struct vblk_disk *disk, bool *changed_out)
{
    struct file_disk *file = (struct file_disk *)disk;
    uint64_t there_bytes;
    struct stat st;
    int error;

    if (file->held)
        return 0;
    error = vblk_disk_file_try_lock(file->fd, disk->facts.read_only);
    if (error == -EAGAIN)
        return error;
    if (error < 0)
        warn_unlocked(file->path, error);
    error = fstat(file->fd, &st) != 0 ? -errno : file_size(file->fd, &st, &there_bytes);
    if (error < 0) {
        vblk_disk_file_unlock(file->fd);
        return error;
    }
    file->held = true;
    /* Compared with what is there and not with the disk's size: one that was made smaller stays so. */
    *changed_out = there_bytes != file->there_bytes;
    return 0;
}

static void file_let_go(struct vblk_disk *disk)
{
    struct file_disk *file = (struct file_disk *)disk;

    vblk_disk_file_unlock(file->fd);
    file->held = false;
}

static const struct vblk_disk_ops file_ops = {
    .close = file_close,
    .attach_loop = file_attach_loop,
    .detach_loop = file_detach_loop,
    .read_co = file_read_co,
    .write_co = file_write_co,
    .flush_co = file_flush_co,
    .discard_co = file_discard_co,
    .write_zeroes_co = file_write_zeroes_co,
    .resize = file_resize,
    .hold = file_hold,
    .let_go = file_let_go,
};

/* What direct I/O wants here: the device's block size; for a file what the file system says (Linux 6.1), else a
 * page, which suits all. */
static uint32_t direct_align(int fd, const struct stat *st)
{
    int block_bytes = 0;

    if (S_ISBLK(st->st_mode) && ioctl(fd, BLKSSZGET, &block_bytes) == 0 && block_bytes > 0)
        return block_bytes;
#ifdef STATX_DIOALIGN
    struct statx stx;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 && (stx.stx_mask & STATX_DIOALIGN) &&
        stx.stx_dio_offset_align > 0)
        return MAX(MAX(stx.stx_dio_offset_align, stx.stx_dio_mem_align), 512);
#endif
    return 4096;
}

/* What is good to know for who lays out a file system. */
static void find_topology(int fd, const struct stat *st, struct vblk_disk_facts *facts)
{
    unsigned value;
    int offset;

    if (S_ISBLK(st->st_mode)) {
        if (ioctl(fd, BLKPBSZGET, &value) == 0)
            facts->physical_block_bytes = value;
        if (ioctl(fd, BLKALIGNOFF, &offset) == 0 && offset > 0)
            facts->alignment_bytes = offset;
        if (ioctl(fd, BLKIOMIN, &value) == 0)
            facts->io_min_bytes = value;
        if (ioctl(fd, BLKIOOPT, &value) == 0)
            facts->io_optimal_bytes = value;
        return;
    }
    /* A file lies in pages of the cache and blocks of its file system; what that says of larger transfers (a network's)
     * is advice, not a block. */
    facts->physical_block_bytes = facts->io_min_bytes = MIN((uint32_t)st->st_blksize, FILE_BLOCK_BYTES_MAX);
    if (st->st_blksize > FILE_BLOCK_BYTES_MAX)
        facts->io_optimal_bytes = st->st_blksize;
}

/* Each loop makes a ring of its own later; that there can be none is better known before anybody connects. */
static int probe_ring(const char *path, char **message_out)
{
    struct io_uring ring;
    const char *hint = "";
    int error = ring_init(&ring);

    if (error == 0) {
        error = io_uring_get_events(&ring); /* making one may be allowed, and using it not */
        io_uring_queue_exit(&ring);
    }
    if (error >= 0)
        return 0;
    if (error == -EPERM || error == -EACCES || error == -ENOSYS)
        hint = " (set kernel.io_uring_disabled to 0, and let the seccomp filter or container allow io_uring_setup, "
               "io_uring_enter and io_uring_register)";
    else if (error == -EMFILE || error == -ENFILE)
        hint = " (more descriptors: ulimit -n)";
    *message_out = g_strdup_printf("%s: a disk in a file needs io_uring, which cannot be had: %s%s", path,
                                   g_strerror(-error), hint);
    return error;
}

int vblk_disk_file_open(const char *path, const struct vblk_disk_options *options, struct vblk_disk **disk_out,
                        char **message_out)
{
    bool direct = options->cache == VBLK_DISK_CACHE_NONE;
    int flags = (options->read_only ? O_RDONLY : O_RDWR) | (direct ? O_DIRECT : 0);
    /* A pipe would keep us waiting for its writer before we see what it is. */
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
    struct file_disk *file;
    uint64_t size_bytes = 0;
    uint32_t align;
    struct stat st;
    int error;

    if (fd < 0) {
        const char *hint = "";

        error = -errno;
        if ((error == -EACCES || error == -EROFS || error == -EPERM) && !options->read_only)
            hint = " (try --read-only)";
        else if (error == -EINVAL && direct)
            hint = " (this file system has no direct I/O: try --cache=writeback)";
        else if (error == -ENOENT)
            hint = " (create it first, for example with truncate -s 1G)";
        *message_out = g_strdup_printf("%s: cannot open disk: %s%s", path, g_strerror(-error), hint);
        return error;
    }
    error = fstat(fd, &st) != 0 ? -errno : 0;
    if (error == 0 && !S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) {
        *message_out = g_strdup_printf("%s: not a disk: neither a file nor a block device", path);
        error = -ENOTBLK;
        goto fail;
    }
    if (error == 0)
        error = file_size(fd, &st, &size_bytes);
    if (error == 0 && fcntl(fd, F_SETFL, flags) != 0)
        error = -errno;
    if (error < 0) {
        *message_out = g_strdup_printf("%s: cannot find the size: %s", path, g_strerror(-error));
        goto fail;
    }
    if (size_bytes == 0 || size_bytes % 512 != 0) {
        *message_out = g_strdup_printf("%s: size of %" G_GUINT64_FORMAT " bytes is not a disk's: it must be a "
                                       "multiple of 512 and not 0 (try truncate -s %%512 on a copy)",
                                       path, size_bytes);
        error = -EINVAL;
        goto fail;
    }
    if (!options->incoming)
        error = vblk_disk_file_lock(fd, options->read_only);
    if (error == -EAGAIN) {
        *message_out = g_strdup_printf("%s: another process has locked this disk: stop it first, or use "
                                       "--read-only on both sides, or --incoming if its guest comes here", path);
        goto fail;
    }
    if (error < 0)
        warn_unlocked(path, error);
    align = direct ? direct_align(fd, &st) : 1;
    if (size_bytes % align != 0) {
        *message_out = g_strdup_printf("%s: size of %" G_GUINT64_FORMAT " bytes is no multiple of the %u that direct "
                                       "I/O needs here (try --cache=writeback)", path, size_bytes, align);
        error = -EINVAL;
        goto fail;
    }
    error = probe_ring(path, message_out);
    if (error < 0)
        goto fail;

    file = g_new0(struct file_disk, 1);
    file->fd = fd;
    file->path = g_strdup(path);
    file->direct = direct;
    file->held = !options->incoming;
    file->there_bytes = size_bytes;
    file->disk.ops = &file_ops;
    file->disk.facts = (struct vblk_disk_facts){
        .size_bytes = size_bytes, .align_bytes = align, .backend = "file", .read_only = options->read_only
    };
    if (!options->read_only)
        vblk_disk_file_find_discard(fd, &st, &file->disk);
    find_topology(fd, &st, &file->disk.facts);
    *disk_out = &file->disk;
    return 0;

fail:
    close(fd);
    return error;
}
