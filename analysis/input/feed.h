/**
 * Feeds an analysis from babeltrace2 messages: the one adapter, for recordings, live sessions and the plugin alike.
 *
 *     struct feed *feed = feed_create(analysis);
 *     feed_messages(feed, messages, count);      // as often as the message iterator gives some; takes the messages
 *     feed_finish(feed);                         // all that was held back; then analysis_finish()
 *     feed_destroy(feed);
 *
 * How an event class is decoded (which member goes to which slot) is worked out once, when its first event comes;
 * an event then costs no allocation and no search.
 *
 * Thread: one at a time, the one that runs the graph.
 */
#ifndef ANALYSIS_INPUT_FEED_H
#define ANALYSIS_INPUT_FEED_H

#include <babeltrace2/babeltrace.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/analysis.h"
#include "input/inputs.h"

struct feed;

/** @analysis stays the caller's and must outlive the feed. */
struct feed *feed_create(struct analysis *analysis);
void feed_destroy(struct feed *feed);

/**
 * Tell the feed which folder a trace was read from: streams of @trace are named as the user knows them, and what was
 * cut away from it becomes events lost from there on. Before the first message; @trace must outlive the feed.
 */
void feed_expect(struct feed *feed, const struct input_trace *trace);

/** Take one batch of messages and put their references. */
void feed_messages(struct feed *feed, bt_message_array_const messages, uint64_t count);

/** Let go of the last messages: before the graph that made them goes away. */
void feed_release(struct feed *feed);

/** End of the messages: loss of streams that never appeared, traces without any stream. */
void feed_finish(struct feed *feed);

struct feed_progress {
    uint64_t event_count;
    uint64_t packet_count; /**< packets that ended */
    int64_t time_ns;       /**< of the last event */
    bool has_range;        /**< the traces that were expected say when they begin and end */
    int64_t begin_ns, end_ns;
};

struct feed_progress feed_progress(const struct feed *feed);

#endif
