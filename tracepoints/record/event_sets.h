/* The events and the sets that record them, as the headers say. The table's source is written by
 * tracepoints/catalogue when the project is built. */
#ifndef RECORD_EVENT_SETS_H
#define RECORD_EVENT_SETS_H

#include <stdbool.h>
#include <stddef.h>

struct tracepoints_event_set {
    const char *name;   /**< "provider:event" */
    const char *set;    /**< "core", "loop", "lock", "request" or "coroutine" */
    bool baseline;      /**< also emitted when a recording starts on a running process */
    const char *filter; /**< recorded in this set only where this holds; NULL: always */
};

/** An event that two sets record, each in its own way, has two rows. Rows of one event are neighbours. */
extern const struct tracepoints_event_set tracepoints_event_sets[];
extern const size_t tracepoints_event_set_count;

#endif
