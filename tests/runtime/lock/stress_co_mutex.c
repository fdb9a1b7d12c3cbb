/*
 * Goal:   the coroutine mutex excludes across loops, loses no waiter, and hands over fairly; so does the queue.
 * Method: coroutines in several loops take one lock around plain counters; some yield or move to another loop while
 *         they hold it. Others pass tokens through a coroutine queue, under either kind of lock; then the queue is
 *         cancelled in the middle of waits and wake-ups.
 * Broken: if it hangs a waiter was forgotten (ORDER co_mutex.handoff); a wrong sum or a race that ThreadSanitizer
 *         reports means two owners.
 * Usage:  stress_co_mutex [SEED]
 */
#include <stdint.h>
#include <stdio.h>

#include "rt/lock.h"
#include "stress_loops.h"

#define PER_LOOP 12
#define ROUNDS 1000
#define PAIRS 6
#define TOKENS 1000

static struct rt_co_mutex lock;
static uint64_t sum; /* under lock */

/* One side adds tokens, the other takes them; under mutex, or under co_mutex. */
static struct exchange {
    struct rt_mutex mutex;
    struct rt_co_mutex co_mutex;
    struct rt_co_queue queue;
    uint64_t tokens, taken, cancelled;
    int with_mutex;
} exchanges[2];

static void contend(void *opaque)
{
    unsigned seed = (unsigned)(uintptr_t)opaque;

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t before;

        rt_co_mutex_lock_co(&lock);
        before = sum;
        switch (stress_choose(&seed, 20)) {
        case 0:
            rt_coroutine_move(stress_loop(stress_choose(&seed, STRESS_LOOPS)));
            break;
        case 1:
            stress_yield();
            break;
        }
        sum = before + 1;
        rt_co_mutex_unlock(&lock);
    }
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

static int wait_in_queue(struct exchange *exchange)
{
    return exchange->with_mutex ? rt_co_queue_wait_mutex_co(&exchange->queue, &exchange->mutex)
                                : rt_co_queue_wait_co_mutex_co(&exchange->queue, &exchange->co_mutex);
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
}

static void take_tokens(void *opaque)
{
    struct exchange *exchange = opaque;

    for (int i = 0; i < TOKENS; i++) {
        hold(exchange);
        while (exchange->tokens == 0)
            (void)wait_in_queue(exchange); /* nobody cancels yet */
        exchange->tokens--;
        exchange->taken++;
        drop(exchange);
    }
}

/* For what never comes. */
static void wait_until_cancelled(void *opaque)
{
    struct exchange *exchange = opaque;

    hold(exchange);
    while (wait_in_queue(exchange) == 0)
        ;
    exchange->cancelled++;
    drop(exchange);
}

static void wake_and_cancel(void *opaque)
{
    struct exchange *exchange = opaque;

    for (int i = 0; i < TOKENS; i++) {
        hold(exchange);
        if (i == TOKENS / 2)
            rt_co_queue_cancel(&exchange->queue);
        rt_co_queue_wake_one(&exchange->queue);
        drop(exchange);
    }
}

int main(int argc, char **argv)
{
    unsigned seed, next = 0;
    int failures = 0;

    stress_loops_create("stress_co_mutex");
    seed = stress_seed(argc, argv);
    rt_co_mutex_init(&lock, "stress");
    for (int i = 0; i < 2; i++) {
        rt_mutex_init(&exchanges[i].mutex, "stress-thread");
        rt_co_mutex_init(&exchanges[i].co_mutex, "stress-coroutine");
        rt_co_queue_init(&exchanges[i].queue);
        exchanges[i].with_mutex = i;
    }

    for (unsigned i = 0; i < STRESS_LOOPS * PER_LOOP; i++)
        stress_start(next++, contend, (void *)(uintptr_t)(seed + i));
    for (int i = 0; i < PAIRS; i++)
        for (int kind = 0; kind < 2; kind++) {
            stress_start(next++, take_tokens, &exchanges[kind]);
            stress_start(next++, put_tokens, &exchanges[kind]);
        }
    if (!stress_wait())
        return 1;
    for (int i = 0; i < PAIRS; i++)
        for (int kind = 0; kind < 2; kind++)
            stress_start(next++, wait_until_cancelled, &exchanges[kind]);
    for (int kind = 0; kind < 2; kind++)
        stress_start(next++, wake_and_cancel, &exchanges[kind]);
    if (!stress_wait())
        return 1;
    stress_loops_destroy();

    if (sum != STRESS_LOOPS * PER_LOOP * ROUNDS || lock.info.acquisitions != sum)
        failures += printf("stress_co_mutex: %llu turns, sum %llu, %llu acquisitions\n",
                           (unsigned long long)STRESS_LOOPS * PER_LOOP * ROUNDS, (unsigned long long)sum,
                           (unsigned long long)lock.info.acquisitions);
    for (int i = 0; i < 2; i++) {
        if (exchanges[i].tokens != 0 || exchanges[i].taken != PAIRS * TOKENS)
            failures += printf("stress_co_mutex: %llu tokens left, %llu taken of %d\n",
                               (unsigned long long)exchanges[i].tokens, (unsigned long long)exchanges[i].taken,
                               PAIRS * TOKENS);
        if (exchanges[i].cancelled != PAIRS)
            failures += printf("stress_co_mutex: %llu of %d were told that their wait was cancelled\n",
                               (unsigned long long)exchanges[i].cancelled, PAIRS);
        rt_mutex_deinit(&exchanges[i].mutex);
        rt_co_mutex_deinit(&exchanges[i].co_mutex);
    }
    printf("stress_co_mutex: %llu of %llu acquisitions had to wait\n", (unsigned long long)lock.info.contentions,
           (unsigned long long)lock.info.acquisitions);
    rt_co_mutex_deinit(&lock);
    return failures ? 1 : 0;
}
