/**
 * A check: one finding (or a pair that shares its state) of the contract's section 3, as a state machine per process.
 *
 *     static const enum event_id events[] = { EVENT_vblk_queue_broken, EVENT_COUNT };
 *     const struct check_class check_queue_broken = {
 *         .ids = { "queue-broken" }, .events = events, .create = create, .event = on_event,
 *         .finish = finish, .destroy = g_free,
 *     };
 *
 * Call order: create at the process's first event, event for each subscribed event (the model is already updated),
 * finish once at the end (losses and threads are all known then), destroy.
 * A check concludes from silence only in finish, after it asked loss_hides() and process_known_since().
 * Thread: one at a time.
 */
#ifndef ANALYSIS_CORE_CHECK_H
#define ANALYSIS_CORE_CHECK_H

#include "core/analysis.h"
#include "core/finding.h"
#include "model/process.h"
#include "model/trace.h"

#define CHECK_IDS_MAX 3
#define NEEDS(set) (1u << (set))

/** What a check may look at and tell. One per process and check; lives as long as the state. */
struct check_env {
    struct analysis *analysis;
    struct process *process;
    const struct analysis_options *options;
    const struct check_class *check;
    void *shared; /**< what shared_create() returned */
};

struct check_class {
    const char *ids[CHECK_IDS_MAX]; /**< of its findings; NULL ends */
    unsigned needs;                 /**< NEEDS(SET_LOOP) | ...; core is always needed */
    bool needs_nothing;             /**< not even core (events-lost) */
    const enum event_id *events;    /**< EVENT_COUNT ends; NULL: none */

    void *(*create)(struct check_env *env);
    void (*event)(void *state, const struct occurrence *what);
    void (*finish)(void *state); /**< may be NULL */
    void (*destroy)(void *state);

    /* For what spans processes; any may be NULL. shared_finish runs after the last finish(). */
    void *(*shared_create)(struct analysis *analysis);
    void (*shared_finish)(void *shared);
    void (*shared_destroy)(void *shared);
};

/** Does the process's trace have the event declared? */
bool process_declares(const struct process *process, enum event_id id);
/** Was the set recorded for this process? */
bool process_records(const struct process *process, enum event_set set);

/** Does the check of this id run for the process? For what two checks share out between them. */
bool check_judges(const struct check_env *env, const char *id);

const struct analysis_options *analysis_options_of(const struct analysis *analysis);
unsigned analysis_process_count(const struct analysis *analysis);
struct process *analysis_process(const struct analysis *analysis, unsigned index);
unsigned analysis_stream_count(const struct analysis *analysis);
const struct stream *analysis_stream_at(const struct analysis *analysis, unsigned index);
/** First and last event of everything; valid once there was one. */
int64_t analysis_begin_ns(const struct analysis *analysis);
int64_t analysis_end_ns(const struct analysis *analysis);

#endif
