/*
 * Goal:   what a coroutine costs, next to what it could cost at best, and what very many of them cost.
 * Method: (a) yields, lives and nesting next to two bare Boost.Context jumps and a function call, in turn, processor time of
 *         the thread. (b) 20,000 and 100,000 coroutines live at once with either guard, each in a child process, since a process
 *         chooses its guard once and one of them is expected to run out of mappings. (c) a burst, then idle: memory,
 *         and what the next burst costs.
 * Usage:  bench_coroutine [--quick] [--json[=FILE]] [--markdown[=FILE]]
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compare.h"
#include "rt/coroutine.h"
#include "rt/pool.h"

#define NESTED_MAX 1000
#define CHILD_TIMEOUT_S 120

static unsigned calls = 200000;

/* ---- (a) switches ---- */

#ifdef HAVE_BOOST_CONTEXT
typedef void *fcontext_t;
struct transfer {
    fcontext_t context;
    void *data;
};
struct transfer jump_fcontext(fcontext_t to, void *data);
fcontext_t make_fcontext(void *stack_top, size_t stack_bytes, void (*fn)(struct transfer));

static fcontext_t bare_side;

static void bare(struct transfer from)
{
    for (;;)
        from = jump_fcontext(from.context, NULL);
}
#endif

/* There and back, as one would write it: no more state than the context. */
static int sample_jumps(void *opaque, double *value_out)
{
#ifdef HAVE_BOOST_CONTEXT
    struct transfer from = { .context = bare_side };
    int64_t begin_ns = bench_cpu_ns();

    for (unsigned i = 0; i < calls; i++)
        from = jump_fcontext(from.context, NULL);
    bare_side = from.context;
    *value_out = (double)(bench_cpu_ns() - begin_ns) / calls;
    return 0;
#else
    return -ENOSYS;
#endif
}

static void nothing(void *opaque)
{
}

/* A call that the compiler cannot see through. */
static void (*volatile call_target)(void *opaque) = nothing;

static int sample_call(void *opaque, double *value_out)
{
    int64_t begin_ns = bench_cpu_ns();

    for (unsigned i = 0; i < calls; i++)
        call_target(NULL);
    *value_out = (double)(bench_cpu_ns() - begin_ns) / calls;
    return 0;
}

static bool stop_yielding;

static void yield_always(void *opaque)
{
    while (!stop_yielding)
        rt_coroutine_yield();
}

static int sample_yield(void *opaque, double *value_out)
{
    struct rt_coroutine *yielding = opaque;
    int64_t begin_ns = bench_cpu_ns();

    for (unsigned i = 0; i < calls; i++)
        rt_coroutine_enter(yielding);
    *value_out = (double)(bench_cpu_ns() - begin_ns) / calls;
    return 0;
}

static int sample_life(void *opaque, double *value_out)
{
    int64_t begin_ns = bench_cpu_ns();

    for (unsigned i = 0; i < calls; i++) {
        struct rt_coroutine *co = rt_coroutine_create(nothing, NULL);

        if (!co)
            return -errno;
        rt_coroutine_enter(co);
    }
    *value_out = (double)(bench_cpu_ns() - begin_ns) / calls;
    return 0;
}

static int nesting_error;

static void nest(void *opaque)
{
    unsigned *left = opaque;
    struct rt_coroutine *co;

    if (--*left == 0)
        return;
    co = rt_coroutine_create(nest, left);
    if (co)
        rt_coroutine_enter(co);
    else
        nesting_error = -errno;
}

/* Per coroutine: each is made and entered inside the one before. */
static int sample_nesting(void *opaque, double *value_out)
{
    unsigned depth = *(const unsigned *)opaque;
    unsigned towers = calls / depth / 2 + 1;
    int64_t begin_ns = bench_cpu_ns();

    for (unsigned i = 0; i < towers; i++) {
        unsigned left = depth + 1; /* the outermost is not a coroutine */

        nest(&left);
    }
    *value_out = (double)(bench_cpu_ns() - begin_ns) / towers / depth;
    return nesting_error;
}

static void measure_switches(struct bench *bench)
{
    static const unsigned hundred = 100, thousand = NESTED_MAX;
    struct rt_coroutine *yielding = rt_coroutine_create(yield_always, NULL);
    enum { JUMPS, CALL, YIELD, LIFE, NEST_100, NEST_1000, SUBJECTS };
    struct bench_subject subjects[SUBJECTS] = {
        [JUMPS] = { .sample = sample_jumps },
        [CALL] = { .sample = sample_call },
        [YIELD] = { .sample = sample_yield, .opaque = yielding },
        [LIFE] = { .sample = sample_life },
        [NEST_100] = { .sample = sample_nesting, .opaque = (void *)&hundred },
        [NEST_1000] = { .sample = sample_nesting, .opaque = (void *)&thousand },
    };
    static const struct {
        const char *name;
        enum bench_of of;
        double bound;
    } rows[SUBJECTS] = {
        [CALL] = { .name = "function call" },
        [YIELD] = { "yield round trip", BENCH_OF_TIMES, 1.6 },
        [LIFE] = { "life: create, enter, end", BENCH_OF_NEW, 40 },
        [NEST_100] = { .name = "the same, 100 nested" },
        [NEST_1000] = { .name = "the same, 1000 nested" },
    };
    struct bench_group *group = bench_group(bench, BENCH_TIMES, "One coroutine", "two jumps", "ns");
#ifdef HAVE_BOOST_CONTEXT
    size_t stack_bytes = 64 * 1024;
    char *stack = g_malloc(stack_bytes);

    bare_side = make_fcontext(stack + stack_bytes, stack_bytes, bare);
#endif
    rt_pool_inc_max(2 * NESTED_MAX); /* as a device with such queues would */
    if (yielding)
        bench_alternate(bench, subjects, SUBJECTS, bench_pairs(bench, 21));
    for (int i = CALL; i < SUBJECTS; i++) {
        struct bench_row *row = bench_row(group, rows[i].name, "ns", BENCH_LOWER);

        if (!yielding || subjects[JUMPS].error) {
            bench_unavailable(row, yielding ? "no Boost.Context to compare with" : "no stack");
            continue;
        }
        bench_row_of(row, &subjects[JUMPS], &subjects[i]);
        if (rows[i].bound > 0)
            bench_target(row, rows[i].of, rows[i].bound);
    }
    bench_note(group, "Limit: two bare Boost.Context jumps, there and back. A life is two jumps as well, a nested one costs the "
                      "cache misses of its stack besides.");
    bench_subjects_deinit(subjects, SUBJECTS);
    stop_yielding = true;
    if (yielding)
        rt_coroutine_enter(yielding);
#ifdef HAVE_BOOST_CONTEXT
    g_free(stack);
#endif
}

/* ---- (b) many live coroutines ---- */

struct growth_request {
    enum rt_stack_guard guard;
    unsigned count;
};

struct growth {
    int error; /* of the guard or of a coroutine; 0: measured */
    unsigned made, mappings;
    char hint[256];
    double resident_kib_each, make_ns_each, end_ns_each;
};

static void wait_once(void *opaque)
{
    rt_coroutine_yield();
}

static void grow(void *opaque, void *result)
{
    const struct growth_request *request = opaque;
    struct growth *growth = result;
    struct rt_coroutine **live = g_new(struct rt_coroutine *, request->count);
    unsigned maps_before;
    double kib_before;
    int64_t begin_ns;

    memset(live, 0xff, request->count * sizeof(*live)); /* resident from the beginning */
    growth->error = rt_stack_configure(request->guard, 0);
    if (growth->error < 0)
        return;
    maps_before = bench_mapping_count();
    kib_before = bench_resident_kib();

    begin_ns = bench_cpu_ns();
    for (; growth->made < request->count; growth->made++) {
        live[growth->made] = rt_coroutine_create(wait_once, NULL);
        if (!live[growth->made]) {
            growth->error = -errno;
            rt_stack_error_hint(growth->hint, sizeof(growth->hint));
            return;
        }
        rt_coroutine_enter(live[growth->made]);
    }
    growth->make_ns_each = (double)(bench_cpu_ns() - begin_ns) / request->count;
    growth->mappings = bench_mapping_count() - maps_before;
    growth->resident_kib_each = (bench_resident_kib() - kib_before) / request->count;

    begin_ns = bench_cpu_ns();
    for (unsigned i = 0; i < request->count; i++)
        rt_coroutine_enter(live[i]);
    growth->end_ns_each = (double)(bench_cpu_ns() - begin_ns) / request->count;
    g_free(live);
}

static void describe(const struct growth *growth, int error, unsigned count, char *words, size_t words_bytes)
{
    if (error < 0)
        snprintf(words, words_bytes, "%s", strerror(-error));
    else if (growth->error == -EOPNOTSUPP)
        snprintf(words, words_bytes, "this kernel has none");
    else if (growth->error)
        snprintf(words, words_bytes, "fails at %u", growth->made);
    else
        snprintf(words, words_bytes, "%u made", count);
}

/* With mprotect guards, and with lightweight ones; the latter first in every second pair. Returns whether both were measured. */
static bool grow_both(unsigned count, unsigned pair, struct growth growths[2], int errors[2])
{
    struct growth_request requests[2] = { { RT_STACK_GUARD_MPROTECT, count }, { RT_STACK_GUARD_LIGHTWEIGHT, count } };

    for (unsigned i = 0; i < 2; i++) {
        unsigned which = (i + pair) % 2;

        memset(&growths[which], 0, sizeof(growths[which]));
        errors[which] = bench_in_child(grow, &requests[which], &growths[which], sizeof(growths[which]), CHILD_TIMEOUT_S);
    }
    return !errors[0] && !errors[1] && !growths[0].error && !growths[1].error;
}

static void measure_growth(struct bench *bench, unsigned count)
{
    enum { MAPPINGS, RESIDENT, MAKE, END, ROWS };
    struct growth growths[2];
    int errors[2];
    char title[64], words[2][64];
    struct bench_group *group;
    struct bench_row *row, *rows[ROWS];
    bool both = grow_both(count, 0, growths, errors);

    for (int i = 0; i < 2; i++)
        describe(&growths[i], errors[i], count, words[i], sizeof(words[i]));
    snprintf(title, sizeof(title), "%u live coroutines", count);
    group = bench_group(bench, BENCH_CHANGE, title, "mprotect", "lightweight");
    row = bench_row(group, "outcome", "", BENCH_LOWER);
    bench_words(row, words[0], words[1]);
    for (int i = 0; i < 2; i++)
        if (growths[i].hint[0])
            bench_note(group, growths[i].hint);

    rows[MAPPINGS] = bench_row(group, "mappings added", "", BENCH_LOWER);
    if (!errors[1] && !growths[1].error)
        bench_promise(rows[MAPPINGS], "at most 1 for 1,000 stacks", growths[1].mappings <= (count + 999) / 1000);
    if (!both) {
        for (int i = 0; i < 2; i++)
            snprintf(words[i], sizeof(words[i]), errors[i] || growths[i].error ? "-" : "%u", growths[i].mappings);
        bench_words(rows[MAPPINGS], words[0], words[1]);
        row = bench_row(group, "resident, KiB each", "", BENCH_LOWER);
        snprintf(words[1], sizeof(words[1]), "%.2f", growths[1].resident_kib_each);
        bench_words(row, "-", words[1]);
        row = bench_row(group, "make and enter, ns", "", BENCH_LOWER);
        snprintf(words[1], sizeof(words[1]), "%.0f", growths[1].make_ns_each);
        bench_words(row, "-", words[1]);
        return;
    }
    rows[RESIDENT] = bench_row(group, "resident, each", "KiB", BENCH_LOWER);
    rows[MAKE] = bench_row(group, "make and enter", "ns", BENCH_LOWER);
    rows[END] = bench_row(group, "enter and end", "ns", BENCH_LOWER);
    for (unsigned pair = 0; both;) {
        bench_pair(rows[MAPPINGS], growths[0].mappings, growths[1].mappings);
        bench_pair(rows[RESIDENT], growths[0].resident_kib_each, growths[1].resident_kib_each);
        bench_pair(rows[MAKE], growths[0].make_ns_each, growths[1].make_ns_each);
        bench_pair(rows[END], growths[0].end_ns_each, growths[1].end_ns_each);
        both = ++pair < bench_pairs(bench, 5) && grow_both(count, pair, growths, errors);
    }
}

/* ---- (c) idle memory ---- */

enum waiting { KEPT, FREED, RELEASED };

struct idle_request {
    unsigned count;
    enum waiting waiting;
};

struct idle {
    double resident_kib, next_ns_each;
    int mappings_changed;
};

/* Two pages, as a request with a little depth. */
static void use_two_pages(void *opaque)
{
    char frame[5000];

    memset(frame, 1, sizeof(frame));
    __asm__ volatile("" : : "r"(frame) : "memory");
    rt_coroutine_yield();
}

static double burst(struct rt_coroutine **live, unsigned count)
{
    int64_t begin_ns = bench_cpu_ns();

    for (unsigned i = 0; i < count; i++) {
        live[i] = rt_coroutine_create(use_two_pages, NULL);
        if (!live[i])
            exit(1);
        rt_coroutine_enter(live[i]);
    }
    for (unsigned i = 0; i < count; i++)
        rt_coroutine_enter(live[i]);
    return (double)(bench_cpu_ns() - begin_ns) / count;
}

static void idle(void *opaque, void *result)
{
    const struct idle_request *request = opaque;
    struct rt_coroutine **live = g_new0(struct rt_coroutine *, request->count);
    struct idle *out = result;
    double before_kib = bench_resident_kib();
    unsigned maps;

    rt_pool_inc_max(2 * request->count);
    burst(live, request->count);
    burst(live, request->count); /* as it is in the middle of the day */
    maps = bench_mapping_count();
    if (request->waiting == FREED) {
        rt_pool_dec_max(2 * request->count);
        rt_pool_inc_max(2 * request->count);
    } else if (request->waiting == RELEASED) {
        rt_pool_trim(0);
    }
    out->resident_kib = bench_resident_kib() - before_kib;
    out->mappings_changed = (int)bench_mapping_count() - (int)maps;
    out->next_ns_each = burst(live, request->count);
    g_free(live);
}

static void measure_idle(struct bench *bench, enum waiting old, const char *old_name, unsigned count, unsigned pairs)
{
    char title[96];
    struct bench_group *group;
    struct bench_row *resident, *next, *mappings;
    bool unchanged = true;

    snprintf(title, sizeof(title), "%u idle coroutines after a burst", count);
    group = bench_group(bench, BENCH_CHANGE, title, old_name, "released");
    resident = bench_row(group, "resident, each", "KiB", BENCH_LOWER);
    next = bench_row(group, "a life in the next burst", "ns", BENCH_LOWER);
    mappings = bench_row(group, "mappings", "", BENCH_LOWER);
    for (unsigned pair = 0; pair < pairs; pair++) {
        struct idle_request requests[2] = { { count, old }, { count, RELEASED } };
        struct idle results[2] = { { 0 } };
        int error = 0;

        for (unsigned i = 0; i < 2 && error == 0; i++) {
            unsigned which = (i + pair) % 2;

            error = bench_in_child(idle, &requests[which], &results[which], sizeof(results[which]), CHILD_TIMEOUT_S);
        }
        if (error < 0) {
            bench_unavailable(resident, strerror(-error));
            return;
        }
        bench_pair(resident, results[0].resident_kib / count, results[1].resident_kib / count);
        bench_pair(next, results[0].next_ns_each, results[1].next_ns_each);
        unchanged = unchanged && results[1].mappings_changed == 0;
    }
    bench_words(mappings, old == KEPT ? "unchanged" : "slabs unmapped", unchanged ? "unchanged" : "changed");
    bench_promise(mappings, "none mapped or unmapped", unchanged);
    if (old == FREED)
        bench_note(group, "Memory is released when it has waited in the global pool for 5 s (here at once): a life that pays for "
                          "it comes after at least that. A thread's own two batches are kept.");
}

int main(int argc, char **argv)
{
    struct bench *bench =
        bench_begin("coroutine", "What a coroutine costs next to what it could cost at best, and what very many of them cost.", NULL,
                    argc, argv);
    bool quick = bench_quick(bench);

    if (quick)
        calls = 5000;
    /* Children first: they choose their guard, which this process must not have done. */
    measure_growth(bench, quick ? 500 : 20000);
    measure_growth(bench, quick ? 1000 : 100000);
    measure_idle(bench, KEPT, "kept", quick ? 500 : 5000, bench_pairs(bench, 5));
    measure_idle(bench, FREED, "freed", quick ? 500 : 5000, bench_pairs(bench, 5));
    measure_switches(bench);
    return bench_finish(bench);
}
