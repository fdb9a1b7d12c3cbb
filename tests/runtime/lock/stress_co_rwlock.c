/*
 * Goal:   across loops, a writer of the reader/writer lock is alone and readers see what the last one wrote; nobody is
 *         forgotten, whether he waits, tries, or goes on from one side to the other.
 * Method: coroutines in several loops read and write two plain variables that a writer makes differ for a moment; some
 *         yield or move to another loop while they hold the lock, some go from writing to reading or back.
 * Broken: if it hangs a waiter was forgotten (ORDER co_rwlock.handoff); variables that differ, a wrong sum or a race that
 *         ThreadSanitizer reports mean that a writer was not alone.
 * Usage:  stress_co_rwlock [SEED]
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "rt/lock.h"
#include "stress_loops.h"

#define COROUTINES (12 * STRESS_LOOPS)
#define ROUNDS 2000

static struct rt_co_rwlock lock;
static uint64_t one, other; /* under lock; equal whenever nobody writes */
static _Atomic uint64_t writes, upgrades, torn;

static void hesitate(unsigned *seed)
{
    switch (stress_choose(seed, 20)) {
    case 0:
        rt_coroutine_move(stress_loop(stress_choose(seed, STRESS_LOOPS)));
        break;
    case 1:
        stress_yield();
        break;
    }
}

static void write_both(unsigned *seed)
{
    one++;
    hesitate(seed);
    other++;
    atomic_fetch_add_explicit(&writes, 1, memory_order_relaxed);
}

static void read_both(unsigned *seed)
{
    uint64_t before = one;

    hesitate(seed);
    if (before != other || one != other)
        atomic_fetch_add_explicit(&torn, 1, memory_order_relaxed);
}

static void work(void *opaque)
{
    unsigned seed = (unsigned)(uintptr_t)opaque;

    for (int round = 0; round < ROUNDS; round++) {
        switch (stress_choose(&seed, 8)) {
        case 0:
            rt_co_rwlock_write_co(&lock);
            write_both(&seed);
            break;
        case 1:
            rt_co_rwlock_write_co(&lock);
            write_both(&seed);
            rt_co_rwlock_downgrade(&lock);
            read_both(&seed);
            break;
        case 2:
            rt_co_rwlock_read_co(&lock);
            read_both(&seed);
            if (rt_co_rwlock_try_upgrade(&lock)) {
                atomic_fetch_add_explicit(&upgrades, 1, memory_order_relaxed);
                write_both(&seed);
            }
            break;
        case 3:
            if (!rt_co_rwlock_try_write(&lock))
                continue;
            write_both(&seed);
            break;
        case 4:
            if (!rt_co_rwlock_try_read(&lock))
                continue;
            read_both(&seed);
            break;
        default:
            rt_co_rwlock_read_co(&lock);
            read_both(&seed);
            break;
        }
        rt_co_rwlock_unlock(&lock);
    }
}

int main(int argc, char **argv)
{
    int failures = 0;
    unsigned seed;

    stress_loops_create("stress_co_rwlock");
    seed = stress_seed(argc, argv);
    rt_co_rwlock_init(&lock, "stress");
    for (unsigned i = 0; i < COROUTINES; i++)
        stress_start(i, work, (void *)(uintptr_t)(seed + i));
    if (!stress_wait())
        return 1;
    stress_loops_destroy();
    if (atomic_load(&torn) > 0)
        failures += printf("stress_co_rwlock: %llu times a reader met a writer\n", (unsigned long long)torn);
    if (one != atomic_load(&writes) || other != one)
        failures += printf("stress_co_rwlock: %llu and %llu after %llu writes\n", (unsigned long long)one,
                           (unsigned long long)other, (unsigned long long)writes);
    if (lock.info.waiters != 0 || lock.info.owner_coroutine_id != 0 || lock.info.owner_thread_id != 0)
        failures += printf("stress_co_rwlock: somebody is left\n");
    printf("stress_co_rwlock: %llu of %llu acquisitions had to wait; %llu upgrades\n",
           (unsigned long long)lock.info.contentions, (unsigned long long)lock.info.acquisitions,
           (unsigned long long)upgrades);
    rt_co_rwlock_deinit(&lock);
    return failures ? 1 : 0;
}
