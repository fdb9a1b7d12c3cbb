#include "daemon.h"

#include "command.h"
#include "error.h"
#include "event_sets.h"
#include "watchdog.h"

#include <errno.h>
#include <lttng/lttng.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum {
    ANSWER_TIMEOUT_MS = 10000,  /* of a daemon that says it is ready */
    REGISTER_TIMEOUT_MS = 5000, /* of a process with a daemon that just started; it takes a few ms */
    RETRY_MS = 20,
};

/* Of liblttng-ctl, but in none of its headers: without it the library prints lines of its own beside our errors. */
extern int lttng_opt_quiet __attribute__((weak));

static bool start_daemon(GError **error)
{
    const char *path = g_getenv("LTTNG_SESSIOND_PATH");
    char *argv[] = { (char *)(path && *path ? path : "lttng-sessiond"), (char *)"--daemonize", NULL };
    g_autoptr(GError) cause = NULL;
    g_autofree char *said = NULL;
    bool started;
    int status;

    /* With --daemonize the program that we start ends when the daemon is ready, or says why it is not. The daemon
     * closes its inherited descriptors, so reading stderr to its end does not wait for the daemon itself. */
    record_watchdog_begin("start", argv[0]);
    started = g_spawn_sync(NULL, argv, NULL, G_SPAWN_SEARCH_PATH | G_SPAWN_STDOUT_TO_DEV_NULL,
                           record_reset_signals, NULL, NULL, &said, &status, &cause);
    record_watchdog_end();
    if (!started) {
        g_set_error(
            error, RECORD_ERROR, RECORD_ERROR_FAILED,
            "%s: no LTTng session daemon runs and none can be started: %s (install lttng-tools)", argv[0],
            g_error_matches(cause, G_SPAWN_ERROR, G_SPAWN_ERROR_NOENT) ? "no such program" : cause->message);
        return false;
    }
    if (status != 0) {
        g_strdelimit(g_strstrip(said), "\n", ' ');
        g_set_error(
            error, RECORD_ERROR, RECORD_ERROR_FAILED,
            "%s: the LTTng session daemon does not start: %s (run it by hand, with --verbose, to see why)",
            argv[0], *said ? said : "it gives no reason");
        return false;
    }
    return true;
}

static bool is_alive(void)
{
    bool alive;

    record_watchdog_begin("reach it", "lttng-sessiond");
    alive = lttng_session_daemon_alive() == 1;
    record_watchdog_end();
    return alive;
}

bool record_daemon_ensure(bool *started_out, GError **error)
{
    gint64 deadline;

    if (&lttng_opt_quiet)
        lttng_opt_quiet = 1;
    if (is_alive()) {
        *started_out = false;
        return true;
    }
    if (!start_daemon(error))
        return false;
    deadline = g_get_monotonic_time() + ANSWER_TIMEOUT_MS * 1000;
    while (!is_alive()) {
        if (g_get_monotonic_time() > deadline) {
            g_set_error(
                error, RECORD_ERROR, RECORD_ERROR_FAILED,
                "lttng-sessiond: started, but does not answer within %d s (is its run folder writable?)",
                ANSWER_TIMEOUT_MS / 1000);
            return false;
        }
        g_usleep(RETRY_MS * 1000);
    }
    *started_out = true;
    return true;
}

/* 1: offers our tracepoints; 0: not yet; negative: an LTTng error. */
static int offers_tracepoints(struct lttng_handle *handle, pid_t pid)
{
    struct lttng_event *events = NULL;
    int count, found = 0;

    record_watchdog_begin("list traceable processes", "--pid");
    count = lttng_list_tracepoints(handle, &events);
    record_watchdog_end();
    if (count < 0)
        return count == -LTTNG_ERR_UST_LIST_FAIL ? 0 : count;
    for (int i = 0; i < count && !found; i++)
        found = events[i].pid == pid && strcmp(events[i].name, tracepoints_event_sets[0].name) == 0;
    free(events);
    return found;
}

bool record_daemon_await_process(pid_t pid, GError **error)
{
    struct lttng_domain domain = { .type = LTTNG_DOMAIN_UST, .buf_type = LTTNG_BUFFER_PER_UID };
    struct lttng_handle *handle = lttng_create_handle(NULL, &domain);
    gint64 deadline = g_get_monotonic_time() + REGISTER_TIMEOUT_MS * 1000;
    bool gone, late = false;
    int found = 0;

    do {
        gone = kill(pid, 0) != 0 && errno == ESRCH;
        if (!gone) {
            found = handle ? offers_tracepoints(handle, pid) : -LTTNG_ERR_NOMEM;
            late = g_get_monotonic_time() > deadline;
            if (found == 0 && !late)
                g_usleep(RETRY_MS * 1000);
        }
    } while (found == 0 && !gone && !late);
    lttng_destroy_handle(handle);

    if (gone)
        g_set_error(error, RECORD_ERROR, RECORD_ERROR_FAILED, "--pid: no process %d (see pgrep -a vblkd)",
                    (int)pid);
    else if (found < 0)
        g_set_error(error, RECORD_ERROR, RECORD_ERROR_FAILED, "--pid: cannot list traceable processes: %s",
                    lttng_strerror(found));
    else if (found == 0)
        g_set_error(
            error, RECORD_ERROR, RECORD_ERROR_FAILED,
            "--pid: process %d offers no tracepoints (a vblkd? run by the same user, or root? its log says "
            "whether it is traceable)",
            (int)pid);
    return found > 0;
}
