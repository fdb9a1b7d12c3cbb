/*
 * Mistakes in the wake-up protocol that rt_loop_configure() brings back, so that traces of them exist and their detection
 * can be tested. Steps (N4, L4) as in notify.c. Each widens its window until it has struck, with a bound, so that it
 * strikes on any machine.
 *
 * suppress-before-publish: N4 comes before N1. A notifier that finds a loop awake remembers that, and stays there until the loop
 * is about to block; only then it publishes and notifies, and writes nothing, since the loop was awake. This is done for
 * coroutines alone: threads that wait for each other's bottom halves would already hang while the program starts.
 *
 * no-recheck: L4 is missing. A loop that is about to block stays between its last look and L2 until somebody has notified it,
 * who finds the flag down, and blocks on that.
 */

#include "loop/loop_internal.h"

/* Long for a loop that has nothing more to do, short for whoever waits for the thread. */
#define WINDOW_NS (2 * INT64_C(1000000))

/* What this thread saw of the loop that it is about to notify. Used up before anything can yield. */
static _Thread_local struct {
    const struct rt_loop *loop;
    uint32_t notify_me;
} early;

void fault_publishes(struct rt_loop *loop, enum publish_kind kind)
{
    int64_t end_ns = rt_clock_ns() + WINDOW_NS;

    if (!(loop->faults & RT_LOOP_FAULT_SUPPRESS_BEFORE_PUBLISH) || kind != PUBLISH_COROUTINE)
        return;
    early.loop = loop;
    early.notify_me = atomic_load_explicit(&loop->notify_me, memory_order_relaxed);
    while (early.notify_me == 0 && atomic_load_explicit(&loop->notify_me, memory_order_relaxed) == 0 &&
           rt_clock_ns() < end_ns)
        ;
}

uint32_t fault_seen_early(struct rt_loop *loop)
{
    bool looked = early.loop == loop;

    early.loop = NULL;
    return looked ? early.notify_me : atomic_load_explicit(&loop->notify_me, memory_order_seq_cst);
}

void fault_await_notify(struct rt_loop *loop)
{
    int64_t end_ns = rt_clock_ns() + WINDOW_NS;

    while (!loop_is_notified(loop) && rt_clock_ns() < end_ns)
        ;
}
