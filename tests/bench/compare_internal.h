/* What compare.c gathers and compare_report.c shows. */
#ifndef BENCH_COMPARE_INTERNAL_H
#define BENCH_COMPARE_INTERNAL_H

#include "compare.h"

#include <stdio.h>

struct bench_side {
    GArray *values; /* double */
    char *words;
};

enum bench_promise_kind { PROMISE_NONE, PROMISE_BOUND, PROMISE_WORDS };

struct bench_row {
    char *name, *unit, *unavailable;
    enum bench_better better;
    enum bench_form form;
    struct bench_side old_side, new_side;
    enum bench_promise_kind promise;
    enum bench_of of;
    double bound;
    char *promise_words;
    bool promise_met;
    struct bench *bench;
};

struct bench_group {
    char *title, *old_label, *new_label;
    enum bench_form form;
    bool detail;
    GPtrArray *rows, *notes;
    struct bench *bench;
};

struct bench {
    char *name, *about;
    GPtrArray *groups;
    bool quick;
    bool json, markdown; /* on stdout */
    char *json_path, *markdown_path;
    double load_before; /* of the machine, when the benchmark began; negative: unknown */
};

/* Median, middle half and extremes of some figures. */
struct bench_spread {
    unsigned count;
    double median, low, high, min, max;
};

struct bench_spread bench_spread_of(const double *values, unsigned count);
struct bench_spread bench_side_spread(const struct bench_side *side);

/* Of the pairs' ratios NEW / OLD; count 0 if there is no pair or an OLD is 0. */
struct bench_spread bench_ratio_spread(const struct bench_row *row);

/* "better", "worse", or "level" if the middle half of the pairs lies on both sides of no change. NULL without pairs. */
const char *bench_verdict(const struct bench_row *row);

/* The promise in words, whether it was kept, and whether the middle half lies on both sides of the bound; NULL: none. */
char *bench_promise_text(const struct bench_row *row, bool *met_out, bool *within_noise_out);

void bench_print_table(const struct bench *bench, FILE *file);
void bench_print_markdown(const struct bench *bench, FILE *file);
void bench_print_json(const struct bench *bench, FILE *file);

/* compare_machine.c: facts as {name: text or number}, in an order that a reader likes. */
struct json_t;
struct json_t *bench_machine(const struct bench *bench);
double bench_machine_load(void);

#endif
