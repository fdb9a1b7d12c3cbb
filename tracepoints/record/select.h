/**
 * Which events to record, from the sets that a user names.
 *
 *     unsigned sets;
 *     struct record_choice choices[RECORD_CHOICES_MAX];
 *     if (record_parse_sets("loop,lock", &sets, &error))
 *         count = record_select(sets, choices);
 */
#ifndef RECORD_SELECT_H
#define RECORD_SELECT_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    RECORD_SET_CORE = 1 << 0,
    RECORD_SET_LOOP = 1 << 1,
    RECORD_SET_LOCK = 1 << 2,
    RECORD_SET_REQUEST = 1 << 3,
    RECORD_SET_COROUTINE = 1 << 4,
    RECORD_SET_ALL = (1 << 5) - 1,
};

/** Events of the core set travel in a channel of their own, so that high-rate events never push them out. */
enum record_channel {
    RECORD_CHANNEL_CORE,
    RECORD_CHANNEL_DETAIL,
    RECORD_CHANNEL_COUNT,
};

struct record_choice {
    const char *event;  /**< static, "provider:event" */
    const char *filter; /**< static; NULL: none */
    enum record_channel channel;
};

/** More than there are events. record_select() asserts it. */
#define RECORD_CHOICES_MAX 256

/**
 * Read a comma-separated list of sets; "all" stands for every one. The core set is always part of the answer:
 * without it nothing that is recorded has a name.
 *
 * Returns:   false with @error set if a name is unknown or missing; *sets_out is untouched then.
 */
bool record_parse_sets(const char *text, unsigned *sets_out, GError **error);

/** The names in @sets, comma-separated. The caller frees it with g_free(). */
char *record_set_names(unsigned sets);

/**
 * The events that @sets record, each once: an event that one chosen set records filtered and another one always
 * is recorded always.
 *
 * Shape:     choices[RECORD_CHOICES_MAX]; entries [0, return) are written.
 */
size_t record_select(unsigned sets, struct record_choice *choices);

#endif
