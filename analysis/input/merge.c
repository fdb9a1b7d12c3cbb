#include "input/merge.h"

#include <stdbool.h>

#include "input/feed.h"

/* Messages between two looks at whether the graph is interrupted. */
#define MESSAGES_PER_CONSUME 512

struct input {
    const struct merge_port *port;
    bt_message_iterator *iterator;
    bt_message_array_const messages; /* the iterator's, until it is asked for more */
    uint64_t count, next;
    int64_t time_ns; /* of the message in hand */
};

struct merge {
    const struct merge_taker *taker;
    struct input *inputs;
    unsigned input_count;
    struct input **heap; /* those with a message in hand, the first one on top */
    unsigned heap_count;
    unsigned asked; /* inputs[0 .. asked) have been asked for their first messages */
    struct input *empty; /* was on top and has no message in hand */
};

struct merge_setup {
    const GArray *ports;
    const struct merge_taker *taker;
};

static bool comes_before(const struct input *a, const struct input *b)
{
    return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->port->rank < b->port->rank);
}

static void sink_down(struct merge *merge, unsigned at)
{
    struct input *moving = merge->heap[at];

    for (;;) {
        unsigned child = 2 * at + 1;

        if (child >= merge->heap_count)
            break;
        if (child + 1 < merge->heap_count && comes_before(merge->heap[child + 1], merge->heap[child]))
            child++;
        if (!comes_before(merge->heap[child], moving))
            break;
        merge->heap[at] = merge->heap[child];
        at = child;
    }
    merge->heap[at] = moving;
}

static void push(struct merge *merge, struct input *input)
{
    unsigned at = merge->heap_count++;

    for (; at > 0 && comes_before(input, merge->heap[(at - 1) / 2]); at = (at - 1) / 2)
        merge->heap[at] = merge->heap[(at - 1) / 2];
    merge->heap[at] = input;
}

static void look_at_next(struct input *input)
{
    input->time_ns = MAX(input->time_ns, feed_time(input->messages[input->next]));
}

static bt_message_iterator_next_status refill(struct input *input)
{
    bt_message_iterator_next_status status =
        bt_message_iterator_next(input->iterator, &input->messages, &input->count);

    input->next = 0;
    if (status != BT_MESSAGE_ITERATOR_NEXT_STATUS_OK)
        input->count = 0;
    else
        look_at_next(input);
    return status;
}

static struct merge *get_merge(bt_self_component_sink *self)
{
    return bt_self_component_get_data(bt_self_component_sink_as_self_component(self));
}

static bt_component_class_initialize_method_status
initialize(bt_self_component_sink *self, bt_self_component_sink_configuration *configuration,
           const bt_value *params, void *data)
{
    const struct merge_setup *setup = data;
    struct merge *merge;

    for (unsigned i = 0; i < setup->ports->len; i++) {
        char *name = g_strdup_printf("in%u", i);
        bt_self_component_add_port_status status =
            bt_self_component_sink_add_input_port(self, name, NULL, NULL);

        g_free(name);
        if (status != BT_SELF_COMPONENT_ADD_PORT_STATUS_OK)
            return (bt_component_class_initialize_method_status)status;
    }
    merge = g_new0(struct merge, 1);
    merge->taker = setup->taker;
    merge->input_count = setup->ports->len;
    merge->inputs = g_new0(struct input, merge->input_count);
    merge->heap = g_new0(struct input *, merge->input_count);
    for (unsigned i = 0; i < merge->input_count; i++) {
        merge->inputs[i].port = &g_array_index(setup->ports, struct merge_port, i);
        merge->inputs[i].time_ns = TIME_UNKNOWN;
    }
    bt_self_component_set_data(bt_self_component_sink_as_self_component(self), merge);
    return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

static bt_component_class_sink_graph_is_configured_method_status
graph_is_configured(bt_self_component_sink *self)
{
    struct merge *merge = get_merge(self);

    for (unsigned i = 0; i < merge->input_count; i++) {
        bt_message_iterator_create_from_sink_component_status status =
            bt_message_iterator_create_from_sink_component(
                self, bt_self_component_sink_borrow_input_port_by_index(self, i), &merge->inputs[i].iterator);

        if (status != BT_MESSAGE_ITERATOR_CREATE_FROM_SINK_COMPONENT_STATUS_OK)
            return (bt_component_class_sink_graph_is_configured_method_status)status;
    }
    return BT_COMPONENT_CLASS_SINK_GRAPH_IS_CONFIGURED_METHOD_STATUS_OK;
}

/* Nothing can be merged before each stream has a message in hand or has ended. */
static bt_message_iterator_next_status fill(struct merge *merge)
{
    bt_message_iterator_next_status status = BT_MESSAGE_ITERATOR_NEXT_STATUS_OK;

    while (merge->empty || merge->asked < merge->input_count) {
        struct input *input = merge->empty ? merge->empty : &merge->inputs[merge->asked];

        status = refill(input);
        if (status == BT_MESSAGE_ITERATOR_NEXT_STATUS_OK)
            push(merge, input);
        else if (status != BT_MESSAGE_ITERATOR_NEXT_STATUS_END)
            return status;
        if (!merge->empty)
            merge->asked++;
        merge->empty = NULL;
    }
    return merge->heap_count > 0 ? BT_MESSAGE_ITERATOR_NEXT_STATUS_OK : BT_MESSAGE_ITERATOR_NEXT_STATUS_END;
}

static bt_component_class_sink_consume_method_status consume(bt_self_component_sink *self)
{
    struct merge *merge = get_merge(self);
    bt_message_iterator_next_status status = fill(merge);

    for (unsigned i = 0; i < MESSAGES_PER_CONSUME && status == BT_MESSAGE_ITERATOR_NEXT_STATUS_OK; i++) {
        struct input *top = merge->heap[0];

        merge->taker->take(merge->taker->data, top->messages[top->next++], top->time_ns, top->port);
        if (G_LIKELY(top->next < top->count)) {
            look_at_next(top);
        } else {
            status = refill(top);
            if (G_UNLIKELY(status != BT_MESSAGE_ITERATOR_NEXT_STATUS_OK)) {
                merge->heap[0] = merge->heap[--merge->heap_count];
                if (status == BT_MESSAGE_ITERATOR_NEXT_STATUS_AGAIN)
                    merge->empty = top;
                else if (status == BT_MESSAGE_ITERATOR_NEXT_STATUS_END && merge->heap_count > 0)
                    status = BT_MESSAGE_ITERATOR_NEXT_STATUS_OK;
            }
        }
        if (merge->heap_count > 0)
            sink_down(merge, 0);
    }
    merge->taker->batch(merge->taker->data);
    return (bt_component_class_sink_consume_method_status)status; /* the values are the same by design */
}

static void finalize(bt_self_component_sink *self)
{
    struct merge *merge = get_merge(self);

    if (!merge)
        return; /* the initialize method failed */
    for (unsigned i = 0; i < merge->input_count; i++) {
        struct input *input = &merge->inputs[i];

        for (; input->next < input->count; input->next++)
            bt_message_put_ref(input->messages[input->next]);
        if (input->iterator)
            bt_message_iterator_put_ref(input->iterator);
    }
    g_free(merge->inputs);
    g_free(merge->heap);
    g_free(merge);
}

static int add_component(bt_graph *graph, const struct merge_setup *setup, const bt_component_sink **sink_out)
{
    bt_component_class_sink *sink_class = bt_component_class_sink_create("merge", consume);
    int result = -1;

    if (!sink_class)
        return -1;
    if (!bt_component_class_sink_set_initialize_method(sink_class, initialize) &&
        !bt_component_class_sink_set_graph_is_configured_method(sink_class, graph_is_configured) &&
        !bt_component_class_sink_set_finalize_method(sink_class, finalize) &&
        !bt_graph_add_sink_component_with_initialize_method_data(
            graph, sink_class, "merge", NULL, (void *)setup, BT_LOGGING_LEVEL_NONE, sink_out))
        result = 0;
    bt_component_class_sink_put_ref(sink_class); /* the graph keeps its own */
    return result;
}

int merge_add(bt_graph *graph, const GArray *ports, const struct merge_taker *taker)
{
    const struct merge_setup setup = { .ports = ports, .taker = taker };
    const bt_component_sink *sink = NULL;

    if (add_component(graph, &setup, &sink) < 0)
        return -1;
    for (unsigned i = 0; i < ports->len; i++)
        if (bt_graph_connect_ports(graph, g_array_index(ports, struct merge_port, i).port,
                                   bt_component_sink_borrow_input_port_by_index_const(sink, i), NULL))
            return -1;
    return 0;
}
