/*
 * What watches descriptors for a loop, behind a few functions, so that epoll is one way among others.
 *
 * Level-triggered: a descriptor that stays readable is reported by every wait.
 */
#ifndef RUNTIME_MONITOR_H
#define RUNTIME_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

struct rt_handler;

/** The most that one wait reports: a bound on the work of a pass. Who is left out comes first next time. */
#define MONITOR_READY_MAX 64

struct monitor;

struct monitor_ops {
    const char *name; /**< for rt_process:info */

    /** add() and remove() by another thread take effect when the loop's thread waits next: notify the loop. */
    bool changes_wait_for_loop;

    /** A wait with timeout 0 costs no system call unless there is something. */
    bool looks_in_memory;

    /** Whether this kernel has it: 0 or -errno. -EOPNOTSUPP: it lacks something. */
    int (*probe)(void);

    /** 0 and a monitor, or -errno. */
    int (*create)(struct monitor **monitor_out);
    void (*destroy)(struct monitor *monitor);

    /** The calling thread is the loop's from now on. 0 or -errno. NULL: all the same to it. */
    int (*bind)(struct monitor *monitor);

    /* Thread: any, under the loop's registry lock, also while another thread waits. 0 or -errno. Removal holds at
     * once: a later wait does not return the handler. */
    int (*add)(struct monitor *monitor, struct rt_handler *handler);
    int (*remove)(struct monitor *monitor, struct rt_handler *handler);

    /* Report nothing for this handler, without forgetting it; and go on.
     * Thread: the loop's, under the lock. */
    int (*pause)(struct monitor *monitor, struct rt_handler *handler);
    int (*resume)(struct monitor *monitor, struct rt_handler *handler);

    /**
     * Wait until something is readable.
     *
     * Shape:     ready[MONITOR_READY_MAX]; entries [0, return) are written. An entry may have been removed
     *            meanwhile: the caller looks, and frees handlers only between passes.
     * Units:     timeout_ns: 0 returns at once, -1 waits without limit. A timeout is never over early.
     * Returns:   how many, or -errno; -EINTR, and 0 before the timeout, are for the caller to treat as none.
     * Thread:    the loop's.
     */
    int (*wait)(struct monitor *monitor, struct rt_handler **ready, int64_t timeout_ns);
};

extern const struct monitor_ops monitor_epoll, monitor_io_uring;

#endif
