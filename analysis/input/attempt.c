#include "input/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "input/graph.h"
#include "input/workers.h"

#define PROGRESS_INTERVAL_US (G_USEC_PER_SEC / 10)

/* What the child writes into the pipe: a header, then size_bytes of text or numbers. */
enum frame_kind { FRAME_PROGRESS, FRAME_REPORT, FRAME_STATUS, FRAME_FAILURE, FRAME_INTERRUPTED, FRAME_DONE };

struct frame_header {
    uint32_t kind;
    uint32_t size_bytes;
};

static volatile sig_atomic_t child_pid;
static volatile sig_atomic_t interrupt_count;

void attempt_interrupt(void)
{
    pid_t pid = child_pid;

    interrupt_count++;
    if (pid > 0)
        (void)kill(pid, interrupt_count > 1 ? SIGKILL : SIGINT);
}

static void on_signal(int number)
{
    attempt_interrupt();
}

void attempt_handle_signals(void)
{
    const struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

bool attempt_interrupted(void)
{
    return interrupt_count > 0;
}

/* The child */

struct child {
    const struct attempt_job *job;
    int fd;
    struct intake *intake;
    gint64 last_progress_us;
    uint64_t packets_told;
};

static void send_frame(int fd, enum frame_kind kind, const void *payload, size_t size_bytes)
{
    const struct frame_header header = { .kind = kind, .size_bytes = size_bytes };
    const char *parts[] = { (const char *)&header, payload };
    size_t sizes[] = { sizeof(header), size_bytes };

    for (int i = 0; i < 2; i++) {
        for (size_t sent = 0; sent < sizes[i];) {
            ssize_t count = write(fd, parts[i] + sent, sizes[i] - sent);

            if (count < 0 && errno != EINTR)
                _exit(1); /* the parent is gone */
            sent += MAX(count, 0);
        }
    }
}

static void send_progress(void *data)
{
    struct child *child = data;
    gint64 now_us = g_get_monotonic_time();
    struct feed_progress progress = intake_progress(child->intake);
    bool counts_packets = !child->job->analysis_options && progress.packet_count != child->packets_told;

    if (now_us - child->last_progress_us < PROGRESS_INTERVAL_US && !counts_packets)
        return;
    child->last_progress_us = now_us;
    child->packets_told = progress.packet_count;
    send_frame(child->fd, FRAME_PROGRESS, &progress, sizeof(progress));
}

static void on_child_signal(int number)
{
    graph_interrupt();
}

static void send_report(struct child *child, struct analysis *analysis)
{
    json_t *report = analysis_report(analysis);
    char *text = json_dumps(report, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    int32_t status = analysis_exit_status(analysis);

    send_frame(child->fd, FRAME_REPORT, text, strlen(text));
    send_frame(child->fd, FRAME_STATUS, &status, sizeof(status));
    free(text);
    json_decref(report);
}

/* NULL, or why reading failed. */
static char *read_alone(struct child *child, bool *interrupted_out)
{
    const struct attempt_job *job = child->job;
    struct feed *feed = feed_create(&intake_target, child->intake);
    const struct graph_job graph_job = {
        .feed = feed, .share = { .index = 0, .count = 1 }, .batch = send_progress, .data = child
    };
    char *why;

    for (unsigned i = 0; i < job->expected->len; i++)
        feed_expect(feed, g_ptr_array_index(job->expected, i));
    why = graph_run(job->folders, &graph_job, interrupted_out);
    feed_destroy(feed);
    return why;
}

static char *read_with_others(struct child *child, bool *interrupted_out)
{
    const struct attempt_job *job = child->job;
    const struct workers_job workers_job = {
        .count = job->decoders,
        .folders = job->folders,
        .expected = job->expected,
        .intake = child->intake,
        .batch = send_progress,
        .data = child,
    };

    return workers_run(&workers_job, interrupted_out);
}

static void run_child(const struct attempt_job *job, int fd)
{
    struct analysis_options quick;
    struct child child = { .job = job, .fd = fd };
    struct analysis *analysis;
    bool interrupted = false;
    char *why;

    if (!job->analysis_options)
        analysis_options_init(&quick);
    analysis = analysis_create(job->analysis_options ? job->analysis_options : &quick);
    child.intake = intake_create(analysis);
    for (unsigned i = 0; i < job->expected->len; i++)
        intake_expect(child.intake, g_ptr_array_index(job->expected, i));
    why = job->decoders > 0 ? read_with_others(&child, &interrupted) : read_alone(&child, &interrupted);
    child.last_progress_us = 0;
    send_progress(&child);
    if (interrupted)
        send_frame(fd, FRAME_INTERRUPTED, NULL, 0);
    if (why) {
        send_frame(fd, FRAME_FAILURE, why, strlen(why));
    } else if (job->analysis_options) {
        intake_finish(child.intake);
        for (unsigned i = 0; job->refusals && i < job->refusals->len; i++) {
            const struct input_refusal *refusal = g_ptr_array_index(job->refusals, i);

            analysis_unreadable(analysis, refusal->path, refusal->reason);
        }
        analysis_finish(analysis, interrupted);
        send_report(&child, analysis);
    }
    intake_destroy(child.intake);
    analysis_destroy(analysis);
    send_frame(fd, FRAME_DONE, NULL, 0);
    g_free(why);
}

/* The parent */

struct parent {
    const struct attempt_job *job;
    struct attempt_result *result;
    GByteArray *received;
    bool done;
};

static char *payload_text(const uint8_t *payload, size_t size_bytes)
{
    return g_strndup((const char *)payload, size_bytes);
}

static void take_frame(struct parent *parent, enum frame_kind kind, const uint8_t *payload, size_t size_bytes)
{
    struct attempt_result *result = parent->result;
    struct feed_progress progress;
    int32_t status;

    switch (kind) {
    case FRAME_PROGRESS:
        memcpy(&progress, payload, sizeof(progress));
        result->packet_count = progress.packet_count;
        if (parent->job->progress)
            parent->job->progress(parent->job->data, &progress);
        break;
    case FRAME_REPORT:
        result->report = payload_text(payload, size_bytes);
        break;
    case FRAME_STATUS:
        memcpy(&status, payload, sizeof(status));
        result->exit_status = status;
        break;
    case FRAME_FAILURE:
        result->failure = payload_text(payload, size_bytes);
        break;
    case FRAME_INTERRUPTED:
        result->interrupted = true;
        break;
    case FRAME_DONE:
        parent->done = true;
        break;
    }
}

static void take_frames(struct parent *parent)
{
    struct frame_header header;
    guint used = 0;

    while (parent->received->len - used >= sizeof(header)) {
        memcpy(&header, parent->received->data + used, sizeof(header));
        if (parent->received->len - used - sizeof(header) < header.size_bytes)
            break;
        take_frame(parent, header.kind, parent->received->data + used + sizeof(header), header.size_bytes);
        used += sizeof(header) + header.size_bytes;
    }
    if (used > 0)
        g_byte_array_remove_range(parent->received, 0, used);
}

/* Until the child closes the pipe or stalls. Returns false if it stalled. */
static bool listen_to(struct parent *parent, int fd)
{
    gint64 stall_us = (gint64)parent->job->stall_seconds * G_USEC_PER_SEC;
    gint64 last_us = g_get_monotonic_time();
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    uint8_t bytes[65536];

    for (;;) {
        gint64 left_us = last_us + stall_us - g_get_monotonic_time();
        /* at least a second: after a Ctrl-Z the time is up, but the child needs a moment to go on */
        int ready = poll(&poll_fd, 1, (int)MAX(left_us / 1000, 1000));
        ssize_t count;

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return false;
        count = read(fd, bytes, sizeof(bytes));
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return true;
        g_byte_array_append(parent->received, bytes, count);
        take_frames(parent);
        last_us = g_get_monotonic_time();
    }
}

static void judge(struct parent *parent, bool stalled, int wait_status)
{
    struct attempt_result *result = parent->result;

    if (interrupt_count > 1 && !parent->done)
        result->interrupted = true;
    if (parent->done || result->failure)
        return;
    result->stalled = stalled;
    if (stalled)
        result->failure = g_strdup_printf("babeltrace2 got no further for %u s", parent->job->stall_seconds);
    else if (WIFSIGNALED(wait_status))
        result->failure = g_strdup_printf("babeltrace2 crashed (%s)", strsignal(WTERMSIG(wait_status)));
    else
        result->failure =
            g_strdup_printf("babeltrace2 ended the process (status %d)", WEXITSTATUS(wait_status));
}

static void silence(int fd)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (null >= 0) {
        (void)dup2(null, fd);
        close(null);
    }
}

static pid_t fork_child(const struct attempt_job *job, int *fd_out)
{
    pid_t parent_pid = getpid(), pid;
    int fds[2];

    if (pipe(fds) < 0)
        return -1;
    fflush(NULL); /* nothing is written twice */
    pid = fork();
    if (pid == 0) {
        struct sigaction action = { .sa_handler = on_child_signal, .sa_flags = SA_RESTART };

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent_pid)
            _exit(1); /* it died before that took effect */
        close(fds[0]);
        child_pid = 0;
        if (!job->analysis_options)
            silence(STDERR_FILENO); /* a library's last words were heard when all was tried */
        (void)sigaction(SIGINT, &action, NULL);
        (void)sigaction(SIGTERM, &action, NULL);
        (void)sigaction(SIGHUP, &action, NULL);
        if (interrupt_count > 0)
            graph_interrupt();
        run_child(job, fds[1]);
        exit(0);
    }
    close(fds[1]);
    if (pid < 0)
        close(fds[0]);
    *fd_out = fds[0];
    return pid;
}

void attempt_run(const struct attempt_job *job, struct attempt_result *result_out)
{
    struct parent parent = { .job = job, .result = result_out, .received = g_byte_array_new() };
    int fd = -1, wait_status = 0;
    bool stalled;
    pid_t pid;

    memset(result_out, 0, sizeof(*result_out));
    pid = fork_child(job, &fd);
    if (pid < 0) {
        result_out->failure = g_strdup_printf("cannot start a process: %s", g_strerror(errno));
        g_byte_array_unref(parent.received);
        return;
    }
    child_pid = pid;
    stalled = !listen_to(&parent, fd);
    if (stalled)
        (void)kill(pid, SIGKILL);
    close(fd);
    while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR)
        continue;
    child_pid = 0;
    judge(&parent, stalled, wait_status);
    g_byte_array_unref(parent.received);
}

void attempt_result_clear(struct attempt_result *result)
{
    g_free(result->failure);
    g_free(result->report);
    memset(result, 0, sizeof(*result));
}
