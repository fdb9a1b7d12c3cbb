/**
 * Bounds what the recorder waits for: LTTng's library has no timeouts, so a session daemon that hangs would hang us.
 *
 *     record_watchdog_start(limit_s, gave_up, opaque);
 *     record_watchdog_begin("make its buffers", "core");
 *     ... a call that may block ...
 *     record_watchdog_end();
 *
 * One wait at a time, and all from one thread.
 */
#ifndef RECORD_WATCHDOG_H
#define RECORD_WATCHDOG_H

#include <glib.h>
#include <stdbool.h>

/** Default of the limit, far above what LTTng needs on a busy machine. */
#define RECORD_WAIT_LIMIT_S 60

/** Seconds from the environment variable VBLKSCOPE_RECORD_WAIT, or the default. False: @error tells what is wrong. */
bool record_wait_limit(unsigned *limit_s_out, GError **error);

/**
 * @gave_up:  called in a thread of the watchdog's when a wait has lasted for @limit_s seconds. The thread that waits is stuck, or
 *            is held in record_watchdog_end() if its call has just returned: so all data are at rest. Must end the process.
 */
void record_watchdog_start(unsigned limit_s, void (*gave_up)(const char *what, const char *object, void *opaque),
                           void *opaque);

/** What and object as in "core: cannot make its buffers". Both must stay valid until the end of the wait. Without a
 *  watchdog (in tests of single functions) nothing happens. */
void record_watchdog_begin(const char *what, const char *object);
void record_watchdog_end(void);

/** What the watchdog was started with; the default without one. */
unsigned record_watchdog_limit_s(void);

#endif
