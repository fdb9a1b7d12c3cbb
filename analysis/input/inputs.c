#include "input/inputs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "input/locate.h"
#include "input/salvage.h"

static void stream_free(gpointer pointer)
{
    struct input_stream *stream = pointer;

    g_free(stream->name);
    g_free(stream);
}

static void trace_free(gpointer pointer)
{
    struct input_trace *trace = pointer;

    g_free(trace->folder);
    g_free(trace->read_folder);
    if (trace->streams)
        g_ptr_array_unref(trace->streams);
    g_free(trace);
}

static void refusal_free(gpointer pointer)
{
    struct input_refusal *refusal = pointer;

    g_free(refusal->path);
    g_free(refusal->reason);
    g_free(refusal);
}

struct inputs *inputs_create(void)
{
    struct inputs *inputs = g_new0(struct inputs, 1);

    inputs->folders = locate_create();
    inputs->traces = g_ptr_array_new_with_free_func(trace_free);
    inputs->refusals = g_ptr_array_new_with_free_func(refusal_free);
    return inputs;
}

void inputs_destroy(struct inputs *inputs)
{
    if (!inputs)
        return;
    if (inputs->scratch)
        salvage_remove_folder(inputs->scratch);
    g_free(inputs->scratch);
    g_ptr_array_unref(inputs->folders);
    g_ptr_array_unref(inputs->traces);
    g_ptr_array_unref(inputs->refusals);
    g_free(inputs);
}

static void refuse(struct inputs *inputs, const char *path, const char *reason)
{
    struct input_refusal *refusal = g_new0(struct input_refusal, 1);

    refusal->path = g_strdup(path);
    refusal->reason = g_strdup(reason);
    g_ptr_array_add(inputs->refusals, refusal);
}

void inputs_add(struct inputs *inputs, const char *path)
{
    char *why = locate_add(inputs->folders, path);

    if (why)
        refuse(inputs, path, why);
    g_free(why);
}

char *input_stream_path(const struct input_trace *trace, const struct input_stream *stream)
{
    return g_build_filename(trace->folder, stream->name, NULL);
}

static int compare_streams(gconstpointer a, gconstpointer b)
{
    const struct input_stream *const *left = a, *const *right = b;

    return strcmp((*left)->name, (*right)->name);
}

/* babeltrace2 takes every regular file as a stream, but for the metadata and hidden files. */
static char *list_streams(struct input_trace *trace)
{
    GError *error = NULL;
    GDir *dir = g_dir_open(trace->folder, 0, &error);
    const char *name;

    if (!dir) {
        char *why = g_strdup_printf("cannot be searched: %s (check permissions)", error->message);

        g_error_free(error);
        return why;
    }
    while ((name = g_dir_read_name(dir))) {
        char *path = g_build_filename(trace->folder, name, NULL);

        if (name[0] != '.' && strcmp(name, "metadata") != 0 && g_file_test(path, G_FILE_TEST_IS_REGULAR)) {
            struct input_stream *stream = g_new0(struct input_stream, 1);

            stream->name = g_strdup(name);
            stream->packets_max = PACKETS_ALL;
            g_ptr_array_add(trace->streams, stream);
        }
        g_free(path);
    }
    g_dir_close(dir);
    g_ptr_array_sort(trace->streams, compare_streams);
    return NULL;
}

static char *walk_streams(struct input_trace *trace, bool *must_copy_out)
{
    for (unsigned i = 0; i < trace->streams->len; i++) {
        struct input_stream *stream = g_ptr_array_index(trace->streams, i);
        char *path = input_stream_path(trace, stream);
        char *why = packets_walk(&stream->summary, &trace->metadata, path, stream->packets_max);

        g_free(path);
        if (why) {
            char *reason = g_strdup_printf("%s %s", stream->name, why);

            g_free(why);
            return reason;
        }
        *must_copy_out |=
            stream->summary.whole_bytes != stream->summary.file_bytes && trace->metadata.layout.known;
    }
    return NULL;
}

static char *make_folder(struct inputs *inputs, char **why_out)
{
    char *folder;

    if (!inputs->scratch) {
        GError *error = NULL;

        inputs->scratch = g_dir_make_tmp("vblkscope-XXXXXX", &error);
        if (!inputs->scratch) {
            *why_out = g_strdup_printf("needs a temporary copy: %s (set TMPDIR to a folder with room)",
                                       error->message);
            g_error_free(error);
            return NULL;
        }
    }
    folder = g_strdup_printf("%s/%u", inputs->scratch, inputs->copy_count++);
    if (mkdir(folder, 0700) < 0) {
        *why_out =
            g_strdup_printf("needs a temporary copy: cannot make %s: %s (set TMPDIR to a folder with room)",
                            folder, g_strerror(errno));
        g_free(folder);
        return NULL;
    }
    return folder;
}

char *inputs_salvage(struct inputs *inputs, struct input_trace *trace)
{
    bool must_copy = false;
    char *why = walk_streams(trace, &must_copy), *folder;

    if (why || !must_copy)
        return why;
    folder = make_folder(inputs, &why);
    if (!folder)
        return why;
    for (unsigned i = 0; i < trace->streams->len && !why; i++) {
        const struct input_stream *stream = g_ptr_array_index(trace->streams, i);

        why = stream->summary.damage
                  ? salvage_cut(trace->folder, folder, stream->name, stream->summary.whole_bytes)
                  : salvage_link(trace->folder, folder, stream->name);
    }
    if (!why)
        why = salvage_link(trace->folder, folder, "metadata");
    if (why) {
        g_free(folder);
        return why;
    }
    g_free(trace->read_folder);
    trace->read_folder = folder;
    return NULL;
}

char *inputs_isolate(struct inputs *inputs, const struct input_trace *trace,
                     const struct input_stream *stream, char **why_out)
{
    char *folder = make_folder(inputs, why_out);

    if (!folder)
        return NULL;
    *why_out = salvage_link(trace->read_folder, folder, "metadata");
    if (!*why_out)
        *why_out = salvage_link(trace->read_folder, folder, stream->name);
    if (*why_out) {
        g_free(folder);
        return NULL;
    }
    return folder;
}

static char *prepare(struct inputs *inputs, struct input_trace *trace)
{
    char *why = metadata_read(&trace->metadata, trace->folder);

    if (!why)
        why = list_streams(trace);
    if (!why)
        why = inputs_salvage(inputs, trace);
    return why;
}

void inputs_prepare(struct inputs *inputs)
{
    locate_finish(inputs->folders);
    for (unsigned i = 0; i < inputs->folders->len; i++) {
        struct input_trace *trace = g_new0(struct input_trace, 1);
        char *why;

        trace->folder = g_strdup(g_ptr_array_index(inputs->folders, i));
        trace->read_folder = g_strdup(trace->folder);
        trace->streams = g_ptr_array_new_with_free_func(stream_free);
        why = prepare(inputs, trace);
        if (why) {
            refuse(inputs, trace->folder, why);
            trace_free(trace);
        } else {
            g_ptr_array_add(inputs->traces, trace);
        }
        g_free(why);
    }
    g_ptr_array_set_size(inputs->folders, 0);
}

void inputs_refuse(struct inputs *inputs, struct input_trace *trace, const char *reason)
{
    refuse(inputs, trace->folder, reason);
    (void)g_ptr_array_remove(inputs->traces, trace);
}
