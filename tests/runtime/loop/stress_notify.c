/*
 * Goal: whatever the timing, work that is published to a loop runs: no wake-up is lost (ORDER loop.notify, loop.notify_always,
 * loop.accept, loop.bottom_half).
 * Method: several threads publish to one loop by posts, bottom halves, timers and coroutine wake-ups, each waiting for its work
 * to have run before it publishes again, so that a single lost wake-up stops a thread for good. The loop sleeps,
 * polls with an adaptive window, or polls always, under either notify policy; random pauses shift the threads against each other. A watchdog names
 * what was lost. Seen failing with the re-check of loop_is_notified() left out, and with notify_me lowered before the wait.
 * If it fails: requests hang until something else wakes the loop.
 * Usage: stress_notify [SECONDS [SEED]]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "rt/coroutine.h"
#include "rt/iothread.h"
#include "rt/loop.h"
#include "loop_variant.h"
#include "until.h"

enum { THREADS_MAX = 4 };

enum way { BY_POST, BY_BH, BY_TIMER, BY_COROUTINE, WAYS };
static const char *const way_names[] = { "post", "bottom half", "timer", "coroutine" };

struct publisher {
    struct rt_loop *loop;
    unsigned seed;
    pthread_t thread;
    struct rt_bh *bh;
    struct rt_timer *timer;
    struct rt_coroutine *co;
    _Atomic uint64_t published, ran;
    _Atomic bool parked, end;
};

static _Atomic bool stop;

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245 + 12345;
    return *seed >> 16;
}

static void ran(void *opaque)
{
    struct publisher *p = opaque;
    atomic_fetch_add(&p->ran, 1);
}

static void coroutine(void *opaque)
{
    struct publisher *p = opaque;
    for (;;) {
        atomic_store(&p->parked, true);
        rt_coroutine_yield();
        if (atomic_load(&p->end))
            break;
        ran(p);
    }
    ran(p);
}

static void make_coroutine(void *opaque)
{
    struct publisher *p = opaque;
    p->co = rt_coroutine_create(coroutine, p);
    rt_coroutine_enter(p->co);
}

/* From a few to some thousand cycles, short ones as often as long ones: the windows are narrow and lie anywhere. */
static void pause_at_random(unsigned *seed)
{
    for (unsigned i = next_random(seed) % (1u << next_random(seed) % 13); i > 0; i--)
        atomic_signal_fence(memory_order_seq_cst);
    if (next_random(seed) % 64 == 0)
        sched_yield();
}

static void publish(struct publisher *p, enum way way)
{
    atomic_fetch_add(&p->published, 1);
    switch (way) {
    case BY_POST:
        if (rt_loop_post(p->loop, ran, p) < 0)
            abort();
        break;
    case BY_BH:
        rt_bh_schedule(p->bh);
        break;
    case BY_TIMER:
        rt_timer_arm(p->timer, rt_clock_ns() - 1);
        break;
    default:
        UNTIL(atomic_load(&p->parked));
        atomic_store(&p->parked, false);
        rt_coroutine_wake(p->co);
        break;
    }
}

static void wait_until_run(struct publisher *p, enum way way)
{
    int64_t deadline_ns = rt_clock_ns() + UNTIL_DEADLINE_NS;
    while (atomic_load(&p->ran) != atomic_load(&p->published)) {
        if (rt_clock_ns() > deadline_ns) {
            fprintf(stderr, "stress_notify: a %s was published and never ran: its wake-up was lost\n",
                    way_names[way]);
            abort();
        }
        if (next_random(&p->seed) % 1024 == 0)
            sched_yield();
    }
}

static void *publish_again_and_again(void *opaque)
{
    struct publisher *p = opaque;
    while (!atomic_load(&stop)) {
        enum way way = next_random(&p->seed) % WAYS;
        publish(p, way);
        wait_until_run(p, way);
        pause_at_random(&p->seed);
    }
    return NULL;
}

static uint64_t run_against(enum rt_notify_policy notify, int thread_count, int64_t poll_max_ns, unsigned seed,
                            int64_t duration_ns)
{
    struct rt_iothread *io;
    if (rt_loop_configure(&(struct rt_loop_policies){ .monitor = variant_monitor(), .notify = notify }) < 0)
        abort();
    if (rt_iothread_create("stress", poll_max_ns, &io) < 0)
        abort();
    struct publisher p[THREADS_MAX] = { 0 };
    uint64_t total = 0;
    atomic_store(&stop, false);
    for (int i = 0; i < thread_count; i++) {
        p[i].loop = rt_iothread_loop(io);
        p[i].seed = seed + (unsigned)i * 7919;
        p[i].bh = rt_bh_create(p[i].loop, ran, &p[i]);
        p[i].timer = rt_timer_create(p[i].loop, ran, &p[i]);
        rt_loop_call(p[i].loop, make_coroutine, &p[i]);
        if (pthread_create(&p[i].thread, NULL, publish_again_and_again, &p[i]) != 0)
            abort();
    }
    int64_t end_ns = rt_clock_ns() + duration_ns;
    while (rt_clock_ns() < end_ns)
        (void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    atomic_store(&stop, true);
    for (int i = 0; i < thread_count; i++) {
        pthread_join(p[i].thread, NULL);
        atomic_store(&p[i].end, true);
        publish(&p[i], BY_COROUTINE);
        wait_until_run(&p[i], BY_COROUTINE);
        total += atomic_load(&p[i].ran);
        rt_bh_destroy(p[i].bh);
        rt_timer_destroy(p[i].timer);
    }
    struct rt_loop_stats stats;
    rt_loop_stats(p[0].loop, &stats);
    rt_iothread_destroy(io);
    printf("%s, %d threads, poll_max_ns %lld: %llu published, %llu eventfd writes, %llu reads\n",
           rt_notify_policy_name(), thread_count, (long long)poll_max_ns, (unsigned long long)total,
           (unsigned long long)stats.event_writes, (unsigned long long)stats.event_reads);
    return total;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    unsigned seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : (unsigned)time(NULL);
    printf("seed %u\n", seed);
    fflush(stdout);
    /* With one thread nobody else's notify can make good what is lost; with several their notifies meet. */
    const struct {
        enum rt_notify_policy notify;
        int thread_count;
        int64_t poll_max_ns;
    } runs[] = {
        { RT_NOTIFY_BLOCKING_ONLY, 1, 0 },           { RT_NOTIFY_BLOCKING_ONLY, 1, 30000 },
        { RT_NOTIFY_BLOCKING_ONLY, THREADS_MAX, 0 }, { RT_NOTIFY_BLOCKING_ONLY, THREADS_MAX, 30000 },
        { RT_NOTIFY_BLOCKING_ONLY, 2, RT_FOREVER },  { RT_NOTIFY_ALWAYS, 1, 0 },
        { RT_NOTIFY_ALWAYS, 1, 30000 },              { RT_NOTIFY_ALWAYS, THREADS_MAX, 30000 },
        { RT_NOTIFY_ALWAYS, 2, RT_FOREVER },
    };
    const int run_count = sizeof(runs) / sizeof(runs[0]);
    for (int i = 0; i < run_count; i++) {
        if (run_against(runs[i].notify, runs[i].thread_count, runs[i].poll_max_ns, seed,
                        (int64_t)(seconds * 1e9 / run_count)) == 0)
            return 1;
    }
    return 0;
}
