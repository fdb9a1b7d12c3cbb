/*
 * Goal:   under every lock policy no two requests that must not overlap run at once, whatever loops they are in; nobody is
 *         forgotten; and a flush that returns 0 has covered every write that ended before it began.
 * Method: coroutines in several loops, each with a queue of its own, begin and end requests at random places of a small
 *         disk. A count for each block says who is in it: a serialising request must find itself alone. A flush notes which writes
 *         had ended when it began, and compares with what the newest flush that reached the disk had found written.
 * If it fails: a hang is a forgotten waiter (ORDER tracked.overlap); else two read-modify-writes lose an update, or a
 *         flush lies.
 * Usage:  stress_tracked [SEED]
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/tracked.h"
#include "rt/coroutine.h"
#include "rt/iothread.h"
#include "rt/loop.h"

#define LOOPS 3
#define PER_LOOP 10
#define ROUNDS 3000
#define BLOCKS 16
#define DEADLINE_S 120
#define EXCLUSIVE 1000 /* what a serialising request adds to a block's count */

static struct rt_iothread *iothreads[LOOPS];
static struct vblk_tracked_disk disk;
static atomic_int running, failures;
static atomic_int inside[BLOCKS];

static struct worker {
    unsigned seed, queue;
    /* Its writes: that the disk has in its cache, that were reported as ended, and that a flush found written. */
    _Atomic uint64_t written, ended, flushed;
} workers[LOOPS * PER_LOOP];

static unsigned choose(struct worker *worker, unsigned below)
{
    worker->seed = worker->seed * 1103515245u + 12345u;
    return (worker->seed >> 16) % below;
}

static void yield_once(void)
{
    rt_coroutine_wake(rt_coroutine_self());
    rt_coroutine_yield();
}

static int flush_disk_co(void *opaque)
{
    uint64_t seen[LOOPS * PER_LOOP];

    (void)opaque;
    for (unsigned i = 0; i < LOOPS * PER_LOOP; i++)
        seen[i] = atomic_load(&workers[i].written);
    yield_once();
    /* One at a time, so it only grows. */
    for (unsigned i = 0; i < LOOPS * PER_LOOP; i++)
        if (atomic_exchange(&workers[i].flushed, seen[i]) > seen[i])
            atomic_fetch_add(&failures, 1);
    return 0;
}

static void flush(void)
{
    uint64_t ended[LOOPS * PER_LOOP];

    for (unsigned i = 0; i < LOOPS * PER_LOOP; i++)
        ended[i] = atomic_load(&workers[i].ended);
    if (vblk_tracked_flush_co(&disk, flush_disk_co, NULL) != 0)
        atomic_fetch_add(&failures, 1);
    for (unsigned i = 0; i < LOOPS * PER_LOOP; i++)
        if (atomic_load(&workers[i].flushed) < ended[i])
            atomic_fetch_add(&failures, 1);
}

static void request(struct worker *worker)
{
    unsigned first = choose(worker, BLOCKS), count = 1 + choose(worker, 3);
    bool serialising = choose(worker, 4) == 0, write = serialising || choose(worker, 2) == 0;
    struct vblk_tracked tracked;

    if (count > BLOCKS - first)
        count = BLOCKS - first;
    tracked = (struct vblk_tracked){ .request_id = 1, .offset_bytes = first, .size_bytes = count, .write = write,
                                     .serialising = serialising };
    vblk_tracked_begin_co(&disk, worker->queue, &tracked);
    for (unsigned i = first; i < first + count; i++) {
        int others = atomic_fetch_add(&inside[i], serialising ? EXCLUSIVE : 1);

        if (serialising ? others > 0 : others >= EXCLUSIVE)
            atomic_fetch_add(&failures, 1);
    }
    if (choose(worker, 2) == 0)
        yield_once();
    for (unsigned i = first; i < first + count; i++)
        atomic_fetch_sub(&inside[i], serialising ? EXCLUSIVE : 1);
    if (write)
        atomic_fetch_add(&worker->written, 1);
    vblk_tracked_end_co(&disk, worker->queue, &tracked, write);
    if (write)
        atomic_fetch_add(&worker->ended, 1);
}

static void work(void *opaque)
{
    struct worker *worker = opaque;

    for (int round = 0; round < ROUNDS; round++) {
        if (choose(worker, 3) == 0)
            flush();
        else
            request(worker);
    }
    atomic_fetch_sub(&running, 1);
}

static void begin(void *opaque)
{
    struct rt_coroutine *co = rt_coroutine_create(work, opaque);

    assert(co);
    rt_coroutine_enter(co);
}

static void nothing(void *opaque)
{
    (void)opaque;
}

static bool run(const struct vblk_request_lock *policy, unsigned seed)
{
    int64_t deadline_ns = rt_clock_ns() + DEADLINE_S * INT64_C(1000000000);

    vblk_tracked_init(&disk, policy, LOOPS);
    atomic_store(&running, LOOPS * PER_LOOP);
    for (unsigned i = 0; i < LOOPS * PER_LOOP; i++)
        workers[i] = (struct worker){ .seed = seed + i, .queue = i % LOOPS };
    for (unsigned i = 0; i < LOOPS * PER_LOOP; i++)
        if (rt_loop_post(rt_iothread_loop(iothreads[i % LOOPS]), begin, &workers[i]) < 0)
            abort();
    while (atomic_load(&running) > 0) {
        if (rt_clock_ns() > deadline_ns) {
            printf("stress_tracked: %s: %d coroutines never ended: a waiter was forgotten\n", policy->name,
                   atomic_load(&running));
            return false;
        }
        usleep(1000);
    }
    /* The last thing that a loop did may have been to wake a coroutine in another: let it come out of there first. */
    for (int i = 0; i < LOOPS; i++)
        rt_loop_call(rt_iothread_loop(iothreads[i]), nothing, NULL);
    if (atomic_load(&disk.serialising_count) != 0 || atomic_load(&disk.waiting_count) != 0)
        atomic_fetch_add(&failures, 1);
    vblk_tracked_deinit(&disk);
    return true;
}

int main(int argc, char **argv)
{
    unsigned seed = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : (unsigned)getpid();
    const struct vblk_request_lock *policy;
    bool ended = true;

    printf("stress_tracked: seed %u\n", seed);
    for (int i = 0; i < LOOPS; i++)
        if (rt_iothread_create("stress", i == 0 ? 20000 : 0, &iothreads[i]) < 0)
            return 1;
    for (unsigned i = 0; ended && (policy = vblk_request_lock_at(i)); i++)
        ended = run(policy, seed);
    if (!ended)
        return 1; /* the loops hold what never ended */
    for (int i = 0; i < LOOPS; i++)
        rt_iothread_destroy(iothreads[i]);
    if (atomic_load(&failures) > 0)
        printf("stress_tracked: %d times a request was where it must not be, or a flush did not cover what it said\n",
               atomic_load(&failures));
    return atomic_load(&failures) > 0;
}
