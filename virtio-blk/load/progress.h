/* A progress line on stderr, only where a person sees it. */
#ifndef LOAD_PROGRESS_H
#define LOAD_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *title;
    bool visible; /* stderr is a terminal */
};

struct progress progress_begin(const char *title);

/** Draw anew: @fraction of the run (0 to 1), requests completed in the first @elapsed_ns. */
void progress_show(const struct progress *progress, double fraction, uint64_t completed, uint64_t elapsed_ns);

/** Erase the line. */
void progress_end(const struct progress *progress);

#endif
