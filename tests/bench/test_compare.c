/*
 * Goal:   a benchmark's table says what its figures say.
 * Method: known figures are handed in; the JSON, the table and the Markdown that come out are compared with what was worked
 *         out by hand. Subjects that count their calls show in which order they are measured. Broken when it fails: every
 *         figure that the project publishes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib/gstdio.h>
#include <jansson.h>

#include "compare.h"

struct output {
    char *directory, *json_path, *markdown_path, *table_path;
    char *table, *markdown;
    json_t *document, *rows; /* of the first group */
};

static struct bench *begin(struct output *output, const char *more)
{
    char *json, *markdown;
    struct bench *bench;

    memset(output, 0, sizeof(*output));
    output->directory = g_dir_make_tmp("test-compare-XXXXXX", NULL);
    assert_non_null(output->directory);
    output->json_path = g_build_filename(output->directory, "json", NULL);
    output->markdown_path = g_build_filename(output->directory, "markdown", NULL);
    output->table_path = g_build_filename(output->directory, "table", NULL);
    json = g_strdup_printf("--json=%s", output->json_path);
    markdown = g_strdup_printf("--markdown=%s", output->markdown_path);
    char *argv[] = { (char *)"bench_known", json, markdown, (char *)more, NULL };
    bench = bench_begin("known", "Known figures.", NULL, more ? 4 : 3, argv);
    g_free(json);
    g_free(markdown);
    return bench;
}

/* The table goes to stdout, which is a file meanwhile. */
static void finish(struct output *output, struct bench *bench)
{
    int saved, file, status;

    fflush(stdout);
    saved = dup(STDOUT_FILENO);
    file = open(output->table_path, O_CREAT | O_WRONLY, 0600);
    dup2(file, STDOUT_FILENO);
    status = bench_finish(bench);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(file);
    assert_int_equal(status, 0);
    assert_true(g_file_get_contents(output->table_path, &output->table, NULL, NULL));
    assert_true(g_file_get_contents(output->markdown_path, &output->markdown, NULL, NULL));
    output->document = json_load_file(output->json_path, 0, NULL);
    assert_non_null(output->document);
    output->rows = json_object_get(json_array_get(json_object_get(output->document, "groups"), 0), "rows");
}

static void deinit(struct output *output)
{
    g_remove(output->json_path);
    g_remove(output->markdown_path);
    g_remove(output->table_path);
    g_rmdir(output->directory);
    json_decref(output->document);
    g_free(output->table);
    g_free(output->markdown);
    g_free(output->json_path);
    g_free(output->markdown_path);
    g_free(output->table_path);
    g_free(output->directory);
}

static json_t *at(const struct output *output, unsigned row, const char *first, const char *second)
{
    json_t *value = json_object_get(json_array_get(output->rows, row), first);

    value = second ? json_object_get(value, second) : value;
    if (!value)
        fail_msg("row %u has no %s %s", row, first, second ? second : "");
    return value;
}

static void assert_number(const struct output *output, unsigned row, const char *first, const char *second,
                          double wanted)
{
    double is = json_number_value(at(output, row, first, second));

    if (is < wanted - 1e-6 || is > wanted + 1e-6)
        fail_msg("row %u: %s.%s is %g instead of %g", row, first, second, is, wanted);
}

static void assert_word(const struct output *output, unsigned row, const char *first, const char *second,
                        const char *wanted)
{
    assert_string_equal(json_string_value(at(output, row, first, second)), wanted);
}

static void assert_shows(const char *text, const char *wanted)
{
    if (!strstr(text, wanted))
        fail_msg("'%s' is missing in:\n%s", wanted, text);
}

static void test_change_is_the_median_of_pairs(void **state)
{
    /* The ratio of the medians (150 to 200) would be 0.75; the pairs say 0.5, 0.75, 0.9, 1, 2. */
    static const double old_values[] = { 200, 200, 1000, 100, 50 }, new_values[] = { 100, 150, 900, 100, 100 };
    struct output output;
    struct bench *bench = begin(&output, NULL);
    struct bench_group *group = bench_group(bench, BENCH_CHANGE, "Group", "before", "after");
    struct bench_row *row = bench_row(group, "row", "ns", BENCH_LOWER);

    for (int i = 0; i < 5; i++)
        bench_pair(row, old_values[i], new_values[i]);
    bench_note(group, "A note.");
    bench_detail(bench_group(bench, BENCH_CHANGE, "Too fine", "before", "after"));
    finish(&output, bench);

    assert_number(&output, 0, "change_percent", "median", -10);
    assert_number(&output, 0, "change_percent", "low", -25);
    assert_number(&output, 0, "change_percent", "high", 0);
    assert_number(&output, 0, "change_percent", "min", -50);
    assert_number(&output, 0, "change_percent", "max", 100);
    assert_number(&output, 0, "change_percent", "count", 5);
    assert_word(&output, 0, "verdict", NULL, "level");
    assert_shows(output.table, "-10.0 %  -25.0 % .. 0.0 %  level");
    assert_shows(output.table, "A note.");
    assert_shows(output.table, "Too fine");
    assert_null(strstr(output.markdown, "Too fine"));
    assert_shows(output.markdown, "| Group | OLD: before | NEW: after | CHANGE | middle half |  |");
    assert_shows(output.markdown, "| row | 200 ns | 100 ns | -10.0 % | -25.0 % .. 0.0 % | level |");
    deinit(&output);
}

/* Quantiles fall between two figures: of 1, 2, 3, 4 the median is 2.5 and the middle half 1.75 to 3.25. */
static void test_even_count(void **state)
{
    struct output output;
    struct bench *bench = begin(&output, NULL);
    struct bench_row *row = bench_row(bench_group(bench, BENCH_FIGURE, "Group", NULL, "it"), "row", "", BENCH_LOWER);

    bench_value(row, 4);
    bench_value(row, 1);
    bench_value(row, 3);
    bench_value(row, 2);
    finish(&output, bench);
    json_t *figures = at(&output, 0, "figure", "figures");
    assert_true(json_number_value(json_object_get(figures, "median")) == 2.5);
    assert_true(json_number_value(json_object_get(figures, "low")) == 1.75);
    assert_true(json_number_value(json_object_get(figures, "high")) == 3.25);
    assert_null(json_object_get(json_array_get(output.rows, 0), "old"));
    deinit(&output);
}

static void test_verdict_follows_the_direction(void **state)
{
    static const struct {
        enum bench_better better;
        double factor;
        const char *verdict;
    } cases[] = { { BENCH_LOWER, 0.9, "better" },
                  { BENCH_LOWER, 1.1, "worse" },
                  { BENCH_HIGHER, 0.9, "worse" },
                  { BENCH_HIGHER, 1.1, "better" },
                  { BENCH_HIGHER, 1, "level" } };
    struct output output;
    struct bench *bench = begin(&output, NULL);
    struct bench_group *group = bench_group(bench, BENCH_CHANGE, "Group", "old", "new");

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct bench_row *row = bench_row(group, "row", "", cases[i].better);

        for (int pair = 1; pair < 4; pair++)
            bench_pair(row, 100 * pair, 100 * pair * cases[i].factor);
    }
    bench_pair(bench_row(group, "a single pair", "", BENCH_LOWER), 100, 50);
    finish(&output, bench);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++)
        assert_word(&output, i, "verdict", NULL, cases[i].verdict);
    assert_null(json_object_get(json_array_get(output.rows, G_N_ELEMENTS(cases)), "verdict"));
    deinit(&output);
}

static void test_from_zero(void **state)
{
    struct output output;
    struct bench *bench = begin(&output, NULL);
    struct bench_group *group = bench_group(bench, BENCH_CHANGE, "Group", "old", "new");
    struct bench_row *from = bench_row(group, "from", "", BENCH_LOWER), *to = bench_row(group, "to", "", BENCH_LOWER),
                     *still = bench_row(group, "still", "", BENCH_LOWER);

    for (int i = 0; i < 3; i++) {
        bench_pair(from, 0, 5);
        bench_pair(to, 2, 0);
        bench_pair(still, 0, 0);
    }
    finish(&output, bench);
    assert_true(json_is_null(at(&output, 0, "change_percent", NULL)));
    assert_shows(output.table, "from 0");
    assert_number(&output, 1, "change_percent", "median", -100);
    assert_number(&output, 2, "change_percent", "median", 0);
    assert_word(&output, 2, "verdict", NULL, "level");
    deinit(&output);
}

static void test_targets(void **state)
{
    static const struct {
        enum bench_better better;
        enum bench_of of;
        double bound;
        double new_values[3]; /* OLD is 100 */
        const char *text;
        bool met, within_noise;
    } cases[] = {
        { BENCH_LOWER, BENCH_OF_NEW, 40, { 39, 40, 40 }, "at most 40", true, false },
        { BENCH_LOWER, BENCH_OF_NEW, 40, { 30, 41, 43 }, "at most 40", false, true },
        { BENCH_LOWER, BENCH_OF_NEW, 40, { 50, 51, 52 }, "at most 40", false, false },
        { BENCH_HIGHER, BENCH_OF_NEW, 40, { 50, 51, 52 }, "at least 40", true, false },
        { BENCH_LOWER, BENCH_OF_CHANGE, 3, { 103, 103, 103 }, "at most +3 %", true, false },
        { BENCH_HIGHER, BENCH_OF_CHANGE, 50, { 149, 149, 149 }, "at least +50 %", false, false },
        { BENCH_LOWER, BENCH_OF_TIMES, 1.6, { 150, 159, 200 }, "at most 1.6 times", true, true },
    };
    struct output output;
    struct bench *bench = begin(&output, NULL);
    struct bench_group *group = bench_group(bench, BENCH_TIMES, "Group", "limit", "it");

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct bench_row *row = bench_row(group, "row", "ns", cases[i].better);

        for (int pair = 0; pair < 3; pair++)
            bench_pair(row, 100, cases[i].new_values[pair]);
        bench_target(row, cases[i].of, cases[i].bound);
    }
    bench_promise(bench_row(group, "words", "", BENCH_LOWER), "never", false);
    finish(&output, bench);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        assert_word(&output, i, "target", "text", cases[i].text);
        assert_int_equal(json_is_true(at(&output, i, "target", "met")), cases[i].met);
        assert_int_equal(json_is_true(at(&output, i, "target", "within_noise")), cases[i].within_noise);
    }
    assert_number(&output, 6, "times", "median", 1.59);
    assert_shows(output.table, "at most 1.6 times: met, within the noise");
    assert_shows(output.table, "at most 40: missed");
    assert_shows(output.table, "never: missed");
    deinit(&output);
}

static void test_words(void **state)
{
    struct output output;
    struct bench *bench = begin(&output, "--quick");
    struct bench_group *group = bench_group(bench, BENCH_CHANGE, "Group", "old", "new");
    struct bench_row *row = bench_row(group, "outcome", "", BENCH_LOWER);

    bench_words(row, "fails | at 5", "made");
    bench_promise(row, "is made", true);
    bench_unavailable(bench_row(group, "absent", "ns", BENCH_LOWER), "no such policy");
    finish(&output, bench);
    assert_word(&output, 0, "old", "words", "fails | at 5");
    assert_word(&output, 1, "unavailable", NULL, "no such policy");
    assert_true(json_is_true(json_object_get(output.document, "quick")));
    assert_shows(output.table, "old: fails | at 5\n");
    assert_shows(output.table, "target: is made: met");
    assert_shows(output.table, "not available: no such policy");
    assert_shows(output.table, "QUICK");
    assert_shows(output.markdown, "fails \\| at 5");
    deinit(&output);
}

static void test_machine(void **state)
{
    static const char *const facts[] = { "date", "cores", "kernel", "architecture", "compiler", "build" };
    struct output output;

    finish(&output, begin(&output, NULL));
    json_t *machine = json_object_get(output.document, "machine");
    for (unsigned i = 0; i < G_N_ELEMENTS(facts); i++)
        assert_non_null(json_object_get(machine, facts[i]));
    assert_string_equal(json_string_value(json_object_get(output.document, "schema")), "vblkscope-bench-1");
    deinit(&output);
}

/* ---- sampling ---- */

static GString *order;

static int sample(void *opaque, double *value_out)
{
    g_string_append(order, opaque);
    *value_out = order->len;
    return 0;
}

static int sample_refused(void *opaque, double *value_out)
{
    g_string_append(order, "x");
    return -EPERM;
}

static void test_order(void **state)
{
    struct bench_subject subjects[] = { { .sample = sample, .opaque = (void *)"a" },
                                        { .sample = sample, .opaque = (void *)"b" },
                                        { .sample = sample_refused } };
    struct output output;
    struct bench *bench = begin(&output, NULL);
    struct bench_row *row = bench_row(bench_group(bench, BENCH_CHANGE, "Group", "x", "a"), "row", "", BENCH_LOWER);

    order = g_string_new("");
    bench_alternate(bench, subjects, 3, 3);
    /* The warm-up (in reverse), then forth, back, forth; who was refused is not asked again. */
    assert_string_equal(order->str, "xba" "ab" "ba" "ab");
    assert_int_equal(subjects[0].count, 3);
    assert_true(subjects[0].values[0] == 4 && subjects[0].values[1] == 7 && subjects[0].values[2] == 8);
    assert_true(subjects[1].values[0] == 5 && subjects[1].values[1] == 6 && subjects[1].values[2] == 9);
    assert_int_equal(subjects[2].error, -EPERM);
    bench_row_of(row, &subjects[2], &subjects[0]);
    bench_subjects_deinit(subjects, 3);
    g_string_free(order, TRUE);
    finish(&output, bench);
    assert_shows(output.table, "x: failed: Operation not permitted");
    deinit(&output);
}

static void end_badly(void *opaque, void *result)
{
    *(int *)result = 7;
    if (opaque)
        raise(SIGKILL);
}

static void sleep_on(void *opaque, void *result)
{
    for (;;)
        pause();
}

static void test_child(void **state)
{
    int result = 1;

    assert_int_equal(bench_in_child(end_badly, NULL, &result, sizeof(result), 60), 0);
    assert_int_equal(result, 7);
    result = 1;
    assert_int_equal(bench_in_child(end_badly, &result, &result, sizeof(result), 60), -ECHILD);
    assert_int_equal(result, 7);
    assert_int_equal(bench_in_child(sleep_on, NULL, &result, sizeof(result), 1), -ETIME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_change_is_the_median_of_pairs),
        cmocka_unit_test(test_even_count),
        cmocka_unit_test(test_verdict_follows_the_direction),
        cmocka_unit_test(test_from_zero),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_child),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
