/**
 * Findings as messages: a trace of one stream without packets, whose events are of the class `vblk:finding`.
 *
 *     struct finding_stream *stream = finding_stream_create(component, clock, first_ns);
 *     bt_message *message = finding_stream_begin(stream, iterator, time_ns);
 *     message = finding_stream_event(stream, iterator, finding, time_ns);      // one for each, times do not decrease
 *     message = finding_stream_end(stream, iterator, time_ns);
 *     finding_stream_destroy(stream);                                          // any time: messages keep what they need
 *
 * Fields, all but the numbers text: id, severity, summary, cause (empty: none is known), begin_ns, end_ns (since the
 * clock's origin), count, subject (a JSON object), advice, evidence (an array of lines).
 *
 * Errors: NULL, without memory. Thread: the graph's.
 */
#ifndef ANALYSIS_PLUGIN_FINDING_STREAM_H
#define ANALYSIS_PLUGIN_FINDING_STREAM_H

#include <babeltrace2/babeltrace.h>
#include <jansson.h>
#include <stdint.h>

struct finding_stream;

/**
 * @like is the clock of the streams among which this one appears: sinks and muxers take only clocks that can be
 * compared. NULL: those have none, and neither has this one. No time is before @first_ns.
 */
struct finding_stream *finding_stream_create(bt_self_component *component, const bt_clock_class *like, int64_t first_ns);
void finding_stream_destroy(struct finding_stream *stream);

bt_message *finding_stream_begin(struct finding_stream *stream, bt_self_message_iterator *iterator, int64_t time_ns);
/** @finding as in a report. */
bt_message *finding_stream_event(struct finding_stream *stream, bt_self_message_iterator *iterator,
                                 const json_t *finding, int64_t time_ns);
bt_message *finding_stream_end(struct finding_stream *stream, bt_self_message_iterator *iterator, int64_t time_ns);

#endif
