/**
 * Runs babeltrace2 over traces: one `source.ctf.fs` for each trace (rotated chunks of one recording together), merged
 * in time by `filter.utils.muxer`, into the feed.
 */
#ifndef ANALYSIS_INPUT_GRAPH_H
#define ANALYSIS_INPUT_GRAPH_H

#include <glib.h>
#include <stdbool.h>

#include "input/feed.h"

struct graph_job {
    struct feed *feed;
    void (*batch)(void *data); /**< after each batch of messages */
    void *data;
};

/**
 * Read @folders (char **, NULL-terminated lists of folders, one list for each source component) to their end.
 *
 * Returns:   NULL, or why reading failed, as babeltrace2 says it. The caller frees it. What was fed stays fed.
 * *@interrupted_out: graph_interrupt() ended it early.
 */
char *graph_run(GPtrArray *folders, const struct graph_job *job, bool *interrupted_out);

/** End the running graph_run() soon. Thread: any, also a signal handler. */
void graph_interrupt(void);

#endif
