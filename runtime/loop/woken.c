/*
 * Coroutines that other threads, or this one, woke in this loop: one hop from the waker to the coroutine.
 * coroutine/wakeup.h tells what the order is for.
 */
#include "coroutine/coroutine_internal.h"
#include "coroutine/wakeup.h"
#include "loop/loop_internal.h"

void rt_loop_wake_coroutine(struct rt_loop *loop, struct rt_coroutine *co)
{
    if (loop_is_own(loop)) {
        work_queue_collect(&loop->woken_queue, &loop->woken_pushed); /* what was pushed before goes first */
        work_queue_append(&loop->woken_queue, &co->wake_link);
        total_add(&loop->queued, 1);
        return;
    }
    atomic_fetch_add_explicit(&loop->published, 1, memory_order_relaxed);
    loop_announce(loop, PUBLISH_COROUTINE);
    work_push(&loop->woken_pushed, &co->wake_link); /* ORDER coroutine.wakeup, push; ORDER loop.notify [N1] */
    /* From here on co may have ended. */
    loop_notify(loop);
}

void woken_init(struct rt_loop *loop)
{
    work_queue_init(&loop->woken_queue);
}

uint32_t woken_run(struct rt_loop *loop)
{
    work_queue_collect(&loop->woken_queue, &loop->woken_pushed); /* ORDER coroutine.wakeup, the loop's side */
    uint32_t ran = 0;
    /* What these wake runs in the next pass. */
    for (uint32_t left = work_of_pass(loop->woken_queue.count); left > 0; left--) {
        struct work_link *link = work_queue_pop(&loop->woken_queue);
        if (!link)
            break; /* a nested pass ran them */
        total_add(&loop->run, 1);
        rt_coroutine_run_woken(coroutine_of_wake_link(link));
        ran++;
        hog_check(loop, 0);
    }
    return ran;
}
