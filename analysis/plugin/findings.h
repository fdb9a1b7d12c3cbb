/**
 * The babeltrace2 component class `flt.vblk.findings`: passes every message on as it is, and adds an event for each
 * finding (finding_stream.h), at the end or while messages still come. Methods of the component class and of its
 * message iterators.
 */
#ifndef ANALYSIS_PLUGIN_FINDINGS_H
#define ANALYSIS_PLUGIN_FINDINGS_H

#include <babeltrace2/babeltrace.h>

bt_component_class_initialize_method_status findings_initialize(bt_self_component_filter *self,
                                                                bt_self_component_filter_configuration *configuration,
                                                                const bt_value *values, void *data);
void findings_finalize(bt_self_component_filter *self);

bt_message_iterator_class_initialize_method_status
findings_iterator_initialize(bt_self_message_iterator *self, bt_self_message_iterator_configuration *configuration,
                             bt_self_component_port_output *port);
void findings_iterator_finalize(bt_self_message_iterator *self);
bt_message_iterator_class_next_method_status findings_next(bt_self_message_iterator *self,
                                                           bt_message_array_const messages, uint64_t capacity,
                                                           uint64_t *count_out);
bt_message_iterator_class_can_seek_beginning_method_status
findings_can_seek_beginning(bt_self_message_iterator *self, bt_bool *can_out);
bt_message_iterator_class_seek_beginning_method_status findings_seek_beginning(bt_self_message_iterator *self);

#endif
