/**
 * How long requests took, in which stage and when: a histogram of each stage for each step of time.
 * Memory: a column for each bucket that holds anything; four buckets to a power of two.
 */
#ifndef ANALYSIS_SERIES_HEAT_H
#define ANALYSIS_SERIES_HEAT_H

#include "model/process.h"
#include "series/grid.h"

struct heat;

struct heat *heat_create(struct grid *grid);
void heat_destroy(struct heat *heat);

/** Takes vblk_request:end; others do no harm. A request whose begin was not seen is left out. */
void heat_event(struct heat *heat, const struct occurrence *what);

/**
 * { "stages": { "queued": { "from_ns": [...], "counts": [...] }, "serialising", "backend", "completing", "total" },
 *   "heat": { "queued": [ [counts of the first bucket by step] or null, ... ], ... } }
 * from_ns: the buckets' lower edges, without gaps, and the upper edge of the last; a bucket that is always empty is null in heat.
 * Stages that no request has are left out. New reference.
 */
json_t *heat_json(const struct heat *heat);

#endif
