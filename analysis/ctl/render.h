/**
 * An answer of the control socket as text for a terminal: facts as lines, lists as tables, with units.
 *
 * What a table shows is chosen for the lists that are known, and is everything for those that are not; JSON has the rest.
 */
#ifndef ANALYSIS_CTL_RENDER_H
#define ANALYSIS_CTL_RENDER_H

#include <jansson.h>

/** The text, ended by a newline unless it is empty; control characters in it are made printable. Free with g_free(). */
char *render_answer(const char *command, const json_t *answer);

#endif
