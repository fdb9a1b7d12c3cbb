/*
 * Goal:   the coroutine mutex excludes across loops, loses no waiter, and hands over fairly; so does the queue.
 * Method: coroutines in several loops take one lock around plain counters; some yield or move to another loop while
 *         they hold it. Others pass tokens through a coroutine queue, under either kind of lock.
 * Broken: if it hangs a waiter was forgotten (ORDER co_mutex.handoff); a wrong sum or a race that ThreadSanitizer
 *         reports means two owners.
 * Usage:  stress_co_mutex [SEED]
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rt/coroutine.h"
#include "rt/iothread.h"
#include "rt/lock.h"
#include "rt/loop.h"

#define LOOPS 3
#define PER_LOOP 12
#define ROUNDS 1000
#define PAIRS 6
#define TOKENS 1000
#define DEADLINE_S 120

static struct rt_iothread *iothreads[LOOPS];
static atomic_int running;

static struct rt_co_mutex lock;
static uint64_t sum; /* under lock */

/* One side adds tokens, the other takes them; under mutex, or under co_mutex. */
static struct exchange {
    struct rt_mutex mutex;
    struct rt_co_mutex co_mutex;
    struct rt_co_queue queue;
    uint64_t tokens, taken;
    int with_mutex;
} exchanges[2];

static unsigned choose(unsigned *seed, unsigned below)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % below;
}

static void contend(void *opaque)
{
    unsigned seed = (unsigned)(uintptr_t)opaque;

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t before;

        rt_co_mutex_lock_co(&lock);
        before = sum;
        switch (choose(&seed, 20)) {
        case 0:
            rt_coroutine_move(rt_iothread_loop(iothreads[choose(&seed, LOOPS)]));
            break;
        case 1:
            rt_coroutine_wake(rt_coroutine_self());
            rt_coroutine_yield();
            break;
        }
        sum = before + 1;
        rt_co_mutex_unlock(&lock);
    }
    atomic_fetch_sub(&running, 1);
}

static void hold(struct exchange *exchange)
{
    if (exchange->with_mutex)
        rt_mutex_lock(&exchange->mutex);
    else
        rt_co_mutex_lock_co(&exchange->co_mutex);
}

static void drop(struct exchange *exchange)
{
    if (exchange->with_mutex)
        rt_mutex_unlock(&exchange->mutex);
    else
        rt_co_mutex_unlock(&exchange->co_mutex);
}

static void put_tokens(void *opaque)
{
    struct exchange *exchange = opaque;

    for (int i = 0; i < TOKENS; i++) {
        hold(exchange);
        exchange->tokens++;
        rt_co_queue_wake_one(&exchange->queue);
        drop(exchange);
    }
    atomic_fetch_sub(&running, 1);
}

static void take_tokens(void *opaque)
{
    struct exchange *exchange = opaque;

    for (int i = 0; i < TOKENS; i++) {
        hold(exchange);
        while (exchange->tokens == 0) {
            if (exchange->with_mutex)
                rt_co_queue_wait_mutex_co(&exchange->queue, &exchange->mutex);
            else
                rt_co_queue_wait_co_mutex_co(&exchange->queue, &exchange->co_mutex);
        }
        exchange->tokens--;
        exchange->taken++;
        drop(exchange);
    }
    atomic_fetch_sub(&running, 1);
}

struct beginning {
    rt_coroutine_fn *fn;
    void *opaque;
};

static void begin(void *opaque)
{
    struct beginning beginning = *(struct beginning *)opaque;
    struct rt_coroutine *co = rt_coroutine_create(beginning.fn, beginning.opaque);

    free(opaque);
    assert(co);
    rt_coroutine_enter(co);
}

/* In one loop after the other. */
static void start(rt_coroutine_fn *fn, void *opaque)
{
    static int next;
    struct beginning *beginning = malloc(sizeof(*beginning));

    assert(beginning);
    *beginning = (struct beginning){ fn, opaque };
    atomic_fetch_add(&running, 1);
    if (rt_loop_post(rt_iothread_loop(iothreads[next++ % LOOPS]), begin, beginning) < 0)
        abort();
}

static void nothing(void *opaque)
{
}

/* The last thing that a loop did may have been to wake a coroutine in another: let it come out of there first. */
static void end_loops(void)
{
    for (int i = 0; i < LOOPS; i++)
        rt_loop_call(rt_iothread_loop(iothreads[i]), nothing, NULL);
    for (int i = 0; i < LOOPS; i++)
        rt_iothread_destroy(iothreads[i]);
}

int main(int argc, char **argv)
{
    unsigned seed = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : (unsigned)getpid();
    int64_t deadline_ns = rt_clock_ns() + DEADLINE_S * INT64_C(1000000000);
    int failures = 0;

    printf("stress_co_mutex: seed %u\n", seed);
    for (int i = 0; i < LOOPS; i++)
        if (rt_iothread_create("stress", i == 0 ? 20000 : 0, &iothreads[i]) < 0)
            return 1;
    rt_co_mutex_init(&lock, "stress");
    for (int i = 0; i < 2; i++) {
        rt_mutex_init(&exchanges[i].mutex, "stress-thread");
        rt_co_mutex_init(&exchanges[i].co_mutex, "stress-coroutine");
        rt_co_queue_init(&exchanges[i].queue);
        exchanges[i].with_mutex = i;
    }

    for (int i = 0; i < LOOPS * PER_LOOP; i++)
        start(contend, (void *)(uintptr_t)(seed + (unsigned)i));
    for (int i = 0; i < PAIRS; i++)
        for (int kind = 0; kind < 2; kind++) {
            start(take_tokens, &exchanges[kind]);
            start(put_tokens, &exchanges[kind]);
        }

    while (atomic_load(&running) > 0) {
        if (rt_clock_ns() > deadline_ns) {
            printf("stress_co_mutex: %d coroutines never ended: a waiter was forgotten\n", atomic_load(&running));
            return 1;
        }
        usleep(2000);
    }
    end_loops();

    if (sum != LOOPS * PER_LOOP * ROUNDS || lock.info.acquisitions != sum)
        failures += printf("stress_co_mutex: %llu turns, sum %llu, %llu acquisitions\n",
                           (unsigned long long)LOOPS * PER_LOOP * ROUNDS, (unsigned long long)sum,
                           (unsigned long long)lock.info.acquisitions);
    for (int i = 0; i < 2; i++) {
        if (exchanges[i].tokens != 0 || exchanges[i].taken != PAIRS * TOKENS)
            failures += printf("stress_co_mutex: %llu tokens left, %llu taken of %d\n",
                               (unsigned long long)exchanges[i].tokens, (unsigned long long)exchanges[i].taken,
                               PAIRS * TOKENS);
        rt_mutex_deinit(&exchanges[i].mutex);
        rt_co_mutex_deinit(&exchanges[i].co_mutex);
    }
    printf("stress_co_mutex: %llu of %llu acquisitions had to wait\n", (unsigned long long)lock.info.contentions,
           (unsigned long long)lock.info.acquisitions);
    rt_co_mutex_deinit(&lock);
    return failures ? 1 : 0;
}
