/**
 * The methods of a babeltrace2 sink component that feeds an analysis.
 *
 *     BT_PLUGIN_SINK_COMPONENT_CLASS(report, sink_consume)      // with sink_graph_is_configured, sink_finalize
 *     initialize method: sink_attach(self_component, &owner);
 */
#ifndef ANALYSIS_PLUGIN_SINK_H
#define ANALYSIS_PLUGIN_SINK_H

#include <babeltrace2/babeltrace.h>

#include "input/feed.h"

/** Who made the sink. Copied by sink_attach(). */
struct sink_owner {
    struct feed *feed;
    void *data;
    /** After each batch of messages; may be NULL. */
    void (*batch)(void *data);
    /**
     * All messages were taken. Returns false for a failure that ends the graph (with an error cause); may be NULL.
     */
    bool (*end)(void *data, bt_self_component_sink *self);
    /** The component goes away, after end() or without; frees what the owner made for it; may be NULL. */
    void (*finalize)(void *data);
};

/** Give a new component its input port `in` and its owner. */
bt_component_class_initialize_method_status sink_attach(bt_self_component_sink *self,
                                                        const struct sink_owner *owner);

/** Methods of the component class. */
bt_component_class_sink_graph_is_configured_method_status
sink_graph_is_configured(bt_self_component_sink *self);
bt_component_class_sink_consume_method_status sink_consume(bt_self_component_sink *self);
void sink_finalize(bt_self_component_sink *self);

#endif
