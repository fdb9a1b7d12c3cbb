/*
 * Busy polling: looking at memory for a while instead of sleeping in the kernel.
 *
 * A handler that polls gets poll_begin when it is polled first and poll_end when the loop is about to block,
 * so that a driver's notifications stay off over many passes of a busy loop.
 */
#include "loop/loop_internal.h"
#include "tracepoints/loop.h"

/* The first window; below it a window is closed. A few times what a wake-up from the kernel costs: shorter
 * polling cannot pay. */
#define POLL_WINDOW_MIN_NS 4000

/* The clock is read once in this many looks. */
#define POLL_LOOKS_PER_CLOCK 16

/* Descriptors that cannot be polled are looked at this often while polling goes well: a system call of one or two
 * microseconds, so about a hundredth of the time. */
#define MONITOR_LOOK_INTERVAL_NS 100000

static int64_t poll_max(const struct rt_loop *loop)
{
    return atomic_load_explicit(&loop->poll_max_ns, memory_order_relaxed);
}

static int64_t window_ns(const struct rt_loop *loop)
{
    int64_t max_ns = poll_max(loop);
    if (max_ns == RT_FOREVER)
        return DEADLINE_NEVER;
    return loop->window.ns < max_ns ? loop->window.ns : max_ns;
}

bool polling_enabled(struct rt_loop *loop)
{
    return window_ns(loop) > 0;
}

void rt_loop_set_poll(struct rt_loop *loop, int64_t max_ns)
{
    atomic_store_explicit(&loop->poll_max_ns, max_ns, memory_order_relaxed);
    if (!loop_is_own(loop))
        loop_nudge(loop); /* it polls for ever, or sleeps: now it takes it up */
}

static bool monitor_due(struct rt_loop *loop, int64_t now_ns)
{
    if (now_ns - loop->looked_ns < MONITOR_LOOK_INTERVAL_NS)
        return false;
    loop->looked_ns = now_ns;
    return true;
}

bool polling_monitor_due(struct rt_loop *loop, int64_t now_ns)
{
    return !polling_enabled(loop) || monitor_due(loop, now_ns != 0 ? now_ns : rt_clock_ns());
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void begin_all(struct rt_loop *loop)
{
    handler_refresh_polled(loop);
    if (!loop->poll_incomplete)
        return;
    loop->poll_incomplete = false;
    struct rt_handler *handler;
    TAILQ_FOREACH(handler, &loop->polled, polled_link)
    {
        if (handler_is_running(handler)) {
            loop->poll_incomplete = true;
            continue;
        }
        if (!handler_enter(handler))
            continue;
        if (!handler->poll_started) {
            handler->poll_started = true;
            if (handler->callbacks.poll_begin)
                handler->callbacks.poll_begin(handler->opaque);
        }
        handler_leave(handler);
        loop->poll_started = true;
    }
}

/* One look at every handler that can be polled. Returns the first that has work. */
static struct rt_handler *look(struct rt_loop *loop)
{
    struct rt_handler *handler, *first = NULL;
    handler_refresh_polled(loop);
    TAILQ_FOREACH(handler, &loop->polled, polled_link)
    {
        if (handler_is_running(handler) || !handler_enter(handler))
            continue;
        bool has_work = handler->callbacks.poll(handler->opaque);
        handler_leave(handler);
        if (has_work) {
            handler_set_ready(handler, HANDLER_READY_POLL);
            first = first ? first : handler;
        }
    }
    return first;
}

void polling_look(struct rt_loop *loop)
{
    if (loop->poll_started)
        (void)look(loop);
}

/* Look until it pays or @until_ns. Returns whether it paid; *cause_out is who has work, NULL: somebody notified. */
static bool look_until(struct rt_loop *loop, int64_t until_ns, struct rt_handler **cause_out)
{
    for (unsigned looks = 1;; looks++) {
        cpu_relax();
        *cause_out = look(loop);
        if (*cause_out || loop_is_notified(loop))
            return true;
        if (looks % POLL_LOOKS_PER_CLOCK != 0)
            continue;
        int64_t now_ns = rt_clock_ns();
        if (now_ns >= until_ns)
            return false;
        if (monitor_due(loop, now_ns) && loop_look_at_monitor(loop, 0) > 0) {
            *cause_out = TAILQ_FIRST(&loop->ready);
            return true;
        }
    }
}

bool polling_run(struct rt_loop *loop, int64_t deadline_ns, int64_t *now_ns)
{
    int64_t window = window_ns(loop);
    int64_t until_ns = window < deadline_ns - *now_ns ? *now_ns + window : deadline_ns;

    begin_all(loop);
    lttng_ust_tracepoint(rt_loop, poll_begin, loop->id, window == DEADLINE_NEVER ? RT_FOREVER : window,
                         deadline_ns == DEADLINE_NEVER ? RT_FOREVER : deadline_ns - *now_ns);
    struct rt_handler *cause = look(loop);
    bool progress = cause || loop_is_notified(loop);
    if (!progress) { /* a busy loop finds work at once: no time to be told apart */
        phase_enter(loop, LOOP_POLLING, *now_ns, 0);
        progress = look_until(loop, until_ns, &cause);
        *now_ns = rt_clock_ns();
        phase_enter(loop, LOOP_BUSY, *now_ns, 0);
    }
    total_add(&loop->polls, 1);
    if (progress)
        total_add(&loop->polls_useful, 1);
    lttng_ust_tracepoint(rt_loop, poll_end, loop->id, progress, cause ? cause->id : 0);
    return progress;
}

bool polling_stop(struct rt_loop *loop)
{
    if (!loop->poll_started)
        return false;
    loop->poll_started = false;
    loop->poll_incomplete = true;
    bool slipped_in = false;
    struct rt_handler *handler;
    TAILQ_FOREACH(handler, &loop->polled, polled_link)
    {
        if (handler_is_running(handler)) {
            loop->poll_started = true; /* the outer pass ends it */
            continue;
        }
        if (!handler_enter(handler))
            continue;
        if (handler->poll_started) {
            handler->poll_started = false;
            if (handler->callbacks.poll_end && handler->callbacks.poll_end(handler->opaque)) {
                handler_set_ready(handler, HANDLER_READY_POLL);
                slipped_in = true;
            }
        }
        handler_leave(handler);
    }
    return slipped_in;
}

static void set_window(struct rt_loop *loop, int64_t ns, uint64_t handler_id)
{
    if (ns == loop->window.ns)
        return;
    lttng_ust_tracepoint(rt_loop, poll_adjust, loop->id, loop->window.ns, ns, handler_id);
    loop->window.ns = ns;
}

static int64_t grown(int64_t ns, int64_t max_ns)
{
    ns = ns ? 2 * ns : POLL_WINDOW_MIN_NS;
    return ns < max_ns ? ns : max_ns;
}

static int64_t shrunk(int64_t ns)
{
    ns /= 2;
    return ns < POLL_WINDOW_MIN_NS ? 0 : ns;
}

void polling_adapt(struct rt_loop *loop, int64_t block_ns, const struct rt_handler *cause, bool notified)
{
    int64_t max_ns = poll_max(loop);
    if (max_ns == RT_FOREVER)
        return;
    int64_t ns = loop->window.ns < max_ns ? loop->window.ns : max_ns;
    uint64_t handler_id = cause && cause != loop->wakeup ? cause->id : 0;
    bool pollable = notified || (cause && (cause == loop->wakeup || handler_can_poll(cause)));

    if (pollable && block_ns <= max_ns)
        ns = block_ns > ns ? grown(ns, max_ns) : ns; /* a longer window would have seen it coming */
    else
        ns = shrunk(ns); /* polling cannot see this, or it took too long */
    set_window(loop, ns, handler_id);
}
