#include "plugin/finding_stream.h"

#include <glib.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S INT64_C(1000000000)

struct finding_stream {
    bt_event_class *event_class;
    bt_stream *stream;
    bool timed;
    int64_t offset_ns; /* of the clock from its origin */
};

enum field_kind { FIELD_TEXT, FIELD_SIGNED, FIELD_UNSIGNED, FIELD_JSON, FIELD_LINES };

static const struct {
    const char *name; /* also in the report */
    enum field_kind kind;
} fields[] = {
    { "id", FIELD_TEXT },           { "severity", FIELD_TEXT },   { "summary", FIELD_TEXT },
    { "cause", FIELD_TEXT },        { "begin_ns", FIELD_SIGNED }, { "end_ns", FIELD_SIGNED },
    { "count", FIELD_UNSIGNED },    { "subject", FIELD_JSON },    { "advice", FIELD_TEXT },
    { "evidence", FIELD_LINES },
};

static bt_field_class *field_class_create(bt_trace_class *trace_class, enum field_kind kind)
{
    bt_field_class *line, *lines = NULL;

    switch (kind) {
    case FIELD_SIGNED:
        return bt_field_class_integer_signed_create(trace_class);
    case FIELD_UNSIGNED:
        return bt_field_class_integer_unsigned_create(trace_class);
    case FIELD_TEXT:
    case FIELD_JSON:
        return bt_field_class_string_create(trace_class);
    case FIELD_LINES:
        line = bt_field_class_string_create(trace_class);
        if (line)
            lines = bt_field_class_array_dynamic_create(trace_class, line, NULL);
        bt_field_class_put_ref(line);
        return lines;
    }
    return NULL;
}

static bt_field_class *payload_create(bt_trace_class *trace_class)
{
    bt_field_class *payload = bt_field_class_structure_create(trace_class);
    bool good = payload != NULL;

    for (unsigned i = 0; good && i < G_N_ELEMENTS(fields); i++) {
        bt_field_class *member = field_class_create(trace_class, fields[i].kind);

        good = member && !bt_field_class_structure_append_member(payload, fields[i].name, member);
        bt_field_class_put_ref(member);
    }
    if (good)
        return payload;
    bt_field_class_put_ref(payload);
    return NULL;
}

static bool add_event_class(struct finding_stream *stream, bt_stream_class *stream_class,
                            bt_trace_class *trace_class)
{
    bt_field_class *payload = payload_create(trace_class);
    bool good = false;

    stream->event_class = bt_event_class_create(stream_class);
    if (payload && stream->event_class)
        good = !bt_event_class_set_name(stream->event_class, "vblk:finding") &&
               !bt_event_class_set_payload_field_class(stream->event_class, payload);
    bt_field_class_put_ref(payload);
    return good;
}

static bool add_clock(struct finding_stream *stream, bt_self_component *component, bt_stream_class *stream_class,
                      const bt_clock_class *like, int64_t first_ns)
{
    bt_clock_class *clock = bt_clock_class_create(component); /* 1 GHz */
    bool good = clock != NULL;

    if (good) {
        bool epoch = bt_clock_class_origin_is_unix_epoch(like);
        bt_uuid uuid = bt_clock_class_get_uuid(like);

        bt_clock_class_set_origin_is_unix_epoch(clock, epoch);
        /* clocks of an unknown origin can be compared only if they say that they are the same one */
        if (!epoch && uuid)
            bt_clock_class_set_uuid(clock, uuid);
        if (first_ns < 0) {
            int64_t seconds = first_ns / NS_PER_S - 1;

            bt_clock_class_set_offset(clock, seconds, 0);
            stream->offset_ns = seconds * NS_PER_S;
        }
        good = !bt_clock_class_set_name(clock, "findings") &&
               !bt_stream_class_set_default_clock_class(stream_class, clock);
    }
    bt_clock_class_put_ref(clock);
    return good;
}

struct finding_stream *finding_stream_create(bt_self_component *component, const bt_clock_class *like, int64_t first_ns)
{
    struct finding_stream *stream = g_new0(struct finding_stream, 1);
    bt_trace_class *trace_class = bt_trace_class_create(component);
    bt_stream_class *stream_class = trace_class ? bt_stream_class_create(trace_class) : NULL;
    bt_trace *trace = NULL;
    bool good = stream_class != NULL;

    stream->timed = like != NULL;
    if (good && like)
        good = add_clock(stream, component, stream_class, like, first_ns);
    if (good)
        good = !bt_stream_class_set_name(stream_class, "findings") &&
               add_event_class(stream, stream_class, trace_class);
    if (good)
        trace = bt_trace_create(trace_class);
    if (trace && !bt_trace_set_name(trace, "vblk-findings"))
        stream->stream = bt_stream_create(stream_class, trace);
    bt_trace_put_ref(trace);
    bt_stream_class_put_ref(stream_class);
    bt_trace_class_put_ref(trace_class);
    if (stream->stream)
        return stream;
    finding_stream_destroy(stream);
    return NULL;
}

void finding_stream_destroy(struct finding_stream *stream)
{
    if (!stream)
        return;
    bt_event_class_put_ref(stream->event_class);
    bt_stream_put_ref(stream->stream);
    g_free(stream);
}

static uint64_t cycles(const struct finding_stream *stream, int64_t time_ns)
{
    return (uint64_t)time_ns - (uint64_t)stream->offset_ns;
}

bt_message *finding_stream_begin(struct finding_stream *stream, bt_self_message_iterator *iterator, int64_t time_ns)
{
    bt_message *message = bt_message_stream_beginning_create(iterator, stream->stream);

    if (message && stream->timed)
        bt_message_stream_beginning_set_default_clock_snapshot(message, cycles(stream, time_ns));
    return message;
}

bt_message *finding_stream_end(struct finding_stream *stream, bt_self_message_iterator *iterator, int64_t time_ns)
{
    bt_message *message = bt_message_stream_end_create(iterator, stream->stream);

    if (message && stream->timed)
        bt_message_stream_end_set_default_clock_snapshot(message, cycles(stream, time_ns));
    return message;
}

/* "1700000003.000000005 rt_loop:iteration: what it shows": the time as other tools print it in seconds. */
static char *evidence_line(const json_t *entry)
{
    int64_t time_ns = json_integer_value(json_object_get(entry, "time_ns"));
    const char *event = json_string_value(json_object_get(entry, "event"));
    const char *text = json_string_value(json_object_get(entry, "text"));
    int64_t seconds = time_ns / NS_PER_S, rest = time_ns % NS_PER_S;

    return g_strdup_printf("%s%" PRId64 ".%09" PRId64 " %s: %s", time_ns < 0 ? "-" : "", ABS(seconds), ABS(rest),
                           event ? event : "", text ? text : "");
}

static bool set_lines(bt_field *field, const json_t *entries)
{
    bool good = !bt_field_array_dynamic_set_length(field, json_array_size(entries));

    for (size_t i = 0; good && i < json_array_size(entries); i++) {
        char *line = evidence_line(json_array_get(entries, i));

        good = !bt_field_string_set_value(bt_field_array_borrow_element_field_by_index(field, i), line);
        g_free(line);
    }
    return good;
}

static bool set_field(bt_field *field, enum field_kind kind, const json_t *value)
{
    const char *text = json_string_value(value);
    char *json;
    bool good = true;

    switch (kind) {
    case FIELD_TEXT:
        return !bt_field_string_set_value(field, text ? text : "");
    case FIELD_SIGNED:
        bt_field_integer_signed_set_value(field, json_integer_value(value));
        return true;
    case FIELD_UNSIGNED:
        bt_field_integer_unsigned_set_value(field, (uint64_t)json_integer_value(value));
        return true;
    case FIELD_JSON:
        json = json_dumps(value, JSON_COMPACT | JSON_PRESERVE_ORDER);
        good = json && !bt_field_string_set_value(field, json);
        free(json);
        return good;
    case FIELD_LINES:
        return set_lines(field, value);
    }
    return false;
}

bt_message *finding_stream_event(struct finding_stream *stream, bt_self_message_iterator *iterator,
                                 const json_t *finding, int64_t time_ns)
{
    bt_message *message =
        stream->timed ? bt_message_event_create_with_default_clock_snapshot(iterator, stream->event_class,
                                                                            stream->stream, cycles(stream, time_ns))
                      : bt_message_event_create(iterator, stream->event_class, stream->stream);
    bool good = message != NULL;
    bt_field *payload = good ? bt_event_borrow_payload_field(bt_message_event_borrow_event(message)) : NULL;

    for (unsigned i = 0; good && i < G_N_ELEMENTS(fields); i++)
        good = set_field(bt_field_structure_borrow_member_field_by_index(payload, i), fields[i].kind,
                         json_object_get(finding, fields[i].name));
    if (good)
        return message;
    bt_message_put_ref(message);
    return NULL;
}
