/**
 * Columns of values over equal steps of time. When time outgrows the grid, the step doubles and neighbours are joined, so
 * that memory is bounded however long a recording is.
 *
 *     struct grid *grid = grid_create(begin_ns);
 *     struct column *size = grid_column(grid, COLUMN_GAUGE), *busy = grid_column(grid, COLUMN_TOTAL);
 *     column_set(size, now_ns, 12);                  // the last value in a step stays
 *     column_add(busy, last_ns, now_ns, 800);        // growth between two times, shared out among the steps between
 *     grid_reach(grid, end_ns);                      // as many steps as to there
 *     json_t *values = column_json(busy);            // [ null, 500, 300, ... ]: null where nothing is known
 *
 * Times before the begin count as the begin. Thread: one at a time. Ownership: a column is the grid's.
 */
#ifndef ANALYSIS_SERIES_GRID_H
#define ANALYSIS_SERIES_GRID_H

#include <jansson.h>
#include <stdint.h>

/** At most so many steps. */
#define GRID_STEPS_MAX 600
/** The first step, so that a recording of a few seconds shows something. */
#define GRID_STEP_NS INT64_C(10000000)

enum column_kind { COLUMN_GAUGE, COLUMN_TOTAL };

struct grid;
struct column;

struct grid *grid_create(int64_t begin_ns);
void grid_destroy(struct grid *grid);

void grid_reach(struct grid *grid, int64_t time_ns);
int64_t grid_begin_ns(const struct grid *grid);
int64_t grid_step_ns(const struct grid *grid);
unsigned grid_steps(const struct grid *grid);

/** Costs no memory to speak of before its first value. */
struct column *grid_column(struct grid *grid, enum column_kind kind);
void column_set(struct column *gauge, int64_t time_ns, int64_t value);
/** The growth is spread evenly; the steps' shares add up to it exactly. Below 0 it counts as 0. Both times the same: all of it goes there. */
void column_add(struct column *total, int64_t begin_ns, int64_t end_ns, int64_t growth);

/** New reference: grid_steps() values or nulls. */
json_t *column_json(const struct column *column);
/** All that was added to a total. */
int64_t column_sum(const struct column *total);

#endif
