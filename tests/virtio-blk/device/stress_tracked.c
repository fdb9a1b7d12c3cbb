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
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "device/tracked.h"
#include "stress_loops.h"

#define WORKERS (10 * STRESS_LOOPS)
#define ROUNDS 1000
#define BLOCKS 16
#define EXCLUSIVE 1000 /* what a serialising request adds to a block's count */

static struct vblk_tracked_disk disk;
static atomic_int failures;
static atomic_int inside[BLOCKS];

static struct worker {
    unsigned seed, queue;
    /* Its writes: that the disk has in its cache, that were reported as ended, and that a flush found written. */
    _Atomic uint64_t written, ended, flushed;
} workers[WORKERS];

static int flush_disk_co(void *opaque)
{
    uint64_t seen[WORKERS];

    for (unsigned i = 0; i < WORKERS; i++)
        seen[i] = atomic_load(&workers[i].written);
    stress_yield();
    /* One at a time, so it only grows. */
    for (unsigned i = 0; i < WORKERS; i++)
        if (atomic_exchange(&workers[i].flushed, seen[i]) > seen[i])
            atomic_fetch_add(&failures, 1);
    return 0;
}

static void flush(void)
{
    uint64_t ended[WORKERS];

    for (unsigned i = 0; i < WORKERS; i++)
        ended[i] = atomic_load(&workers[i].ended);
    if (vblk_tracked_flush_co(&disk, flush_disk_co, NULL) != 0)
        atomic_fetch_add(&failures, 1);
    for (unsigned i = 0; i < WORKERS; i++)
        if (atomic_load(&workers[i].flushed) < ended[i])
            atomic_fetch_add(&failures, 1);
}

static void request(struct worker *worker)
{
    unsigned first = stress_choose(&worker->seed, BLOCKS), count = 1 + stress_choose(&worker->seed, 3);
    bool serialising = stress_choose(&worker->seed, 4) == 0, write = serialising || stress_choose(&worker->seed, 2) == 0;
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
    if (stress_choose(&worker->seed, 2) == 0)
        stress_yield();
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
        if (stress_choose(&worker->seed, 3) == 0)
            flush();
        else
            request(worker);
    }
}

int main(int argc, char **argv)
{
    const struct vblk_request_lock *policy;
    unsigned seed;

    stress_loops_create("stress_tracked");
    seed = stress_seed(argc, argv);
    for (unsigned p = 0; (policy = vblk_request_lock_at(p)); p++) {
        vblk_tracked_init(&disk, policy, STRESS_LOOPS);
        for (unsigned i = 0; i < WORKERS; i++)
            workers[i] = (struct worker){ .seed = seed + i, .queue = i % STRESS_LOOPS };
        for (unsigned i = 0; i < WORKERS; i++)
            stress_start(workers[i].queue, work, &workers[i]);
        if (!stress_wait()) {
            printf("stress_tracked: with %s\n", policy->name);
            return 1;
        }
        if (atomic_load(&disk.serialising_count) != 0 || atomic_load(&disk.waiting_count) != 0)
            atomic_fetch_add(&failures, 1);
        vblk_tracked_deinit(&disk);
        if (atomic_load(&failures) > 0) {
            printf("stress_tracked: with %s, %d times a request was where it must not be, or a flush did not cover what it "
                   "said\n", policy->name, atomic_load(&failures));
            return 1;
        }
    }
    stress_loops_destroy();
    return 0;
}
