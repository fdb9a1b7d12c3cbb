/**
 * The order of the streams of all traces, which breaks ties of time, and how they are dealt out to several processes.
 * Both depend on the traces alone, so that every process finds the same.
 *
 *     struct port_order *order = port_order_create(expected);
 *     port_order_add(order, port, source_index, folders_of_source);      // every output port of every source
 *     GArray *mine = port_order_deal(order, 0, 2);                       // struct merge_port, by rank
 */
#ifndef ANALYSIS_INPUT_PORT_ORDER_H
#define ANALYSIS_INPUT_PORT_ORDER_H

#include <babeltrace2/babeltrace.h>
#include <glib.h>

#include "input/merge.h"

struct port_order;

/** @expected: struct input_trace, whose streams' sizes say what a port weighs; NULL: all weigh the same. */
struct port_order *port_order_create(const GPtrArray *expected);
void port_order_destroy(struct port_order *order);

/** @folders: NULL-terminated, what the source reads. */
void port_order_add(struct port_order *order, const bt_port_output *port, unsigned source,
                    char *const *folders);

/** The ports of part @index of @count; parts weigh as alike as can be. The caller frees it. */
GArray *port_order_deal(struct port_order *order, unsigned index, unsigned count);

#endif
