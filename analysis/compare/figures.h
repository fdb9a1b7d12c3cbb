/**
 * The figures of a report that can be compared with those of another: rates, latencies, pool, locks and loops.
 *
 *     struct figures *figures = figures_of(report);          // a report with "series"
 *     for (unsigned i = 0; i < figures->count; i++) use(&figures->rows[i]);
 *     figures_free(figures);
 *
 * A figure is of the whole recording; its batches are the same of equal parts of it, one after the other. Neighbouring steps of a
 * recording resemble each other, so they are no independent sample; means over long enough batches nearly are (method of batch
 * means: B. Schmeiser, "Batch size effects in the analysis of simulation output", Operations Research 30, 1982).
 */
#ifndef ANALYSIS_COMPARE_FIGURES_H
#define ANALYSIS_COMPARE_FIGURES_H

#include <jansson.h>

/** 10 to 30 are advised; fewer, longer ones are nearer to being independent. */
#define FIGURE_BATCHES 10

enum better { BETTER_NEITHER, BETTER_LOWER, BETTER_HIGHER };

struct figure {
    char *group, *name;
    const char *unit;
    enum better better;
    double value;
    double batches[FIGURE_BATCHES];
    unsigned batch_count; /**< 0: too short to be divided */
};

struct figures {
    struct figure *rows;
    unsigned count;
};

/** NULL: the report has no series. */
struct figures *figures_of(const json_t *report);
void figures_free(struct figures *figures);

#endif
