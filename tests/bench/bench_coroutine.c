/*
 * Goal:   what a coroutine costs, next to what it could cost at best.
 * Method: (a) 20,000 coroutines live at once with either guard, each in a child process: lines of /proc/self/maps,
 *         resident memory and processor time. (b) A life (create from the pool, enter, return), a yield round trip (enter and
 *         yield), two bare Boost.Context jumps and a function call, alternating in one run; medians of
 *         processor time.
 * Usage:  bench_coroutine [--json] [--count=N]
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rt/coroutine.h"
#include "rt/pool.h"

#define ROUNDS 15
#define CALLS 200000

/* This thread's own time: what other programs take away in between does not count. */
static int64_t cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- (a) many live coroutines ---- */

struct growth {
    int error; /* of the guard or of a coroutine; 0: measured */
    unsigned mappings, counted_mappings;
    double resident_kib_each, create_ns_each, end_ns_each;
};

static unsigned count_maps(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    unsigned count = 0;
    int c;

    if (!file)
        return 0;
    while ((c = getc(file)) != EOF)
        count += c == '\n';
    fclose(file);
    return count;
}

static double resident_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long size = 0, resident = 0;

    if (!file)
        return 0;
    if (fscanf(file, "%lu %lu", &size, &resident) != 2)
        resident = 0;
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1024;
}

static void wait_once(void *opaque)
{
    rt_coroutine_yield();
}

static void grow(enum rt_stack_guard guard, unsigned count, struct growth *growth)
{
    struct rt_coroutine **live = calloc(count, sizeof(*live));
    struct rt_pool_global_stats stats;
    unsigned maps_before;
    double kib_before;
    int64_t begin_ns;

    growth->error = live ? rt_stack_configure(guard, 0) : -ENOMEM;
    if (growth->error < 0)
        return;
    memset(live, 0xff, count * sizeof(*live));
    maps_before = count_maps();
    kib_before = resident_kib();

    begin_ns = cpu_ns();
    for (unsigned i = 0; i < count; i++) {
        live[i] = rt_coroutine_create(wait_once, NULL);
        if (!live[i]) {
            growth->error = -errno;
            return;
        }
        rt_coroutine_enter(live[i]);
    }
    growth->create_ns_each = (double)(cpu_ns() - begin_ns) / count;
    rt_pool_global_stats(&stats);
    growth->mappings = count_maps() - maps_before;
    growth->counted_mappings = stats.stack_vma_count;
    growth->resident_kib_each = (resident_kib() - kib_before) / count;

    begin_ns = cpu_ns();
    for (unsigned i = 0; i < count; i++)
        rt_coroutine_enter(live[i]);
    growth->end_ns_each = (double)(cpu_ns() - begin_ns) / count;
    free(live);
}

/* In a child, as a process chooses its guard once. Results come back through shared memory. */
static int measure_growth(enum rt_stack_guard guard, unsigned count, struct growth *growth)
{
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        grow(guard, count, growth);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -errno;
    return status == 0 ? 0 : -ECHILD;
}

/* ---- (b) switches ---- */

#ifdef HAVE_BOOST_CONTEXT
typedef void *fcontext_t;
struct transfer {
    fcontext_t context;
    void *data;
};
struct transfer jump_fcontext(fcontext_t to, void *data);
fcontext_t make_fcontext(void *stack_top, size_t stack_bytes, void (*fn)(struct transfer));

static struct transfer bare_side;

static void bare(struct transfer from)
{
    for (;;)
        from = jump_fcontext(from.context, NULL);
}
#endif

static bool stop_yielding;
static struct rt_coroutine *yielding;

static void yield_always(void *opaque)
{
    while (!stop_yielding)
        rt_coroutine_yield();
}

static void nothing(void *opaque)
{
}

/* A call that the compiler cannot see through. */
static void (*volatile call_target)(void *opaque) = nothing;

static void run_calls(void)
{
    for (int i = 0; i < CALLS; i++)
        call_target(NULL);
}

static void run_jumps(void)
{
#ifdef HAVE_BOOST_CONTEXT
    for (int i = 0; i < CALLS; i++)
        bare_side = jump_fcontext(bare_side.context, NULL);
#endif
}

static void run_yields(void)
{
    for (int i = 0; i < CALLS; i++)
        rt_coroutine_enter(yielding);
}

static void run_lives(void)
{
    for (int i = 0; i < CALLS; i++)
        rt_coroutine_enter(rt_coroutine_create(nothing, NULL));
}

enum { CALL, JUMPS, YIELD, LIFE, KINDS };

static const struct {
    const char *name, *key;
    void (*run)(void);
} kinds[KINDS] = {
    [CALL] = { "function call", "call_ns", run_calls },
    [JUMPS] = { "two bare Boost.Context jumps", "bare_jumps_ns", run_jumps },
    [YIELD] = { "yield round trip", "yield_round_trip_ns", run_yields },
    [LIFE] = { "life from the pool", "life_ns", run_lives },
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int measure_switches(double median_out[KINDS])
{
    double samples[KINDS][ROUNDS];

#ifdef HAVE_BOOST_CONTEXT
    size_t stack_bytes = 64 * 1024;
    char *stack = malloc(stack_bytes);

    if (!stack)
        return -ENOMEM;
    bare_side.context = make_fcontext(stack + stack_bytes, stack_bytes, bare);
#endif
    yielding = rt_coroutine_create(yield_always, NULL);
    if (!yielding)
        return -errno;
    /* The first round warms up; the others alternate, so that a noisy neighbour meets all kinds. */
    for (int round = -1; round < ROUNDS; round++)
        for (int kind = 0; kind < KINDS; kind++) {
            int64_t begin_ns = cpu_ns();

            kinds[kind].run();
            if (round >= 0)
                samples[kind][round] = (double)(cpu_ns() - begin_ns) / CALLS;
        }
    for (int kind = 0; kind < KINDS; kind++) {
        qsort(samples[kind], ROUNDS, sizeof(double), compare);
        median_out[kind] = samples[kind][ROUNDS / 2];
    }
    stop_yielding = true;
    rt_coroutine_enter(yielding);
#ifdef HAVE_BOOST_CONTEXT
    free(stack);
#else
    median_out[JUMPS] = 0;
#endif
    return 0;
}

/* ---- output ---- */

static const char *const guard_names[2] = { "mprotect", "lightweight" };

static void print_table(unsigned count, const struct growth *growth, const double *median)
{
    printf("%u live coroutines with either guard\n\n", count);
    printf("  %-22s %12s %12s %10s\n", "", guard_names[0], guard_names[1], "ratio");
    if (growth[0].error || growth[1].error) {
        for (int i = 0; i < 2; i++)
            if (growth[i].error)
                printf("  %s: %s\n", guard_names[i], strerror(-growth[i].error));
    } else {
        printf("  %-22s %12u %12u %10s\n", "mappings added", growth[0].mappings, growth[1].mappings, "");
        printf("  %-22s %12u %12u %10s\n", "as we count them", growth[0].counted_mappings,
               growth[1].counted_mappings, "");
        printf("  %-22s %12.2f %12.2f %10.2f\n", "resident, KiB each", growth[0].resident_kib_each,
               growth[1].resident_kib_each, growth[1].resident_kib_each / growth[0].resident_kib_each);
        printf("  %-22s %12.0f %12.0f %10.2f\n", "create and enter, ns", growth[0].create_ns_each,
               growth[1].create_ns_each, growth[1].create_ns_each / growth[0].create_ns_each);
        printf("  %-22s %12.0f %12.0f %10.2f\n", "enter and end, ns", growth[0].end_ns_each, growth[1].end_ns_each,
               growth[1].end_ns_each / growth[0].end_ns_each);
    }
    printf("\n  %-30s %8s %20s\n", "per operation", "ns", "times bare jumps");
    for (int kind = 0; kind < KINDS; kind++) {
        printf("  %-30s %8.1f", kinds[kind].name, median[kind]);
        if (median[JUMPS] > 0)
            printf(" %20.2f", median[kind] / median[JUMPS]);
        printf("\n");
    }
}

static void print_json(unsigned count, const struct growth *growth, const double *median)
{
    printf("{ \"benchmark\": \"coroutine\", \"live_count\": %u,\n  \"growth\": [", count);
    for (int i = 0; i < 2; i++)
        printf("%s\n    { \"guard\": \"%s\", \"error\": %d, \"mappings\": %u, \"counted_mappings\": %u, "
               "\"resident_kib_each\": %.3f, \"create_ns_each\": %.1f, \"end_ns_each\": %.1f }",
               i ? "," : "", guard_names[i], growth[i].error, growth[i].mappings, growth[i].counted_mappings,
               growth[i].resident_kib_each, growth[i].create_ns_each, growth[i].end_ns_each);
    printf(" ],\n  \"per_operation\": {");
    for (int kind = 0; kind < KINDS; kind++)
        printf("%s \"%s\": %.2f", kind ? "," : "", kinds[kind].key, median[kind]);
    printf(" },\n  \"yield_per_bare_jumps\": %.3f }\n", median[JUMPS] > 0 ? median[YIELD] / median[JUMPS] : 0);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "json", no_argument, NULL, 'j' }, { "count", required_argument, NULL, 'c' },
        { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 } };
    unsigned count = 20000;
    bool json = false;
    double median[KINDS];
    struct growth *growth;
    int option, error;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'j':
            json = true;
            break;
        case 'c':
            count = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'h':
            printf("Usage: bench_coroutine [--json] [--count=N]\n");
            return 0;
        default:
            return 2;
        }
    }
    if (count == 0) {
        fprintf(stderr, "bench_coroutine: --count: a number above 0 is needed\n");
        return 2;
    }
    growth = mmap(NULL, 2 * sizeof(*growth), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (growth == MAP_FAILED) {
        perror("bench_coroutine: mmap");
        return 1;
    }
    error = measure_growth(RT_STACK_GUARD_MPROTECT, count, &growth[0]);
    if (error == 0)
        error = measure_growth(RT_STACK_GUARD_LIGHTWEIGHT, count, &growth[1]);
    if (error == 0)
        error = measure_switches(median);
    if (error < 0) {
        fprintf(stderr, "bench_coroutine: cannot measure: %s\n", strerror(-error));
        return 1;
    }
    (json ? print_json : print_table)(count, growth, median);
    return 0;
}
