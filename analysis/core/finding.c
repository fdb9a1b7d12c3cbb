#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "core/internal.h"
#include "core/json_text.h"

#define EVIDENCE_FIRST 8
#define EVIDENCE_LAST 4

static char *full_key(const struct process *process, const char *id, const char *key)
{
    return g_strdup_printf("%s\n%d\n%s", id, process ? (int)process->index : -1, key);
}

static struct finding *get(struct analysis *analysis, const struct process *process, const char *id,
                           char *key)
{
    char *full = full_key(process, id, key);
    struct finding *finding = g_hash_table_lookup(analysis->finding_by_key, full);

    g_free(key);
    if (finding) {
        g_free(full);
        return finding;
    }
    finding = g_new0(struct finding, 1);
    finding->id = id;
    finding->process = process;
    finding->key = full;
    finding->order = analysis->findings->len;
    finding->begin_ns = INT64_MAX;
    finding->end_ns = INT64_MIN;
    finding->subject = json_object();
    finding->evidence = g_array_new(FALSE, TRUE, sizeof(struct evidence));
    g_ptr_array_add(analysis->findings, finding);
    g_hash_table_insert(analysis->finding_by_key, full, finding);
    return finding;
}

struct finding *finding_get(const struct check_env *env, const char *id, const char *key_format, ...)
{
    struct finding *finding;
    va_list args;

    va_start(args, key_format);
    finding = get(env->analysis, env->process, id, g_strdup_vprintf(key_format, args));
    va_end(args);
    return finding;
}

struct finding *finding_get_global(struct analysis *analysis, const char *id, const char *key_format, ...)
{
    struct finding *finding;
    va_list args;

    va_start(args, key_format);
    finding = get(analysis, NULL, id, g_strdup_vprintf(key_format, args));
    va_end(args);
    return finding;
}

bool finding_exists(const struct check_env *env, const char *id, const char *key_format, ...)
{
    char *key, *full;
    bool exists;
    va_list args;

    va_start(args, key_format);
    key = g_strdup_vprintf(key_format, args);
    va_end(args);
    full = full_key(env->process, id, key);
    exists = g_hash_table_contains(env->analysis->finding_by_key, full);
    g_free(key);
    g_free(full);
    return exists;
}

bool finding_is_told(const struct finding *finding)
{
    return finding->summary != NULL;
}

void finding_free(void *data)
{
    struct finding *finding = data;

    for (unsigned i = 0; i < finding->evidence->len; i++)
        g_free(g_array_index(finding->evidence, struct evidence, i).text);
    g_array_free(finding->evidence, TRUE);
    json_decref(finding->subject);
    g_free(finding->key);
    g_free(finding->summary);
    g_free(finding->cause);
    g_free(finding->advice);
    g_free(finding);
}

void finding_raise(struct finding *finding, enum severity severity)
{
    finding->severity = MAX(finding->severity, severity);
}

void finding_span(struct finding *finding, int64_t begin_ns, int64_t end_ns)
{
    finding->begin_ns = MIN(finding->begin_ns, begin_ns);
    finding->end_ns = MAX(finding->end_ns, end_ns);
}

void finding_add_count(struct finding *finding, uint64_t count)
{
    finding->count += count;
}

/* Made before the old text goes: a caller may pass it as an argument. */
#define REPLACE_TEXT(field)                                                                                  \
    do {                                                                                                     \
        va_list args;                                                                                        \
        char *text;                                                                                          \
        va_start(args, format);                                                                              \
        text = g_strdup_vprintf(format, args);                                                               \
        va_end(args);                                                                                        \
        g_free(field);                                                                                       \
        (field) = text;                                                                                      \
    } while (0)

void finding_summary(struct finding *finding, const char *format, ...)
{
    REPLACE_TEXT(finding->summary);
}

void finding_cause(struct finding *finding, const char *format, ...)
{
    REPLACE_TEXT(finding->cause);
}

void finding_advice(struct finding *finding, const char *format, ...)
{
    REPLACE_TEXT(finding->advice);
}

static void add_evidence(struct finding *finding, int64_t time_ns, const char *event, char *text)
{
    const struct evidence evidence = { .time_ns = time_ns, .event = event, .text = text };

    finding->evidence_count++;
    if (finding->evidence->len == EVIDENCE_FIRST + EVIDENCE_LAST) {
        g_free(g_array_index(finding->evidence, struct evidence, EVIDENCE_FIRST).text);
        g_array_remove_index(finding->evidence, EVIDENCE_FIRST);
    }
    g_array_append_val(finding->evidence, evidence);
}

void finding_evidence(struct finding *finding, int64_t time_ns, enum event_id id, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_evidence(finding, time_ns, event_classes[id].name, g_strdup_vprintf(format, args));
    va_end(args);
}

void finding_note(struct finding *finding, int64_t time_ns, const char *what, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_evidence(finding, time_ns, what, g_strdup_vprintf(format, args));
    va_end(args);
}

void finding_subject(struct finding *finding, const char *key, json_t *value)
{
    json_object_set_new(finding->subject, key, value);
}

void finding_subject_loop(struct finding *finding, const struct process *process, uint32_t loop_id)
{
    const struct loop *loop = process_loop(process, loop_id);

    finding_subject(finding, "loop", text_or_null(loop ? loop->name : NULL));
    finding_subject(finding, "loop_id", json_integer(loop_id));
    if (loop && loop->thread_id)
        finding_subject(finding, "thread_id", json_integer(loop->thread_id));
}

void finding_subject_thread(struct finding *finding, const struct process *process, int64_t tid)
{
    const struct thread *thread = process_find_thread(process, tid);

    finding_subject(finding, "thread", text_or_null(thread ? thread->name : NULL));
    finding_subject(finding, "thread_id", json_integer(tid));
}

void finding_subject_device(struct finding *finding, const struct process *process, uint32_t device_id)
{
    const struct device *device = process_device(process, device_id);

    finding_subject(finding, "device", text_or_null(device ? device->name : NULL));
    finding_subject(finding, "device_id", json_integer(device_id));
}

void finding_subject_queue(struct finding *finding, const struct process *process, uint32_t device_id,
                           uint16_t queue_index)
{
    finding_subject_device(finding, process, device_id);
    finding_subject(finding, "queue_index", json_integer(queue_index));
}

void finding_subject_handler(struct finding *finding, const struct process *process,
                             const struct handler *handler)
{
    finding_subject_loop(finding, process, handler->loop_id);
    finding_subject(finding, "fd", json_integer(handler->fd));
    finding_subject(finding, "handler_id", json_integer((json_int_t)handler->id));
    if (handler->device_id) {
        finding_subject_device(finding, process, handler->device_id);
        if (handler->role == ROLE_HOST_NOTIFIER)
            finding_subject(finding, "queue_index", json_integer(handler->queue_index));
    }
}

void finding_subject_lock(struct finding *finding, const struct process *process, uint64_t lock_id)
{
    const struct lock *lock = process_lock(process, lock_id);

    finding_subject(finding, "lock_id", json_integer((json_int_t)lock_id));
    finding_subject(finding, "class_name", text_or_null(lock ? lock->class_name : NULL));
}

void inconclusive(const struct check_env *env, const char *id, int64_t begin_ns, int64_t end_ns,
                  const char *format, ...)
{
    struct unsure unsure = { .id = id, .process = env->process, .begin_ns = begin_ns, .end_ns = end_ns };
    va_list args;

    va_start(args, format);
    unsure.reason = g_strdup_vprintf(format, args);
    va_end(args);
    for (unsigned i = 0; i < env->analysis->unsure->len; i++) {
        const struct unsure *other = &g_array_index(env->analysis->unsure, struct unsure, i);

        if (!strcmp(other->id, id) && other->process == env->process &&
            !strcmp(other->reason, unsure.reason)) {
            g_free(unsure.reason);
            return;
        }
    }
    g_array_append_val(env->analysis->unsure, unsure);
}

/* --- report -------------------------------------------------------------------------------------------- */

static gint by_time(const void *a, const void *b)
{
    const struct evidence *x = a, *y = b;

    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static const char *severity_text(enum severity severity)
{
    static const char *const names[] = { "info", "warning", "error" };

    return names[severity];
}

json_t *finding_json(const struct finding *finding)
{
    json_t *object = json_object(), *evidence = json_array();

    if (finding->process) {
        json_t *process = json_object();

        json_object_set_new(process, "name", text_or_null(process_name(finding->process)));
        json_object_set_new(
            process, "pid",
            finding->process->vpid == EVENT_UNKNOWN_ID ? json_null() : json_integer(finding->process->vpid));
        json_object_set_new(process, "host", text_or_null(finding->process->trace->hostname));
        json_object_set_new(finding->subject, "process", process);
    }
    json_object_set_new(object, "id", json_string(finding->id));
    json_object_set_new(object, "severity", json_string(severity_text(finding->severity)));
    json_object_set_new(object, "summary", text_or_null(finding->summary ? finding->summary : ""));
    json_object_set_new(object, "begin_ns",
                        json_integer(finding->begin_ns == INT64_MAX ? 0 : finding->begin_ns));
    json_object_set_new(object, "end_ns", json_integer(finding->end_ns == INT64_MIN ? 0 : finding->end_ns));
    json_object_set_new(object, "count", json_integer((json_int_t)finding->count));
    json_object_set(object, "subject", finding->subject);
    json_object_set_new(object, "cause", text_or_null(finding->cause));
    g_array_sort(finding->evidence, by_time);
    for (unsigned i = 0; i < finding->evidence->len; i++) {
        const struct evidence *e = &g_array_index(finding->evidence, struct evidence, i);

        json_array_append_new(evidence, json_pack("{s:I, s:s, s:o}", "time_ns", (json_int_t)e->time_ns,
                                                  "event", e->event, "text", text_or_null(e->text)));
    }
    json_object_set_new(object, "evidence", evidence);
    json_object_set_new(object, "evidence_count", json_integer((json_int_t)finding->evidence_count));
    json_object_set_new(object, "advice", text_or_null(finding->advice ? finding->advice : ""));
    return object;
}

static gint by_weight(const void *a, const void *b)
{
    const struct finding *x = *(struct finding *const *)a, *y = *(struct finding *const *)b;
    int order;

    if (x->severity != y->severity)
        return x->severity > y->severity ? -1 : 1;
    if (x->begin_ns != y->begin_ns)
        return x->begin_ns < y->begin_ns ? -1 : 1;
    order = registry_rank(x->id) - registry_rank(y->id);
    return order ? order : strcmp(x->key, y->key);
}

void findings_sort(struct analysis *analysis)
{
    g_ptr_array_sort(analysis->findings, by_weight);
}
