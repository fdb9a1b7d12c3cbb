#include "vhost_user/writable.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rt/coroutine.h"

static bool writable(void *opaque)
{
    rt_coroutine_wake(opaque);
    return true;
}

int vhost_user_wait_writable_co(struct rt_loop *loop, int fd, enum rt_fd_role role, uint32_t device_id)
{
    static const struct rt_fd_callbacks callbacks = { .ready = writable };
    struct epoll_event event = { .events = EPOLLOUT };
    struct rt_handler *handler;
    int epoll = epoll_create1(EPOLL_CLOEXEC), error;

    if (epoll < 0)
        return -errno;
    error = epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
    if (!error)
        error = rt_loop_attach_fd(loop, epoll, role, device_id, 0, &callbacks, rt_coroutine_self(), &handler);
    if (!error) {
        rt_coroutine_yield();
        rt_loop_detach_fd(handler);
    }
    close(epoll);
    return error;
}
