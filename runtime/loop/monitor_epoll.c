#include "loop/monitor.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "loop/handler.h"

struct monitor {
    int epoll_fd;
    bool coarse_timeouts; /* the kernel has no epoll_pwait2 (before Linux 5.11) */

    /* Under the loop's registry lock: who was added last with which number, NULL: it was removed. */
    struct rt_handler **latest;
    int latest_count;
};

static int epoll_monitor_probe(void)
{
    return 0;
}

static int epoll_monitor_create(struct monitor **monitor_out)
{
    struct monitor *monitor = calloc(1, sizeof(*monitor));
    if (!monitor)
        return -ENOMEM;
    monitor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (monitor->epoll_fd < 0) {
        int error = -errno;
        free(monitor);
        return error;
    }
    *monitor_out = monitor;
    return 0;
}

static void epoll_monitor_destroy(struct monitor *monitor)
{
    if (!monitor)
        return;
    (void)close(monitor->epoll_fd);
    free(monitor->latest);
    free(monitor);
}

static int control(struct monitor *monitor, int operation, struct rt_handler *handler, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = handler };
    return epoll_ctl(monitor->epoll_fd, operation, handler->fd, &event) < 0 ? -errno : 0;
}

static int make_room(struct monitor *monitor, int fd)
{
    if (fd < monitor->latest_count)
        return 0;
    int count = fd < 64 ? 128 : 2 * fd;
    struct rt_handler **latest = realloc(monitor->latest, (size_t)count * sizeof(*latest));
    if (!latest)
        return -ENOMEM;
    for (int i = monitor->latest_count; i < count; i++)
        latest[i] = NULL;
    monitor->latest = latest;
    monitor->latest_count = count;
    return 0;
}

static int epoll_monitor_add(struct monitor *monitor, struct rt_handler *handler)
{
    int error = make_room(monitor, handler->fd);
    if (!error)
        error = control(monitor, EPOLL_CTL_ADD, handler, EPOLLIN);
    if (!error)
        monitor->latest[handler->fd] = handler;
    return error;
}

/* epoll watches files and changes by number. If a younger handler came with the same number then ours was closed, since
 * epoll takes a number twice only for two files: it would change the younger one's, and go on reporting ours. */
static bool has_number(const struct monitor *monitor, const struct rt_handler *handler)
{
    return monitor->latest[handler->fd] == handler;
}

static int epoll_monitor_remove(struct monitor *monitor, struct rt_handler *handler)
{
    if (!has_number(monitor, handler))
        return -EBADF;
    monitor->latest[handler->fd] = NULL;
    return control(monitor, EPOLL_CTL_DEL, handler, 0);
}

/* ONESHOT, because epoll always adds EPOLLHUP and EPOLLERR: a peer that hangs up is reported once more, then
 * no more. */
static int epoll_monitor_pause(struct monitor *monitor, struct rt_handler *handler)
{
    return has_number(monitor, handler) ? control(monitor, EPOLL_CTL_MOD, handler, EPOLLONESHOT) : -EBADF;
}

static int epoll_monitor_resume(struct monitor *monitor, struct rt_handler *handler)
{
    return has_number(monitor, handler) ? control(monitor, EPOLL_CTL_MOD, handler, EPOLLIN) : -EBADF;
}

static int wait_coarse(struct monitor *monitor, struct epoll_event *events, int64_t timeout_ns)
{
    int timeout_ms = -1;
    if (timeout_ns >= 0) {
        int64_t rounded_up = timeout_ns / 1000000 + (timeout_ns % 1000000 != 0);
        timeout_ms = rounded_up > INT32_MAX ? INT32_MAX : (int)rounded_up;
    }
    return epoll_wait(monitor->epoll_fd, events, MONITOR_READY_MAX, timeout_ms);
}

static int epoll_monitor_wait(struct monitor *monitor, struct rt_handler **ready, int64_t timeout_ns)
{
    struct epoll_event events[MONITOR_READY_MAX];
    int count;
    if (timeout_ns == 0 || timeout_ns == -1 || monitor->coarse_timeouts) {
        count = wait_coarse(monitor, events, timeout_ns);
    } else {
        struct timespec timeout = { .tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000 };
        count = epoll_pwait2(monitor->epoll_fd, events, MONITOR_READY_MAX, &timeout, NULL);
        if (count < 0 && errno == ENOSYS) {
            monitor->coarse_timeouts = true;
            count = wait_coarse(monitor, events, timeout_ns);
        }
    }
    if (count < 0)
        return -errno;
    for (int i = 0; i < count; i++)
        ready[i] = events[i].data.ptr;
    return count;
}

const struct monitor_ops monitor_epoll = {
    .name = "epoll",
    .probe = epoll_monitor_probe,
    .create = epoll_monitor_create,
    .destroy = epoll_monitor_destroy,
    .add = epoll_monitor_add,
    .remove = epoll_monitor_remove,
    .pause = epoll_monitor_pause,
    .resume = epoll_monitor_resume,
    .wait = epoll_monitor_wait,
};
