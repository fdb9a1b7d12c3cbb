/* Registration of the babeltrace2 component class `sink.vblk.report`: parameters in, report out. What it does with
 * messages is the program's own code (input/feed.h). */
#include <babeltrace2/babeltrace.h>
#include <glib.h>
#include <string.h>

#include "analyze/limits.h"
#include "core/analysis.h"
#include "plugin/sink.h"
#include "report/output.h"

struct report_component {
    struct analysis_options options;
    char **checks;
    enum report_format format;
    char *output; /* NULL: standard output */
    struct analysis *analysis;
    struct intake *intake;
    struct feed *feed;
    bool started, written;
};

static void component_free(struct report_component *component)
{
    feed_destroy(component->feed);
    intake_destroy(component->intake);
    analysis_destroy(component->analysis);
    g_strfreev(component->checks);
    g_free(component->output);
    g_free(component);
}

/* NULL, or the error. */
static char *write_report(struct report_component *component, bool interrupted)
{
    json_t *report;
    char *why;

    feed_release(component->feed);
    intake_finish(component->intake);
    analysis_finish(component->analysis, interrupted);
    report = analysis_report(component->analysis);
    why = report_write(report, component->format, component->output);
    json_decref(report);
    component->written = true;
    return why;
}

static void on_batch(void *data)
{
    struct report_component *component = data;

    component->started = true;
}

static bool on_end(void *data, bt_self_component_sink *self)
{
    char *why = write_report(data, false);

    if (!why)
        return true;
    BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_COMPONENT(bt_self_component_sink_as_self_component(self), "%s",
                                                        why);
    g_free(why);
    return false;
}

static void on_finalize(void *data)
{
    struct report_component *component = data;

    /* The graph was interrupted, or another component failed: what was read so far is judged. */
    if (component->started && !component->written) {
        char *why = write_report(component, true);

        if (why)
            g_printerr("sink.vblk.report: %s\n", why);
        g_free(why);
    }
    component_free(component);
}

static char *take_checks(struct report_component *component, const char *text)
{
    component->checks = g_strsplit(text, ",", -1);
    for (char **id = component->checks; *id; id++)
        if (!g_strv_contains(analysis_check_ids(), *id))
            return g_strdup_printf("there is no check '%s'", *id);
    component->options.checks = (const char *const *)component->checks;
    return NULL;
}

struct parameter_walk {
    struct report_component *component;
    char *why;
};

static bt_value_map_foreach_entry_const_func_status take_parameter(const char *name, const bt_value *value,
                                                                   void *data)
{
    struct parameter_walk *walk = data;
    struct report_component *component = walk->component;
    char *why = NULL, *text;

    if (bt_value_is_string(value))
        text = g_strdup(bt_value_string_get(value));
    else if (bt_value_is_signed_integer(value))
        text = g_strdup_printf("%" G_GINT64_FORMAT, bt_value_integer_signed_get(value));
    else if (bt_value_is_unsigned_integer(value))
        text = g_strdup_printf("%" G_GUINT64_FORMAT, bt_value_integer_unsigned_get(value));
    else
        text = NULL;
    if (!text)
        why = g_strdup("neither text nor a number");
    else if (strcmp(name, "format") == 0 && !report_format_by_name(text, &component->format))
        why = g_strdup_printf("there is no format '%s' (there are: text, json, html)", text);
    else if (strcmp(name, "output") == 0)
        component->output = g_strdup(text);
    else if (strcmp(name, "checks") == 0)
        why = take_checks(component, text);
    else if (strcmp(name, "format") != 0)
        why = limits_set(&component->options, name, text);
    if (why)
        walk->why = g_strdup_printf("parameter %s: %s", name, why);
    g_free(why);
    g_free(text);
    return walk->why ? BT_VALUE_MAP_FOREACH_ENTRY_CONST_FUNC_STATUS_INTERRUPT
                     : BT_VALUE_MAP_FOREACH_ENTRY_CONST_FUNC_STATUS_OK;
}

static bt_component_class_initialize_method_status
initialize(bt_self_component_sink *self, bt_self_component_sink_configuration *configuration,
           const bt_value *params, void *data)
{
    struct report_component *component = g_new0(struct report_component, 1);
    struct parameter_walk walk = { .component = component };
    struct sink_owner owner = {
        .data = component, .batch = on_batch, .end = on_end, .finalize = on_finalize
    };
    bt_component_class_initialize_method_status status;

    analysis_options_init(&component->options);
    if (bt_value_map_foreach_entry_const(params, take_parameter, &walk) < 0 && !walk.why)
        walk.why = g_strdup("out of memory");
    if (walk.why) {
        BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_COMPONENT(bt_self_component_sink_as_self_component(self),
                                                            "%s", walk.why);
        g_free(walk.why);
        component_free(component);
        return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
    }
    component->options.series = component->format == REPORT_HTML; /* its plots */
    component->analysis = analysis_create(&component->options);
    component->intake = intake_create(component->analysis);
    component->feed = feed_create(&intake_target, component->intake);
    owner.feed = component->feed;
    status = sink_attach(self, &owner);
    if (status != BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK)
        component_free(component);
    return status;
}

BT_PLUGIN_MODULE();
BT_PLUGIN(vblk);
BT_PLUGIN_DESCRIPTION("Verdicts on recordings of a virtio-blk device");
BT_PLUGIN_AUTHOR("The vblkscope developers");
BT_PLUGIN_LICENSE("MIT");
BT_PLUGIN_SINK_COMPONENT_CLASS(report, sink_consume);
BT_PLUGIN_SINK_COMPONENT_CLASS_DESCRIPTION(report, "Say what is wrong in a recording of vblkd.");
BT_PLUGIN_SINK_COMPONENT_CLASS_HELP(report, "See babeltrace2-sink.vblk.report(7).");
BT_PLUGIN_SINK_COMPONENT_CLASS_INITIALIZE_METHOD(report, initialize);
BT_PLUGIN_SINK_COMPONENT_CLASS_GRAPH_IS_CONFIGURED_METHOD(report, sink_graph_is_configured);
BT_PLUGIN_SINK_COMPONENT_CLASS_FINALIZE_METHOD(report, sink_finalize);
