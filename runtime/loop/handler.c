#include "loop/handler.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "loop/loop_internal.h"
#include "tracepoints/loop.h"

/* A sleeping loop is woken to free what others detached when this many have come together. */
#define DEAD_HANDLERS_MAX 64

static uint64_t next_handler_id(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

/* Under the registry lock. */
static void polled_changed_locked(const struct rt_handler *handler)
{
    if (handler_can_poll(handler))
        atomic_fetch_add_explicit(&handler->loop->handler_generation, 1, memory_order_relaxed);
}

int rt_loop_attach_fd(struct rt_loop *loop, int fd, enum rt_fd_role role, uint32_t device_id,
                      uint16_t queue_index, const struct rt_fd_callbacks *callbacks, void *opaque,
                      struct rt_handler **handler_out)
{
    assert(callbacks->ready && !callbacks->poll == !callbacks->poll_ready);
    struct rt_handler *handler = calloc(1, sizeof(*handler));
    if (!handler)
        return -ENOMEM;
    handler->loop = loop;
    handler->id = next_handler_id();
    handler->fd = fd;
    handler->role = role;
    handler->device_id = device_id;
    handler->queue_index = queue_index;
    handler->callbacks = *callbacks;
    handler->opaque = opaque;
    /* The loop's thread gets it from the kernel or from the registry and loads this in handler_enter(). */
    atomic_store_explicit(&handler->detached, false, memory_order_release);

    pthread_mutex_lock(&loop->registry_lock);
    /* Before the monitor can report it, so that no dispatch is traced before its attach. */
    lttng_ust_tracepoint(rt_loop, fd_attach, loop->id, handler->id, fd, role, device_id, queue_index);
    int error = loop->monitor_ops->add(loop->monitor, handler);
    if (error) {
        lttng_ust_tracepoint(rt_loop, fd_detach, loop->id, handler->id, fd);
        pthread_mutex_unlock(&loop->registry_lock);
        free(handler);
        return error;
    }
    LIST_INSERT_HEAD(&loop->handlers, handler, link);
    if (handler_can_poll(handler))
        LIST_INSERT_HEAD(&loop->pollable, handler, pollable_link);
    polled_changed_locked(handler);
    /* Before the unlock: from here on another thread may detach it. */
    *handler_out = handler;
    pthread_mutex_unlock(&loop->registry_lock);
    /* The loop's own eventfd comes before there is anybody to notify. */
    /* And one that polls while somebody is attached sleeps until then. */
    bool wakes_up = handler_can_poll(handler) &&
                    atomic_load_explicit(&loop->poll_max_ns, memory_order_relaxed) == RT_WHILE_ATTACHED;
    if ((loop->monitor_ops->changes_wait_for_loop || wakes_up) && fd != loop->event_fd && !loop_is_own(loop))
        loop_nudge(loop);
    return 0;
}

void handler_wake_detacher(struct rt_handler *handler)
{
    struct rt_loop *loop = handler->loop;
    pthread_mutex_lock(&loop->registry_lock);
    pthread_cond_broadcast(&loop->callback_done);
    pthread_mutex_unlock(&loop->registry_lock);
}

/* No callback runs or will run, or the caller is in the loop's thread. */
static void end_polling(struct rt_handler *handler)
{
    if (!handler->poll_started)
        return;
    handler->poll_started = false;
    if (handler->callbacks.poll_end)
        (void)handler->callbacks.poll_end(handler->opaque); /* what slipped in is for its owner to find */
}

void rt_loop_detach_fd(struct rt_handler *handler)
{
    struct rt_loop *loop = handler->loop;
    bool own = loop_is_own(loop);

    pthread_mutex_lock(&loop->registry_lock);
    int error = loop->monitor_ops->remove(loop->monitor, handler);
    atomic_store_explicit(&handler->stuck, error != 0, memory_order_relaxed);
    /* ORDER loop.detach, detach side. */
    atomic_store_explicit(&handler->detached, true, memory_order_release);
    polled_changed_locked(handler);
    pthread_mutex_unlock(&loop->registry_lock);

    if (own) {
        if (handler->ready) {
            TAILQ_REMOVE(&loop->ready, handler, ready_link);
            handler->ready = 0;
        }
    } else {
        fence_heavy();
        pthread_mutex_lock(&loop->registry_lock);
        /* ORDER loop.detach, waiter's side. */
        while (atomic_load_explicit(&handler->running, memory_order_acquire) != 0)
            pthread_cond_wait(&loop->callback_done, &loop->registry_lock);
        pthread_mutex_unlock(&loop->registry_lock);
    }
    end_polling(handler);

    pthread_mutex_lock(&loop->registry_lock);
    lttng_ust_tracepoint(rt_loop, fd_detach, loop->id, handler->id, handler->fd);
    LIST_REMOVE(handler, link);
    if (handler_can_poll(handler))
        LIST_REMOVE(handler, pollable_link);
    LIST_INSERT_HEAD(error ? &loop->stuck : &loop->dead, handler, link);
    uint32_t dead_count = atomic_load_explicit(&loop->dead_count, memory_order_relaxed) + !error;
    atomic_store_explicit(&loop->dead_count, dead_count, memory_order_relaxed);
    pthread_mutex_unlock(&loop->registry_lock);

    if (!own && !error && (loop->monitor_ops->changes_wait_for_loop || dead_count % DEAD_HANDLERS_MAX == 0))
        loop_nudge(loop);
}

uint64_t rt_handler_id(const struct rt_handler *handler)
{
    return handler->id;
}

static void refresh_polled_locked(struct rt_loop *loop)
{
    polling_forget_all(loop);
    struct rt_handler *handler;
    LIST_FOREACH(handler, &loop->pollable, pollable_link)
    {
        if (!atomic_load_explicit(&handler->detached, memory_order_relaxed))
            polling_remember(handler);
    }
    loop->polled_generation = atomic_load_explicit(&loop->handler_generation, memory_order_relaxed);
}

void handler_refresh_polled(struct rt_loop *loop, bool force)
{
    if (!force &&
        atomic_load_explicit(&loop->handler_generation, memory_order_relaxed) == loop->polled_generation)
        return;
    pthread_mutex_lock(&loop->registry_lock);
    refresh_polled_locked(loop);
    pthread_mutex_unlock(&loop->registry_lock);
}

static void free_all(struct handler_list *list)
{
    while (!LIST_EMPTY(list)) {
        struct rt_handler *handler = LIST_FIRST(list);
        LIST_REMOVE(handler, link);
        free(handler);
    }
}

void handler_reap(struct rt_loop *loop)
{
    if (atomic_load_explicit(&loop->dead_count, memory_order_relaxed) == 0)
        return;
    assert(TAILQ_EMPTY(&loop->ready));
    pthread_mutex_lock(&loop->registry_lock);
    if (atomic_load_explicit(&loop->handler_generation, memory_order_relaxed) != loop->polled_generation)
        refresh_polled_locked(loop); /* one of the dead may be in it */
    free_all(&loop->dead);
    atomic_store_explicit(&loop->dead_count, 0, memory_order_relaxed);
    pthread_mutex_unlock(&loop->registry_lock);
}

void handler_detach_all(struct rt_loop *loop)
{
    while (!LIST_EMPTY(&loop->handlers))
        rt_loop_detach_fd(LIST_FIRST(&loop->handlers));
    free_all(&loop->dead);
    free_all(&loop->stuck);
}

void handler_set_ready(struct rt_handler *handler, uint8_t why)
{
    if (!handler->ready)
        TAILQ_INSERT_TAIL(&handler->loop->ready, handler, ready_link);
    handler->ready |= why;
}

/* Under neither lock; the loop's thread. Only nested passes come here, so a lock costs nobody. */
static void set_paused(struct rt_handler *handler, bool paused)
{
    struct rt_loop *loop = handler->loop;
    pthread_mutex_lock(&loop->registry_lock);
    if (!atomic_load_explicit(&handler->detached, memory_order_relaxed)) {
        int error = paused ? loop->monitor_ops->pause(loop->monitor, handler)
                           : loop->monitor_ops->resume(loop->monitor, handler);
        /* Changing what is there allocates nothing. It fails for a descriptor that was closed too early:
         * nothing to do. */
        (void)error;
        handler->paused = paused;
    }
    pthread_mutex_unlock(&loop->registry_lock);
}

static void count_dispatch(struct rt_handler *handler, bool progress)
{
    struct rt_loop *loop = handler->loop;
    total_add(&loop->dispatches, 1);
    total_add(&handler->dispatches, 1);
    if (!progress) {
        total_add(&loop->idle_dispatches, 1);
        total_add(&handler->idle_dispatches, 1);
    }
    lttng_ust_tracepoint(rt_loop, fd_dispatch, loop->id, handler->id, handler->fd, progress);
    hog_check(loop, handler->id);
}

bool handler_dispatch_polled(struct rt_handler *handler)
{
    bool consumed = handler->callbacks.poll_ready(handler->opaque);
    total_add(&handler->poll_dispatches, 1);
    count_dispatch(handler, consumed);
    return consumed;
}

void handler_end_dispatch(struct rt_handler *handler)
{
    handler_leave(handler);
    if (handler->paused)
        set_paused(handler, false);
}

static bool dispatch_one(struct rt_handler *handler, uint8_t why)
{
    if (handler_is_running(handler)) {
        /* A pass nested in one of its own callbacks. Level-triggered, it would end every wait of that pass. */
        if ((why & HANDLER_READY_FD) && !handler->paused)
            set_paused(handler, true);
        return false;
    }
    if (!handler_enter(handler)) {
        /* Closed before it was detached: the monitor reports it for ever. Nobody can take it away, but it
         * shows in the trace. */
        if (atomic_load_explicit(&handler->stuck, memory_order_relaxed))
            count_dispatch(handler, false);
        return false;
    }
    bool progress = false;
    if (why & HANDLER_READY_FD) {
        bool consumed = handler->callbacks.ready(handler->opaque);
        count_dispatch(handler, consumed);
        progress |= consumed;
    }
    /* ready may have detached it. */
    if ((why & HANDLER_READY_POLL) && !atomic_load_explicit(&handler->detached, memory_order_acquire))
        progress |= handler_dispatch_polled(handler);
    handler_end_dispatch(handler);
    return progress && handler->role != RT_FD_WAKEUP;
}

bool handler_dispatch(struct rt_loop *loop)
{
    bool progress = false;
    while (!TAILQ_EMPTY(&loop->ready)) {
        struct rt_handler *handler = TAILQ_FIRST(&loop->ready);
        TAILQ_REMOVE(&loop->ready, handler, ready_link);
        uint8_t why = handler->ready;
        handler->ready = 0;
        progress |= dispatch_one(handler, why);
    }
    return progress;
}
