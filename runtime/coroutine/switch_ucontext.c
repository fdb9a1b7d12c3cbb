#include "coroutine/switch.h"

#include <stdlib.h>
#include <ucontext.h>

#include "coroutine/thread.h"

/*
 * A context is a kilobyte and lives where it is saved: on the stack of the one who switches away, in switch_to().
 * Only the first one of a coroutine has no such frame; it lies at the bottom of the still unused stack.
 */

__attribute__((no_sanitize("address"))) static void start(void)
{
    struct rt_coroutine *self = rt_thread_self()->current;

    announce_arrive(self, self->came_from);
    rt_coroutine_main(self);
}

void switch_prepare(struct rt_coroutine *co)
{
    ucontext_t *context = co->stack_base;

    if (getcontext(context) < 0)
        abort(); /* has no way to fail with a valid pointer */
    context->uc_stack.ss_sp = co->stack_base;
    context->uc_stack.ss_size = co->stack_bytes;
    context->uc_link = NULL;
    makecontext(context, start, 0);
    co->head.context = context;
}

struct rt_coroutine_arrival switch_to(struct rt_coroutine *from, struct rt_coroutine *to, bool ends)
{
    ucontext_t here;

    from->head.context = &here;
    to->came_from = from;
    announce_leave(from, to, ends);
    if (swapcontext(&here, to->head.context) < 0)
        abort(); /* only for a signal stack that is too small, which none of ours is */
    announce_arrive(from, from->came_from);
    /* Stored once more by our caller, who cannot tell one switch from the other. */
    return (struct rt_coroutine_arrival){ from->came_from->head.context, &from->came_from->head };
}
