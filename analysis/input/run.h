/**
 * Reads inputs to a report whatever state they are in: what makes babeltrace2 fail, crash or hang is found by trying
 * it alone, cut back or left out, and the rest is read again.
 *
 *     struct run_result result;
 *     run_inputs(inputs, &options, &result);
 *     if (result.report) print(result.report);
 *     run_result_clear(&result);
 *
 * Thread: the only thread of the process (attempt.h).
 */
#ifndef ANALYSIS_INPUT_RUN_H
#define ANALYSIS_INPUT_RUN_H

#include "input/attempt.h"

/* How long an input may get no further, unless the user says otherwise. */
#define RUN_STALL_SECONDS 20

struct run_options {
    const struct analysis_options *analysis_options;
    unsigned stall_seconds;
    unsigned jobs; /**< processes that decode; 1: the one that judges does; 0: as many as there are processors */
    void (*progress)(void *data, const struct feed_progress *progress); /**< may be NULL */
    /** Reading @folder failed; what can be read of it is being looked for; may be NULL. */
    void (*restart)(void *data, const char *folder);
    void *data;
};

struct run_result {
    char *report;     /**< JSON text; NULL: no input could be read, or it was interrupted at once */
    int exit_status;  /**< of the report */
    bool interrupted; /**< the report, if any, is partial */
};

/** @inputs are prepared. Those that cannot be read become refusals. */
void run_inputs(struct inputs *inputs, const struct run_options *options, struct run_result *result_out);
void run_result_clear(struct run_result *result);

#endif
