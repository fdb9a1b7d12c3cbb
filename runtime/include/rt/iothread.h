/**
 * A thread that runs one loop.
 *
 *     struct rt_iothread *io;
 *     int error = rt_iothread_create("iothread0", 32000, &io);
 *     rt_loop_post(rt_iothread_loop(io), fn, opaque);
 *     rt_iothread_destroy(io);
 */
#ifndef RT_IOTHREAD_H
#define RT_IOTHREAD_H

#include <stdint.h>

struct rt_iothread;
struct rt_loop;

/**
 * Start the thread; returns when its loop runs.
 *
 * Units:     poll_max_ns as for rt_loop_set_poll().
 * Returns:   0, or -errno of the thread's or loop's creation.
 */
int rt_iothread_create(const char *name, int64_t poll_max_ns, struct rt_iothread **iothread_out);

/** Quit, join and free. What was posted before is run. Thread: any other. NULL is fine. */
void rt_iothread_destroy(struct rt_iothread *iothread);

struct rt_loop *rt_iothread_loop(struct rt_iothread *iothread);

#endif
