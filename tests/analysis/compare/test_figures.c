/*
 * Goal:   each figure is the rate, share or quantile that its name says, of the whole and of each tenth.
 * Method: a report of 40 steps of 0.5 s written by hand, with steps in which nothing is known.
 * Breaks: a comparison would compare something else than it says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "compare/figures.h"

#define STEPS 40

/* @value in each step, but null in those before @from. */
static json_t *steps(int value, int from)
{
    json_t *array = json_array();

    for (int i = 0; i < STEPS; i++)
        json_array_append_new(array, i < from ? json_null() : json_integer(value));
    return array;
}

static const struct figure *find(const struct figures *figures, const char *group, const char *name)
{
    for (unsigned i = 0; i < figures->count; i++)
        if (strcmp(figures->rows[i].group, group) == 0 && strcmp(figures->rows[i].name, name) == 0)
            return &figures->rows[i];
    return NULL;
}

static void assert_figure(const struct figures *figures, const char *group, const char *name, double value, unsigned batches)
{
    const struct figure *figure = find(figures, group, name);

    if (!figure)
        fail_msg("there is no %s: %s", group, name);
    assert_float_equal(figure->value, value, 1e-6);
    assert_int_equal(figure->batch_count, batches);
    for (unsigned i = 0; i < batches; i++)
        assert_float_equal(figure->batches[i], value, 1e-6);
}

static void test_rates_shares_and_quantiles(void **state)
{
    json_t *report = json_pack(
        "{s:{s:{s:{s:i, s:i, s:i}}}, s:{s:i, s:I, s:[{s:o}, {s:o}], s:[{s:s, s:o, s:o, s:o}, {s:s, s:o, s:o, s:o}],"
        " s:[{s:n, s:o, s:o}], s:[{s:o}], s:{s:{s:{s:[i, i, i]}}, s:{s:[n, o]}}}}",
        "latency", "stages", "total", "p50_ns", 3000, "p99_ns", 5000, "p999_ns", 6000, "series", "steps", STEPS, "step_ns",
        (json_int_t)500000000, "queues", "completions", steps(100, 0), "completions", steps(50, 20), "loops", "loop", "io", "busy_ns",
        steps(30, 0), "poll_ns", steps(0, 0), "wait_ns", steps(70, 0), "loop", "io", "busy_ns", steps(50, 0), "poll_ns", steps(50, 0),
        "wait_ns", steps(0, 0), "locks", "class_name", "contentions", steps(3, 0), "wait_ns", steps(500000, 0), "pool", "takes",
        steps(7, STEPS), "latency", "stages", "total", "from_ns", 1000, 2000, 4000, "heat", "total", steps(10, 0));
    struct figures *figures = figures_of(report);

    assert_non_null(report);
    assert_non_null(figures);
    assert_float_equal(find(figures, "rates", "completions")->value, 250, 1e-6);
    assert_float_equal(find(figures, "rates", "completions")->batches[0], 200, 1e-6);
    assert_float_equal(find(figures, "rates", "completions")->batches[9], 300, 1e-6);
    assert_figure(figures, "loops", "io busy", 40, FIGURE_BATCHES);
    assert_figure(figures, "loops", "io polling", 25, FIGURE_BATCHES);
    assert_figure(figures, "loops", "io waiting", 35, FIGURE_BATCHES);
    assert_figure(figures, "locks", "without name: waits", 6, FIGURE_BATCHES);
    assert_figure(figures, "locks", "without name: waiting", 1, FIGURE_BATCHES);
    assert_figure(figures, "rates", "requests ended", 20, FIGURE_BATCHES);
    assert_float_equal(find(figures, "latency", "total p50")->value, 3, 1e-9); /* the report's own, which is finer */
    assert_float_equal(find(figures, "latency", "total p50")->batches[4], 3, 1e-9); /* half of 2 to 4 us */
    assert_float_equal(find(figures, "latency", "total p99")->batches[4], 3.98, 1e-9);
    assert_null(find(figures, "pool", "takes")); /* nowhere known */
    assert_null(find(figures, "pool", "misses"));
    figures_free(figures);
    json_decref(report);
}

static void test_too_short_to_be_divided(void **state)
{
    json_t *report = json_pack("{s:{s:i, s:I, s:[{s:[i, i]}]}}", "series", "steps", 2, "step_ns", (json_int_t)1000000000, "queues",
                               "completions", 4, 6);
    json_t *without = json_object();
    struct figures *figures = figures_of(report);

    assert_figure(figures, "rates", "completions", 5, 0);
    assert_null(figures_of(without));
    figures_free(figures);
    figures_free(NULL);
    json_decref(without);
    json_decref(report);
}

/* A report from a file may say anything. */
static void test_absurd_steps(void **state)
{
    static const json_int_t counts[] = { -1, INT32_MAX, INT64_MAX, INT64_MIN };

    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        json_t *report = json_pack("{s:{s:I, s:I, s:[{s:[i, i]}]}}", "series", "steps", counts[i], "step_ns", counts[i], "queues",
                                   "completions", 4, 6);
        struct figures *figures = figures_of(report);

        assert_non_null(figures);
        figures_free(figures);
        json_decref(report);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_shares_and_quantiles),
        cmocka_unit_test(test_too_short_to_be_divided),
        cmocka_unit_test(test_absurd_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
