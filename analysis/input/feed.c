#include "input/feed.h"

#include <glib.h>
#include <string.h>

#include "input/plan.h"

#define CACHE_SIZE 256 /* power of two; covers the event classes and streams of a recording */
#define NOT_ADDED UINT_MAX

struct loss {
    enum analysis_loss kind;
    bool open_end; /* the trace does not say when: it ends with the stream's next event */
    int64_t begin_ns, end_ns;
};

struct feed_trace {
    const bt_trace *trace; /* a reference: its classes stay valid, and their addresses are not used again */
    const bt_clock_class *clock;
    struct trace_identity identity;
    unsigned index;
};

struct feed_stream {
    const bt_stream *stream;
    struct feed_trace *trace;
    unsigned index; /* NOT_ADDED until its CPU is known: with its first packet */
    char *path;     /* as babeltrace2 knows it, or NULL */
    bool has_time;
    int64_t last_ns; /* of its last event or packet boundary */
    GArray *losses;  /* struct loss, not told yet */
};

struct cache_entry {
    const void *key;
    void *value;
};

struct feed {
    const struct feed_target *target;
    void *data;          /* the target's */
    unsigned source;     /* of the message in hand */
    GPtrArray *traces;   /* struct feed_trace */
    GPtrArray *expected; /* const struct input_trace */
    GHashTable *streams; /* bt_stream -> struct feed_stream */
    GHashTable *plans;   /* bt_event_class -> struct plan */
    struct cache_entry stream_cache[CACHE_SIZE], plan_cache[CACHE_SIZE];
    const bt_message *held; /* strings of the last event live until the next one */
    struct event event;
};

static void feed_trace_free(gpointer pointer)
{
    struct feed_trace *trace = pointer;

    bt_trace_put_ref(trace->trace);
    g_free(trace);
}

static void feed_stream_free(gpointer pointer)
{
    struct feed_stream *stream = pointer;

    bt_stream_put_ref(stream->stream);
    g_free(stream->path);
    g_array_unref(stream->losses);
    g_free(stream);
}

static void feed_plan_free(gpointer pointer)
{
    plan_destroy(pointer);
}

struct feed *feed_create(const struct feed_target *target, void *data)
{
    struct feed *feed = g_new0(struct feed, 1);

    feed->target = target;
    feed->data = data;
    feed->traces = g_ptr_array_new_with_free_func(feed_trace_free);
    feed->expected = g_ptr_array_new();
    feed->streams = g_hash_table_new_full(NULL, NULL, NULL, feed_stream_free);
    feed->plans = g_hash_table_new_full(NULL, NULL, NULL, feed_plan_free);
    return feed;
}

void feed_release(struct feed *feed)
{
    if (feed->held)
        bt_message_put_ref(feed->held);
    feed->held = NULL;
}

void feed_destroy(struct feed *feed)
{
    if (!feed)
        return;
    feed_release(feed);
    g_hash_table_unref(feed->plans);
    g_hash_table_unref(feed->streams);
    g_ptr_array_unref(feed->traces);
    g_ptr_array_unref(feed->expected);
    g_free(feed);
}

void feed_expect(struct feed *feed, const struct input_trace *trace)
{
    g_ptr_array_add(feed->expected, (gpointer)trace);
}

static inline struct cache_entry *cache_slot(struct cache_entry *cache, const void *key)
{
    uintptr_t bits = (uintptr_t)key;

    return &cache[(bits >> 4 ^ bits >> 12) & (CACHE_SIZE - 1)];
}

static bool to_ns(const bt_clock_snapshot *snapshot, int64_t *ns_out)
{
    if (bt_clock_snapshot_get_ns_from_origin(snapshot, ns_out) ==
        BT_CLOCK_SNAPSHOT_GET_NS_FROM_ORIGIN_STATUS_OK)
        return true;
    bt_current_thread_clear_error(); /* beyond 64 bits of nanoseconds: as good as no time */
    return false;
}

static bool cycles_to_ns(const struct feed_trace *trace, uint64_t cycles, int64_t *ns_out)
{
    if (!trace->clock)
        return false;
    if (bt_clock_class_cycles_to_ns_from_origin(trace->clock, cycles, ns_out) ==
        BT_CLOCK_CLASS_CYCLES_TO_NS_FROM_ORIGIN_STATUS_OK)
        return true;
    bt_current_thread_clear_error();
    return false;
}

/* The folder of a stream file, as the user knows it. */
static const struct input_trace *expected_at(const struct feed *feed, const char *path)
{
    const struct input_trace *found = NULL;
    char *folder = path ? g_path_get_dirname(path) : NULL;

    for (unsigned i = 0; folder && i < feed->expected->len && !found; i++) {
        const struct input_trace *trace = g_ptr_array_index(feed->expected, i);

        if (strcmp(trace->read_folder, folder) == 0)
            found = trace;
    }
    g_free(folder);
    return found;
}

static const char *environment_text(const bt_trace *trace, const char *name)
{
    const bt_value *value = bt_trace_borrow_environment_entry_value_by_name_const(trace, name);

    return value && bt_value_is_string(value) ? bt_value_string_get(value) : NULL;
}

static int64_t environment_number(const bt_trace *trace, const char *name)
{
    const bt_value *value = bt_trace_borrow_environment_entry_value_by_name_const(trace, name);

    if (value && bt_value_is_signed_integer(value))
        return bt_value_integer_signed_get(value);
    return EVENT_UNKNOWN_ID;
}

static void find_declared(const bt_trace_class *trace_class, bool *declared)
{
    for (uint64_t i = 0; i < bt_trace_class_get_stream_class_count(trace_class); i++) {
        const bt_stream_class *stream_class =
            bt_trace_class_borrow_stream_class_by_index_const(trace_class, i);

        for (uint64_t j = 0; j < bt_stream_class_get_event_class_count(stream_class); j++) {
            const char *name =
                bt_event_class_get_name(bt_stream_class_borrow_event_class_by_index_const(stream_class, j));
            int id = name ? event_id_by_name(name) : -1;

            if (id >= 0)
                declared[id] = true;
        }
    }
}

static char *format_uuid(bt_uuid uuid)
{
    GString *text = g_string_new(NULL);

    for (int i = 0; uuid && i < 16; i++)
        g_string_append_printf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    return g_string_free(text, uuid == NULL);
}

static bool same_uuid(const struct feed_trace *trace, const struct input_trace *expected)
{
    return trace->identity.has_uuid && expected->metadata.has_uuid &&
           memcmp(trace->identity.uuid, expected->metadata.uuid, sizeof(trace->identity.uuid)) == 0;
}

static void add_trace(struct feed *feed, struct feed_trace *trace, const bt_stream *stream)
{
    const char *path = bt_stream_get_name(stream);
    const struct input_trace *expected = expected_at(feed, path);
    char *folder = expected ? g_strdup(expected->folder) : path ? g_path_get_dirname(path) : g_strdup("");
    const char *scheme = environment_text(trace->trace, "tracer_buffering_scheme");
    bool per_process = scheme && strcmp(scheme, "pid") == 0;
    char *clock_uuid = trace->clock ? format_uuid(bt_clock_class_get_uuid(trace->clock)) : NULL;
    struct analysis_trace description = {
        .path = folder,
        .hostname = environment_text(trace->trace, "hostname"),
        .procname = per_process ? environment_text(trace->trace, "procname") : NULL,
        .vpid = per_process ? environment_number(trace->trace, "vpid") : EVENT_UNKNOWN_ID,
        .clock_uuid = clock_uuid,
    };

    if (per_process && description.vpid == EVENT_UNKNOWN_ID)
        description.vpid = environment_number(trace->trace, "tracer_buffering_id");
    find_declared(bt_trace_borrow_class_const(trace->trace), description.declared);
    trace->index = feed->target->add_trace(feed->data, &trace->identity, &description);
    g_free(clock_uuid);
    g_free(folder);
}

static void tell_range(struct feed *feed, const struct feed_trace *trace, const struct input_stream *stream)
{
    int64_t begin_ns, end_ns;

    if (stream->summary.packet_count > 0 && cycles_to_ns(trace, stream->summary.begin_cycles, &begin_ns) &&
        cycles_to_ns(trace, stream->summary.end_cycles, &end_ns))
        feed->target->range(feed->data, begin_ns, end_ns);
}

static struct feed_trace *find_trace(struct feed *feed, const bt_stream *stream)
{
    const bt_trace *wanted = bt_stream_borrow_trace_const(stream);
    bt_uuid uuid = bt_trace_get_uuid(wanted);
    struct feed_trace *trace;

    for (unsigned i = 0; i < feed->traces->len; i++) {
        trace = g_ptr_array_index(feed->traces, i);
        if (trace->trace == wanted)
            return trace;
    }
    trace = g_new0(struct feed_trace, 1);
    trace->trace = wanted;
    bt_trace_get_ref(wanted);
    /* without a graph of ours around it, each trace that is new is another one */
    trace->identity.source = feed->source == SOURCE_UNKNOWN ? feed->traces->len : feed->source;
    trace->identity.has_uuid = uuid != NULL;
    if (uuid)
        memcpy(trace->identity.uuid, uuid, sizeof(trace->identity.uuid));
    trace->clock = bt_stream_class_borrow_default_clock_class_const(bt_stream_borrow_class_const(stream));
    add_trace(feed, trace, stream);
    g_ptr_array_add(feed->traces, trace);
    return trace;
}

static struct feed_stream *find_stream(struct feed *feed, const bt_stream *wanted)
{
    struct cache_entry *entry = cache_slot(feed->stream_cache, wanted);
    struct feed_stream *stream;

    if (G_LIKELY(entry->key == wanted))
        return entry->value;
    stream = g_hash_table_lookup(feed->streams, wanted);
    if (!stream) {
        stream = g_new0(struct feed_stream, 1);
        stream->stream = wanted;
        bt_stream_get_ref(wanted);
        stream->trace = find_trace(feed, wanted);
        stream->index = NOT_ADDED;
        stream->path = g_strdup(bt_stream_get_name(wanted));
        stream->losses = g_array_new(FALSE, FALSE, sizeof(struct loss));
        g_hash_table_insert(feed->streams, (gpointer)wanted, stream);
    }
    entry->key = wanted;
    entry->value = stream;
    return stream;
}

static const struct plan *find_plan(struct feed *feed, const bt_event_class *event_class)
{
    struct cache_entry *entry = cache_slot(feed->plan_cache, event_class);
    struct plan *plan;

    if (G_LIKELY(entry->key == event_class))
        return entry->value;
    plan = g_hash_table_lookup(feed->plans, event_class);
    if (!plan) {
        plan = plan_create(event_class);
        g_hash_table_insert(feed->plans, (gpointer)event_class, plan);
    }
    entry->key = event_class;
    entry->value = plan;
    return plan;
}

static int64_t packet_cpu(const bt_packet *packet)
{
    const bt_field *context = packet ? bt_packet_borrow_context_field_const(packet) : NULL;
    const bt_field *cpu =
        context ? bt_field_structure_borrow_member_field_by_name_const(context, "cpu_id") : NULL;

    if (cpu && bt_field_class_type_is(bt_field_get_class_type(cpu), BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER))
        return bt_field_integer_unsigned_get_value(cpu);
    return EVENT_UNKNOWN_ID;
}

static void tell_losses(struct feed *feed, struct feed_stream *stream, bool all)
{
    unsigned told = 0;

    for (; told < stream->losses->len; told++) {
        struct loss *loss = &g_array_index(stream->losses, struct loss, told);

        if (loss->open_end && !all)
            break;
        feed->target->loss(feed->data, stream->index, loss->kind, loss->begin_ns,
                           loss->open_end ? MAX(loss->begin_ns, stream->last_ns) : loss->end_ns);
    }
    if (told > 0)
        g_array_remove_range(stream->losses, 0, told);
}

/* Is @cut a file of this stream? Rotated chunks of one recording share a UUID and name their files alike. */
static bool is_part_of(const struct feed_stream *stream, const struct input_trace *trace,
                       const struct input_stream *cut)
{
    char *folder = g_path_get_dirname(stream->path), *name = g_path_get_basename(stream->path);
    bool same_trace =
        strcmp(folder, trace->read_folder) == 0 || (!trace->alone && same_uuid(stream->trace, trace));
    bool same_name = strcmp(name, cut->name) == 0;

    g_free(folder);
    g_free(name);
    return same_trace && same_name;
}

/* Its first packet, in the earliest of its files, is not the first that there was: a flight recorder, or later chunks alone. */
static void tell_overwritten(struct feed *feed, const struct feed_stream *stream)
{
    const struct input_stream *first = NULL;
    int64_t begin_ns;

    for (unsigned i = 0; stream->path && i < feed->expected->len; i++) {
        const struct input_trace *trace = g_ptr_array_index(feed->expected, i);

        for (unsigned j = 0; j < trace->streams->len; j++) {
            const struct input_stream *part = g_ptr_array_index(trace->streams, j);

            if (part->summary.packet_count && is_part_of(stream, trace, part) &&
                (!first || part->summary.begin_cycles < first->summary.begin_cycles))
                first = part;
        }
    }
    if (first && first->summary.first_number &&
        cycles_to_ns(stream->trace, first->summary.begin_cycles, &begin_ns))
        feed->target->loss(feed->data, stream->index, LOSS_OVERWRITTEN, begin_ns, begin_ns);
}

static void add_stream(struct feed *feed, struct feed_stream *stream, int64_t cpu_id)
{
    const struct input_trace *expected = expected_at(feed, stream->path);
    char *name = stream->path ? g_path_get_basename(stream->path) : NULL;
    char *path = expected ? g_build_filename(expected->folder, name, NULL) : g_strdup(stream->path);
    struct analysis_stream description = {
        .stream_class_id = bt_stream_class_get_id(bt_stream_borrow_class_const(stream->stream)),
        .cpu_id = cpu_id,
        .path = path,
    };

    stream->index = feed->target->add_stream(feed->data, stream->trace->index, &description);
    tell_overwritten(feed, stream); /* now: a run that is interrupted does not come to the stream's end */
    g_free(path);
    g_free(name);
}

static void note_time(struct feed *feed, struct feed_stream *stream, const bt_clock_snapshot *snapshot)
{
    int64_t time_ns;

    if (!snapshot || !to_ns(snapshot, &time_ns))
        return;
    stream->last_ns = stream->has_time ? MAX(stream->last_ns, time_ns) : time_ns;
    stream->has_time = true;
    feed->target->time(feed->data, time_ns);
}

static void take_event(struct feed *feed, const bt_message *message, int64_t time_ns)
{
    const bt_event *bt_event = bt_message_event_borrow_event_const(message);
    struct feed_stream *stream = find_stream(feed, bt_event_borrow_stream_const(bt_event));
    const struct plan *plan = find_plan(feed, bt_event_borrow_class_const(bt_event));

    if (G_LIKELY(time_ns != TIME_UNKNOWN)) {
        stream->last_ns = time_ns;
        stream->has_time = true;
    }
    if (G_UNLIKELY(stream->index == NOT_ADDED))
        add_stream(feed, stream, EVENT_UNKNOWN_ID); /* a trace without packets */
    if (G_UNLIKELY(stream->losses->len > 0))
        tell_losses(feed, stream, true);
    if (plan_event_id(plan) < 0) {
        feed->target->unknown_event(feed->data, stream->index, time_ns);
        return;
    }
    plan_decode(plan, &feed->event, bt_event);
    feed->event.time_ns = time_ns;
    feed->event.stream = stream->index;
    feed->target->event(feed->data, &feed->event);
}

/* Discarded events and discarded packets: they may come before the packet that names the CPU. */
static void take_loss(struct feed *feed, struct feed_stream *stream, enum analysis_loss kind,
                      const bt_clock_snapshot *begin, const bt_clock_snapshot *end)
{
    struct loss loss = { .kind = kind, .begin_ns = stream->has_time ? stream->last_ns : TIME_UNKNOWN };

    if (!begin || !end || !to_ns(begin, &loss.begin_ns) || !to_ns(end, &loss.end_ns))
        loss.open_end = true;
    g_array_append_val(stream->losses, loss);
    if (stream->index != NOT_ADDED)
        tell_losses(feed, stream, false);
}

static void take_discarded_events(struct feed *feed, const bt_message *message)
{
    struct feed_stream *stream = find_stream(feed, bt_message_discarded_events_borrow_stream_const(message));
    bool timed = bt_stream_class_discarded_events_have_default_clock_snapshots(
        bt_stream_borrow_class_const(stream->stream));

    take_loss(feed, stream, LOSS_DISCARDED_EVENTS,
              timed ? bt_message_discarded_events_borrow_beginning_default_clock_snapshot_const(message)
                    : NULL,
              timed ? bt_message_discarded_events_borrow_end_default_clock_snapshot_const(message) : NULL);
}

static void take_discarded_packets(struct feed *feed, const bt_message *message)
{
    struct feed_stream *stream = find_stream(feed, bt_message_discarded_packets_borrow_stream_const(message));
    bool timed = bt_stream_class_discarded_packets_have_default_clock_snapshots(
        bt_stream_borrow_class_const(stream->stream));

    take_loss(feed, stream, LOSS_DISCARDED_PACKETS,
              timed ? bt_message_discarded_packets_borrow_beginning_default_clock_snapshot_const(message)
                    : NULL,
              timed ? bt_message_discarded_packets_borrow_end_default_clock_snapshot_const(message) : NULL);
}

static void take_packet_beginning(struct feed *feed, const bt_message *message)
{
    const bt_packet *packet = bt_message_packet_beginning_borrow_packet_const(message);
    struct feed_stream *stream = find_stream(feed, bt_packet_borrow_stream_const(packet));
    bool timed = bt_stream_class_packets_have_beginning_default_clock_snapshot(
        bt_stream_borrow_class_const(stream->stream));

    if (stream->index == NOT_ADDED)
        add_stream(feed, stream, packet_cpu(packet));
    if (timed)
        note_time(feed, stream, bt_message_packet_beginning_borrow_default_clock_snapshot_const(message));
    tell_losses(feed, stream, false);
}

static void take_packet_end(struct feed *feed, const bt_message *message)
{
    const bt_packet *packet = bt_message_packet_end_borrow_packet_const(message);
    struct feed_stream *stream = find_stream(feed, bt_packet_borrow_stream_const(packet));

    feed->target->packet_end(feed->data);
    if (bt_stream_class_packets_have_end_default_clock_snapshot(bt_stream_borrow_class_const(stream->stream)))
        note_time(feed, stream, bt_message_packet_end_borrow_default_clock_snapshot_const(message));
}

static void end_stream(struct feed *feed, struct feed_stream *stream)
{
    if (stream->index == NOT_ADDED)
        add_stream(feed, stream, EVENT_UNKNOWN_ID);
    tell_losses(feed, stream, true);
    for (unsigned i = 0; stream->path && i < feed->expected->len; i++) {
        const struct input_trace *trace = g_ptr_array_index(feed->expected, i);

        for (unsigned j = 0; j < trace->streams->len; j++) {
            const struct input_stream *part = g_ptr_array_index(trace->streams, j);
            int64_t begin_ns;

            if (!part->summary.damage || part->summary.packet_count == 0 || !is_part_of(stream, trace, part))
                continue;
            feed->target->cut_told(feed->data, part);
            if (!cycles_to_ns(stream->trace, part->summary.end_cycles, &begin_ns))
                begin_ns = stream->last_ns;
            /* a later chunk goes on: the gap in packet numbers was told as discarded packets */
            if (begin_ns >= stream->last_ns)
                feed->target->loss(feed->data, stream->index, LOSS_CUT, begin_ns, begin_ns);
        }
    }
}

static void begin_stream(struct feed *feed, const bt_stream *bt_stream)
{
    struct feed_stream *stream = find_stream(feed, bt_stream);
    const struct input_trace *expected = expected_at(feed, stream->path);

    for (unsigned i = 0; expected && i < expected->streams->len; i++) {
        const struct input_stream *part = g_ptr_array_index(expected->streams, i);

        if (is_part_of(stream, expected, part))
            tell_range(feed, stream->trace, part);
    }
}

static void take(struct feed *feed, const bt_message *message, int64_t time_ns)
{
    switch (bt_message_get_type(message)) {
    case BT_MESSAGE_TYPE_EVENT:
        take_event(feed, message, time_ns);
        break;
    case BT_MESSAGE_TYPE_PACKET_BEGINNING:
        take_packet_beginning(feed, message);
        break;
    case BT_MESSAGE_TYPE_PACKET_END:
        take_packet_end(feed, message);
        break;
    case BT_MESSAGE_TYPE_DISCARDED_EVENTS:
        take_discarded_events(feed, message);
        break;
    case BT_MESSAGE_TYPE_DISCARDED_PACKETS:
        take_discarded_packets(feed, message);
        break;
    case BT_MESSAGE_TYPE_STREAM_BEGINNING:
        begin_stream(feed, bt_message_stream_beginning_borrow_stream_const(message));
        break;
    case BT_MESSAGE_TYPE_STREAM_END:
        end_stream(feed, find_stream(feed, bt_message_stream_end_borrow_stream_const(message)));
        break;
    case BT_MESSAGE_TYPE_MESSAGE_ITERATOR_INACTIVITY:
        break;
    }
}

int64_t feed_time(const bt_message *message)
{
    const bt_clock_snapshot *snapshot = NULL;
    const bt_stream_class *class;
    int64_t time_ns;

    switch (bt_message_get_type(message)) {
    case BT_MESSAGE_TYPE_EVENT:
        if (bt_message_event_borrow_stream_class_default_clock_class_const(message))
            snapshot = bt_message_event_borrow_default_clock_snapshot_const(message);
        break;
    case BT_MESSAGE_TYPE_PACKET_BEGINNING:
        class = bt_stream_borrow_class_const(
            bt_packet_borrow_stream_const(bt_message_packet_beginning_borrow_packet_const(message)));
        if (bt_stream_class_packets_have_beginning_default_clock_snapshot(class))
            snapshot = bt_message_packet_beginning_borrow_default_clock_snapshot_const(message);
        break;
    case BT_MESSAGE_TYPE_PACKET_END:
        class = bt_stream_borrow_class_const(
            bt_packet_borrow_stream_const(bt_message_packet_end_borrow_packet_const(message)));
        if (bt_stream_class_packets_have_end_default_clock_snapshot(class))
            snapshot = bt_message_packet_end_borrow_default_clock_snapshot_const(message);
        break;
    case BT_MESSAGE_TYPE_DISCARDED_EVENTS:
        class = bt_stream_borrow_class_const(bt_message_discarded_events_borrow_stream_const(message));
        if (bt_stream_class_discarded_events_have_default_clock_snapshots(class))
            snapshot = bt_message_discarded_events_borrow_beginning_default_clock_snapshot_const(message);
        break;
    case BT_MESSAGE_TYPE_DISCARDED_PACKETS:
        class = bt_stream_borrow_class_const(bt_message_discarded_packets_borrow_stream_const(message));
        if (bt_stream_class_discarded_packets_have_default_clock_snapshots(class))
            snapshot = bt_message_discarded_packets_borrow_beginning_default_clock_snapshot_const(message);
        break;
    case BT_MESSAGE_TYPE_STREAM_BEGINNING:
        class = bt_stream_borrow_class_const(bt_message_stream_beginning_borrow_stream_const(message));
        if (!bt_stream_class_borrow_default_clock_class_const(class) ||
            bt_message_stream_beginning_borrow_default_clock_snapshot_const(message, &snapshot) !=
                BT_MESSAGE_STREAM_CLOCK_SNAPSHOT_STATE_KNOWN)
            snapshot = NULL;
        break;
    case BT_MESSAGE_TYPE_STREAM_END:
        class = bt_stream_borrow_class_const(bt_message_stream_end_borrow_stream_const(message));
        if (!bt_stream_class_borrow_default_clock_class_const(class) ||
            bt_message_stream_end_borrow_default_clock_snapshot_const(message, &snapshot) !=
                BT_MESSAGE_STREAM_CLOCK_SNAPSHOT_STATE_KNOWN)
            snapshot = NULL;
        break;
    case BT_MESSAGE_TYPE_MESSAGE_ITERATOR_INACTIVITY:
        snapshot = bt_message_message_iterator_inactivity_borrow_clock_snapshot_const(message);
        break;
    }
    return snapshot && to_ns(snapshot, &time_ns) ? time_ns : TIME_UNKNOWN;
}

void feed_take(struct feed *feed, const bt_message *message, int64_t time_ns, unsigned source)
{
    feed->source = source;
    take(feed, message, time_ns);
    feed_release(feed);
    feed->held = message;
}

void feed_messages(struct feed *feed, bt_message_array_const messages, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        feed_take(feed, messages[i], feed_time(messages[i]), SOURCE_UNKNOWN);
}
