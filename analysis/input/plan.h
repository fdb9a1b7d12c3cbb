/**
 * How to decode one event class of one trace: which member of which field goes to which slot of struct event.
 */
#ifndef ANALYSIS_INPUT_PLAN_H
#define ANALYSIS_INPUT_PLAN_H

#include <babeltrace2/babeltrace.h>

#include "events/event.h"

struct plan;

/** Never NULL. An event of no known dialect gets a plan too, which says so. */
struct plan *plan_create(const bt_event_class *event_class);
void plan_destroy(struct plan *plan);

/** -1: of no known dialect. */
int plan_event_id(const struct plan *plan);

/**
 * Fill the event's id, context and fields, not its time and stream. Only for a plan with an event id.
 * Strings point into @event, the message must outlive their use.
 */
void plan_decode(const struct plan *plan, struct event *event_out, const bt_event *event);

#endif
