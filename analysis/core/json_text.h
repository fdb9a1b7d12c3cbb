/** Names in a report: those that are not known, or are no text, are null. */
#ifndef ANALYSIS_CORE_JSON_TEXT_H
#define ANALYSIS_CORE_JSON_TEXT_H

#include <jansson.h>

/** A new reference. */
static inline json_t *text_or_null(const char *text)
{
    json_t *value = text ? json_string(text) : json_null();

    return value ? value : json_null(); /* not UTF-8 */
}

#endif
