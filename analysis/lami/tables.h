/**
 * A report as the tables of LAMI, the machine interface of the LTTng analyses, which Trace Compass reads.
 *
 * What a column holds is said once, in the table of columns in tables.c; metadata and results both follow from it.
 * Source: LAMI specification 1.0.1 (github.com/lttng/lami-spec), "Metadata object", "Result table object", "Data objects".
 */
#ifndef ANALYSIS_LAMI_TABLES_H
#define ANALYSIS_LAMI_TABLES_H

#include <jansson.h>
#include <stdint.h>

#define LAMI_MAJOR 1
#define LAMI_MINOR 0

/** The metadata object. @version: of the analysis, "MAJOR.MINOR.PATCH" or shorter. New reference. */
json_t *lami_metadata(const char *version);

struct lami_choice {
    int64_t begin_ns, end_ns; /**< findings that touch this time; INT64_MIN, INT64_MAX: all */
    uint64_t rows_max;        /**< of each table; 0: all */
};

/** The analysis results object. Only tables that have rows, but always that of findings. New reference. */
json_t *lami_results(const json_t *report, const struct lami_choice *choice);

/** An error object. New reference. */
json_t *lami_error(const char *message);

#endif
