/**
 * The event loop: file descriptors, work from other threads, timers; one per thread.
 *
 * While it polls nobody needs to write its eventfd: notifiers leave a flag in memory (`notified`) and write
 * the eventfd only if the loop says that it may block (`notify_me`). runtime/README.md tells the protocol.
 *
 *     struct rt_loop *loop;
 *     rt_loop_create("main", &loop);
 *     rt_loop_bind(loop);                 // this thread runs it
 *     rt_loop_post(loop, fn, opaque);     // any thread
 *     while (!done) rt_loop_pass(loop, true);
 */
#ifndef RT_LOOP_H
#define RT_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#define RT_FOREVER INT64_C(-1)
/** For rt_loop_set_poll(). */
#define RT_WHILE_ATTACHED INT64_C(-2)

struct rt_loop;
struct rt_handler;
struct rt_bh;

/** Values are those of rt_loop:fd_attach. */
enum rt_fd_role {
    RT_FD_OTHER = 0,
    RT_FD_WAKEUP = 1,
    RT_FD_HOST_NOTIFIER = 2,
    RT_FD_VHOST_USER_SOCKET = 3,
    RT_FD_CONTROL = 4,
    RT_FD_COMPLETION = 5,
};

/* ---- policies ---- */

/** What watches descriptors. */
enum rt_loop_monitor { RT_LOOP_MONITOR_EPOLL, RT_LOOP_MONITOR_IO_URING };

/** When a notifier writes the loop's eventfd: only while the loop may block, or also while it polls (what was done
 * before; for comparison). */
enum rt_notify_policy { RT_NOTIFY_BLOCKING_ONLY, RT_NOTIFY_ALWAYS };

/** Mistakes in the wake-up protocol, to be made on purpose: whoever tests that they are found needs them (loop/fault.c).
 * Loops without them pay a branch for it, outside of what requests do. */
enum rt_loop_fault {
    RT_LOOP_FAULT_SUPPRESS_BEFORE_PUBLISH = 1 << 0, /**< the notifier reads notify_me first of all */
    RT_LOOP_FAULT_NO_RECHECK = 1 << 1,              /**< the loop blocks without another look at `notified` */
};

/** Zeroed: the defaults. */
struct rt_loop_policies {
    enum rt_loop_monitor monitor;
    enum rt_notify_policy notify;
    unsigned faults; /**< enum rt_loop_fault bits; with RT_NOTIFY_BLOCKING_ONLY only */
};

/**
 * Choose for all loops of this process that are made from now on.
 *
 * Returns:   0, or, with the old choice still in force: -EBUSY: a loop exists; -EINVAL; what rt_loop_monitor_hint()
 *            explains: this kernel has no such monitor, or forbids it.
 * Thread:    any, while no other thread makes loops.
 */
int rt_loop_configure(const struct rt_loop_policies *policies);

/** Why there can be no io_uring monitor, and what to do: for the -errno of rt_loop_configure(). */
const char *rt_loop_monitor_hint(int error);

/** The choice in force, as in vblkd's options: "epoll", "io_uring"; "blocking-only", "always". Thread: any. */
const char *rt_loop_monitor_name(void);
const char *rt_notify_policy_name(void);

/* ---- the loop ---- */

/** 0 or -errno (epoll, ring or eventfd could not be made). Thread: any. Trace: rt_loop:create. */
int rt_loop_create(const char *name, struct rt_loop **loop_out);

/**
 * Destroy a loop that no thread runs, or the calling thread does. NULL is fine.
 *
 * Thread:    any, when no other thread is inside a call on this loop: also not on the way out of one whose work
 *            has run already. A worker that posts its last result must be joined first.
 * Ownership: handlers that are still attached are detached; what was posted and not run is freed, not run.
 *            Coroutines that were woken and did not run are never continued: let them end before.
 * Trace:     rt_loop:destroy.
 */
void rt_loop_destroy(struct rt_loop *loop);

/** The calling thread, and no other, runs this loop; once and for all. Trace: rt_loop:create again, with the thread's id. */
void rt_loop_bind(struct rt_loop *loop);

/** The loop bound to this thread, or NULL. */
struct rt_loop *rt_loop_current(void);

const char *rt_loop_name(const struct rt_loop *loop);
uint32_t rt_loop_id(const struct rt_loop *loop);

/**
 * One pass: poll or wait, accept, dispatch handlers, run published work, run expired timers. What these queue is
 * left to the next pass, and what is more than a pass runs (64 reported descriptors, 256 of each kind of work) comes
 * first in it.
 *
 * Returns:   whether anything made progress. With @may_block it returns after the first progress or notify.
 * Thread:    the loop's. May nest (a callback that waits for something), not from inside a coroutine, nor from
 *            poll, poll_begin and poll_end. A nested pass goes on with what the outer one had not yet dispatched.
 *            Handlers whose callback is on the stack are left alone: callbacks of one handler do not nest, so a
 *            callback must not wait for its own descriptor.
 * Trace:     rt_loop:poll_begin, poll_end, poll_adjust, notify_me, wait_begin, wait_end, notify_accept,
 *            fd_dispatch, work_run, hog.
 */
bool rt_loop_pass(struct rt_loop *loop, bool may_block);

/** Run passes until rt_loop_quit(). Quit is sticky and may come from any thread; it does not wait for posted work. */
void rt_loop_run(struct rt_loop *loop);
void rt_loop_quit(struct rt_loop *loop);

/* ---- file descriptors ---- */

/**
 * What to do with a descriptor. poll and poll_ready come together or not at all.
 *
 * ready:      the descriptor is readable. Returns whether something was consumed (false: EAGAIN).
 * poll:       looks in memory whether there is work, without system calls and side effects. Now and then it is called
 *             outside of a phase, too.
 * poll_ready: poll said yes; do the work. Returns whether something was consumed.
 * poll_begin, poll_end: (may be NULL) busy polling starts or stops for this handler: e.g. turn the driver's
 *             notifications off and on. poll_end returns whether work slipped in meanwhile: then the loop
 *             calls poll_ready instead of blocking. They enclose a phase of many passes: it ends when the handler's
 *             polling window has run out or the loop is about to block. One that is detached inside a phase gets
 *             poll_end first, in the thread that detaches, and what slipped in is then for its owner to find.
 */
struct rt_fd_callbacks {
    bool (*ready)(void *opaque);
    bool (*poll)(void *opaque);
    bool (*poll_ready)(void *opaque);
    void (*poll_begin)(void *opaque);
    bool (*poll_end)(void *opaque);
};

/**
 * Watch @fd for reading in @loop.
 *
 * Returns:   0 and the handler, or -errno of the monitor: -EBADF, -EPERM (not a descriptor that can be waited for,
 *            such as a regular file), -ENOMEM, -EEXIST (this loop watches it already; io_uring does not notice).
 *            Level-triggered.
 * Thread:    any. Callbacks run in the loop's thread, perhaps before this returns.
 * Ownership: the handler belongs to the loop until rt_loop_detach_fd(); the fd stays the caller's, who must
 *            detach *before* closing it: a closed descriptor can stay in the monitor for ever (see README). With
 *            io_uring the kernel holds the file until the loop's thread has looked after the detach.
 * Trace:     rt_loop:fd_attach, under the loop's registry lock, before the first dispatch.
 */
int rt_loop_attach_fd(struct rt_loop *loop, int fd, enum rt_fd_role role, uint32_t device_id,
                      uint16_t queue_index, const struct rt_fd_callbacks *callbacks, void *opaque,
                      struct rt_handler **handler_out);

/**
 * Stop watching. When it returns no callback of this handler runs any more and none will, unless the caller
 * *is* such a callback (or a pass nested in it). The handler is freed; once is enough.
 *
 * Thread:    any. In the loop's thread it never waits. In another thread it waits for a callback in progress:
 *            hold no lock that this callback takes, and do not let it wait for you (rt_loop_call() from inside
 *            the callback to a thread that detaches it is a deadlock). Costs some microseconds there.
 * Trace:     rt_loop:fd_detach, under the loop's registry lock, when nothing runs any more.
 */
void rt_loop_detach_fd(struct rt_handler *handler);

uint64_t rt_handler_id(const struct rt_handler *handler);

/* ---- work from any thread ---- */

/**
 * Run fn(opaque) once in the loop's thread, in the order of posts.
 *
 * Returns:   0 or -ENOMEM.
 * Thread:    any.
 * Trace:     rt_loop:publish (kind bottom_half) and notify; nothing in the loop's own thread, which need not be woken.
 */
int rt_loop_post(struct rt_loop *loop, void (*fn)(void *opaque), void *opaque);

/**
 * Run fn(opaque) in the loop's thread and return when it is done. In the loop's own thread: a plain call.
 * The loop must be running in another thread, which must not wait for the caller. Blocks the calling thread.
 */
void rt_loop_call(struct rt_loop *loop, void (*fn)(void *opaque), void *opaque);

/** A bottom half: work that is scheduled many times and runs once per pass. Create: NULL without memory. Schedule and
 * cancel: any thread, no allocation; cancelling does not wait for a run in progress. Traced as rt_loop_post(). */
struct rt_bh *rt_bh_create(struct rt_loop *loop, void (*fn)(void *opaque), void *opaque);
void rt_bh_schedule(struct rt_bh *bh);
void rt_bh_cancel(struct rt_bh *bh);
/** Loop's thread (also inside fn), or when its loop does not run. Scheduled, it does not run any more. NULL is fine. */
void rt_bh_destroy(struct rt_bh *bh);

/* ---- timers ---- */

/** CLOCK_MONOTONIC now. */
int64_t rt_clock_ns(void);

struct rt_timer;
/** NULL without memory. Thread: any. */
struct rt_timer *rt_timer_create(struct rt_loop *loop, void (*fn)(void *opaque), void *opaque);
/**
 * Run fn(opaque) once, in the loop's thread, when rt_clock_ns() has reached @deadline_ns; an armed timer is moved. Never
 * early; equal deadlines in the order of arming.
 *
 * Thread:    any. Does not allocate. From another thread, if it is the earliest now: rt_loop:publish (kind timer), notify;
 *            behind an earlier one the loop wakes up in time anyway.
 */
void rt_timer_arm(struct rt_timer *timer, int64_t deadline_ns);
/** Thread: any; does not wait for a run in progress. */
void rt_timer_cancel(struct rt_timer *timer);
/** Loop's thread (also inside fn), or when its loop does not run, but before the loop is destroyed. NULL is fine. */
void rt_timer_destroy(struct rt_timer *timer);

/* ---- polling and statistics ---- */

/**
 * Adaptive busy polling: each handler's window grows from 0 towards max_ns while polling it pays and shrinks when not.
 * 0 turns it off (default). RT_FOREVER never blocks: a core of its own; RT_WHILE_ATTACHED: for as long as somebody is
 * attached who can be polled. While some are polled the others are not
 * forgotten: descriptors are looked at every 100 microseconds (io_uring: all the time), and each microsecond one of the
 * handlers that could be polled. Thread: any. Trace: rt_loop:poll_adjust.
 */
void rt_loop_set_poll(struct rt_loop *loop, int64_t max_ns);

/**
 * While somebody holds it, the loop sleeps instead of polling: what it waits for is the work of a thread that needs this
 * thread's processor, so polling would only be in its way. Held and released in pairs; nothing changes under RT_FOREVER and
 * RT_WHILE_ATTACHED. Thread: the loop's.
 */
void rt_loop_hold_polling(struct rt_loop *loop);
void rt_loop_release_polling(struct rt_loop *loop);

/** A handler or a piece of work that holds the loop longer is traced as rt_loop:hog. Default 100 ms. Measured with the
 * kernel's coarse clock (a tick is some milliseconds) where the limit is ten ticks or more. Thread: any. */
void rt_loop_set_hog_limit(struct rt_loop *loop, int64_t limit_ns);

/** Running totals; busy + poll + wait = wall time since bind, including an open wait. Fields of rt_loop:sample, and
 * event_reads, the loop's share of what notifies cost. */
struct rt_loop_stats {
    uint64_t passes, dispatches, idle_dispatches, notifies, event_writes, event_writes_while_polling, event_reads;
    uint64_t polls, polls_useful, busy_ns, poll_ns, wait_ns;
};

/** No total ever goes back. Thread: any, also while the loop blocks; never wakes it. Costs some microseconds. */
void rt_loop_stats(struct rt_loop *loop, struct rt_loop_stats *stats_out);

/** Visit every loop, newest first. Thread: any; takes the lock of their list, so the visitor makes and ends no loops. */
void rt_loop_each(void (*visit)(struct rt_loop *loop, void *opaque), void *opaque);

/** What rt_loop_set_poll() said last. Thread: any. */
int64_t rt_loop_poll_max_ns(const struct rt_loop *loop);
/** The kernel's id of the thread that runs it; 0: none yet. Thread: any. */
int32_t rt_loop_thread_id(const struct rt_loop *loop);

/** One watched descriptor. Totals since it was attached. */
struct rt_handler_stats {
    uint64_t handler_id;
    int fd;
    enum rt_fd_role role;
    uint32_t device_id;
    uint16_t queue_index;
    bool can_poll;
    uint64_t dispatches;       /**< of both kinds */
    uint64_t idle_dispatches;  /**< that found nothing */
    uint64_t poll_dispatches;  /**< because polling said that there is work */
};

/**
 * Visit what @loop watches, newest first.
 *
 * Thread:    any; never wakes the loop. Takes its registry lock: an attach or a detach waits meanwhile, and the visitor
 *            makes neither.
 */
void rt_loop_each_handler(struct rt_loop *loop, void (*visit)(const struct rt_handler_stats *stats, void *opaque),
                          void *opaque);

/**
 * Emit what exists for a baseline: rt_loop:create, fd_attach, state, sample of every loop (under each
 * registry lock). Called by the sampler thread; wakes nobody.
 */
void rt_loop_trace_baseline(void);
/** Emit rt_loop:sample of every loop. The same rules. */
void rt_loop_trace_samples(void);

#endif
