#include "plugin/findings.h"

#include <glib.h>
#include <stdbool.h>
#include <string.h>

#include "input/feed.h"
#include "plugin/finding_stream.h"
#include "plugin/parameters.h"
#include "report/output.h"

struct findings_component {
    struct parameters parameters;
    int64_t preview_interval_ns; /* 0: never */
    bt_self_component_port_input *input;
};

/* One pass over the messages; another iterator, and a seek, begin a new one. */
struct pass {
    struct analysis *analysis;
    struct intake *intake;
    struct feed *feed;
    GQueue pending;              /* const bt_message, ours, to hand out */
    GHashTable *told;            /* key of a finding -> the severity that was told, plus 1 */
    const bt_clock_class *clock; /* of the first stream, a reference */
    bool has_time, begun, ended;
    int64_t first_ns, last_ns, preview_ns;
};

struct findings_iterator {
    const struct findings_component *component;
    bt_self_message_iterator *self;
    bt_message_iterator *upstream;
    struct finding_stream *stream; /* NULL: there was no finding yet */
    bool preview_failed;
    struct pass pass;
};

static bool take_own(void *data, const char *name, const char *text, char **why_out)
{
    struct findings_component *component = data;
    guint64 value;

    if (strcmp(name, "preview-interval-ns") != 0)
        return false;
    if (g_ascii_string_to_unsigned(text, 10, 0, G_MAXINT64, &value, NULL))
        component->preview_interval_ns = (int64_t)value;
    else
        *why_out = g_strdup_printf("'%s' is not a time in nanoseconds (write 1000000000, or 0 for the end only)", text);
    return true;
}

static void component_free(struct findings_component *component)
{
    parameters_clear(&component->parameters);
    g_free(component);
}

bt_component_class_initialize_method_status findings_initialize(bt_self_component_filter *self,
                                                                bt_self_component_filter_configuration *configuration,
                                                                const bt_value *values, void *data)
{
    bt_self_component *self_component = bt_self_component_filter_as_self_component(self);
    struct findings_component *component = g_new0(struct findings_component, 1);
    char *why = parameters_read(&component->parameters, values, take_own, component);
    bt_self_component_add_port_status status = BT_SELF_COMPONENT_ADD_PORT_STATUS_ERROR;

    if (!why) {
        status = bt_self_component_filter_add_input_port(self, "in", NULL, &component->input);
        if (status == BT_SELF_COMPONENT_ADD_PORT_STATUS_OK)
            status = bt_self_component_filter_add_output_port(self, "out", NULL, NULL);
        if (status != BT_SELF_COMPONENT_ADD_PORT_STATUS_OK)
            why = g_strdup("cannot add the ports");
    }
    if (!why) {
        bt_self_component_set_data(self_component, component);
        return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
    }
    BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_COMPONENT(self_component, "%s", why);
    g_free(why);
    component_free(component);
    return (bt_component_class_initialize_method_status)status; /* the values are the same by design */
}

void findings_finalize(bt_self_component_filter *self)
{
    struct findings_component *component =
        bt_self_component_get_data(bt_self_component_filter_as_self_component(self));

    if (component)
        component_free(component);
}

static void pass_begin(struct pass *pass, const struct analysis_options *options)
{
    memset(pass, 0, sizeof(*pass));
    g_queue_init(&pass->pending);
    pass->told = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    pass->analysis = analysis_create(options);
    pass->intake = intake_create(pass->analysis);
    pass->feed = feed_create(&intake_target, pass->intake);
}

static void put_message(gpointer message)
{
    bt_message_put_ref(message);
}

static void pass_clear(struct pass *pass)
{
    g_queue_clear_full(&pass->pending, put_message);
    g_hash_table_unref(pass->told);
    feed_destroy(pass->feed);
    intake_destroy(pass->intake);
    analysis_destroy(pass->analysis);
    bt_clock_class_put_ref(pass->clock);
}

bt_message_iterator_class_initialize_method_status
findings_iterator_initialize(bt_self_message_iterator *self, bt_self_message_iterator_configuration *configuration,
                             bt_self_component_port_output *port)
{
    bt_self_component *self_component = bt_self_message_iterator_borrow_component(self);
    const struct findings_component *component = bt_self_component_get_data(self_component);
    struct findings_iterator *iterator;
    bt_message_iterator *upstream;
    bt_message_iterator_create_from_message_iterator_status status;

    if (!bt_port_is_connected(
            bt_self_component_port_as_port(bt_self_component_port_input_as_self_component_port(component->input)))) {
        BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_MESSAGE_ITERATOR(self, "nothing is connected to the input port");
        return BT_MESSAGE_ITERATOR_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
    }
    status = bt_message_iterator_create_from_message_iterator(self, component->input, &upstream);
    if (status != BT_MESSAGE_ITERATOR_CREATE_FROM_MESSAGE_ITERATOR_STATUS_OK) {
        BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_MESSAGE_ITERATOR(self, "cannot iterate over what is upstream");
        return (bt_message_iterator_class_initialize_method_status)status;
    }
    bt_self_message_iterator_configuration_set_can_seek_forward(configuration,
                                                                bt_message_iterator_can_seek_forward(upstream));
    iterator = g_new0(struct findings_iterator, 1);
    iterator->component = component;
    iterator->self = self;
    iterator->upstream = upstream;
    pass_begin(&iterator->pass, &iterator->component->parameters.options);
    bt_self_message_iterator_set_data(self, iterator);
    return BT_MESSAGE_ITERATOR_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

void findings_iterator_finalize(bt_self_message_iterator *self)
{
    struct findings_iterator *iterator = bt_self_message_iterator_get_data(self);

    if (!iterator)
        return; /* the initialize method failed */
    pass_clear(&iterator->pass);
    finding_stream_destroy(iterator->stream);
    bt_message_iterator_put_ref(iterator->upstream);
    g_free(iterator);
}

static bool append(struct findings_iterator *iterator, bt_message *message)
{
    if (message)
        g_queue_push_tail(&iterator->pass.pending, message);
    return message != NULL;
}

static bool append_finding(struct findings_iterator *iterator, const json_t *finding)
{
    struct pass *pass = &iterator->pass;

    if (!iterator->stream)
        iterator->stream = finding_stream_create(bt_self_message_iterator_borrow_component(iterator->self),
                                                 pass->clock, pass->first_ns);
    if (!iterator->stream)
        return false;
    if (!pass->begun) {
        pass->begun = append(iterator, finding_stream_begin(iterator->stream, iterator->self, pass->last_ns));
        if (!pass->begun)
            return false;
    }
    return append(iterator, finding_stream_event(iterator->stream, iterator->self, finding, pass->last_ns));
}

/*
 * What makes it the same finding in a later report: the kind and the objects that it is about. Names may become known
 * meanwhile, and measures grow. @ordinal tells those apart that one report has of the same objects.
 */
static char *finding_key(const json_t *finding, unsigned ordinal)
{
    static const char *const objects[] = { "device_id", "queue_index", "loop_id",   "thread_id",
                                           "lock_id",   "handler_id",  "request_id" };
    const json_t *subject = json_object_get(finding, "subject");
    const json_t *process = json_object_get(subject, "process");
    const char *host = json_string_value(json_object_get(process, "host"));
    GString *key = g_string_new(json_string_value(json_object_get(finding, "id")));

    g_string_append_printf(key, " %u %s %" JSON_INTEGER_FORMAT, ordinal, host ? host : "",
                           json_integer_value(json_object_get(process, "pid")));
    for (unsigned i = 0; i < G_N_ELEMENTS(objects); i++) {
        const json_t *object = json_object_get(subject, objects[i]);

        if (object)
            g_string_append_printf(key, " %s=%" JSON_INTEGER_FORMAT, objects[i], json_integer_value(object));
    }
    return g_string_free(key, FALSE);
}

/* Append those findings of a report that were not told yet, or not as so severe. Returns false without memory. */
static bool append_findings(struct findings_iterator *iterator, const json_t *report)
{
    GHashTable *told = iterator->pass.told;
    GHashTable *seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL); /* in this report */
    const json_t *findings = json_object_get(report, "findings");
    bool good = true;

    for (size_t i = 0; good && i < json_array_size(findings); i++) {
        const json_t *finding = json_array_get(findings, i);
        unsigned ordinal = 0;
        char *key = finding_key(finding, ordinal);
        enum report_severity severity;

        while (g_hash_table_contains(seen, key)) {
            g_free(key);
            key = finding_key(finding, ++ordinal);
        }
        g_hash_table_add(seen, g_strdup(key));
        if (report_severity_by_name(json_string_value(json_object_get(finding, "severity")), &severity) &&
            GPOINTER_TO_UINT(g_hash_table_lookup(told, key)) < (unsigned)severity + 1) {
            good = append_finding(iterator, finding);
            g_hash_table_replace(told, key, GUINT_TO_POINTER(severity + 1));
        } else {
            g_free(key);
        }
    }
    g_hash_table_unref(seen);
    return good;
}

static bool preview(struct findings_iterator *iterator)
{
    char *why = NULL;
    json_t *report = analysis_preview(iterator->pass.analysis, &why);
    bool good = !report || append_findings(iterator, report);

    /* messages go on all the same, and at the end every finding is told */
    if (why && !iterator->preview_failed)
        g_printerr("flt.vblk.findings: %s\n", why);
    iterator->preview_failed |= why != NULL;
    g_free(why);
    json_decref(report);
    return good;
}

static bool finish(struct findings_iterator *iterator)
{
    struct pass *pass = &iterator->pass;
    json_t *report;
    bool good;

    pass->ended = true;
    feed_release(pass->feed);
    intake_finish(pass->intake);
    analysis_finish(pass->analysis, false);
    report = analysis_report(pass->analysis);
    good = append_findings(iterator, report);
    json_decref(report);
    if (good && pass->begun)
        good = append(iterator, finding_stream_end(iterator->stream, iterator->self, pass->last_ns));
    return good;
}

/* Hand a message on to the analysis and downstream. Returns false without memory. */
static bool take(struct findings_iterator *iterator, const bt_message *message)
{
    struct pass *pass = &iterator->pass;
    int64_t interval_ns = iterator->component->preview_interval_ns;
    int64_t time_ns = feed_time(message);

    if (!pass->clock && bt_message_get_type(message) == BT_MESSAGE_TYPE_STREAM_BEGINNING) {
        const bt_stream *stream = bt_message_stream_beginning_borrow_stream_const(message);

        pass->clock = bt_stream_class_borrow_default_clock_class_const(bt_stream_borrow_class_const(stream));
        if (pass->clock)
            bt_clock_class_get_ref(pass->clock);
    }
    if (time_ns != TIME_UNKNOWN) {
        pass->last_ns = pass->has_time ? MAX(pass->last_ns, time_ns) : time_ns;
        if (!pass->has_time) {
            pass->has_time = true;
            pass->first_ns = time_ns;
            pass->preview_ns = time_ns;
        }
    }
    bt_message_get_ref(message); /* the feed keeps one until the next, downstream gets the other */
    g_queue_push_tail(&pass->pending, (gpointer)message);
    feed_take(pass->feed, message, time_ns, SOURCE_UNKNOWN);
    /* a difference of unsigned numbers: none overflows */
    if (interval_ns == 0 || (uint64_t)pass->last_ns - (uint64_t)pass->preview_ns < (uint64_t)interval_ns)
        return true;
    pass->preview_ns = pass->last_ns;
    return preview(iterator);
}

/* Get more to hand out: OK with at least one pending message, or at the end; or what upstream says. */
static bt_message_iterator_next_status read_more(struct findings_iterator *iterator)
{
    bt_message_array_const messages;
    uint64_t count, i = 0;
    bt_message_iterator_next_status status = bt_message_iterator_next(iterator->upstream, &messages, &count);
    bool good = true;

    switch (status) {
    case BT_MESSAGE_ITERATOR_NEXT_STATUS_OK:
        while (good && i < count)
            good = take(iterator, messages[i++]);
        while (i < count)
            bt_message_put_ref(messages[i++]);
        break;
    case BT_MESSAGE_ITERATOR_NEXT_STATUS_END:
        good = finish(iterator);
        status = BT_MESSAGE_ITERATOR_NEXT_STATUS_OK;
        break;
    case BT_MESSAGE_ITERATOR_NEXT_STATUS_AGAIN:
        break;
    case BT_MESSAGE_ITERATOR_NEXT_STATUS_MEMORY_ERROR:
    case BT_MESSAGE_ITERATOR_NEXT_STATUS_ERROR:
        BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_MESSAGE_ITERATOR(iterator->self, "cannot go on reading");
        break;
    }
    if (good)
        return status;
    BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_MESSAGE_ITERATOR(iterator->self, "no memory for a finding");
    return BT_MESSAGE_ITERATOR_NEXT_STATUS_MEMORY_ERROR;
}

bt_message_iterator_class_next_method_status findings_next(bt_self_message_iterator *self,
                                                           bt_message_array_const messages, uint64_t capacity,
                                                           uint64_t *count_out)
{
    struct findings_iterator *iterator = bt_self_message_iterator_get_data(self);
    GQueue *pending = &iterator->pass.pending;

    while (g_queue_is_empty(pending)) {
        bt_message_iterator_next_status status;

        if (iterator->pass.ended)
            return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_END;
        status = read_more(iterator);
        if (status != BT_MESSAGE_ITERATOR_NEXT_STATUS_OK)
            return (bt_message_iterator_class_next_method_status)status; /* the values are the same by design */
    }
    for (*count_out = 0; *count_out < capacity && !g_queue_is_empty(pending); ++*count_out)
        messages[*count_out] = g_queue_pop_head(pending);
    return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_OK;
}

bt_message_iterator_class_can_seek_beginning_method_status
findings_can_seek_beginning(bt_self_message_iterator *self, bt_bool *can_out)
{
    struct findings_iterator *iterator = bt_self_message_iterator_get_data(self);

    return (bt_message_iterator_class_can_seek_beginning_method_status)bt_message_iterator_can_seek_beginning(
        iterator->upstream, can_out);
}

bt_message_iterator_class_seek_beginning_method_status findings_seek_beginning(bt_self_message_iterator *self)
{
    struct findings_iterator *iterator = bt_self_message_iterator_get_data(self);

    pass_clear(&iterator->pass);
    pass_begin(&iterator->pass, &iterator->component->parameters.options);
    return (bt_message_iterator_class_seek_beginning_method_status)bt_message_iterator_seek_beginning(
        iterator->upstream);
}
