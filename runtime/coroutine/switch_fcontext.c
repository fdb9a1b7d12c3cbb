#include "coroutine/switch.h"
#include "coroutine/thread.h"

/* Without ASan's fake frames: this frame outlives the lives that run on it. */
__attribute__((no_sanitize("address"))) static void start(struct rt_coroutine_arrival first)
{
    struct rt_coroutine *self = rt_thread_self()->current;

    first.from->context = first.context;
    announce_arrive(self, coroutine_of_head(first.from));
    rt_coroutine_main(self);
}

void switch_prepare(struct rt_coroutine *co)
{
    co->head.context = make_fcontext((char *)co->stack_base + co->stack_bytes, co->stack_bytes, start);
}
