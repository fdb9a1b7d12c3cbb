/**
 * How things went over time: pool, mappings, loops, locks, queues and latency on one grid of equal steps. For plots and for
 * comparing recordings; collected only when it is asked for (analysis_options.series).
 *
 *     struct series *series = series_create();
 *     series_event(series, &what); ...       // every event, after the model took it in
 *     series_finish(series, end_ns);         // end of the trace
 *     json_t *json = series_json(series);    // shape: ../README.md, "Series"
 *
 * Totals are running totals since the process's start: between two samples that were recorded, their growth is spread evenly
 * over the steps between, so that a lost sample loses nothing. A total that shrinks (another process or thread under the
 * same id) starts anew.
 * Memory: GRID_STEPS_MAX steps of at most SERIES_ROWS_MAX rows of a kind, the first ones that do something; a lock does when
 * somebody waited for it.
 * Thread: one at a time.
 */
#ifndef ANALYSIS_SERIES_SERIES_H
#define ANALYSIS_SERIES_SERIES_H

#include <jansson.h>

#include "model/process.h"

#define SERIES_ROWS_MAX 256

struct series;

struct series *series_create(void);
void series_destroy(struct series *series);
void series_event(struct series *series, const struct occurrence *what);
void series_finish(struct series *series, int64_t end_ns);
/** New reference. After series_finish(). */
json_t *series_json(const struct series *series);

#endif
