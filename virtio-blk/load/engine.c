/* Workers that keep queues full, and the thread that watches them: see engine.h. */
#include "engine.h"
#include "progress.h"
#include "random_order.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define REAP_MAX 64
#define TICK_MS 200
/* With restarts to do, look often enough that a short run gets them all. */
#define TICK_RESTART_MS 10
/* How often a server that has gone is looked for. */
#define TICK_RECONNECT_MS 10

enum command {
    COMMAND_RUN,
    COMMAND_PAUSE,   /* park; before that complete what is in flight, unless told otherwise */
    COMMAND_SUSPEND, /* park at once, with requests in flight: the server has gone */
    COMMAND_STOP,    /* issue nothing more, complete what is in flight, end */
    COMMAND_ABANDON, /* take what is completed now, end */
};

struct load_engine {
    struct front_end *fe;
    const struct load_options *options;
    const struct load_job *job;
    struct load_worker *workers; /* [worker_count] */
    pthread_t *threads;
    uint64_t **submit_ns; /* [worker_count][slot] */
    unsigned worker_count;

    /* Any thread, atomic. */
    int command;
    struct published {
        uint64_t completed_count;
        uint32_t in_flight;
    } __attribute__((aligned(64))) * published; /* [worker_count] */

    /* Under lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned parked_count;
    unsigned ended_count;
    unsigned failed_count;

    int notice_fd; /* eventfd: a worker parked or ended, or a signal came */
    unsigned restart_count;
    unsigned reconnect_count;
    uint64_t came_back_ns; /* the last of these; silence before it was the old server's */
    uint64_t elapsed_ns;
    char error[512];
};

static volatile sig_atomic_t signal_seen;
static int signal_notice_fd = -1;

static void on_signal(int number)
{
    int saved_errno = errno;
    signal_seen = number;
    (void)eventfd_write(signal_notice_fd, 1);
    errno = saved_errno;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
}

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static enum command command_of(struct load_engine *engine)
{
    return __atomic_load_n(&engine->command, __ATOMIC_ACQUIRE);
}

static bool is_pause(enum command command)
{
    return command == COMMAND_PAUSE || command == COMMAND_SUSPEND;
}

/* Wait at a pause; the main thread restarts the rings meanwhile. */
static void park(struct load_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->parked_count++;
    pthread_cond_broadcast(&engine->changed);
    (void)eventfd_write(engine->notice_fd, 1);
    while (is_pause(command_of(engine)))
        pthread_cond_wait(&engine->changed, &engine->lock);
    engine->parked_count--;
    pthread_mutex_unlock(&engine->lock);
}

/* Fill free slots. @now_ns_or_0: the time, if it was read just now. Returns false once the job has nothing more. */
static bool issue(struct load_worker *worker, uint64_t *submit_ns, uint64_t now_ns_or_0)
{
    struct fe_queue *queue = worker->queue;
    uint16_t issued[REAP_MAX];
    unsigned count = 0;
    bool more = true;

    while (count < REAP_MAX) {
        uint16_t slot = fe_queue_take(queue);
        if (slot == FE_NO_SLOT)
            break;
        if (!worker->job->next(worker, slot)) {
            fe_queue_give(queue, slot);
            more = false;
            break;
        }
        fe_queue_submit(queue, slot);
        issued[count++] = slot;
    }
    if (count > 0) {
        /* One clock reading for the batch, before the server can see any of it. */
        uint64_t now = now_ns_or_0 ? now_ns_or_0 : now_ns();
        if (worker->begin_ns == 0)
            worker->begin_ns = now;
        for (unsigned i = 0; i < count; i++)
            submit_ns[issued[i]] = now;
        fe_queue_publish(queue);
    }
    return more;
}

/* Returns how many completed, or -EPROTO. */
static int collect(struct load_worker *worker, const uint64_t *submit_ns)
{
    struct fe_queue *queue = worker->queue;
    uint16_t slots[REAP_MAX];
    int count = fe_queue_reap(queue, slots, REAP_MAX);
    if (count <= 0)
        return count;
    worker->end_ns = now_ns();
    for (int i = 0; i < count; i++) {
        uint16_t slot = slots[i];
        worker->job->done(worker, slot, *queue->slots[slot].status, worker->end_ns - submit_ns[slot]);
        fe_queue_give(queue, slot);
    }
    if (worker->job->batch_end)
        worker->job->batch_end(worker);
    worker->completed_count += count;
    return count;
}

static void publish_counts(struct load_worker *worker)
{
    /* For progress and the watch on silence: any recent value will do. */
    struct published *published = &worker->engine->published[worker->index];
    __atomic_store_n(&published->completed_count, worker->completed_count, __ATOMIC_RELAXED);
    __atomic_store_n(&published->in_flight, worker->queue->in_flight, __ATOMIC_RELAXED);
}

static void pin(struct load_worker *worker)
{
    GArray *cpus = worker->engine->options->cpus;
    if (cpus->len == 0)
        return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(g_array_index(cpus, unsigned, worker->index % cpus->len), &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set) != 0)
        g_printerr("vblk-load: queue %u: cannot pin its thread to CPU %u, continuing unpinned\n",
                   worker->index, g_array_index(cpus, unsigned, worker->index % cpus->len));
}

static void work(struct load_worker *worker)
{
    struct load_engine *engine = worker->engine;
    struct fe_queue *queue = worker->queue;
    uint64_t *submit_ns = engine->submit_ns[worker->index];
    bool more = true, poll = engine->options->poll;
    uint64_t collected_ns = 0; /* when a single completion was seen, if that is just now: no need to read the clock again */

    while (!worker->failed) {
        enum command command = command_of(engine);
        if (command == COMMAND_SUSPEND ||
            (command == COMMAND_PAUSE && (queue->in_flight == 0 || !engine->options->drain))) {
            park(engine);
            collected_ns = 0;
            continue;
        }
        if (command == COMMAND_RUN && more)
            more = issue(worker, submit_ns, collected_ns);
        int count = collect(worker, submit_ns);
        collected_ns = count == 1 ? worker->end_ns : 0;
        if (count < 0) {
            worker->failed = true;
            break;
        }
        if (count > 0) {
            publish_counts(worker);
            continue;
        }
        if (command == COMMAND_ABANDON)
            break;
        if (queue->in_flight == 0) {
            if (!more || command == COMMAND_STOP)
                break;
            continue; /* a pause that began just now */
        }
        publish_counts(worker);
        if (poll) {
            cpu_relax();
            continue;
        }
        int rc = fe_queue_wait(queue);
        if (rc < 0) {
            g_snprintf(queue->broken, sizeof(queue->broken), "cannot wait for completions: %s",
                       g_strerror(-rc));
            worker->failed = true;
        }
    }
    publish_counts(worker);
}

static void *worker_main(void *argument)
{
    struct load_worker *worker = argument;
    struct load_engine *engine = worker->engine;
    pin(worker);
    if (engine->options->poll)
        fe_queue_suppress(worker->queue);
    work(worker);
    pthread_mutex_lock(&engine->lock);
    engine->ended_count++;
    engine->failed_count += worker->failed;
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->lock);
    (void)eventfd_write(engine->notice_fd, 1);
    return NULL;
}

struct load_engine *load_engine_create(struct front_end *fe, const struct load_options *options)
{
    struct load_engine *engine = g_new0(struct load_engine, 1);
    engine->fe = fe;
    engine->options = options;
    engine->worker_count = options->queue_count;
    engine->workers = g_aligned_alloc0(engine->worker_count, sizeof(struct load_worker), 128);
    engine->published = g_aligned_alloc0(engine->worker_count, sizeof(struct published), 64);
    engine->threads = g_new0(pthread_t, engine->worker_count);
    engine->submit_ns = g_new0(uint64_t *, engine->worker_count);
    for (unsigned i = 0; i < engine->worker_count; i++) {
        engine->workers[i].engine = engine;
        engine->workers[i].index = i;
        engine->workers[i].queue = fe_queue(fe, i);
        engine->workers[i].random = random_mix(options->seed + i);
        engine->submit_ns[i] = g_new0(uint64_t, options->iodepth);
    }
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->changed, NULL);
    engine->notice_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (engine->notice_fd < 0)
        g_snprintf(engine->error, sizeof(engine->error),
                   "%s: cannot make an eventfd: %s (raise the limit of open files)", options->socket_path,
                   g_strerror(errno));

    signal_notice_fd = engine->notice_fd;
    struct sigaction action = { .sa_handler = on_signal };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return engine;
}

void load_engine_destroy(struct load_engine *engine)
{
    if (!engine)
        return;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal_notice_fd = -1;
    if (engine->notice_fd >= 0)
        close(engine->notice_fd);
    for (unsigned i = 0; i < engine->worker_count; i++)
        g_free(engine->submit_ns[i]);
    g_free(engine->submit_ns);
    g_free(engine->threads);
    g_aligned_free(engine->published);
    g_aligned_free(engine->workers);
    pthread_mutex_destroy(&engine->lock);
    pthread_cond_destroy(&engine->changed);
    g_free(engine);
}

struct load_worker *load_engine_worker(struct load_engine *engine, unsigned index)
{
    return &engine->workers[index];
}

const char *load_engine_error(const struct load_engine *engine)
{
    return engine->error;
}

uint64_t load_engine_elapsed_ns(const struct load_engine *engine)
{
    return engine->elapsed_ns;
}

unsigned load_engine_restart_count(const struct load_engine *engine)
{
    return engine->restart_count;
}

unsigned load_engine_reconnect_count(const struct load_engine *engine)
{
    return engine->reconnect_count;
}

static void fail(struct load_engine *engine, const char *format, ...) G_GNUC_PRINTF(2, 3);
static void fail(struct load_engine *engine, const char *format, ...)
{
    va_list arguments;
    if (engine->error[0])
        return; /* the first failure is the cause of later ones */
    va_start(arguments, format);
    g_vsnprintf(engine->error, sizeof(engine->error), format, arguments);
    va_end(arguments);
}

static void order(struct load_engine *engine, enum command command)
{
    pthread_mutex_lock(&engine->lock);
    __atomic_store_n(&engine->command, command, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->lock);
    if (command != COMMAND_RUN)
        for (unsigned i = 0; i < engine->worker_count; i++)
            fe_queue_wake(engine->workers[i].queue);
}

/* What the main thread knows while a run goes on. */
struct watch {
    uint64_t begin_ns;
    uint64_t deadline_ns;  /* 0: none */
    uint64_t progress_ns;  /* when something last completed, or nothing was in flight */
    uint64_t *counts_then; /* [worker_count] at that time */
    uint64_t *progress_of; /* [worker_count] */
    unsigned restarts_left;
    bool interrupted;
    bool stopping;
};

static uint64_t completed_total(struct load_engine *engine)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < engine->worker_count; i++)
        total += __atomic_load_n(&engine->published[i].completed_count, __ATOMIC_RELAXED);
    return total;
}

/* A queue that has requests in flight and completes none for the timeout. */
static bool check_silence(struct load_engine *engine, struct watch *watch, uint64_t now)
{
    now = MAX(now, engine->came_back_ns);
    for (unsigned i = 0; i < engine->worker_count; i++) {
        uint64_t count = __atomic_load_n(&engine->published[i].completed_count, __ATOMIC_RELAXED);
        uint32_t in_flight = __atomic_load_n(&engine->published[i].in_flight, __ATOMIC_RELAXED);
        if (count != watch->counts_then[i] || in_flight == 0) {
            watch->counts_then[i] = count;
            watch->progress_of[i] = now;
        } else if (now - MAX(watch->progress_of[i], engine->came_back_ns) > engine->options->timeout_ns) {
            fail(engine,
                 "%s: queue %u: %u requests in flight and none completed for %.3g s (the server is stuck or "
                 "missed a notification: look at its log, threads and trace)",
                 engine->options->socket_path, i, in_flight, engine->options->timeout_ns / 1e9);
            return false;
        }
    }
    return true;
}

/* Wait for the server, or its successor, and start the rings with what is in flight. No worker is at its queue. */
static bool come_back(struct load_engine *engine)
{
    const uint64_t deadline_ns = now_ns() + engine->options->reconnect_ns;
    int rc;
    while ((rc = fe_reconnect(engine->fe)) < 0 || (rc = fe_start(engine->fe)) < 0) {
        struct pollfd notice = { .fd = engine->notice_fd, .events = POLLIN };
        if (rc == -ENOTSUP || rc == -EPROTO || signal_seen || now_ns() >= deadline_ns) {
            fail(engine, "%s", fe_error(engine->fe));
            return false;
        }
        (void)poll(&notice, 1, TICK_RECONNECT_MS);
    }
    engine->reconnect_count++;
    engine->came_back_ns = now_ns();
    return true;
}

/* Workers of this run that are neither ended nor parked are waited for; they do not wait for the server. */
static bool suspend_and_come_back(struct load_engine *engine)
{
    const enum command before = command_of(engine);
    order(engine, COMMAND_SUSPEND);
    pthread_mutex_lock(&engine->lock);
    while (engine->ended_count + engine->parked_count < engine->worker_count)
        pthread_cond_wait(&engine->changed, &engine->lock);
    bool good = engine->failed_count == 0;
    pthread_mutex_unlock(&engine->lock);
    good = good && come_back(engine);
    order(engine, before);
    return good;
}

/* Look at the connection; with @wait_ms, sleep until something happens. False: the run cannot go on. */
static bool watch_server(struct load_engine *engine, int wait_ms)
{
    struct pollfd fds[] = {
        { .fd = fe_socket(engine->fe), .events = POLLIN | POLLRDHUP },
        { .fd = engine->notice_fd, .events = POLLIN },
        { .fd = fe_err_fd(engine->fe), .events = POLLIN },
    };
    eventfd_t ignored;
    if (poll(fds, G_N_ELEMENTS(fds), wait_ms) <= 0)
        return true;
    if (fds[1].revents)
        (void)eventfd_read(engine->notice_fd, &ignored);
    if (fds[0].revents && fe_gone(engine->fe)) {
        if (engine->options->reconnect_ns)
            return suspend_and_come_back(engine);
        fail(engine,
             "%s: the server closed the connection during the run (was it killed? its log says why; "
             "acknowledged requests are counted)",
             engine->options->socket_path);
        return false;
    }
    if (fds[0].revents & POLLIN) {
        fail(engine, "%s: the server sent a message that nothing asked for (a fault of the server)",
             engine->options->socket_path);
        return false;
    }
    if (fds[2].revents & POLLIN) {
        fail(engine, "%s: the server reports a broken ring through SET_VRING_ERR (its log says why)",
             engine->options->socket_path);
        return false;
    }
    return true;
}

struct tally {
    unsigned ended, failed, parked;
};

static struct tally tally_of(struct load_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    struct tally tally = { engine->ended_count, engine->failed_count, engine->parked_count };
    pthread_mutex_unlock(&engine->lock);
    return tally;
}

/* Park the workers, stop and start all rings, go on. */
static bool restart(struct load_engine *engine, struct watch *watch)
{
    order(engine, COMMAND_PAUSE);
    for (;;) {
        struct tally tally = tally_of(engine);
        if (tally.failed)
            return false;
        if (tally.ended + tally.parked == engine->worker_count)
            break;
        if (!watch_server(engine, TICK_MS) || !check_silence(engine, watch, now_ns()))
            return false;
    }
    if (fe_stop(engine->fe) < 0 || fe_start(engine->fe) < 0) {
        fail(engine, "%s", fe_error(engine->fe));
        return false;
    }
    engine->restart_count++;
    watch->restarts_left--;
    order(engine, COMMAND_RUN);
    return true;
}

/* 0 to 1 of the run, by time or by requests, whichever is further. */
static double fraction_done(struct load_engine *engine, const struct watch *watch, uint64_t now,
                            uint64_t completed)
{
    double by_time = engine->job->runtime_ns ? (double)(now - watch->begin_ns) / engine->job->runtime_ns : 0;
    double by_count = engine->job->request_count ? (double)completed / engine->job->request_count : 0;
    return MIN(MAX(by_time, by_count), 1);
}

static bool watch_run(struct load_engine *engine, struct watch *watch, struct progress *progress)
{
    unsigned restarts = engine->job->restarts;
    for (;;) {
        struct tally tally = tally_of(engine);
        if (tally.failed)
            return false;
        if (tally.ended == engine->worker_count)
            return true;
        uint64_t now = now_ns();
        int wait_ms = watch->restarts_left ? TICK_RESTART_MS : TICK_MS;
        if (watch->deadline_ns && !watch->stopping)
            wait_ms =
                now >= watch->deadline_ns ? 0 : MIN(wait_ms, (int)((watch->deadline_ns - now) / 1000000) + 1);
        if (!watch_server(engine, wait_ms))
            return false;
        now = now_ns();
        uint64_t completed = completed_total(engine);
        double fraction = fraction_done(engine, watch, now, completed);
        if (!check_silence(engine, watch, now))
            return false;
        if (signal_seen)
            watch->interrupted = true;
        if (!watch->stopping && (watch->interrupted || (watch->deadline_ns && now >= watch->deadline_ns))) {
            watch->stopping = true;
            order(engine, COMMAND_STOP);
        }
        if (!watch->stopping && watch->restarts_left &&
            fraction >= (double)(restarts - watch->restarts_left + 1) / (restarts + 1) &&
            !restart(engine, watch))
            return false;
        progress_show(progress, fraction, completed, now - watch->begin_ns);
    }
}

/* What a worker or its job could not go on with. */
static void report_broken(struct load_engine *engine)
{
    for (unsigned i = 0; i < engine->worker_count; i++)
        if (engine->workers[i].queue->broken[0])
            fail(engine, "%s: queue %u: %s (a fault of the server)", engine->options->socket_path, i,
                 engine->workers[i].queue->broken);
}

static void measure(struct load_engine *engine)
{
    uint64_t begin = UINT64_MAX, end = 0;
    for (unsigned i = 0; i < engine->worker_count; i++) {
        if (engine->workers[i].begin_ns)
            begin = MIN(begin, engine->workers[i].begin_ns);
        end = MAX(end, engine->workers[i].end_ns);
    }
    engine->elapsed_ns = end > begin ? end - begin : 0;
}

enum load_outcome load_engine_run(struct load_engine *engine, const struct load_job *job)
{
    struct watch watch = { .restarts_left = job->restarts };
    unsigned started = 0;
    bool good = engine->error[0] == '\0';

    engine->job = job;
    engine->command = COMMAND_RUN;
    engine->parked_count = engine->ended_count = engine->failed_count = 0;
    watch.counts_then = g_new0(uint64_t, engine->worker_count);
    watch.progress_of = g_new0(uint64_t, engine->worker_count);
    watch.begin_ns = now_ns();
    watch.deadline_ns = job->runtime_ns ? watch.begin_ns + job->runtime_ns : 0;
    for (; good && started < engine->worker_count; started++) {
        struct load_worker *worker = &engine->workers[started];
        worker->job = job;
        worker->begin_ns = worker->end_ns = worker->completed_count = 0;
        worker->failed = false;
        engine->published[started] = (struct published){ 0 };
        watch.progress_of[started] = watch.begin_ns;
        int rc = pthread_create(&engine->threads[started], NULL, worker_main, worker);
        if (rc != 0) {
            fail(engine, "%s: queue %u: cannot make a thread: %s (use fewer --queues)",
                 engine->options->socket_path, started, g_strerror(rc));
            good = false;
            break;
        }
    }
    struct progress progress = progress_begin(job->title);
    if (good)
        good = watch_run(engine, &watch, &progress);
    progress_end(&progress);
    if (!good)
        order(engine, COMMAND_ABANDON);
    for (unsigned i = 0; i < started; i++)
        pthread_join(engine->threads[i], NULL);
    report_broken(engine);
    for (unsigned i = 0; i < engine->worker_count; i++)
        good &= !engine->workers[i].failed;
    /* A run too short for its restarts gets them at its end. */
    while (good && !watch.interrupted && watch.restarts_left)
        good = restart(engine, &watch);
    measure(engine);
    g_free(watch.counts_then);
    g_free(watch.progress_of);
    return !good ? LOAD_FAILED : watch.interrupted ? LOAD_INTERRUPTED : LOAD_DONE;
}

enum load_outcome load_engine_finish(struct load_engine *engine)
{
    for (int rc; (rc = fe_stop(engine->fe)) < 0;) {
        const bool is_gone = rc == -ECONNRESET && engine->options->reconnect_ns;
        if (!is_gone)
            fail(engine, "%s", fe_error(engine->fe));
        if (!is_gone || !come_back(engine))
            return LOAD_FAILED;
    }
    uint64_t end_ns = now_ns() + engine->options->hold_ns;
    for (uint64_t now = now_ns(); now < end_ns && !signal_seen; now = now_ns())
        if (!watch_server(engine, (int)MIN((end_ns - now) / 1000000 + 1, TICK_MS)))
            return LOAD_FAILED;
    return LOAD_DONE;
}
