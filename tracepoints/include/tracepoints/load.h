/**
 * Bring the tracepoints of a running program to life.
 *
 * A program compiles the points in (they cost under a nanosecond each while nobody records) and asks for the
 * provider, which needs LTTng, when it wants to be traceable. Without LTTng the program goes on untraced.
 *
 *     if (tracepoints_load(wake_sampler, &sampler) < 0)
 *         log("not traceable: %s", tracepoints_load_reason());
 *
 * The provider, vblkscope-tracepoints.so, is looked for in this order, and the first that exists is used:
 *
 *     1. the file that the environment variable VBLKSCOPE_TRACEPOINTS names (then nowhere else);
 *     2. tracepoints/ of the build folder that the executable lies in (a folder above it with build.ninja),
 *        for programs that run uninstalled;
 *     3. LIBDIR/vblkscope/ of the prefix that the executable lies in, for a prefix that was moved;
 *     4. LIBDIR/vblkscope/ of the prefix it was configured with.
 */
#ifndef TRACEPOINTS_LOAD_H
#define TRACEPOINTS_LOAD_H

#include <stdbool.h>

/**
 * Load the provider, and from now on call @session_started at each start of a recording, so that what already
 * exists can be told to it (a baseline).
 *
 * It is called when a recording starts (`lttng start`, also of a second one beside the first), at
 * `lttng regenerate statedump`, and once during this call for recordings that are already active. A recorder may
 * cause several calls: a baseline changes nothing when it is read twice. LTTng has no official hook for this; the
 * one that is used rests on a name inside lttng-ust (lttng_ust_statedump:start), so offer another way to ask for a
 * baseline too.
 *
 * Returns:   0; tracepoints_load_reason() is NULL then.
 * Errors:    -ENOENT    no provider in any of the places above.
 *            -ELIBACC   LTTng-UST is not installed, or the provider does not load.
 *            -EALREADY  it was loaded before; nothing changes.
 *            Nothing is printed and nothing is changed: the program runs on untraced.
 * Thread:    one at a time. Takes milliseconds; if a session daemon is there and does not answer, as long as
 *            lttng-ust waits for it (LTTNG_UST_REGISTER_TIMEOUT, 3 s unless set). Starts lttng-ust's two threads.
 *            @session_started runs on one of those with lttng-ust's lock held: it may set an atomic or write an
 *            eventfd, and must not block, emit, or wake a loop. It may run before this call returns.
 * Ownership: @opaque must live until tracepoints_ignore_sessions(). The provider stays loaded until exit.
 */
int tracepoints_load(void (*session_started)(void *opaque), void *opaque);

/**
 * Stop the calls of @session_started. When it returns, none runs and none will. Recording goes on.
 *
 * Thread:    any but @session_started itself. Waits for a call in progress.
 */
void tracepoints_ignore_sessions(void);

/** True once the provider is in. Thread: any. */
bool tracepoints_loaded(void);

/**
 * Why the last tracepoints_load() failed, as one line that names object, cause and remedy; NULL if it did not.
 *
 * Thread:    after tracepoints_load(), any.
 * Ownership: the callee's; valid until the next tracepoints_load().
 */
const char *tracepoints_load_reason(void);

#endif
