/*
 * The program's commands. Each connects, does its work, prints its result on stdout and returns the exit
 * status; a failure is one line on stderr.
 */
#ifndef LOAD_COMMANDS_H
#define LOAD_COMMANDS_H

#include "front_end.h"
#include "options.h"
#include "report.h"

int command_run(const struct load_options *options);
int command_verify(const struct load_options *options);
int command_info(const struct load_options *options);

#endif
