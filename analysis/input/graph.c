#include "input/graph.h"

#include <babeltrace2/babeltrace.h>
#include <signal.h>
#include <string.h>

#include "input/merge.h"
#include "input/port_order.h"

static bt_interrupter *volatile running; /* the one graph of the process, for the signal handler */
static volatile sig_atomic_t interrupt_requested;

void graph_interrupt(void)
{
    bt_interrupter *interrupter = running;

    interrupt_requested = 1;
    if (interrupter)
        bt_interrupter_set(interrupter);
}

bool graph_is_interrupted(void)
{
    return interrupt_requested;
}

/* The cause nearest to the fault names the file; what follows only says who was waiting for it. */
static char *take_error(const char *fallback)
{
    const bt_error *error = bt_current_thread_take_error();
    GRegex *addresses;
    char *text, *clean;

    if (!error)
        return g_strdup(fallback);
    text = g_strdup_printf("babeltrace2: %s",
                           bt_error_cause_get_message(bt_error_borrow_cause_by_index(error, 0)));
    bt_error_release(error);
    /* an address says nothing and is another one each time */
    addresses = g_regex_new(",? ?[a-z-]*addr=0x[0-9a-f]+", 0, 0, NULL);
    clean = g_regex_replace_literal(addresses, text, -1, 0, "", 0, NULL);
    g_regex_unref(addresses);
    g_free(text);
    return clean;
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

static char *add_sources(bt_graph *graph, GPtrArray *folders, struct port_order *order)
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
        for (uint64_t j = 0; !why && j < bt_component_source_get_output_port_count(source); j++)
            port_order_add(order, bt_component_source_borrow_output_port_by_index_const(source, j), i,
                           g_ptr_array_index(folders, i));
        bt_value_put_ref(params);
        g_free(name);
    }
    return why;
}

static void take_message(void *data, const bt_message *message, int64_t time_ns, const struct merge_port *port)
{
    const struct graph_job *job = data;

    if (job->place)
        job->place(job->data, time_ns, port->rank);
    feed_take(job->feed, message, time_ns, port->source);
}

static void end_batch(void *data)
{
    const struct graph_job *job = data;

    job->batch(job->data);
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
    const struct merge_taker taker = { .take = take_message, .batch = end_batch, .data = (void *)job };
    struct port_order *order = port_order_create(job->expected);
    bt_graph *graph = bt_graph_create(0);
    GArray *ports = NULL;
    char *why;

    *interrupted_out = false;
    why = graph ? add_sources(graph, folders, order) : take_error("out of memory");
    if (!why)
        ports = port_order_deal(order, job->share.index, job->share.count);
    /* without a single stream there is nothing to merge, and nothing to run */
    if (ports && ports->len > 0) {
        if (merge_add(graph, ports, &taker) < 0)
            why = take_error("cannot merge the streams");
        else
            why = run(graph, interrupted_out);
    }
    feed_release(job->feed);
    bt_graph_put_ref(graph);
    if (ports)
        g_array_unref(ports);
    port_order_destroy(order);
    return why;
}
