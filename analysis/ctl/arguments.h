/**
 * NAME=VALUE words to the JSON arguments of a command, typed as the device describes it.
 *
 * Errors:    NULL: fine; else one line that the caller frees with g_free().
 */
#ifndef ANALYSIS_CTL_ARGUMENTS_H
#define ANALYSIS_CTL_ARGUMENTS_H

#include <jansson.h>

/** The entry of @command in the answer to "commands". NULL with why_out: there is none; it lists those that there are. */
const json_t *arguments_find_command(const json_t *commands, const char *command, char **why_out);

/**
 * @described: that entry. Integers may end in K, M, G or T where the name ends in _bytes; booleans are on, off, true or false.
 *
 * @arguments_out: the caller's.
 */
char *arguments_parse(const json_t *described, char **words, json_t **arguments_out);

#endif
