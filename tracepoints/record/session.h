/**
 * One LTTng recording session of the user-space domain, driven through liblttng-ctl.
 *
 *     struct record_session *session = record_session_create(&options, &error);
 *     record_session_start(session, &error);
 *     ...
 *     record_session_stop(session, give_up, opaque, &error);
 *     record_session_destroy(session, &error);
 */
#ifndef RECORD_SESSION_H
#define RECORD_SESSION_H

#include "select.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct record_session;

/** Sub-buffers of a channel on each CPU. Both are powers of two. */
struct record_buffers {
    uint64_t piece_bytes;
    uint64_t piece_count;
};

struct record_session_options {
    const char *name;
    const char *output; /**< absolute path of the trace's folder */
    unsigned sets;
    pid_t pid; /**< record this process only; 0: every process */
    struct record_buffers buffers[RECORD_CHANNEL_COUNT];
};

/** The channel's name in LTTng, which its files begin with. */
const char *record_channel_name(enum record_channel channel);

/**
 * Create the session with its channels, contexts (vtid, vpid; core: procname, too) and events. Nothing is recorded yet.
 *
 * Returns:   NULL with @error set; what was made is undone.
 * Thread:    one at a time, for all functions here. They block while the session daemon works, bounded by the
 *            watchdog (watchdog.h).
 */
struct record_session *record_session_create(const struct record_session_options *options, GError **error);

/** Recording is on in every process when this returns; each was asked for a baseline. */
bool record_session_start(struct record_session *session, GError **error);

/**
 * Recording is off and all data is written when this returns.
 *
 * @give_up is asked now and then whether to wait no longer for the data. Once nothing was written for as long as
 * the watchdog waits this gives up by itself.
 */
bool record_session_stop(struct record_session *session, bool (*give_up)(void *opaque), void *opaque,
                         GError **error);

/** Take the session out of LTTng. The trace stays. NULL is allowed. False with @error set: LTTng still has it. */
bool record_session_destroy(struct record_session *session, GError **error);

#endif
