/*
 * Goal: what the notify policies cost while a loop polls, and what a polling window per handler saves, side by side.
 * Method: a loop in another thread that polls, handed work again and again under each policy: time and system calls a
 * notify. A loop in this thread with one handler that always has work, and others that have none: processor time a
 * pass. A handler that is not polled, kicked beside one that is: time until its work is found.
 */
#include <errno.h>
#include <glib.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "compare.h"
#include "rt/iothread.h"
#include "rt/loop.h"

enum { HANDLERS_MAX = 64, POLL_MAX_NS = 32000, PAUSE_NS = 2000, WORK_NS = 1000, PASSES_BETWEEN_KICKS = 500, SPINS_PER_YIELD = 4096 };

static unsigned notify_count = 2000, pass_count = 100000, kick_count = 60;

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Of times that other programs, and interrupts, make longer now and then. */
static double middle(int64_t *values, unsigned count, double share)
{
    qsort(values, count, sizeof(values[0]), by_value);
    return (double)values[(unsigned)((double)(count - 1) * share)];
}

static void pause_for(int64_t ns)
{
    int64_t end_ns = bench_wall_ns() + ns;
    while (bench_wall_ns() < end_ns) {
    }
}

/* ---- a notify ---- */

struct notify_cost {
    double call_ns, turn_ns, system_calls;
};

static void count_run(void *opaque)
{
    atomic_fetch_add_explicit((_Atomic unsigned *)opaque, 1, memory_order_release);
}

static int measure_notify(enum rt_notify_policy policy, struct notify_cost *cost_out)
{
    struct rt_iothread *io;
    int error = rt_loop_configure(&(struct rt_loop_policies){ .notify = policy });
    if (!error)
        error = rt_iothread_create("poller", RT_FOREVER, &io);
    if (error)
        return error;
    struct rt_loop *loop = rt_iothread_loop(io);
    _Atomic unsigned ran = 0;
    struct rt_bh *bh = rt_bh_create(loop, count_run, &ran);
    int64_t *call_ns = g_new(int64_t, notify_count), *turn_ns = g_new(int64_t, notify_count);
    struct rt_loop_stats before, after;
    rt_loop_stats(loop, &before);
    for (unsigned i = 0; i < notify_count; i++) {
        pause_for(PAUSE_NS); /* until it polls again */
        int64_t begin_ns = bench_wall_ns();
        rt_bh_schedule(bh);
        call_ns[i] = bench_wall_ns() - begin_ns;
        /* The loop may have no processor: on a busy machine give it ours. */
        for (unsigned spins = 1; atomic_load_explicit(&ran, memory_order_acquire) == i; spins++)
            if (spins % SPINS_PER_YIELD == 0)
                (void)sched_yield();
        turn_ns[i] = bench_wall_ns() - begin_ns;
    }
    rt_loop_stats(loop, &after);
    rt_bh_destroy(bh);
    rt_iothread_destroy(io);
    *cost_out = (struct notify_cost){
        .call_ns = middle(call_ns, notify_count, 0.5),
        .turn_ns = middle(turn_ns, notify_count, 0.5),
        .system_calls = (double)(after.event_writes - before.event_writes + after.event_reads - before.event_reads) /
                        (double)(after.notifies - before.notifies),
    };
    g_free(call_ns);
    g_free(turn_ns);
    return 0;
}

static int compare_policies(struct bench *bench)
{
    struct bench_group *group =
        bench_group(bench, BENCH_CHANGE, "Work handed to a loop that polls", "always", "blocking-only");
    struct bench_row *call = bench_row(group, "the notifier's call", "ns", BENCH_LOWER);
    struct bench_row *turn = bench_row(group, "until the work has run", "ns", BENCH_LOWER);
    struct bench_row *system_calls = bench_row(group, "system calls a notify", "", BENCH_LOWER);
    for (unsigned i = 0; i < bench_pairs(bench, 9); i++) {
        struct notify_cost costs[2];
        for (unsigned j = 0; j < 2; j++) {
            enum rt_notify_policy policy = (i + j) % 2 == 0 ? RT_NOTIFY_ALWAYS : RT_NOTIFY_BLOCKING_ONLY;
            int error = measure_notify(policy, &costs[policy == RT_NOTIFY_ALWAYS ? 0 : 1]);
            if (error)
                return error;
        }
        bench_pair(call, costs[0].call_ns, costs[1].call_ns);
        bench_pair(turn, costs[0].turn_ns, costs[1].turn_ns);
        bench_pair(system_calls, costs[0].system_calls, costs[1].system_calls);
    }
    bench_target(system_calls, BENCH_OF_NEW, 0);
    bench_note(group, "Medians of notifies that come two microseconds after the last one has run. The eventfd's write "
                      "and read are counted.");
    return rt_loop_configure(&(struct rt_loop_policies){ 0 });
}

/* ---- windows ---- */

struct source {
    struct rt_handler *handler;
    int fd;
    bool always;     /* it has work at every look */
    bool polling;    /* nobody kicks meanwhile */
    int64_t work_ns; /* which takes so long */
    bool has_work;   /* until it is found */
    uint64_t polls, found;
};

static bool source_poll_ready(void *opaque)
{
    struct source *source = opaque;
    source->found += source->has_work;
    source->has_work = false;
    if (source->work_ns)
        pause_for(source->work_ns);
    /* Its driver kicks for what comes next, so that no pass waits in vain for a handler whose window had to close. */
    if (source->always && !source->polling)
        (void)eventfd_write(source->fd, 1);
    return true;
}

static bool source_ready(void *opaque)
{
    struct source *source = opaque;
    eventfd_t count;
    return eventfd_read(source->fd, &count) == 0 && source_poll_ready(source);
}

static bool source_poll(void *opaque)
{
    struct source *source = opaque;
    source->polls++;
    return source->always || source->has_work;
}

static void source_poll_begin(void *opaque)
{
    ((struct source *)opaque)->polling = true;
}

static bool source_poll_end(void *opaque)
{
    struct source *source = opaque;
    source->polling = false;
    return source->always || source->has_work;
}

struct beside {
    unsigned idle;
    int64_t poll_max_ns;
};

/* A loop of this thread with an active handler, the first, and idle ones. */
struct crowd {
    struct rt_loop *loop;
    struct source sources[HANDLERS_MAX];
    unsigned count;
};

static void crowd_disperse(struct crowd *crowd)
{
    for (unsigned i = 0; i < crowd->count; i++) {
        if (crowd->sources[i].handler)
            rt_loop_detach_fd(crowd->sources[i].handler);
        close(crowd->sources[i].fd);
    }
    rt_loop_destroy(crowd->loop);
}

static int crowd_add(struct crowd *crowd)
{
    static const struct rt_fd_callbacks callbacks = { .ready = source_ready,
                                                      .poll = source_poll,
                                                      .poll_ready = source_poll_ready,
                                                      .poll_begin = source_poll_begin,
                                                      .poll_end = source_poll_end };
    struct source *source = &crowd->sources[crowd->count];
    source->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (source->fd < 0)
        return -errno;
    crowd->count++;
    return rt_loop_attach_fd(crowd->loop, source->fd, RT_FD_OTHER, 0, 0, &callbacks, source, &source->handler);
}

/* Until nobody but the active one is polled any more, but for a look now and then. */
static void wait_until_alone(struct crowd *crowd)
{
    uint64_t looks;
    unsigned rounds = 0;
    do {
        looks = 0;
        for (unsigned i = 1; i < crowd->count; i++)
            looks -= crowd->sources[i].polls;
        for (unsigned i = 0; i < 1000; i++)
            (void)rt_loop_pass(crowd->loop, true);
        for (unsigned i = 1; i < crowd->count; i++)
            looks += crowd->sources[i].polls;
    } while (looks > 500 && ++rounds < 1000);
}

static int crowd_gather(struct crowd *crowd, const struct beside *beside)
{
    *crowd = (struct crowd){ 0 };
    int error = rt_loop_create("windows", &crowd->loop);
    if (error)
        return error;
    rt_loop_bind(crowd->loop);
    rt_loop_set_poll(crowd->loop, beside->poll_max_ns);
    while (crowd->count <= beside->idle && !error)
        error = crowd_add(crowd);
    if (error) {
        crowd_disperse(crowd);
        return error;
    }
    /* Each has been active, so that its window is open: kicked after a sleep of no length. */
    for (unsigned i = 1; i < crowd->count; i++) {
        (void)eventfd_write(crowd->sources[i].fd, 1);
        (void)rt_loop_pass(crowd->loop, true);
    }
    /* The active one must be, and a thread that had no processor meanwhile has slept too long. */
    crowd->sources[0].always = true;
    do {
        (void)eventfd_write(crowd->sources[0].fd, 1);
        (void)rt_loop_pass(crowd->loop, true);
    } while (crowd->sources[0].polls == 0);
    if (beside->poll_max_ns != RT_FOREVER)
        wait_until_alone(crowd);
    return 0;
}

/* One pass of a loop that finds work at its first look. */
static int pass_ns(void *opaque, double *value_out)
{
    struct crowd crowd;
    int error = crowd_gather(&crowd, opaque);
    if (error)
        return error;
    int64_t begin_ns = bench_cpu_ns();
    for (unsigned i = 0; i < pass_count; i++)
        (void)rt_loop_pass(crowd.loop, true);
    *value_out = (double)(bench_cpu_ns() - begin_ns) / pass_count;
    crowd_disperse(&crowd);
    return 0;
}

static void compare_windows(struct bench *bench)
{
    struct bench_group *group =
        bench_group(bench, BENCH_CHANGE, "A pass that finds work at once", "alone", "beside 63 idle ones");
    struct bench_row *row = bench_row(group, "windows of their own", "ns", BENCH_LOWER);
    struct bench_subject subjects[] = {
        { pass_ns, &(struct beside){ 0, POLL_MAX_NS }, NULL, 0, 0 },
        { pass_ns, &(struct beside){ HANDLERS_MAX - 1, POLL_MAX_NS }, NULL, 0, 0 },
        { pass_ns, &(struct beside){ HANDLERS_MAX - 1, RT_FOREVER }, NULL, 0, 0 },
    };
    bench_alternate(bench, subjects, G_N_ELEMENTS(subjects), bench_pairs(bench, 15));
    bench_row_of(row, &subjects[0], &subjects[1]);
    bench_target(row, BENCH_OF_CHANGE, 5);
    bench_note(group, "Processor time of the loop's thread. The 63 had been active before: their windows were open.");
    group = bench_group(bench, BENCH_CHANGE, "One active and 63 idle handlers", "all polled", "own windows");
    bench_row_of(bench_row(group, "a pass that finds work at once", "ns", BENCH_LOWER), &subjects[2], &subjects[1]);
    bench_subjects_deinit(subjects, G_N_ELEMENTS(subjects));
}

/* ---- who is not polled meanwhile ---- */

/* A kick of one handler while another always has work, which takes a microsecond: processor time until the kicked one's
 * work is found. */
static int found_ns(void *opaque, double *value_out)
{
    const struct beside *beside = opaque;
    struct crowd crowd;
    int error = crowd_gather(&crowd, beside);
    if (error)
        return error;
    int64_t *times_ns = g_new(int64_t, kick_count);
    crowd.sources[0].work_ns = WORK_NS;
    for (unsigned i = 0; i < kick_count; i++) {
        struct source *kicked = &crowd.sources[1 + i % beside->idle];
        for (unsigned j = 0; j < PASSES_BETWEEN_KICKS; j++)
            (void)rt_loop_pass(crowd.loop, true);
        uint64_t found = kicked->found;
        int64_t begin_ns = bench_cpu_ns();
        kicked->has_work = true;
        (void)eventfd_write(kicked->fd, 1);
        while (kicked->found == found)
            (void)rt_loop_pass(crowd.loop, true);
        times_ns[i] = bench_cpu_ns() - begin_ns;
    }
    *value_out = middle(times_ns, kick_count, 0.5);
    g_free(times_ns);
    crowd_disperse(&crowd);
    return 0;
}

static void compare_kicks(struct bench *bench)
{
    struct bench_group *group = bench_group(bench, BENCH_CHANGE, "A kick, while another handler always has work", "all polled",
                                            "own windows");
    static const unsigned idle[] = { 1, HANDLERS_MAX - 1 };
    static const char *const names[] = { "until its work is found, 1 idle handler", "63 idle handlers" };
    for (unsigned i = 0; i < G_N_ELEMENTS(idle); i++) {
        struct bench_subject subjects[] = {
            { found_ns, &(struct beside){ idle[i], RT_FOREVER }, NULL, 0, 0 },
            { found_ns, &(struct beside){ idle[i], POLL_MAX_NS }, NULL, 0, 0 },
        };
        bench_alternate(bench, subjects, G_N_ELEMENTS(subjects), bench_pairs(bench, 9));
        bench_row_of(bench_row(group, names[i], "ns", BENCH_LOWER), &subjects[0], &subjects[1]);
        bench_subjects_deinit(subjects, G_N_ELEMENTS(subjects));
    }
    bench_note(group, "Medians of processor time, the kick's system call included. The price of not polling who is idle: "
                      "one of them is looked at each microsecond, and descriptors every 100.");
}

int main(int argc, char **argv)
{
    struct bench *bench = bench_begin("notify",
                                      "What waking a loop costs under each policy while it polls, and what a polling window "
                                      "for each handler saves.",
                                      NULL, argc, argv);
    if (bench_quick(bench)) {
        notify_count = 20;
        pass_count = 2000;
        kick_count = 3;
    }
    int error = compare_policies(bench);
    if (!error)
        compare_windows(bench);
    if (!error)
        compare_kicks(bench);
    int status = bench_finish(bench);
    return error ? 1 : status;
}
