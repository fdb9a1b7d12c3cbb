#include "input/graph.h"

#include <babeltrace2/babeltrace.h>
#include <signal.h>
#include <string.h>

#include "input/sink.h"

static bt_interrupter *volatile running; /* the one graph of the process, for the signal handler */
static volatile sig_atomic_t interrupt_requested;

void graph_interrupt(void)
{
    bt_interrupter *interrupter = running;

    interrupt_requested = 1;
    if (interrupter)
        bt_interrupter_set(interrupter);
}

/* The cause nearest to the fault names the file; what follows only says who was waiting for it. */
static char *take_error(const char *fallback)
{
    const bt_error *error = bt_current_thread_take_error();
    char *text;

    if (!error)
        return g_strdup(fallback);
    text = g_strdup_printf("babeltrace2: %s",
                           bt_error_cause_get_message(bt_error_borrow_cause_by_index(error, 0)));
    bt_error_release(error);
    return text;
}

static bt_component_class_initialize_method_status
initialize_sink(bt_self_component_sink *self, bt_self_component_sink_configuration *config,
                const bt_value *params, void *data)
{
    const struct graph_job *job = data;
    const struct sink_owner owner = { .feed = job->feed, .batch = job->batch, .data = job->data };

    return sink_attach(self, &owner);
}

static char *add_sink(bt_graph *graph, const struct graph_job *job, const bt_component_sink **sink_out)
{
    bt_component_class_sink *sink_class = bt_component_class_sink_create("report", sink_consume);
    char *why = NULL;

    if (!sink_class)
        return take_error("out of memory");
    if (bt_component_class_sink_set_initialize_method(sink_class, initialize_sink) ||
        bt_component_class_sink_set_graph_is_configured_method(sink_class, sink_graph_is_configured) ||
        bt_component_class_sink_set_finalize_method(sink_class, sink_finalize) ||
        bt_graph_add_sink_component_with_initialize_method_data(graph, sink_class, "report", NULL,
                                                                (void *)job, BT_LOGGING_LEVEL_NONE, sink_out))
        why = take_error("cannot make the sink component");
    bt_component_class_sink_put_ref(sink_class); /* the graph keeps its own */
    return why;
}

/* Found once and kept loaded to the process's end: a leak checker cannot name the code of a plugin that is gone. */
static const bt_plugin *find_plugin(const char *name, const bt_plugin **kept, char **why_out)
{
    if (!*kept && bt_plugin_find(name, BT_TRUE, BT_TRUE, BT_TRUE, BT_TRUE, BT_FALSE, kept) !=
                      BT_PLUGIN_FIND_STATUS_OK) {
        bt_current_thread_clear_error();
        *why_out = g_strdup_printf(
            "babeltrace2's plugin '%s' was not found (install the package babeltrace2)", name);
    }
    return *kept;
}

static char *add_muxer(bt_graph *graph, const bt_component_filter **muxer_out)
{
    static const bt_plugin *utils;
    char *why = NULL;
    const bt_plugin *plugin = find_plugin("utils", &utils, &why);

    if (why)
        return why;
    if (bt_graph_add_filter_component(graph,
                                      bt_plugin_borrow_filter_component_class_by_name_const(plugin, "muxer"),
                                      "muxer", NULL, BT_LOGGING_LEVEL_NONE, muxer_out))
        why = take_error("cannot make the muxer");
    return why;
}

static char *connect_source(bt_graph *graph, const bt_component_source *source,
                            const bt_component_filter *muxer)
{
    for (uint64_t i = 0; i < bt_component_source_get_output_port_count(source); i++) {
        /* the muxer makes a new input port whenever its last one is taken */
        uint64_t last = bt_component_filter_get_input_port_count(muxer) - 1;

        if (bt_graph_connect_ports(graph, bt_component_source_borrow_output_port_by_index_const(source, i),
                                   bt_component_filter_borrow_input_port_by_index_const(muxer, last), NULL))
            return take_error("cannot connect a stream");
    }
    return NULL;
}

static bt_value *make_parameters(char *const *folders)
{
    bt_value *params = bt_value_map_create(), *inputs = NULL;

    /* "force": reports are in nanoseconds since the epoch, and traces whose clocks have different UUIDs can be merged;
     * the analysis is told the UUIDs and judges whether that means anything. */
    if (params && !bt_value_map_insert_empty_array_entry(params, "inputs", &inputs) &&
        !bt_value_map_insert_bool_entry(params, "force-clock-class-origin-unix-epoch", BT_TRUE)) {
        bool good = true;

        for (; *folders && good; folders++)
            good = !bt_value_array_append_string_element(inputs, *folders);
        if (good)
            return params;
    }
    bt_value_put_ref(params);
    return NULL;
}

static char *add_sources(bt_graph *graph, GPtrArray *folders, const bt_component_filter *muxer)
{
    static const bt_plugin *ctf;
    char *why = NULL;
    const bt_plugin *plugin = find_plugin("ctf", &ctf, &why);

    for (unsigned i = 0; i < folders->len && !why; i++) {
        bt_value *params = make_parameters(g_ptr_array_index(folders, i));
        const bt_component_source *source = NULL;
        char *name = g_strdup_printf("trace%u", i);

        if (!params || bt_graph_add_source_component(
                           graph, bt_plugin_borrow_source_component_class_by_name_const(plugin, "fs"), name,
                           params, BT_LOGGING_LEVEL_NONE, &source))
            why = take_error("cannot open the trace");
        else
            why = connect_source(graph, source, muxer);
        bt_value_put_ref(params);
        g_free(name);
    }
    return why;
}

static char *run(bt_graph *graph, bool *interrupted_out)
{
    bt_interrupter *interrupter = bt_graph_borrow_default_interrupter(graph);
    bt_graph_run_status status;

    running = interrupter;
    if (interrupt_requested)
        bt_interrupter_set(interrupter);
    do
        status = bt_graph_run(graph);
    while (status == BT_GRAPH_RUN_STATUS_AGAIN && !bt_interrupter_is_set(interrupter));
    running = NULL;
    *interrupted_out = status == BT_GRAPH_RUN_STATUS_AGAIN;
    if (status == BT_GRAPH_RUN_STATUS_OK || status == BT_GRAPH_RUN_STATUS_AGAIN)
        return NULL;
    return take_error("out of memory");
}

char *graph_run(GPtrArray *folders, const struct graph_job *job, bool *interrupted_out)
{
    bt_graph *graph = bt_graph_create(0);
    const bt_component_filter *muxer = NULL;
    const bt_component_sink *sink = NULL;
    char *why;

    *interrupted_out = false;
    if (!graph)
        return take_error("out of memory");
    why = add_muxer(graph, &muxer);
    if (!why)
        why = add_sources(graph, folders, muxer);
    /* without a single stream there is nothing to merge, and nothing to run */
    if (!why && bt_component_filter_get_input_port_count(muxer) > 1) {
        why = add_sink(graph, job, &sink);
        if (!why &&
            bt_graph_connect_ports(graph, bt_component_filter_borrow_output_port_by_index_const(muxer, 0),
                                   bt_component_sink_borrow_input_port_by_index_const(sink, 0), NULL))
            why = take_error("cannot connect the sink");
        if (!why)
            why = run(graph, interrupted_out);
    }
    feed_release(job->feed);
    bt_graph_put_ref(graph);
    return why;
}
