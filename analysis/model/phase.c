#include "model/phase.h"

/* How far apart two readings of one begin of sleep may be: announced, and by the loop's own event. */
#define SLACK_NS INT64_C(1000000)

static void woke(struct loop *loop, int64_t time_ns)
{
    if (!loop->sleep.asleep)
        return;
    loop->sleep.asleep = false;
    loop->sleep.end_ns = time_ns;
}

static void fell_asleep(struct loop *loop, int64_t since_ns, int64_t timeout_ns)
{
    loop->sleep =
        (struct loop_sleep){ .asleep = true, .known = true, .since_ns = since_ns, .timeout_ns = timeout_ns };
    loop->polling = false;
    loop->poll_handler = 0;
}

static void announced(const struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;
    const int64_t since_ns = what->event->time_ns - (int64_t)f->rt_loop_state.waiting_ns;
    struct loop *loop = what->loop;

    if (!f->rt_loop_state.waiting) {
        /* It was read after the baseline began, so a sleep from before has ended, unseen. */
        if (what->in_baseline && loop->sleep.asleep &&
            loop->sleep.since_ns < what->process->baseline.begin_ns)
            woke(loop, what->event->time_ns);
    } else if (loop->sleep.asleep ? since_ns > loop->sleep.since_ns + SLACK_NS
                                  : since_ns >= loop->active_ns) {
        fell_asleep(loop, since_ns, f->rt_loop_state.timeout_ns); /* unseen */
    }
}

void phase_update(const struct occurrence *what)
{
    const struct event *event = what->event;
    struct loop *loop = what->loop;

    if (!loop)
        return;
    if (event->id == EVENT_rt_loop_state) {
        announced(what);
        return;
    }
    loop->vtid = event->vtid;
    loop->active_ns = event->time_ns;
    switch (event->id) {
    case EVENT_rt_loop_wait_begin:
        fell_asleep(loop, event->time_ns, event->fields.rt_loop_wait_begin.timeout_ns);
        break;
    case EVENT_rt_loop_wait_end:
        loop->sleep.known &=
            loop->sleep.asleep; /* the end of another one than the last that began: begin unknown */
        loop->sleep.asleep = false;
        loop->sleep.end_ns = event->time_ns;
        loop->poll_handler = 0;
        break;
    case EVENT_rt_loop_poll_begin:
        woke(loop, event->time_ns);
        loop->polling = true;
        loop->poll_since_ns = event->time_ns;
        loop->poll_timeout_ns = event->fields.rt_loop_poll_begin.timeout_ns;
        break;
    case EVENT_rt_loop_poll_end:
        loop->polling = false;
        loop->poll_handler =
            event->fields.rt_loop_poll_end.progress ? event->fields.rt_loop_poll_end.handler_id : 0;
        woke(loop, event->time_ns);
        break;
    default:
        woke(loop, event->time_ns);
        break;
    }
}
