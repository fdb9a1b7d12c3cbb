/*
 * How coroutines and loops meet. Private to runtime/; the public side is rt_coroutine_wake().
 *
 * ORDER coroutine.wakeup: no wake-up is lost and no coroutine runs in two threads.
 *   A wake-up never enters a coroutine from a foreign thread. It pushes the coroutine into the list of the loop
 *   in which it runs (coroutine->loop), with release order, and notifies that loop. The loop takes the whole list, with
 *   acquire order, in its own thread and outside any coroutine. A coroutine that was woken before it yielded
 *   has therefore yielded by the time its loop looks: the same thread had to leave it to get there.
 *   rt_coroutine_move() is the one case where the list belongs to another thread: there the push is made by
 *   whoever entered the coroutine, after control is back, when its context is saved.
 * If weaker: the loop could enter a context that is not yet saved.
 * Test: tests/runtime/coroutine/stress_wakeup.c.
 */
#ifndef RUNTIME_COROUTINE_WAKEUP_H
#define RUNTIME_COROUTINE_WAKEUP_H

struct rt_coroutine;
struct rt_loop;

/* Neither inlined nor cloned: what a function reads of its thread must not be kept over a yield, after which the thread may
 * be another one. clang clones nothing that is not inlined. */
#ifdef __clang__
#define READS_THREAD __attribute__((noinline))
#else
#define READS_THREAD __attribute__((noinline, noclone))
#endif

/**
 * Put @co into @loop's list of woken coroutines and notify the loop: publish (kind coroutine, if the caller is
 * another thread), notified, fence, notify_me, as for any published work. In the order of arrival.
 *
 * Implemented by runtime/loop/. Thread: any, also the loop's own, inside or outside a coroutine; never enters @co itself.
 * Link:      co->wake_link (coroutine_internal.h) belongs to the list until the loop has taken it.
 */
void rt_loop_wake_coroutine(struct rt_loop *loop, struct rt_coroutine *co);

/**
 * Run a coroutine that the loop took from its list. It may be gone afterwards.
 *
 * Implemented by runtime/coroutine/. Thread: the loop's, outside any coroutine.
 */
void rt_coroutine_run_woken(struct rt_coroutine *co);

/**
 * This thread runs @loop from now on (rt_loop_bind()), or none (NULL: the bound loop is destroyed). Coroutines
 * that are entered in this thread are woken there.
 *
 * Implemented by runtime/coroutine/. Thread: the loop's, outside any coroutine.
 */
void rt_coroutine_bind_loop(struct rt_loop *loop);

#endif
