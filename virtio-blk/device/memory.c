/*
 * Letting go of a front end's memory. When the guest is gone we may hold the last reference, and giving half a GiB back
 * to the kernel takes hundreds of milliseconds (seen: 312 ms for 512 MiB): a thread of its own does that, so that the
 * main loop goes on serving other disks; the session's coroutine waits.
 */
#include <pthread.h>

#include "device/internal.h"

struct release {
    struct vhost_user_memory_map *map;
    struct rt_coroutine *waiter;
};

static void *release_memory(void *opaque)
{
    struct release *release = opaque;

    pthread_setname_np(pthread_self(), "unmap");
    vhost_user_memory_map_unref(release->map);
    rt_coroutine_wake(release->waiter);
    return NULL;
}

void vblk_memory_release_co(struct vhost_user_memory_map *map)
{
    struct release release = { .map = map, .waiter = rt_coroutine_self() };
    pthread_t thread;

    if (!map)
        return;
    if (pthread_create(&thread, NULL, release_memory, &release) != 0) {
        vhost_user_memory_map_unref(map); /* slow, but done */
        return;
    }
    rt_coroutine_yield();
    pthread_join(thread, NULL); /* at its end already */
}
