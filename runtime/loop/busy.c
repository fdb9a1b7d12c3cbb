/*
 * A loop with a processor of its own (RT_FOREVER, RT_WHILE_ATTACHED): between passes it goes round among those who can be
 * polled and has their work done on the spot. A pass comes when there is something that only a pass does: published or
 * queued work, a timer, a descriptor.
 *
 * Nothing is read, written or traced in a round but what the handlers do, and no system call is made. The clock is read once in some rounds;
 * then timers and descriptors have their turn, and the time since is shared out: what rounds without work cost is
 * known from times when there was none, the rest was work.
 */
#include "loop/loop_internal.h"
#include "tracepoints/loop.h"

/* The clock is read, and everything but the handlers looked at, once in so many rounds. */
#define ROUNDS_PER_CLOCK 16

/* A new estimate of what an idle round costs moves the old one by so much if it is higher: whoever lost the processor
 * meanwhile measured something else. */
#define IDLE_ESTIMATE_SHARE 64

struct busy {
    bool told;          /* poll_begin stands in the trace, and poll_end does not */
    unsigned rounds, idle_rounds; /* since the clock was read */
    int64_t clock_ns;
};

static void tell_begin(struct rt_loop *loop, struct busy *busy)
{
    if (busy->told)
        return;
    busy->told = true;
    total_add(&loop->polls, 1);
    lttng_ust_tracepoint(rt_loop, poll_begin, loop->id, RT_FOREVER, polling_timeout(loop, busy->clock_ns));
}

static void tell_end(struct rt_loop *loop, struct busy *busy, bool progress, uint64_t handler_id)
{
    if (!busy->told)
        return;
    busy->told = false;
    if (progress)
        total_add(&loop->polls_useful, 1);
    lttng_ust_tracepoint(rt_loop, poll_end, loop->id, progress, handler_id);
}

/* Everybody once. Returns whether anybody had work. */
static bool go_round(struct rt_loop *loop, struct busy *busy)
{
    uint64_t changes = loop->polled_changes;
    bool worked = false;
    struct rt_handler *handler;

    TAILQ_FOREACH(handler, &loop->polled, polled_link)
    {
        if (handler_is_running(handler) || !handler_enter(handler))
            continue;
        if (handler->callbacks.poll(handler->opaque)) {
            tell_end(loop, busy, true, handler->id);
            (void)handler_dispatch_polled(handler);
            worked = true;
        }
        handler_end_dispatch(handler);
        /* A pass that was nested in it, or its detach, may have changed the list. */
        if (loop->polled_changes != changes)
            break;
    }
    return worked;
}

static bool needs_pass(struct rt_loop *loop)
{
    return loop_is_notified(loop) || loop_has_queued_work(loop) ||
           atomic_load_explicit(&loop->quit, memory_order_relaxed);
}

/* Share out the time since the clock was read last. */
static void share_out(struct rt_loop *loop, struct busy *busy)
{
    int64_t now_ns = rt_clock_ns(), elapsed_ns = now_ns - busy->clock_ns, idle_ns = elapsed_ns;

    if (busy->idle_rounds < busy->rounds) {
        idle_ns = loop->idle_rounds_ns * busy->idle_rounds / ROUNDS_PER_CLOCK;
        idle_ns = idle_ns < elapsed_ns ? idle_ns : elapsed_ns;
    } else if (busy->rounds == ROUNDS_PER_CLOCK) {
        if (loop->idle_rounds_ns == 0 || elapsed_ns < loop->idle_rounds_ns)
            loop->idle_rounds_ns = elapsed_ns;
        else
            loop->idle_rounds_ns += (elapsed_ns - loop->idle_rounds_ns) / IDLE_ESTIMATE_SHARE;
    }
    phase_share(loop, now_ns, idle_ns);
    busy->rounds = busy->idle_rounds = 0;
    busy->clock_ns = loop->poll_clock_ns = now_ns;
}

/* What comes once in some rounds. Returns whether to go on with rounds. */
static bool look_around(struct rt_loop *loop, struct busy *busy)
{
    share_out(loop, busy);
    hog_begin(loop);
    /* No pass comes for what handlers detach themselves. Nothing is ready, or a pass would be due. */
    if (loop->depth == 1)
        handler_reap(loop);
    if (!busy_enabled(loop) ||
        busy->clock_ns >= atomic_load_explicit(&loop->next_deadline_ns, memory_order_relaxed))
        return false;
    polling_join(loop, busy->clock_ns);
    if (!polling_monitor_due(loop, busy->clock_ns) || loop_look_at_monitor(loop, 0) <= 0)
        return true;
    /* Here, because the pass begins with freeing handlers that were detached: none of them may be ready then. */
    tell_end(loop, busy, true, TAILQ_FIRST(&loop->ready)->id);
    (void)handler_dispatch(loop);
    busy->rounds = 1; /* the time was work */
    return false;
}

bool busy_enabled(struct rt_loop *loop)
{
    int64_t max_ns = atomic_load_explicit(&loop->poll_max_ns, memory_order_relaxed);

    /* A change is taken up by a pass. In the old way of notifying the flag would be down all the time. */
    if (!polls_without_end(max_ns) || !polls_without_end(loop->poll_limit_ns) || loop->notify_policy == RT_NOTIFY_ALWAYS)
        return false;
    handler_refresh_polled(loop, false);
    return !TAILQ_EMPTY(&loop->polled) || !TAILQ_EMPTY(&loop->resting);
}

void busy_run(struct rt_loop *loop)
{
    struct busy busy = { .clock_ns = rt_clock_ns() };

    if (loop->depth == 0)
        handler_reap(loop);
    loop->depth++;
    loop->poll_clock_ns = busy.clock_ns;
    phase_enter(loop, LOOP_POLLING, busy.clock_ns, 0);
    polling_join(loop, busy.clock_ns);
    hog_begin(loop);
    do {
        busy.rounds++;
        if (go_round(loop, &busy)) {
            total_add(&loop->passes, 1);
        } else {
            busy.idle_rounds++;
            tell_begin(loop, &busy);
        }
    } while (!needs_pass(loop) && (busy.rounds < ROUNDS_PER_CLOCK || look_around(loop, &busy)));
    tell_end(loop, &busy, needs_pass(loop), 0);
    share_out(loop, &busy);
    phase_enter(loop, LOOP_BUSY, busy.clock_ns, 0);
    loop->depth--;
}
