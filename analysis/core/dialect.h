/**
 * A dialect: how the events of another program are said in ours, so that the same model and the same checks serve both.
 *
 * Its events have ids above EVENT_COUNT (events/event.h) and take the way of all events, into analysis_event(); there the process
 * that emitted them gets the dialect, and the dialect derives events of ours from them, one by one and in order. A process
 * speaks one dialect; a recording may hold processes of several.
 *
 * Nothing may be derived that was not seen: what a program does not record is named in `skip`, not guessed.
 * Thread: one at a time.
 */
#ifndef ANALYSIS_CORE_DIALECT_H
#define ANALYSIS_CORE_DIALECT_H

#include "model/process.h"

struct dialect {
    const char *name; /**< of the program, for people: "QEMU" */

    void *(*create)(struct process *process);
    /** One event of the dialect, of a process that speaks it. May call analysis_derive() any number of times. */
    void (*event)(void *state, const struct event *event);
    /** No more events: what is pending. May call analysis_derive() with time and stream of the process's last event. */
    void (*finish)(void *state);
    void (*destroy)(void *state);

    /** Would an event of ours have been derived, if it had happened? @declared: of the process's traces, by enum event_id. */
    bool (*declares)(const bool *declared, enum event_id id);
    /** Of which events of the dialect the finding is decided, for people; NULL: of none. */
    const char *(*source)(const char *finding_id);
    /** Why the finding cannot be decided for the process; NULL: it can. Lives as long as the program. */
    const char *(*skip)(const struct process *process, const bool *declared, const char *finding_id);
};

/** What QEMU's LTTng backend emits. */
extern const struct dialect dialect_qemu;

/** The dialect that an event belongs to; NULL: our own. */
static inline const struct dialect *dialect_of(enum event_id id)
{
    return id > EVENT_COUNT ? &dialect_qemu : NULL;
}

/** An event of ours that follows from the one that is being taken; time, stream and origin are that one's. */
void analysis_derive(struct process *process, const struct event *event);

#endif
