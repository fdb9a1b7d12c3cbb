/**
 * Eventfds that are shared with a front end, which may be hostile: reading and writing them must not hang a thread
 * that others depend on.
 *
 * O_NONBLOCK belongs to what both sides share, so a front end can take it away. A read asks not to wait by itself
 * (RWF_NOWAIT). A write cannot ask (eventfds refuse it), and blocks when the front end has filled the counter: the
 * writer therefore says that it is in a write, and the sampler, which looks once a second, empties the counter of one
 * that is in the same write for the second time.
 *
 *     if (vblk_event_write(&guard, call_fd) < 0)  ...  // it had to be freed: use this descriptor no more
 */
#ifndef VBLK_EVENT_H
#define VBLK_EVENT_H

#include <stdatomic.h>
#include <stdint.h>

/** One a thread that writes. All zero to begin with. */
struct vblk_event_guard {
    _Atomic uint32_t sequence; /**< odd: in a write. ORDER event.guard */
    _Atomic int fd;            /**< of that write */
    _Atomic uint32_t freed;    /**< the sequence of the write that the sampler freed */
    uint32_t seen;             /**< the sampler's: odd sequence at its last look */
};

/** Take what is there. Returns 0, -EAGAIN (nothing), or -errno (no eventfd, or nobody can write to it any more). */
int vblk_event_read(int fd);

/**
 * Add 1. Returns 0, also when the counter is full and the descriptor does not block: its reader has something to read
 * anyway. -ETIMEDOUT: it blocked until the sampler emptied it. Thread: the guard's.
 */
int vblk_event_write(struct vblk_event_guard *guard, int fd);

/** Thread: the sampler, once a second, while nobody can close the descriptor of a write in progress. */
void vblk_event_guard_look(struct vblk_event_guard *guard);

#endif
