/**
 * The traces of one run: found, checked before babeltrace2 sees them, and salvaged where a stream is damaged.
 *
 *     struct inputs *inputs = inputs_create();
 *     inputs_add(inputs, "recording");             // any number of times
 *     inputs_prepare(inputs);                      // check, and cut damaged streams back in temporary copies
 *     for each struct input_trace in inputs->traces: read trace->read_folder
 *     inputs_destroy(inputs);                      // removes the copies
 *
 * babeltrace2 2.0 refuses a whole trace when one stream file ends inside a packet. Such a stream is read from a
 * temporary copy that ends with its last whole packet; the trace's other files are linked, not copied.
 *
 * Thread: one at a time. Ownership: strings passed in are copied.
 */
#ifndef ANALYSIS_INPUT_INPUTS_H
#define ANALYSIS_INPUT_INPUTS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "input/metadata.h"
#include "input/packets.h"

/** One stream file. */
struct input_stream {
    char *name;           /**< file name in the trace's folder */
    uint64_t packets_max; /**< PACKETS_ALL, or how many are fit to be decoded (found by trying) */
    struct stream_summary summary;
};

struct input_trace {
    char *folder;      /**< as the user knows it */
    char *read_folder; /**< what babeltrace2 is given: the folder, or its salvaged copy */
    struct metadata metadata;
    GPtrArray *streams; /**< struct input_stream, by name */
    bool alone;         /**< never merged with traces of the same UUID */
};

/** Something that could not be read at all. */
struct input_refusal {
    char *path;
    char *reason; /**< cause and remedy */
};

struct inputs {
    GPtrArray *folders;  /**< found, not yet prepared */
    GPtrArray *traces;   /**< struct input_trace, by folder */
    GPtrArray *refusals; /**< struct input_refusal */
    char *scratch;       /**< temporary folder of salvaged copies, or NULL */
    unsigned copy_count;
};

struct inputs *inputs_create(void);
void inputs_destroy(struct inputs *inputs);

/** Search @path for traces. What is no trace becomes a refusal. */
void inputs_add(struct inputs *inputs, const char *path);

/** Check all that was found. Traces that cannot be read become refusals. */
void inputs_prepare(struct inputs *inputs);

/** Leave a trace out, because of @reason (copied). @trace is gone afterwards. */
void inputs_refuse(struct inputs *inputs, struct input_trace *trace, const char *reason);

/**
 * Copy a trace again without the packets that cannot be decoded, as its streams' packets_max say.
 *
 * Returns:   NULL, or why that is not possible. The caller frees it.
 */
char *inputs_salvage(struct inputs *inputs, struct input_trace *trace);

/**
 * A folder that holds one stream of a trace only, to find out whether it can be read. inputs_destroy() removes it.
 *
 * Returns:   its path, or NULL and *@why_out. The caller frees either.
 */
char *inputs_isolate(struct inputs *inputs, const struct input_trace *trace,
                     const struct input_stream *stream, char **why_out);

/** The stream's file as the user knows it. The caller frees it. */
char *input_stream_path(const struct input_trace *trace, const struct input_stream *stream);

#endif
