/*
 * Goal:   no wake-up is lost and no coroutine runs in two threads, however wake-ups, yields and moves fall.
 * Method: coroutines in several loops hand themselves to waker threads and yield; the wakers wake them at random, often
 *         before they have yielded. Some move to another loop in between, some end in another thread than
 *         they were made in. What each counts is plain memory, for ThreadSanitizer to look at.
 * Broken: if it hangs a wake-up was lost (ORDER coroutine.wakeup); if a sanitizer complains a coroutine was entered
 *         before its context was saved.
 * Usage:  stress_wakeup [SEED]
 */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rt/coroutine.h"
#include "rt/iothread.h"
#include "rt/loop.h"
#include "rt/pool.h"

#define LOOPS 3
#define WAKERS 2
#define COROUTINES 60
#define LIVES 10
#define ROUNDS 100
#define DEADLINE_S 120

/* Coroutines that want to be woken. */
struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct rt_coroutine *waiting[COROUTINES];
    int count;
    bool closed;
    unsigned seed;
};

struct worker {
    unsigned seed;
    int lives_left;
    int rounds; /* of this life */
};

static struct rt_iothread *iothreads[LOOPS];
static struct mailbox mailboxes[WAKERS];
static atomic_int running = COROUTINES;
static atomic_ullong wakes;

static unsigned choose(unsigned *seed, unsigned below)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % below;
}

static struct rt_loop *any_loop(unsigned *seed)
{
    return rt_iothread_loop(iothreads[choose(seed, LOOPS)]);
}

static void ask_to_be_woken(struct worker *worker)
{
    struct mailbox *mailbox = &mailboxes[choose(&worker->seed, WAKERS)];

    pthread_mutex_lock(&mailbox->lock);
    assert(mailbox->count < COROUTINES);
    mailbox->waiting[mailbox->count++] = rt_coroutine_self();
    pthread_cond_signal(&mailbox->filled);
    pthread_mutex_unlock(&mailbox->lock);
}

static void *run_waker(void *opaque)
{
    struct mailbox *mailbox = opaque;

    pthread_mutex_lock(&mailbox->lock);
    while (!mailbox->closed) {
        unsigned which;
        struct rt_coroutine *co;

        if (mailbox->count == 0) {
            pthread_cond_wait(&mailbox->filled, &mailbox->lock);
            continue;
        }
        which = choose(&mailbox->seed, (unsigned)mailbox->count);
        co = mailbox->waiting[which];
        mailbox->waiting[which] = mailbox->waiting[--mailbox->count];
        pthread_mutex_unlock(&mailbox->lock);
        rt_coroutine_wake(co);
        atomic_fetch_add_explicit(&wakes, 1, memory_order_relaxed);
        pthread_mutex_lock(&mailbox->lock);
    }
    pthread_mutex_unlock(&mailbox->lock);
    return NULL;
}

static void work(void *opaque);

static void begin_life(void *opaque)
{
    struct rt_coroutine *co = rt_coroutine_create(work, opaque);

    if (!co) {
        perror("stress_wakeup: rt_coroutine_create");
        abort();
    }
    rt_coroutine_enter(co);
}

static void work(void *opaque)
{
    struct worker *worker = opaque;

    worker->rounds = 0;
    for (int round = 0; round < ROUNDS; round++) {
        switch (choose(&worker->seed, 4)) {
        case 0: { /* elsewhere */
            struct rt_loop *loop = any_loop(&worker->seed);

            rt_coroutine_move(loop);
            assert(rt_loop_current() == loop);
            break;
        }
        case 1: /* by itself, before it yields */
            rt_coroutine_wake(rt_coroutine_self());
            rt_coroutine_yield();
            break;
        default: /* by another thread */
            ask_to_be_woken(worker);
            rt_coroutine_yield();
            break;
        }
        worker->rounds++;
    }
    assert(worker->rounds == ROUNDS);
    if (--worker->lives_left > 0) {
        int error = rt_loop_post(any_loop(&worker->seed), begin_life, worker);

        assert(error == 0);
        (void)error;
    } else {
        atomic_fetch_sub(&running, 1);
    }
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
    static struct worker workers[COROUTINES];
    struct rt_pool_global_stats stats;
    pthread_t wakers[WAKERS];

    printf("stress_wakeup: seed %u\n", seed);
    for (int i = 0; i < LOOPS; i++) {
        int error = rt_iothread_create("stress", i == 0 ? 20000 : 0, &iothreads[i]);

        assert(error == 0);
        (void)error;
    }
    for (int i = 0; i < WAKERS; i++) {
        mailboxes[i] = (struct mailbox){ .seed = seed + (unsigned)i, .lock = PTHREAD_MUTEX_INITIALIZER,
                                         .filled = PTHREAD_COND_INITIALIZER };
        pthread_create(&wakers[i], NULL, run_waker, &mailboxes[i]);
    }
    for (int i = 0; i < COROUTINES; i++) {
        workers[i] = (struct worker){ .seed = seed * 31 + (unsigned)i, .lives_left = LIVES };
        rt_loop_post(rt_iothread_loop(iothreads[i % LOOPS]), begin_life, &workers[i]);
    }

    while (atomic_load(&running) > 0) {
        if (rt_clock_ns() > deadline_ns) {
            printf("stress_wakeup: %d coroutines never ended: a wake-up was lost\n", atomic_load(&running));
            return 1;
        }
        usleep(2000);
    }

    for (int i = 0; i < WAKERS; i++) {
        pthread_mutex_lock(&mailboxes[i].lock);
        mailboxes[i].closed = true;
        pthread_cond_signal(&mailboxes[i].filled);
        pthread_mutex_unlock(&mailboxes[i].lock);
        pthread_join(wakers[i], NULL);
    }
    end_loops();

    rt_pool_global_stats(&stats);
    printf("stress_wakeup: %llu wake-ups from other threads, %u coroutines left\n", atomic_load(&wakes),
           stats.live_count);
    return stats.live_count == 0 ? 0 : 1;
}
