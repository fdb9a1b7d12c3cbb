/* One watched descriptor, and the protocol by which another thread takes it out of a running loop. Private to
 * loop/. */
#ifndef RUNTIME_HANDLER_H
#define RUNTIME_HANDLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "loop/asymmetric_fence.h"
#include "rt/loop.h"

/** Why a handler is in the loop's ready queue; both may hold. */
enum { HANDLER_READY_FD = 1, HANDLER_READY_POLL = 2 };

/** How long busy polling may last for one source of work; adapts to what polling it pays. */
struct poll_window {
    int64_t ns;       /**< 0: closed */
    int64_t vain_ns;  /**< how long it has been polled since it last paid, up to since_ns */
    int64_t since_ns; /**< while it is polled */
};

/** Closed: not polled. Resting: when the next phase of polling begins. Active: in the phase, which may last many passes. */
enum poll_place { POLL_CLOSED, POLL_RESTING, POLL_ACTIVE };

struct rt_handler {
    /* Fixed at attach. */
    struct rt_loop *loop;
    uint64_t id;
    int fd;
    enum rt_fd_role role;
    uint32_t device_id;
    uint16_t queue_index;
    struct rt_fd_callbacks callbacks;
    void *opaque;
    struct monitor_watch *watch; /**< the monitor's note of it, if that takes any */

    /* Any thread, atomic. */
    _Atomic bool detached;
    _Atomic bool stuck; /**< the monitor could not let go: its descriptor was closed before the detach */

    /* Written by the loop's thread only, read by a thread that detaches. */
    _Atomic uint32_t running; /**< how many of its callbacks are on the stack */
    _Atomic uint64_t dispatches, idle_dispatches, poll_dispatches; /**< totals, for statistics */

    /* The loop's thread between enter and leave; whoever detaches it, once nothing runs. */
    bool poll_started; /**< poll_begin was called and poll_end was not */

    /* The loop's thread. */
    uint8_t ready;
    bool paused;
    TAILQ_ENTRY(rt_handler) ready_link;  /**< in loop->ready when ready != 0 */
    enum poll_place poll_place;
    uint64_t polled_serial; /**< of the lists that it is in */
    struct poll_window window;
    TAILQ_ENTRY(rt_handler) polled_link; /**< in loop->polled, resting or closed, as poll_place says */

    /* Under the registry lock. */
    LIST_ENTRY(rt_handler) link; /**< in loop->handlers; after the detach in loop->dead or loop->stuck */
    LIST_ENTRY(rt_handler) pollable_link; /**< in loop->pollable, if it is */
};

LIST_HEAD(handler_list, rt_handler);
TAILQ_HEAD(handler_queue, rt_handler);

static inline bool handler_can_poll(const struct rt_handler *handler)
{
    return handler->callbacks.poll != NULL;
}

/*
 * ORDER loop.detach: when rt_loop_detach_fd() returns in another thread, no callback runs and none will.
 *   handler_enter():       store running, light fence, load detached
 *   rt_loop_detach_fd():   store detached, heavy fence, load running
 *   handler_leave():       store running (release), light fence, load detached
 * If weaker: both load the old value, and a callback runs on memory that its owner has freed.
 * The release in handler_leave() pairs with the acquire of the thread that waits: it sees what callbacks
 * wrote.
 * Test: tests/runtime/loop/stress_detach.c.
 */

void handler_wake_detacher(struct rt_handler *handler);

static inline void handler_leave(struct rt_handler *handler)
{
    uint32_t running = atomic_load_explicit(&handler->running, memory_order_relaxed);
    /* ORDER loop.detach, leave side. */
    atomic_store_explicit(&handler->running, running - 1, memory_order_release);
    fence_light();
    if (atomic_load_explicit(&handler->detached, memory_order_relaxed))
        handler_wake_detacher(handler);
}

/** Whether callbacks may be called now; then handler_leave() must follow. Thread: the loop's. */
static inline bool handler_enter(struct rt_handler *handler)
{
    uint32_t running = atomic_load_explicit(&handler->running, memory_order_relaxed);
    /* ORDER loop.detach, enter side. */
    atomic_store_explicit(&handler->running, running + 1, memory_order_relaxed);
    fence_light();
    /* Acquire: also what the attaching thread wrote before. */
    if (!atomic_load_explicit(&handler->detached, memory_order_acquire))
        return true;
    handler_leave(handler);
    return false;
}

/** Callbacks do not nest: in a nested pass a handler whose callback waits for that pass is left alone. */
static inline bool handler_is_running(const struct rt_handler *handler)
{
    return atomic_load_explicit(&handler->running, memory_order_relaxed) != 0;
}

/** Free what was detached. Thread: the loop's, between passes. */
void handler_reap(struct rt_loop *loop);

/** Rebuild the lists of who is polled, if handlers came or went or if @force. Thread: the loop's, while nobody walks
 * through them. */
void handler_refresh_polled(struct rt_loop *loop, bool force);

/** Put it into the ready queue. Thread: the loop's. */
void handler_set_ready(struct rt_handler *handler, uint8_t why);

/** Call poll_ready, and count that. Between handler_enter() and handler_end_dispatch().
 * Returns whether something was consumed. */
bool handler_dispatch_polled(struct rt_handler *handler);

/** Leave it after a callback that may nest passes: they pause its descriptor in the monitor, which nobody else resumes. */
void handler_end_dispatch(struct rt_handler *handler);

/** Run the ready queue empty. Returns whether anybody but the wakeup handler consumed something. */
bool handler_dispatch(struct rt_loop *loop);

/** Forget every handler: the loop is being destroyed. */
void handler_detach_all(struct rt_loop *loop);

#endif
