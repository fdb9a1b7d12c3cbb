#include "input/progress.h"

#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define BAR_COLUMNS 40

struct progress_bar {
    bool shown;
    gint64 begin_us;
};

struct progress_bar *progress_bar_create(void)
{
    struct progress_bar *bar;

    if (!isatty(STDERR_FILENO))
        return NULL;
    bar = g_new0(struct progress_bar, 1);
    bar->begin_us = g_get_monotonic_time();
    return bar;
}

void progress_bar_show(struct progress_bar *bar, const struct feed_progress *progress)
{
    double seconds, share = 0;

    if (!bar)
        return;
    seconds = (g_get_monotonic_time() - bar->begin_us) / (double)G_USEC_PER_SEC;
    if (seconds < 0.3)
        return; /* short work needs no bar */
    if (progress->has_range && progress->end_ns > progress->begin_ns &&
        progress->time_ns > progress->begin_ns)
        share = MIN(1.0, (double)(progress->time_ns - progress->begin_ns) /
                             (progress->end_ns - progress->begin_ns));
    if (share > 0) {
        int full = (int)(share * BAR_COLUMNS);

        fprintf(stderr, "\r[%.*s%*s] %3.0f %%  %" PRIu64 " events  %.0f s left\033[K", full,
                "########################################", BAR_COLUMNS - full, "", share * 100,
                progress->event_count, seconds / share - seconds);
    } else {
        fprintf(stderr, "\r%" PRIu64 " events\033[K", progress->event_count);
    }
    bar->shown = true;
}

void progress_bar_clear(struct progress_bar *bar)
{
    if (bar && bar->shown)
        fputs("\r\033[K", stderr);
    if (bar)
        bar->shown = false;
}

void progress_bar_destroy(struct progress_bar *bar)
{
    progress_bar_clear(bar);
    g_free(bar);
}
