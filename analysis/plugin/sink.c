#include "plugin/sink.h"

#include <glib.h>

struct sink {
    struct sink_owner owner;
    bt_message_iterator *iterator;
};

static struct sink *get_sink(bt_self_component_sink *self)
{
    return bt_self_component_get_data(bt_self_component_sink_as_self_component(self));
}

bt_component_class_initialize_method_status sink_attach(bt_self_component_sink *self,
                                                        const struct sink_owner *owner)
{
    struct sink *sink;
    bt_self_component_add_port_status status = bt_self_component_sink_add_input_port(self, "in", NULL, NULL);

    if (status != BT_SELF_COMPONENT_ADD_PORT_STATUS_OK) {
        BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_COMPONENT(bt_self_component_sink_as_self_component(self),
                                                            "cannot add the input port");
        return (bt_component_class_initialize_method_status)status;
    }
    sink = g_new0(struct sink, 1);
    sink->owner = *owner;
    bt_self_component_set_data(bt_self_component_sink_as_self_component(self), sink);
    return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

bt_component_class_sink_graph_is_configured_method_status
sink_graph_is_configured(bt_self_component_sink *self)
{
    struct sink *sink = get_sink(self);
    bt_self_component_port_input *port = bt_self_component_sink_borrow_input_port_by_index(self, 0);
    bt_message_iterator_create_from_sink_component_status status =
        bt_message_iterator_create_from_sink_component(self, port, &sink->iterator);

    if (status != BT_MESSAGE_ITERATOR_CREATE_FROM_SINK_COMPONENT_STATUS_OK)
        BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_COMPONENT(bt_self_component_sink_as_self_component(self),
                                                            "cannot iterate over what is upstream");
    return (bt_component_class_sink_graph_is_configured_method_status)status;
}

bt_component_class_sink_consume_method_status sink_consume(bt_self_component_sink *self)
{
    struct sink *sink = get_sink(self);
    bt_message_array_const messages;
    uint64_t count;
    bt_message_iterator_next_status status = bt_message_iterator_next(sink->iterator, &messages, &count);

    switch (status) {
    case BT_MESSAGE_ITERATOR_NEXT_STATUS_OK:
        feed_messages(sink->owner.feed, messages, count);
        if (sink->owner.batch)
            sink->owner.batch(sink->owner.data);
        break;
    case BT_MESSAGE_ITERATOR_NEXT_STATUS_END:
        if (sink->owner.end && !sink->owner.end(sink->owner.data, self))
            return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_ERROR;
        break;
    case BT_MESSAGE_ITERATOR_NEXT_STATUS_AGAIN:
        break;
    case BT_MESSAGE_ITERATOR_NEXT_STATUS_MEMORY_ERROR:
    case BT_MESSAGE_ITERATOR_NEXT_STATUS_ERROR:
        BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_COMPONENT(bt_self_component_sink_as_self_component(self),
                                                            "cannot go on reading");
        break;
    }
    return (bt_component_class_sink_consume_method_status)status; /* the values are the same by design */
}

void sink_finalize(bt_self_component_sink *self)
{
    struct sink *sink = get_sink(self);

    if (!sink)
        return; /* the initialize method failed */
    if (sink->owner.finalize)
        sink->owner.finalize(sink->owner.data);
    if (sink->iterator)
        bt_message_iterator_put_ref(sink->iterator);
    g_free(sink);
}
