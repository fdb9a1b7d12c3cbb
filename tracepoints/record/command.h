/* A command that is recorded from its first to its last event. */
#ifndef RECORD_COMMAND_H
#define RECORD_COMMAND_H

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

/**
 * Start @argv with our standard streams and an empty signal mask. The caller reaps it.
 *
 * Returns:   its process id; 0 with @error set.
 */
pid_t record_command_start(char **argv, GError **error);

/** For g_spawn: undoes in a child what the recorder does with signals, which it blocks or ignores. */
void record_reset_signals(gpointer unused);

/**
 * True if @wait_status is a clean end, or an end by a signal that was @asked for; else @error says how the command
 * named @name ended.
 */
bool record_command_check(const char *name, int wait_status, bool asked, GError **error);

#endif
