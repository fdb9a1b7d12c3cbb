/**
 * Text from outside (names in a trace, paths) made fit for a terminal.
 *
 * A recording can come from anywhere, and a terminal obeys what it is shown: escape sequences can hide a verdict, change
 * the window's title, or type into the shell.
 *
 * Source: ECMA-48, 5.2 and 5.3 (C0 and C1 control functions); Unicode, UAX 9 (directional formatting characters).
 */
#ifndef ANALYSIS_REPORT_PRINTABLE_H
#define ANALYSIS_REPORT_PRINTABLE_H

#include <jansson.h>

/**
 * A copy in which control characters, characters that turn the direction of text, and bytes that are no UTF-8 are
 * written as \xNN or \u{NNNN}. Never NULL; the caller frees it with g_free().
 */
char *printable_text(const char *text);

/** A deep copy of @value with every string made printable. The caller drops it with json_decref(). */
json_t *printable_json(const json_t *value);

#endif
