#include "input/run.h"

#include <string.h>

/* The source components: traces of one UUID together, so that rotated chunks become one trace. */
static GPtrArray *group_folders(const GPtrArray *traces)
{
    GPtrArray *groups = g_ptr_array_new_with_free_func((GDestroyNotify)g_strfreev);
    bool *taken = g_new0(bool, traces->len + 1);

    for (unsigned i = 0; i < traces->len; i++) {
        const struct input_trace *first = g_ptr_array_index(traces, i);
        GPtrArray *group;

        if (taken[i])
            continue;
        group = g_ptr_array_new();
        g_ptr_array_add(group, g_strdup(first->read_folder));
        for (unsigned j = i + 1; j < traces->len; j++) {
            const struct input_trace *other = g_ptr_array_index(traces, j);

            if (taken[j] || first->alone || other->alone || !first->metadata.has_uuid ||
                !other->metadata.has_uuid ||
                memcmp(first->metadata.uuid, other->metadata.uuid, sizeof(first->metadata.uuid)) != 0)
                continue;
            taken[j] = true;
            g_ptr_array_add(group, g_strdup(other->read_folder));
        }
        g_ptr_array_add(group, NULL);
        g_ptr_array_add(groups, g_ptr_array_free(group, FALSE));
    }
    g_free(taken);
    return groups;
}

/* Below this, other processes cost more than they save. */
#define BYTES_WORTH_SHARING (8u << 20)

static unsigned count_decoders(const struct inputs *inputs, const struct run_options *options)
{
    uint64_t bytes = 0;
    unsigned streams = 0;

    for (unsigned i = 0; i < inputs->traces->len; i++) {
        const struct input_trace *trace = g_ptr_array_index(inputs->traces, i);

        for (unsigned j = 0; j < trace->streams->len; j++) {
            const struct input_stream *stream = g_ptr_array_index(trace->streams, j);

            bytes += stream->summary.file_bytes;
            streams += stream->summary.file_bytes > 0;
        }
    }
    if (options->jobs > 0)
        return options->jobs == 1 ? 0 : MIN(options->jobs, streams);
    return bytes < BYTES_WORTH_SHARING || g_get_num_processors() == 1 ? 0 : MIN(g_get_num_processors(), streams);
}

static void attempt_all(const struct inputs *inputs, const struct run_options *options,
                        struct attempt_result *result_out)
{
    struct attempt_job job = {
        .folders = group_folders(inputs->traces),
        .expected = inputs->traces,
        .refusals = inputs->refusals,
        .analysis_options = options->analysis_options,
        .decoders = count_decoders(inputs, options),
        .stall_seconds = options->stall_seconds,
        .progress = options->progress,
        .data = options->data,
    };

    attempt_run(&job, result_out);
    if (result_out->failure && !result_out->stalled && !attempt_interrupted() && job.decoders > 0) {
        /* one of the processes may have been ended by something else: before an input is blamed, one reads it alone */
        attempt_result_clear(result_out);
        job.decoders = 0;
        attempt_run(&job, result_out);
    }
    g_ptr_array_unref(job.folders);
}

/* Can a folder be read alone? NULL, or why not. */
static char *probe(const char *folder, unsigned stall_seconds, uint64_t *packet_count_out)
{
    GPtrArray *folders = g_ptr_array_new(), *expected = g_ptr_array_new();
    char *list[] = { (char *)folder, NULL };
    struct attempt_job job = { .folders = folders, .expected = expected, .stall_seconds = stall_seconds };
    struct attempt_result result;
    char *failure;

    g_ptr_array_add(folders, list);
    attempt_run(&job, &result);
    failure = g_steal_pointer(&result.failure);
    if (packet_count_out)
        *packet_count_out = result.packet_count;
    attempt_result_clear(&result);
    g_ptr_array_unref(folders);
    g_ptr_array_unref(expected);
    return failure;
}

/* Find out how many packets of each stream can be decoded. Returns false if no stream is to blame. */
static bool probe_streams(struct inputs *inputs, struct input_trace *trace, unsigned stall_seconds)
{
    bool blamed = false;

    for (unsigned i = 0; i < trace->streams->len && !attempt_interrupted(); i++) {
        struct input_stream *stream = g_ptr_array_index(trace->streams, i);
        uint64_t packet_count = 0;
        char *why = NULL, *folder, *failure;

        if (stream->summary.packet_count == 0)
            continue;
        folder = inputs_isolate(inputs, trace, stream, &why);
        failure = folder ? probe(folder, stall_seconds, &packet_count) : NULL;
        if (failure && packet_count < stream->summary.packet_count) {
            stream->packets_max = packet_count;
            blamed = true;
        }
        g_free(failure);
        g_free(folder);
        g_free(why);
    }
    return blamed;
}

static bool has_packets(const struct input_trace *trace)
{
    for (unsigned i = 0; i < trace->streams->len; i++) {
        const struct input_stream *stream = g_ptr_array_index(trace->streams, i);

        if (stream->summary.packet_count > 0)
            return true;
    }
    return false;
}

/* Cut a trace that cannot be read back to what can be, or refuse it. */
static void treat(struct inputs *inputs, struct input_trace *trace, const struct run_options *options,
                  const char *failure)
{
    char *remedy = g_strdup_printf("%s (details: babeltrace2 %s; record again)", failure, trace->folder);
    char *why = NULL;

    if (options->restart)
        options->restart(options->data, trace->folder);
    if (trace->metadata.layout.known && probe_streams(inputs, trace, options->stall_seconds)) {
        why = inputs_salvage(inputs, trace);
        if (!why && has_packets(trace))
            why = probe(trace->read_folder, options->stall_seconds, NULL);
        else if (!why)
            why = g_strdup(remedy);
    } else {
        why = g_strdup(remedy);
    }
    if (why && !attempt_interrupted())
        inputs_refuse(inputs, trace, why);
    g_free(why);
    g_free(remedy);
}

/* Treat every trace that cannot be read alone. Returns false if each can. */
static bool treat_faulty(struct inputs *inputs, const struct run_options *options, const char *failure)
{
    GPtrArray *traces = g_ptr_array_new();
    bool found = false;

    for (unsigned i = 0; i < inputs->traces->len; i++)
        g_ptr_array_add(traces, g_ptr_array_index(inputs->traces, i));
    for (unsigned i = 0; i < traces->len && !attempt_interrupted(); i++) {
        struct input_trace *trace = g_ptr_array_index(traces, i);
        char *why =
            traces->len == 1 ? g_strdup(failure) : probe(trace->read_folder, options->stall_seconds, NULL);

        if (why) {
            treat(inputs, trace, options, why);
            found = true;
        }
        g_free(why);
    }
    g_ptr_array_unref(traces);
    return found;
}

static bool separate(struct inputs *inputs)
{
    bool changed = false;

    for (unsigned i = 0; i < inputs->traces->len; i++) {
        struct input_trace *trace = g_ptr_array_index(inputs->traces, i);

        changed |= !trace->alone;
        trace->alone = true;
    }
    return changed;
}

void run_inputs(struct inputs *inputs, const struct run_options *options, struct run_result *result_out)
{
    memset(result_out, 0, sizeof(*result_out));
    while (inputs->traces->len > 0) {
        struct attempt_result attempt;

        attempt_all(inputs, options, &attempt);
        result_out->interrupted = attempt.interrupted || attempt_interrupted();
        if (!attempt.failure || result_out->interrupted) {
            result_out->report = g_steal_pointer(&attempt.report);
            result_out->exit_status = attempt.exit_status;
            attempt_result_clear(&attempt);
            return;
        }
        /* Each round leaves less: a trace shorter or out, then none merged, then none at all. */
        if (!treat_faulty(inputs, options, attempt.failure) && !separate(inputs)) {
            while (inputs->traces->len > 0)
                inputs_refuse(inputs, g_ptr_array_index(inputs->traces, 0), attempt.failure);
        }
        attempt_result_clear(&attempt);
    }
}

void run_result_clear(struct run_result *result)
{
    g_free(result->report);
    memset(result, 0, sizeof(*result));
}
