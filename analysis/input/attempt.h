/**
 * One attempt to read traces, in a child process under a watchdog: a library that crashes or loops for ever on a
 * damaged file takes the child with it and not the report.
 *
 *     struct attempt_job job = { .folders = lists, .expected = traces, .analysis_options = &options, ... };
 *     struct attempt_result result;
 *     attempt_run(&job, &result);
 *     if (!result.failure) use(result.report);
 *     attempt_result_clear(&result);
 *
 * Thread: the only thread of the process (it forks).
 */
#ifndef ANALYSIS_INPUT_ATTEMPT_H
#define ANALYSIS_INPUT_ATTEMPT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/analysis.h"
#include "input/inputs.h"
#include "input/intake.h"

struct attempt_job {
    GPtrArray *folders;        /**< NULL-terminated lists of folders, one for each source component */
    GPtrArray *expected;       /**< struct input_trace: what is read, for names and cuts */
    const GPtrArray *refusals; /**< struct input_refusal: for the report */
    const struct analysis_options *analysis_options; /**< NULL: only see whether it can be read */
    unsigned decoders;      /**< processes that decode beside the one that judges; 0: it does both */
    unsigned stall_seconds; /**< end the child when it got no further for so long */
    void (*progress)(void *data,
                     const struct feed_progress *progress); /**< about 10 times a second; may be NULL */
    void *data;
};

struct attempt_result {
    char *failure;         /**< NULL: all was read; else why not: cause */
    bool stalled;          /**< the failure is that the child got no further */
    bool interrupted;      /**< attempt_interrupt() ended it early; there may be a partial report */
    char *report;          /**< JSON text, or NULL */
    int exit_status;       /**< what the analysis says */
    uint64_t packet_count; /**< packets that were read whole */
};

/** Run the child and wait for it. */
void attempt_run(const struct attempt_job *job, struct attempt_result *result_out);
void attempt_result_clear(struct attempt_result *result);

/**
 * Ask the running attempt, and every later one, to end with what it has. A second call ends it at once.
 * Thread: any, also a signal handler.
 */
void attempt_interrupt(void);

/**
 * Let SIGINT, SIGTERM and SIGHUP call it, and a reader that has seen enough be an error of writing: temporary copies are
 * removed in any case.
 */
void attempt_handle_signals(void);

/** attempt_interrupt() was called. */
bool attempt_interrupted(void);

#endif
