#include "input/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "input/feed.h"
#include "input/graph.h"
#include "input/ring.h"
#include "input/wire.h"

#define RECORDS_PER_BATCH 4096

struct worker {
    struct ring *ring;
    struct wire_reader reader;
    pid_t pid; /* 0: reaped or never started */
    int wait_status;
    void *record; /* in hand; NULL: none left */
    struct wire_place place;
};

/* The process that decodes */

static void set_place(void *data, int64_t time_ns, unsigned rank)
{
    struct wire_writer *writer = data;

    writer->time_ns = time_ns;
    writer->rank = rank;
}

static void after_batch(void *data)
{
}

static void decode(const struct workers_job *job, struct ring *ring, unsigned index)
{
    struct wire_writer writer = { .ring = ring, .time_ns = TIME_UNKNOWN };
    struct feed *feed = feed_create(&wire_target, &writer);
    const struct graph_job graph_job = {
        .feed = feed,
        .expected = job->expected,
        .share = { .index = index, .count = job->count },
        .place = set_place,
        .batch = after_batch,
        .data = &writer,
    };
    bool interrupted;
    char *why;

    for (unsigned i = 0; i < job->expected->len; i++)
        feed_expect(feed, g_ptr_array_index(job->expected, i));
    why = graph_run(job->folders, &graph_job, &interrupted);
    wire_end(&writer, why);
    g_free(why);
    feed_destroy(feed);
}

static void silence(void)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (null >= 0) {
        (void)dup2(null, STDERR_FILENO);
        close(null);
    }
}

static bool start(struct worker *worker, const struct workers_job *job, unsigned index)
{
    pid_t parent_pid = getpid();

    worker->pid = fork();
    if (worker->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent_pid)
            _exit(1); /* it died before that took effect */
        /* who merges decides when to stop, and then ends this process */
        (void)signal(SIGINT, SIG_IGN);
        (void)signal(SIGTERM, SIG_IGN);
        (void)signal(SIGHUP, SIG_IGN);
        silence(); /* a library's last words are heard when one process tries again alone */
        decode(job, worker->ring, index);
        exit(0);
    }
    if (worker->pid > 0)
        return true;
    worker->pid = 0;
    return false;
}

/* The process that merges */

static bool is_alive(void *data)
{
    struct worker *worker = data;

    if (worker->pid && waitpid(worker->pid, &worker->wait_status, WNOHANG) == worker->pid)
        worker->pid = 0;
    return worker->pid && !graph_is_interrupted();
}

/* Take the next record in hand. Returns false at the end; then *@why_out tells of a failure. */
static bool advance(struct worker *worker, char **why_out)
{
    const char *failure;

    worker->record = ring_peek(worker->ring, is_alive, worker);
    if (!worker->record) {
        if (graph_is_interrupted())
            return false;
        *why_out = WIFSIGNALED(worker->wait_status)
                       ? g_strdup_printf("babeltrace2 crashed (%s)", strsignal(WTERMSIG(worker->wait_status)))
                       : g_strdup_printf("babeltrace2 ended the process (status %d)",
                                         WEXITSTATUS(worker->wait_status));
        return false;
    }
    if (wire_is_end(worker->record, &failure)) {
        *why_out = g_strdup(failure);
        worker->record = NULL;
        return false;
    }
    worker->place = wire_place(worker->record);
    return true;
}

static bool comes_before(const struct worker *a, const struct worker *b)
{
    return a->place.time_ns < b->place.time_ns ||
           (a->place.time_ns == b->place.time_ns && a->place.rank < b->place.rank);
}

/* There are few workers: no heap beats two comparisons. */
static struct worker *find_first(struct worker *workers, unsigned count)
{
    struct worker *first = NULL;

    for (unsigned i = 0; i < count; i++)
        if (workers[i].record && (!first || comes_before(&workers[i], first)))
            first = &workers[i];
    return first;
}

static char *merge(struct worker *workers, const struct workers_job *job)
{
    char *why = NULL;

    for (unsigned i = 0; i < job->count && !why; i++)
        (void)advance(&workers[i], &why);
    while (!why && !graph_is_interrupted()) {
        struct worker *first = NULL;

        for (unsigned i = 0; i < RECORDS_PER_BATCH; i++) {
            first = find_first(workers, job->count);
            if (!first)
                break;
            wire_deliver(&first->reader, first->record, job->intake);
            ring_consume(first->ring);
            if (!advance(first, &why) && (why || graph_is_interrupted()))
                break; /* interrupted: what the others have may come after what is missing of this one */
        }
        job->batch(job->data);
        if (!first)
            break;
    }
    return why;
}

static void end(struct worker *worker)
{
    if (worker->pid) {
        if (graph_is_interrupted())
            (void)kill(worker->pid, SIGKILL);
        while (waitpid(worker->pid, &worker->wait_status, 0) < 0 && errno == EINTR)
            continue;
    }
    wire_reader_clear(&worker->reader);
    ring_destroy(worker->ring);
}

char *workers_run(const struct workers_job *job, bool *interrupted_out)
{
    struct worker *workers = g_new0(struct worker, job->count);
    unsigned count = 0;
    char *why = NULL;

    fflush(NULL); /* nothing is written twice */
    for (; count < job->count && !why; count++) {
        struct worker *worker = &workers[count];

        worker->ring = ring_create();
        wire_reader_init(&worker->reader, worker->ring);
        if (!worker->ring || !start(worker, job, count))
            why = g_strdup_printf("cannot start a process: %s", g_strerror(errno));
    }
    if (!why)
        why = merge(workers, job);
    *interrupted_out = !why && graph_is_interrupted();
    for (unsigned i = 0; i < count; i++) {
        if (why && workers[i].pid)
            (void)kill(workers[i].pid, SIGKILL);
        end(&workers[i]);
    }
    g_free(workers);
    return why;
}
