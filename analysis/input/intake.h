/**
 * Where what was read arrives, in the order of time: the last step before the analysis. One in each run, however many
 * processes decode.
 *
 *     struct intake *intake = intake_create(analysis);
 *     struct feed *feed = feed_create(&intake_target, intake);   // or workers_run(), which feeds it from elsewhere
 *     ...
 *     intake_finish(intake);                                     // then analysis_finish()
 *
 * Thread: one at a time.
 */
#ifndef ANALYSIS_INPUT_INTAKE_H
#define ANALYSIS_INPUT_INTAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/analysis.h"
#include "input/inputs.h"

/** No time is known: of an event, the time of the last one; of a loss, since the first of everything. */
#define TIME_UNKNOWN INT64_MIN

/** Which trace a feed means: the same in each process that reads streams of it. */
struct trace_identity {
    unsigned source; /**< of the component that reads it */
    bool has_uuid;
    uint8_t uuid[16];
};

/** What a feed tells, and whom. Everything in the order of time; indexes are those that the target gave. */
struct feed_target {
    unsigned (*add_trace)(void *data, const struct trace_identity *identity,
                          const struct analysis_trace *description);
    unsigned (*add_stream)(void *data, unsigned trace, const struct analysis_stream *description);
    void (*event)(void *data, struct event *event); /**< its time may be TIME_UNKNOWN; may be changed */
    void (*unknown_event)(void *data, unsigned stream, int64_t time_ns);
    void (*loss)(void *data, unsigned stream, enum analysis_loss kind, int64_t begin_ns, int64_t end_ns);
    void (*time)(void *data, int64_t time_ns); /**< of something that is no event */
    void (*range)(void *data, int64_t begin_ns, int64_t end_ns); /**< a stream that will be read */
    void (*packet_end)(void *data);
    void (*cut_told)(void *data, const struct input_stream *part); /**< its damage needs no other word */
};

extern const struct feed_target intake_target; /**< its data is a struct intake */

struct intake;

/** @analysis stays the caller's and must outlive the intake. */
struct intake *intake_create(struct analysis *analysis);
void intake_destroy(struct intake *intake);

/** Traces that were found: for intake_finish(). Before the first event; @trace must outlive the intake. */
void intake_expect(struct intake *intake, const struct input_trace *trace);

/** End of everything: loss of streams that never appeared, traces without any stream. */
void intake_finish(struct intake *intake);

struct feed_progress {
    uint64_t event_count;
    uint64_t packet_count; /**< packets that ended */
    int64_t time_ns;       /**< of the last event */
    bool has_range;        /**< the traces that were expected say when they begin and end */
    int64_t begin_ns, end_ns;
};

struct feed_progress intake_progress(const struct intake *intake);

#endif
