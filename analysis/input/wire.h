/**
 * What a decoding process writes into its ring for the one that merges: the calls of a feed, each with its place in the
 * order of all messages.
 */
#ifndef ANALYSIS_INPUT_WIRE_H
#define ANALYSIS_INPUT_WIRE_H

#include "input/intake.h"
#include "input/ring.h"

/* Writing */

struct wire_writer {
    struct ring *ring;
    int64_t time_ns; /**< place of what is written next */
    unsigned rank;
    unsigned trace_count, stream_count;
};

extern const struct feed_target wire_target; /**< its data is a struct wire_writer */

/** Nothing follows. @failure: why reading failed, or NULL. */
void wire_end(struct wire_writer *writer, const char *failure);

/* Reading */

struct wire_reader {
    struct ring *ring;
    GArray *traces, *streams; /**< unsigned: the intake's indexes by those of the writer */
};

void wire_reader_init(struct wire_reader *reader, struct ring *ring);
void wire_reader_clear(struct wire_reader *reader);

/** Where a record stands in the order of all messages. */
struct wire_place {
    int64_t time_ns;
    unsigned rank;
};

struct wire_place wire_place(const void *record);

/** It is the end of what the process read. *@failure_out: why reading failed, or NULL; lives as long as the record. */
bool wire_is_end(const void *record, const char **failure_out);

/** Hand a record that is not the end to the intake. Its memory changes. */
void wire_deliver(struct wire_reader *reader, void *record, struct intake *intake);

#endif
