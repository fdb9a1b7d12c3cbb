#include "rt/coroutine.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

#include "coroutine/coroutine_internal.h"
#include "coroutine/switch.h"
#include "coroutine/thread.h"
#include "coroutine/wakeup.h"
#include "lock/lock_internal.h"
#include "pool/pool_internal.h"
#include "rt/loop.h"
#include "tracepoints/coroutine.h"

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

static struct rt_loop *loop_of(struct rt_coroutine *co)
{
    return atomic_load_explicit(&co->loop, memory_order_relaxed);
}

static uint32_t loop_id_of(struct rt_coroutine *co)
{
    struct rt_loop *loop = loop_of(co);

    return loop ? rt_loop_id(loop) : 0;
}

/* Out of the way of those who do not trace: a function that only ends with a call saves no registers. */
__attribute__((cold, noinline)) static void trace_create(uint64_t id, const struct rt_thread *thread, bool pooled)
{
    lttng_ust_tracepoint(rt_coroutine, create, id, thread->thread_id, pooled);
}

struct rt_coroutine *rt_coroutine_create(rt_coroutine_fn *fn, void *opaque)
{
    struct rt_thread *thread = rt_thread_self();
    bool pooled;
    struct rt_coroutine *co = rt_pool_take(thread, &pooled);

    if (unlikely(!co)) {
        errno = ENOMEM;
        return NULL;
    }
    co->fn = fn;
    co->opaque = opaque;
    co->id = rt_thread_next_id(thread);
    atomic_store_explicit(&co->loop, loop_of(&thread->leader), memory_order_relaxed);
    if (unlikely(lttng_ust_tracepoint_enabled(rt_coroutine, create)))
        trace_create(co->id, thread, pooled);
    return co;
}

/* What the thread knows of who runs changes before the switch, so that there is nothing left to do after it. */
static inline struct rt_coroutine *go_out(struct rt_thread *thread, struct rt_coroutine *self)
{
    struct rt_coroutine *caller = self->caller;

    thread->current = caller;
    self->caller = NULL;
    return caller;
}

static inline void go_in(struct rt_thread *thread, struct rt_coroutine *co)
{
    assert(!co->caller && "this coroutine runs already");
    co->caller = thread->current;
    atomic_store_explicit(&co->loop, loop_of(&thread->leader), memory_order_relaxed);
    thread->current = co;
}

/* More than a plain yield that nobody traces. */
__attribute__((cold, noinline)) static struct rt_coroutine_arrival leave_for(struct rt_thread *thread, struct rt_coroutine *self,
                                                                             enum coroutine_left why)
{
    struct rt_mutex *held = thread->held_mutexes ? rt_mutex_detach_held(thread) : NULL;
    struct rt_coroutine_arrival arrival;

    lttng_ust_tracepoint(rt_coroutine, yield, self->id, self->caller->id, thread->thread_id);
    self->head.left = why;
    arrival = switch_to(self, go_out(thread, self), false);
    /* Here the thread may be another one. */
    if (held)
        rt_mutex_attach_held(rt_thread_self(), held);
    return arrival;
}

READS_THREAD struct rt_coroutine_arrival rt_coroutine_switch_out(void)
{
    struct rt_thread *thread = rt_thread_until_switch();
    struct rt_coroutine *self = thread->current;

    assert(self && self != &thread->leader && "only a coroutine can yield");
    if (unlikely(lttng_ust_tracepoint_enabled(rt_coroutine, yield) || thread->held_mutexes || thread->ready.first))
        return leave_for(thread, self, thread->ready.first ? COROUTINE_WOKE_OTHERS : COROUTINE_YIELDED);
    return switch_to(self, go_out(thread, self), false);
}

/* No fake frame under ASan: it would not survive the end of a life, which the loop does. */
__attribute__((no_sanitize("address"))) _Noreturn void rt_coroutine_main(struct rt_coroutine *self)
{
    /* A coroutine from the pool comes back here: a new life costs no new context. */
    for (;;) {
        struct rt_coroutine_arrival arrival;
        struct rt_thread *thread;

        self->fn(self->opaque);
        thread = rt_thread_self();
        lttng_ust_tracepoint(rt_coroutine, terminate, self->id, thread->thread_id);
        self->head.left = COROUTINE_ENDED;
        arrival = switch_to(self, go_out(thread, self), true);
        arrival.from->context = arrival.context;
    }
}

/* The first time in this thread, or traced. */
__attribute__((cold, noinline)) static struct rt_coroutine_arrival enter_slowly(struct rt_coroutine *co)
{
    struct rt_thread *thread = rt_thread_self();
    struct rt_coroutine *self = thread->current;

    go_in(thread, co);
    lttng_ust_tracepoint(rt_coroutine, enter, co->id, self->id, loop_id_of(co), thread->thread_id);
    return switch_to(self, co, false);
}

READS_THREAD struct rt_coroutine_arrival rt_coroutine_switch_in(struct rt_coroutine *co)
{
    struct rt_thread *thread = rt_thread_until_switch();
    struct rt_coroutine *self = thread->current;

    if (unlikely(!self || lttng_ust_tracepoint_enabled(rt_coroutine, enter)))
        return enter_slowly(co);
    go_in(thread, co);
    return switch_to(self, co, false);
}

/* @co was left, its context is saved, and it did not just yield. It may be gone, or run elsewhere, afterwards. */
static void settle(struct rt_thread *thread, struct rt_coroutine *co)
{
    enum coroutine_left why = (enum coroutine_left)co->head.left;

    co->head.left = COROUTINE_YIELDED;
    if (why == COROUTINE_ENDED) {
        assert(!atomic_load_explicit(&co->wake_pending, memory_order_relaxed) && "woken, but it did not wait");
        rt_pool_give(thread, co);
    } else if (why == COROUTINE_MOVES) {
        struct rt_loop *loop = co->move_to;

        atomic_store_explicit(&co->loop, loop, memory_order_relaxed);
        rt_loop_wake_coroutine(loop, co); /* ORDER coroutine.wakeup, move side: the context is saved; now it is theirs */
    }
}

/* Where no loop comes by, the outermost caller runs what was woken. Without recursion: one that wakes itself is run here again. */
__attribute__((noinline)) static void run_ready(struct rt_thread *thread)
{
    struct work_link *link;

    while ((link = work_queue_pop(&thread->ready))) {
        struct rt_coroutine *co = coroutine_of_wake_link(link);
        struct rt_coroutine_arrival arrival;

        atomic_store_explicit(&co->wake_pending, false, memory_order_relaxed);
        arrival = rt_coroutine_switch_in(co);
        arrival.from->context = arrival.context;
        settle(thread, co);
    }
}

void rt_coroutine_settle(struct rt_coroutine_head *left)
{
    /* Still the thread that entered: what was entered can only come back here. */
    struct rt_thread *thread = rt_thread_self();

    settle(thread, coroutine_of_head(left));
    if (unlikely(thread->ready.first) && thread->current == &thread->leader)
        run_ready(thread);
}

/* For callers that are compiled without inlining, or take the address. */
extern inline void rt_coroutine_enter(struct rt_coroutine *co);
extern inline void rt_coroutine_yield(void);

void rt_coroutine_move(struct rt_loop *loop)
{
    struct rt_thread *thread = rt_thread_self();
    struct rt_coroutine *self = thread->current;
    struct rt_coroutine_arrival arrival;

    assert(self != &thread->leader && "only a coroutine can move");
    if (loop == loop_of(&thread->leader))
        return;
    self->move_to = loop;
    atomic_store_explicit(&self->wake_pending, true, memory_order_relaxed);
    arrival = leave_for(thread, self, COROUTINE_MOVES);
    arrival.from->context = arrival.context;
}

void rt_coroutine_wake_later(struct rt_coroutine *co)
{
    struct rt_loop *loop = loop_of(co);
    bool pending = atomic_exchange_explicit(&co->wake_pending, true, memory_order_relaxed);

    assert(!pending && "woken twice");
    (void)pending;
    if (loop) {
        rt_loop_wake_coroutine(loop, co); /* ORDER coroutine.wakeup, wake side */
    } else {
        work_queue_append(&rt_thread_self()->ready, &co->wake_link);
    }
}

void rt_coroutine_wake(struct rt_coroutine *co)
{
    struct rt_thread *thread = rt_thread_self();

    if (thread->current == &thread->leader && loop_of(co) == loop_of(&thread->leader) &&
        !atomic_load_explicit(&co->wake_pending, memory_order_relaxed))
        rt_coroutine_enter(co);
    else
        rt_coroutine_wake_later(co);
}

void rt_coroutine_run_woken(struct rt_coroutine *co)
{
    atomic_store_explicit(&co->wake_pending, false, memory_order_relaxed);
    rt_coroutine_enter(co); /* ORDER coroutine.wakeup, loop side: the caller took the list with acquire order */
}

void rt_coroutine_bind_loop(struct rt_loop *loop)
{
    atomic_store_explicit(&rt_thread_self()->leader.loop, loop, memory_order_relaxed);
}

struct rt_coroutine *rt_coroutine_self(void)
{
    return rt_thread_self()->current;
}

bool rt_in_coroutine(void)
{
    struct rt_thread *thread = rt_thread_self();

    return thread->current != &thread->leader;
}

uint64_t rt_coroutine_id(const struct rt_coroutine *co)
{
    return co->id;
}
