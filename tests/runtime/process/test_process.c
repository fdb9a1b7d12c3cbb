/*
 * Goal:   the sampler thread calls its sources when it should, leaves signals alone, and ends when told.
 * Method: a source that counts; a signal handler that asks for a baseline; the thread's entries in /proc. Untraced:
 *         what is emitted, and that a recording starts a baseline, is integration_process's business.
 * Broken: if this fails a recording of a running process starts without knowing what exists, or stops mid-way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rt/loop.h"
#include "rt/process.h"

#define DEADLINE_NS INT64_C(60000000000)

struct counts {
    struct rt_process_source source;
    atomic_int baselines, samples;
};

static void count_baseline(void *opaque)
{
    atomic_fetch_add(&((struct counts *)opaque)->baselines, 1);
}

static void count_sample(void *opaque)
{
    atomic_fetch_add(&((struct counts *)opaque)->samples, 1);
}

static void add(struct counts *counts)
{
    *counts = (struct counts){ .source = { .baseline = count_baseline, .sample = count_sample, .opaque = counts } };
    rt_process_add_source(&counts->source);
}

static void wait_for(atomic_int *counter, int at_least)
{
    int64_t deadline_ns = rt_clock_ns() + DEADLINE_NS;

    while (atomic_load(counter) < at_least) {
        assert_true(rt_clock_ns() < deadline_ns);
        usleep(1000);
    }
}

static const struct rt_process_options options = {
    .version = "test", .faults = "", .request_lock = "none", .tracing = false
};

static int begin(void **state)
{
    return rt_process_start(&options);
}

static int finish(void **state)
{
    rt_process_stop();
    return 0;
}

static void on_signal(int number)
{
    rt_process_request_baseline();
}

static void test_baselines_on_request_and_samples_each_second(void **state)
{
    struct counts counts;
    int before;

    add(&counts);
    wait_for(&counts.samples, 2);
    before = atomic_load(&counts.baselines);
    assert_true(before <= 1); /* the one at the start may have come before the source */
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    wait_for(&counts.baselines, before + 1);
    rt_process_remove_source(&counts.source);
}

static void test_removed_sources_are_not_called(void **state)
{
    struct counts first, second, third;
    int calls;

    add(&first);
    add(&second);
    add(&third);
    rt_process_remove_source(&third.source); /* the last */
    rt_process_remove_source(&first.source); /* the first */
    calls = atomic_load(&first.baselines) + atomic_load(&third.baselines);
    rt_process_request_baseline();
    wait_for(&second.baselines, 1);
    assert_int_equal(atomic_load(&first.baselines) + atomic_load(&third.baselines), calls);
    rt_process_remove_source(&second.source);
    add(&first); /* the list is whole after it was empty */
    rt_process_request_baseline();
    wait_for(&first.baselines, 1);
    rt_process_remove_source(&first.source);
}

/* The blocked signals of the thread called "sampler", as /proc gives them; 0 if there is none. */
static uint64_t sampler_mask(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    uint64_t mask = 0;

    assert_non_null(tasks);
    while ((entry = readdir(tasks))) {
        char path[300], line[256];
        unsigned long long blocked = 0;
        int is_sampler = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
        file = fopen(path, "re");
        if (!file)
            continue;
        while (fgets(line, sizeof(line), file)) {
            if (strcmp(line, "Name:\tsampler\n") == 0)
                is_sampler = 1;
            (void)sscanf(line, "SigBlk: %llx", &blocked);
        }
        fclose(file);
        if (is_sampler)
            mask = blocked;
    }
    closedir(tasks);
    return mask;
}

static void test_sampler_takes_no_signals(void **state)
{
    int64_t deadline_ns = rt_clock_ns() + DEADLINE_NS;

    while (sampler_mask() == 0)
        assert_true(rt_clock_ns() < deadline_ns);
    assert_true(sampler_mask() & (UINT64_C(1) << (SIGTERM - 1)));
    assert_true(sampler_mask() & (UINT64_C(1) << (SIGINT - 1)));
    assert_true(sampler_mask() & (UINT64_C(1) << (SIGUSR1 - 1)));
}

static void test_says_why_it_is_not_traced(void **state)
{
    assert_non_null(rt_process_tracing_reason());
    assert_null(strchr(rt_process_tracing_reason(), '\n'));
}

static void test_stops_with_a_last_sample_and_starts_again(void **state)
{
    struct counts counts;
    int64_t deadline_ns;
    int samples;

    add(&counts);
    wait_for(&counts.samples, 1);
    samples = atomic_load(&counts.samples);
    rt_process_stop();
    assert_true(atomic_load(&counts.samples) > samples);
    /* A thread that was joined stays in /proc for a moment. */
    deadline_ns = rt_clock_ns() + DEADLINE_NS;
    while (sampler_mask() != 0)
        assert_true(rt_clock_ns() < deadline_ns);
    rt_process_request_baseline(); /* nobody is there; nothing happens */
    rt_process_stop();
    assert_int_equal(rt_process_start(&options), 0);
    wait_for(&counts.baselines, 1);
    rt_process_remove_source(&counts.source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_baselines_on_request_and_samples_each_second, begin, finish),
        cmocka_unit_test_setup_teardown(test_removed_sources_are_not_called, begin, finish),
        cmocka_unit_test_setup_teardown(test_sampler_takes_no_signals, begin, finish),
        cmocka_unit_test_setup_teardown(test_says_why_it_is_not_traced, begin, finish),
        cmocka_unit_test_setup_teardown(test_stops_with_a_last_sample_and_starts_again, begin, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
