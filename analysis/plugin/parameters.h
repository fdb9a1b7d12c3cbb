/**
 * Parameters that the plugin's component classes share: which checks run, and their limits.
 */
#ifndef ANALYSIS_PLUGIN_PARAMETERS_H
#define ANALYSIS_PLUGIN_PARAMETERS_H

#include <babeltrace2/babeltrace.h>
#include <stdbool.h>

#include "core/analysis.h"

struct parameters {
    struct analysis_options options; /**< its checks point into this structure */
    char **checks;
};

/**
 * A component class's own parameters. Returns false if there is none called @name. @text is its value; what is wrong
 * with it goes to *@why_out, to be freed with g_free().
 */
typedef bool (*parameters_own)(void *data, const char *name, const char *text, char **why_out);

/**
 * Fill @parameters from the map @values of texts and whole numbers. What @own (its first argument is @data) does not
 * know must be a limit, or `checks`.
 *
 * Returns:   NULL, or what is wrong with which parameter; the caller frees it. parameters_clear() is due either way.
 */
char *parameters_read(struct parameters *parameters, const bt_value *values, parameters_own own, void *data);
void parameters_clear(struct parameters *parameters);

#endif
