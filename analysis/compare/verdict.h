/**
 * Two sets of reports side by side: what changed, by how much, and whether that is more than chance.
 *
 * Test: Welch's t-test over the repeats, where both sides have at least two; else over ten batches of the first recording of each side. Of all rows
 * that are called changed at most one in twenty is so by chance on average (statistics.h). Why not a test of ranks: of three
 * repeats a side the smallest probability it can give is 0.1, so that it would never tell anything.
 */
#ifndef ANALYSIS_COMPARE_VERDICT_H
#define ANALYSIS_COMPARE_VERDICT_H

#include <glib.h>
#include <jansson.h>

/**
 * @old_reports, @new_reports: json_t *, at least one each, all with "series".
 *
 * Returns:   { "schema": "vblkscope-compare-1", "test", "old_runs", "new_runs",
 *              "findings": { "old_only": [ { "id", "severity", "cause", "summary", "runs" } ], "new_only": [...] },
 *              "rows": [ { "group", "name", "unit", "old", "new", "change_percent", "p", "verdict" } ] }
 *            verdict: better, worse, changed, same, or untested. A value that one side does not have is null.
 */
json_t *compare_reports(const GPtrArray *old_reports, const GPtrArray *new_reports);

/** The same as text. The caller frees it with g_free(). */
char *compare_text(const json_t *comparison);

#endif
