/**
 * The babeltrace2 component class `sink.vblk.report`: parameters in, report out. Its other methods are sink.h's.
 */
#ifndef ANALYSIS_PLUGIN_REPORT_H
#define ANALYSIS_PLUGIN_REPORT_H

#include <babeltrace2/babeltrace.h>

bt_component_class_initialize_method_status report_initialize(bt_self_component_sink *self,
                                                              bt_self_component_sink_configuration *configuration,
                                                              const bt_value *values, void *data);

#endif
