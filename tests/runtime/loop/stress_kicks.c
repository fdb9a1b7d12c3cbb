/*
 * Goal: no kick is lost: a queue whose driver's notifications busy polling turns off and on is never deaf.
 * Method: threads are drivers, each of some queues: they publish one request, kick unless notifications are off, and wait
 * until it is done. Pauses of random length let polling windows open and run out; meanwhile drivers change the maximum of the
 * windows (none, short, long, for ever), detach queues and attach them again, and callbacks and bottom halves run nested
 * passes. One driver alone is stopped by its first lost kick; several find it for each other and look for races. Seen failing
 * with what poll_end reports left out, and with a handler that leaves a phase without poll_end.
 * If it fails: a disk hangs, without CPU and without an error, until somebody kicks it again.
 * Usage: stress_kicks [SECONDS [SEED]]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "rt/iothread.h"
#include "rt/loop.h"
#include "until.h"

enum { DRIVERS = 3, QUEUES = 4 }; /* so many queues a driver */

struct queue {
    struct rt_loop *loop;
    struct rt_handler *handler;
    int fd;
    _Atomic unsigned requested, done;
    _Atomic bool quiet; /* the driver need not kick */
    bool polling;       /* the loop's thread; the driver's while it is detached */
    unsigned seed;      /* the loop's thread */
};

struct driver {
    pthread_t thread;
    unsigned seed;
    struct queue queues[QUEUES];
};

static _Atomic bool stop;
static _Atomic unsigned long requests, kicks, attaches; /* of all drivers */
static unsigned inside_queues; /* the loop's thread: callbacks of queues on the stack */

static unsigned choose(unsigned *seed, unsigned below)
{
    *seed = *seed * 1103515245 + 12345;
    return (*seed >> 16) % below;
}

/* ---- the device's side ---- */

static bool has_request(const struct queue *q)
{
    return atomic_load(&q->done) != atomic_load(&q->requested);
}

static bool process(struct queue *q)
{
    bool any = false;
    do {
        if (!q->polling)
            atomic_store(&q->quiet, true);
        while (has_request(q)) {
            if (choose(&q->seed, 8) == 0) { /* it waits for something */
                inside_queues++;
                rt_loop_pass(q->loop, false);
                inside_queues--;
            }
            atomic_fetch_add(&q->done, 1);
            any = true;
        }
        if (q->polling)
            break; /* the phase looks, or its end */
        atomic_store(&q->quiet, false);
    } while (has_request(q));
    return any;
}

static bool ready(void *opaque)
{
    struct queue *q = opaque;
    eventfd_t count;
    if (eventfd_read(q->fd, &count) < 0)
        return false;
    (void)process(q);
    return true;
}

static bool poll_request(void *opaque)
{
    return has_request(opaque);
}

static bool poll_ready(void *opaque)
{
    return process(opaque);
}

static void poll_begin(void *opaque)
{
    struct queue *q = opaque;
    q->polling = true;
    atomic_store(&q->quiet, true);
}

static bool poll_end(void *opaque)
{
    struct queue *q = opaque;
    /* A request may come while the last look is over and nobody is asked to kick yet. */
    for (unsigned spins = choose(&q->seed, 8) == 0 ? choose(&q->seed, 20000) : 0; spins > 0; spins--)
        atomic_signal_fence(memory_order_seq_cst);
    q->polling = false;
    atomic_store(&q->quiet, false);
    return has_request(q);
}

static void nest(void *opaque)
{
    struct rt_loop *loop = opaque;
    for (int i = 0; i < 3; i++)
        rt_loop_pass(loop, inside_queues == 0 && !atomic_load(&stop)); /* no queue may wait for itself */
}

/* ---- the driver's side ---- */

static void attach(struct queue *q)
{
    static const struct rt_fd_callbacks callbacks = { .ready = ready,
                                                      .poll = poll_request,
                                                      .poll_ready = poll_ready,
                                                      .poll_begin = poll_begin,
                                                      .poll_end = poll_end };
    q->polling = false;
    atomic_store(&q->quiet, false);
    if (rt_loop_attach_fd(q->loop, q->fd, RT_FD_OTHER, 0, 0, &callbacks, q, &q->handler) < 0)
        abort();
}

static void request(struct queue *q)
{
    atomic_fetch_add(&q->requested, 1);
    if (!atomic_load(&q->quiet)) {
        (void)eventfd_write(q->fd, 1);
        atomic_fetch_add(&kicks, 1);
    }
    atomic_fetch_add(&requests, 1);
}

static void pause_at_random(unsigned *seed)
{
    /* Below the shortest window, about as long as windows, and far above. */
    static const long pauses_ns[] = { 0, 0, 0, 1000, 50000, 1000000 };
    long ns = pauses_ns[choose(seed, sizeof(pauses_ns) / sizeof(pauses_ns[0]))];
    if (ns > 0)
        (void)nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

static void change_windows(struct driver *driver)
{
    static const int64_t maxima_ns[] = { 0, 30000, 300000, 300000, 1000000, RT_FOREVER };
    unsigned which = choose(&driver->seed, sizeof(maxima_ns) / sizeof(maxima_ns[0]));
    rt_loop_set_poll(driver->queues[0].loop, maxima_ns[which]);
}

static void *drive(void *opaque)
{
    struct driver *driver = opaque;
    while (!atomic_load(&stop)) {
        unsigned first = choose(&driver->seed, QUEUES), count = 1 + choose(&driver->seed, QUEUES);
        for (unsigned i = 0; i < count; i++)
            request(&driver->queues[(first + i) % QUEUES]);
        if (choose(&driver->seed, 16) == 0) {
            struct queue *q = &driver->queues[first];
            rt_loop_detach_fd(q->handler);
            attach(q);
            (void)eventfd_write(q->fd, 1); /* for what the detach left */
            atomic_fetch_add(&attaches, 1);
        }
        if (choose(&driver->seed, 64) == 0 && rt_loop_post(driver->queues[0].loop, nest, driver->queues[0].loop) < 0)
            abort();
        for (unsigned i = 0; i < count; i++)
            UNTIL(!has_request(&driver->queues[(first + i) % QUEUES]));
        if (choose(&driver->seed, 64) == 0)
            change_windows(driver);
        pause_at_random(&driver->seed);
    }
    return NULL;
}

static void run(int driver_count, unsigned seed, int64_t duration_ns)
{
    struct driver drivers[DRIVERS] = { 0 };
    struct rt_iothread *io;
    if (rt_iothread_create("kicks", RT_FOREVER, &io) < 0)
        abort();
    atomic_store(&stop, false);
    requests = kicks = attaches = 0;
    for (int i = 0; i < driver_count; i++) {
        drivers[i].seed = seed + (unsigned)i * 7919;
        for (int j = 0; j < QUEUES; j++) {
            struct queue *q = &drivers[i].queues[j];
            q->loop = rt_iothread_loop(io);
            q->seed = seed + (unsigned)(i * QUEUES + j);
            q->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
            if (q->fd < 0)
                abort();
            attach(q);
        }
        if (pthread_create(&drivers[i].thread, NULL, drive, &drivers[i]) != 0)
            abort();
    }
    (void)nanosleep(&(struct timespec){ duration_ns / 1000000000, duration_ns % 1000000000 }, NULL);
    /* Notifications were on at times, and off: else nothing was tested. */
    UNTIL(kicks > 0 && kicks < requests && attaches > 0);
    atomic_store(&stop, true);
    for (int i = 0; i < driver_count; i++) {
        pthread_join(drivers[i].thread, NULL);
        for (int j = 0; j < QUEUES; j++) {
            rt_loop_detach_fd(drivers[i].queues[j].handler);
            close(drivers[i].queues[j].fd);
        }
    }
    rt_iothread_destroy(io);
    printf("%d drivers: %lu requests, %lu kicks, %lu times attached anew\n", driver_count, requests, kicks, attaches);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    unsigned seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : (unsigned)time(NULL);
    printf("seed %u\n", seed);
    fflush(stdout);
    run(1, seed, (int64_t)(seconds / 2 * 1e9));
    run(DRIVERS, seed, (int64_t)(seconds / 2 * 1e9));
    return 0;
}
