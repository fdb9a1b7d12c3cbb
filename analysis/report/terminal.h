/**
 * Text for a terminal: how wide it is, whether it shows colours, and words broken into lines.
 *
 * Source: https://no-color.org (NO_COLOR, not empty, switches colours off); POSIX, environment variable COLUMNS.
 */
#ifndef ANALYSIS_REPORT_TERMINAL_H
#define ANALYSIS_REPORT_TERMINAL_H

#include <glib.h>
#include <stdbool.h>

/** Of text that goes to a file or a pipe, and the most that a terminal gets: longer lines are hard to read. */
#define TERMINAL_WIDTH 110

/** Columns to fill, 40 to TERMINAL_WIDTH: those of the terminal behind @fd (COLUMNS comes first), else TERMINAL_WIDTH. */
unsigned terminal_width(int fd);

/** @fd is a terminal, TERM is not "dumb", and NO_COLOR is not set. */
bool terminal_colours(int fd);

/**
 * Append the words of @text and a line end, broken at @width columns; @column is where the first word stands, lines after
 * the first are indented by @indent.
 */
void wrap_text(GString *out, const char *text, unsigned indent, unsigned column, unsigned width);

#endif
