/**
 * A cycle of waits over locks, coroutines, drains and loops, as it stands now: who can go on only when somebody else does,
 * and that one only when the first does.
 *
 *     GPtrArray *edges = wait_cycle_through(process, lock_id);   // sentences, in the order of the waits
 *     if (edges) ... g_ptr_array_free(edges, TRUE);
 */
#ifndef ANALYSIS_CHECKS_WAIT_CYCLE_H
#define ANALYSIS_CHECKS_WAIT_CYCLE_H

#include "model/process.h"

/** One wait of a cycle. */
struct wait_edge {
    int64_t time_ns;     /**< when it began, as far as is known; 0: not */
    enum event_id event; /**< that says so */
    int64_t vtid;        /**< who waits; EVENT_UNKNOWN_ID: nobody whose going on would show */
    char *text;
};

/**
 * Returns: struct wait_edge *, from the lock to whoever holds it and so on back to the lock; NULL: there is no such cycle.
 * Exact at the end of the trace, when what has not gone on is known not to.
 */
GPtrArray *wait_cycle_through(const struct process *process, uint64_t lock_id);

#endif
