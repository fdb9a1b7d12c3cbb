#include "input/wire.h"

#include <glib.h>
#include <string.h>

/* A string in an event is cut there, so that a record always fits the ring. */
#define TEXT_BYTES_MAX (48u << 10)

enum kind {
    KIND_TRACE,
    KIND_STREAM,
    KIND_EVENT,
    KIND_UNKNOWN_EVENT,
    KIND_LOSS,
    KIND_TIME,
    KIND_RANGE,
    KIND_PACKET_END,
    KIND_CUT_TOLD,
    KIND_END
};

struct header {
    uint32_t size_bytes;
    uint32_t kind;
    int64_t time_ns;
    uint32_t rank;
    uint32_t index; /* of a trace or stream: the writer's */
};

struct trace_record {
    struct header header;
    struct trace_identity identity;
    struct analysis_trace description; /* its strings follow */
};

struct stream_record {
    struct header header;
    struct analysis_stream description; /* its path follows */
};

struct numbers_record {
    struct header header;
    int64_t kind, begin_ns, end_ns;
};

struct part_record {
    struct header header;
    const struct input_stream *part; /* both processes have it at the same address */
};

struct event_record {
    struct header header;
    struct event event; /* as many fields as its class has; strings follow and are known by their offset */
};

#define EVENT_BYTES(field_count) (offsetof(struct event_record, event.fields) + (field_count) * sizeof(union event_slot))

/* Writing */

static void *reserve(struct wire_writer *writer, enum kind kind, size_t size_bytes, unsigned index)
{
    struct header *header = ring_reserve(writer->ring, size_bytes);

    *header = (struct header){ .size_bytes = (uint32_t)size_bytes,
                               .kind = kind,
                               .time_ns = writer->time_ns,
                               .rank = writer->rank,
                               .index = index };
    return header;
}

static size_t text_bytes(const char *text)
{
    return text ? MIN(strlen(text), TEXT_BYTES_MAX - 1) + 1 : 0;
}

/* Copy to @at; returns what follows. */
static char *put_text(char *at, const char *text)
{
    size_t size_bytes = text_bytes(text);

    if (size_bytes == 0)
        return at;
    memcpy(at, text, size_bytes - 1);
    at[size_bytes - 1] = '\0';
    return at + size_bytes;
}

static unsigned write_trace(void *data, const struct trace_identity *identity,
                            const struct analysis_trace *description)
{
    struct wire_writer *writer = data;
    const char *texts[] = { description->path, description->hostname, description->procname,
                            description->clock_uuid };
    size_t size_bytes = sizeof(struct trace_record);
    struct trace_record *record;
    char *at;

    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++)
        size_bytes += text_bytes(texts[i]);
    record = reserve(writer, KIND_TRACE, size_bytes, writer->trace_count);
    record->identity = *identity;
    record->description = *description; /* the pointers only tell which strings there are */
    at = (char *)(record + 1);
    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++)
        at = put_text(at, texts[i]);
    ring_commit(writer->ring);
    return writer->trace_count++;
}

static unsigned write_stream(void *data, unsigned trace, const struct analysis_stream *description)
{
    struct wire_writer *writer = data;
    struct stream_record *record = reserve(
        writer, KIND_STREAM, sizeof(struct stream_record) + text_bytes(description->path), trace);

    record->description = *description;
    (void)put_text((char *)(record + 1), description->path);
    ring_commit(writer->ring);
    return writer->stream_count++;
}

static void write_event(void *data, struct event *event)
{
    struct wire_writer *writer = data;
    const struct event_class *known = &event_classes[event->id];
    size_t fixed_bytes = EVENT_BYTES(known->field_count), size_bytes = fixed_bytes;
    struct event_record *record;
    char *at;

    for (unsigned i = 0; i < known->field_count; i++)
        if (known->fields[i].kind == FIELD_STRING)
            size_bytes += text_bytes(event->fields.slots[i].s ? event->fields.slots[i].s : "");
    record = reserve(writer, KIND_EVENT, size_bytes, event->stream);
    memcpy(&record->event, event, fixed_bytes - offsetof(struct event_record, event));
    at = (char *)record + fixed_bytes;
    for (unsigned i = 0; size_bytes > fixed_bytes && i < known->field_count; i++)
        if (known->fields[i].kind == FIELD_STRING) {
            record->event.fields.slots[i].u = at - (char *)record;
            at = put_text(at, event->fields.slots[i].s ? event->fields.slots[i].s : "");
        }
    ring_commit(writer->ring);
}

static void write_numbers(struct wire_writer *writer, enum kind kind, unsigned index,
                          const struct numbers_record *values)
{
    struct numbers_record *record = reserve(writer, kind, sizeof(*record), index);

    record->kind = values->kind;
    record->begin_ns = values->begin_ns;
    record->end_ns = values->end_ns;
    ring_commit(writer->ring);
}

static void write_unknown_event(void *data, unsigned stream, int64_t time_ns)
{
    write_numbers(data, KIND_UNKNOWN_EVENT, stream, &(struct numbers_record){ .begin_ns = time_ns });
}

static void write_loss(void *data, unsigned stream, enum analysis_loss kind, int64_t begin_ns, int64_t end_ns)
{
    write_numbers(data, KIND_LOSS, stream,
                  &(struct numbers_record){ .kind = kind, .begin_ns = begin_ns, .end_ns = end_ns });
}

static void write_time(void *data, int64_t time_ns)
{
    write_numbers(data, KIND_TIME, 0, &(struct numbers_record){ .begin_ns = time_ns });
}

static void write_range(void *data, int64_t begin_ns, int64_t end_ns)
{
    write_numbers(data, KIND_RANGE, 0, &(struct numbers_record){ .begin_ns = begin_ns, .end_ns = end_ns });
}

static void write_packet_end(void *data)
{
    struct wire_writer *writer = data;

    (void)reserve(writer, KIND_PACKET_END, sizeof(struct header), 0);
    ring_commit(writer->ring);
}

static void write_cut_told(void *data, const struct input_stream *part)
{
    struct wire_writer *writer = data;
    struct part_record *record = reserve(writer, KIND_CUT_TOLD, sizeof(*record), 0);

    record->part = part;
    ring_commit(writer->ring);
}

const struct feed_target wire_target = {
    .add_trace = write_trace,
    .add_stream = write_stream,
    .event = write_event,
    .unknown_event = write_unknown_event,
    .loss = write_loss,
    .time = write_time,
    .range = write_range,
    .packet_end = write_packet_end,
    .cut_told = write_cut_told,
};

void wire_end(struct wire_writer *writer, const char *failure)
{
    struct header *header = reserve(writer, KIND_END, sizeof(*header) + text_bytes(failure), 0);

    (void)put_text((char *)(header + 1), failure);
    ring_commit(writer->ring);
    ring_flush(writer->ring);
}

/* Reading */

void wire_reader_init(struct wire_reader *reader, struct ring *ring)
{
    reader->ring = ring;
    reader->traces = g_array_new(FALSE, FALSE, sizeof(unsigned));
    reader->streams = g_array_new(FALSE, FALSE, sizeof(unsigned));
}

void wire_reader_clear(struct wire_reader *reader)
{
    g_array_unref(reader->traces);
    g_array_unref(reader->streams);
}

struct wire_place wire_place(const void *record)
{
    const struct header *header = record;

    return (struct wire_place){ .time_ns = header->time_ns, .rank = header->rank };
}

bool wire_is_end(const void *record, const char **failure_out)
{
    const struct header *header = record;

    if (header->kind != KIND_END)
        return false;
    *failure_out = header->size_bytes > sizeof(*header) ? (const char *)(header + 1) : NULL;
    return true;
}

/* The string at *@at if there was one; *@at moves behind it. */
static const char *get_text(char **at, const char *given)
{
    const char *text = *at;

    if (!given)
        return NULL;
    *at += strlen(text) + 1;
    return text;
}

static void deliver_trace(struct wire_reader *reader, struct trace_record *record, struct intake *intake)
{
    char *at = (char *)(record + 1);
    unsigned index;

    record->description.path = get_text(&at, record->description.path);
    record->description.hostname = get_text(&at, record->description.hostname);
    record->description.procname = get_text(&at, record->description.procname);
    record->description.clock_uuid = get_text(&at, record->description.clock_uuid);
    index = intake_target.add_trace(intake, &record->identity, &record->description);
    g_array_append_val(reader->traces, index);
}

static void deliver_stream(struct wire_reader *reader, struct stream_record *record, struct intake *intake)
{
    char *at = (char *)(record + 1);
    unsigned index;

    record->description.path = get_text(&at, record->description.path);
    index = intake_target.add_stream(intake, g_array_index(reader->traces, unsigned, record->header.index),
                                     &record->description);
    g_array_append_val(reader->streams, index);
}

static void deliver_event(struct wire_reader *reader, struct event_record *record, struct intake *intake)
{
    const struct event_class *known = &event_classes[record->event.id];

    if (record->header.size_bytes > EVENT_BYTES(known->field_count)) {
        for (unsigned i = 0; i < known->field_count; i++)
            if (known->fields[i].kind == FIELD_STRING)
                record->event.fields.slots[i].s = (const char *)record + record->event.fields.slots[i].u;
    }
    record->event.stream = g_array_index(reader->streams, unsigned, record->event.stream);
    intake_target.event(intake, &record->event);
}

void wire_deliver(struct wire_reader *reader, void *record, struct intake *intake)
{
    const struct header *header = record;
    const struct numbers_record *numbers = record;

    switch ((enum kind)header->kind) {
    case KIND_TRACE:
        deliver_trace(reader, record, intake);
        break;
    case KIND_STREAM:
        deliver_stream(reader, record, intake);
        break;
    case KIND_EVENT:
        deliver_event(reader, record, intake);
        break;
    case KIND_UNKNOWN_EVENT:
        intake_target.unknown_event(intake, g_array_index(reader->streams, unsigned, header->index),
                                    numbers->begin_ns);
        break;
    case KIND_LOSS:
        intake_target.loss(intake, g_array_index(reader->streams, unsigned, header->index),
                           (enum analysis_loss)numbers->kind, numbers->begin_ns, numbers->end_ns);
        break;
    case KIND_TIME:
        intake_target.time(intake, numbers->begin_ns);
        break;
    case KIND_RANGE:
        intake_target.range(intake, numbers->begin_ns, numbers->end_ns);
        break;
    case KIND_PACKET_END:
        intake_target.packet_end(intake);
        break;
    case KIND_CUT_TOLD:
        intake_target.cut_told(intake, ((const struct part_record *)record)->part);
        break;
    case KIND_END:
        break;
    }
}
