/**
 * How a report in text is put together: what its parts (text.c, facts.c, details.c) share.
 */
#ifndef ANALYSIS_REPORT_WRITER_H
#define ANALYSIS_REPORT_WRITER_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct style {
    const char *error, *warning, *info, *good, *bold, *faint, *reset;
};

struct writer {
    GString *text;
    const struct style *style;
    unsigned width;
    int64_t begin_ns; /**< of the trace: times are given relative to it */
};

/** What @object has under @key; "" or 0 without it. */
const char *report_string(const json_t *object, const char *key);
int64_t report_number(const json_t *object, const char *key);
bool report_has_number(const json_t *object, const char *key);

/** Words from @column on, broken at the width; lines after the first are indented. */
void writer_words(struct writer *writer, const char *text, unsigned indent, unsigned column);
/** "  label text" */
void writer_line(struct writer *writer, const char *label, const char *text);
void writer_heading(struct writer *writer, const char *heading);

/** "+1.500000 s" since the begin of the trace. The caller frees it, as the next. */
char *writer_offset(const struct writer *writer, int64_t time_ns);
/** "2026-12-01 12:00:00.000000 UTC" */
char *time_text(int64_t time_ns);
/** "1.5 ms" */
char *duration_text(int64_t ns);

/** What was recorded: traces, sets, and of each process its version, policies and limits. */
void write_facts(struct writer *writer, const json_t *report);
/** Where to look when nothing is wrong in the device, with figures. */
void write_next_place(struct writer *writer, const json_t *report);
/** Tables of pool, mappings, loops, locks, queues and latency. */
void write_details(struct writer *writer, const json_t *report);

#endif
