#include "control/answer.h"

#include <glib.h>

json_t *vblk_answer_text(const char *text)
{
    char *valid;
    json_t *string;

    if (!text)
        return json_null();
    valid = g_utf8_make_valid(text, -1);
    string = json_string(valid);
    g_free(valid);
    return string;
}

void vblk_answer_set_text(json_t *object, const char *name, const char *text)
{
    json_object_set_new(object, name, vblk_answer_text(text));
}

void vblk_answer_set_number(json_t *object, const char *name, uint64_t number)
{
    json_object_set_new(object, name, json_integer((json_int_t)number));
}
