#include "core/dialect.h"

#include "core/internal.h"

/* What any of the process's traces declares. */
static void merge_declared(const struct process *process, bool *declared_out)
{
    const GPtrArray *traces = process->analysis->traces;

    for (unsigned i = 0; i < traces->len; i++) {
        const struct trace *trace = g_ptr_array_index(traces, i);

        for (unsigned id = 0; trace->group == process->trace->group && id < EVENT_CLASS_COUNT; id++)
            declared_out[id] |= trace->declared[id];
    }
}

void dialect_begin(struct process *process, const struct event *event)
{
    bool declared[EVENT_CLASS_COUNT] = { false };

    process->dialect = dialect_of(event->id);
    if (!process->dialect)
        return;
    process->has_threads = event->vtid != EVENT_UNKNOWN_ID;
    process->derives = g_new0(bool, EVENT_COUNT);
    process->derived_sets = NEEDS(SET_CORE); /* losses and processes are judged in any case */
    merge_declared(process, declared);
    for (unsigned id = 0; id < EVENT_COUNT; id++) {
        process->derives[id] = process->dialect->declares(declared, (enum event_id)id);
        if (process->derives[id])
            process->derived_sets |= NEEDS(event_classes[id].set);
    }
    process->dialect_state = process->dialect->create(process);
}

void dialect_take(struct analysis *analysis, struct stream *stream, const struct event *event)
{
    struct process *process = stream->process;

    process->event_count++;
    process->last_ns = event->time_ns;
    process->last_stream = event->stream;
    process->dialect->event(process->dialect_state, event);
    if (stream->thread)
        stream->thread->last_ns = event->time_ns;
}

void analysis_derive(struct process *process, const struct event *event)
{
    struct stream *stream = g_ptr_array_index(process->analysis->streams, event->stream);

    analysis_judge(process->analysis, stream, event);
    process->event_count--; /* of the program's events, and this is none */
}

void dialect_finish(struct process *process)
{
    struct stream *stream;

    if (!process->dialect)
        return;
    stream = g_ptr_array_index(process->analysis->streams, process->last_stream);
    stream->process = process;
    stream->thread = NULL;
    process->dialect->finish(process->dialect_state);
}

void dialect_free(struct process *process)
{
    if (process->dialect)
        process->dialect->destroy(process->dialect_state);
    g_free(process->derives);
}

const char *dialect_skip(const struct process *process, const char *finding_id)
{
    bool declared[EVENT_CLASS_COUNT] = { false };

    merge_declared(process, declared);
    return process->dialect->skip(process, declared, finding_id);
}
