/**
 * Reads traces with several processes: each decodes a share of the streams and sends what it read through a ring in
 * shared memory; the caller merges them, in the same order as one process would, and feeds the intake.
 *
 * Processes and not threads: babeltrace2 makes no promise about threads, and a process that crashes takes nothing along.
 */
#ifndef ANALYSIS_INPUT_WORKERS_H
#define ANALYSIS_INPUT_WORKERS_H

#include <glib.h>
#include <stdbool.h>

#include "input/intake.h"

struct workers_job {
    unsigned count;            /**< processes that decode, at least 1 */
    GPtrArray *folders;        /**< as of graph_run() */
    const GPtrArray *expected; /**< struct input_trace */
    struct intake *intake;
    void (*batch)(void *data); /**< after each batch of events */
    void *data;
};

/**
 * Read all to the end.
 *
 * Returns:   NULL, or why reading failed. The caller frees it. What reached the intake stays there.
 * *@interrupted_out: graph_interrupt() ended it early.
 * Thread: the only one of the process (it forks).
 */
char *workers_run(const struct workers_job *job, bool *interrupted_out);

#endif
