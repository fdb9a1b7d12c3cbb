#include "coroutine/switch.h"
#include "coroutine/thread.h"

/* Without ASan's fake frames: this frame outlives the lives that run on it. */
__attribute__((no_sanitize("address"))) static void start(struct transfer first)
{
    struct rt_coroutine *caller = first.data;
    struct rt_coroutine *self = rt_thread_self()->current;

    caller->context = first.context;
    announce_arrive(self, caller);
    rt_coroutine_main(self);
}

void switch_prepare(struct rt_coroutine *co)
{
    co->context = make_fcontext((char *)co->stack_base + co->stack_bytes, co->stack_bytes, start);
}
