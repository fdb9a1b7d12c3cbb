/* Gathering figures: the command line, rows, sampling in turn, statistics. */
#include "compare_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the command line ---- */

static gboolean to_file_or_stdout(const char *value, bool *on_stdout, char **path)
{
    if (value) {
        g_free(*path);
        *path = g_strdup(value);
    } else {
        *on_stdout = true;
    }
    return TRUE;
}

static gboolean want_json(const gchar *option, const gchar *value, gpointer data, GError **error)
{
    struct bench *bench = data;

    return to_file_or_stdout(value, &bench->json, &bench->json_path);
}

static gboolean want_markdown(const gchar *option, const gchar *value, gpointer data, GError **error)
{
    struct bench *bench = data;

    return to_file_or_stdout(value, &bench->markdown, &bench->markdown_path);
}

static void row_free(gpointer data)
{
    struct bench_row *row = data;

    for (int i = 0; i < 2; i++) {
        struct bench_side *side = i ? &row->new_side : &row->old_side;

        g_array_unref(side->values);
        g_free(side->words);
    }
    g_free(row->name);
    g_free(row->unit);
    g_free(row->unavailable);
    g_free(row->promise_words);
    g_free(row);
}

static void group_free(gpointer data)
{
    struct bench_group *group = data;

    g_ptr_array_unref(group->rows);
    g_ptr_array_unref(group->notes);
    g_free(group->title);
    g_free(group->old_label);
    g_free(group->new_label);
    g_free(group);
}

static void bench_free(struct bench *bench)
{
    g_ptr_array_unref(bench->groups);
    g_free(bench->name);
    g_free(bench->about);
    g_free(bench->json_path);
    g_free(bench->markdown_path);
    g_free(bench);
}

struct bench *bench_begin(const char *name, const char *about, const GOptionEntry *more, int argc, char **argv)
{
    struct bench *bench = g_new0(struct bench, 1);
    const GOptionEntry entries[] = {
        { "json", 0, G_OPTION_FLAG_OPTIONAL_ARG, G_OPTION_ARG_CALLBACK, want_json,
          "Print JSON instead of a table, or write it to FILE beside the table", "FILE" },
        { "markdown", 0, G_OPTION_FLAG_OPTIONAL_ARG, G_OPTION_ARG_CALLBACK, want_markdown,
          "The same with Markdown", "FILE" },
        { "quick", 0, 0, G_OPTION_ARG_NONE, NULL, "Only show that it works; the figures say nothing", NULL },
        { NULL } };
    gboolean quick = FALSE;
    GOptionEntry own[G_N_ELEMENTS(entries)];
    GOptionContext *context = g_option_context_new(NULL);
    GOptionGroup *group = g_option_group_new("bench", "", "", bench, NULL);
    GError *error = NULL;

    memcpy(own, entries, sizeof(own));
    own[2].arg_data = &quick;
    g_option_group_add_entries(group, own);
    if (more)
        g_option_group_add_entries(group, more);
    g_option_context_set_summary(context, about);
    g_option_context_set_main_group(context, group);
    if (!g_option_context_parse(context, &argc, &argv, &error)) {
        fprintf(stderr, "bench_%s: %s (try --help)\n", name, error->message);
        exit(2);
    }
    g_option_context_free(context);
    if (argc > 1) {
        fprintf(stderr, "bench_%s: %s: no argument is expected (try --help)\n", name, argv[1]);
        exit(2);
    }
    bench->name = g_strdup(name);
    bench->about = g_strdup(about);
    bench->quick = quick;
    bench->groups = g_ptr_array_new_with_free_func(group_free);
    bench->load_before = bench_machine_load();
    return bench;
}

bool bench_quick(const struct bench *bench)
{
    return bench->quick;
}

unsigned bench_pairs(const struct bench *bench, unsigned usual)
{
    return bench->quick ? 2 : usual;
}

/* ---- groups and rows ---- */

struct bench_group *bench_group(struct bench *bench, enum bench_form form, const char *title, const char *old_label,
                                const char *new_label)
{
    struct bench_group *group = g_new0(struct bench_group, 1);

    group->bench = bench;
    group->form = form;
    group->title = g_strdup(title);
    group->old_label = g_strdup(old_label ? old_label : "");
    group->new_label = g_strdup(new_label ? new_label : "");
    group->rows = g_ptr_array_new_with_free_func(row_free);
    group->notes = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(bench->groups, group);
    return group;
}

void bench_note(struct bench_group *group, const char *text)
{
    g_ptr_array_add(group->notes, g_strdup(text));
}

void bench_detail(struct bench_group *group)
{
    group->detail = true;
}

struct bench_row *bench_row(struct bench_group *group, const char *name, const char *unit, enum bench_better better)
{
    struct bench_row *row = g_new0(struct bench_row, 1);

    row->bench = group->bench;
    row->form = group->form;
    row->name = g_strdup(name);
    row->unit = g_strdup(unit);
    row->better = better;
    row->old_side.values = g_array_new(FALSE, FALSE, sizeof(double));
    row->new_side.values = g_array_new(FALSE, FALSE, sizeof(double));
    g_ptr_array_add(group->rows, row);
    return row;
}

void bench_pair(struct bench_row *row, double old_value, double new_value)
{
    g_array_append_val(row->old_side.values, old_value);
    g_array_append_val(row->new_side.values, new_value);
}

void bench_value(struct bench_row *row, double value)
{
    g_array_append_val(row->new_side.values, value);
}

static void set_words(char **words, const char *text)
{
    if (text) {
        g_free(*words);
        *words = g_strdup(text);
    }
}

void bench_words(struct bench_row *row, const char *old_words, const char *new_words)
{
    set_words(&row->old_side.words, old_words);
    set_words(&row->new_side.words, new_words);
}

void bench_unavailable(struct bench_row *row, const char *reason)
{
    set_words(&row->unavailable, reason);
}

void bench_target(struct bench_row *row, enum bench_of of, double bound)
{
    row->promise = PROMISE_BOUND;
    row->of = of;
    row->bound = bound;
}

void bench_promise(struct bench_row *row, const char *words, bool met)
{
    row->promise = PROMISE_WORDS;
    set_words(&row->promise_words, words);
    row->promise_met = met;
}

/* ---- statistics ---- */

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* Between two figures where the wanted rank falls between them. */
static double quantile(const double *sorted, unsigned count, double fraction)
{
    double rank = fraction * (count - 1);
    unsigned below = (unsigned)rank, above = below + 1 < count ? below + 1 : below;

    return sorted[below] + (rank - below) * (sorted[above] - sorted[below]);
}

struct bench_spread bench_spread_of(const double *values, unsigned count)
{
    struct bench_spread spread = { .count = count };
    double *sorted;

    if (count == 0)
        return spread;
    sorted = g_new(double, count);
    memcpy(sorted, values, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), by_value);
    spread.median = quantile(sorted, count, 0.5);
    spread.low = quantile(sorted, count, 0.25);
    spread.high = quantile(sorted, count, 0.75);
    spread.min = sorted[0];
    spread.max = sorted[count - 1];
    g_free(sorted);
    return spread;
}

struct bench_spread bench_side_spread(const struct bench_side *side)
{
    return bench_spread_of((const double *)(void *)side->values->data, side->values->len);
}

struct bench_spread bench_ratio_spread(const struct bench_row *row)
{
    struct bench_spread spread = { 0 };
    unsigned count = MIN(row->old_side.values->len, row->new_side.values->len);
    double *ratios = g_new(double, count + 1);

    for (unsigned i = 0; i < count; i++) {
        double old_value = g_array_index(row->old_side.values, double, i);
        double new_value = g_array_index(row->new_side.values, double, i);

        if (old_value == 0 && new_value == 0) {
            ratios[i] = 1;
        } else if (old_value == 0) {
            g_free(ratios);
            return spread;
        } else {
            ratios[i] = new_value / old_value;
        }
    }
    spread = bench_spread_of(ratios, count);
    g_free(ratios);
    return spread;
}

const char *bench_verdict(const struct bench_row *row)
{
    struct bench_spread ratio = bench_ratio_spread(row);

    if (row->form != BENCH_CHANGE || ratio.count < 2)
        return NULL; /* one pair does not tell a change from noise */
    if (ratio.low <= 1 && ratio.high >= 1)
        return "level";
    return (ratio.median < 1) == (row->better == BENCH_LOWER) ? "better" : "worse";
}

char *bench_promise_text(const struct bench_row *row, bool *met_out, bool *within_noise_out)
{
    const char *sign = row->better == BENCH_LOWER ? "at most" : "at least";
    struct bench_spread spread;
    double scale = 1, bound = row->bound;
    char *text;

    *within_noise_out = false;
    *met_out = row->promise_met;
    if (row->promise == PROMISE_NONE)
        return NULL;
    if (row->promise == PROMISE_WORDS)
        return g_strdup(row->promise_words);

    spread = row->of == BENCH_OF_NEW ? bench_side_spread(&row->new_side) : bench_ratio_spread(row);
    if (spread.count == 0)
        return NULL;
    if (row->of == BENCH_OF_CHANGE) {
        text = g_strdup_printf("%s %+g %%", sign, row->bound);
        bound = 1 + row->bound / 100;
    } else if (row->of == BENCH_OF_TIMES) {
        text = g_strdup_printf("%s %g times", sign, row->bound);
    } else {
        text = g_strdup_printf("%s %g", sign, row->bound);
    }
    /* What is exactly as promised must not be missed by a rounding of the last digit. */
    scale = row->better == BENCH_LOWER ? 1 + 1e-12 : 1 - 1e-12;
    *met_out = row->better == BENCH_LOWER ? spread.median <= bound * scale : spread.median >= bound * scale;
    *within_noise_out = spread.low < bound && spread.high > bound;
    return text;
}

/* ---- sampling ---- */

void bench_alternate(struct bench *bench, struct bench_subject *subjects, unsigned subject_count, unsigned rounds)
{
    for (unsigned i = 0; i < subject_count; i++) {
        subjects[i].values = g_new0(double, rounds);
        subjects[i].count = 0;
        subjects[i].error = 0;
    }
    for (int round = bench->quick ? 0 : -1; round < (int)rounds; round++)
        for (unsigned i = 0; i < subject_count; i++) {
            struct bench_subject *subject = &subjects[round % 2 ? subject_count - 1 - i : i];
            double value = 0;

            if (subject->error == 0)
                subject->error = subject->sample(subject->opaque, &value);
            if (subject->error == 0 && round >= 0)
                subject->values[subject->count++] = value;
        }
}

static void note_error(struct bench_side *side, const struct bench_subject *subject)
{
    if (subject->error < 0) {
        g_free(side->words);
        side->words = g_strdup_printf("failed: %s", g_strerror(-subject->error));
    }
}

void bench_row_of(struct bench_row *row, const struct bench_subject *old_subject,
                  const struct bench_subject *new_subject)
{
    g_array_append_vals(row->new_side.values, new_subject->values, new_subject->count);
    note_error(&row->new_side, new_subject);
    if (old_subject) {
        g_array_append_vals(row->old_side.values, old_subject->values, old_subject->count);
        note_error(&row->old_side, old_subject);
    }
}

void bench_subjects_deinit(struct bench_subject *subjects, unsigned subject_count)
{
    for (unsigned i = 0; i < subject_count; i++)
        g_clear_pointer(&subjects[i].values, g_free);
}

void bench_compare(struct bench_row *row, bench_sample_fn old_sample, bench_sample_fn new_sample, void *opaque,
                   unsigned pairs)
{
    struct bench_subject subjects[2] = { { .sample = old_sample, .opaque = opaque },
                                         { .sample = new_sample, .opaque = opaque } };

    bench_alternate(row->bench, subjects, 2, pairs);
    bench_row_of(row, &subjects[0], &subjects[1]);
    bench_subjects_deinit(subjects, 2);
}

/* ---- clocks and children ---- */

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int64_t bench_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t bench_wall_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

unsigned bench_mapping_count(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    unsigned count = 0;
    int c;

    if (!file)
        return 0;
    while ((c = getc_unlocked(file)) != EOF)
        count += c == '\n';
    fclose(file);
    return count;
}

double bench_resident_kib(void)
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

int bench_in_child(void (*run)(void *opaque, void *result), void *opaque, void *result, size_t result_bytes,
                   unsigned timeout_s)
{
    void *shared = mmap(NULL, result_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0, error = 0;
    pid_t child;

    if (shared == MAP_FAILED)
        return -errno;
    memcpy(shared, result, result_bytes);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        alarm(timeout_s);
        run(opaque, shared);
        _exit(0);
    }
    if (child < 0) {
        error = -errno;
    } else {
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        if (WIFSIGNALED(status))
            error = WTERMSIG(status) == SIGALRM ? -ETIME : -ECHILD;
        else if (WEXITSTATUS(status) != 0)
            error = -ECHILD;
    }
    memcpy(result, shared, result_bytes);
    munmap(shared, result_bytes);
    return error;
}

/* ---- the end ---- */

static int write_file(const struct bench *bench, const char *path,
                      void (*print)(const struct bench *bench, FILE *file))
{
    FILE *file = fopen(path, "we");
    bool failed;

    if (file)
        print(bench, file);
    failed = !file || ferror(file);
    if ((file && fclose(file) != 0) || failed) {
        fprintf(stderr, "bench_%s: %s: cannot write: %s\n", bench->name, path, g_strerror(errno));
        return 1;
    }
    return 0;
}

int bench_finish(struct bench *bench)
{
    int status = 0;

    if (bench->json)
        bench_print_json(bench, stdout);
    else if (bench->markdown)
        bench_print_markdown(bench, stdout);
    else
        bench_print_table(bench, stdout);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "bench_%s: standard output: cannot write: %s\n", bench->name, g_strerror(errno));
        status = 1;
    }
    if (bench->json_path)
        status |= write_file(bench, bench->json_path, bench_print_json);
    if (bench->markdown_path)
        status |= write_file(bench, bench->markdown_path, bench_print_markdown);
    bench_free(bench);
    return status;
}
