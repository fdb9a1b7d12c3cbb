/* A progress line on stderr: see progress.h. */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define BAR_WIDTH 30

struct progress progress_begin(const char *title)
{
    return (struct progress){ .title = title, .visible = isatty(STDERR_FILENO) };
}

void progress_show(const struct progress *progress, double fraction, uint64_t completed, uint64_t elapsed_ns)
{
    static const char full[] = "##############################";
    static const char empty[] = "..............................";
    if (!progress->visible)
        return;
    int filled = (int)(fraction * BAR_WIDTH);
    double rate = elapsed_ns ? (double)completed * 1e9 / (double)elapsed_ns : 0;
    fprintf(stderr, "\r%s [%.*s%.*s] %3.0f %%  %" PRIu64 " requests, %.0f/s \x1b[K", progress->title, filled,
            full, BAR_WIDTH - filled, empty, fraction * 100, completed, rate);
}

void progress_end(const struct progress *progress)
{
    if (progress->visible)
        fputs("\r\x1b[K", stderr);
}
