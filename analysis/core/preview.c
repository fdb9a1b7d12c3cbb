#include <errno.h>
#include <glib.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/analysis.h"

/* A report takes milliseconds. What takes so long hangs: on a lock that another thread held at the fork. */
#define DEADLINE_US (20 * G_USEC_PER_SEC)

static void send_report(struct analysis *analysis, int fd)
{
    json_t *report;
    char *text;
    size_t left;

    analysis_finish(analysis, false);
    report = analysis_report(analysis);
    text = json_dumps(report, JSON_COMPACT | JSON_PRESERVE_ORDER);
    left = text ? strlen(text) : 0;
    for (const char *at = text; left > 0;) {
        ssize_t count = write(fd, at, left);

        if (count < 0 && errno != EINTR)
            _exit(1); /* nobody listens */
        at += MAX(count, 0);
        left -= MAX(count, 0);
    }
    _exit(0); /* nothing of the parent's is flushed or cleaned up twice */
}

/* NULL, or what went wrong. */
static char *receive(int fd, GByteArray *received)
{
    gint64 deadline_us = g_get_monotonic_time() + DEADLINE_US;
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    uint8_t bytes[65536];

    for (;;) {
        gint64 left_us = deadline_us - g_get_monotonic_time();
        int ready = left_us > 0 ? poll(&poll_fd, 1, (int)(left_us / 1000) + 1) : 0;
        ssize_t count;

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return g_strdup("the process that makes it got no further");
        count = read(fd, bytes, sizeof(bytes));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return g_strdup_printf("cannot read it: %s", g_strerror(errno));
        if (count == 0)
            return NULL;
        g_byte_array_append(received, bytes, count);
    }
}

static pid_t start(struct analysis *analysis, int *fd_out)
{
    sigset_t all, before;
    int fds[2];
    pid_t pid;

    if (pipe(fds) < 0)
        return -1;
    /* the child must not run handlers of the parent: they would act on what is the parent's */
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid == 0) {
        close(fds[0]);
        send_report(analysis, fds[1]);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(fds[1]);
    if (pid < 0)
        close(fds[0]);
    *fd_out = fds[0];
    return pid;
}

json_t *analysis_preview(struct analysis *analysis, char **why_out)
{
    GByteArray *received = g_byte_array_new();
    json_t *report = NULL;
    json_error_t error;
    int fd = -1, status = 0;
    pid_t pid = start(analysis, &fd);
    char *why = NULL;

    if (pid < 0) {
        why = g_strdup_printf("cannot start a process for it: %s", g_strerror(errno));
    } else {
        pid_t waited;

        why = receive(fd, received);
        close(fd);
        if (why)
            (void)kill(pid, SIGKILL);
        while ((waited = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
            continue;
        if (!why && waited == pid && WIFSIGNALED(status))
            why = g_strdup_printf("the process that makes it crashed (%s)", g_strsignal(WTERMSIG(status)));
        if (!why) {
            report = json_loadb((const char *)received->data, received->len, 0, &error);
            if (!report)
                why = g_strdup("it is not whole");
        }
    }
    g_byte_array_unref(received);
    if (why && why_out)
        *why_out = g_strdup_printf("no preview: %s", why);
    g_free(why);
    return report;
}
