/**
 * A report (JSON, see ../README.md) as text for a ticket: the verdict first, then each finding with its evidence and
 * advice, what could not be judged, events lost, and the facts of the environment.
 *
 *     char *text = report_text(report, isatty(STDOUT_FILENO));
 */
#ifndef ANALYSIS_REPORT_TEXT_H
#define ANALYSIS_REPORT_TEXT_H

#include <jansson.h>
#include <stdbool.h>

/** Never NULL; the caller frees it with g_free(). Members that the report lacks are left out; control characters in names
 * are written out (printable.h). */
char *report_text(const json_t *report, bool colours);

#endif
