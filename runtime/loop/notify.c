/*
 * How a thread that hands work to a loop makes sure that the loop sees it, with as few system calls as
 * possible. Step names (N1, L3, ...) are those of runtime/README.md, "The wake-up protocol", and of the model.
 *
 * ORDER loop.notify: no wake-up is lost. Notifier and loop each store one flag and then load the other's:
 *   loop_notify():           publish the work (N1), exchange notified (full fence; N2, N3), load notify_me (N4);
 *                            if set: write the eventfd
 *   loop_raise_notify_me():  store notify_me (full fence; L2, L3)
 *   loop_is_notified():      load notified (L4); if set: do not block
 * All four are seq_cst, so not both can load the old value. The re-check looks at notified and not at the
 * work: so notified must be set before the notifier's fence. While the loop polls (L1) it loads notified with
 * notify_me down.
 * If weaker: the notifier sees "does not block", the loop sees "nothing notified", and sleeps on published
 * work.
 *
 * ORDER loop.accept: work that is published while the loop clears notified is not forgotten.
 *   loop_notify():           publish the work, exchange notified
 *   loop_accept():           exchange notified (full fence; L7, L8), then dispatch reads the work (L9)
 * The exchange takes what every notifier before it has released: they all exchange too, so that one
 * notifier's flag does not hide another's work. If the clear could sink below those reads: work published in
 * between has its flag wiped, and the next poll does not see it. Clearing too early only costs a pass.
 *
 * ORDER loop.notify_always: the same promise in the old way, where notify_me is up from the begin of a blocking pass.
 *   notify_always():         publish the work, add 0 to notify_me (full fence and load in one);
 *                            if set: write the eventfd, then set notified
 *   loop_raise_notify_me():  add 2 to notify_me, then loop_may_sleep_on_work() looks at the work itself
 * Additions to one variable have one order: either the notifier's comes first, and the loop's reads from it and
 * sees the work; or it comes second, and sees the flag.
 * If weaker: the notifier sees the flag down, the loop sees no work, and sleeps on it.
 *
 * Test: tests/model/notify.pml; tests/runtime/loop/stress_notify.c, both ways.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "loop/loop_internal.h"
#include "tracepoints/loop.h"

/* How much a blocking pass adds to notify_me in the old way: there the lowest bit belonged to another kind of waiter. */
#define NOTIFY_ME_ALWAYS 2

void loop_announce(struct rt_loop *loop, enum publish_kind kind)
{
    if (__builtin_expect(loop->notify_specially, false))
        fault_publishes(loop, kind);
    lttng_ust_tracepoint(rt_loop, publish, loop->id, loop_thread_id(), kind);
}

void loop_publish(struct rt_loop *loop, enum publish_kind kind)
{
    loop_announce(loop, kind);
    loop_notify(loop);
}

static void write_event(struct rt_loop *loop)
{
    atomic_fetch_add_explicit(&loop->event_writes, 1, memory_order_relaxed);
    if (atomic_load_explicit(&loop->phase, memory_order_relaxed) == LOOP_POLLING)
        atomic_fetch_add_explicit(&loop->event_writes_while_polling, 1, memory_order_relaxed);
    /* A counter that overflows makes this fail with EAGAIN; then it is readable, which is all we want. */
    (void)eventfd_write(loop->event_fd, 1);
}

static __attribute__((noinline)) void notify_always(struct rt_loop *loop)
{
    /* ORDER loop.notify_always, notifier's side. */
    uint32_t notify_me = atomic_fetch_add_explicit(&loop->notify_me, 0, memory_order_seq_cst);

    atomic_fetch_add_explicit(&loop->notifies, 1, memory_order_relaxed);
    lttng_ust_tracepoint(rt_loop, notify, loop->id, loop_thread_id(), notify_me, notify_me != 0);
    if (notify_me == 0)
        return;
    write_event(loop);
    /* ORDER loop.accept, notifier's side. */
    (void)atomic_exchange_explicit(&loop->notified, 1, memory_order_seq_cst);
}

/* The mistake: N4 was done before N1. */
static __attribute__((noinline)) void notify_too_late(struct rt_loop *loop)
{
    (void)atomic_exchange_explicit(&loop->notified, 1, memory_order_seq_cst);
    uint32_t notify_me = fault_seen_early(loop);

    atomic_fetch_add_explicit(&loop->notifies, 1, memory_order_relaxed);
    lttng_ust_tracepoint(rt_loop, notify, loop->id, loop_thread_id(), notify_me, notify_me != 0);
    if (notify_me != 0)
        write_event(loop);
}

void loop_notify(struct rt_loop *loop)
{
    if (__builtin_expect(loop->notify_specially, false)) {
        if (loop->notify_policy == RT_NOTIFY_ALWAYS)
            notify_always(loop);
        else
            notify_too_late(loop);
        return;
    }
    /* ORDER loop.notify [N2 N3] and ORDER loop.accept, notifier's side. */
    (void)atomic_exchange_explicit(&loop->notified, 1, memory_order_seq_cst);
    uint32_t notify_me = atomic_load_explicit(&loop->notify_me, memory_order_seq_cst); /* ORDER loop.notify [N4] */

    atomic_fetch_add_explicit(&loop->notifies, 1, memory_order_relaxed);
    /* Traced before the write, so that the notify stands before the wake-up that it causes. */
    lttng_ust_tracepoint(rt_loop, notify, loop->id, loop_thread_id(), notify_me, notify_me != 0);
    if (notify_me != 0)
        write_event(loop);
}

void loop_nudge(struct rt_loop *loop)
{
    /* Work like any other: in the old way the loop looks at the work, and finds nothing but this. */
    atomic_store_explicit(&loop->nudged, true, memory_order_release);
    loop_notify(loop);
}

bool loop_is_notified(struct rt_loop *loop)
{
    /* ORDER loop.notify [L1 L4]: the loop's re-check; while polling only the value counts. */
    return atomic_load_explicit(&loop->notified, memory_order_seq_cst) != 0;
}

/* In the old way the timeout is computed from the work, under a flag that is up already. */
static bool has_published_work(const struct rt_loop *loop)
{
    /* ORDER loop.notify_always, the loop's side: after the addition. The timers' deadline is read by the pass. */
    return atomic_load_explicit(&loop->bh_pushed, memory_order_relaxed) ||
           atomic_load_explicit(&loop->woken_pushed, memory_order_relaxed) ||
           atomic_load_explicit(&loop->nudged, memory_order_relaxed);
}

bool loop_has_news(struct rt_loop *loop)
{
    return loop->notify_policy == RT_NOTIFY_ALWAYS ? has_published_work(loop) : loop_is_notified(loop);
}

void loop_raise_notify_me(struct rt_loop *loop)
{
    uint32_t raised = loop->notify_policy == RT_NOTIFY_ALWAYS ? NOTIFY_ME_ALWAYS : 1;
    lttng_ust_tracepoint(rt_loop, notify_me, loop->id, 0, raised);
    /* ORDER loop.notify [L2 L3], the loop's side; ORDER loop.notify_always, the loop's side. On x86 both are one
     * locked instruction. */
    (void)atomic_fetch_add_explicit(&loop->notify_me, raised, memory_order_seq_cst);
}

void loop_lower_notify_me(struct rt_loop *loop)
{
    uint32_t raised = atomic_load_explicit(&loop->notify_me, memory_order_relaxed);
    /* ORDER loop.notify [L6]. Release: down only when the wait is over, which it must not be seen before. */
    atomic_store_explicit(&loop->notify_me, 0, memory_order_release);
    lttng_ust_tracepoint(rt_loop, notify_me, loop->id, raised, 0);
}

/* Returns whether it had been written. */
static bool read_event(struct rt_loop *loop)
{
    eventfd_t count;
    total_add(&loop->event_reads, 1);
    return eventfd_read(loop->event_fd, &count) == 0;
}

void loop_accept(struct rt_loop *loop)
{
    /* Acquire: the nudge's reason (quit, say) is seen after this. */
    if (loop->notify_policy == RT_NOTIFY_ALWAYS && atomic_load_explicit(&loop->nudged, memory_order_relaxed))
        (void)atomic_exchange_explicit(&loop->nudged, false, memory_order_acquire);
    /* Nothing to clear: nothing can be wiped, so no fence is needed, and a pass that polls pays none. */
    if (atomic_load_explicit(&loop->notified, memory_order_relaxed) == 0)
        return;
    /* ORDER loop.accept [L7 L8], the loop's side. */
    (void)atomic_exchange_explicit(&loop->notified, 0, memory_order_seq_cst);
    lttng_ust_tracepoint(rt_loop, notify_accept, loop->id, 1);
    if (loop->notify_policy == RT_NOTIFY_ALWAYS)
        (void)read_event(loop);
}

bool loop_wakeup_ready(void *opaque)
{
    struct rt_loop *loop = opaque;
    /* In the old way the accept has read it, or will when `notified` is set, too. */
    return loop->notify_policy == RT_NOTIFY_ALWAYS || read_event(loop);
}
