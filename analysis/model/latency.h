/**
 * How long requests took and in which stage, over everything recorded: for the report's tables.
 * Memory: the histograms; what is in flight is the model's.
 */
#ifndef ANALYSIS_MODEL_LATENCY_H
#define ANALYSIS_MODEL_LATENCY_H

#include <jansson.h>

#include "model/process.h"

struct latency;

struct latency *latency_create(void);
void latency_destroy(struct latency *latency);

/** Takes vblk_request:end; others do no harm. */
void latency_event(struct latency *latency, const struct occurrence *what);

/**
 * { "requests": n, "in_flight": n, "stages": { "queued": { "count", "p50_ns", ... }, "serialising", "backend",
 * "completing", "total" } }; new reference. @in_flight: how many were, at the end.
 */
json_t *latency_json(const struct latency *latency, uint64_t in_flight);

#endif
