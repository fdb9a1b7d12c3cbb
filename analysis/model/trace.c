#include "model/trace.h"

#include "core/check.h"
#include "model/successor.h"

/* A sampler that is so late is gone with its process; and from so many samples on it is known that there is one. */
#define SILENCE_NS INT64_C(2500000000)
#define SAMPLES_MIN 3

static bool overlaps(const struct loss *loss, int64_t begin_ns, int64_t end_ns)
{
    return loss->begin_ns <= end_ns && loss->end_ns >= begin_ns;
}

/* How well a channel fits an event: 3 it was seen there, 2 its set was, 1 neither. */
static int channel_rank(const struct channel *channel, enum event_id id)
{
    if (channel->seen[id])
        return 3;
    return channel->seen_set[event_classes[id].set] ? 2 : 1;
}

/* Was the thread seen on this stream, or on the same processor in another channel of the trace? */
static bool thread_was_on(const struct analysis *analysis, const struct thread *thread,
                          const struct stream *stream)
{
    for (unsigned i = 0; i < thread->streams->len; i++) {
        const struct stream *seen = analysis_stream_at(analysis, g_array_index(thread->streams, uint32_t, i));

        if (seen == stream || (seen->channel->group == stream->channel->group &&
                               seen->cpu_id != EVENT_UNKNOWN_ID && seen->cpu_id == stream->cpu_id))
            return true;
    }
    return false;
}

bool loss_hides(const struct process *process, int64_t vtid, enum event_id id, int64_t begin_ns,
                int64_t end_ns, struct loss *loss_out)
{
    const struct analysis *analysis = process->analysis;
    const unsigned count = analysis_stream_count(analysis);
    const struct thread *thread = vtid == EVENT_UNKNOWN_ID ? NULL : process_find_thread(process, vtid);
    const struct loss before = { .kind = LOSS_OVERWRITTEN, .begin_ns = analysis_begin_ns(analysis) };
    const struct loss *found = NULL;
    int rank = 1;

    if (thread && !thread->streams->len)
        thread = NULL; /* known by name only */
    for (unsigned i = 0; i < count; i++) {
        const struct stream *stream = analysis_stream_at(analysis, i);

        if (stream->channel->group == process->trace->group)
            rank = MAX(rank, channel_rank(stream->channel, id));
    }
    for (unsigned i = 0; i < count; i++) {
        const struct stream *stream = analysis_stream_at(analysis, i);

        if ((!stream->losses->len && stream->overwritten_until_ns < begin_ns) ||
            stream->channel->group != process->trace->group || channel_rank(stream->channel, id) < rank)
            continue;
        if (thread && !thread_was_on(analysis, thread, stream))
            continue;
        if (stream->overwritten_until_ns >= begin_ns)
            found = &before;
        for (unsigned j = 0; j < stream->losses->len; j++) {
            const struct loss *loss = &g_array_index(stream->losses, struct loss, j);

            if (overlaps(loss, begin_ns, end_ns) && (!found || loss->begin_ns < found->begin_ns))
                found = loss;
        }
    }
    if (found && loss_out)
        *loss_out = *found;
    return found != NULL;
}

static int64_t trace_end_ns(const struct process *process)
{
    const struct analysis *analysis = process->analysis;
    int64_t end_ns = process->last_ns;

    for (unsigned i = 0; i < analysis_stream_count(analysis); i++) {
        const struct channel *channel = analysis_stream_at(analysis, i)->channel;

        if (channel->group == process->trace->group)
            end_ns = MAX(end_ns, channel->last_ns);
    }
    return end_ns;
}

/* Killed, most likely: nothing more came of it, not even the samples of every second. */
static bool fell_silent(const struct process *process, int64_t end_ns)
{
    const int64_t sampled_for_ns = process->vma.time_ns - process->sampled_since_ns;

    return process->samples >= SAMPLES_MIN && end_ns - process->last_ns > SILENCE_NS &&
           sampled_for_ns / (process->samples - 1) < SILENCE_NS / 2 &&
           !loss_hides(process, EVENT_UNKNOWN_ID, EVENT_rt_process_vma_sample, process->last_ns, end_ns, NULL);
}

static bool was_succeeded(const struct process *process)
{
    struct device *successor;
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, process->devices);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        if (device_successor(process, value, &successor))
            return true;
    return false;
}

int64_t process_end_ns(const struct process *process)
{
    const int64_t end_ns = trace_end_ns(process);

    return process->ended || fell_silent(process, end_ns) || was_succeeded(process) ? process->last_ns : end_ns;
}
