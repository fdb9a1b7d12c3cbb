/**
 * A progress bar on a terminal's standard error; nothing at all elsewhere.
 */
#ifndef ANALYSIS_INPUT_PROGRESS_H
#define ANALYSIS_INPUT_PROGRESS_H

#include "input/intake.h"

struct progress_bar;

/** NULL where there is no terminal; the other functions accept that. */
struct progress_bar *progress_bar_create(void);
void progress_bar_show(struct progress_bar *bar, const struct feed_progress *progress);

/** Take the line away, so that something else can be printed. */
void progress_bar_clear(struct progress_bar *bar);
void progress_bar_destroy(struct progress_bar *bar);

#endif
