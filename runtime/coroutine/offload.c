/* What blocks for long, done in a thread of its own while its coroutine waits. */
#include <pthread.h>
#include <stddef.h>

#include "rt/coroutine.h"

struct offload {
    const char *name;
    void (*fn)(void *opaque);
    void *opaque;
    struct rt_coroutine *waiter;
};

static void *run(void *opaque)
{
    struct offload *offload = opaque;

    pthread_setname_np(pthread_self(), offload->name);
    offload->fn(offload->opaque);
    rt_coroutine_wake(offload->waiter);
    return NULL;
}

void rt_offload_co(const char *name, void (*fn)(void *opaque), void *opaque)
{
    struct offload offload = { .name = name, .fn = fn, .opaque = opaque, .waiter = rt_coroutine_self() };
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, &offload) != 0) {
        fn(opaque); /* slow for all others, but done */
        return;
    }
    rt_coroutine_yield();
    pthread_join(thread, NULL); /* at its end already */
}
