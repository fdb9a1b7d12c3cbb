/**
 * Events as a Chrome trace ("JSON Object Format"), which Perfetto and chrome://tracing open. Written as they come: memory is
 * bounded by the slices and requests that are open.
 *
 *     struct chrome *chrome = chrome_create(file);
 *     chrome_event(chrome, &what); ...              // in time order
 *     chrome_end(chrome, end_ns);                   // closes what is open
 *     chrome_findings(chrome, report);              // then their marks, and the end of the document
 *     chrome_destroy(chrome);
 *
 * Tracks: a process for each traced one, a track for each thread: what its loop does (busy, poll, wait), in it the coroutines; requests
 * as asynchronous slices with their stages, and an arrow from the thread that took one to the thread that ended it; counters of pool,
 * mappings and queues; instants for anomalies. Findings are a process of their own, with their whole span.
 *
 * What may be promised: on each track times never decrease; each begin has its end, each arrow both its ends; an end whose begin was lost
 * is left out, and what is open at the end is closed there.
 * Source: "Trace Event Format" of the Catapult project (duration, async nestable, flow, counter, instant and metadata events).
 * Errors: those of writing stay in the stream's error flag. Thread: one at a time.
 */
#ifndef ANALYSIS_EXPORT_CHROME_H
#define ANALYSIS_EXPORT_CHROME_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "model/process.h"

struct chrome;

/** @file stays the caller's. */
struct chrome *chrome_create(FILE *file);
void chrome_destroy(struct chrome *chrome);
void chrome_event(struct chrome *chrome, const struct occurrence *what);
void chrome_end(struct chrome *chrome, int64_t end_ns);

/** For a document whose events another chrome wrote (in a child process, say): findings, closing brackets. Times begin at @report's. */
void chrome_findings(FILE *file, const json_t *report);

#endif
