/* What it does with messages is the program's own code (input/feed.h). */
#include "plugin/report.h"

#include <glib.h>
#include <string.h>

#include "plugin/parameters.h"
#include "plugin/sink.h"
#include "report/output.h"

struct report_component {
    struct parameters parameters;
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
    parameters_clear(&component->parameters);
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

static bool take_own(void *data, const char *name, const char *text, char **why_out)
{
    struct report_component *component = data;

    if (strcmp(name, "format") == 0) {
        if (!report_format_by_name(text, &component->format))
            *why_out = g_strdup_printf("there is no format '%s' (there are: text, json, html)", text);
        return true;
    }
    if (strcmp(name, "output") == 0) {
        component->output = g_strdup(text);
        return true;
    }
    return false;
}

bt_component_class_initialize_method_status report_initialize(bt_self_component_sink *self,
                                                              bt_self_component_sink_configuration *configuration,
                                                              const bt_value *values, void *data)
{
    struct report_component *component = g_new0(struct report_component, 1);
    struct sink_owner owner = {
        .data = component, .batch = on_batch, .end = on_end, .finalize = on_finalize
    };
    bt_component_class_initialize_method_status status;
    char *why = parameters_read(&component->parameters, values, take_own, component);

    if (why) {
        BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_COMPONENT(bt_self_component_sink_as_self_component(self),
                                                            "%s", why);
        g_free(why);
        component_free(component);
        return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
    }
    component->parameters.options.series = component->format == REPORT_HTML; /* its plots */
    component->analysis = analysis_create(&component->parameters.options);
    component->intake = intake_create(component->analysis);
    component->feed = feed_create(&intake_target, component->intake);
    owner.feed = component->feed;
    status = sink_attach(self, &owner);
    if (status != BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK)
        component_free(component);
    return status;
}
