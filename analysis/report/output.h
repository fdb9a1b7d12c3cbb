/**
 * Where a report goes and in which form.
 */
#ifndef ANALYSIS_REPORT_OUTPUT_H
#define ANALYSIS_REPORT_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>

/** REPORT_VERBOSE: text with the tables. */
enum report_format { REPORT_TEXT, REPORT_VERBOSE, REPORT_JSON, REPORT_HTML };

/** False: no such format. */
bool report_format_by_name(const char *name, enum report_format *format_out);

enum report_severity { SEVERITY_OF_INFO, SEVERITY_OF_WARNING, SEVERITY_OF_ERROR };

/** False: no such severity. */
bool report_severity_by_name(const char *name, enum report_severity *severity_out);

/**
 * The exit status when findings of at least @fail_on count, given the one that the analysis computed (which counts
 * warnings and errors).
 */
int report_exit_status(const json_t *report, int status, enum report_severity fail_on);

/**
 * Write @report to @path, or to standard output if it is NULL. A file is complete or not there: it is written beside
 * its place and renamed. Colours only on a terminal and without NO_COLOR in the environment.
 *
 * Returns:   NULL, or the error: object, cause, remedy. The caller frees it.
 */
char *report_write(const json_t *report, enum report_format format, const char *path);

#endif
