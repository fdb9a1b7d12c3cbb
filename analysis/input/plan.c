#include "input/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <string.h>

enum reader { READ_NOTHING, READ_UNSIGNED, READ_SIGNED, READ_BOOL, READ_STRING };

struct step {
    uint16_t member_index;
    uint8_t slot;
    uint8_t reader;
};

struct plan {
    int event_id;
    struct step vpid, vtid; /* in the common context */
    struct step text;       /* the same: what a dialect's event has of it */
    bool has_context;
    bool has_defaults; /* fields that the trace lacks must read as 0 or "" */
    unsigned step_count;
    struct step steps[EVENT_SLOTS_MAX];
    union event_fields defaults;
};

static enum reader reader_for(const bt_field_class *field_class)
{
    bt_field_class_type type = bt_field_class_get_type(field_class);

    if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER))
        return READ_UNSIGNED;
    if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_SIGNED_INTEGER))
        return READ_SIGNED;
    if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_BOOL))
        return READ_BOOL;
    if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_STRING))
        return READ_STRING;
    return READ_NOTHING;
}

/* A step that reads member @name of a structure; reader READ_NOTHING if there is no such member of a simple kind. */
static struct step find_member(const bt_field_class *structure, const char *name)
{
    struct step step = { .reader = READ_NOTHING };
    uint64_t count;

    if (!structure || bt_field_class_get_type(structure) != BT_FIELD_CLASS_TYPE_STRUCTURE)
        return step;
    count = MIN(bt_field_class_structure_get_member_count(structure), UINT16_MAX);
    for (uint64_t i = 0; i < count; i++) {
        const bt_field_class_structure_member *member =
            bt_field_class_structure_borrow_member_by_index_const(structure, i);

        if (strcmp(bt_field_class_structure_member_get_name(member), name) == 0) {
            step.member_index = i;
            step.reader = reader_for(bt_field_class_structure_member_borrow_field_class_const(member));
            break;
        }
    }
    return step;
}

static struct step find_integer(const bt_field_class *structure, const char *name)
{
    struct step step = find_member(structure, name);

    if (step.reader == READ_STRING)
        step.reader = READ_NOTHING;
    return step;
}

struct plan *plan_create(const bt_event_class *event_class)
{
    struct plan *plan = g_new0(struct plan, 1);
    const char *name = bt_event_class_get_name(event_class);
    const bt_stream_class *stream_class = bt_event_class_borrow_stream_class_const(event_class);
    const bt_field_class *context =
        bt_stream_class_borrow_event_common_context_field_class_const(stream_class);
    const bt_field_class *payload = bt_event_class_borrow_payload_field_class_const(event_class);
    const struct event_class *known;

    plan->event_id = name ? event_id_by_name(name) : -1;
    if (plan->event_id < 0)
        return plan;
    plan->vpid = find_integer(context, "vpid");
    plan->vtid = find_integer(context, "vtid");
    plan->has_context = plan->vpid.reader != READ_NOTHING || plan->vtid.reader != READ_NOTHING;
    known = &event_classes[plan->event_id];
    for (unsigned i = 0; i < known->field_count; i++) {
        bool is_string = known->fields[i].kind == FIELD_STRING;
        struct step step = find_member(payload, known->fields[i].name);

        if (step.reader == READ_NOTHING && is_string && plan->event_id > EVENT_COUNT) {
            plan->text = find_member(context, known->fields[i].name);
            plan->text.slot = i;
        }
        step.slot = i;
        if (is_string)
            plan->defaults.slots[i].s = "";
        if (step.reader != READ_NOTHING && (step.reader == READ_STRING) == is_string)
            plan->steps[plan->step_count++] = step;
        else
            plan->has_defaults = true;
    }
    return plan;
}

void plan_destroy(struct plan *plan)
{
    g_free(plan);
}

int plan_event_id(const struct plan *plan)
{
    return plan->event_id;
}

static inline union event_slot read_member(const bt_field *structure, struct step step)
{
    const bt_field *field =
        bt_field_structure_borrow_member_field_by_index_const(structure, step.member_index);
    union event_slot slot = { .u = 0 };

    switch (step.reader) {
    case READ_UNSIGNED:
        slot.u = bt_field_integer_unsigned_get_value(field);
        break;
    case READ_SIGNED:
        slot.i = bt_field_integer_signed_get_value(field);
        break;
    case READ_BOOL:
        slot.u = bt_field_bool_get_value(field);
        break;
    case READ_STRING:
        slot.s = bt_field_string_get_value(field);
        break;
    }
    return slot;
}

void plan_decode(const struct plan *plan, struct event *event_out, const bt_event *event)
{
    event_out->id = plan->event_id;
    event_out->vpid = EVENT_UNKNOWN_ID;
    event_out->vtid = EVENT_UNKNOWN_ID;
    if (plan->has_context) {
        const bt_field *context = bt_event_borrow_common_context_field_const(event);

        if (plan->vpid.reader != READ_NOTHING)
            event_out->vpid = read_member(context, plan->vpid).i;
        if (plan->vtid.reader != READ_NOTHING)
            event_out->vtid = read_member(context, plan->vtid).i;
    }
    if (plan->has_defaults)
        event_out->fields = plan->defaults;
    if (plan->text.reader == READ_STRING)
        event_out->fields.slots[plan->text.slot] =
            read_member(bt_event_borrow_common_context_field_const(event), plan->text);
    if (plan->step_count > 0) {
        const bt_field *payload = bt_event_borrow_payload_field_const(event);

        for (unsigned i = 0; i < plan->step_count; i++)
            event_out->fields.slots[plan->steps[i].slot] = read_member(payload, plan->steps[i]);
    }
}
