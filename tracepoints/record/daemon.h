/* The LTTng session daemon: found, or started. */
#ifndef RECORD_DAEMON_H
#define RECORD_DAEMON_H

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

/**
 * Make sure that a session daemon answers; start one if none runs. The started daemon stays: other recordings
 * may come to use it, and programs register with it in advance.
 *
 * The program that is started is $LTTNG_SESSIOND_PATH, as for the `lttng` command, else lttng-sessiond of $PATH.
 *
 * Returns:   true, *started_out says whether it was started; false with @error set.
 */
bool record_daemon_ensure(bool *started_out, GError **error);

/**
 * Wait until the daemon knows @pid as a process with tracepoints of ours. A process that ran before the daemon
 * registers within moments after its start.
 *
 * Returns:   false with @error set: no such process, or none that offers our tracepoints within a few seconds.
 */
bool record_daemon_await_process(pid_t pid, GError **error);

#endif
