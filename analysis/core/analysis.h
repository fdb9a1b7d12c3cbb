/**
 * All checks over one stream of events: created, fed in time order, finished, reported. Knows nothing of babeltrace2.
 *
 *     struct analysis *a = analysis_create(&options);
 *     unsigned t = analysis_add_trace(a, &trace);            // one per CTF trace (folder with metadata)
 *     unsigned s = analysis_add_stream(a, t, &stream);       // before its first event; any time during the run
 *     analysis_event(a, &event); ...                         // times do not decrease
 *     analysis_finish(a, false);
 *     json_t *report = analysis_report(a);
 *     int status = analysis_exit_status(a);
 *     analysis_destroy(a);
 *
 * Thread: one at a time. Ownership: strings passed in are copied. Errors: nothing here fails on input.
 * Memory: bounded by what lives in the traced processes, not by the number of events.
 */
#ifndef ANALYSIS_CORE_ANALYSIS_H
#define ANALYSIS_CORE_ANALYSIS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "events/event.h"

struct analysis;

struct occurrence; /* model/process.h */

/** Who wants to see each event as the checks see it. */
struct analysis_observer {
    void (*event)(void *data, const struct occurrence *what); /**< the model took it in already */
    void (*end)(void *data, int64_t end_ns);                  /**< at analysis_finish() */
    void *data;
};

/** Limits of the contract's section 3; analysis_options_init() sets the defaults. */
struct analysis_options {
    int64_t stuck_request_ns, slow_p999_ns, loop_hog_ns, handover_overlap_ns, deferred_interrupt_ns;
    int64_t deaf_queue_ns, late_wakeup_ns;
    uint64_t slow_requests_min, unread_dispatches, false_progress_polls, needless_writes_min, sustained_seconds;
    uint64_t contention_waits_min, thrash_takes_min;
    double mapping_warning, mapping_error, needless_writes_share, contention_share, thrash_share;
    bool series; /**< collect how things went over time: `series` in the report */
    const struct analysis_observer *observer; /**< must outlive the analysis; or NULL */
    const char *const *checks; /**< NULL-terminated ids to run; NULL runs all */
};

void analysis_options_init(struct analysis_options *options_out);

/** Ids of all findings that exist, in the order of reports; NULL ends. What options->checks may hold. */
const char *const *analysis_check_ids(void);

struct analysis *analysis_create(const struct analysis_options *options);
void analysis_destroy(struct analysis *analysis);

/** One CTF trace: its declared events say which sets were recorded. */
struct analysis_trace {
    const char *path;
    const char *hostname;          /**< environment, or NULL */
    const char *procname;          /**< per-pid traces: environment, or NULL */
    int64_t vpid;                  /**< per-pid traces: environment; EVENT_UNKNOWN_ID otherwise */
    const char *clock_uuid;        /**< or NULL; traces with different ones may not be comparable in time */
    bool declared[EVENT_CLASS_COUNT];    /**< event class exists in the metadata */
};

unsigned analysis_add_trace(struct analysis *analysis, const struct analysis_trace *trace);

struct analysis_stream {
    uint64_t stream_class_id; /**< the channel */
    int64_t cpu_id;           /**< EVENT_UNKNOWN_ID if not known */
    const char *path;         /**< file, or NULL (live) */
};

unsigned analysis_add_stream(struct analysis *analysis, unsigned trace_index, const struct analysis_stream *stream);

/** Of ours or of a dialect (core/dialect.h). */
void analysis_event(struct analysis *analysis, const struct event *event);

/** An event of no known dialect was seen (it only counts). */
void analysis_unknown_event(struct analysis *analysis, unsigned stream_index, int64_t time_ns);

enum analysis_loss { LOSS_DISCARDED_EVENTS, LOSS_DISCARDED_PACKETS, LOSS_CUT, LOSS_OVERWRITTEN };

/**
 * Events are missing in a stream between two times (LOSS_CUT: from begin to the end of everything, end_ns ignored;
 * LOSS_OVERWRITTEN: all before end_ns, as in a flight recorder or a later part of a recording: no fault of anybody's,
 * thus not reported, but nothing may be concluded from its silence).
 * Told when it is known, in time order with events where the reader can (begin_ns may lie before the current time).
 */
void analysis_loss(struct analysis *analysis, unsigned stream_index, enum analysis_loss kind, int64_t begin_ns,
                   int64_t end_ns);

/** An input that could not be read at all: named in the report (trace.unreadable), exit status 2. */
void analysis_unreadable(struct analysis *analysis, const char *path, const char *reason);

/** No more events; @interrupted: the user stopped it, the report says that it is partial. */
void analysis_finish(struct analysis *analysis, bool interrupted);

/** The report of contract section 4. Caller owns it. After finish. */
json_t *analysis_report(const struct analysis *analysis);

/**
 * The report as it would be if the events ended now, before finish. The analysis does not change: a forked child
 * finishes its copy (copy on write) and sends the report.
 *
 * Returns:   the report, the caller owns it; NULL: *@why_out (may be NULL) says why, the caller frees it.
 * Thread:    that of the analysis. The process may have other threads, as long as none of them runs code of GLib,
 *            jansson or babeltrace2 at that moment: the child could find their locks held (it is given up after 20 s).
 */
json_t *analysis_preview(struct analysis *analysis, char **why_out);

/** 0, 1, 2 or 3 as in the contract. */
int analysis_exit_status(const struct analysis *analysis);

#endif
