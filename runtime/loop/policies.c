/* What is chosen for all loops of a process before the first is made. */
#include <errno.h>

#include "loop/loop_internal.h"

static const char *const notify_names[] = { [RT_NOTIFY_BLOCKING_ONLY] = "blocking-only", [RT_NOTIFY_ALWAYS] = "always" };

/* Changes only while there is no loop, so that everybody else may read it without a lock. */
static struct rt_loop_policies chosen;

int rt_loop_configure(const struct rt_loop_policies *policies)
{
    if (policies->monitor > RT_LOOP_MONITOR_IO_URING || policies->notify > RT_NOTIFY_ALWAYS)
        return -EINVAL;
    if (policies->monitor != RT_LOOP_MONITOR_EPOLL)
        return -EOPNOTSUPP;
    if (loop_any_exists())
        return -EBUSY;
    chosen = *policies;
    return 0;
}

const struct monitor_ops *policy_monitor(void)
{
    return &monitor_epoll;
}

enum rt_notify_policy policy_notify(void)
{
    return chosen.notify;
}

const char *rt_loop_monitor_name(void)
{
    return policy_monitor()->name;
}

const char *rt_notify_policy_name(void)
{
    return notify_names[chosen.notify];
}
