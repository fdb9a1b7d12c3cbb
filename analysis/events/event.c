#include "events/event.h"

#include <glib.h>

/* clang-format off */
#define FIELD_U(field_name) { #field_name, FIELD_UNSIGNED },
#define FIELD_I(field_name) { #field_name, FIELD_SIGNED },
#define FIELD_S(field_name) { #field_name, FIELD_STRING },
#define COUNT(field_name) + 1
#define COUNT_FIELDS(provider, event_name, set_name, event_fields) \
    provider##_##event_name##_field_count = 0 event_fields,
enum { VBLK_EVENTS(COUNT_FIELDS, COUNT, COUNT, COUNT) QEMU_EVENTS(COUNT_FIELDS, COUNT, COUNT, COUNT) };

#define CLASS(provider, event_name, set_name, event_fields) \
    [EVENT_##provider##_##event_name] = { \
        .name = #provider ":" #event_name, .set = SET_##set_name, \
        .field_count = provider##_##event_name##_field_count, .fields = { event_fields } },

const struct event_class event_classes[EVENT_CLASS_COUNT] = {
    VBLK_EVENTS(CLASS, FIELD_U, FIELD_I, FIELD_S)
    QEMU_EVENTS(CLASS, FIELD_U, FIELD_I, FIELD_S)
    [EVENT_qemu_housekeeping] = { .name = "qemu:(housekeeping)", .set = SET_CORE },
    [EVENT_qemu_other] = { .name = "qemu:(other)", .set = SET_CORE },
};
/* clang-format on */

const char *const event_set_names[SET_COUNT] = {
    [SET_CORE] = "core",       [SET_LOOP] = "loop",           [SET_LOCK] = "lock",
    [SET_REQUEST] = "request", [SET_COROUTINE] = "coroutine",
};

static GHashTable *index_classes(void)
{
    GHashTable *ids = g_hash_table_new(g_str_hash, g_str_equal);

    for (int id = 0; id < EVENT_CLASS_COUNT; id++)
        if (event_classes[id].name)
            g_hash_table_insert(ids, (gpointer)event_classes[id].name, GINT_TO_POINTER(id));
    return ids;
}

/* What QEMU emits besides: type checks, counters of list walkers and parsing come with anything that a thread does. */
static int other_id(const char *name)
{
    static const char *const housekeeping[] = { "qemu:object_", "qemu:lockcnt_", "qemu:visit_", "qemu:poll_" };

    for (unsigned i = 0; i < G_N_ELEMENTS(housekeeping); i++)
        if (g_str_has_prefix(name, housekeeping[i]))
            return EVENT_qemu_housekeeping;
    return g_str_has_prefix(name, "qemu:") ? EVENT_qemu_other : -1;
}

int event_id_by_name(const char *name)
{
    static gsize ready;
    static GHashTable *ids; /* lives as long as the program */
    gpointer id;

    if (g_once_init_enter(&ready)) {
        ids = index_classes();
        g_once_init_leave(&ready, 1);
    }
    return g_hash_table_lookup_extended(ids, name, NULL, &id) ? GPOINTER_TO_INT(id) : other_id(name);
}
