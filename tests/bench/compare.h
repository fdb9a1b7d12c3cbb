/**
 * A benchmark compares two things in one run and says how they differ: OLD, NEW, CHANGE.
 *
 * Absolute times on a busy or virtual machine say little; the ratio of two figures that were taken one right after
 * the other says more. So everything is measured in pairs, alternating (old new, new old, old new, ...), and CHANGE is the
 * median of the pairs' own changes, next to the range that the middle half of the pairs covers: a change smaller than
 * that range is noise, and the table says "level". A target is what the project promises; a missed one is printed
 * as missed and fails nothing.
 *
 *     int main(int argc, char **argv)
 *     {
 *         struct bench *bench = bench_begin("pool", "A life from the pool under each policy, in one thread.", NULL,
 *                                           argc, argv);
 *         struct bench_group *group = bench_group(bench, BENCH_CHANGE, "Depth 64", "per-thread", "batched");
 *         struct bench_row *row = bench_row(group, "life", "ns", BENCH_LOWER);
 *
 *         // Each fills in its figure and returns 0, or a negative errno: int sample(void *opaque, double *value_out)
 *         bench_compare(row, per_thread_life, batched_life, &setup, bench_pairs(bench, 15));
 *         bench_target(row, BENCH_OF_CHANGE, 3);        // lower is better: at most +3 %
 *
 *         row = bench_row(group, "mappings", "mappings", BENCH_LOWER);    // figures that are at hand already
 *         bench_pair(row, 40000, 1);
 *         row = bench_row(group, "100,000 live", "", BENCH_LOWER);        // outcomes in words
 *         bench_words(row, "fails at 32,611: vm.max_map_count", "made");
 *         bench_promise(row, "does not fail", true);
 *         return bench_finish(bench);                   // prints the table, writes the files asked for
 *     }
 *
 * Every benchmark so understands --json[=FILE], --markdown[=FILE], --quick and --help. With --quick it only shows that
 * it works, in a few hundred milliseconds; the test suite runs it so. compare.py gives scripts the same.
 *
 * Thread:    the one that called bench_begin(), unless a function says otherwise.
 * Ownership: bench_finish() frees everything; all texts are copied.
 */
#ifndef BENCH_COMPARE_H
#define BENCH_COMPARE_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench;
struct bench_group;
struct bench_row;

enum bench_better { BENCH_LOWER, BENCH_HIGHER };

/** What the rows of a group hold. */
enum bench_form {
    BENCH_CHANGE, /**< OLD, NEW and by how many percent NEW differs */
    BENCH_TIMES,  /**< LIMIT (what it could be at best), FIGURE and how many times the limit it is */
    BENCH_FIGURE  /**< FIGURE alone */
};

/**
 * Reads the command line; ends the process after --help (0) or wrong usage (2).
 *
 * @name      in results and on the command line, without "bench_".
 * @about     a sentence or two: what is measured and how; printed under the heading.
 * @more      further options, ended by an empty entry; or NULL.
 * Trace:     none; no thread is started, so that a child made by fork() may use the runtime.
 */
struct bench *bench_begin(const char *name, const char *about, const GOptionEntry *more, int argc, char **argv);

/** Whether only to show that everything works: sizes as small as they can be. */
bool bench_quick(const struct bench *bench);

/** How many pairs to take: @usual, or 2 with --quick. */
unsigned bench_pairs(const struct bench *bench, unsigned usual);

/** @new_label heads the column of the NEW or FIGURE, @old_label that of the OLD or LIMIT (NULL for BENCH_FIGURE). */
struct bench_group *bench_group(struct bench *bench, enum bench_form form, const char *title, const char *old_label,
                                const char *new_label);

/** A line under the group's table: how it was measured, what is not shown, what it means. */
void bench_note(struct bench_group *group, const char *text);

/** Leaves the group out of Markdown, which is for reading: its rows are too many or too fine for that. */
void bench_detail(struct bench_group *group);

/** @unit: "ns", "requests/s", "" for none. */
struct bench_row *bench_row(struct bench_group *group, const char *name, const char *unit, enum bench_better better);

/** One pair of figures that were taken one right after the other (BENCH_CHANGE, BENCH_TIMES). */
void bench_pair(struct bench_row *row, double old_value, double new_value);

/** One figure (BENCH_FIGURE). */
void bench_value(struct bench_row *row, double value);

/** Says in words what has no figure; NULL leaves a side as it is. */
void bench_words(struct bench_row *row, const char *old_words, const char *new_words);

/** A row that could not be measured here, and why. */
void bench_unavailable(struct bench_row *row, const char *reason);

/**
 * What the project promises; the bound is an upper one where lower is better, and a lower one where higher is better.
 *
 * BENCH_OF_NEW: of the NEW figure. BENCH_OF_CHANGE: percent, with its sign. BENCH_OF_TIMES: times the limit.
 */
enum bench_of { BENCH_OF_NEW, BENCH_OF_CHANGE, BENCH_OF_TIMES };
void bench_target(struct bench_row *row, enum bench_of of, double bound);

/** The same in words, where the caller knows whether it was kept. */
void bench_promise(struct bench_row *row, const char *words, bool met);

/* ---- sampling ---- */

/** Measures once. Returns 0, or a negative errno, and the row says so. */
typedef int (*bench_sample_fn)(void *opaque, double *value_out);

/** Something that is measured in turn with others. The first four members are the caller's. */
struct bench_subject {
    bench_sample_fn sample;
    void *opaque;
    double *values; /**< of bench_alternate(): [rounds], freed by bench_subjects_deinit() */
    unsigned count;
    int error; /**< what sample returned; later rounds leave this subject out */
};

/**
 * Measures every subject once in each round, each second round in reverse order, after a warm-up that is thrown away (not
 * with --quick): what the machine does meanwhile meets all alike, and no one always runs after the same other one.
 */
void bench_alternate(struct bench *bench, struct bench_subject *subjects, unsigned subject_count, unsigned rounds);

/** Fills a row with what two subjects got in the same rounds (@old NULL for BENCH_FIGURE). */
void bench_row_of(struct bench_row *row, const struct bench_subject *old_subject,
                  const struct bench_subject *new_subject);

void bench_subjects_deinit(struct bench_subject *subjects, unsigned subject_count);

/** The usual case in one call: two functions and one row. */
void bench_compare(struct bench_row *row, bench_sample_fn old_sample, bench_sample_fn new_sample, void *opaque,
                   unsigned pairs);

/* ---- clocks and children ---- */

/** The calling thread's processor time: what other programs take away in between does not count. Thread: any. */
int64_t bench_cpu_ns(void);

/** Time on the wall, where waiting is part of what is measured. Thread: any. */
int64_t bench_wall_ns(void);

/** Lines of /proc/self/maps, and resident memory. 0 where they cannot be read. Thread: any. */
unsigned bench_mapping_count(void);
double bench_resident_kib(void);

/**
 * Runs @run in a child process and brings back what it wrote to @result, for what a process chooses only once (the
 * policy of its pool, its stack guard), or what may end it.
 *
 * Returns:   0; -ETIME after @timeout_s, when the child is killed; -ECHILD: it ended by a signal or with a status other
 *            than 0; or why there is no child.
 *            What it wrote up to then is in @result in each case.
 * Thread:    before the caller has threads of its own.
 */
int bench_in_child(void (*run)(void *opaque, void *result), void *opaque, void *result, size_t result_bytes,
                   unsigned timeout_s);

/** Prints and writes what the command line asked for. Returns the exit status: 0, or 1 with a line on stderr. */
int bench_finish(struct bench *bench);

#endif
