#include "plugin/parameters.h"

#include <glib.h>
#include <string.h>

#include "analyze/limits.h"

struct walk {
    struct parameters *parameters;
    parameters_own own;
    void *data;
    char *why;
};

static char *take_checks(struct parameters *parameters, const char *text)
{
    parameters->checks = g_strsplit(text, ",", -1);
    for (char **id = parameters->checks; *id; id++)
        if (!g_strv_contains(analysis_check_ids(), *id))
            return g_strdup_printf("there is no check '%s'", *id);
    parameters->options.checks = (const char *const *)parameters->checks;
    return NULL;
}

static bt_value_map_foreach_entry_const_func_status take_parameter(const char *name, const bt_value *value,
                                                                   void *data)
{
    struct walk *walk = data;
    char *why = NULL, *text;

    if (bt_value_is_string(value))
        text = g_strdup(bt_value_string_get(value));
    else if (bt_value_is_signed_integer(value))
        text = g_strdup_printf("%" G_GINT64_FORMAT, bt_value_integer_signed_get(value));
    else if (bt_value_is_unsigned_integer(value))
        text = g_strdup_printf("%" G_GUINT64_FORMAT, bt_value_integer_unsigned_get(value));
    else
        text = NULL;
    if (!text)
        why = g_strdup("neither text nor a number");
    else if (strcmp(name, "checks") == 0)
        why = take_checks(walk->parameters, text);
    else if (!walk->own(walk->data, name, text, &why))
        why = limits_set(&walk->parameters->options, name, text);
    if (why)
        walk->why = g_strdup_printf("parameter %s: %s", name, why);
    g_free(why);
    g_free(text);
    return walk->why ? BT_VALUE_MAP_FOREACH_ENTRY_CONST_FUNC_STATUS_INTERRUPT
                     : BT_VALUE_MAP_FOREACH_ENTRY_CONST_FUNC_STATUS_OK;
}

char *parameters_read(struct parameters *parameters, const bt_value *values, parameters_own own, void *data)
{
    struct walk walk = { .parameters = parameters, .own = own, .data = data };

    analysis_options_init(&parameters->options);
    parameters->checks = NULL;
    if (bt_value_map_foreach_entry_const(values, take_parameter, &walk) < 0 && !walk.why)
        walk.why = g_strdup("out of memory");
    return walk.why;
}

void parameters_clear(struct parameters *parameters)
{
    g_strfreev(parameters->checks);
    parameters->checks = NULL;
}
