/*
 * A process to be recorded by integration_process.sh. It owns a loop, an IOThread, pooled coroutines, a lock that it
 * holds, and a source; each line on stdin is something to do, answered by "done".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <pthread.h>
#include <unistd.h>

#include "rt/coroutine.h"
#include "rt/iothread.h"
#include "rt/lock.h"
#include "rt/loop.h"
#include "rt/pool.h"
#include "rt/process.h"

#define POOLED 40
#define LIVE 3

static struct rt_mutex held, guilty;
static struct rt_loop *loop;
static struct rt_iothread *iothread;
static struct rt_coroutine *live[LIVE], *pooled[POOLED];

static void wait_once(void *opaque)
{
    rt_coroutine_yield();
}

static struct rt_coroutine *begin(rt_coroutine_fn *fn)
{
    struct rt_coroutine *co = rt_coroutine_create(fn, NULL);

    if (co)
        rt_coroutine_enter(co);
    return co;
}

/* Between the runtime's own part of a baseline and the pools: the source shows by a lock of its own where it ran. */
static void source_baseline(void *opaque)
{
    struct rt_mutex marker;

    rt_mutex_init(&marker, "source-marker");
    rt_mutex_deinit(&marker);
}

/* ---- what can be asked for ---- */

static void hold_over_yield(void *opaque)
{
    rt_mutex_lock(&guilty);
    rt_coroutine_yield();
    rt_mutex_unlock(&guilty);
}

static void yield_holding(void)
{
    rt_coroutine_enter(begin(hold_over_yield));
}

/* Everything else that suspends, each with a mutex in hand whose class says what. */
static struct rt_co_mutex taken;
static struct rt_co_rwlock written;
static struct rt_mutex queue_lock;
static struct rt_co_queue queue;
static int suspended;

static void wait_for_co_mutex(void)
{
    rt_co_mutex_lock_co(&taken);
    rt_co_mutex_unlock(&taken);
}

static void wait_to_read(void)
{
    rt_co_rwlock_read_co(&written);
    rt_co_rwlock_unlock(&written);
}

static void wait_to_write(void)
{
    rt_co_rwlock_write_co(&written);
    rt_co_rwlock_unlock(&written);
}

static void wait_in_queue(void)
{
    rt_mutex_lock(&queue_lock);
    rt_co_queue_wait_mutex_co(&queue, &queue_lock);
    rt_mutex_unlock(&queue_lock);
}

static void move(void)
{
    rt_coroutine_move(rt_iothread_loop(iothread));
}

static const struct suspension {
    const char *class_name;
    void (*suspend)(void);
} suspensions[] = {
    { "guilty-of-co-mutex", wait_for_co_mutex }, { "guilty-of-reading", wait_to_read },
    { "guilty-of-writing", wait_to_write },      { "guilty-of-queueing", wait_in_queue },
    { "guilty-of-moving", move },
};
#define SUSPENSIONS (sizeof(suspensions) / sizeof(suspensions[0]))

static void suspend_holding(void *opaque)
{
    const struct suspension *suspension = opaque;
    struct rt_mutex mutex;

    rt_mutex_init(&mutex, suspension->class_name);
    rt_mutex_lock(&mutex);
    suspension->suspend();
    rt_mutex_unlock(&mutex); /* in whichever thread it goes on in */
    rt_mutex_deinit(&mutex);
    rt_coroutine_move(loop);
    suspended--;
}

static void be_in_the_way(void *opaque)
{
    rt_co_mutex_lock_co(&taken);
    rt_co_rwlock_write_co(&written);
    rt_coroutine_yield();
    rt_co_mutex_unlock(&taken);
    rt_co_rwlock_unlock(&written);
}

static void suspend_in_every_way(void)
{
    struct rt_coroutine *obstacle;

    rt_co_mutex_init(&taken, "subject-taken");
    rt_co_rwlock_init(&written, "subject-written");
    rt_mutex_init(&queue_lock, "subject-queue");
    rt_co_queue_init(&queue);
    obstacle = begin(be_in_the_way);
    for (size_t i = 0; i < SUSPENSIONS; i++) {
        struct rt_coroutine *co = rt_coroutine_create(suspend_holding, (void *)(uintptr_t)&suspensions[i]);

        suspended++;
        rt_coroutine_enter(co);
    }
    rt_coroutine_enter(obstacle);
    rt_mutex_lock(&queue_lock);
    rt_co_queue_wake_all(&queue);
    rt_mutex_unlock(&queue_lock);
    while (suspended > 0)
        rt_loop_pass(loop, true);
    rt_co_mutex_deinit(&taken);
    rt_co_rwlock_deinit(&written);
    rt_mutex_deinit(&queue_lock);
}

static void *wait_for_held(void *opaque)
{
    rt_mutex_lock(&held);
    rt_mutex_unlock(&held);
    return NULL;
}

static void contend(void)
{
    pthread_t waiter;

    if (pthread_create(&waiter, NULL, wait_for_held, NULL) != 0)
        abort();
    while (atomic_load(&held.info.waiters) == 0)
        usleep(1000);
    rt_mutex_unlock(&held);
    pthread_join(waiter, NULL);
    rt_mutex_lock(&held);
}

static void overflow(void)
{
    static struct rt_coroutine *cos[6 * RT_POOL_BATCH_SIZE];
    size_t count = sizeof(cos) / sizeof(cos[0]);

    rt_pool_inc_max(10);
    for (size_t i = 0; i < count; i++)
        cos[i] = begin(wait_once);
    for (size_t i = 0; i < count; i++)
        rt_coroutine_enter(cos[i]);
    rt_pool_dec_max(10);
}

static void *use_pool(void *opaque)
{
    rt_coroutine_enter(begin(wait_once));
    return NULL;
}

static void thread_comes_and_goes(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, use_pool, NULL) != 0)
        abort();
    pthread_join(thread, NULL);
}

static void exhaust(void)
{
    static struct rt_coroutine *cos[100000];
    struct rlimit before, now;
    size_t count = 0;
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file || fscanf(file, "%lu", &pages) != 1)
        abort();
    fclose(file);
    getrlimit(RLIMIT_AS, &before);
    now = before;
    now.rlim_cur = (pages + 5000) * (unsigned long)sysconf(_SC_PAGESIZE);
    setrlimit(RLIMIT_AS, &now);
    while (count < sizeof(cos) / sizeof(cos[0]) && (cos[count] = begin(wait_once)))
        count++;
    setrlimit(RLIMIT_AS, &before);
    while (count > 0)
        rt_coroutine_enter(cos[--count]);
}

static void baseline(void)
{
    rt_process_request_baseline();
}

static const struct {
    const char *name;
    void (*run)(void);
} commands[] = {
    { "yield-holding\n", yield_holding }, { "suspend-holding\n", suspend_in_every_way },
    { "contend\n", contend },   { "overflow\n", overflow },
    { "thread\n", thread_comes_and_goes }, { "exhaust\n", exhaust }, { "baseline\n", baseline },
};

int main(void)
{
    struct rt_process_source source = { .baseline = source_baseline };
    char line[64];

    if (rt_process_start(&(struct rt_process_options){
            .version = "1.2.3", .faults = "one,two", .request_lock = "sharded", .tracing = true }) < 0)
        return 1;
    if (rt_process_tracing_reason()) {
        printf("%s\n", rt_process_tracing_reason());
        return 1;
    }
    if (rt_loop_create("subject-main", &loop) < 0 || rt_iothread_create("subject-io", 0, &iothread) < 0)
        return 1;
    rt_loop_bind(loop);
    rt_process_add_source(&source);
    rt_mutex_init(&held, "subject-held");
    rt_mutex_init(&guilty, "subject-guilty");
    rt_mutex_lock(&held);
    for (int i = 0; i < LIVE; i++)
        live[i] = begin(wait_once);
    for (int i = 0; i < POOLED; i++)
        pooled[i] = begin(wait_once);
    for (int i = 0; i < POOLED; i++)
        rt_coroutine_enter(pooled[i]);

    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin))
        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
            if (strcmp(line, commands[i].name) == 0) {
                commands[i].run();
                printf("done %s", line);
                fflush(stdout);
            }

    for (int i = 0; i < LIVE; i++)
        rt_coroutine_enter(live[i]);
    rt_mutex_unlock(&held);
    rt_process_stop();
    rt_process_remove_source(&source);
    rt_mutex_deinit(&held);
    rt_mutex_deinit(&guilty);
    rt_iothread_destroy(iothread);
    rt_loop_destroy(loop);
    return 0;
}
