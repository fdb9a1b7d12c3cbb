/**
 * One decoded event: what every analysis is fed with, whatever read the trace.
 *
 *     if (event->id == EVENT_rt_loop_fd_attach)
 *         remember(event->fields.rt_loop_fd_attach.handler_id, event->time_ns);
 */
#ifndef ANALYSIS_EVENTS_EVENT_H
#define ANALYSIS_EVENTS_EVENT_H

#include <stdint.h>

#include "dialects/qemu_events.h"
#include "events/catalogue.h"

enum event_set { SET_CORE, SET_LOOP, SET_LOCK, SET_REQUEST, SET_COROUTINE, SET_COUNT };

#define EVENT_NOTHING(name)
#define EVENT_ID(provider, name, set, fields) EVENT_##provider##_##name,
/**
 * EVENT_rt_loop_fd_attach and so on: what model and checks know, below EVENT_COUNT. Above it: what a dialect turns into those
 * (core/dialect.h); QEMU's housekeeping tells nothing of what a thread does, any other event of QEMU's that it does something.
 */
enum event_id {
    VBLK_EVENTS(EVENT_ID, EVENT_NOTHING, EVENT_NOTHING, EVENT_NOTHING) EVENT_COUNT,
    QEMU_EVENTS(EVENT_ID, EVENT_NOTHING, EVENT_NOTHING, EVENT_NOTHING) EVENT_qemu_housekeeping,
    EVENT_qemu_other,
    EVENT_CLASS_COUNT
};

/** Every member is 8 bytes wide, so that an adapter fills `slots` by the index of the field. */
#define EVENT_U(name) uint64_t name;
#define EVENT_I(name) int64_t name;
#define EVENT_S(name) const char *name;
#define EVENT_STRUCT(provider, name, set, fields)                                                                      \
    struct {                                                                                                           \
        fields                                                                                                         \
    } provider##_##name;
#define EVENT_SLOTS_MAX 13

union event_slot {
    uint64_t u;
    int64_t i;
    const char *s;
};

union event_fields {
    union event_slot slots[EVENT_SLOTS_MAX];
    VBLK_EVENTS(EVENT_STRUCT, EVENT_U, EVENT_I, EVENT_S)
    QEMU_EVENTS(EVENT_STRUCT, EVENT_U, EVENT_I, EVENT_S)
};

#define EVENT_UNKNOWN_ID INT64_C(-1)

struct event {
    int64_t time_ns;  /**< since the epoch, clock offset applied */
    enum event_id id;
    uint32_t stream;  /**< index given to analysis_add_stream() */
    int64_t vpid;     /**< EVENT_UNKNOWN_ID where the context was not recorded */
    int64_t vtid;     /**< the same */
    union event_fields fields; /**< strings live until the next event */
};

enum event_field_kind { FIELD_UNSIGNED, FIELD_SIGNED, FIELD_STRING };

struct event_field_class {
    const char *name;
    enum event_field_kind kind;
};

struct event_class {
    const char *name; /**< "rt_loop:fd_attach" */
    enum event_set set;
    unsigned field_count;
    struct event_field_class fields[EVENT_SLOTS_MAX];
};

/** Indexed by enum event_id; none at EVENT_COUNT itself. */
extern const struct event_class event_classes[EVENT_CLASS_COUNT];

/** "core", "loop", ... */
extern const char *const event_set_names[SET_COUNT];

/** The id of "provider:name", or -1. Every event of provider `qemu` has one. */
int event_id_by_name(const char *name);

#endif
