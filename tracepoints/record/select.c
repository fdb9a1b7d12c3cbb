#include "select.h"

#include "error.h"
#include "event_sets.h"

#include <assert.h>
#include <string.h>

static const char *const set_names[] = { "core", "loop", "lock", "request", "coroutine" };

static unsigned set_by_name(const char *name)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(set_names); i++) {
        if (strcmp(name, set_names[i]) == 0)
            return 1u << i;
    }
    return strcmp(name, "all") == 0 ? RECORD_SET_ALL : 0;
}

bool record_parse_sets(const char *text, unsigned *sets_out, GError **error)
{
    char **names = g_strsplit(text, ",", -1);
    unsigned sets = RECORD_SET_CORE;
    bool known = true;

    for (char **name = names; *name && known; name++) {
        unsigned set = set_by_name(g_strstrip(*name));

        if (!set) {
            g_set_error(
                error, RECORD_ERROR, RECORD_ERROR_USAGE,
                "--events: no set of events is called '%s' (core, loop, lock, request, coroutine, all)",
                *name);
            known = false;
        }
        sets |= set;
    }
    if (known && !names[0]) {
        g_set_error(error, RECORD_ERROR, RECORD_ERROR_USAGE,
                    "--events: names no set (core, loop, lock, request, coroutine, all)");
        known = false;
    }
    g_strfreev(names);
    if (known)
        *sets_out = sets;
    return known;
}

char *record_set_names(unsigned sets)
{
    GString *text = g_string_new(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(set_names); i++) {
        if (sets & (1u << i))
            g_string_append_printf(text, "%s%s", text->len ? "," : "", set_names[i]);
    }
    return g_string_free(text, FALSE);
}

size_t record_select(unsigned sets, struct record_choice *choices)
{
    size_t count = 0;

    for (size_t i = 0; i < tracepoints_event_set_count; i++) {
        const struct tracepoints_event_set *row = &tracepoints_event_sets[i];
        unsigned set = set_by_name(row->set);
        struct record_choice *last = count ? &choices[count - 1] : NULL;

        if (!(sets & set))
            continue;
        if (!last || strcmp(last->event, row->name) != 0) {
            assert(count < RECORD_CHOICES_MAX);
            last = &choices[count++];
            last->event = row->name;
        } else if (!last->filter) {
            continue;
        }
        last->filter = row->filter;
        last->channel = set == RECORD_SET_CORE ? RECORD_CHANNEL_CORE : RECORD_CHANNEL_DETAIL;
    }
    return count;
}
