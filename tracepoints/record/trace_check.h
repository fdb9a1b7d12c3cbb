/**
 * What became of a recording, read from the packet headers of the files that LTTng wrote. Events are not decoded:
 * this takes milliseconds for gigabytes.
 */
#ifndef RECORD_TRACE_CHECK_H
#define RECORD_TRACE_CHECK_H

#include "select.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct record_trace_facts {
    uint64_t bytes;                  /**< all files */
    bool has_events;                 /**< some packet holds an event */
    bool lost[RECORD_CHANNEL_COUNT]; /**< the tracer discarded events, or whole packets are missing */
    bool damaged;                    /**< a file is cut short or garbled, or the description is missing */
};

/**
 * Read everything below @folder. That events were lost is certain; how many is not told, because LTTng's count
 * cannot be relied on.
 *
 * Returns:   false with @error set if something cannot be read; *facts_out is untouched then.
 */
bool record_trace_check(const char *folder, struct record_trace_facts *facts_out, GError **error);

/** The bytes of all files below @folder but hidden ones, while they are being written; 0 if it cannot be read. */
uint64_t record_trace_bytes(const char *folder);

#endif
