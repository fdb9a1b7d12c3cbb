/**
 * Runs babeltrace2 over traces: one `source.ctf.fs` for each trace (rotated chunks of one recording together), merged
 * in time (merge.h), into a feed. Several processes may each run a share of the streams.
 */
#ifndef ANALYSIS_INPUT_GRAPH_H
#define ANALYSIS_INPUT_GRAPH_H

#include <glib.h>
#include <stdbool.h>

#include "input/feed.h"

/** Which streams: those of part @index when all are dealt out to @count by their sizes. { 0, 1 }: all. */
struct graph_share {
    unsigned index, count;
};

struct graph_job {
    struct feed *feed;
    const GPtrArray *expected; /**< struct input_trace, for the sizes of streams; may be NULL for all streams */
    struct graph_share share;
    /** Before each message is fed: its place in the order of all messages of all shares; may be NULL. */
    void (*place)(void *data, int64_t time_ns, unsigned rank);
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

/** graph_interrupt() was called. */
bool graph_is_interrupted(void);

#endif
