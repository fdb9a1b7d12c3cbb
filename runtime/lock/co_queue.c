#include <assert.h>
#include <errno.h>
#include <stddef.h>

#include "lock/lock_internal.h"
#include "rt/coroutine.h"
#include "rt/lock.h"

void rt_co_queue_init(struct rt_co_queue *queue)
{
    queue->first = NULL;
    queue->last = &queue->first;
    queue->cancelled = false;
}

bool rt_co_queue_empty(const struct rt_co_queue *queue)
{
    return !queue->first;
}

static void join(struct rt_co_queue *queue, struct rt_co_waiter *waiter)
{
    assert(rt_in_coroutine());
    *waiter = (struct rt_co_waiter){ .co = rt_coroutine_self() };
    *queue->last = waiter;
    queue->last = &waiter->next;
}

int rt_co_queue_wait_mutex_co(struct rt_co_queue *queue, struct rt_mutex *mutex)
{
    struct rt_co_waiter waiter;

    if (queue->cancelled)
        return -ECANCELED;
    join(queue, &waiter);
    rt_mutex_unlock(mutex);
    rt_coroutine_yield(); /* a wake-up that comes before is kept */
    rt_mutex_lock(mutex);
    return waiter.cancelled ? -ECANCELED : 0;
}

int rt_co_queue_wait_co_mutex_co(struct rt_co_queue *queue, struct rt_co_mutex *mutex)
{
    struct rt_co_waiter waiter;

    if (queue->cancelled)
        return -ECANCELED;
    join(queue, &waiter);
    rt_co_mutex_unlock(mutex);
    rt_coroutine_yield();
    rt_co_mutex_lock_co(mutex);
    return waiter.cancelled ? -ECANCELED : 0;
}

static bool wake_first(struct rt_co_queue *queue, bool cancelled)
{
    struct rt_co_waiter *waiter = queue->first;

    if (!waiter)
        return false;
    queue->first = waiter->next;
    if (!queue->first)
        queue->last = &queue->first;
    waiter->cancelled = cancelled;
    rt_coroutine_wake_later(waiter->co); /* waiter is gone as soon as it runs */
    return true;
}

bool rt_co_queue_wake_one(struct rt_co_queue *queue)
{
    return wake_first(queue, false);
}

bool rt_co_queue_wake_all(struct rt_co_queue *queue)
{
    bool any = false;

    while (rt_co_queue_wake_one(queue))
        any = true;
    return any;
}

void rt_co_queue_cancel(struct rt_co_queue *queue)
{
    queue->cancelled = true;
    while (wake_first(queue, true))
        ;
}
