/*
 * Goal:   what each policy of the coroutine pool costs and holds.
 * Method: each sample in a child process, since a process chooses its policy once; the policies in turn, in one run. A life is
 *         made, entered, yields, is entered again and ends; several are alive together. Processor time of the threads at
 *         work; the kernel's count of mappings and resident memory, less what there was before the first coroutine. Stacks have
 *         mprotect guards where mappings are counted, as lightweight ones cost none.
 * Usage:  bench_pool [--idle=SECONDS] and what compare.h names
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "compare.h"
#include "rt/coroutine.h"
#include "rt/pool.h"
#include "rt/process.h"

#define POLICIES 3
#define STEADY_DEPTH 64
#define HANDOVER_DEPTH 256
#define BURST 5000
#define BURST_THREADS 4
#define HOARDERS 8
#define VISITORS 4
#define VISITOR_DEPTH 300
#define SLOWER 100 /* a life without a pool: so many fewer are enough */
#define DEVICES_SHARE (2 * 4 * 1024 / 2) /* two devices with four queues of 1024 */

struct figures {
    double life_ns, hit_percent, mappings, resident_mib, stacks, bursts;
    uint32_t map_limit; /* that stopped it; 0: nothing did */
};

struct scenario {
    void (*run)(const struct scenario *scenario, struct figures *figures);
    enum rt_pool_policy policy;
    enum rt_stack_guard guard;
    unsigned threads, rounds, depth;
    double idle_s;
};

/* ---- lives ---- */

static void live_until_entered(void *opaque)
{
    rt_coroutine_yield();
}

/* Returns how many were made: fewer than @count when no stack could be mapped. */
static unsigned make_lives(struct rt_coroutine **lives, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        lives[i] = rt_coroutine_create(live_until_entered, NULL);
        if (!lives[i])
            return i;
        rt_coroutine_enter(lives[i]);
    }
    return count;
}

static void end_lives(struct rt_coroutine **lives, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        rt_coroutine_enter(lives[i]);
}

/* What all threads of a run have done, those that have ended too. */
static struct {
    pthread_mutex_t lock;
    uint64_t takes, misses, lives;
    int64_t cpu_ns;
} done = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void copy_if_asked_for(const struct rt_pool_thread_stats *stats, void *opaque)
{
    struct rt_pool_thread_stats *mine = opaque;

    if (stats->thread_id == mine->thread_id)
        *mine = *stats;
}

static struct rt_pool_thread_stats this_thread(void)
{
    struct rt_pool_thread_stats mine = { .thread_id = (int32_t)syscall(SYS_gettid) };

    rt_pool_each_thread(copy_if_asked_for, &mine);
    return mine;
}

/* @since: what the thread had done when the measurement began. */
static void add_this_thread(const struct rt_pool_thread_stats *since, uint64_t lives, int64_t cpu_ns)
{
    struct rt_pool_thread_stats now = this_thread();

    pthread_mutex_lock(&done.lock);
    done.takes += now.takes - since->takes;
    done.misses += now.misses - since->misses;
    done.lives += lives;
    done.cpu_ns += cpu_ns;
    pthread_mutex_unlock(&done.lock);
}

static unsigned mappings_before;
static double kib_before;

static void measure_room(struct figures *figures)
{
    struct rt_pool_global_stats stats;
    unsigned mappings = bench_mapping_count();
    double kib = bench_resident_kib();

    rt_pool_global_stats(&stats);
    figures->mappings = mappings > mappings_before ? mappings - mappings_before : 0;
    figures->resident_mib = kib > kib_before ? (kib - kib_before) / 1024 : 0;
    figures->stacks = stats.stack_count;
}

static void measure_done(struct figures *figures)
{
    figures->life_ns = done.lives ? (double)done.cpu_ns / (double)done.lives : 0;
    figures->hit_percent = done.takes ? 100 * (double)(done.takes - done.misses) / (double)done.takes : 0;
}

/* ---- steady depth ---- */

static void *live_steadily(void *opaque)
{
    const struct scenario *scenario = opaque;
    struct rt_coroutine *lives[STEADY_DEPTH];
    struct rt_pool_thread_stats since = { 0 };
    int64_t begin_ns = 0;

    for (unsigned round = 0; round < 2 * scenario->rounds; round++) {
        if (round == scenario->rounds) { /* the pools are full */
            since = this_thread();
            begin_ns = bench_cpu_ns();
        }
        make_lives(lives, STEADY_DEPTH);
        end_lives(lives, STEADY_DEPTH);
    }
    add_this_thread(&since, (uint64_t)scenario->rounds * STEADY_DEPTH, bench_cpu_ns() - begin_ns);
    return NULL;
}

static void steady(const struct scenario *scenario, struct figures *figures)
{
    pthread_t threads[2];

    for (unsigned i = 0; i < scenario->threads; i++)
        pthread_create(&threads[i], NULL, live_steadily, (void *)scenario);
    for (unsigned i = 0; i < scenario->threads; i++)
        pthread_join(threads[i], NULL);
    measure_done(figures);
}

/* ---- made here, ended there ---- */

struct handover {
    const struct scenario *scenario;
    struct rt_coroutine *lives[HANDOVER_DEPTH];
    pthread_barrier_t barrier;
};

static void *end_there(void *opaque)
{
    struct handover *handover = opaque;
    struct rt_pool_thread_stats since = { 0 };
    int64_t cpu_ns = 0;

    for (unsigned round = 0; round < 2 * handover->scenario->rounds; round++) {
        int64_t begin_ns;

        pthread_barrier_wait(&handover->barrier);
        if (round == handover->scenario->rounds) { /* the pools are full */
            since = this_thread();
            cpu_ns = 0;
        }
        begin_ns = bench_cpu_ns();
        end_lives(handover->lives, HANDOVER_DEPTH);
        cpu_ns += bench_cpu_ns() - begin_ns;
        pthread_barrier_wait(&handover->barrier);
    }
    add_this_thread(&since, 0, cpu_ns);
    pthread_barrier_wait(&handover->barrier); /* measured; its pool is still there */
    return NULL;
}

static void handover(const struct scenario *scenario, struct figures *figures)
{
    struct handover handover = { .scenario = scenario };
    struct rt_pool_thread_stats since = { 0 };
    int64_t cpu_ns = 0;
    pthread_t there;

    pthread_barrier_init(&handover.barrier, NULL, 2);
    pthread_create(&there, NULL, end_there, &handover);
    for (unsigned round = 0; round < 2 * scenario->rounds; round++) {
        int64_t begin_ns;

        if (round == scenario->rounds) {
            since = this_thread();
            cpu_ns = 0;
        }
        begin_ns = bench_cpu_ns();
        make_lives(handover.lives, HANDOVER_DEPTH);
        cpu_ns += bench_cpu_ns() - begin_ns;
        pthread_barrier_wait(&handover.barrier);
        pthread_barrier_wait(&handover.barrier);
    }
    add_this_thread(&since, (uint64_t)scenario->rounds * HANDOVER_DEPTH, cpu_ns);
    measure_room(figures);
    pthread_barrier_wait(&handover.barrier);
    pthread_join(there, NULL);
    measure_done(figures);
}

/* ---- bursts ---- */

struct burst {
    const struct scenario *scenario;
    sem_t begin, over;
    bool failed;
};

static struct rt_coroutine *burst_lives[BURST]; /* one burst at a time */

/* A burst, then one life at a time, as a device that is nearly idle has them. */
static void *run_bursts(void *opaque)
{
    struct burst *burst = opaque;
    unsigned depth = burst->scenario->depth;

    for (unsigned round = 0; round < burst->scenario->rounds; round++) {
        int64_t begin_ns;
        unsigned made;

        sem_wait(&burst->begin);
        begin_ns = bench_cpu_ns();
        made = make_lives(burst_lives, depth);
        burst->failed = made < depth;
        end_lives(burst_lives, made);
        if (!burst->failed) {
            made += make_lives(burst_lives, 1);
            end_lives(burst_lives, 1);
        }
        pthread_mutex_lock(&done.lock);
        done.lives += made;
        done.cpu_ns += bench_cpu_ns() - begin_ns;
        pthread_mutex_unlock(&done.lock);
        sem_post(&burst->over);
    }
    sem_wait(&burst->begin); /* measured meanwhile */
    add_this_thread(&(struct rt_pool_thread_stats){ 0 }, 0, 0);
    sem_post(&burst->over);
    return NULL;
}

static void sleep_for(double seconds)
{
    struct timespec left = { .tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

static void bursts(const struct scenario *scenario, struct figures *figures)
{
    static struct burst threads[HOARDERS];
    struct rt_stack_facts facts;
    pthread_t ids[HOARDERS];

    for (unsigned i = 0; i < scenario->threads; i++) {
        threads[i].scenario = scenario;
        sem_init(&threads[i].begin, 0, 0);
        sem_init(&threads[i].over, 0, 0);
        pthread_create(&ids[i], NULL, run_bursts, &threads[i]);
    }
    for (unsigned round = 0; round < scenario->rounds && !figures->map_limit; round++)
        for (unsigned i = 0; i < scenario->threads; i++) {
            sem_post(&threads[i].begin);
            sem_wait(&threads[i].over);
            if (threads[i].failed) {
                rt_stack_facts(&facts);
                figures->map_limit = facts.max_map_count;
                break;
            }
            figures->bursts++;
            sleep_for(scenario->idle_s);
        }
    measure_room(figures);
    if (figures->map_limit)
        return; /* the process ends with its threads */
    for (unsigned i = 0; i < scenario->threads; i++) {
        sem_post(&threads[i].begin);
        sem_wait(&threads[i].over);
        pthread_join(ids[i], NULL);
    }
    measure_done(figures);
}

/* ---- threads that come and go ---- */

static void *come_and_go(void *opaque)
{
    struct rt_coroutine *lives[VISITOR_DEPTH];
    const int times = 5;
    int64_t begin_ns = bench_cpu_ns();

    for (int i = 0; i < times; i++) {
        make_lives(lives, VISITOR_DEPTH);
        end_lives(lives, VISITOR_DEPTH);
    }
    add_this_thread(&(struct rt_pool_thread_stats){ 0 }, (uint64_t)times * VISITOR_DEPTH, bench_cpu_ns() - begin_ns);
    return NULL;
}

static void visitors(const struct scenario *scenario, struct figures *figures)
{
    pthread_t threads[VISITORS];

    for (unsigned round = 0; round < scenario->rounds; round++) {
        for (int i = 0; i < VISITORS; i++)
            pthread_create(&threads[i], NULL, come_and_go, NULL);
        for (int i = 0; i < VISITORS; i++)
            pthread_join(threads[i], NULL);
    }
    measure_room(figures);
    measure_done(figures);
}

/* ---- one after the other ---- */

static void in_child(void *opaque, void *result)
{
    const struct scenario *scenario = opaque;

    if (rt_pool_configure(scenario->policy) < 0 || rt_stack_configure(scenario->guard, 0) < 0)
        _exit(1);
    /* Its sampler gives back what idles. */
    if (scenario->idle_s > 0 && rt_process_start(&(struct rt_process_options){ .version = "", .faults = "" }) < 0)
        _exit(1);
    mappings_before = bench_mapping_count();
    kib_before = bench_resident_kib();
    rt_pool_inc_max(scenario->run == steady ? STEADY_DEPTH : DEVICES_SHARE);
    scenario->run(scenario, result);
}

static int take(const struct scenario *scenario, enum rt_pool_policy policy, struct figures *figures)
{
    struct scenario this_one = *scenario;

    this_one.policy = policy;
    if (policy == RT_POOL_NONE) {
        this_one.rounds = (scenario->rounds + SLOWER - 1) / SLOWER;
        this_one.idle_s = 0; /* there is nothing to wait for */
    }
    return bench_in_child(in_child, &this_one, figures, sizeof(*figures), 60 + (unsigned)(scenario->idle_s * 20));
}

/* figures[policy][round], the policies in turn and every second round the other way round. Returns 0 or an errno. */
static int take_all(const struct scenario *scenario, unsigned rounds, struct figures *figures[POLICIES])
{
    for (unsigned policy = 0; policy < POLICIES; policy++) {
        figures[policy] = calloc(rounds, sizeof(**figures));
        if (!figures[policy])
            return -ENOMEM;
    }
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned i = 0; i < POLICIES; i++) {
            unsigned policy = round % 2 ? POLICIES - 1 - i : i;
            int error = take(scenario, policy, &figures[policy][round]);

            if (error < 0)
                return error;
        }
    return 0;
}

enum figure { LIFE, HITS, STACKS, MAPPINGS, RESIDENT, BURSTS, FIGURES };

static const struct {
    const char *name, *unit;
    enum bench_better better;
    size_t offset;
} kinds[FIGURES] = {
    [LIFE] = { "a life", "ns", BENCH_LOWER, offsetof(struct figures, life_ns) },
    [HITS] = { "from the pool", "%", BENCH_HIGHER, offsetof(struct figures, hit_percent) },
    [STACKS] = { "stacks kept", "stacks", BENCH_LOWER, offsetof(struct figures, stacks) },
    [MAPPINGS] = { "mappings", "mappings", BENCH_LOWER, offsetof(struct figures, mappings) },
    [RESIDENT] = { "resident", "MiB", BENCH_LOWER, offsetof(struct figures, resident_mib) },
    [BURSTS] = { "bursts served", "bursts", BENCH_HIGHER, offsetof(struct figures, bursts) },
};

static double value_of(const struct figures *figures, enum figure kind)
{
    return *(const double *)(const void *)((const char *)figures + kinds[kind].offset);
}

static struct bench_row *add_row(struct bench_group *group, const char *name, enum figure kind, unsigned rounds,
                                 const struct figures *old_figures, const struct figures *new_figures)
{
    struct bench_row *row = bench_row(group, name, kinds[kind].unit, kinds[kind].better);

    for (unsigned round = 0; round < rounds; round++)
        bench_pair(row, value_of(&old_figures[round], kind), value_of(&new_figures[round], kind));
    return row;
}

/* The tables of one scenario: what was replaced, and no pool at all, which keeps nothing, against what is in use. */
static void compare(struct bench *bench, const struct scenario *scenario, unsigned rounds, const char *title,
                    const char *note, unsigned wanted)
{
    static const enum rt_pool_policy old_policies[] = { RT_POOL_PER_THREAD, RT_POOL_NONE };
    struct figures *figures[POLICIES] = { NULL };
    int error = take_all(scenario, rounds, figures);

    for (unsigned i = 0; i < (scenario->threads == HOARDERS ? 1 : 2); i++) {
        enum rt_pool_policy old_policy = old_policies[i];
        struct bench_group *group = bench_group(bench, BENCH_CHANGE, title, rt_pool_policy_name(old_policy),
                                                rt_pool_policy_name(RT_POOL_BATCHED));

        for (unsigned kind = 0; kind < FIGURES; kind++) {
            struct bench_row *row;

            if (!(wanted & 1U << kind))
                continue;
            if (error < 0) {
                row = bench_row(group, kinds[kind].name, kinds[kind].unit, kinds[kind].better);
                bench_unavailable(row, strerror(-error));
                continue;
            }
            row = add_row(group, kinds[kind].name, kind, rounds, figures[old_policy], figures[RT_POOL_BATCHED]);
            if (kind == LIFE && scenario->run == steady && old_policy == RT_POOL_PER_THREAD)
                bench_target(row, BENCH_OF_CHANGE, 3);
        }
        if (error == 0 && scenario->threads == HOARDERS) {
            struct bench_row *row = bench_row(group, "end", "", BENCH_LOWER);
            uint32_t limit = figures[old_policy][0].map_limit;
            char words[64];

            snprintf(words, sizeof(words), "out of vm.max_map_count=%u", limit);
            bench_words(row, limit ? words : "served",
                        figures[RT_POOL_BATCHED][0].map_limit ? "out of mappings" : "served");
            bench_promise(row, "serves all bursts", !figures[RT_POOL_BATCHED][0].map_limit);
        }
        bench_note(group, note);
        if (old_policy == RT_POOL_NONE && wanted & 1U << STACKS)
            bench_note(group, "Without a pool no stack is kept; the few mappings left are the threads'.");
    }
    for (unsigned policy = 0; policy < POLICIES; policy++)
        free(figures[policy]);
}

int main(int argc, char **argv)
{
    static double idle_s = 10;
    static const GOptionEntry more[] = {
        { "idle", 0, 0, G_OPTION_ARG_DOUBLE, &idle_s, "How long to do nothing after each burst (default: 10)",
          "SECONDS" },
        { NULL },
    };
    struct bench *bench = bench_begin("pool", "The policies of the coroutine pool: what a life costs, how often the pool "
                                      "has a stack for it, and what is kept.", more, argc, argv);
    bool quick = bench_quick(bench);
    unsigned lives = quick ? 5000 : 200000;
    const unsigned room = 1U << STACKS | 1U << MAPPINGS | 1U << RESIDENT;
    char title[128];
    struct scenario scenario = { .run = steady, .guard = RT_STACK_GUARD_AUTO, .rounds = lives / STEADY_DEPTH };

    for (scenario.threads = 1; scenario.threads <= 2; scenario.threads++)
        compare(bench, &scenario, bench_pairs(bench, 15), scenario.threads == 1 ? "Steady depth 64, one thread"
                                                                               : "Steady depth 64, two threads",
                "Made, entered, yields, entered again, ended: four switches of each life are in its time.", 1U << LIFE);

    scenario = (struct scenario){ .run = handover, .guard = RT_STACK_GUARD_MPROTECT,
                                  .rounds = lives / 4 / HANDOVER_DEPTH };
    compare(bench, &scenario, bench_pairs(bench, 7), "Made here, ended there, 256 at a time",
            "Two threads; the time of both, once the pools are full. batched keeps up to two batches a thread.", 1U << LIFE | 1U << HITS | room);

    scenario = (struct scenario){ .run = bursts, .guard = RT_STACK_GUARD_MPROTECT, .threads = BURST_THREADS,
                                  .rounds = 1, .depth = quick ? BURST / 10 : BURST,
                                  .idle_s = quick ? 0 : idle_s };
    snprintf(title, sizeof(title), "Bursts of %s in four threads in turn, %g s idle after each", quick ? "500" : "5,000",
             scenario.idle_s);
    compare(bench, &scenario, 1, title,
            "After its burst a thread has one more life and then none; what is kept is counted after the last pause.",
            1U << LIFE | 1U << HITS | room);

    if (!quick) {
        scenario.threads = HOARDERS;
        scenario.idle_s = 0;
        compare(bench, &scenario, 1, "Bursts of 5,000 in eight threads in turn",
                "Never more than one burst alive. A burst for which there is no stack ends the run.",
                1U << BURSTS | room);
    }

    scenario = (struct scenario){ .run = visitors, .guard = RT_STACK_GUARD_MPROTECT, .rounds = quick ? 2 : 20, .threads = VISITORS };
    compare(bench, &scenario, bench_pairs(bench, 5), "Threads that come and go, four at a time, 300 lives deep",
            "What is kept is counted when all are gone: batched frees what was a thread's own.", 1U << LIFE | 1U << HITS | room);
    return bench_finish(bench);
}
