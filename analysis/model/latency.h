/**
 * How long requests took and in which stage, over everything recorded: for the report's tables.
 * Memory: a record for each request in flight, and the histograms.
 */
#ifndef ANALYSIS_MODEL_LATENCY_H
#define ANALYSIS_MODEL_LATENCY_H

#include <jansson.h>

#include "model/process.h"

struct latency;

struct latency *latency_create(void);
void latency_destroy(struct latency *latency);

/** Takes the events of vblk_request; others do no harm. */
void latency_event(struct latency *latency, const struct occurrence *what);

/** { "requests": n, "stages": { "queued": { "count", "p50_ns", ... }, "backend", "completing", "total" } }; new reference. */
json_t *latency_json(const struct latency *latency);

#endif
