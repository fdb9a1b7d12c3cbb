/*
 * Goal:   what the event loop costs, epoll next to io_uring, and what it costs to have more: more ready descriptors, more
 *         idle handlers, more timers.
 * Method: each figure from a loop that is made for it, in pairs. Processor time of the loop's thread where all happens
 *         in it, time on the wall where two threads wake each other.
 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "compare.h"
#include "rt/iothread.h"
#include "rt/loop.h"

#define HANDLERS_MAX 5000
#define TIMERS_MAX 100000

struct watched {
    struct rt_handler *handler;
    int fd;
    _Atomic unsigned seen;
};

static struct watched watched[HANDLERS_MAX]; /* their eventfds serve all samples */
static struct rt_timer *timers[TIMERS_MAX];
static unsigned operations; /* a sample's */
static uint64_t reads;

struct setup {
    unsigned handler_count, ready_count;
};

static bool read_it(void *opaque)
{
    struct watched *w = opaque;
    eventfd_t count;
    reads++;
    return eventfd_read(w->fd, &count) == 0;
}

static int attach(struct rt_loop *loop, struct watched *w)
{
    static const struct rt_fd_callbacks callbacks = { .ready = read_it };
    return rt_loop_attach_fd(loop, w->fd, RT_FD_OTHER, 0, 0, &callbacks, w, &w->handler);
}

/* A loop of this thread that watches @handler_count descriptors and has taken note of them. */
static int loop_begin(enum rt_loop_monitor monitor, unsigned handler_count, struct rt_loop **loop_out)
{
    int error = rt_loop_configure(&(struct rt_loop_policies){ .monitor = monitor });
    if (!error)
        error = rt_loop_create("bench", loop_out);
    if (error)
        return error;
    rt_loop_bind(*loop_out);
    for (unsigned i = 0; i < handler_count && !error; i++)
        error = attach(*loop_out, &watched[i]);
    (void)rt_loop_pass(*loop_out, false);
    if (error)
        rt_loop_destroy(*loop_out);
    return error;
}

/* ---- descriptors ---- */

static int dispatch(enum rt_loop_monitor monitor, const struct setup *setup, double *value_out)
{
    struct rt_loop *loop;
    unsigned rounds = operations / setup->ready_count + 1;
    int error = loop_begin(monitor, setup->handler_count, &loop);
    if (error)
        return error;
    int64_t started_ns = bench_cpu_ns();
    for (unsigned round = 0; round < rounds; round++) {
        uint64_t end = reads + setup->ready_count;
        for (unsigned i = 0; i < setup->ready_count; i++)
            (void)eventfd_write(watched[i].fd, 1);
        while (reads < end)
            (void)rt_loop_pass(loop, true);
    }
    *value_out = (double)(bench_cpu_ns() - started_ns) / rounds / setup->ready_count;
    rt_loop_destroy(loop);
    return 0;
}

static int dispatch_epoll(void *opaque, double *value_out)
{
    return dispatch(RT_LOOP_MONITOR_EPOLL, opaque, value_out);
}

static int dispatch_io_uring(void *opaque, double *value_out)
{
    return dispatch(RT_LOOP_MONITOR_IO_URING, opaque, value_out);
}

static int few_epoll(void *opaque, double *value_out)
{
    return dispatch(RT_LOOP_MONITOR_EPOLL, &(struct setup){ 10, 1 }, value_out);
}

static int few_io_uring(void *opaque, double *value_out)
{
    return dispatch(RT_LOOP_MONITOR_IO_URING, &(struct setup){ 10, 1 }, value_out);
}

static int attach_and_detach(enum rt_loop_monitor monitor, const struct setup *setup, double *value_out)
{
    enum { BATCH = 32 };
    struct rt_loop *loop;
    unsigned rounds = operations / BATCH / 4 + 1;
    int error = loop_begin(monitor, setup->handler_count - BATCH, &loop);
    if (error)
        return error;
    struct watched *fresh = &watched[setup->handler_count - BATCH];
    int64_t started_ns = bench_cpu_ns();
    for (unsigned round = 0; round < rounds && !error; round++) {
        unsigned i;
        for (i = 0; i < BATCH && !error; i++)
            error = attach(loop, &fresh[i]);
        (void)rt_loop_pass(loop, false);
        while (i > 0)
            rt_loop_detach_fd(fresh[--i].handler);
        (void)rt_loop_pass(loop, false);
    }
    *value_out = (double)(bench_cpu_ns() - started_ns) / rounds / BATCH;
    rt_loop_destroy(loop);
    return error;
}

static int attach_epoll(void *opaque, double *value_out)
{
    return attach_and_detach(RT_LOOP_MONITOR_EPOLL, opaque, value_out);
}

static int attach_io_uring(void *opaque, double *value_out)
{
    return attach_and_detach(RT_LOOP_MONITOR_IO_URING, opaque, value_out);
}

static int look(enum rt_loop_monitor monitor, double *value_out)
{
    struct rt_loop *loop;
    int error = loop_begin(monitor, 10, &loop);
    if (error)
        return error;
    int64_t started_ns = bench_cpu_ns();
    for (unsigned i = 0; i < operations; i++)
        (void)rt_loop_pass(loop, false);
    *value_out = (double)(bench_cpu_ns() - started_ns) / operations;
    rt_loop_destroy(loop);
    return 0;
}

static int look_epoll(void *opaque, double *value_out)
{
    return look(RT_LOOP_MONITOR_EPOLL, value_out);
}

static int look_io_uring(void *opaque, double *value_out)
{
    return look(RT_LOOP_MONITOR_IO_URING, value_out);
}

/* ---- other threads ---- */

struct ball {
    struct rt_loop *here, *there;
    unsigned flights;
};

static void fly_back(void *opaque)
{
    struct ball *ball = opaque;
    ball->flights++;
}

static void fly_there(void *opaque)
{
    struct ball *ball = opaque;
    (void)rt_loop_post(ball->here, fly_back, ball);
}

/* From a loop to another one and back; both sleep in between. */
static int ping_pong(enum rt_loop_monitor monitor, double *value_out)
{
    struct rt_iothread *io;
    struct ball ball = { 0 };
    unsigned flights = operations / 8 + 1;
    int error = loop_begin(monitor, 0, &ball.here);
    if (error)
        return error;
    error = rt_iothread_create("there", 0, &io);
    if (!error) {
        ball.there = rt_iothread_loop(io);
        int64_t started_ns = bench_wall_ns();
        while (ball.flights < flights) {
            unsigned flight = ball.flights;
            error = rt_loop_post(ball.there, fly_there, &ball);
            if (error)
                break;
            while (ball.flights == flight)
                (void)rt_loop_pass(ball.here, true);
        }
        *value_out = (double)(bench_wall_ns() - started_ns) / flights;
        rt_iothread_destroy(io);
    }
    rt_loop_destroy(ball.here);
    return error;
}

static int ping_pong_epoll(void *opaque, double *value_out)
{
    return ping_pong(RT_LOOP_MONITOR_EPOLL, value_out);
}

static int ping_pong_io_uring(void *opaque, double *value_out)
{
    return ping_pong(RT_LOOP_MONITOR_IO_URING, value_out);
}

static void run_post(void *opaque)
{
    atomic_fetch_add_explicit((_Atomic unsigned *)opaque, 1, memory_order_release);
}

/* As fast as one thread can, until the last has run. */
static int posts(enum rt_loop_monitor monitor, double *value_out)
{
    struct rt_iothread *io;
    _Atomic unsigned ran = 0;
    int error = rt_loop_configure(&(struct rt_loop_policies){ .monitor = monitor });
    if (!error)
        error = rt_iothread_create("poster", 0, &io);
    if (error)
        return error;
    struct rt_loop *loop = rt_iothread_loop(io);
    int64_t started_ns = bench_wall_ns();
    for (unsigned i = 0; i < operations && !error; i++)
        error = rt_loop_post(loop, run_post, &ran);
    while (!error && atomic_load_explicit(&ran, memory_order_acquire) < operations)
        (void)poll(NULL, 0, 0);
    *value_out = operations * 1e9 / (double)(bench_wall_ns() - started_ns);
    rt_iothread_destroy(io);
    return error;
}

static int posts_epoll(void *opaque, double *value_out)
{
    return posts(RT_LOOP_MONITOR_EPOLL, value_out);
}

static int posts_io_uring(void *opaque, double *value_out)
{
    return posts(RT_LOOP_MONITOR_IO_URING, value_out);
}

static bool note_it(void *opaque)
{
    struct watched *w = opaque;
    eventfd_t count;
    bool consumed = eventfd_read(w->fd, &count) == 0;
    atomic_fetch_add_explicit(&w->seen, 1, memory_order_release);
    return consumed;
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* From the write to the handler, in a loop that never sleeps and does not poll this descriptor. The median: two threads that
 * spin are put aside now and then. */
static int notice(enum rt_loop_monitor monitor, double *value_out)
{
    static const struct rt_fd_callbacks callbacks = { .ready = note_it };
    struct watched *w = &watched[0];
    struct rt_iothread *io;
    enum { ROUNDS_MAX = 101 };
    int64_t took_ns[ROUNDS_MAX];
    unsigned rounds = operations < 8 * ROUNDS_MAX ? 5 : ROUNDS_MAX;
    int error = rt_loop_configure(&(struct rt_loop_policies){ .monitor = monitor });
    if (!error)
        error = rt_iothread_create("busy", RT_FOREVER, &io);
    if (error)
        return error;
    atomic_store(&w->seen, 0);
    error = rt_loop_attach_fd(rt_iothread_loop(io), w->fd, RT_FD_OTHER, 0, 0, &callbacks, w, &w->handler);
    if (!error) {
        for (unsigned round = 0; round < rounds; round++) {
            int64_t started_ns = bench_wall_ns();
            (void)eventfd_write(w->fd, 1);
            while (atomic_load_explicit(&w->seen, memory_order_acquire) <= round) {
            }
            took_ns[round] = bench_wall_ns() - started_ns;
        }
        qsort(took_ns, rounds, sizeof(took_ns[0]), compare_ns);
        *value_out = (double)took_ns[rounds / 2];
        rt_loop_detach_fd(w->handler);
    }
    rt_iothread_destroy(io);
    return error;
}

static int notice_epoll(void *opaque, double *value_out)
{
    return notice(RT_LOOP_MONITOR_EPOLL, value_out);
}

static int notice_io_uring(void *opaque, double *value_out)
{
    return notice(RT_LOOP_MONITOR_IO_URING, value_out);
}

/* ---- timers ---- */

static uint64_t expiries;

static void expire(void *opaque)
{
    expiries++;
}

/* A timer's place in the heap must not be that of its number. */
static int64_t scattered(unsigned i)
{
    return (int64_t)((i * UINT64_C(2654435761)) % UINT32_MAX);
}

static int timers_begin(unsigned count, struct rt_loop **loop_out)
{
    int error = loop_begin(RT_LOOP_MONITOR_EPOLL, 0, loop_out);
    for (unsigned i = 0; i < count && !error; i++) {
        timers[i] = rt_timer_create(*loop_out, expire, NULL);
        error = timers[i] ? 0 : -ENOMEM;
    }
    return error;
}

static void timers_end(unsigned count, struct rt_loop *loop)
{
    for (unsigned i = 0; i < count; i++) {
        rt_timer_destroy(timers[i]);
        timers[i] = NULL;
    }
    rt_loop_destroy(loop);
}

/* One of @count armed ones is moved to another hour, and back; a timeout that is set for a request and not needed. */
static int arm_and_cancel(unsigned count, double *value_out)
{
    const int64_t hour_ns = INT64_C(3600000000000);
    struct rt_loop *loop;
    int error = timers_begin(count, &loop);
    int64_t later_ns = rt_clock_ns() + hour_ns;
    for (unsigned i = 0; i < count && !error; i++)
        rt_timer_arm(timers[i], later_ns + scattered(i));
    int64_t started_ns = bench_cpu_ns();
    for (unsigned i = 0; i < operations && !error; i++) {
        struct rt_timer *timer = timers[(unsigned)scattered(i) % count];
        rt_timer_cancel(timer);
        rt_timer_arm(timer, later_ns + scattered(i));
    }
    *value_out = (double)(bench_cpu_ns() - started_ns) / operations;
    timers_end(count, loop);
    return error;
}

/* @count fall due together; arming is not counted. */
static int expiry(unsigned count, double *value_out)
{
    struct rt_loop *loop;
    int64_t spent_ns = 0;
    unsigned rounds = operations / count + 1;
    int error = timers_begin(count, &loop);
    for (unsigned round = 0; round < rounds && !error; round++) {
        for (unsigned i = 0; i < count; i++)
            rt_timer_arm(timers[i], 1 + scattered(i + round) % 1000000);
        uint64_t end = expiries + count;
        int64_t started_ns = bench_cpu_ns();
        while (expiries < end)
            (void)rt_loop_pass(loop, true);
        spent_ns += bench_cpu_ns() - started_ns;
    }
    *value_out = (double)spent_ns / rounds / count;
    timers_end(count, loop);
    return error;
}

static int arm_few(void *opaque, double *value_out)
{
    return arm_and_cancel(10, value_out);
}

static int arm_many(void *opaque, double *value_out)
{
    return arm_and_cancel(*(const unsigned *)opaque, value_out);
}

static int expiry_few(void *opaque, double *value_out)
{
    return expiry(10, value_out);
}

static int expiry_many(void *opaque, double *value_out)
{
    return expiry(*(const unsigned *)opaque, value_out);
}

/* ---- tables ---- */

static void compare(struct bench *bench, struct bench_group *group, const char *name, bench_sample_fn old_sample,
                    bench_sample_fn new_sample, struct setup setup)
{
    bench_compare(bench_row(group, name, "ns", BENCH_LOWER), old_sample, new_sample, &setup,
                  bench_pairs(bench, 9));
}

static void compare_monitors(struct bench *bench)
{
    struct bench_group *group = bench_group(bench, BENCH_CHANGE, "Monitors", "epoll", "io_uring");
    compare(bench, group, "a pass that finds nothing", look_epoll, look_io_uring, (struct setup){ 0 });
    compare(bench, group, "a ready descriptor: 1 a pass, 10 watched", dispatch_epoll, dispatch_io_uring,
            (struct setup){ 10, 1 });
    compare(bench, group, "16 a pass, 16 watched", dispatch_epoll, dispatch_io_uring, (struct setup){ 16, 16 });
    compare(bench, group, "64 a pass, 64 watched", dispatch_epoll, dispatch_io_uring, (struct setup){ 64, 64 });
    compare(bench, group, "1,000 at once, 1,000 watched", dispatch_epoll, dispatch_io_uring,
            (struct setup){ 1000, 1000 });
    compare(bench, group, "1 a pass, 1,000 watched", dispatch_epoll, dispatch_io_uring, (struct setup){ 1000, 1 });
    compare(bench, group, "1 a pass, 5,000 watched", dispatch_epoll, dispatch_io_uring, (struct setup){ 5000, 1 });
    compare(bench, group, "attach and detach, 100 watched", attach_epoll, attach_io_uring, (struct setup){ 100, 0 });
    compare(bench, group, "attach and detach, 5,000 watched", attach_epoll, attach_io_uring,
            (struct setup){ 5000, 0 });
    compare(bench, group, "two wake-ups, there and back", ping_pong_epoll, ping_pong_io_uring, (struct setup){ 0 });
    compare(bench, group, "busy polling: notice what is not polled", notice_epoll, notice_io_uring, (struct setup){ 0 });
    bench_compare(bench_row(group, "posts from another thread", "posts/s", BENCH_HIGHER), posts_epoll,
                  posts_io_uring, NULL, bench_pairs(bench, 9));
    bench_note(group, "For each ready descriptor an eventfd is written, reported, and read by its handler: the write and "
                      "the read are counted, and the same for both.");
}

static void compare_handler_counts(struct bench *bench)
{
    struct bench_group *group = bench_group(bench, BENCH_CHANGE, "Idle handlers", "10 watched", "5,000 watched");
    struct setup many = { HANDLERS_MAX, 1 };
    bench_compare(bench_row(group, "a ready descriptor, epoll", "ns", BENCH_LOWER), few_epoll, dispatch_epoll, &many,
                  bench_pairs(bench, 9));
    bench_compare(bench_row(group, "a ready descriptor, io_uring", "ns", BENCH_LOWER), few_io_uring,
                  dispatch_io_uring, &many, bench_pairs(bench, 9));
    bench_note(group, "Both watch, besides, what the loop itself needs. A pass should not cost more for what is idle.");
}

static void compare_timer_counts(struct bench *bench)
{
    static const struct {
        const char *label;
        unsigned count;
    } sizes[] = { { "1,000 timers", 1000 }, { "10,000 timers", 10000 }, { "100,000 timers", TIMERS_MAX } };
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned count = sizes[i].count;
        char title[64];
        snprintf(title, sizeof(title), "Timers, 10 or %s", sizes[i].label);
        struct bench_group *group = bench_group(bench, BENCH_CHANGE, title, "10 timers", sizes[i].label);
        bench_compare(bench_row(group, "cancel and arm", "ns", BENCH_LOWER), arm_few, arm_many, &count,
                      bench_pairs(bench, 5));
        bench_compare(bench_row(group, "expiry, all due together", "ns", BENCH_LOWER), expiry_few, expiry_many, &count,
                      bench_pairs(bench, 5));
    }
}

static int make_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    for (unsigned i = 0; i < HANDLERS_MAX; i++) {
        watched[i].fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (watched[i].fd < 0)
            return -errno;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct bench *bench = bench_begin("loop",
                                      "The event loop: epoll next to io_uring, many handlers and many timers next to "
                                      "few.",
                                      NULL, argc, argv);
    int error = make_descriptors();
    if (error) {
        fprintf(stderr, "bench_loop: cannot make %d eventfds: %s (ulimit -n)\n", HANDLERS_MAX, strerror(-error));
        return 1;
    }
    operations = bench_quick(bench) ? 200 : 8000;
    compare_monitors(bench);
    compare_handler_counts(bench);
    compare_timer_counts(bench);
    return bench_finish(bench);
}
