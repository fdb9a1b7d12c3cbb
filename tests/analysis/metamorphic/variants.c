#include "metamorphic/variants.h"

#include <string.h>

#define SECOND INT64_C(1000000000)
#define YEAR (365 * 86400 * SECOND)

static uint64_t random_state;

void random_seed(uint64_t seed)
{
    random_state = seed * 2654435761u + 88172645463325252u;
}

uint64_t random_below(uint64_t below)
{
    random_state ^= random_state << 13; /* xorshift64 */
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return below ? random_state % below : 0;
}

static bool random_bool(void)
{
    return random_below(2);
}

/* --- renaming ------------------------------------------------------------------------------------------ */

enum value_kind value_kind_of(const char *name)
{
    static const struct {
        const char *name;
        enum value_kind kind;
    } kinds[] = {
        { "loop_id", VALUE_LOOP },
        { "old_loop_id", VALUE_LOOP },
        { "new_loop_id", VALUE_LOOP },
        { "owner_loop_id", VALUE_LOOP },
        { "handler_id", VALUE_HANDLER },
        { "fd", VALUE_FD },
        { "thread_id", VALUE_THREAD },
        { "owner_thread_id", VALUE_THREAD },
        { "giving_thread_id", VALUE_THREAD },
        { "lock_id", VALUE_LOCK },
        { "device_id", VALUE_DEVICE },
        { "queue_index", VALUE_QUEUE },
        { "head", VALUE_HEAD },
        { "request_id", VALUE_REQUEST },
        { "blocking_request_id", VALUE_REQUEST },
        { "coroutine_id", VALUE_COROUTINE },
        { "from_id", VALUE_COROUTINE },
        { "to_id", VALUE_COROUTINE },
        { "owner_coroutine_id", VALUE_COROUTINE },
        { "name", VALUE_NAME },
        { "class_name", VALUE_NAME },
        { "loop", VALUE_NAME },
        { "device", VALUE_NAME },
        { "thread", VALUE_NAME },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(kinds); i++)
        if (!strcmp(kinds[i].name, name))
            return kinds[i].kind;
    return VALUE_OTHER;
}

int64_t renamed(const struct renaming *renaming, enum value_kind kind, int64_t value)
{
    const bool from_nought = kind == VALUE_QUEUE || kind == VALUE_HEAD || kind == VALUE_FD;

    if (!renaming->scale[kind] || value < 0 || (!value && !from_nought))
        return value;
    return value * renaming->scale[kind] + renaming->offset[kind];
}

static void apply(struct recording *recording, const struct renaming *renaming)
{
    for (unsigned i = 0; i < recording->traces->len; i++) {
        struct analysis_trace *trace = &g_array_index(recording->traces, struct analysis_trace, i);

        if (trace->vpid > 0)
            trace->vpid += renaming->vpid_offset;
    }
    for (unsigned i = 0; i < recording->entries->len; i++) {
        struct entry *entry = entry_at(recording, i);
        struct event *event = &entry->event;

        event->time_ns += renaming->shift_ns;
        entry->begin_ns += renaming->shift_ns;
        entry->end_ns += renaming->shift_ns;
        if (entry->kind != ENTRY_EVENT)
            continue;
        if (event->vpid > 0)
            event->vpid += renaming->vpid_offset;
        event->vtid = renamed(renaming, VALUE_THREAD, event->vtid);
        for (unsigned j = 0; j < event_classes[event->id].field_count; j++) {
            const enum value_kind kind = value_kind_of(event_classes[event->id].fields[j].name);

            if (kind == VALUE_NAME && renaming->suffix && *event->fields.slots[j].s) {
                char *name = g_strconcat(event->fields.slots[j].s, renaming->suffix, NULL);

                event->fields.slots[j].s = g_string_chunk_insert_const(recording->texts, name);
                g_free(name);
            } else if (kind != VALUE_NAME) {
                event->fields.slots[j].i = renamed(renaming, kind, event->fields.slots[j].i);
            }
        }
    }
}

static void rename_ids(struct renaming *renaming, enum value_kind kind, int64_t offset_max)
{
    renaming->scale[kind] = 1;
    renaming->offset[kind] = 1 + (int64_t)random_below((uint64_t)offset_max);
}

static struct recording *apply_to_copy(const struct recording *story, const struct renaming *renaming)
{
    struct recording *copy = recording_copy(story, true);

    apply(copy, renaming);
    return copy;
}

static struct recording *again(const struct recording *story, const struct recording *neighbour,
                               struct renaming *renaming)
{
    return recording_copy(story, true);
}

static struct recording *other_ids(const struct recording *story, const struct recording *neighbour,
                                   struct renaming *renaming)
{
    static const enum value_kind kinds[] = { VALUE_LOOP,   VALUE_HANDLER, VALUE_LOCK,
                                             VALUE_DEVICE, VALUE_REQUEST, VALUE_COROUTINE };

    for (unsigned i = 0; i < G_N_ELEMENTS(kinds); i++) {
        rename_ids(renaming, kinds[i], 1000000);
        renaming->scale[kinds[i]] = 1 + (int64_t)random_below(3); /* ids count up, but others may lie between */
    }
    return apply_to_copy(story, renaming);
}

static struct recording *other_threads(const struct recording *story, const struct recording *neighbour,
                                       struct renaming *renaming)
{
    rename_ids(renaming, VALUE_FD, 500);
    renaming->vpid_offset = 1 + (int64_t)random_below(1000);
    renaming->scale[VALUE_THREAD] = -1; /* another order, too */
    renaming->offset[VALUE_THREAD] = 4000000;
    return apply_to_copy(story, renaming);
}

static struct recording *other_queues(const struct recording *story, const struct recording *neighbour,
                                      struct renaming *renaming)
{
    rename_ids(renaming, VALUE_QUEUE, 200);
    renaming->scale[VALUE_HEAD] = -1;
    renaming->offset[VALUE_HEAD] = 40000;
    return apply_to_copy(story, renaming);
}

static struct recording *other_names(const struct recording *story, const struct recording *neighbour,
                                     struct renaming *renaming)
{
    renaming->suffix = "-x";
    return apply_to_copy(story, renaming);
}

static struct recording *other_time(const struct recording *story, const struct recording *neighbour,
                                    struct renaming *renaming)
{
    renaming->shift_ns = (random_bool() ? 30 * YEAR : -40 * YEAR) + (int64_t)random_below(SECOND);
    return apply_to_copy(story, renaming);
}

/* --- facts about a recording --------------------------------------------------------------------------- */

static bool has_losses(const struct recording *story)
{
    for (unsigned i = 0; i < story->entries->len; i++)
        if (entry_at(story, i)->kind == ENTRY_LOSS)
            return true;
    return false;
}

static bool has_contexts(const struct recording *story)
{
    for (unsigned i = 0; i < story->entries->len; i++)
        if (entry_at(story, i)->kind == ENTRY_EVENT &&
            (entry_at(story, i)->event.vpid < 0 || entry_at(story, i)->event.vtid < 0))
            return false;
    return true;
}

static bool has_event(const struct recording *story, enum event_id id)
{
    for (unsigned i = 0; i < story->entries->len; i++)
        if (entry_at(story, i)->kind == ENTRY_EVENT && entry_at(story, i)->event.id == id)
            return true;
    return false;
}

/* The first and the last event. */
static void span(const struct recording *story, int64_t *begin_ns, int64_t *end_ns)
{
    *begin_ns = INT64_MAX;
    *end_ns = INT64_MIN;
    for (unsigned i = 0; i < story->entries->len; i++) {
        if (entry_at(story, i)->kind == ENTRY_LOSS)
            continue;
        *begin_ns = MIN(*begin_ns, entry_at(story, i)->event.time_ns);
        *end_ns = MAX(*end_ns, entry_at(story, i)->event.time_ns);
    }
}

/* Some time in it, as often near an event that is rare (core, the story's own) as anywhere. */
static int64_t some_time(const struct recording *story)
{
    int64_t begin_ns, end_ns;

    span(story, &begin_ns, &end_ns);
    for (unsigned tries = 0; random_bool() && tries < 1000; tries++) {
        const struct entry *entry = entry_at(story, (unsigned)random_below(story->entries->len));

        if (entry->kind == ENTRY_EVENT && event_classes[entry->event.id].set == SET_CORE)
            return entry->event.time_ns + (int64_t)random_below(3) - 1;
    }
    return begin_ns + (int64_t)random_below((uint64_t)MAX(end_ns - begin_ns, 1));
}

/* --- streams ------------------------------------------------------------------------------------------- */

static unsigned class_of(const struct recording *story, uint32_t stream)
{
    return (unsigned)g_array_index(story->streams, struct told_stream, stream).stream.stream_class_id;
}

/* The same channels on @cpus processors, over which threads wander. */
static struct recording *spread(const struct recording *story, unsigned cpus)
{
    struct recording *copy = recording_copy(story, true);
    GArray *old_streams = copy->streams;
    GHashTable *where = g_hash_table_new(NULL, NULL); /* thread -> processor */

    copy->streams = g_array_new(FALSE, TRUE, sizeof(struct told_stream));
    for (unsigned i = 0; i < copy->entries->len; i++) {
        struct entry *entry = entry_at(copy, i);
        const unsigned trace = g_array_index(old_streams, struct told_stream, entry->event.stream).trace;
        const uint64_t class = class_of(story, entry->event.stream);
        void *thread = (void *)(uintptr_t)(entry->event.vtid + 2);
        unsigned cpu = GPOINTER_TO_UINT(g_hash_table_lookup(where, thread)), at;

        if (!cpu || !random_below(50)) {
            cpu = 1 + (unsigned)random_below(cpus);
            g_hash_table_insert(where, thread, GUINT_TO_POINTER(cpu));
        }
        for (at = 0; at < copy->streams->len; at++) {
            const struct told_stream *stream = &g_array_index(copy->streams, struct told_stream, at);

            if (stream->trace == trace && stream->stream.stream_class_id == class &&
                stream->stream.cpu_id == (int64_t)cpu)
                break;
        }
        if (at == copy->streams->len) {
            const struct told_stream stream = {
                .trace = trace, .stream = { .stream_class_id = class, .cpu_id = (int64_t)cpu, .path = "stream" }
            };

            g_array_append_val(copy->streams, stream);
        }
        entry->event.stream = at;
    }
    g_array_free(old_streams, TRUE);
    g_hash_table_destroy(where);
    return copy;
}

static struct recording *other_streams(const struct recording *story, const struct recording *neighbour,
                                       struct renaming *renaming)
{
    return has_losses(story) ? NULL : spread(story, 2 + (unsigned)random_below(6));
}

static struct recording *one_stream(const struct recording *story, const struct recording *neighbour,
                                    struct renaming *renaming)
{
    return has_losses(story) ? NULL : spread(story, 1);
}

/* --- counters ------------------------------------------------------------------------------------------ */

/* The process ran for long before: totals and ring indices are larger, indices wrap. */
static struct recording *older_process(const struct recording *story, const struct recording *neighbour,
                                       struct renaming *renaming)
{
    static const char *const indices[] = { "avail_index", "popped_index", "used_index", NULL };
    static const char *const gauges[] = { "loop_id",  "lock_id",   "device_id", "queue_index", "thread_id",
                                          "in_flight", "local_size", "name",      "notifications_enabled", NULL };
    const uint64_t more = 1 + random_below(UINT32_MAX);
    bool in_baseline = false;
    struct recording *copy;

    for (unsigned i = 0; i < story->entries->len; i++) {
        const struct entry *entry = entry_at(story, i);

        in_baseline |= entry->event.id == EVENT_rt_process_baseline_begin;
        if (entry->event.id == EVENT_rt_process_baseline_end)
            in_baseline = false;
        if (entry->kind == ENTRY_EVENT && !in_baseline &&
            (entry->event.id == EVENT_rt_loop_create || entry->event.id == EVENT_vblk_dataplane_device_create))
            return NULL; /* it began in the recording */
    }
    copy = recording_copy(story, true);
    for (unsigned i = 0; i < copy->entries->len; i++) {
        struct entry *entry = entry_at(copy, i);
        const struct event_class *class = &event_classes[entry->event.id];

        if (entry->kind != ENTRY_EVENT ||
            (entry->event.id != EVENT_rt_loop_sample && entry->event.id != EVENT_rt_lock_sample &&
             entry->event.id != EVENT_vblk_queue_sample && entry->event.id != EVENT_rt_pool_local_sample))
            continue;
        for (unsigned j = 0; j < class->field_count; j++) {
            if (g_strv_contains(indices, class->fields[j].name))
                entry->event.fields.slots[j].u = (uint16_t)(entry->event.fields.slots[j].u + more);
            else if (!g_strv_contains(gauges, class->fields[j].name))
                entry->event.fields.slots[j].u += more;
        }
    }
    return copy;
}

/* --- baselines and neighbours -------------------------------------------------------------------------- */

static struct recording *second_baseline(const struct recording *story, const struct recording *neighbour,
                                         struct renaming *renaming)
{
    struct recording *copy = recording_copy(story, false);
    unsigned begin = UINT_MAX;
    bool any = false;

    for (unsigned i = 0; i < story->entries->len; i++) {
        const struct entry *entry = entry_at(story, i);

        g_array_append_val(copy->entries, *entry);
        if (entry->kind != ENTRY_EVENT)
            continue;
        if (entry->event.id == EVENT_rt_process_baseline_begin)
            begin = i;
        if (entry->event.id != EVENT_rt_process_baseline_end || begin == UINT_MAX)
            continue;
        for (unsigned j = begin; j <= i; j++) {
            struct entry twin = *entry_at(story, j);

            if (twin.kind != ENTRY_EVENT || twin.event.vtid != entry->event.vtid || twin.event.vpid != entry->event.vpid)
                continue;
            twin.event.time_ns = entry->event.time_ns;
            if (twin.event.id == EVENT_rt_process_baseline_begin || twin.event.id == EVENT_rt_process_baseline_end)
                twin.event.fields.slots[0].u += 1000;
            if (twin.event.id == EVENT_rt_loop_state && twin.event.fields.rt_loop_state.waiting)
                twin.event.fields.rt_loop_state.waiting_ns +=
                    (uint64_t)(entry->event.time_ns - entry_at(story, j)->event.time_ns);
            g_array_append_val(copy->entries, twin);
            any = true;
        }
        begin = UINT_MAX;
    }
    if (any)
        return copy;
    recording_free(copy);
    return NULL;
}

/* Strings of another recording that was merged live there, until it is freed. */
static void own_texts(struct recording *copy)
{
    for (unsigned i = 0; i < copy->entries->len; i++) {
        struct event *event = &entry_at(copy, i)->event;

        for (unsigned j = 0; entry_at(copy, i)->kind == ENTRY_EVENT && j < event_classes[event->id].field_count; j++)
            if (event_classes[event->id].fields[j].kind == FIELD_STRING)
                event->fields.slots[j].s = g_string_chunk_insert_const(copy->texts, event->fields.slots[j].s);
    }
}

/* Merge @other, moved to the begin of @story and cut at @until_ns, into @story; @stream_offset is added to its streams. */
static void merge(struct recording *story, const struct recording *other, unsigned stream_offset, int64_t until_ns)
{
    GArray *merged = g_array_new(FALSE, TRUE, sizeof(struct entry));
    int64_t begin_ns, other_begin_ns, end_ns;
    unsigned i = 0, j = 0;

    span(story, &begin_ns, &end_ns);
    span(other, &other_begin_ns, &end_ns);
    while (i < story->entries->len || j < other->entries->len) {
        struct entry mine = { 0 }, its = { 0 };
        const bool has_mine = i < story->entries->len;
        bool has_its = j < other->entries->len;

        if (has_mine)
            mine = *entry_at(story, i);
        if (has_its) {
            its = *entry_at(other, j);
            its.event.time_ns += begin_ns - other_begin_ns;
            its.event.stream += stream_offset;
            if (its.event.time_ns > until_ns) {
                j = other->entries->len;
                continue;
            }
        }
        if (has_its && (!has_mine || (mine.kind != ENTRY_LOSS && its.event.time_ns < mine.event.time_ns))) {
            g_array_append_val(merged, its);
            j++;
        } else {
            g_array_append_val(merged, mine);
            i++;
        }
    }
    g_array_free(story->entries, TRUE);
    story->entries = merged;
}

/* Another process, in the same trace if contexts tell them apart, and in a trace of its own else. */
static struct recording *with_neighbour_until(const struct recording *story, const struct recording *neighbour,
                                              int64_t until_ns)
{
    const struct renaming apart = { .vpid_offset = 100000 };
    struct recording *copy = recording_copy(story, true), *other = apply_to_copy(neighbour, &apart);

    if (has_losses(story) || !has_contexts(story) || story->traces->len != 1 || story->streams->len < 2) {
        const unsigned traces = copy->traces->len, streams = copy->streams->len;

        for (unsigned i = 0; i < other->traces->len; i++) {
            struct analysis_trace trace = g_array_index(other->traces, struct analysis_trace, i);

            trace.path = "neighbour";
            g_array_append_val(copy->traces, trace);
        }
        for (unsigned i = 0; i < other->streams->len; i++) {
            struct told_stream stream = g_array_index(other->streams, struct told_stream, i);

            stream.trace += traces;
            g_array_append_val(copy->streams, stream);
        }
        merge(copy, other, streams, until_ns);
    } else {
        for (unsigned i = 0; i < other->entries->len; i++)
            entry_at(other, i)->event.stream %= copy->streams->len;
        merge(copy, other, 0, until_ns);
    }
    own_texts(copy);
    recording_free(other);
    return copy;
}

static struct recording *with_neighbour(const struct recording *story, const struct recording *neighbour,
                                        struct renaming *renaming)
{
    int64_t begin_ns, end_ns;

    if (!story->entries->len)
        return NULL;
    span(story, &begin_ns, &end_ns);
    return with_neighbour_until(story, neighbour, end_ns);
}

/* --- less known ---------------------------------------------------------------------------------------- */

typedef bool keep_entry(const struct entry *entry, const void *data);

static struct recording *filter(const struct recording *story, keep_entry *keep, const void *data)
{
    struct recording *copy = recording_copy(story, true);
    unsigned kept = 0;

    for (unsigned i = 0; i < copy->entries->len; i++)
        if (keep(entry_at(copy, i), data))
            *entry_at(copy, kept++) = *entry_at(copy, i);
    g_array_set_size(copy->entries, kept);
    return copy;
}

static bool is_other_set(const struct entry *entry, const void *data)
{
    return entry->kind != ENTRY_EVENT || event_classes[entry->event.id].set != *(const enum event_set *)data;
}

static struct recording *without_set(const struct recording *story, const struct recording *neighbour,
                                     struct renaming *renaming)
{
    const enum event_set set = (enum event_set)(SET_CORE + 1 + random_below(SET_COUNT - 1));
    struct recording *copy = filter(story, is_other_set, &set);

    for (unsigned i = 0; i < copy->traces->len; i++)
        for (unsigned id = 0; id < EVENT_COUNT; id++)
            if (event_classes[id].set == set)
                g_array_index(copy->traces, struct analysis_trace, i).declared[id] = false;
    return copy;
}

static struct recording *without_context(const struct recording *story, const struct recording *neighbour,
                                         struct renaming *renaming)
{
    struct recording *copy = recording_copy(story, true);

    for (unsigned i = 0; i < copy->entries->len; i++) {
        struct event *event = &entry_at(copy, i)->event;

        event->vtid = EVENT_UNKNOWN_ID;
        if (copy->traces->len == 1)
            event->vpid = EVENT_UNKNOWN_ID;
    }
    return copy;
}

static bool is_after(const struct entry *entry, const void *data)
{
    return entry->kind == ENTRY_LOSS ? entry->end_ns >= *(const int64_t *)data
                                     : entry->event.time_ns >= *(const int64_t *)data;
}

static bool is_before(const struct entry *entry, const void *data)
{
    return entry->kind == ENTRY_LOSS ? entry->begin_ns <= *(const int64_t *)data
                                     : entry->event.time_ns <= *(const int64_t *)data;
}

/* Recorded from later on: without, or with half of, its baseline. */
static struct recording *late_start(const struct recording *story, const struct recording *neighbour,
                                    struct renaming *renaming)
{
    int64_t time_ns = some_time(story);

    return filter(story, is_after, &time_ns);
}

/* A flight recorder: of each stream only the last part is left, and the baseline, which has a channel of its own. */
static struct recording *snapshot(const struct recording *story, const struct recording *neighbour,
                                  struct renaming *renaming)
{
    struct recording *copy = recording_copy(story, true);
    int64_t begin_ns[16] = { 0 }, sampler = EVENT_UNKNOWN_ID;
    unsigned kept = 0;

    if (!copy->streams->len || copy->streams->len > G_N_ELEMENTS(begin_ns)) {
        recording_free(copy);
        return NULL;
    }
    begin_ns[0] = some_time(story);
    for (unsigned i = 1; i < copy->streams->len; i++)
        begin_ns[i] = begin_ns[0] + (int64_t)random_below(SECOND / 2);
    for (unsigned i = 0; i < copy->entries->len; i++) {
        const struct entry *entry = entry_at(copy, i);
        bool announced;

        if (entry->kind == ENTRY_EVENT && entry->event.id == EVENT_rt_process_baseline_begin)
            sampler = entry->event.vtid;
        announced = entry->kind == ENTRY_EVENT && sampler != EVENT_UNKNOWN_ID && entry->event.vtid == sampler;
        if (entry->kind == ENTRY_EVENT && entry->event.id == EVENT_rt_process_baseline_end)
            sampler = EVENT_UNKNOWN_ID;
        if (announced || entry->kind == ENTRY_LOSS || entry->event.time_ns >= begin_ns[entry->event.stream])
            *entry_at(copy, kept++) = *entry;
    }
    g_array_set_size(copy->entries, kept);
    for (unsigned i = 0; i < copy->streams->len; i++) {
        const struct entry loss = { .kind = ENTRY_LOSS, .loss = LOSS_OVERWRITTEN, .end_ns = begin_ns[i], .event = { .stream = i } };

        g_array_append_val(copy->entries, loss);
    }
    return copy;
}

static struct recording *early_end(const struct recording *story, const struct recording *neighbour,
                                   struct renaming *renaming)
{
    int64_t time_ns = some_time(story);

    return filter(story, is_before, &time_ns);
}

/* Killed at some time, while its neighbour is traced on. */
static struct recording *killed(const struct recording *story, const struct recording *neighbour,
                                struct renaming *renaming)
{
    struct recording *copy = early_end(story, neighbour, renaming), *both;
    struct entry last = { .kind = ENTRY_UNKNOWN };
    unsigned samples = 0;

    for (unsigned i = 0; i < copy->entries->len; i++)
        samples += entry_at(copy, i)->kind == ENTRY_EVENT && entry_at(copy, i)->event.id == EVENT_rt_process_vma_sample;
    if (has_losses(copy) || samples < 3) { /* too early to see from its samples that it is gone */
        recording_free(copy);
        return NULL;
    }
    both = with_neighbour_until(copy, neighbour, INT64_MAX);
    recording_free(copy);
    last.event.time_ns = entry_at(both, both->entries->len - 1)->event.time_ns + 60 * SECOND;
    g_array_append_val(both->entries, last);
    return both;
}

struct gap {
    uint32_t stream;
    int64_t begin_ns, end_ns;
};

static bool is_outside(const struct entry *entry, const void *data)
{
    const struct gap *gap = data;

    return entry->kind == ENTRY_LOSS || entry->event.stream != gap->stream ||
           entry->event.time_ns < gap->begin_ns || entry->event.time_ns > gap->end_ns;
}

/* Threads wander, and events are looked for where their thread was seen: a gap must not hide that it was there at all. */
static bool hides_a_thread(const struct recording *story, const struct gap *gap)
{
    GHashTable *seen = g_hash_table_new(NULL, NULL);
    bool hides = false;

    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < story->entries->len; i++) {
            const struct entry *entry = entry_at(story, i);
            void *thread = (void *)(uintptr_t)(entry->event.vtid + 2);

            if (entry->kind != ENTRY_EVENT || entry->event.stream != gap->stream)
                continue;
            if (pass)
                hides |= !g_hash_table_contains(seen, thread);
            else if (is_outside(entry, gap))
                g_hash_table_add(seen, thread);
        }
    }
    g_hash_table_destroy(seen);
    return hides;
}

static struct recording *with_gap(const struct recording *story, const struct gap *gap, enum analysis_loss kind)
{
    struct recording *copy = hides_a_thread(story, gap) ? NULL : filter(story, is_outside, gap);
    const struct entry loss = { .kind = ENTRY_LOSS,
                                .loss = kind,
                                .begin_ns = gap->begin_ns,
                                .end_ns = kind == LOSS_CUT ? INT64_MAX / 2 : gap->end_ns,
                                .event = { .stream = gap->stream } };
    unsigned at = 0;

    if (!copy)
        return NULL;
    /* told with the next event of its stream, as by the reader */
    while (at < copy->entries->len &&
           (entry_at(copy, at)->kind == ENTRY_LOSS || entry_at(copy, at)->event.stream != gap->stream ||
            entry_at(copy, at)->event.time_ns <= gap->end_ns))
        at++;
    g_array_insert_val(copy->entries, at, loss);
    return copy;
}

static struct recording *discarded(const struct recording *story, const struct recording *neighbour,
                                   struct renaming *renaming)
{
    struct gap gap = { .begin_ns = some_time(story), .end_ns = some_time(story) };

    if (!story->streams->len)
        return NULL;
    gap.stream = (uint32_t)random_below(story->streams->len);
    if (gap.end_ns < gap.begin_ns || random_bool())
        gap.end_ns = gap.begin_ns + (int64_t)random_below(random_bool() ? SECOND / 1000 : 3 * SECOND);
    return with_gap(story, &gap, LOSS_DISCARDED_EVENTS);
}

static struct recording *cut(const struct recording *story, const struct recording *neighbour,
                             struct renaming *renaming)
{
    struct gap gap = { .begin_ns = some_time(story), .end_ns = INT64_MAX };

    if (!story->streams->len)
        return NULL;
    gap.stream = (uint32_t)random_below(story->streams->len);
    return with_gap(story, &gap, LOSS_CUT);
}

static struct recording *twice(const struct recording *story, const struct recording *neighbour,
                               struct renaming *renaming)
{
    const struct renaming apart = { .vpid_offset = 100000,
                                    .scale = { [VALUE_THREAD] = 1 },
                                    .offset = { [VALUE_THREAD] = 100000 } };
    struct recording *copy, *other;
    int64_t begin_ns, end_ns;

    if (has_losses(story) || !has_contexts(story) || !story->entries->len || !has_event(story, EVENT_rt_loop_create) ||
        story->traces->len != 1)
        return NULL;
    span(story, &begin_ns, &end_ns);
    copy = recording_copy(story, true);
    other = apply_to_copy(story, &apart);
    merge(copy, other, 0, end_ns);
    own_texts(copy);
    recording_free(other);
    return copy;
}

const struct variant variants[] = {
    { "again", SAME, again },
    { "other-ids", SAME, other_ids },
    { "other-threads", SAME, other_threads },
    { "other-queues", SAME, other_queues },
    { "other-names", SAME, other_names },
    { "other-time", SAME, other_time },
    { "other-streams", SAME, other_streams },
    { "one-stream", SAME, one_stream },
    { "older-process", SAME, older_process },
    { "second-baseline", SAME_TEXT, second_baseline },
    { "neighbour", SAME, with_neighbour },
    { "two-processes", TWICE, twice },
    { "without-set", NO_FINDING, without_set },
    { "without-context", NO_FINDING, without_context },
    { "late-start", NO_FINDING, late_start },
    { "snapshot", NO_FINDING, snapshot },
    { "early-end", NO_FINDING, early_end },
    { "killed", NO_FINDING, killed },
    { "discarded", NO_FINDING, discarded },
    { "cut", NO_FINDING, cut },
    { NULL, SAME, NULL },
};
