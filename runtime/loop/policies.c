/* What is chosen for all loops of a process before the first is made. */
#include <errno.h>

#include "loop/loop_internal.h"

static const char *const notify_names[] = { [RT_NOTIFY_BLOCKING_ONLY] = "blocking-only", [RT_NOTIFY_ALWAYS] = "always" };
static const struct monitor_ops *const monitors[] = { [RT_LOOP_MONITOR_EPOLL] = &monitor_epoll,
                                                      [RT_LOOP_MONITOR_IO_URING] = &monitor_io_uring };

/* Changes only while there is no loop, so that everybody else may read it without a lock. */
static struct rt_loop_policies chosen;

int rt_loop_configure(const struct rt_loop_policies *policies)
{
    if (policies->monitor > RT_LOOP_MONITOR_IO_URING || policies->notify > RT_NOTIFY_ALWAYS ||
        (policies->faults && policies->notify == RT_NOTIFY_ALWAYS))
        return -EINVAL;
    if (loop_any_exists())
        return -EBUSY;
    int error = monitors[policies->monitor]->probe();
    if (error)
        return error;
    chosen = *policies;
    return 0;
}

const char *rt_loop_monitor_hint(int error)
{
    switch (error) {
    case -ENOSYS:
        return "this kernel has no io_uring, or a seccomp filter hides it: allow io_uring_setup, io_uring_enter and "
               "io_uring_register, or use epoll";
    case -EPERM:
    case -EACCES:
        return "io_uring is forbidden: set kernel.io_uring_disabled to 0 (sysctl -w kernel.io_uring_disabled=0), let "
               "the seccomp filter or container allow io_uring_setup, io_uring_enter and io_uring_register, or use "
               "epoll";
    case -EOPNOTSUPP:
        return "this kernel's io_uring is too old: use Linux 6.1 or later, or epoll";
    case -EMFILE:
    case -ENFILE:
        return "too many open files: raise the limit (ulimit -n)";
    case -ENOMEM:
        return "no memory for a ring: raise the limit of the memory control group, or of locked memory (ulimit -l)";
    default:
        return "use epoll";
    }
}

const struct monitor_ops *policy_monitor(void)
{
    return monitors[chosen.monitor];
}

enum rt_notify_policy policy_notify(void)
{
    return chosen.notify;
}

unsigned policy_faults(void)
{
    return chosen.faults;
}

const char *rt_loop_monitor_name(void)
{
    return policy_monitor()->name;
}

const char *rt_notify_policy_name(void)
{
    return notify_names[chosen.notify];
}
