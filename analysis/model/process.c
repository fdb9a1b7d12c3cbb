#include "model/process.h"

#include <inttypes.h>
#include <string.h>

#include "core/dialect.h"
#include "model/holding.h"
#include "model/trace.h"

static void loop_free(void *data)
{
    struct loop *loop = data;

    g_free(loop->name);
    g_free(loop);
}

void queue_free(void *data)
{
    struct queue *queue = data;

    if (queue->heads)
        g_array_free(queue->heads, TRUE);
    g_free(queue);
}

static void device_free(void *data)
{
    struct device *device = data;

    g_free(device->name);
    g_free(device->backend);
    g_array_free(device->drains, TRUE);
    g_hash_table_destroy(device->queues);
    g_free(device);
}

static void lock_free(void *data)
{
    struct lock *lock = data;

    g_free(lock->class_name);
    g_free(lock);
}

static void thread_free(void *data)
{
    struct thread *thread = data;

    g_free(thread->name);
    g_array_free(thread->streams, TRUE);
    g_free(thread);
}

struct process *process_create(struct analysis *analysis, struct trace *trace, int64_t vpid, unsigned index)
{
    struct process *process = g_new0(struct process, 1);

    process->analysis = analysis;
    process->trace = trace;
    process->index = index;
    process->vpid = vpid;
    process->latest_loss_end_ns = INT64_MIN;
    process->whole_baselines = g_array_new(FALSE, TRUE, sizeof(struct baseline));
    /* Ids fit a pointer on the 64-bit machines that we run on; a 32-bit build would need boxed keys. */
    G_STATIC_ASSERT(sizeof(void *) >= sizeof(uint64_t));
    process->loops = g_hash_table_new_full(NULL, NULL, NULL, loop_free);
    process->handlers = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    process->devices = g_hash_table_new_full(NULL, NULL, NULL, device_free);
    process->locks = g_hash_table_new_full(NULL, NULL, NULL, lock_free);
    process->threads = g_hash_table_new_full(NULL, NULL, NULL, thread_free);
    process->requests = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    process->waits = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    process->vtids = g_hash_table_new(NULL, NULL);
    process->holds = g_array_new(FALSE, TRUE, sizeof(struct hold));
    return process;
}

void process_destroy(struct process *process)
{
    if (!process)
        return;
    g_hash_table_destroy(process->loops);
    g_hash_table_destroy(process->handlers);
    g_hash_table_destroy(process->devices);
    g_hash_table_destroy(process->locks);
    g_hash_table_destroy(process->threads);
    g_hash_table_destroy(process->requests);
    g_hash_table_destroy(process->waits);
    g_hash_table_destroy(process->vtids);
    g_array_free(process->holds, TRUE);
    g_array_free(process->whole_baselines, TRUE);
    for (unsigned i = 0; i < G_N_ELEMENTS(process->info_text); i++)
        g_free(process->info_text[i]);
    g_free(process);
}

static void *lookup(GHashTable *table, uint64_t id)
{
    return g_hash_table_lookup(table, (void *)(uintptr_t)id);
}

struct loop *process_loop(const struct process *process, uint32_t loop_id)
{
    return lookup(process->loops, loop_id);
}

struct handler *process_handler(const struct process *process, uint64_t handler_id)
{
    return lookup(process->handlers, handler_id);
}

struct device *process_device(const struct process *process, uint32_t device_id)
{
    return lookup(process->devices, device_id);
}

struct lock *process_lock(const struct process *process, uint64_t lock_id)
{
    return lookup(process->locks, lock_id);
}

struct queue *device_queue(const struct device *device, uint16_t queue_index)
{
    return device ? lookup(device->queues, queue_index) : NULL;
}

struct thread *process_find_thread(const struct process *process, int64_t tid)
{
    return lookup(process->threads, (uint64_t)tid);
}

struct thread *process_thread(struct process *process, int64_t tid)
{
    struct thread *thread = process_find_thread(process, tid);

    if (!thread) {
        thread = g_new0(struct thread, 1);
        thread->tid = tid;
        thread->last_ns = INT64_MIN;
        thread->streams = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        g_hash_table_insert(process->threads, (void *)(uintptr_t)tid, thread);
    }
    return thread;
}

int64_t process_vtid(const struct process *process, int64_t thread_id)
{
    void *vtid;

    return g_hash_table_size(process->vtids) &&
                   g_hash_table_lookup_extended(process->vtids, (void *)(uintptr_t)thread_id, NULL, &vtid)
               ? (int64_t)(uintptr_t)vtid
               : thread_id;
}

int64_t loop_vtid(const struct loop *loop)
{
    if (!loop)
        return EVENT_UNKNOWN_ID;
    if (loop->vtid != EVENT_UNKNOWN_ID)
        return loop->vtid;
    return loop->thread_id ? loop->thread_id : EVENT_UNKNOWN_ID;
}

bool loop_sleeps_without_limit(const struct loop *loop)
{
    return loop && loop->sleep.asleep && loop->sleep.timeout_ns < 0;
}

const struct drain *device_drain_of(const struct device *device, int64_t vtid)
{
    if (!device)
        return NULL;
    for (unsigned i = device->drains->len; i-- > 0;) {
        const struct drain *drain = &g_array_index(device->drains, struct drain, i);

        if (vtid == EVENT_UNKNOWN_ID || drain->vtid == vtid)
            return drain;
    }
    return NULL;
}

int64_t process_known_since(const struct process *process)
{
    for (unsigned i = 0; i < process->whole_baselines->len; i++) {
        const struct baseline *baseline = &g_array_index(process->whole_baselines, struct baseline, i);

        if (!loss_hides(process, baseline->vtid, EVENT_rt_process_baseline_begin, baseline->begin_ns,
                        baseline->end_ns, NULL))
            return baseline->end_ns;
    }
    return INT64_MAX;
}

/* Names for texts: a small ring of buffers, so that one line may name several objects. */
static char *text_buffer(void)
{
    static _Thread_local char buffers[8][160];
    static _Thread_local unsigned next;

    return buffers[next++ % G_N_ELEMENTS(buffers)];
}

#define TEXT_MAX 160

const char *loop_text(const struct process *process, uint32_t loop_id)
{
    const struct loop *loop = process_loop(process, loop_id);
    char *text = text_buffer();

    if (loop && loop->name)
        g_snprintf(text, TEXT_MAX, "%s", loop->name);
    else
        g_snprintf(text, TEXT_MAX, "loop %" PRIu32, loop_id);
    return text;
}

const char *device_text(const struct process *process, uint32_t device_id)
{
    const struct device *device = process_device(process, device_id);
    char *text = text_buffer();

    if (device && device->name)
        g_snprintf(text, TEXT_MAX, "%s", device->name);
    else
        g_snprintf(text, TEXT_MAX, "device %" PRIu32, device_id);
    return text;
}

static const char *name_of_thread(const struct process *process, int64_t tid)
{
    const struct thread *thread = process_find_thread(process, tid);
    GHashTableIter iter;
    void *value;

    if (thread && thread->name)
        return thread->name;
    g_hash_table_iter_init(&iter, process->loops);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct loop *loop = value;

        if (loop->thread_id == tid && loop->name)
            return loop->name;
    }
    return NULL;
}

const char *thread_text(const struct process *process, int64_t tid)
{
    const char *name = name_of_thread(process, tid);
    char *text = text_buffer();

    if (tid == EVENT_UNKNOWN_ID)
        g_snprintf(text, TEXT_MAX, "an unknown thread");
    else if (name)
        g_snprintf(text, TEXT_MAX, "%s (%" PRId64 ")", name, tid);
    else
        g_snprintf(text, TEXT_MAX, "thread %" PRId64, tid);
    return text;
}

const char *pool_hard_max_text(const struct process *process)
{
    const uint64_t hard_max = process->global_pool.fields.rt_pool_global_sample.global_hard_max;
    char *text = text_buffer();

    if (!process->global_pool.valid)
        g_snprintf(text, TEXT_MAX, "unknown");
    else if (hard_max == UINT32_MAX)
        g_snprintf(text, TEXT_MAX, "none");
    else
        g_snprintf(text, TEXT_MAX, "%" PRIu64, hard_max);
    return text;
}

const char *lock_text(const struct process *process, uint64_t lock_id)
{
    const struct lock *lock = process_lock(process, lock_id);
    char *text = text_buffer();

    if (lock && lock->class_name)
        g_snprintf(text, TEXT_MAX, "%s (lock %" PRIu64 ")", lock->class_name, lock_id);
    else
        g_snprintf(text, TEXT_MAX, "lock %" PRIu64, lock_id);
    return text;
}

const char *process_name(const struct process *process)
{
    const struct thread *main_thread = process_find_thread(process, process->vpid);

    if (process->trace->procname)
        return process->trace->procname;
    if (main_thread && main_thread->name)
        return main_thread->name; /* the main thread bears the program's name */
    return process->dialect ? process->dialect->name : NULL;
}

const char *process_text(const struct process *process)
{
    const char *name = process_name(process);
    char *text = text_buffer();

    if (process->vpid == EVENT_UNKNOWN_ID)
        g_snprintf(text, TEXT_MAX, "%s", name ? name : "the process");
    else if (name)
        g_snprintf(text, TEXT_MAX, "%s (%" PRId64 ")", name, process->vpid);
    else
        g_snprintf(text, TEXT_MAX, "process %" PRId64, process->vpid);
    return text;
}

const char *state_text(enum device_state state)
{
    static const char *const names[] = { "stopped", "starting", "started", "stopping", "failed" };

    return state >= 0 && (unsigned)state < G_N_ELEMENTS(names) ? names[state] : "unknown";
}

const char *role_text(enum handler_role role)
{
    static const char *const names[] = { "other",   "wakeup",    "host notifier", "vhost-user socket",
                                         "control", "completion" };

    return role >= 0 && (unsigned)role < G_N_ELEMENTS(names) ? names[role] : "unknown";
}
