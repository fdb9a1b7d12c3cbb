/*
 * What locks cost: alone, handed from one thread to another, and as the lock that every request of a disk takes twice.
 *
 * The request locks run as the device runs them: coroutines in IOThreads that begin and end tracked requests, on a disk that
 * takes no time, so that nothing but the lock is left to wait for.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "device/tracked.h"
#include "rt/coroutine.h"
#include "rt/iothread.h"
#include "rt/lock.h"
#include "rt/loop.h"

#define LOOPS_MAX 4
#define QUEUES 8
#define PER_QUEUE 8 /* requests in flight */
#define POLL_MAX_NS 200000 /* as vblkd's default */

static struct rt_iothread *iothreads[LOOPS_MAX];
static struct bench *bench;

static struct rt_loop *loop_at(unsigned index)
{
    return rt_iothread_loop(iothreads[index]);
}

/* ---- many coroutines at once ---- */

static atomic_uint running;
static sem_t all_ended;

struct life {
    rt_coroutine_fn *fn;
    void *opaque;
};

static void live(void *opaque)
{
    struct life *life = opaque;

    life->fn(life->opaque);
    if (atomic_fetch_sub(&running, 1) == 1)
        sem_post(&all_ended);
}

static void begin(void *opaque)
{
    struct rt_coroutine *co = rt_coroutine_create(live, opaque);

    if (!co)
        abort(); /* some dozens of stacks */
    rt_coroutine_enter(co);
}

static void nothing(void *opaque)
{
}

static void start(struct life *life, unsigned loop_index)
{
    if (rt_loop_post(loop_at(loop_index), begin, life) < 0)
        abort();
}

static void wait_for_all(void)
{
    while (sem_wait(&all_ended) < 0)
        ;
    for (unsigned i = 0; i < LOOPS_MAX; i++)
        rt_loop_call(loop_at(i), nothing, NULL);
}

/* ---- alone ---- */

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static struct rt_mutex mutex;
static struct rt_co_mutex co_mutex;
static struct rt_co_rwlock rwlock;

static unsigned turns(void)
{
    return bench_quick(bench) ? 1000 : 200000;
}

/* In a coroutine, as coroutine locks need one. */
#define SAMPLE_ALONE(name, lock, unlock)                                                                               \
    static void name##_turns(void *opaque)                                                                             \
    {                                                                                                                  \
        int64_t begin_ns = bench_cpu_ns();                                                                             \
                                                                                                                       \
        for (unsigned i = 0; i < turns(); i++) {                                                                       \
            lock;                                                                                                      \
            unlock;                                                                                                    \
        }                                                                                                              \
        *(double *)opaque = (double)(bench_cpu_ns() - begin_ns) / turns();                                             \
    }                                                                                                                  \
    static int name(void *opaque, double *value_out)                                                                   \
    {                                                                                                                  \
        struct rt_coroutine *co = rt_coroutine_create(name##_turns, value_out);                                        \
                                                                                                                       \
        if (!co)                                                                                                       \
            return -ENOMEM;                                                                                            \
        rt_coroutine_enter(co);                                                                                        \
        return 0;                                                                                                      \
    }

SAMPLE_ALONE(sample_plain, pthread_mutex_lock(&plain), pthread_mutex_unlock(&plain))
SAMPLE_ALONE(sample_mutex, rt_mutex_lock(&mutex), rt_mutex_unlock(&mutex))
SAMPLE_ALONE(sample_co_mutex, rt_co_mutex_lock_co(&co_mutex), rt_co_mutex_unlock(&co_mutex))
SAMPLE_ALONE(sample_reading, rt_co_rwlock_read_co(&rwlock), rt_co_rwlock_unlock(&rwlock))
SAMPLE_ALONE(sample_writing, rt_co_rwlock_write_co(&rwlock), rt_co_rwlock_unlock(&rwlock))

static void measure_alone(void)
{
    static const struct {
        const char *name;
        bench_sample_fn sample;
    } kinds[] = { { "rt_mutex", sample_mutex },
                  { "rt_co_mutex", sample_co_mutex },
                  { "rt_co_rwlock, reading", sample_reading },
                  { "rt_co_rwlock, writing", sample_writing } };
    struct bench_group *group =
        bench_group(bench, BENCH_TIMES, "Lock and unlock, nobody else there", "pthread_mutex", "this lock");

    rt_mutex_init(&mutex, "bench");
    rt_co_mutex_init(&co_mutex, "bench");
    rt_co_rwlock_init(&rwlock, "bench");
    for (unsigned i = 0; i < G_N_ELEMENTS(kinds); i++)
        bench_compare(bench_row(group, kinds[i].name, "ns", BENCH_LOWER), sample_plain, kinds[i].sample, NULL,
                      bench_pairs(bench, 15));
    bench_note(group, "What a lock costs beyond pthread_mutex_lock() is knowing its owner and counting: two clock reads in 17 "
                      "turns, a list of what the thread holds, and the trace points.");
    rt_mutex_deinit(&mutex);
    rt_co_mutex_deinit(&co_mutex);
    rt_co_rwlock_deinit(&rwlock);
}

/* ---- handed from thread to thread ---- */

static struct hand_over {
    bool coroutine;
    unsigned turns;
    int64_t given_ns, total_ns; /* under the lock */
    unsigned count;
} hand_over;

static void take_turns(void *opaque)
{
    const struct rt_lock_info *info = hand_over.coroutine ? &co_mutex.info : &mutex.info;
    atomic_uint *left = opaque; /* of both sides: who is alone has nobody to give it to */

    for (unsigned i = 0; i < hand_over.turns; i++) {
        int64_t now_ns;

        if (hand_over.coroutine)
            rt_co_mutex_lock_co(&co_mutex);
        else
            rt_mutex_lock(&mutex);
        now_ns = bench_wall_ns();
        if (hand_over.given_ns) {
            hand_over.total_ns += now_ns - hand_over.given_ns;
            hand_over.count++;
        }
        /* Held until the other one stands there. */
        while (atomic_load_explicit(&info->waiters, memory_order_relaxed) == 0 && atomic_load(left) == 2)
            ;
        hand_over.given_ns = atomic_load(left) == 2 ? bench_wall_ns() : 0;
        if (i + 1 == hand_over.turns)
            atomic_fetch_sub(left, 1);
        if (hand_over.coroutine)
            rt_co_mutex_unlock(&co_mutex);
        else
            rt_mutex_unlock(&mutex);
    }
}

static int sample_hand_over(bool coroutine, double *us_out)
{
    atomic_uint left = 2;
    struct life life = { take_turns, &left };

    hand_over = (struct hand_over){ .coroutine = coroutine, .turns = bench_quick(bench) ? 20 : 2000 };
    rt_mutex_init(&mutex, "bench");
    rt_co_mutex_init(&co_mutex, "bench");
    atomic_store(&running, 2);
    for (unsigned i = 0; i < 2; i++)
        start(&life, i);
    wait_for_all();
    rt_mutex_deinit(&mutex);
    rt_co_mutex_deinit(&co_mutex);
    if (hand_over.count == 0)
        return -ENODATA;
    *us_out = (double)hand_over.total_ns / 1e3 / hand_over.count;
    return 0;
}

static int sample_hand_over_coroutine(void *opaque, double *us_out)
{
    return sample_hand_over(true, us_out);
}

static int sample_hand_over_thread(void *opaque, double *us_out)
{
    return sample_hand_over(false, us_out);
}

static void measure_hand_over(void)
{
    struct bench_group *group =
        bench_group(bench, BENCH_CHANGE, "From one loop's thread to the other's", "coroutine mutex", "thread mutex");

    bench_compare(bench_row(group, "unlock until the waiter has it", "us", BENCH_LOWER), sample_hand_over_coroutine,
                  sample_hand_over_thread, NULL, bench_pairs(bench, 9));
}

/* ---- as the request lock ---- */

struct subject {
    const struct vblk_request_lock *policy;
    unsigned loops;
    GArray *waits, *wait_us; /* beside the rate: waits in 1,000 requests, and how long each was; one a round */
};

static struct vblk_tracked_disk disk;
static atomic_bool stopping;

struct flight {
    struct life life;
    unsigned queue;
    uint64_t requests;
};

static void be_a_driver(void *opaque)
{
    struct flight *flight = opaque;
    struct vblk_tracked tracked = { .request_id = 1, .size_bytes = 4096 };
    uint64_t requests = 0;

    while (!atomic_load_explicit(&stopping, memory_order_relaxed)) {
        vblk_tracked_begin_co(&disk, flight->queue, &tracked);
        vblk_tracked_end_co(&disk, flight->queue, &tracked, false);
        requests++;
        /* The next request of the ring is another coroutine's. */
        rt_coroutine_wake(rt_coroutine_self());
        rt_coroutine_yield();
    }
    flight->requests = requests;
}

static void add_contention(const struct rt_lock_class_stats *stats, void *opaque)
{
    uint64_t *sums = opaque;

    if (strcmp(stats->class_name, VBLK_TRACKED_LOCK_CLASS) != 0)
        return;
    sums[0] += stats->contentions;
    sums[1] += stats->wait_ns;
}

static int sample_requests(void *opaque, double *per_second_out)
{
    static struct flight flights[QUEUES * PER_QUEUE];
    struct subject *subject = opaque;
    uint64_t before[2] = { 0 }, after[2] = { 0 }, requests = 0;
    double waits, wait_us;
    int64_t begin_ns;

    rt_lock_each_class(add_contention, before);
    vblk_tracked_init(&disk, subject->policy, QUEUES);
    atomic_store(&stopping, false);
    atomic_store(&running, G_N_ELEMENTS(flights));
    begin_ns = bench_wall_ns();
    for (unsigned i = 0; i < G_N_ELEMENTS(flights); i++) {
        flights[i] = (struct flight){ .queue = i % QUEUES };
        flights[i].life = (struct life){ be_a_driver, &flights[i] };
        start(&flights[i].life, flights[i].queue % subject->loops);
    }
    g_usleep(bench_quick(bench) ? 10000 : 200000);
    atomic_store(&stopping, true);
    wait_for_all();
    begin_ns = bench_wall_ns() - begin_ns;
    vblk_tracked_deinit(&disk);
    rt_lock_each_class(add_contention, after);
    for (unsigned i = 0; i < G_N_ELEMENTS(flights); i++)
        requests += flights[i].requests;
    waits = 1000.0 * (double)(after[0] - before[0]) / (double)requests;
    wait_us = after[0] == before[0] ? 0 : (double)(after[1] - before[1]) / 1e3 / (double)(after[0] - before[0]);
    g_array_append_val(subject->waits, waits);
    g_array_append_val(subject->wait_us, wait_us);
    *per_second_out = (double)requests * 1e9 / (double)begin_ns;
    return 0;
}

/* The last @rounds; what a warm-up gave comes before. */
static void pair_rows(struct bench_row *row, const GArray *old_values, const GArray *new_values, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++)
        bench_pair(row, g_array_index(old_values, double, old_values->len - rounds + i),
                   g_array_index(new_values, double, new_values->len - rounds + i));
}

enum { COROUTINE, THREAD, SHARDED, POLICIES };
#define GROUPS 3

static struct bench_row *row_of(struct bench_group *group, unsigned loops, const char *what, const char *unit,
                                enum bench_better better)
{
    char *name = g_strdup_printf("%u loop%s: %s", loops, loops == 1 ? "" : "s", what);
    struct bench_row *row = bench_row(group, name, unit, better);

    g_free(name);
    return row;
}

static void measure_requests(unsigned loops, struct bench_group *const *groups)
{
    static const int compared[GROUPS][2] = { { COROUTINE, THREAD }, { COROUTINE, SHARDED }, { THREAD, SHARDED } };
    struct subject subjects[POLICIES] = { [COROUTINE] = { .policy = vblk_request_lock_find("coroutine") },
                                          [THREAD] = { .policy = vblk_request_lock_find("thread") },
                                          [SHARDED] = { .policy = vblk_request_lock_find("sharded") } };
    struct bench_subject samples[POLICIES];
    unsigned rounds = bench_pairs(bench, 7);

    for (int i = 0; i < POLICIES; i++) {
        subjects[i].loops = loops;
        subjects[i].waits = g_array_new(FALSE, FALSE, sizeof(double));
        subjects[i].wait_us = g_array_new(FALSE, FALSE, sizeof(double));
        samples[i] = (struct bench_subject){ .sample = sample_requests, .opaque = &subjects[i] };
    }
    bench_alternate(bench, samples, POLICIES, rounds);
    for (int g = 0; g < GROUPS; g++) {
        int old_one = compared[g][0], new_one = compared[g][1];
        struct bench_row *row = row_of(groups[g], loops, "requests", "requests/s", BENCH_HIGHER);

        bench_row_of(row, &samples[old_one], &samples[new_one]);
        /* What the change from one to the other brought where it was made. */
        if (loops == LOOPS_MAX && old_one == COROUTINE)
            bench_target(row, BENCH_OF_CHANGE, 100);
        pair_rows(row_of(groups[g], loops, "waits in 1,000 requests", "", BENCH_LOWER), subjects[old_one].waits,
                  subjects[new_one].waits, rounds);
        pair_rows(row_of(groups[g], loops, "a wait", "us", BENCH_LOWER), subjects[old_one].wait_us,
                  subjects[new_one].wait_us, rounds);
    }
    bench_subjects_deinit(samples, POLICIES);
    for (int i = 0; i < POLICIES; i++) {
        g_array_unref(subjects[i].waits);
        g_array_unref(subjects[i].wait_us);
    }
}

int main(int argc, char **argv)
{
    struct bench_group *groups[GROUPS];
    struct rt_loop *loop;

    bench = bench_begin("lock", "Locks alone, handed over, and as the lock that every request of a disk takes twice: 8 queues "
                                "with 8 requests each in flight, in 1, 2 and 4 IOThreads, on a disk that takes no time.",
                        NULL, argc, argv);
    sem_init(&all_ended, 0, 0);
    if (rt_loop_create("main", &loop) < 0)
        return 1;
    rt_loop_bind(loop);
    for (unsigned i = 0; i < LOOPS_MAX; i++)
        if (rt_iothread_create("bench", POLL_MAX_NS, &iothreads[i]) < 0)
            return 1;
    measure_alone();
    measure_hand_over();
    groups[0] = bench_group(bench, BENCH_CHANGE, "Request lock: a thread mutex for the coroutine mutex", "coroutine", "thread");
    groups[1] = bench_group(bench, BENCH_CHANGE, "Request lock: a lock for each queue", "coroutine", "sharded");
    groups[2] = bench_group(bench, BENCH_CHANGE, "Request lock: what the lists of their own add", "thread", "sharded");
    for (unsigned loops = 1; loops <= LOOPS_MAX; loops *= 2)
        measure_requests(loops, groups);
    for (unsigned i = 0; i < LOOPS_MAX; i++)
        rt_iothread_destroy(iothreads[i]);
    rt_loop_destroy(loop);
    return bench_finish(bench);
}
