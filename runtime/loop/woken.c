/*
 * Coroutines that other threads, or this one, woke in this loop: one hop from the waker to the coroutine. The
 * same list as bottom halves have, with the link inside the coroutine; coroutine/wakeup.h tells its order.
 */
#include <stddef.h>

#include "coroutine/coroutine_internal.h"
#include "coroutine/wakeup.h"
#include "loop/loop_internal.h"

static void queue_append(struct woken_queue *queue, struct rt_coroutine *co)
{
    co->wake_next = NULL;
    *queue->last = co;
    queue->last = &co->wake_next;
    queue->count++;
}

/* Take what others pushed, oldest first. Thread: the loop's. */
static void collect(struct rt_loop *loop)
{
    if (!atomic_load_explicit(&loop->woken_pushed, memory_order_relaxed))
        return;
    /* ORDER coroutine.wakeup, the loop's side. */
    struct rt_coroutine *co = atomic_exchange_explicit(&loop->woken_pushed, NULL, memory_order_acquire);
    struct rt_coroutine *oldest = NULL;
    while (co) {
        struct rt_coroutine *next = co->wake_next;
        co->wake_next = oldest;
        oldest = co;
        co = next;
    }
    while (oldest) {
        struct rt_coroutine *next = oldest->wake_next;
        queue_append(&loop->woken_queue, oldest);
        oldest = next;
    }
}

void rt_loop_wake_coroutine(struct rt_loop *loop, struct rt_coroutine *co)
{
    if (loop_is_own(loop)) {
        collect(loop); /* what was pushed before goes first */
        queue_append(&loop->woken_queue, co);
        total_add(&loop->queued, 1);
        return;
    }
    atomic_fetch_add_explicit(&loop->published, 1, memory_order_relaxed);
    struct rt_coroutine *newest = atomic_load_explicit(&loop->woken_pushed, memory_order_relaxed);
    do {
        co->wake_next = newest;
    } while (!atomic_compare_exchange_weak_explicit(&loop->woken_pushed, &newest, co,
                                                    memory_order_release, /* ORDER coroutine.wakeup, push */
                                                    memory_order_relaxed));
    /* From here on co may have ended. */
    loop_publish(loop, PUBLISH_COROUTINE);
}

void woken_init(struct rt_loop *loop)
{
    loop->woken_queue.last = &loop->woken_queue.first;
}

uint32_t woken_run(struct rt_loop *loop)
{
    collect(loop);
    struct woken_queue *queue = &loop->woken_queue;
    uint32_t ran = 0;
    /* What these wake runs in the next pass; a nested pass may take some away. */
    for (uint32_t left = queue->count; left > 0 && queue->first; left--) {
        struct rt_coroutine *co = queue->first;
        queue->first = co->wake_next;
        if (!queue->first)
            queue->last = &queue->first;
        queue->count--;
        total_add(&loop->run, 1);
        rt_coroutine_run_woken(co);
        ran++;
        hog_check(loop, 0);
    }
    return ran;
}
