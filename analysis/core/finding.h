/**
 * What checks tell: findings, one per id and subject with the highest severity it reached, and what they could not tell.
 *
 *     struct finding *f = finding_get(env, "stale-fd", "handler %" PRIu64, handler->id);
 *     finding_raise(f, SEVERITY_ERROR);
 *     finding_subject_handler(f, handler);
 *     finding_span(f, begin_ns, end_ns);
 *     finding_add_count(f, 1);
 *     finding_evidence(f, time_ns, EVENT_rt_loop_fd_attach, "%s attached ...", thread_text(...));
 *     finding_summary(f, "...");
 *
 * Ownership: the analysis owns findings. Getting one makes it part of the report: get it only when the rule is broken.
 */
#ifndef ANALYSIS_CORE_FINDING_H
#define ANALYSIS_CORE_FINDING_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "events/event.h"
#include "model/process.h"

enum severity { SEVERITY_INFO, SEVERITY_WARNING, SEVERITY_ERROR };

struct check_env;
struct finding;

/** Find or make the finding of this id about this subject of the process; @key names the subject uniquely. */
struct finding *finding_get(const struct check_env *env, const char *id, const char *key_format, ...)
    G_GNUC_PRINTF(3, 4);
/** The same for what is about no single process. */
struct finding *finding_get_global(struct analysis *analysis, const char *id, const char *key_format, ...)
    G_GNUC_PRINTF(3, 4);

/** Is there one already? */
bool finding_exists(const struct check_env *env, const char *id, const char *key_format, ...)
    G_GNUC_PRINTF(3, 4);
/** Has it a summary? For checks that let the first breach speak. */
bool finding_is_told(const struct finding *finding);

/** Severity becomes at least this. */
void finding_raise(struct finding *finding, enum severity severity);
/** Widen the interval so that it covers [begin_ns, end_ns]. */
void finding_span(struct finding *finding, int64_t begin_ns, int64_t end_ns);
void finding_add_count(struct finding *finding, uint64_t count);

/** Replace the text. */
void finding_summary(struct finding *finding, const char *format, ...) G_GNUC_PRINTF(2, 3);
void finding_cause(struct finding *finding, const char *format, ...) G_GNUC_PRINTF(2, 3);
void finding_advice(struct finding *finding, const char *format, ...) G_GNUC_PRINTF(2, 3);

/** Add a line; the first ones and the last are kept, in order of time. */
void finding_evidence(struct finding *finding, int64_t time_ns, enum event_id id, const char *format, ...)
    G_GNUC_PRINTF(4, 5);

/** The same for what is no event of the traced program; @what stands in its place. */
void finding_note(struct finding *finding, int64_t time_ns, const char *what, const char *format, ...)
    G_GNUC_PRINTF(4, 5);

/** Fill keys of the subject: ids, and names where they are known (else null). */
void finding_subject_loop(struct finding *finding, const struct process *process, uint32_t loop_id);
void finding_subject_thread(struct finding *finding, const struct process *process, int64_t tid);
void finding_subject_handler(struct finding *finding, const struct process *process,
                             const struct handler *handler);
void finding_subject_queue(struct finding *finding, const struct process *process, uint32_t device_id,
                           uint16_t queue_index);
void finding_subject_device(struct finding *finding, const struct process *process, uint32_t device_id);
void finding_subject_lock(struct finding *finding, const struct process *process, uint64_t lock_id);
/** Any other key, @value is stolen. */
void finding_subject(struct finding *finding, const char *key, json_t *value);

/** "Cannot tell": one entry for each id, process and reason. */
void inconclusive(const struct check_env *env, const char *id, int64_t begin_ns, int64_t end_ns,
                  const char *format, ...) G_GNUC_PRINTF(5, 6);

#endif
