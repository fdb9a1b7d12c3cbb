#include "export/chrome.h"

#include <glib.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "model/request.h"

/* The process of the findings; traced ones follow in order of appearance. */
#define FINDINGS_PID 0
#define PID(process) ((process)->index + 1)

enum slice_kind { SLICE_BUSY, SLICE_POLL, SLICE_WAIT, SLICE_COROUTINE };

struct slice {
    enum slice_kind kind;
    uint64_t id; /* of the loop or coroutine */
};

/* A thread of a process. */
struct track {
    unsigned pid;
    int64_t tid;
    bool named;
    GArray *open; /* struct slice, the innermost last */
};

struct open_request {
    unsigned pid;
    uint64_t id;
    const char *stage; /* that is open; NULL: none */
    bool flows;
};

struct chrome {
    FILE *file;
    int64_t begin_ns, last_ns;
    bool any;
    GHashTable *tracks;   /* "pid.tid" -> struct track */
    GHashTable *requests; /* "pid.id" -> struct open_request */
    GHashTable *named;    /* pids whose process has a name */
};

static void track_free(void *data)
{
    struct track *track = data;

    g_array_unref(track->open);
    g_free(track);
}

struct chrome *chrome_create(FILE *file)
{
    struct chrome *chrome = g_new0(struct chrome, 1);

    chrome->file = file;
    chrome->tracks = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, track_free);
    chrome->requests = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    chrome->named = g_hash_table_new(NULL, NULL);
    return chrome;
}

void chrome_destroy(struct chrome *chrome)
{
    if (!chrome)
        return;
    g_hash_table_destroy(chrome->tracks);
    g_hash_table_destroy(chrome->requests);
    g_hash_table_destroy(chrome->named);
    g_free(chrome);
}

/* --- writing ------------------------------------------------------------------------------------------- */

/* A name from the trace as a JSON string. */
static char *quoted(const char *text)
{
    json_t *value = json_string(text ? text : "without name");
    char *dumped = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL, *copy;

    copy = g_strdup(dumped ? dumped : "\"?\"");
    free(dumped);
    json_decref(value);
    return copy;
}

static void write_text(FILE *file, const char *format, ...) G_GNUC_PRINTF(2, 3);

static void write_text(FILE *file, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vfprintf(file, format, args);
    va_end(args);
}

static void open_document(FILE *file)
{
    write_text(file, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
                     "{\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"Findings\"}}",
               FINDINGS_PID);
}

/* What all events have: phase, track and time since the begin in microseconds, exact to the nanosecond. */
static void write_head(FILE *file, char phase, unsigned pid, int64_t tid, int64_t since_ns)
{
    since_ns = MAX(since_ns, 0);
    write_text(file, ",\n{\"ph\":\"%c\",\"pid\":%u,\"tid\":%" PRId64 ",\"ts\":%" PRId64 ".%03d", phase, pid, tid, since_ns / 1000,
               (int)(since_ns % 1000));
}

static void write_name(FILE *file, const char *kind, unsigned pid, int64_t tid, const char *name)
{
    char *text = quoted(name);

    write_text(file, ",\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%" PRId64 ",\"name\":\"%s\",\"args\":{\"name\":%s}}", pid, tid, kind, text);
    g_free(text);
}

static int64_t since(const struct chrome *chrome, int64_t time_ns)
{
    return time_ns - chrome->begin_ns;
}

/* --- threads ------------------------------------------------------------------------------------------- */

static struct track *need_track(struct chrome *chrome, const struct process *process, int64_t tid)
{
    char *key = g_strdup_printf("%u.%" PRId64, PID(process), tid);
    struct track *track = g_hash_table_lookup(chrome->tracks, key);
    const struct thread *thread = process_find_thread(process, tid);

    if (!track) {
        track = g_new0(struct track, 1);
        track->pid = PID(process);
        track->tid = tid;
        track->open = g_array_new(FALSE, FALSE, sizeof(struct slice));
        g_hash_table_insert(chrome->tracks, g_steal_pointer(&key), track);
    }
    g_free(key);
    if (!track->named && thread && thread->name) {
        track->named = true;
        write_name(chrome->file, "thread_name", track->pid, tid, thread->name);
    }
    return track;
}

static void close_last(struct chrome *chrome, struct track *track, int64_t time_ns)
{
    write_head(chrome->file, 'E', track->pid, track->tid, since(chrome, time_ns));
    write_text(chrome->file, "}");
    g_array_set_size(track->open, track->open->len - 1);
}

/* Close the slice and what is open in it; nothing if its begin was not seen. */
static void close_slice(struct chrome *chrome, struct track *track, int64_t time_ns, enum slice_kind kind, uint64_t id)
{
    unsigned depth = track->open->len;

    while (depth > 0) {
        const struct slice *slice = &g_array_index(track->open, struct slice, depth - 1);

        if (slice->kind == kind && slice->id == id)
            break;
        depth--;
    }
    while (depth > 0 && track->open->len >= depth)
        close_last(chrome, track, time_ns);
}

static void close_all(struct chrome *chrome, struct track *track, int64_t time_ns)
{
    while (track->open->len > 0)
        close_last(chrome, track, time_ns);
}

static void open_slice(struct chrome *chrome, struct track *track, int64_t time_ns, enum slice_kind kind, uint64_t id)
{
    static const char *const names[] = { "busy", "poll", "wait", "coroutine" };
    const struct slice slice = { kind, id };

    write_head(chrome->file, 'B', track->pid, track->tid, since(chrome, time_ns));
    if (kind == SLICE_COROUTINE)
        write_text(chrome->file, ",\"cat\":\"coroutine\",\"name\":\"coroutine %" PRIu64 "\"}", id);
    else
        write_text(chrome->file, ",\"cat\":\"loop\",\"name\":\"%s\",\"args\":{\"loop_id\":%" PRIu64 "}}", names[kind], id);
    g_array_append_val(track->open, slice);
}

/* A loop's thread does one of three things at a time; a coroutine runs within the first. */
static void loop_does(struct chrome *chrome, const struct occurrence *what, enum slice_kind kind)
{
    struct track *track;
    uint64_t id = what->loop ? what->loop->id : 0;
    int64_t tid = what->event->vtid != EVENT_UNKNOWN_ID ? what->event->vtid : what->loop ? what->loop->thread_id : 0;

    track = need_track(chrome, what->process, tid);
    close_all(chrome, track, what->event->time_ns);
    open_slice(chrome, track, what->event->time_ns, kind, id);
}

/* --- requests ------------------------------------------------------------------------------------------ */

static void write_async(struct chrome *chrome, char phase, const struct open_request *request, const char *name, int64_t time_ns)
{
    write_head(chrome->file, phase, request->pid, 0, since(chrome, time_ns));
    write_text(chrome->file, ",\"cat\":\"request\",\"id\":\"%u.%" PRIu64 "\",\"name\":\"%s\"}", request->pid, request->id, name);
}

static void set_stage(struct chrome *chrome, struct open_request *request, const char *stage, int64_t time_ns)
{
    if (request->stage)
        write_async(chrome, 'e', request, request->stage, time_ns);
    request->stage = stage;
    if (stage)
        write_async(chrome, 'b', request, stage, time_ns);
}

static void write_flow(struct chrome *chrome, char phase, const struct open_request *request, int64_t tid, int64_t time_ns)
{
    write_head(chrome->file, phase, request->pid, tid, since(chrome, time_ns));
    write_text(chrome->file, ",\"cat\":\"request\",\"id\":\"f%u.%" PRIu64 "\",\"name\":\"request\"%s}", request->pid, request->id,
               phase == 'f' ? ",\"bp\":\"e\"" : "");
}

static void end_request(struct chrome *chrome, struct open_request *request, int64_t tid, int64_t time_ns)
{
    set_stage(chrome, request, NULL, time_ns);
    write_async(chrome, 'e', request, "request", time_ns);
    if (request->flows)
        write_flow(chrome, 'f', request, tid, time_ns);
}

static void begin_request(struct chrome *chrome, const struct occurrence *what, char *key, uint64_t id)
{
    const struct event *event = what->event;
    struct open_request *request = g_new0(struct open_request, 1);

    request->pid = PID(what->process);
    request->id = id;
    request->flows = event->vtid != EVENT_UNKNOWN_ID;
    g_hash_table_insert(chrome->requests, key, request);
    write_head(chrome->file, 'b', request->pid, 0, since(chrome, event->time_ns));
    write_text(chrome->file,
               ",\"cat\":\"request\",\"id\":\"%u.%" PRIu64 "\",\"name\":\"request\",\"args\":{\"type\":\"%s\",\"device_id\":%" PRIu64
               ",\"queue_index\":%" PRIu64 ",\"offset_bytes\":%" PRIu64 ",\"size_bytes\":%" PRIu64 "}}",
               request->pid, id, request_type_text(event->fields.vblk_request_begin.type),
               event->fields.vblk_request_begin.device_id, event->fields.vblk_request_begin.queue_index,
               event->fields.vblk_request_begin.offset_bytes, event->fields.vblk_request_begin.size_bytes);
    set_stage(chrome, request, "queued", event->time_ns);
    if (request->flows)
        write_flow(chrome, 's', request, event->vtid, event->time_ns);
}

static void request_event(struct chrome *chrome, const struct occurrence *what)
{
    const struct event *event = what->event;
    const uint64_t id = event->fields.vblk_request_submit.request_id; /* the first field of all of them */
    char *key = g_strdup_printf("%u.%" PRIu64, PID(what->process), id);
    struct open_request *request = g_hash_table_lookup(chrome->requests, key);

    if (event->id == EVENT_vblk_request_begin) {
        if (!request)
            begin_request(chrome, what, g_steal_pointer(&key), id);
    } else if (!request) {
        ; /* its begin was not recorded */
    } else if (event->id == EVENT_vblk_request_serialise_wait) {
        set_stage(chrome, request, "serialising", event->time_ns);
    } else if (event->id == EVENT_vblk_request_submit) {
        set_stage(chrome, request, "backend", event->time_ns);
    } else if (event->id == EVENT_vblk_request_complete) {
        set_stage(chrome, request, "completing", event->time_ns);
    } else {
        end_request(chrome, request, event->vtid != EVENT_UNKNOWN_ID ? event->vtid : 0, event->time_ns);
        g_hash_table_remove(chrome->requests, key);
    }
    g_free(key);
}

/* --- counters and instants ----------------------------------------------------------------------------- */

static void write_counter(struct chrome *chrome, const struct occurrence *what, const char *name, const char *series, uint64_t value)
{
    char *text = quoted(name);

    write_head(chrome->file, 'C', PID(what->process), 0, since(chrome, what->event->time_ns));
    write_text(chrome->file, ",\"name\":%s,\"args\":{\"%s\":%" PRIu64 "}}", text, series, value);
    g_free(text);
}

static void queue_counters(struct chrome *chrome, const struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;
    const char *device = what->device && what->device->name ? what->device->name : "device";
    char *name = g_strdup_printf("%s queue %" PRIu64, device, f->vblk_queue_sample.queue_index);
    const uint16_t waiting = (uint16_t)(f->vblk_queue_sample.avail_index - f->vblk_queue_sample.popped_index);

    write_counter(chrome, what, name, "depth", waiting + f->vblk_queue_sample.in_flight);
    g_free(name);
}

static void write_instant(struct chrome *chrome, const struct occurrence *what)
{
    const int64_t tid = what->event->vtid != EVENT_UNKNOWN_ID ? what->event->vtid : 0;

    if (what->in_baseline)
        return;
    if (tid)
        (void)need_track(chrome, what->process, tid);
    write_head(chrome->file, 'i', PID(what->process), tid, since(chrome, what->event->time_ns));
    write_text(chrome->file, ",\"cat\":\"anomaly\",\"s\":\"t\",\"name\":\"%s\"}", event_classes[what->event->id].name);
}

static void name_process(struct chrome *chrome, const struct process *process)
{
    const char *name = process_name(process);
    char *text;

    if (g_hash_table_contains(chrome->named, GUINT_TO_POINTER(PID(process))))
        return;
    g_hash_table_add(chrome->named, GUINT_TO_POINTER(PID(process)));
    text = process->vpid == EVENT_UNKNOWN_ID ? g_strdup(name ? name : "process")
                                             : g_strdup_printf("%s (%" PRId64 ")", name ? name : "process", process->vpid);
    write_name(chrome->file, "process_name", PID(process), 0, text);
    g_free(text);
}

void chrome_event(struct chrome *chrome, const struct occurrence *what)
{
    const struct event *event = what->event;
    const union event_fields *f = &event->fields;

    if (!chrome->any) {
        chrome->begin_ns = analysis_begin_ns(what->process->analysis);
        open_document(chrome->file);
    }
    chrome->any = true;
    chrome->last_ns = MAX(chrome->last_ns, event->time_ns);
    name_process(chrome, what->process);
    switch (event->id) {
    case EVENT_rt_loop_wait_begin:
        loop_does(chrome, what, SLICE_WAIT);
        break;
    case EVENT_rt_loop_poll_begin:
        loop_does(chrome, what, SLICE_POLL);
        break;
    case EVENT_rt_loop_wait_end:
    case EVENT_rt_loop_poll_end:
        loop_does(chrome, what, SLICE_BUSY);
        break;
    case EVENT_rt_coroutine_enter:
        open_slice(chrome, need_track(chrome, what->process, f->rt_coroutine_enter.thread_id), event->time_ns, SLICE_COROUTINE,
                   f->rt_coroutine_enter.coroutine_id);
        break;
    case EVENT_rt_coroutine_yield:
        close_slice(chrome, need_track(chrome, what->process, f->rt_coroutine_yield.thread_id), event->time_ns, SLICE_COROUTINE,
                    f->rt_coroutine_yield.coroutine_id);
        break;
    case EVENT_rt_coroutine_terminate:
        close_slice(chrome, need_track(chrome, what->process, f->rt_coroutine_terminate.thread_id), event->time_ns,
                    SLICE_COROUTINE, f->rt_coroutine_terminate.coroutine_id);
        break;
    case EVENT_vblk_request_begin:
    case EVENT_vblk_request_submit:
    case EVENT_vblk_request_complete:
    case EVENT_vblk_request_serialise_wait:
    case EVENT_vblk_request_end:
    case EVENT_vblk_request_abandoned:
        request_event(chrome, what);
        break;
    case EVENT_rt_pool_global_sample:
        write_counter(chrome, what, "global pool", "coroutines", f->rt_pool_global_sample.global_size);
        break;
    case EVENT_rt_process_vma_sample:
        write_counter(chrome, what, "mappings", "mappings", f->rt_process_vma_sample.vma_count);
        write_counter(chrome, what, "coroutines alive", "coroutines", f->rt_process_vma_sample.live_count);
        break;
    case EVENT_vblk_queue_sample:
        queue_counters(chrome, what);
        break;
    case EVENT_rt_loop_hog:
    case EVENT_rt_lock_held_at_yield:
    case EVENT_rt_process_vma_exhausted:
    case EVENT_rt_pool_overflow:
    case EVENT_vblk_queue_broken:
    case EVENT_vblk_request_slow:
    case EVENT_vblk_dataplane_state:
    case EVENT_vblk_dataplane_drain_begin:
    case EVENT_vblk_dataplane_drain_end:
    case EVENT_vblk_dataplane_loop_change:
    case EVENT_vhost_user_connect:
    case EVENT_vhost_user_disconnect:
        write_instant(chrome, what);
        break;
    default:
        break;
    }
}

static gint by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The values of a table in the order of its keys: the document must not depend on hashing. */
static GPtrArray *in_order(GHashTable *table)
{
    GList *keys = g_list_sort(g_hash_table_get_keys(table), by_text);
    GPtrArray *values = g_ptr_array_new();

    for (GList *key = keys; key; key = key->next)
        g_ptr_array_add(values, g_hash_table_lookup(table, key->data));
    g_list_free(keys);
    return values;
}

void chrome_end(struct chrome *chrome, int64_t end_ns)
{
    GPtrArray *tracks = in_order(chrome->tracks), *requests = in_order(chrome->requests);

    end_ns = MAX(end_ns, chrome->last_ns);
    if (!chrome->any)
        open_document(chrome->file);
    for (unsigned i = 0; i < requests->len; i++)
        end_request(chrome, g_ptr_array_index(requests, i), 0, end_ns);
    for (unsigned i = 0; i < tracks->len; i++)
        close_all(chrome, g_ptr_array_index(tracks, i), end_ns);
    g_ptr_array_unref(tracks);
    g_ptr_array_unref(requests);
}

void chrome_findings(FILE *file, const json_t *report)
{
    const json_t *trace = json_object_get(report, "trace");
    const int64_t begin_ns = json_integer_value(json_object_get(trace, "begin_ns"));
    const int64_t end_ns = json_integer_value(json_object_get(trace, "end_ns"));
    json_t *finding;
    size_t index;

    json_array_foreach (json_object_get(report, "findings"), index, finding) {
        const int64_t from_ns = CLAMP(json_integer_value(json_object_get(finding, "begin_ns")), begin_ns, end_ns);
        const int64_t to_ns = CLAMP(json_integer_value(json_object_get(finding, "end_ns")), from_ns, end_ns);
        const char *id = json_string_value(json_object_get(finding, "id"));
        json_t *arguments = json_pack("{s:O, s:O, s:O, s:O}", "severity", json_object_get(finding, "severity"), "summary",
                                      json_object_get(finding, "summary"), "cause", json_object_get(finding, "cause"), "advice",
                                      json_object_get(finding, "advice"));
        char *text = json_dumps(arguments, 0);

        write_name(file, "thread_name", FINDINGS_PID, (int64_t)index + 1, id);
        write_head(file, 'B', FINDINGS_PID, (int64_t)index + 1, from_ns - begin_ns);
        write_text(file, ",\"cat\":\"finding\",\"name\":\"%s\",\"args\":%s}", id, text);
        write_head(file, 'E', FINDINGS_PID, (int64_t)index + 1, to_ns - begin_ns);
        write_text(file, "}");
        free(text);
        json_decref(arguments);
    }
    write_text(file, "\n],\"otherData\":{\"begin_ns\":\"%" PRId64 "\"}}\n", begin_ns);
}
