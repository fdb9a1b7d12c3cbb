#include "report/printable.h"

#include <glib.h>

/* Embeddings, overrides, isolates and their ends: after one of them what follows is shown in another order. */
static gboolean turns_text(gunichar c)
{
    return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

char *printable_text(const char *text)
{
    GString *out = g_string_new(NULL);

    while (*text) {
        gunichar c = g_utf8_get_char_validated(text, -1);

        if (c == (gunichar)-1 || c == (gunichar)-2) {
            g_string_append_printf(out, "\\x%02x", (guchar)*text++);
            continue;
        }
        if (g_unichar_iscntrl(c))
            g_string_append_printf(out, "\\x%02x", c);
        else if (turns_text(c))
            g_string_append_printf(out, "\\u{%04x}", c);
        else
            g_string_append_len(out, text, g_utf8_next_char(text) - text);
        text = g_utf8_next_char(text);
    }
    return g_string_free(out, FALSE);
}

json_t *printable_json(const json_t *value)
{
    const char *key;
    json_t *copy, *member;
    size_t index;

    switch (json_typeof(value)) {
    case JSON_STRING: {
        char *text = printable_text(json_string_value(value));

        copy = json_string(text);
        g_free(text);
        return copy;
    }
    case JSON_ARRAY:
        copy = json_array();
        json_array_foreach ((json_t *)value, index, member)
            json_array_append_new(copy, printable_json(member));
        return copy;
    case JSON_OBJECT:
        copy = json_object();
        json_object_foreach ((json_t *)value, key, member)
            json_object_set_new(copy, key, printable_json(member));
        return copy;
    default:
        return json_copy((json_t *)value);
    }
}
