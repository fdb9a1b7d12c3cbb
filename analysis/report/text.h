/**
 * A report (JSON, see ../README.md) as text for a ticket: the verdict first, then each finding with its evidence and
 * advice, what could not be judged, events lost, and the facts of the environment.
 *
 *     const struct text_options options = { .width = terminal_width(STDOUT_FILENO), .colours = terminal_colours(STDOUT_FILENO) };
 *     char *text = report_text(report, &options);
 */
#ifndef ANALYSIS_REPORT_TEXT_H
#define ANALYSIS_REPORT_TEXT_H

#include <jansson.h>
#include <stdbool.h>

struct text_options {
    unsigned width; /**< columns to keep to; tables may be wider */
    bool colours;
    bool verbose; /**< with the tables of pool, mappings, loops, locks, queues and latency */
};

/** Never NULL; the caller frees it with g_free(). Members that the report lacks are left out; control characters in names
 * are written out (printable.h). */
char *report_text(const json_t *report, const struct text_options *options);

#endif
