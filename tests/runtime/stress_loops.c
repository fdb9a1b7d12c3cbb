#include "stress_loops.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rt/iothread.h"
#include "rt/loop.h"

#define DEADLINE_S 120
#define POLL_NS 20000

static const char *name;
static struct rt_iothread *iothreads[STRESS_LOOPS];
static atomic_int running;

struct beginning {
    rt_coroutine_fn *fn;
    void *opaque;
};

void stress_loops_create(const char *test)
{
    name = test;
    for (int i = 0; i < STRESS_LOOPS; i++)
        if (rt_iothread_create("stress", i == 0 ? POLL_NS : 0, &iothreads[i]) < 0)
            abort();
}

void stress_loops_destroy(void)
{
    for (int i = 0; i < STRESS_LOOPS; i++)
        rt_iothread_destroy(iothreads[i]);
}

struct rt_loop *stress_loop(unsigned index)
{
    return rt_iothread_loop(iothreads[index % STRESS_LOOPS]);
}

static void live(void *opaque)
{
    struct beginning beginning = *(struct beginning *)opaque;

    free(opaque);
    beginning.fn(beginning.opaque);
    atomic_fetch_sub(&running, 1);
}

static void begin(void *opaque)
{
    struct rt_coroutine *co = rt_coroutine_create(live, opaque);

    if (!co)
        abort();
    rt_coroutine_enter(co);
}

void stress_start(unsigned loop_index, rt_coroutine_fn *fn, void *opaque)
{
    struct beginning *beginning = malloc(sizeof(*beginning));

    if (!beginning)
        abort();
    *beginning = (struct beginning){ fn, opaque };
    atomic_fetch_add(&running, 1);
    if (rt_loop_post(stress_loop(loop_index), begin, beginning) < 0)
        abort();
}

static void nothing(void *opaque)
{
}

bool stress_wait(void)
{
    int64_t deadline_ns = rt_clock_ns() + DEADLINE_S * INT64_C(1000000000);

    while (atomic_load(&running) > 0) {
        if (rt_clock_ns() > deadline_ns) {
            printf("%s: %d coroutines never ended: somebody who waited was forgotten\n", name, atomic_load(&running));
            return false;
        }
        usleep(1000);
    }
    /* The last thing that a loop did may have been to wake a coroutine in another: let it come out of there first. */
    for (unsigned i = 0; i < STRESS_LOOPS; i++)
        rt_loop_call(stress_loop(i), nothing, NULL);
    return true;
}

void stress_yield(void)
{
    rt_coroutine_wake(rt_coroutine_self());
    rt_coroutine_yield();
}

unsigned stress_seed(int argc, char **argv)
{
    unsigned seed = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : (unsigned)getpid();

    printf("%s: seed %u\n", name, seed);
    return seed;
}

unsigned stress_choose(unsigned *seed, unsigned below)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % below;
}
