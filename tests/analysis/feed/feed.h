/**
 * Feeds an analysis with events written as text, and looks into its report. For unit tests of checks and model.
 *
 *     struct feed *f = feed_create(FEED_ALL_SETS);
 *     feed(f, "1.0     22@1 rt_loop:create loop_id=2 name=main thread_id=11\n"
 *             "1.5     11@0 vblk_queue:broken device_id=3 queue_index=1 error=-22 reason=bad\n");
 *     feed_loss(f, 0, 1.2, 1.3);          // stream of processor 0 lost events
 *     feed_end(f, 9);                     // the trace goes on to 9 s
 *     assert_string_equal(feed_findings(f), "queue-broken");
 *     feed_destroy(f);
 *
 * A line is: seconds (at most nine decimals), vtid@cpu ("-@0": no context; "7:11@0": vpid 7), event, field=value ...
 * Empty lines and lines with # are skipped. A mistake in a line fails the test. Each processor is a stream; vpid is 1
 * unless it is given. Values with blanks are written with ~ for the blank.
 */
#ifndef TESTS_ANALYSIS_FEED_FEED_H
#define TESTS_ANALYSIS_FEED_FEED_H

#include <jansson.h>
#include <stdbool.h>

#include "core/analysis.h"

#define FEED_CPUS 4
#define FEED_ALL_SETS 0x1fu
#define FEED_CORE_ONLY (1u << SET_CORE)
#define FEED_QEMU (1u << SET_COUNT) /**< all events of QEMU's */

/**
 * From 1 to 1.1 s: a whole baseline of one process: loops main (2, thread 11) and iothread0 (3, thread 12) and iothread1 (4,
 * thread 13), device 5 "disk", started, with queue 0 (descriptor 30, handler 7) and queue 1 (31, handler 8) in
 * iothread0. The sampler is thread 19 on processor 3.
 */
extern const char feed_baseline[];

struct feed;

/**
 * @sets: bits of enum event_set that are declared. The environment's FEED_WITHOUT names ids of findings, joined by a blank,
 * which are left out of the report: so a test of a check is tested itself (checks/integration_mutants.py).
 */
struct feed *feed_create(unsigned sets);
struct feed *feed_create_with(unsigned sets, const struct analysis_options *options);
void feed_destroy(struct feed *feed);

void feed(struct feed *feed, const char *lines);
/** The same with printf; for loops. */
void feed_format(struct feed *feed, const char *format, ...) __attribute__((format(printf, 2, 3)));
void feed_loss(struct feed *feed, unsigned cpu, double begin_s, double end_s);
void feed_cut(struct feed *feed, unsigned cpu, double begin_s);
/** The trace ends at this time: an event of no meaning, on processor 0, then finish. */
void feed_end(struct feed *feed, double end_s);

/** After feed_end(): ids of findings, sorted, joined by a blank; info findings too. Owned by the feed. */
const char *feed_findings(struct feed *feed);
const char *feed_inconclusive(struct feed *feed);
const char *feed_skipped(struct feed *feed);
/** The only finding with this id; fails the test if there is none or several. Borrowed. */
json_t *feed_finding(struct feed *feed, const char *id);
json_t *feed_report(struct feed *feed);
int feed_status(const struct feed *feed);
/** Does the report hold this text anywhere? */
bool feed_says(struct feed *feed, const char *text);
/** "findings/inconclusive" as above, without events-lost: the whole verdict in one line. Owned by the feed. */
const char *feed_verdict(struct feed *feed);

struct analysis *feed_analysis(struct feed *feed);

/** Values out of JSON; a missing key fails the test. */
const char *json_text_of(json_t *object, const char *key);
int64_t json_number_of(json_t *object, const char *key);

#endif
