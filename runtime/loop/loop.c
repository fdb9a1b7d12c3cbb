#include "rt/loop.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "coroutine/wakeup.h"
#include "loop/loop_internal.h"
#include "rt/coroutine.h"
#include "tracepoints/loop.h"

#define HOG_LIMIT_DEFAULT_NS INT64_C(100000000)

static pthread_mutex_t loops_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, rt_loop) loops = LIST_HEAD_INITIALIZER(loops);
static uint32_t last_loop_id; /* under loops_lock */

static _Thread_local struct rt_loop *current_loop;
static _Thread_local int32_t thread_id;

/* Not inlined, and not pure for the compiler: a coroutine may go on in another thread between two calls. */
READS_THREAD struct rt_loop *rt_loop_current(void)
{
    __asm__ volatile("" ::: "memory");
    return current_loop;
}

READS_THREAD int32_t loop_thread_id(void)
{
    __asm__ volatile("" ::: "memory");
    if (thread_id == 0)
        thread_id = gettid();
    return thread_id;
}

bool loop_is_own(const struct rt_loop *loop)
{
    return rt_loop_current() == loop;
}

void rt_loop_each(void (*visit)(struct rt_loop *loop, void *opaque), void *opaque)
{
    pthread_mutex_lock(&loops_lock);
    struct rt_loop *loop;
    LIST_FOREACH(loop, &loops, link)
        visit(loop, opaque);
    pthread_mutex_unlock(&loops_lock);
}

bool loop_any_exists(void)
{
    pthread_mutex_lock(&loops_lock);
    bool exists = !LIST_EMPTY(&loops);
    pthread_mutex_unlock(&loops_lock);
    return exists;
}

/* In the list of all loops from now on. */
static void enlist(struct rt_loop *loop)
{
    pthread_mutex_lock(&loops_lock);
    loop->id = ++last_loop_id;
    LIST_INSERT_HEAD(&loops, loop, link);
    lttng_ust_tracepoint(rt_loop, create, loop->id, loop->name, 0);
    pthread_mutex_unlock(&loops_lock);
}

int rt_loop_create(const char *name, struct rt_loop **loop_out)
{
    fence_prepare();
    struct rt_loop *loop = aligned_alloc(alignof(struct rt_loop), sizeof(struct rt_loop));
    if (!loop)
        return -ENOMEM;
    memset(loop, 0, sizeof(*loop));
    loop->monitor_ops = policy_monitor();
    loop->notify_policy = policy_notify();
    loop->faults = policy_faults();
    loop->notify_specially = loop->notify_policy == RT_NOTIFY_ALWAYS ||
                             (loop->faults & RT_LOOP_FAULT_SUPPRESS_BEFORE_PUBLISH);
    loop->name = strdup(name);
    TAILQ_INIT(&loop->ready);
    TAILQ_INIT(&loop->polled);
    TAILQ_INIT(&loop->resting);
    TAILQ_INIT(&loop->closed);
    LIST_INIT(&loop->handlers);
    LIST_INIT(&loop->pollable);
    LIST_INIT(&loop->dead);
    LIST_INIT(&loop->stuck);
    bh_init(loop);
    woken_init(loop);
    pthread_mutex_init(&loop->registry_lock, NULL);
    pthread_cond_init(&loop->callback_done, NULL);
    timer_init(loop);
    struct timespec resolution = { 0 };
    clock_getres(CLOCK_MONOTONIC_COARSE, &resolution);
    loop->coarse_clock_ns = (int64_t)resolution.tv_sec * 1000000000 + resolution.tv_nsec;
    atomic_init(&loop->hog_limit_ns, HOG_LIMIT_DEFAULT_NS);
    loop->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    int error = !loop->name          ? -ENOMEM
                : loop->event_fd < 0 ? -errno
                                     : loop->monitor_ops->create(&loop->monitor);
    if (!error) {
        enlist(loop);
        static const struct rt_fd_callbacks wakeup = { .ready = loop_wakeup_ready };
        error = rt_loop_attach_fd(loop, loop->event_fd, RT_FD_WAKEUP, 0, 0, &wakeup, loop, &loop->wakeup);
    }
    if (error) {
        rt_loop_destroy(loop);
        return error;
    }
    *loop_out = loop;
    return 0;
}

void rt_loop_destroy(struct rt_loop *loop)
{
    if (!loop)
        return;
    assert(loop->depth == 0 && loop->polling_holds == 0);
    handler_detach_all(loop);
    bh_deinit(loop);
    if (loop->id != 0) {
        pthread_mutex_lock(&loops_lock);
        LIST_REMOVE(loop, link);
        lttng_ust_tracepoint(rt_loop, destroy, loop->id);
        pthread_mutex_unlock(&loops_lock);
    }
    if (loop_is_own(loop)) {
        rt_coroutine_bind_loop(NULL);
        current_loop = NULL;
    }
    loop->monitor_ops->destroy(loop->monitor);
    if (loop->event_fd >= 0)
        (void)close(loop->event_fd);
    timer_deinit(loop);
    pthread_cond_destroy(&loop->callback_done);
    pthread_mutex_destroy(&loop->registry_lock);
    free(loop->name);
    free(loop);
}

void rt_loop_bind(struct rt_loop *loop)
{
    int32_t id = loop_thread_id();
    assert(atomic_load_explicit(&loop->thread_id, memory_order_relaxed) == 0);
    current_loop = loop;
    rt_coroutine_bind_loop(loop);
    int error = loop->monitor_ops->bind ? loop->monitor_ops->bind(loop->monitor) : 0;
    assert(error == 0);
    (void)error;
    pthread_mutex_lock(&loops_lock);
    atomic_store_explicit(&loop->phase_since_ns, rt_clock_ns(), memory_order_release);
    atomic_store_explicit(&loop->thread_id, id, memory_order_relaxed);
    lttng_ust_tracepoint(rt_loop, create, loop->id, loop->name, id);
    pthread_mutex_unlock(&loops_lock);
}

const char *rt_loop_name(const struct rt_loop *loop)
{
    return loop->name;
}

uint32_t rt_loop_id(const struct rt_loop *loop)
{
    return loop->id;
}

int loop_look_at_monitor(struct rt_loop *loop, int64_t timeout_ns)
{
    struct rt_handler *ready[MONITOR_READY_MAX];
    int count = loop->monitor_ops->wait(loop->monitor, ready, timeout_ns);
    assert(count >= 0 || count == -EINTR);
    for (int i = 0; i < count; i++) {
        /* Acquire: another thread may have attached it. Detached meanwhile: dispatch looks again. */
        (void)atomic_load_explicit(&ready[i]->detached, memory_order_acquire);
        handler_set_ready(ready[i], HANDLER_READY_FD);
    }
    return count;
}

/* Wait in the kernel. What is ready then is in loop->ready. */
static void wait_for_events(struct rt_loop *loop, int64_t deadline_ns, int64_t started_ns, int64_t *now_ns)
{
    int64_t timeout_ns = deadline_ns == DEADLINE_NEVER ? RT_FOREVER : deadline_ns - *now_ns;
    phase_enter(loop, LOOP_WAITING, *now_ns, timeout_ns);
    lttng_ust_tracepoint(rt_loop, wait_begin, loop->id, timeout_ns);
    int count = loop_look_at_monitor(loop, timeout_ns); /* ORDER loop.notify [L5] */
    lttng_ust_tracepoint(rt_loop, wait_end, loop->id, count);
    *now_ns = rt_clock_ns();
    phase_enter(loop, LOOP_BUSY, *now_ns, 0);
    loop->looked_ns = *now_ns;
    polling_waited(loop, *now_ns - started_ns);
}

/* Block, unless somebody has notified. */
static void block_and_watch(struct rt_loop *loop, int64_t deadline_ns, int64_t started_ns, int64_t *now_ns)
{
    bool looks_again = !(loop->faults & RT_LOOP_FAULT_NO_RECHECK);
    if (!looks_again)
        fault_await_notify(loop);
    loop_raise_notify_me(loop);
    if (looks_again && loop_is_notified(loop))
        (void)loop_look_at_monitor(loop, 0);
    else
        wait_for_events(loop, deadline_ns, started_ns, now_ns);
    loop_lower_notify_me(loop);
}

/* Handlers, published work, timers. Returns whether any made progress. */
static bool dispatch(struct rt_loop *loop, int64_t now_ns)
{
    hog_begin(loop);
    bool progress = handler_dispatch(loop);
    uint32_t count = bh_run(loop); /* ORDER loop.accept [L9] */
    count += woken_run(loop);
    if (count > 0) {
        lttng_ust_tracepoint(rt_loop, work_run, loop->id, count);
        progress = true;
    }
    if (atomic_load_explicit(&loop->next_deadline_ns, memory_order_relaxed) != DEADLINE_NEVER)
        progress |= timer_run(loop, now_ns != 0 ? now_ns : rt_clock_ns());
    return progress;
}

bool loop_has_queued_work(const struct rt_loop *loop)
{
    return loop->bh_queue.first || loop->woken_queue.first || !TAILQ_EMPTY(&loop->ready);
}

bool rt_loop_pass(struct rt_loop *loop, bool may_block)
{
    assert(loop_is_own(loop) && "a pass in a thread to which rt_loop_bind() has not bound the loop");
    assert(!rt_in_coroutine() && "a pass inside a coroutine");
    if (loop->depth == 0)
        handler_reap(loop);
    loop->depth++;
    total_add(&loop->passes, 1);

    /* The old way: up during all of a blocking pass, and before it looks at what there is to do. */
    bool always = may_block && loop->notify_policy == RT_NOTIFY_ALWAYS;
    if (always)
        loop_raise_notify_me(loop);

    int64_t now_ns = 0; /* not read yet: a pass that has something to do at once needs no clock */
    int64_t started_ns = 0;
    int64_t deadline_ns = atomic_load_explicit(&loop->next_deadline_ns, memory_order_acquire);
    bool block = may_block && !loop_has_queued_work(loop) && !loop_has_news(loop);
    bool polled = false;
    if (block) {
        started_ns = now_ns = rt_clock_ns();
        block = now_ns < deadline_ns;
        if (block && polling_enabled(loop)) {
            polled = true;
            block = !polling_run(loop, deadline_ns, &now_ns) && now_ns < deadline_ns;
        }
    }
    if (!polled)
        polling_look(loop);
    if (block && (!TAILQ_EMPTY(&loop->ready) || polling_stop(loop, now_ns)))
        block = false;

    if (!block) {
        if (may_block)
            polling_monitor_look(loop, now_ns);
        else
            (void)loop_look_at_monitor(loop, 0);
    } else if (always) {
        wait_for_events(loop, deadline_ns, started_ns, &now_ns);
    } else {
        block_and_watch(loop, deadline_ns, started_ns, &now_ns);
    }
    if (always)
        loop_lower_notify_me(loop);

    loop_accept(loop);
    bool progress = dispatch(loop, now_ns);
    loop->depth--;
    return progress;
}

void rt_loop_run(struct rt_loop *loop)
{
    while (!atomic_load_explicit(&loop->quit, memory_order_acquire)) {
        if (busy_enabled(loop))
            busy_run(loop);
        (void)rt_loop_pass(loop, true);
    }
}

void rt_loop_quit(struct rt_loop *loop)
{
    atomic_store_explicit(&loop->quit, true, memory_order_release);
    if (!loop_is_own(loop))
        loop_nudge(loop);
}
