/*
 * Goal: after rt_loop_detach_fd() in another thread no callback runs, so its owner may free what the callback uses
 * (ORDER loop.detach).
 * Method: threads attach handlers to one loop, make them ready, detach them at a random moment, and at once poison and free
 * their memory; callbacks check it. A callback that runs too late reads poison, or freed memory under a
 * sanitizer. With and without polling, with and without membarrier(2). Seen failing with the wait for running callbacks left out.
 * If it fails: use after free in the device when queues stop while they are in use.
 * Usage: stress_detach [SECONDS [SEED]]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rt/iothread.h"
#include "rt/loop.h"
#include "until.h"
#include "without_syscall.h"

enum { THREADS = 3, ALIVE = 0x600d, POISON = 0xdead };

struct owned {
    int fd;
    int state;   /* plain: ALIVE until its owner has detached it */
    int touched; /* plain: written by callbacks, read by the owner after the detach */
    _Atomic int work;
    bool polling;
};

struct owner {
    struct rt_loop *loop;
    unsigned seed;
    pthread_t thread;
    uint64_t rounds, callbacks;
};

static _Atomic bool stop;

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245 + 12345;
    return *seed >> 16;
}

static void check(struct owned *o)
{
    if (o->state != ALIVE) {
        fprintf(stderr, "stress_detach: a callback ran when the detach had returned\n");
        abort();
    }
    o->touched++;
}

/* Now and then a callback takes its time: a detach must not return in the middle of it. */
static void linger(struct owned *o)
{
    static unsigned seed; /* callbacks run in one thread */
    check(o);
    if (next_random(&seed) % 64 == 0) {
        for (unsigned spins = next_random(&seed) % 50000; spins > 0; spins--)
            atomic_signal_fence(memory_order_seq_cst);
    }
    check(o);
}

static bool ready(void *opaque)
{
    struct owned *o = opaque;
    linger(o);
    eventfd_t count;
    return eventfd_read(o->fd, &count) == 0;
}

static bool poll_work(void *opaque)
{
    struct owned *o = opaque;
    linger(o);
    return atomic_load(&o->work) > 0;
}

static bool poll_ready(void *opaque)
{
    struct owned *o = opaque;
    check(o);
    return atomic_exchange(&o->work, 0) > 0;
}

static void poll_begin(void *opaque)
{
    struct owned *o = opaque;
    check(o);
    if (o->polling)
        abort();
    o->polling = true;
}

static bool poll_end(void *opaque)
{
    struct owned *o = opaque;
    check(o);
    if (!o->polling)
        abort();
    o->polling = false;
    return atomic_load(&o->work) > 0;
}

static void *attach_and_detach(void *opaque)
{
    static const struct rt_fd_callbacks plain = { .ready = ready };
    static const struct rt_fd_callbacks polled = { .ready = ready,
                                                   .poll = poll_work,
                                                   .poll_ready = poll_ready,
                                                   .poll_begin = poll_begin,
                                                   .poll_end = poll_end };
    struct owner *owner = opaque;
    while (!atomic_load(&stop)) {
        struct owned *o = calloc(1, sizeof(*o));
        struct rt_handler *handler;
        o->state = ALIVE;
        o->fd = eventfd(next_random(&owner->seed) % 2, EFD_NONBLOCK | EFD_CLOEXEC);
        if (o->fd < 0 || rt_loop_attach_fd(owner->loop, o->fd, RT_FD_OTHER, 0, 0,
                                           next_random(&owner->seed) % 2 ? &polled : &plain, o, &handler) < 0)
            abort();
        for (unsigned i = next_random(&owner->seed) % 4; i > 0; i--) {
            atomic_fetch_add(&o->work, 1);
            (void)eventfd_write(o->fd, 1);
            for (unsigned spins = next_random(&owner->seed) % 2000; spins > 0; spins--)
                atomic_signal_fence(memory_order_seq_cst);
            if (next_random(&owner->seed) % 4 == 0)
                sched_yield();
        }
        rt_loop_detach_fd(handler);
        if (o->polling)
            abort(); /* no poll_end */
        owner->callbacks += (uint64_t)o->touched;
        o->state = POISON;
        close(o->fd);
        free(o);
        owner->rounds++;
    }
    return NULL;
}

static bool run_against(int64_t poll_max_ns, unsigned seed, int64_t duration_ns)
{
    struct rt_iothread *io;
    if (rt_iothread_create("stress", poll_max_ns, &io) < 0)
        abort();
    struct owner owners[THREADS] = { 0 };
    uint64_t rounds = 0, callbacks = 0;
    atomic_store(&stop, false);
    for (int i = 0; i < THREADS; i++) {
        owners[i].loop = rt_iothread_loop(io);
        owners[i].seed = seed + (unsigned)i * 7919;
        if (pthread_create(&owners[i].thread, NULL, attach_and_detach, &owners[i]) != 0)
            abort();
    }
    int64_t end_ns = rt_clock_ns() + duration_ns;
    while (rt_clock_ns() < end_ns)
        (void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(owners[i].thread, NULL);
        rounds += owners[i].rounds;
        callbacks += owners[i].callbacks;
    }
    rt_iothread_destroy(io);
    printf("poll_max_ns %lld: %llu handlers, %llu callbacks\n", (long long)poll_max_ns,
           (unsigned long long)rounds, (unsigned long long)callbacks);
    return callbacks > 0;
}

static bool run_all(unsigned seed, double seconds)
{
    const int64_t polls[] = { 0, 30000, RT_FOREVER };
    const int run_count = sizeof(polls) / sizeof(polls[0]);
    bool good = true;
    for (int i = 0; i < run_count; i++)
        good &= run_against(polls[i], seed, (int64_t)(seconds * 1e9 / run_count));
    fflush(stdout);
    return good;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    unsigned seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : (unsigned)time(NULL);
    printf("seed %u\n", seed);
    fflush(stdout);

    pid_t child = fork();
    if (child == 0) {
        if (!without_syscall(SYS_membarrier)) {
            printf("seccomp is not available here: not tested without membarrier\n");
            return 0;
        }
        printf("without membarrier:\n");
        return run_all(seed, seconds / 2) ? 0 : 1;
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0)
        return 1;
    return run_all(seed, seconds / 2) ? 0 : 1;
}
