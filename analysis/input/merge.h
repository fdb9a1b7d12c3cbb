/**
 * The babeltrace2 sink component that merges streams: one input port for each, and each message handed on in the order
 * of (time, rank of its port, place in its stream). That order depends on the trace alone, so that streams which are
 * merged in several places and then once more come out as if they had been merged in one. A message that steps back in
 * its stream counts as of the last one's time, one without a time as well.
 *
 * In place of filter.utils.muxer, whose order of equal times depends on what else is in the graph.
 */
#ifndef ANALYSIS_INPUT_MERGE_H
#define ANALYSIS_INPUT_MERGE_H

#include <babeltrace2/babeltrace.h>
#include <glib.h>

/** An output port of a source. */
struct merge_port {
    const bt_port_output *port;
    unsigned source; /**< index of its component */
    unsigned rank;   /**< unique among all ports of all processes that take part */
};

struct merge_taker {
    /** Takes the reference of @message. @time_ns: TIME_UNKNOWN if nothing in its stream has had one. */
    void (*take)(void *data, const bt_message *message, int64_t time_ns, const struct merge_port *port);
    void (*batch)(void *data); /**< after some messages */
    void *data;
};

/**
 * Add the sink to the graph and connect @ports (struct merge_port, at least one) to it.
 *
 * Returns:   0, or -1 with an error of the current thread. @ports and @taker must outlive the graph.
 */
int merge_add(bt_graph *graph, const GArray *ports, const struct merge_taker *taker);

#endif
