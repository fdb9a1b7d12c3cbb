/*
 * The program's commands. Each connects, does its work, prints its result on stdout and returns the exit
 * status; a failure is one line on stderr.
 */
#ifndef LOAD_COMMANDS_H
#define LOAD_COMMANDS_H

#include "front_end.h"
#include "options.h"

enum exit_status { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

int command_run(const struct load_options *options);
int command_verify(const struct load_options *options);
int command_info(const struct load_options *options);

/** "vblk-load: " and the text on stderr. Returns EXIT_FAILED. */
int report_failure(const char *text);

#endif
