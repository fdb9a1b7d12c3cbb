/**
 * What a loop's thread is doing, as far as its events tell: busy, polling, or asleep in the kernel, since when and for
 * how long: struct loop's `sleep`, `polling`, `vtid`, `active_ns`.
 *
 * A loop that was asleep when a recording began is known from its baseline (rt_loop:state). That is written by another
 * thread from what it read a moment before, so it yields to what the loop's own events say.
 */
#ifndef ANALYSIS_MODEL_PHASE_H
#define ANALYSIS_MODEL_PHASE_H

#include "model/process.h"

/** Take in an event that the loop's thread emits, or rt_loop:state. */
void phase_update(const struct occurrence *what);

#endif
