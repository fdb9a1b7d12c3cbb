#include "ctl/arguments.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* The entry of that name in a list of them, or NULL and all names. */
static const json_t *find(const json_t *list, const char *name, char **known_out)
{
    GString *known = g_string_new(NULL);
    const json_t *entry, *found = NULL;
    size_t i;

    json_array_foreach (list, i, entry) {
        g_string_append_printf(known, "%s%s", i ? ", " : "", text_of(entry, "name"));
        if (strcmp(text_of(entry, "name"), name) == 0)
            found = entry;
    }
    *known_out = g_string_free(known, found != NULL);
    return found;
}

const json_t *arguments_find_command(const json_t *commands, const char *command, char **why_out)
{
    char *known;
    const json_t *found = find(json_object_get(commands, "commands"), command, &known);

    if (!found)
        *why_out = g_strdup_printf("there is no command '%s'; there are: %s", command, known);
    g_free(known);
    return found;
}

static json_t *parse_integer(const char *name, const char *text)
{
    static const char units[] = "KMGT";
    bool is_size = g_str_has_suffix(name, "_bytes");
    size_t length = strlen(text);
    const char *unit = is_size && length > 1 ? memchr(units, g_ascii_toupper(text[length - 1]), strlen(units)) : NULL;
    char *digits = g_strndup(text, unit ? length - 1 : length);
    unsigned shift = unit ? 10 * (unit - units + 1) : 0;
    json_t *value = NULL;
    gint64 number;

    if (g_ascii_string_to_signed(digits, 10, G_MININT64 >> shift, G_MAXINT64 >> shift, &number, NULL))
        value = json_integer(number * (INT64_C(1) << shift));
    g_free(digits);
    return value;
}

static json_t *parse_boolean(const char *text)
{
    if (strcmp(text, "on") == 0 || strcmp(text, "true") == 0)
        return json_true();
    return strcmp(text, "off") == 0 || strcmp(text, "false") == 0 ? json_false() : NULL;
}

static char *parse_word(const json_t *described, const char *word, json_t *arguments)
{
    const char *equals = strchr(word, '='), *type;
    const json_t *argument;
    char *name, *known = NULL, *why = NULL;
    json_t *value;

    if (!equals)
        return g_strdup_printf("%s: must be NAME=VALUE", word);
    name = g_strndup(word, equals - word);
    argument = find(json_object_get(described, "arguments"), name, &known);
    type = text_of(argument, "type");
    value = !argument                       ? NULL
            : strcmp(type, "integer") == 0  ? parse_integer(name, equals + 1)
            : strcmp(type, "boolean") == 0  ? parse_boolean(equals + 1)
                                            : json_string(equals + 1);
    if (!argument)
        why = *known ? g_strdup_printf("%s has no argument '%s'; there are: %s", text_of(described, "name"), name, known)
                     : g_strdup_printf("%s takes no arguments", text_of(described, "name"));
    else if (json_object_get(arguments, name))
        why = g_strdup_printf("%s: given twice", name);
    else if (!value)
        why = g_strdup_printf("%s: must be %s", word,
                              strcmp(type, "integer") == 0   ? "an integer"
                              : strcmp(type, "boolean") == 0 ? "on or off"
                                                             : "UTF-8");
    else
        json_object_set(arguments, name, value);
    json_decref(value);
    g_free(known);
    g_free(name);
    return why;
}

/* Asked for here, as the device would: a mistake of whoever types is told apart from a command that failed. */
static char *missing(const json_t *described, const json_t *arguments)
{
    const json_t *argument;
    size_t index;

    json_array_foreach(json_object_get(described, "arguments"), index, argument)
        if (json_is_true(json_object_get(argument, "required")) && !json_object_get(arguments, text_of(argument, "name")))
            return g_strdup_printf("%s needs %s=%s", text_of(described, "name"), text_of(argument, "name"),
                                   text_of(argument, "type"));
    return NULL;
}

char *arguments_parse(const json_t *described, char **words, json_t **arguments_out)
{
    json_t *arguments = json_object();
    char *why = NULL;

    for (char **word = words; word && *word && !why; word++)
        why = parse_word(described, *word, arguments);
    if (!why)
        why = missing(described, arguments);
    if (why)
        json_decref(arguments);
    else
        *arguments_out = arguments;
    return why;
}
