/** What a subcommand says when something is wrong: one line on standard error. */
#ifndef ANALYSIS_REPORT_COMPLAIN_H
#define ANALYSIS_REPORT_COMPLAIN_H

#include <glib.h>

/**
 * "vblkscope export: TEXT", with the name that g_set_prgname() was given; the text (object, cause, remedy) is made fit for a
 * terminal (printable.h).
 *
 * Returns:   @status, so that a caller says why and ends in one line.
 */
int complain(int status, const char *format, ...) G_GNUC_PRINTF(2, 3);

#endif
