/**
 * Which process took over a device from one that is gone: a later one on the same host, in the same recording, that has
 * a device of the same name whose front end came back. Ids start anew in it; queues and heads do not.
 */
#ifndef ANALYSIS_MODEL_SUCCESSOR_H
#define ANALYSIS_MODEL_SUCCESSOR_H

#include "model/process.h"

/**
 * The first successor of @process for @device.
 *
 * Returns: its process, NULL: none. successor_out gets its device.
 * Exact only after the last event.
 */
struct process *device_successor(const struct process *process, const struct device *device,
                                 struct device **successor_out);

#endif
