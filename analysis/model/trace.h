/**
 * Where events came from, and where some are missing: traces, channels, streams, their lost intervals, and the
 * question that checks ask before they conclude from silence: loss_hides().
 */
#ifndef ANALYSIS_MODEL_TRACE_H
#define ANALYSIS_MODEL_TRACE_H

#include "core/analysis.h"
#include "model/process.h"

struct trace {
    unsigned index;
    unsigned group; /**< traces of one recording that hold the same processes (rotated chunks) share it */
    char *path, *hostname, *procname, *clock_uuid;
    char *group_key;
    int64_t vpid;
    bool declared[EVENT_CLASS_COUNT];
    bool recorded[SET_COUNT];
};

/** A stream class: what a tracer calls a channel. Traces of one group share it. */
struct channel {
    unsigned group;
    uint64_t class_id;
    bool seen[EVENT_COUNT];
    bool seen_set[SET_COUNT];
    int64_t last_ns; /**< last event of it */
};

struct loss {
    enum analysis_loss kind;
    int64_t begin_ns, end_ns; /**< end_ns INT64_MAX: cut */
};

struct stream {
    unsigned index;
    struct trace *trace;
    struct channel *channel;
    int64_t cpu_id;
    char *path;
    GArray *losses; /**< struct loss, bounded: neighbours are merged when there are too many */
    int64_t overwritten_until_ns; /**< what was before is not in the recording any more; INT64_MIN: nothing */
    /* the last event's origin, so that a run of events of one thread costs no look-up */
    int64_t vpid, vtid;
    struct process *process;
    struct thread *thread;
    const struct dialect *dialect; /**< of that event */
};

/**
 * May an event that process @process would have emitted between @begin_ns and @end_ns be among the lost ones?
 *
 * Looks at the streams that matter: those of the channels that carry @id (never seen: its set; else all), of the
 * processors on which thread @vtid was seen; if it was never seen or is EVENT_UNKNOWN_ID, every stream of those channels.
 * Returns: whether; loss_out (may be NULL) gets the first such interval.
 * Exact only after the last event: a thread may be seen elsewhere later, and a loss may be told late.
 */
bool loss_hides(const struct process *process, int64_t vtid, enum event_id id, int64_t begin_ns,
                int64_t end_ns, struct loss *loss_out);

/**
 * When the process ends: with its last event, if something says that it ended (its loops were destroyed; a later process took
 * over one of its devices; its sampler, which writes every second whatever else hangs, fell silent for good, and no
 * events were lost there); else with the end of its trace. Other traces go on by clocks of their own.
 * Exact only after the last event.
 */
int64_t process_end_ns(const struct process *process);

#endif
