#include "input/intake.h"

#include <glib.h>
#include <string.h>

struct known_trace {
    struct trace_identity identity;
    char *path;
    unsigned index;
};

struct intake {
    struct analysis *analysis;
    GArray *traces;      /* struct known_trace */
    GPtrArray *expected; /* const struct input_trace */
    GHashTable *told;    /* input_stream whose damage was told */
    bool has_time;
    int64_t first_ns;
    struct feed_progress progress;
};

struct intake *intake_create(struct analysis *analysis)
{
    struct intake *intake = g_new0(struct intake, 1);

    intake->analysis = analysis;
    intake->traces = g_array_new(FALSE, TRUE, sizeof(struct known_trace));
    intake->expected = g_ptr_array_new();
    intake->told = g_hash_table_new(NULL, NULL);
    return intake;
}

void intake_destroy(struct intake *intake)
{
    if (!intake)
        return;
    for (unsigned i = 0; i < intake->traces->len; i++)
        g_free(g_array_index(intake->traces, struct known_trace, i).path);
    g_array_unref(intake->traces);
    g_ptr_array_unref(intake->expected);
    g_hash_table_unref(intake->told);
    g_free(intake);
}

void intake_expect(struct intake *intake, const struct input_trace *trace)
{
    g_ptr_array_add(intake->expected, (gpointer)trace);
}

struct feed_progress intake_progress(const struct intake *intake)
{
    return intake->progress;
}

static bool same_uuid(const struct trace_identity *identity, bool has_uuid, const uint8_t *uuid)
{
    return identity->has_uuid && has_uuid && memcmp(identity->uuid, uuid, sizeof(identity->uuid)) == 0;
}

static unsigned add_trace(void *data, const struct trace_identity *identity,
                          const struct analysis_trace *description)
{
    struct intake *intake = data;
    struct known_trace trace = { .identity = *identity };

    for (unsigned i = 0; i < intake->traces->len; i++) {
        const struct known_trace *other = &g_array_index(intake->traces, struct known_trace, i);

        if (other->identity.source == identity->source &&
            (same_uuid(identity, other->identity.has_uuid, other->identity.uuid) ||
             (!identity->has_uuid && !other->identity.has_uuid)))
            return other->index;
    }
    trace.path = g_strdup(description->path);
    trace.index = analysis_add_trace(intake->analysis, description);
    g_array_append_val(intake->traces, trace);
    return trace.index;
}

static unsigned add_stream(void *data, unsigned trace, const struct analysis_stream *description)
{
    struct intake *intake = data;

    return analysis_add_stream(intake->analysis, trace, description);
}

static void note_time(void *data, int64_t time_ns)
{
    struct intake *intake = data;

    if (!intake->has_time && time_ns != TIME_UNKNOWN) {
        intake->has_time = true;
        intake->first_ns = time_ns;
    }
}

/* The time of an event for the analysis, for which time never goes back. */
static inline int64_t advance(struct intake *intake, int64_t time_ns)
{
    struct feed_progress *progress = &intake->progress;

    if (G_UNLIKELY(progress->event_count == 0 && time_ns != TIME_UNKNOWN))
        progress->time_ns = time_ns;
    /* a tracer may be off by a little; an analysis never sees it */
    progress->time_ns = MAX(progress->time_ns, time_ns);
    progress->event_count++;
    if (G_UNLIKELY(!intake->has_time))
        note_time(intake, progress->time_ns);
    return progress->time_ns;
}

static void take_event(void *data, struct event *event)
{
    struct intake *intake = data;

    event->time_ns = advance(intake, event->time_ns);
    analysis_event(intake->analysis, event);
}

static void take_unknown_event(void *data, unsigned stream, int64_t time_ns)
{
    struct intake *intake = data;

    analysis_unknown_event(intake->analysis, stream, advance(intake, time_ns));
}

static void take_loss(void *data, unsigned stream, enum analysis_loss kind, int64_t begin_ns, int64_t end_ns)
{
    struct intake *intake = data;

    if (begin_ns == TIME_UNKNOWN)
        begin_ns = intake->first_ns;
    analysis_loss(intake->analysis, stream, kind, begin_ns, MAX(begin_ns, end_ns));
}

static void widen_range(void *data, int64_t begin_ns, int64_t end_ns)
{
    struct intake *intake = data;
    struct feed_progress *progress = &intake->progress;

    progress->begin_ns = progress->has_range ? MIN(progress->begin_ns, begin_ns) : begin_ns;
    progress->end_ns = progress->has_range ? MAX(progress->end_ns, end_ns) : end_ns;
    progress->has_range = true;
}

static void count_packet(void *data)
{
    struct intake *intake = data;

    intake->progress.packet_count++;
}

static void note_cut(void *data, const struct input_stream *part)
{
    struct intake *intake = data;

    g_hash_table_add(intake->told, (gpointer)part);
}

const struct feed_target intake_target = {
    .add_trace = add_trace,
    .add_stream = add_stream,
    .event = take_event,
    .unknown_event = take_unknown_event,
    .loss = take_loss,
    .time = note_time,
    .range = widen_range,
    .packet_end = count_packet,
    .cut_told = note_cut,
};

static unsigned trace_index(struct intake *intake, const struct input_trace *expected)
{
    struct analysis_trace description = { .path = expected->folder, .vpid = EVENT_UNKNOWN_ID };

    for (unsigned i = 0; i < intake->traces->len; i++) {
        const struct known_trace *trace = &g_array_index(intake->traces, struct known_trace, i);

        if (same_uuid(&trace->identity, expected->metadata.has_uuid, expected->metadata.uuid) ||
            (!expected->metadata.has_uuid && !g_strcmp0(trace->path, expected->folder)))
            return trace->index;
    }
    /* no stream of it was readable, or it has none: it was recorded all the same */
    memcpy(description.declared, expected->metadata.declared, sizeof(description.declared));
    return analysis_add_trace(intake->analysis, &description);
}

void intake_finish(struct intake *intake)
{
    for (unsigned i = 0; i < intake->expected->len; i++) {
        const struct input_trace *trace = g_ptr_array_index(intake->expected, i);
        unsigned index = trace_index(intake, trace);

        for (unsigned j = 0; j < trace->streams->len; j++) {
            const struct input_stream *part = g_ptr_array_index(trace->streams, j);
            char *path = input_stream_path(trace, part);
            struct analysis_stream description = {
                .stream_class_id = part->summary.stream_class_id,
                .cpu_id = part->summary.cpu_id,
                .path = path,
            };

            if (part->summary.damage && !g_hash_table_contains(intake->told, part))
                analysis_loss(intake->analysis,
                              analysis_add_stream(intake->analysis, index, &description), LOSS_CUT,
                              intake->first_ns, intake->first_ns);
            g_free(path);
        }
    }
}
