/**
 * `vblkscope explain`: says what a finding means, how it is decided, and what to do.
 */
#ifndef ANALYSIS_EXPLAIN_EXPLAIN_H
#define ANALYSIS_EXPLAIN_EXPLAIN_H

#include <stdbool.h>

/**
 * Run the subcommand.
 *
 * Shape:     argv[0] is the subcommand's name. Ends with NULL.
 * Returns:   exit status: 0 done, 1 the text could not be written, 2 usage.
 */
int vblkscope_explain_main(int argc, char **argv);

/**
 * The explanation of one finding as text, lines broken at @width.
 *
 * Returns:   NULL if there is no such finding. The caller frees it with g_free().
 */
char *explain_text(const char *id, unsigned width, bool colours);

/** @text with {NAME} replaced by the default of limit NAME. The caller frees it with g_free(). */
char *explain_limits(const char *text);

#endif
