/*
 * How a thread that hands work to a loop makes sure that the loop sees it, with as few system calls as
 * possible.
 *
 * ORDER loop.notify: no wake-up is lost. Notifier and loop each store one flag and then load the other's:
 *   loop_notify():           publish the work, exchange notified (full fence), load notify_me;
 *                            if set: write the eventfd
 *   loop_raise_notify_me():  store notify_me (full fence)
 *   loop_is_notified():      load notified; if set: do not block
 * All four are seq_cst, so not both can load the old value. The re-check looks at notified and not at the
 * work: so notified must be set before the notifier's fence. While the loop polls it loads notified with
 * notify_me down.
 * If weaker: the notifier sees "does not block", the loop sees "nothing notified", and sleeps on published
 * work.
 *
 * ORDER loop.accept: work that is published while the loop clears notified is not forgotten.
 *   loop_notify():           publish the work, exchange notified
 *   loop_accept():           exchange notified (full fence), then dispatch reads the work
 * The exchange takes what every notifier before it has released: they all exchange too, so that one
 * notifier's flag does not hide another's work. If the clear could sink below those reads: work published in
 * between has its flag wiped, and the next poll does not see it. Clearing too early only costs a pass.
 *
 * Test: tests/runtime/loop/stress_notify.c.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "loop/loop_internal.h"
#include "tracepoints/loop.h"

void loop_publish(struct rt_loop *loop, enum publish_kind kind)
{
    lttng_ust_tracepoint(rt_loop, publish, loop->id, loop_thread_id(), kind);
    loop_notify(loop);
}

void loop_notify(struct rt_loop *loop)
{
    /* ORDER loop.notify and ORDER loop.accept, notifier's side. */
    (void)atomic_exchange_explicit(&loop->notified, 1, memory_order_seq_cst);
    uint32_t notify_me = atomic_load_explicit(&loop->notify_me, memory_order_seq_cst);

    atomic_fetch_add_explicit(&loop->notifies, 1, memory_order_relaxed);
    /* Traced before the write, so that the notify stands before the wake-up that it causes. */
    lttng_ust_tracepoint(rt_loop, notify, loop->id, loop_thread_id(), notify_me, notify_me != 0);
    if (notify_me == 0)
        return;
    atomic_fetch_add_explicit(&loop->event_writes, 1, memory_order_relaxed);
    if (atomic_load_explicit(&loop->phase, memory_order_relaxed) == LOOP_POLLING)
        atomic_fetch_add_explicit(&loop->event_writes_while_polling, 1, memory_order_relaxed);
    /* A counter that overflows makes this fail with EAGAIN; then it is readable, which is all we want. */
    (void)eventfd_write(loop->event_fd, 1);
}

bool loop_is_notified(struct rt_loop *loop)
{
    /* ORDER loop.notify, the loop's re-check; while polling only the value counts. */
    return atomic_load_explicit(&loop->notified, memory_order_seq_cst) != 0;
}

void loop_raise_notify_me(struct rt_loop *loop)
{
    lttng_ust_tracepoint(rt_loop, notify_me, loop->id, 0, 1);
    /* ORDER loop.notify, the loop's side. */
    atomic_store_explicit(&loop->notify_me, 1, memory_order_seq_cst);
}

void loop_lower_notify_me(struct rt_loop *loop)
{
    /* Release: a notifier that sees it down must not see the loop as it was before the wait. */
    atomic_store_explicit(&loop->notify_me, 0, memory_order_release);
    lttng_ust_tracepoint(rt_loop, notify_me, loop->id, 1, 0);
}

void loop_accept(struct rt_loop *loop)
{
    /* Nothing to clear: nothing can be wiped, so no fence is needed, and a pass that polls pays none. */
    if (atomic_load_explicit(&loop->notified, memory_order_relaxed) == 0)
        return;
    /* ORDER loop.accept, the loop's side. */
    (void)atomic_exchange_explicit(&loop->notified, 0, memory_order_seq_cst);
    lttng_ust_tracepoint(rt_loop, notify_accept, loop->id, 1);
}

bool loop_wakeup_ready(void *opaque)
{
    const struct rt_loop *loop = opaque;
    eventfd_t count;
    return eventfd_read(loop->event_fd, &count) == 0;
}
