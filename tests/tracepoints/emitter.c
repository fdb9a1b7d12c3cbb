/* A traced program for the tests of this room.
 *
 *   emitter every          emit every event once, then one that only the set lock records
 *   emitter load           say whether the provider was loaded, and end with status 0 in any case
 *   emitter serve          for each call of session_started emit one baseline bracket and print "started"; after
 *                          "quiet" on stdin ignore sessions and print "quiet"; end at the end of stdin
 *   emitter flood COUNT    emit COUNT events of the set loop as fast as possible
 *   emitter until-signal   emit events of the set loop until SIGTERM or SIGINT, then one last event of the core set
 */
#include "every_event.h"

#include "tracepoints/load.h"
#include "tracepoints/lock.h"
#include "tracepoints/loop.h"
#include "tracepoints/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int load(void (*session_started)(void *), void *opaque)
{
    int result = tracepoints_load(session_started, opaque);

    if (result < 0)
        fprintf(stderr, "emitter: not traceable: %s\n", tracepoints_load_reason());
    return result < 0;
}

static int every(void)
{
    if (load(NULL, NULL) != 0)
        return 1;
    emit_every_event();
    lttng_ust_tracepoint(rt_lock, acquired, 1, 2, 3, 0);
    return 0;
}

static int say_whether_loaded(void)
{
    int result = tracepoints_load(NULL, NULL);

    printf("%s %s\n", strerror(-result), result < 0 ? tracepoints_load_reason() : "");
    if (tracepoints_loaded() != (result == 0) || (result == 0 && tracepoints_load(NULL, NULL) != -EALREADY))
        return 1;
    emit_every_event(); /* must be harmless either way */
    return 0;
}

static void write_event(void *opaque)
{
    eventfd_write(*(int *)opaque, 1);
}

static int serve(void)
{
    int event_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    struct pollfd fds[] = { { .fd = event_fd, .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };
    eventfd_t one;
    uint32_t serial = 0;
    char line[16];

    if (load(write_event, &event_fd) != 0)
        return 1;
    puts("loaded");
    fflush(stdout);
    while (poll(fds, 2, -1) > 0) {
        if (fds[0].revents) {
            eventfd_read(event_fd, &one);
            serial++;
            lttng_ust_tracepoint(rt_process, baseline_begin, serial);
            lttng_ust_tracepoint(rt_process, baseline_end, serial);
            puts("started");
        } else if (!fgets(line, sizeof(line), stdin)) {
            break;
        } else if (strcmp(line, "quiet\n") == 0) {
            tracepoints_ignore_sessions();
            puts("quiet");
        }
        fflush(stdout);
    }
    return 0;
}

static int flood(long count)
{
    if (load(NULL, NULL) != 0)
        return 1;
    for (long i = 0; i < count; i++)
        lttng_ust_tracepoint(rt_loop, fd_dispatch, 1, 7, 31, 1);
    return 0;
}

static volatile sig_atomic_t signalled;

static void on_signal(int number)
{
    signalled++;
}

static int until_signal(void)
{
    struct sigaction action = { .sa_handler = on_signal };

    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    if (load(NULL, NULL) != 0)
        return 1;
    lttng_ust_tracepoint(rt_loop, create, 1, "until-signal", 0);
    puts("ready");
    fflush(stdout);
    while (!signalled) {
        lttng_ust_tracepoint(rt_loop, fd_dispatch, 1, 7, 31, 1);
        poll(NULL, 0, 1);
    }
    lttng_ust_tracepoint(rt_loop, destroy, 1);
    return signalled == 1 ? 0 : 3;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    if (strcmp(mode, "every") == 0)
        return every();
    if (strcmp(mode, "load") == 0)
        return say_whether_loaded();
    if (strcmp(mode, "serve") == 0)
        return serve();
    if (strcmp(mode, "flood") == 0 && argc > 2)
        return flood(atol(argv[2]));
    if (strcmp(mode, "until-signal") == 0)
        return until_signal();
    fputs("usage: emitter every|load|serve|flood COUNT|until-signal\n", stderr);
    return 2;
}
