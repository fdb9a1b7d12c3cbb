/**
 * Makes of babeltrace2 messages what an intake takes: the one adapter, for recordings, live sessions and the plugin
 * alike.
 *
 *     struct feed *feed = feed_create(&intake_target, intake);
 *     feed_messages(feed, messages, count);      // as often as the message iterator gives some; takes the messages
 *     feed_destroy(feed);                        // then intake_finish()
 *
 * How an event class is decoded (which member goes to which slot) is worked out once, when its first event comes;
 * an event then costs no allocation and no search.
 *
 * Thread: one at a time, the one that runs the graph.
 */
#ifndef ANALYSIS_INPUT_FEED_H
#define ANALYSIS_INPUT_FEED_H

#include <babeltrace2/babeltrace.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/analysis.h"
#include "input/inputs.h"
#include "input/intake.h"

#define SOURCE_UNKNOWN UINT_MAX

struct feed;

/** @target and @data stay the caller's and must outlive the feed. */
struct feed *feed_create(const struct feed_target *target, void *data);
void feed_destroy(struct feed *feed);

/**
 * Tell the feed which folder a trace was read from: streams of @trace are named as the user knows them, and what was
 * cut away from it becomes events lost from there on. Before the first message; @trace must outlive the feed.
 */
void feed_expect(struct feed *feed, const struct input_trace *trace);

/** Take one batch of messages, which somebody has merged in time, and put their references. */
void feed_messages(struct feed *feed, bt_message_array_const messages, uint64_t count);

/** When the message happened, in nanoseconds since the epoch; TIME_UNKNOWN. */
int64_t feed_time(const bt_message *message);

/**
 * Take one message as of @time_ns, and put its reference. Its stream is read by the source component @source;
 * SOURCE_UNKNOWN outside of a graph of ours.
 */
void feed_take(struct feed *feed, const bt_message *message, int64_t time_ns, unsigned source);

/** Let go of the last messages: before the graph that made them goes away. */
void feed_release(struct feed *feed);

#endif
