/*
 * io_uring as a monitor: one poll request for each descriptor, and one system call that submits them and waits.
 *
 * A request is armed until it has reported, and armed again at the next wait: arming looks at the descriptor, so
 * what was left unread is reported again. That makes it level-triggered, at no further system call. The loop's own
 * eventfd is read empty by its handler, so for that one a multishot request is enough, which stays armed.
 *
 * The ring belongs to the loop's thread (SINGLE_ISSUER, and a request dies with the thread that submitted it):
 * other threads leave their changes in a list and notify the loop. So a descriptor that another thread removes
 * stays open in the kernel until the loop has woken up for it.
 *
 *            add (any thread)         wait                    readable
 *   (new) ------------------> changed ----> to_arm --> armed ----------> reported
 *                                             ^                             |
 *                                             +------ next wait, resume ----+
 *   remove: not reported any more at once; freed when the kernel holds no request of it.
 *
 * A descriptor that cannot be polled is reported by every wait, as poll(2) does with POLLNVAL: one that was closed
 * while it is watched is as visible as with epoll, a loop at 100 % that dispatches without progress.
 */
#include "loop/monitor.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "loop/loop_internal.h"

#define SUBMISSION_ENTRIES 256
/* Armed requests report once each, so this many can be ready at a time before the kernel keeps a list. */
#define COMPLETION_ENTRIES 4096

/* Linux 6.1: completions are worked on when the waiting thread asks for them, not in any of its system calls; a
 * flag in memory says whether there are any. */
#define SETUP_FLAGS                                                                                          \
    (IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |                   \
     IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE)
#define FEATURES (IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG)

struct monitor_watch {
    struct rt_handler *handler;
    int fd;
    bool multishot;

    /* The loop's thread. */
    bool armed; /* the kernel has a request that will complete */
    bool paused;
    bool is_to_arm;
    bool removed; /* not reported any more: its handler may be gone */
    bool dying;   /* removed, and freed with the last completion */
    TAILQ_ENTRY(monitor_watch) arm_link;

    /* Under the lock. */
    LIST_ENTRY(monitor_watch) link;
    STAILQ_ENTRY(monitor_watch) added_link, removed_link;
};

STAILQ_HEAD(watch_changes, monitor_watch);

struct monitor {
    struct io_uring ring; /* the loop's thread, once it is bound */

    /* The loop's thread. */
    TAILQ_HEAD(, monitor_watch) to_arm;
    struct watch_changes to_drop;

    _Atomic bool changed; /* something is in added or removed */

    pthread_mutex_t lock; /* after the loop's registry lock */
    /* Under the lock. */
    LIST_HEAD(, monitor_watch) watches;
    struct watch_changes added, removed;
};

static int ring_init(struct io_uring *ring)
{
    struct io_uring_params params = { .flags = SETUP_FLAGS, .cq_entries = COMPLETION_ENTRIES };
    int error = io_uring_queue_init_params(SUBMISSION_ENTRIES, ring, &params);
    if (error == -EINVAL)
        return -EOPNOTSUPP; /* a flag that this kernel does not know */
    if (error)
        return error;
    if ((params.features & FEATURES) == FEATURES)
        return 0;
    io_uring_queue_exit(ring);
    return -EOPNOTSUPP;
}

static int uring_probe(void)
{
    struct io_uring ring;
    int error = ring_init(&ring);
    if (error)
        return error;
    /* Making a ring may be allowed, and using it not. */
    error = io_uring_register((unsigned)ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
    if (!error)
        error = io_uring_get_events(&ring);
    io_uring_queue_exit(&ring);
    return error < 0 ? error : 0;
}

static int uring_create(struct monitor **monitor_out)
{
    struct monitor *monitor = calloc(1, sizeof(*monitor));
    if (!monitor)
        return -ENOMEM;
    int error = ring_init(&monitor->ring);
    if (error) {
        free(monitor);
        return error;
    }
    TAILQ_INIT(&monitor->to_arm);
    LIST_INIT(&monitor->watches);
    STAILQ_INIT(&monitor->to_drop);
    STAILQ_INIT(&monitor->added);
    STAILQ_INIT(&monitor->removed);
    pthread_mutex_init(&monitor->lock, NULL);
    *monitor_out = monitor;
    return 0;
}

static void uring_destroy(struct monitor *monitor)
{
    if (!monitor)
        return;
    io_uring_queue_exit(&monitor->ring);
    while (!LIST_EMPTY(&monitor->watches)) {
        struct monitor_watch *watch = LIST_FIRST(&monitor->watches);
        LIST_REMOVE(watch, link);
        free(watch);
    }
    pthread_mutex_destroy(&monitor->lock);
    free(monitor);
}

static int uring_bind(struct monitor *monitor)
{
    /* liburing 2.3 declares io_uring_enable_rings(), and does not export it. */
    return io_uring_register((unsigned)monitor->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

/* ---- changes, from any thread ---- */

/* What epoll refuses at once; the kernel would tell us only when the loop's thread has armed it. */
static int check_pollable(int fd)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    return S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode) ? -EPERM : 0;
}

static int uring_add(struct monitor *monitor, struct rt_handler *handler)
{
    int error = check_pollable(handler->fd);
    if (error)
        return error;
    struct monitor_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return -ENOMEM;
    watch->handler = handler;
    watch->fd = handler->fd;
    watch->multishot = handler->fd == handler->loop->event_fd;
    handler->watch = watch;
    pthread_mutex_lock(&monitor->lock);
    LIST_INSERT_HEAD(&monitor->watches, watch, link);
    STAILQ_INSERT_TAIL(&monitor->added, watch, added_link);
    atomic_store_explicit(&monitor->changed, true, memory_order_relaxed);
    pthread_mutex_unlock(&monitor->lock);
    return 0;
}

/* The next wait takes it out before it looks at what is ready; one that is in progress may still report it. */
static int uring_remove(struct monitor *monitor, struct rt_handler *handler)
{
    struct monitor_watch *watch = handler->watch;
    pthread_mutex_lock(&monitor->lock);
    STAILQ_INSERT_TAIL(&monitor->removed, watch, removed_link);
    atomic_store_explicit(&monitor->changed, true, memory_order_relaxed);
    pthread_mutex_unlock(&monitor->lock);
    return 0;
}

/* ---- the loop's thread ---- */

static void set_to_arm(struct monitor *monitor, struct monitor_watch *watch)
{
    if (watch->is_to_arm || watch->armed || watch->paused || watch->removed)
        return;
    watch->is_to_arm = true;
    TAILQ_INSERT_TAIL(&monitor->to_arm, watch, arm_link);
}

static void unset_to_arm(struct monitor *monitor, struct monitor_watch *watch)
{
    if (!watch->is_to_arm)
        return;
    watch->is_to_arm = false;
    TAILQ_REMOVE(&monitor->to_arm, watch, arm_link);
}

/* If it is armed, the request reports what it may report, and resume looks anew. */
static int uring_pause(struct monitor *monitor, struct rt_handler *handler)
{
    handler->watch->paused = true;
    unset_to_arm(monitor, handler->watch);
    return 0;
}

static int uring_resume(struct monitor *monitor, struct rt_handler *handler)
{
    handler->watch->paused = false;
    set_to_arm(monitor, handler->watch);
    return 0;
}

static void watch_free(struct monitor *monitor, struct monitor_watch *watch)
{
    pthread_mutex_lock(&monitor->lock);
    LIST_REMOVE(watch, link);
    pthread_mutex_unlock(&monitor->lock);
    free(watch);
}

/* NULL: the kernel takes nothing now. */
static struct io_uring_sqe *get_sqe(struct monitor *monitor)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&monitor->ring);
    if (!sqe && io_uring_submit(&monitor->ring) > 0)
        sqe = io_uring_get_sqe(&monitor->ring);
    return sqe;
}

static void take_changes(struct monitor *monitor)
{
    struct watch_changes added = STAILQ_HEAD_INITIALIZER(added), removed = STAILQ_HEAD_INITIALIZER(removed);
    /* One that comes now is followed by a notify. */
    if (!atomic_load_explicit(&monitor->changed, memory_order_relaxed))
        return;
    pthread_mutex_lock(&monitor->lock);
    STAILQ_CONCAT(&added, &monitor->added);
    STAILQ_CONCAT(&removed, &monitor->removed);
    atomic_store_explicit(&monitor->changed, false, memory_order_relaxed);
    pthread_mutex_unlock(&monitor->lock);

    struct monitor_watch *watch;
    STAILQ_FOREACH(watch, &added, added_link)
        set_to_arm(monitor, watch);
    STAILQ_FOREACH(watch, &removed, removed_link)
        watch->removed = true; /* also if the kernel takes no cancellation now */
    STAILQ_CONCAT(&monitor->to_drop, &removed);
}

/* Let go of what was removed. Returns whether the kernel took it all. */
static bool drop_removed(struct monitor *monitor)
{
    while (!STAILQ_EMPTY(&monitor->to_drop)) {
        struct monitor_watch *watch = STAILQ_FIRST(&monitor->to_drop);
        struct io_uring_sqe *sqe = watch->armed ? get_sqe(monitor) : NULL;
        if (watch->armed && !sqe)
            return false;
        STAILQ_REMOVE_HEAD(&monitor->to_drop, removed_link);
        unset_to_arm(monitor, watch);
        if (!watch->armed) {
            watch_free(monitor, watch);
            continue;
        }
        watch->dying = true;
        io_uring_prep_poll_remove(sqe, (uintptr_t)watch);
        /* Whether it cancels the request or comes too late: that one's own completion is what counts. */
        io_uring_sqe_set_data(sqe, NULL);
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    }
    return true;
}

/* Returns whether the kernel took them all. */
static bool arm_all(struct monitor *monitor)
{
    while (!TAILQ_EMPTY(&monitor->to_arm)) {
        struct monitor_watch *watch = TAILQ_FIRST(&monitor->to_arm);
        struct io_uring_sqe *sqe = get_sqe(monitor);
        if (!sqe)
            return false;
        unset_to_arm(monitor, watch);
        watch->armed = true;
        if (watch->multishot)
            io_uring_prep_poll_multishot(sqe, watch->fd, POLLIN);
        else
            io_uring_prep_poll_add(sqe, watch->fd, POLLIN);
        io_uring_sqe_set_data(sqe, watch);
    }
    return true;
}

/* Returns whom to report, or NULL. */
static struct rt_handler *complete(struct monitor *monitor, const struct io_uring_cqe *cqe)
{
    struct monitor_watch *watch = io_uring_cqe_get_data(cqe);
    if (!watch)
        return NULL; /* a cancellation that came too late */
    watch->armed = (cqe->flags & IORING_CQE_F_MORE) != 0;
    if (watch->removed) {
        if (watch->dying && !watch->armed)
            watch_free(monitor, watch);
        return NULL;
    }
    set_to_arm(monitor, watch);
    /* Cancelled by nobody here: armed again, it will say. Other errors are told by being ready. */
    return watch->paused || cqe->res == -ECANCELED ? NULL : watch->handler;
}

static int reap(struct monitor *monitor, struct rt_handler **ready)
{
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;
    int count = 0;
    io_uring_for_each_cqe(&monitor->ring, head, cqe)
    {
        if (count == MONITOR_READY_MAX)
            break; /* the ring is first in, first out: they come first next time */
        struct rt_handler *handler = complete(monitor, cqe);
        if (handler)
            ready[count++] = handler;
        seen++;
    }
    io_uring_cq_advance(&monitor->ring, seen);
    return count;
}

/* Whether entering the kernel without waiting would change anything. */
static bool has_kernel_work(struct monitor *monitor)
{
    unsigned flags = IO_URING_READ_ONCE(*monitor->ring.sq.kflags);
    return io_uring_sq_ready(&monitor->ring) > 0 || (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

/* Submit, and wait for a completion if there is none. */
static int enter(struct monitor *monitor, int64_t timeout_ns)
{
    struct io_uring *ring = &monitor->ring;
    struct io_uring_cqe *cqe;
    if (timeout_ns == 0 || io_uring_cq_ready(ring) > 0)
        return has_kernel_work(monitor) ? io_uring_submit_and_get_events(ring) : 0;
    if (timeout_ns < 0)
        return io_uring_submit_and_wait(ring, 1);
    struct __kernel_timespec timeout = { .tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000 };
    return io_uring_submit_and_wait_timeout(ring, &cqe, 1, &timeout, NULL);
}

static int uring_wait(struct monitor *monitor, struct rt_handler **ready, int64_t timeout_ns)
{
    take_changes(monitor);
    /* A request that is cancelled completes, too, and ends the wait: one pass more for each detach. */
    if (!drop_removed(monitor) || !arm_all(monitor))
        timeout_ns = 0;
    int result = enter(monitor, timeout_ns);
    int count = reap(monitor, ready);
    return count == 0 && result == -EINTR ? -EINTR : count;
}

const struct monitor_ops monitor_io_uring = {
    .name = "io_uring",
    .changes_wait_for_loop = true,
    .looks_in_memory = true,
    .probe = uring_probe,
    .create = uring_create,
    .destroy = uring_destroy,
    .bind = uring_bind,
    .add = uring_add,
    .remove = uring_remove,
    .pause = uring_pause,
    .resume = uring_resume,
    .wait = uring_wait,
};
