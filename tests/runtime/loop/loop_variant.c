/*
 * Lets one test program run on either monitor: RT_TEST_LOOP_MONITOR in the environment chooses, before main(). Where the
 * kernel has no io_uring the program says so and runs on epoll: what is tested holds for every monitor.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loop_variant.h"

enum rt_loop_monitor variant_monitor(void)
{
    return strcmp(rt_loop_monitor_name(), "io_uring") == 0 ? RT_LOOP_MONITOR_IO_URING : RT_LOOP_MONITOR_EPOLL;
}

__attribute__((constructor)) static void choose_monitor(void)
{
    const char *name = getenv("RT_TEST_LOOP_MONITOR");
    if (!name || strcmp(name, "epoll") == 0)
        return;
    if (strcmp(name, "io_uring") != 0) {
        fprintf(stderr, "RT_TEST_LOOP_MONITOR=%s: must be epoll or io_uring\n", name);
        exit(2);
    }
    int error = rt_loop_configure(&(struct rt_loop_policies){ .monitor = RT_LOOP_MONITOR_IO_URING });
    if (error)
        fprintf(stderr, "%s; tested with epoll\n", rt_loop_monitor_hint(error));
}
