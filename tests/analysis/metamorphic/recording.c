#include "metamorphic/recording.h"

#include <string.h>

#include "input/feed.h"
#include "input/graph.h"
#include "input/inputs.h"

/* The linker gives the reader these instead of the analysis' own (--wrap). */
unsigned __real_analysis_add_trace(struct analysis *analysis, const struct analysis_trace *trace);
unsigned __real_analysis_add_stream(struct analysis *analysis, unsigned trace_index,
                                    const struct analysis_stream *stream);
void __real_analysis_event(struct analysis *analysis, const struct event *event);
void __real_analysis_unknown_event(struct analysis *analysis, unsigned stream_index, int64_t time_ns);
void __real_analysis_loss(struct analysis *analysis, unsigned stream_index, enum analysis_loss kind,
                          int64_t begin_ns, int64_t end_ns);
unsigned __wrap_analysis_add_trace(struct analysis *analysis, const struct analysis_trace *trace);
unsigned __wrap_analysis_add_stream(struct analysis *analysis, unsigned trace_index,
                                    const struct analysis_stream *stream);
void __wrap_analysis_event(struct analysis *analysis, const struct event *event);
void __wrap_analysis_unknown_event(struct analysis *analysis, unsigned stream_index, int64_t time_ns);
void __wrap_analysis_loss(struct analysis *analysis, unsigned stream_index, enum analysis_loss kind,
                          int64_t begin_ns, int64_t end_ns);

static struct recording *reading; /* NULL: the calls go to the analysis */

struct recording *recording_new(void)
{
    struct recording *recording = g_new0(struct recording, 1);

    recording->traces = g_array_new(FALSE, TRUE, sizeof(struct analysis_trace));
    recording->streams = g_array_new(FALSE, TRUE, sizeof(struct told_stream));
    recording->entries = g_array_new(FALSE, TRUE, sizeof(struct entry));
    recording->texts = g_string_chunk_new(4096);
    return recording;
}

void recording_free(struct recording *recording)
{
    g_array_free(recording->traces, TRUE);
    g_array_free(recording->streams, TRUE);
    g_array_free(recording->entries, TRUE);
    g_string_chunk_free(recording->texts);
    g_free(recording);
}

static const char *keep(struct recording *recording, const char *text)
{
    return text ? g_string_chunk_insert_const(recording->texts, text) : NULL;
}

static void keep_trace(struct recording *recording, const struct analysis_trace *trace)
{
    struct analysis_trace copy = *trace;

    copy.path = keep(recording, trace->path);
    copy.hostname = keep(recording, trace->hostname);
    copy.procname = keep(recording, trace->procname);
    copy.clock_uuid = keep(recording, trace->clock_uuid);
    g_array_append_val(recording->traces, copy);
}

static void keep_stream(struct recording *recording, unsigned trace, const struct analysis_stream *stream)
{
    struct told_stream copy = { .trace = trace, .stream = *stream };

    copy.stream.path = keep(recording, stream->path);
    g_array_append_val(recording->streams, copy);
}

static void keep_entry(struct recording *recording, const struct entry *entry)
{
    struct entry copy = *entry;

    for (unsigned i = 0; copy.kind == ENTRY_EVENT && i < event_classes[copy.event.id].field_count; i++)
        if (event_classes[copy.event.id].fields[i].kind == FIELD_STRING)
            copy.event.fields.slots[i].s = keep(recording, copy.event.fields.slots[i].s);
    g_array_append_val(recording->entries, copy);
}

struct recording *recording_copy(const struct recording *recording, bool with_entries)
{
    struct recording *copy = recording_new();

    for (unsigned i = 0; i < recording->traces->len; i++)
        keep_trace(copy, &g_array_index(recording->traces, struct analysis_trace, i));
    for (unsigned i = 0; i < recording->streams->len; i++) {
        const struct told_stream *stream = &g_array_index(recording->streams, struct told_stream, i);

        keep_stream(copy, stream->trace, &stream->stream);
    }
    for (unsigned i = 0; with_entries && i < recording->entries->len; i++)
        keep_entry(copy, entry_at(recording, i));
    return copy;
}

/* --- reading ------------------------------------------------------------------------------------------- */

unsigned __wrap_analysis_add_trace(struct analysis *analysis, const struct analysis_trace *trace)
{
    if (!reading)
        return __real_analysis_add_trace(analysis, trace);
    keep_trace(reading, trace);
    return reading->traces->len - 1;
}

unsigned __wrap_analysis_add_stream(struct analysis *analysis, unsigned trace_index,
                                    const struct analysis_stream *stream)
{
    if (!reading)
        return __real_analysis_add_stream(analysis, trace_index, stream);
    keep_stream(reading, trace_index, stream);
    return reading->streams->len - 1;
}

void __wrap_analysis_event(struct analysis *analysis, const struct event *event)
{
    if (reading)
        keep_entry(reading, &(struct entry){ .kind = ENTRY_EVENT, .event = *event });
    else
        __real_analysis_event(analysis, event);
}

void __wrap_analysis_unknown_event(struct analysis *analysis, unsigned stream_index, int64_t time_ns)
{
    if (reading)
        keep_entry(reading, &(struct entry){ .kind = ENTRY_UNKNOWN,
                                             .event = { .time_ns = time_ns, .stream = stream_index } });
    else
        __real_analysis_unknown_event(analysis, stream_index, time_ns);
}

void __wrap_analysis_loss(struct analysis *analysis, unsigned stream_index, enum analysis_loss kind,
                          int64_t begin_ns, int64_t end_ns)
{
    if (reading)
        keep_entry(reading, &(struct entry){ .kind = ENTRY_LOSS,
                                             .loss = kind,
                                             .begin_ns = begin_ns,
                                             .end_ns = end_ns,
                                             .event = { .stream = stream_index } });
    else
        __real_analysis_loss(analysis, stream_index, kind, begin_ns, end_ns);
}

static void on_batch(void *data)
{
}

struct recording *recording_read(const char *folder)
{
    struct recording *recording = recording_new();
    struct inputs *inputs = inputs_create();
    struct intake *intake = intake_create(NULL);
    struct feed *feed = feed_create(&intake_target, intake);
    GPtrArray *lists = g_ptr_array_new_with_free_func(g_free);
    char *why = NULL;
    bool interrupted;

    inputs_add(inputs, folder);
    inputs_prepare(inputs);
    reading = recording;
    for (unsigned i = 0; i < inputs->traces->len; i++) {
        struct input_trace *trace = g_ptr_array_index(inputs->traces, i);
        char **list = g_new0(char *, 2);

        list[0] = trace->read_folder;
        g_ptr_array_add(lists, list);
        feed_expect(feed, trace);
        intake_expect(intake, trace);
    }
    if (inputs->traces->len && !inputs->refusals->len)
        why = graph_run(lists, &(struct graph_job){ .feed = feed, .share = { 0, 1 }, .batch = on_batch }, &interrupted);
    intake_finish(intake);
    feed_destroy(feed);
    intake_destroy(intake);
    reading = NULL;
    g_ptr_array_unref(lists);
    inputs_destroy(inputs);
    if (why || !recording->traces->len) {
        g_free(why);
        recording_free(recording);
        return NULL;
    }
    return recording;
}

/* --- telling ------------------------------------------------------------------------------------------- */

json_t *recording_report(const struct recording *recording, int *status_out)
{
    struct analysis_options options;
    struct analysis *analysis;
    json_t *report;

    analysis_options_init(&options);
    analysis = analysis_create(&options);
    for (unsigned i = 0; i < recording->traces->len; i++)
        __real_analysis_add_trace(analysis, &g_array_index(recording->traces, struct analysis_trace, i));
    for (unsigned i = 0; i < recording->streams->len; i++) {
        const struct told_stream *stream = &g_array_index(recording->streams, struct told_stream, i);

        __real_analysis_add_stream(analysis, stream->trace, &stream->stream);
    }
    for (unsigned i = 0; i < recording->entries->len; i++) {
        const struct entry *entry = entry_at(recording, i);

        if (entry->kind == ENTRY_EVENT)
            __real_analysis_event(analysis, &entry->event);
        else if (entry->kind == ENTRY_UNKNOWN)
            __real_analysis_unknown_event(analysis, entry->event.stream, entry->event.time_ns);
        else
            __real_analysis_loss(analysis, entry->event.stream, entry->loss, entry->begin_ns, entry->end_ns);
    }
    analysis_finish(analysis, false);
    *status_out = analysis_exit_status(analysis);
    report = analysis_report(analysis);
    analysis_destroy(analysis);
    return report;
}
