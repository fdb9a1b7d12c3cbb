/**
 * The limits of the checks as options: one table for the command line, the plugin's parameters and the manual.
 */
#ifndef ANALYSIS_ANALYZE_LIMITS_H
#define ANALYSIS_ANALYZE_LIMITS_H

#include <glib.h>

#include "core/analysis.h"

/**
 * Add --NAME=VALUE for each limit to @group, with its default in the text. The group's user data is the struct
 * analysis_options to fill.
 */
void limits_add_options(GOptionGroup *group);

/**
 * Set the limit called @name ("stuck-request") from text: a duration "10s", "1.5ms", "200us", "5ns"; a share "5%"; a
 * count "1000".
 *
 * Returns:   NULL, or what is wrong and what would be right. The caller frees it.
 */
char *limits_set(struct analysis_options *options, const char *name, const char *text);

/** The name of each limit, NULL after the last. */
const char *limits_name(unsigned index);
/** What that limit is, as --help says it. */
const char *limits_meaning(unsigned index);
/** The value of the limit called @name as text ("10s"), NULL if there is none. The caller frees it with g_free(). */
char *limits_text(const struct analysis_options *options, const char *name);

#endif
