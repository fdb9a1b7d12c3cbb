#include "device/event.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * ORDER event.guard: the sampler acts on the descriptor of a write that is still in progress.
 *   vblk_event_write():      store fd, then sequence odd (release); after the write: sequence even, then load freed
 *   vblk_event_guard_look(): load sequence (acquire), then fd; store freed, then read the descriptor
 * The read wakes the writer, so the writer that was freed sees `freed`: the kernel's lock on the counter is between.
 * A write that ends just before it is freed loses one event of a front end that has 2^64 - 2 pending.
 */

int vblk_event_read(int fd)
{
    uint64_t value;
    struct iovec iov = { .iov_base = &value, .iov_len = sizeof(value) };
    ssize_t got = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);

    if (got < 0 && errno == EOPNOTSUPP)
        got = read(fd, &value, sizeof(value)); /* a kernel before 5.8 */
    if (got == sizeof(value))
        return 0;
    if (got >= 0)
        return -EPROTO;
    return errno == EINTR ? -EAGAIN : -errno;
}

int vblk_event_write(struct vblk_event_guard *guard, int fd)
{
    uint32_t sequence = atomic_load_explicit(&guard->sequence, memory_order_relaxed) + 1;

    atomic_store_explicit(&guard->fd, fd, memory_order_relaxed);
    atomic_store_explicit(&guard->sequence, sequence, memory_order_release); /* ORDER event.guard */
    (void)eventfd_write(fd, 1);
    atomic_store_explicit(&guard->sequence, sequence + 1, memory_order_relaxed);
    return atomic_load_explicit(&guard->freed, memory_order_acquire) == sequence ? -ETIMEDOUT : 0;
}

void vblk_event_guard_look(struct vblk_event_guard *guard)
{
    uint32_t sequence = atomic_load_explicit(&guard->sequence, memory_order_acquire); /* ORDER event.guard */

    if (sequence % 2 == 0) {
        guard->seen = 0;
    } else if (sequence != guard->seen) {
        guard->seen = sequence;
    } else {
        atomic_store_explicit(&guard->freed, sequence, memory_order_release);
        (void)vblk_event_read(atomic_load_explicit(&guard->fd, memory_order_relaxed));
    }
}
