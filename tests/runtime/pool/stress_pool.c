/*
 * Goal:   whatever the pool's policy, no coroutine is lost, given twice, or entered in two threads, and every idle stack
 *         is accounted for, while threads come and go and the pool's maximum changes.
 * Method: lives by the million in eight threads: six loops that stay, and two that end and are replaced all the time. A life
 *         is begun by one loop and wanders: it moves to other loops, also to those that are about to end, is woken at random by
 *         other threads, takes a coroutine mutex now and then over a yield, and ends in another thread than it began. Its
 *         marks lie on its own stack. Another thread adds and removes devices, releases the memory of what waits, and lets
 *         the number of lives rise and fall.
 * Broken: a mark that changed means a stack in two hands; a life that does not end, a lost wake-up or hand-over; a wrong sum
 *         at the end, a coroutine that a pool lost. ThreadSanitizer watches ORDER pool.release_list.
 * Usage:  stress_pool [POLICY [LIVES [SEED]]]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rt/coroutine.h"
#include "rt/iothread.h"
#include "rt/lock.h"
#include "rt/loop.h"
#include "rt/pool.h"

#define STAYING 6
#define PASSING 2
#define SLOTS (STAYING + PASSING)
#define LOCKS 3

/* A stack is dear under ThreadSanitizer, and a switch under either. */
#if defined(__SANITIZE_THREAD__)
#define LIVES_DEFAULT 20000
#define DEPTH_MAX 48
#elif defined(__SANITIZE_ADDRESS__)
#define LIVES_DEFAULT 50000
#define DEPTH_MAX 600
#else
#define LIVES_DEFAULT 300000
#define DEPTH_MAX 1500
#endif

#define DEPTH_MIN (4 * SLOTS) /* more than can end at once */
#define WAITING_MAX (DEPTH_MAX + 4 * SLOTS)
#define WAKERS 2
#define MARK_WORDS 64
#define DEADLINE_S (60 + lives_wanted / 500)

static struct rt_iothread *iothreads[SLOTS];
/* Who moves to a loop that may end holds it. */
static struct slot {
    pthread_mutex_t lock;
    pthread_cond_t released;
    int holders;
    bool closed;
} slots[SLOTS];

static struct rt_co_mutex locks[LOCKS];
static uint64_t sums[LOCKS]; /* each under its lock; plain memory, for ThreadSanitizer to look at */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct rt_coroutine *waiting[WAITING_MAX];
    int count;
    bool closed;
} mailbox = { .lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER };

/* Held by a waker while it wakes: it may be in the loop's notify when the woken coroutine has come to its end. */
static pthread_mutex_t waking[WAKERS];

static uint64_t lives_wanted;
static atomic_ullong lives_begun, lives_ended, visits, turns, wakes, replaced;
static _Atomic unsigned depth_wanted = DEPTH_MIN;
static _Atomic bool stop;

static unsigned choose(unsigned *seed, unsigned below)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % below;
}

static void fail(const char *what)
{
    fflush(stdout);
    fprintf(stderr, "stress_pool: %s\n", what);
    abort();
}

static void check(int error, const char *what)
{
    if (error < 0)
        fail(what);
}

/* ---- loops that may end ---- */

static bool hold_slot(struct slot *slot)
{
    bool held;

    pthread_mutex_lock(&slot->lock);
    held = !slot->closed;
    slot->holders += held;
    pthread_mutex_unlock(&slot->lock);
    return held;
}

static void drop_slot(struct slot *slot)
{
    pthread_mutex_lock(&slot->lock);
    slot->holders--;
    pthread_cond_signal(&slot->released);
    pthread_mutex_unlock(&slot->lock);
}

static void nothing(void *opaque)
{
}

/* Nobody comes any more; but whoever sent or woke the last one may not be out of this loop's notify yet, and the last one
 * not off its stack. */
static void let_everybody_out(void)
{
    for (int i = 0; i < SLOTS; i++)
        rt_loop_call(rt_iothread_loop(iothreads[i]), nothing, NULL);
    for (int i = 0; i < WAKERS; i++) {
        pthread_mutex_lock(&waking[i]);
        pthread_mutex_unlock(&waking[i]);
    }
}

static void end_slot(int index)
{
    struct slot *slot = &slots[index];

    pthread_mutex_lock(&slot->lock);
    slot->closed = true;
    while (slot->holders > 0)
        pthread_cond_wait(&slot->released, &slot->lock);
    pthread_mutex_unlock(&slot->lock);
    let_everybody_out();
    rt_iothread_destroy(iothreads[index]);
}

static void begin_slot(int index)
{
    check(rt_iothread_create("stress", index == 0 ? 20000 : 0, &iothreads[index]), "no thread");
    pthread_mutex_lock(&slots[index].lock);
    slots[index].closed = false;
    pthread_mutex_unlock(&slots[index].lock);
}

static void *replace_threads(void *opaque)
{
    unsigned seed = *(unsigned *)opaque;

    while (!atomic_load(&stop)) {
        int index = STAYING + (int)choose(&seed, PASSING);

        end_slot(index);
        begin_slot(index);
        atomic_fetch_add(&replaced, 1);
        (void)nanosleep(&(struct timespec){ .tv_nsec = choose(&seed, 2000000) }, NULL);
    }
    return NULL;
}

/* ---- devices that come and go, and load that rises and falls ---- */

static void *change_load(void *opaque)
{
    unsigned seed = *(unsigned *)opaque;
    uint32_t sizes[8] = { 0 };

    while (!atomic_load(&stop)) {
        unsigned which = choose(&seed, 8);

        if (sizes[which]) {
            rt_pool_dec_max(sizes[which]);
            sizes[which] = 0;
        } else {
            sizes[which] = 1 + choose(&seed, 700);
            rt_pool_inc_max(sizes[which]);
        }
        if (choose(&seed, 4) == 0)
            rt_pool_trim(0);
        atomic_store(&depth_wanted, DEPTH_MIN + choose(&seed, DEPTH_MAX - DEPTH_MIN));
        (void)nanosleep(&(struct timespec){ .tv_nsec = choose(&seed, 10) * 1000000L }, NULL);
    }
    for (int i = 0; i < 8; i++)
        rt_pool_dec_max(sizes[i]);
    return NULL;
}

/* ---- wake-ups ---- */

static void *wake(void *opaque)
{
    static atomic_int count;
    pthread_mutex_t *at_work = &waking[atomic_fetch_add(&count, 1)];
    unsigned seed = *(unsigned *)opaque;

    pthread_mutex_lock(&mailbox.lock);
    while (!mailbox.closed) {
        struct rt_coroutine *co;
        unsigned which;

        if (mailbox.count == 0) {
            pthread_cond_wait(&mailbox.filled, &mailbox.lock);
            continue;
        }
        which = choose(&seed, (unsigned)mailbox.count);
        co = mailbox.waiting[which];
        mailbox.waiting[which] = mailbox.waiting[--mailbox.count];
        pthread_mutex_lock(at_work);
        pthread_mutex_unlock(&mailbox.lock);
        rt_coroutine_wake(co);
        pthread_mutex_unlock(at_work);
        atomic_fetch_add_explicit(&wakes, 1, memory_order_relaxed);
        pthread_mutex_lock(&mailbox.lock);
    }
    pthread_mutex_unlock(&mailbox.lock);
    return NULL;
}

static void be_woken(void)
{
    pthread_mutex_lock(&mailbox.lock);
    if (mailbox.count == WAITING_MAX)
        fail("more wait than live");
    mailbox.waiting[mailbox.count++] = rt_coroutine_self();
    pthread_cond_signal(&mailbox.filled);
    pthread_mutex_unlock(&mailbox.lock);
    rt_coroutine_yield();
}

/* ---- a life ---- */

static void take_turn(unsigned *seed)
{
    unsigned which = choose(seed, LOCKS);
    uint64_t before;

    rt_co_mutex_lock_co(&locks[which]);
    before = sums[which];
    if (choose(seed, 4) == 0)
        rt_coroutine_move(rt_iothread_loop(iothreads[choose(seed, STAYING)]));
    sums[which] = before + 1;
    rt_co_mutex_unlock(&locks[which]);
    atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed);
}

/* Lives that know only the thread that comes and goes. */
static void visit(unsigned *seed)
{
    for (unsigned i = choose(seed, 10); i > 0; i--) {
        struct rt_coroutine *co = rt_coroutine_create(nothing, NULL);

        if (!co)
            fail("no stack");
        rt_coroutine_enter(co);
        atomic_fetch_add_explicit(&visits, 1, memory_order_relaxed);
    }
}

static void begin_life(void *opaque);

/* One in its place, or two, or none, as the load rises or falls. Returns false when all lives are begun. */
static bool begin_next(unsigned *seed)
{
    uint64_t begun = atomic_load(&lives_begun);

    do
        if (begun == lives_wanted)
            return false;
    while (!atomic_compare_exchange_weak(&lives_begun, &begun, begun + 1));
    check(rt_loop_post(rt_iothread_loop(iothreads[choose(seed, STAYING)]), begin_life,
                       (void *)(uintptr_t)(*seed + (unsigned)begun)),
          "no bottom half");
    return true;
}

static void live(void *opaque)
{
    unsigned seed = (unsigned)(uintptr_t)opaque;
    uint32_t marks[MARK_WORDS];
    uint64_t id = rt_coroutine_id(rt_coroutine_self());
    int where = -1; /* the slot that it holds */
    uint64_t alive, depth;

    for (int i = 0; i < MARK_WORDS; i++)
        marks[i] = (uint32_t)id + (uint32_t)i;
    for (unsigned step = choose(&seed, 4); step > 0; step--) {
        switch (choose(&seed, 8)) {
        case 0:
            be_woken();
            break;
        case 1:
            take_turn(&seed);
            break;
        case 2: { /* to a thread that comes and goes; perhaps to end there */
            int next = STAYING + (int)choose(&seed, PASSING);

            if (where < 0 && hold_slot(&slots[next])) {
                where = next;
                rt_coroutine_move(rt_iothread_loop(iothreads[where]));
                visit(&seed);
            }
            break;
        }
        case 3:
            rt_coroutine_move(rt_iothread_loop(iothreads[choose(&seed, STAYING)]));
            break;
        case 4:
            rt_coroutine_wake(rt_coroutine_self());
            rt_coroutine_yield();
            break;
        }
    }
    for (int i = 0; i < MARK_WORDS; i++)
        if (marks[i] != (uint32_t)id + (uint32_t)i)
            fail("somebody else wrote to the stack of a life");

    alive = atomic_load(&lives_begun) - atomic_load(&lives_ended);
    depth = atomic_load(&depth_wanted);
    if (alive <= depth + 2 * SLOTS && begin_next(&seed) && alive < depth)
        begin_next(&seed);
    atomic_fetch_add(&lives_ended, 1);
    if (where >= 0)
        drop_slot(&slots[where]);
}

static void begin_life(void *opaque)
{
    struct rt_coroutine *co = rt_coroutine_create(live, opaque);

    if (!co)
        fail("no stack");
    rt_coroutine_enter(co);
}

/* ---- the run ---- */

static void count_local(const struct rt_pool_thread_stats *stats, void *opaque)
{
    *(uint64_t *)opaque += stats->local_size;
}

static void check_what_is_left(void)
{
    struct rt_pool_global_stats stats;
    uint64_t local = 0, sum = 0;

    rt_pool_global_stats(&stats);
    rt_pool_each_thread(count_local, &local);
    for (int i = 0; i < LOCKS; i++)
        sum += sums[i];
    printf("%llu lives and %llu short ones, %llu turns under locks, %llu wake-ups, %llu threads replaced; %u stacks left\n",
           atomic_load(&lives_ended), atomic_load(&visits), atomic_load(&turns), atomic_load(&wakes), atomic_load(&replaced), stats.stack_count);
    if (stats.live_count != 0)
        fail("some live on");
    if (sum != atomic_load(&turns))
        fail("two held one lock");
    /* The threads are gone, and with them what was theirs. The counter of the release list is approximate. */
    if (rt_pool_policy() != RT_POOL_PER_THREAD && stats.stack_count != stats.global_size + local)
        fail("a pool lost a coroutine");
    if (rt_pool_policy() == RT_POOL_BATCHED && stats.global_size >= stats.global_max + RT_POOL_BATCH_SIZE)
        fail("the global pool exceeds its maximum by a batch");
}

int main(int argc, char **argv)
{
    const char *policy_name = argc > 1 ? argv[1] : "batched";
    unsigned seed = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 0) : (unsigned)getpid(), policy = 0;
    void *(*const helpers[])(void *) = { replace_threads, change_load, wake, wake };
    enum { HELPERS = sizeof(helpers) / sizeof(helpers[0]) };
    unsigned seeds[HELPERS];
    pthread_t threads[HELPERS];
    int64_t deadline_ns;

    while (rt_pool_policy_name(policy) && strcmp(rt_pool_policy_name(policy), policy_name) != 0)
        policy++;
    if (rt_pool_configure(policy) < 0) {
        fprintf(stderr, "Usage: stress_pool [POLICY [LIVES [SEED]]]\n");
        return 2;
    }
    lives_wanted = argc > 2              ? strtoull(argv[2], NULL, 0)
                   : policy == RT_POOL_NONE ? LIVES_DEFAULT / 10 /* each makes a stack */
                                            : LIVES_DEFAULT;
    deadline_ns = rt_clock_ns() + (int64_t)DEADLINE_S * 1000000000;
    printf("stress_pool: %s, %llu lives, seed %u\n", policy_name, (unsigned long long)lives_wanted, seed);
    fflush(stdout);
    for (int i = 0; i < WAKERS; i++)
        pthread_mutex_init(&waking[i], NULL);
    for (int i = 0; i < LOCKS; i++)
        rt_co_mutex_init(&locks[i], "stress");
    for (int i = 0; i < SLOTS; i++) {
        pthread_mutex_init(&slots[i].lock, NULL);
        pthread_cond_init(&slots[i].released, NULL);
        begin_slot(i);
    }
    for (int i = 0; i < HELPERS; i++) {
        seeds[i] = seed * 31 + (unsigned)i;
        pthread_create(&threads[i], NULL, helpers[i], &seeds[i]);
    }
    for (int i = 0; i < DEPTH_MIN; i++)
        begin_next(&seed);

    while (atomic_load(&lives_ended) < lives_wanted) {
        if (rt_clock_ns() > deadline_ns)
            fail("some lives never end: a wake-up or a hand-over was lost");
        (void)nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    }

    atomic_store(&stop, true);
    pthread_mutex_lock(&mailbox.lock);
    mailbox.closed = true;
    pthread_cond_broadcast(&mailbox.filled);
    pthread_mutex_unlock(&mailbox.lock);
    for (int i = 0; i < HELPERS; i++)
        pthread_join(threads[i], NULL);
    let_everybody_out();
    for (int i = 0; i < SLOTS; i++)
        rt_iothread_destroy(iothreads[i]);
    check_what_is_left();
    for (int i = 0; i < LOCKS; i++)
        rt_co_mutex_deinit(&locks[i]);
    return 0;
}
