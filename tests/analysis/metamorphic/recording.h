/**
 * What an analysis was told of a recording, kept in memory: read once through the real reader, changed, told again.
 *
 *     struct recording *story = recording_read("cases/s01-stale-fd");
 *     json_t *report = recording_report(story, &status);
 *
 * Built with the linker's --wrap for the calls that the reader makes (see meson.build).
 */
#ifndef TESTS_ANALYSIS_METAMORPHIC_RECORDING_H
#define TESTS_ANALYSIS_METAMORPHIC_RECORDING_H

#include <glib.h>
#include <jansson.h>

#include "core/analysis.h"

enum entry_kind { ENTRY_EVENT, ENTRY_UNKNOWN, ENTRY_LOSS };

/** One call, in the order of the calls. */
struct entry {
    enum entry_kind kind;
    enum analysis_loss loss;
    int64_t begin_ns, end_ns; /**< of a loss */
    struct event event;       /**< of the others: time_ns and stream; its strings belong to the recording */
};

struct told_stream {
    unsigned trace;
    struct analysis_stream stream;
};

struct recording {
    GArray *traces;  /**< struct analysis_trace */
    GArray *streams; /**< struct told_stream */
    GArray *entries; /**< struct entry */
    GStringChunk *texts;
};

struct recording *recording_new(void);
void recording_free(struct recording *recording);
/** Of everything, or (without entries) of traces and streams only. */
struct recording *recording_copy(const struct recording *recording, bool with_entries);

/** NULL: there is nothing to read. */
struct recording *recording_read(const char *folder);

/** Tell an analysis of it. The caller owns the report. */
json_t *recording_report(const struct recording *recording, int *status_out);

static inline struct entry *entry_at(const struct recording *recording, unsigned index)
{
    return &g_array_index(recording->entries, struct entry, index);
}

#endif
