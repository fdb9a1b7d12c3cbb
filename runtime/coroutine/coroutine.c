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
    lttng_ust_tracepoint(rt_coroutine, create, co->id, thread->thread_id, pooled);
    return co;
}

/* Leave the running coroutine for its caller, who is told why. */
static inline __attribute__((always_inline)) void leave(struct rt_thread *thread, struct rt_coroutine *self, enum coroutine_left left)
{
    struct rt_mutex *held = NULL;

    assert(self != &thread->leader && "only a coroutine can yield");
    if (unlikely(thread->held_mutexes))
        held = rt_mutex_detach_held(thread);
    lttng_ust_tracepoint(rt_coroutine, yield, self->id, self->caller->id, thread->thread_id);
    self->left = left;
    switch_to(self, self->caller, false);
    /* Here the thread may be another one. */
    if (unlikely(held))
        rt_mutex_attach_held(rt_thread_self(), held);
}

/* No fake frame under ASan: it would not survive the end of a life, which the loop does. */
__attribute__((no_sanitize("address"))) _Noreturn void rt_coroutine_main(struct rt_coroutine *self)
{
    /* A coroutine from the pool comes back here: a new life costs no new context. */
    for (;;) {
        self->fn(self->opaque);
        lttng_ust_tracepoint(rt_coroutine, terminate, self->id, rt_thread_self()->thread_id);
        self->left = COROUTINE_ENDED;
        switch_to(self, self->caller, true);
    }
}

static inline __attribute__((always_inline)) void enter(struct rt_thread *thread, struct rt_coroutine *self, struct rt_coroutine *co)
{
    assert(!co->caller && "this coroutine runs already");
    co->caller = self;
    atomic_store_explicit(&co->loop, loop_of(&thread->leader), memory_order_relaxed);
    lttng_ust_tracepoint(rt_coroutine, enter, co->id, self->id, loop_id_of(co), thread->thread_id);

    thread->current = co;
    switch_to(self, co, false);
    /* Still the same thread: what we entered can only come back to us here. */
    thread->current = self;
    co->caller = NULL;

    if (likely(co->left == COROUTINE_YIELDED))
        return;
    if (co->left == COROUTINE_ENDED) {
        assert(!atomic_load_explicit(&co->wake_pending, memory_order_relaxed) && "woken, but it did not wait");
        rt_pool_give(thread, co);
    } else {
        struct rt_loop *loop = co->move_to;

        atomic_store_explicit(&co->loop, loop, memory_order_relaxed);
        rt_loop_wake_coroutine(loop, co); /* ORDER coroutine.wakeup, move side: the context is saved; now it is theirs */
    }
}

/* Where no loop comes by, the outermost caller runs what was woken. */
__attribute__((noinline)) static void run_ready(struct rt_thread *thread)
{
    struct work_link *link;

    while ((link = work_queue_pop(&thread->ready))) {
        struct rt_coroutine *co = coroutine_of_wake_link(link);

        atomic_store_explicit(&co->wake_pending, false, memory_order_relaxed);
        enter(thread, &thread->leader, co);
    }
}

void rt_coroutine_enter(struct rt_coroutine *co)
{
    struct rt_thread *thread = rt_thread_self();
    struct rt_coroutine *self = thread->current;

    enter(thread, self, co);
    if (unlikely(thread->ready.first) && self == &thread->leader)
        run_ready(thread);
}

void rt_coroutine_yield(void)
{
    struct rt_thread *thread = rt_thread_self();

    leave(thread, thread->current, COROUTINE_YIELDED);
}

void rt_coroutine_move(struct rt_loop *loop)
{
    struct rt_thread *thread = rt_thread_self();
    struct rt_coroutine *self = thread->current;

    if (loop == loop_of(&thread->leader))
        return;
    self->move_to = loop;
    atomic_store_explicit(&self->wake_pending, true, memory_order_relaxed);
    leave(thread, self, COROUTINE_MOVES);
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
