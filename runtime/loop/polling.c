/*
 * Busy polling: looking at memory for a while instead of sleeping in the kernel.
 *
 * Each handler that can be polled has a window of its own, and so have notifies. A phase of polling begins when a
 * pass finds nothing to do, and looks at those whose window is open; each leaves it when its window has run out, and
 * the phase ends when nobody is left. README.md, "Busy polling", tells how windows grow and shrink.
 *
 * A handler gets poll_begin when it joins a phase and poll_end when it leaves one, which it does not between passes
 * that find something: a driver's notifications stay off over many passes of a busy loop.
 */
#include <assert.h>

#include "loop/loop_internal.h"
#include "tracepoints/loop.h"

/* The first window; below it a window is closed. A few times what a wake-up from the kernel costs: shorter
 * polling cannot pay. */
#define POLL_WINDOW_MIN_NS 4000

/* Polled in vain for so many windows, a handler's window shrinks. */
#define POLL_VAIN_WINDOWS 8

/* The clock is read once in this many looks. */
#define POLL_LOOKS_PER_CLOCK 16

/* One of those who are not polled is looked at in memory so often, in turn: a hundredth of the time, however many. */
#define POLL_PEEK_INTERVAL_NS 1000

/* Descriptors that are not polled are looked at this often while polling goes well, unless the monitor needs no system
 * call for it: one or two microseconds, so about a hundredth of the time. */
#define MONITOR_LOOK_INTERVAL_NS 100000

static bool polls_forever(const struct rt_loop *loop)
{
    return polls_without_end(loop->poll_limit_ns);
}

/* The maximum may have been lowered since it was adapted. */
static int64_t window_ns(const struct rt_loop *loop, const struct poll_window *window)
{
    if (polls_forever(loop))
        return DEADLINE_NEVER;
    return window->ns < loop->poll_limit_ns ? window->ns : loop->poll_limit_ns;
}

bool polling_enabled(struct rt_loop *loop)
{
    /* Taken up here and nowhere else, so that it does not change in the middle of a phase. */
    int64_t max_ns = atomic_load_explicit(&loop->poll_max_ns, memory_order_relaxed);
    bool changed = max_ns != loop->poll_limit_ns;
    loop->poll_limit_ns = max_ns;
    handler_refresh_polled(loop, changed);
    if (max_ns == 0 || max_ns == RT_FOREVER)
        return max_ns != 0;
    if (loop->polling_holds > 0 && max_ns != RT_WHILE_ATTACHED)
        return false;
    return (loop->notify_window.ns > 0 && max_ns != RT_WHILE_ATTACHED) || !TAILQ_EMPTY(&loop->polled) ||
           !TAILQ_EMPTY(&loop->resting);
}

void rt_loop_set_poll(struct rt_loop *loop, int64_t max_ns)
{
    atomic_store_explicit(&loop->poll_max_ns, max_ns, memory_order_relaxed);
    if (!loop_is_own(loop))
        loop_nudge(loop); /* it polls for ever, or sleeps: now it takes it up */
}

void rt_loop_hold_polling(struct rt_loop *loop)
{
    assert(loop_is_own(loop));
    loop->polling_holds++;
}

void rt_loop_release_polling(struct rt_loop *loop)
{
    assert(loop_is_own(loop) && loop->polling_holds > 0);
    loop->polling_holds--;
}

bool polling_monitor_due(struct rt_loop *loop, int64_t now_ns)
{
    if (loop->monitor_ops->looks_in_memory && polls_forever(loop))
        return true;
    if (now_ns - loop->looked_ns < MONITOR_LOOK_INTERVAL_NS)
        return false;
    loop->looked_ns = now_ns;
    return true;
}

int64_t polling_timeout(const struct rt_loop *loop, int64_t now_ns)
{
    int64_t deadline_ns = atomic_load_explicit(&loop->next_deadline_ns, memory_order_relaxed);

    return deadline_ns == DEADLINE_NEVER ? RT_FOREVER : deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- who is polled ---- */

static struct handler_queue *place_of(struct rt_handler *handler)
{
    struct rt_loop *loop = handler->loop;
    return handler->poll_place == POLL_ACTIVE    ? &loop->polled
           : handler->poll_place == POLL_RESTING ? &loop->resting
                                                 : &loop->closed;
}

static void move_to(struct rt_handler *handler, enum poll_place place)
{
    TAILQ_REMOVE(place_of(handler), handler, polled_link);
    handler->loop->polled_changes++;
    handler->loop->polled_count -= handler->poll_place == POLL_ACTIVE;
    handler->poll_place = place;
    handler->loop->polled_count += place == POLL_ACTIVE;
    TAILQ_INSERT_TAIL(place_of(handler), handler, polled_link);
}

void polling_forget_all(struct rt_loop *loop)
{
    TAILQ_INIT(&loop->polled);
    TAILQ_INIT(&loop->resting);
    TAILQ_INIT(&loop->closed);
    loop->polled_count = 0;
    loop->polled_serial++;
    loop->polled_changes++;
}

void polling_remember(struct rt_handler *handler)
{
    if (handler->poll_place != POLL_ACTIVE)
        handler->poll_place = polls_forever(handler->loop) || handler->window.ns > 0 ? POLL_RESTING : POLL_CLOSED;
    handler->polled_serial = handler->loop->polled_serial;
    handler->loop->polled_count += handler->poll_place == POLL_ACTIVE;
    TAILQ_INSERT_TAIL(place_of(handler), handler, polled_link);
}

/* The monitor may report one that is so new that the lists lack it, or that was detached and left out of them. */
static bool is_listed(const struct rt_handler *handler)
{
    return handler->polled_serial == handler->loop->polled_serial;
}

/* ---- windows ---- */

/* @handler NULL: that of notifies. */
static void set_window(struct rt_loop *loop, struct rt_handler *handler, int64_t ns)
{
    struct poll_window *window = handler ? &handler->window : &loop->notify_window;
    if (ns == window->ns)
        return;
    lttng_ust_tracepoint(rt_loop, poll_adjust, loop->id, window->ns, ns, handler ? handler->id : 0);
    window->ns = ns;
    window->vain_ns = 0;
    if (handler && handler->poll_place == POLL_CLOSED && ns > 0)
        move_to(handler, POLL_RESTING);
    else if (handler && handler->poll_place == POLL_RESTING && ns == 0)
        move_to(handler, POLL_CLOSED);
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

/* It was not polled and something came, @idle_ns after there was nothing to do. */
static void adapt(struct rt_loop *loop, struct rt_handler *handler, int64_t idle_ns)
{
    int64_t ns = window_ns(loop, handler ? &handler->window : &loop->notify_window);
    if (idle_ns > loop->poll_limit_ns)
        set_window(loop, handler, shrunk(ns)); /* it takes too long */
    else if (idle_ns >= ns)
        set_window(loop, handler, grown(ns, loop->poll_limit_ns)); /* a longer window would have seen it coming */
}

/* Polled for @vain_ns more without result, one of @count that were polled together and share what that costs. At most one
 * window at a time: the rest was work of others, or its own, or a thread that had no processor. */
static void charge(struct rt_loop *loop, struct rt_handler *handler, int64_t vain_ns, unsigned count)
{
    struct poll_window *window = handler ? &handler->window : &loop->notify_window;
    int64_t ns = window_ns(loop, window);
    window->vain_ns += vain_ns < ns ? vain_ns : ns;
    if (window->vain_ns > POLL_VAIN_WINDOWS * ns * count) {
        window->vain_ns = 0;
        set_window(loop, handler, shrunk(ns));
    }
}

/* Charge a handler in a phase for the time up to now. */
static void charge_active(struct rt_handler *handler, int64_t now_ns)
{
    struct rt_loop *loop = handler->loop;
    if (!polls_forever(loop))
        charge(loop, handler, now_ns - handler->window.since_ns, loop->polled_count);
    handler->window.since_ns = now_ns;
}

static void paid(struct rt_loop *loop, struct poll_window *window)
{
    window->vain_ns = 0;
    window->since_ns = loop->poll_clock_ns;
}

/* ---- a phase ---- */

/* Everybody whose window is open joins. */
void polling_join(struct rt_loop *loop, int64_t now_ns)
{
    struct rt_handler *handler, *next;
    for (handler = TAILQ_FIRST(&loop->resting); handler; handler = next) {
        next = TAILQ_NEXT(handler, polled_link);
        /* One whose callback is on the stack joins another time. */
        if (handler_is_running(handler) || !handler_enter(handler))
            continue;
        move_to(handler, POLL_ACTIVE);
        handler->window.since_ns = now_ns;
        handler->poll_started = true;
        if (handler->callbacks.poll_begin)
            handler->callbacks.poll_begin(handler->opaque);
        handler_leave(handler);
    }
}

/* Returns whether work slipped in; then it is in loop->ready. */
static bool leave(struct rt_handler *handler, int64_t now_ns)
{
    if (handler_is_running(handler) || !handler_enter(handler))
        return false; /* the outer pass ends it; or it is detached, and whoever does that ends it */
    charge_active(handler, now_ns);
    move_to(handler, handler->window.ns > 0 || polls_forever(handler->loop) ? POLL_RESTING : POLL_CLOSED);
    handler->poll_started = false;
    bool slipped_in = handler->callbacks.poll_end && handler->callbacks.poll_end(handler->opaque);
    if (slipped_in)
        handler_set_ready(handler, HANDLER_READY_POLL);
    handler_leave(handler);
    return slipped_in;
}

/* Those whose window has run out at @now_ns leave the phase that began at @started_ns. Returns when the next one
 * does; 0: nobody is left. */
static int64_t leave_in_time(struct rt_loop *loop, int64_t started_ns, int64_t now_ns)
{
    int64_t next_ns = window_ns(loop, &loop->notify_window);
    if (now_ns - started_ns >= next_ns)
        next_ns = 0;
    struct rt_handler *handler, *next;
    for (handler = TAILQ_FIRST(&loop->polled); handler; handler = next) {
        next = TAILQ_NEXT(handler, polled_link);
        int64_t ns = window_ns(loop, &handler->window);
        if (now_ns - started_ns >= ns)
            (void)leave(handler, now_ns);
        else if (next_ns == 0 || ns < next_ns)
            next_ns = ns;
    }
    return next_ns == 0 ? 0 : started_ns + next_ns;
}

/* Where others keep ending the phases no window runs out: who is polled in vain leaves nevertheless. */
static void review(struct rt_loop *loop, int64_t now_ns)
{
    struct rt_handler *handler, *next;
    for (handler = TAILQ_FIRST(&loop->polled); handler && !polls_forever(loop); handler = next) {
        next = TAILQ_NEXT(handler, polled_link);
        charge_active(handler, now_ns);
        if (handler->window.ns == 0)
            (void)leave(handler, now_ns);
    }
}

/* One look at every handler in the phase. Returns the first that has work. */
static struct rt_handler *look(struct rt_loop *loop)
{
    struct rt_handler *handler, *first = NULL;
    handler_refresh_polled(loop, false);
    TAILQ_FOREACH(handler, &loop->polled, polled_link)
    {
        if (handler_is_running(handler) || !handler_enter(handler))
            continue;
        bool has_work = handler->callbacks.poll(handler->opaque);
        handler_leave(handler);
        if (has_work) {
            handler_set_ready(handler, HANDLER_READY_POLL);
            paid(loop, &handler->window);
            first = first ? first : handler;
        }
    }
    return first;
}

/* One look at one of those whose windows are closed, in turn. Nobody turned their notifications off, but the monitor,
 * where they show too, is asked seldom while polling goes well. Returns it if it has work. */
static struct rt_handler *peek(struct rt_loop *loop, int64_t started_ns, int64_t now_ns)
{
    struct rt_handler *handler = TAILQ_FIRST(&loop->closed);
    if (!handler || now_ns - loop->peeked_ns < POLL_PEEK_INTERVAL_NS)
        return NULL;
    loop->peeked_ns = now_ns;
    move_to(handler, POLL_CLOSED); /* to the end of the line */
    if (handler_is_running(handler) || !handler_enter(handler))
        return NULL;
    bool has_work = handler->callbacks.poll(handler->opaque);
    handler_leave(handler);
    if (!has_work)
        return NULL;
    handler_set_ready(handler, HANDLER_READY_POLL);
    adapt(loop, handler, now_ns - started_ns);
    return handler;
}

void polling_look(struct rt_loop *loop)
{
    if (!TAILQ_EMPTY(&loop->polled))
        (void)look(loop);
}

/* The monitor has reported some, @idle_ns after there was nothing to do. */
static void adapt_reported(struct rt_loop *loop, int64_t idle_ns)
{
    struct rt_handler *handler;
    TAILQ_FOREACH(handler, &loop->ready, ready_link)
    {
        /* One in a phase was kicked before it joined. */
        if ((handler->ready & HANDLER_READY_FD) && handler_can_poll(handler) && is_listed(handler) &&
            handler->poll_place != POLL_ACTIVE)
            adapt(loop, handler, idle_ns);
    }
}

/* Look until it pays or @deadline_ns, or nobody is left. Returns whether it paid; *cause_out is who has work, NULL:
 * somebody notified. */
static bool look_until(struct rt_loop *loop, int64_t started_ns, int64_t deadline_ns, struct rt_handler **cause_out)
{
    int64_t leave_ns = polls_forever(loop) ? DEADLINE_NEVER : started_ns;
    for (unsigned looks = 1;; looks++) {
        cpu_relax();
        *cause_out = look(loop);
        if (*cause_out || loop_is_notified(loop))
            return true;
        if (looks % POLL_LOOKS_PER_CLOCK != 0)
            continue;
        int64_t now_ns = loop->poll_clock_ns = rt_clock_ns();
        if (now_ns >= deadline_ns)
            return false;
        if (polls_forever(loop))
            polling_join(loop, now_ns); /* who was attached meanwhile: this phase may have no end */
        if (loop->poll_limit_ns == RT_WHILE_ATTACHED && TAILQ_EMPTY(&loop->polled))
            return false;
        if (now_ns >= leave_ns)
            leave_ns = leave_in_time(loop, started_ns, now_ns);
        bool due = polling_monitor_due(loop, now_ns);
        if (due)
            review(loop, now_ns);
        if (due || loop->monitor_ops->looks_in_memory) {
            (void)loop_look_at_monitor(loop, 0);
            if (!polls_forever(loop))
                adapt_reported(loop, now_ns - started_ns);
        }
        (void)peek(loop, started_ns, now_ns);
        *cause_out = TAILQ_FIRST(&loop->ready); /* reported, slipped in, or found just now */
        if (*cause_out || leave_ns == 0)
            return *cause_out != NULL;
    }
}

/* The longest that this phase may last, for the trace. */
static int64_t widest_ns(const struct rt_loop *loop)
{
    int64_t widest_ns = window_ns(loop, &loop->notify_window);
    struct rt_handler *handler;
    TAILQ_FOREACH(handler, &loop->polled, polled_link)
    {
        int64_t ns = window_ns(loop, &handler->window);
        widest_ns = ns > widest_ns ? ns : widest_ns;
    }
    return widest_ns == DEADLINE_NEVER ? RT_FOREVER : widest_ns;
}

bool polling_run(struct rt_loop *loop, int64_t deadline_ns, int64_t *now_ns)
{
    int64_t started_ns = loop->poll_clock_ns = *now_ns;

    polling_join(loop, started_ns);
    lttng_ust_tracepoint(rt_loop, poll_begin, loop->id, widest_ns(loop),
                         polling_timeout(loop, started_ns));
    struct rt_handler *cause = look(loop), *peeked = peek(loop, started_ns, started_ns);
    cause = cause ? cause : peeked;
    bool progress = cause || loop_is_notified(loop);
    if (!progress) { /* a busy loop finds work at once: no time to be told apart */
        phase_enter(loop, LOOP_POLLING, started_ns, 0);
        progress = look_until(loop, started_ns, deadline_ns, &cause);
        *now_ns = loop->poll_clock_ns = rt_clock_ns();
        phase_enter(loop, LOOP_BUSY, *now_ns, 0);
    }
    if (progress && !cause)
        paid(loop, &loop->notify_window);
    else if (loop->notify_window.ns > 0 && !polls_forever(loop))
        charge(loop, NULL, *now_ns - started_ns, 1);
    total_add(&loop->polls, 1);
    if (progress)
        total_add(&loop->polls_useful, 1);
    lttng_ust_tracepoint(rt_loop, poll_end, loop->id, progress, cause ? cause->id : 0);
    return progress;
}

bool polling_stop(struct rt_loop *loop, int64_t now_ns)
{
    bool slipped_in = false;
    struct rt_handler *handler, *next;
    for (handler = TAILQ_FIRST(&loop->polled); handler; handler = next) {
        next = TAILQ_NEXT(handler, polled_link);
        slipped_in |= leave(handler, now_ns);
    }
    return slipped_in;
}

void polling_monitor_look(struct rt_loop *loop, int64_t now_ns)
{
    bool enabled = polling_enabled(loop);
    if (enabled) {
        now_ns = now_ns != 0 ? now_ns : rt_clock_ns();
        if (!polling_monitor_due(loop, now_ns))
            return;
        loop->poll_clock_ns = now_ns;
        review(loop, now_ns);
    }
    if (loop_look_at_monitor(loop, 0) > 0 && enabled && !polls_forever(loop))
        adapt_reported(loop, 0); /* they had to wait for this look */
}

void polling_waited(struct rt_loop *loop, int64_t idle_ns)
{
    if (loop->poll_limit_ns == 0 || polls_forever(loop))
        return;
    adapt_reported(loop, idle_ns);
    if (loop_is_notified(loop) || loop->wakeup->ready)
        adapt(loop, NULL, idle_ns);
}
