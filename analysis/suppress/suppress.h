/**
 * Known findings: rules in a file, a line each, that take matching findings out of a report's verdict.
 *
 *     # ID [KEY=VALUE...] [# reason]
 *     loop-hog loop=main process=vblkd until=2027-03-31   # the control socket's snapshot; being split up
 *     pool-* device="my disk"
 *
 *     struct suppressions *known = suppressions_create();
 *     char *why = suppressions_read(known, "known.txt");        // NULL, or FILE:LINE: what is wrong
 *     suppressions_apply(known, report, g_get_real_time());
 *     suppressions_destroy(known);
 *
 * ID and VALUE are patterns of fnmatch(3); all keys of a rule must match. Keys are those of a finding's subject, process,
 * pid and host (of the subject's process), and cause. until=YYYY-MM-DD is the last day (UTC) on which the rule holds.
 *
 * Thread: one at a time. Ownership: texts passed in are copied.
 */
#ifndef ANALYSIS_SUPPRESS_SUPPRESS_H
#define ANALYSIS_SUPPRESS_SUPPRESS_H

#include <jansson.h>
#include <stdint.h>

struct suppressions;

struct suppressions *suppressions_create(void);
void suppressions_destroy(struct suppressions *known);

/** Add the rules of a file. Returns NULL, or the error with file and line; the caller frees it. */
char *suppressions_read(struct suppressions *known, const char *path);

/** The same for text that was read already; @name stands for the file in errors and in the report. */
char *suppressions_parse(struct suppressions *known, const char *name, const char *text);

/**
 * Move what matches from "findings" of @report to "suppressed", each with its "suppressed_by", and add
 * "suppression_rules": those that matched nothing and those that have expired at @now_us (since the epoch).
 */
void suppressions_apply(const struct suppressions *known, json_t *report, int64_t now_us);

#endif
