#include "core/tables.h"

#include "core/check.h"
#include "core/json_text.h"

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)MIN(value, (uint64_t)INT64_MAX));
}

static gint by_number(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return x < y ? -1 : x > y;
}

/* Values of a table in the order of their ids: reports must not depend on hashing. */
static GPtrArray *sorted_values(GHashTable *table)
{
    GPtrArray *values = g_ptr_array_new();
    GList *keys = g_list_sort(g_hash_table_get_keys(table), by_number);

    for (GList *key = keys; key; key = key->next)
        g_ptr_array_add(values, g_hash_table_lookup(table, key->data));
    g_list_free(keys);
    return values;
}

static json_t *pid(const struct process *process)
{
    return process->vpid == EVENT_UNKNOWN_ID ? json_null() : json_integer(process->vpid);
}

static json_t *pool_of(const struct process *process)
{
    json_t *object = json_object(), *threads = json_array();
    GPtrArray *values = sorted_values(process->threads);

    json_object_set_new(object, "pid", pid(process));
    json_object_set_new(object, "policy", text_or_null(process->info_text[1]));
    if (process->global_pool.valid) {
        const union event_fields *f = &process->global_pool.fields;

        json_object_set_new(object, "global_size", integer(f->rt_pool_global_sample.global_size));
        json_object_set_new(object, "global_max", integer(f->rt_pool_global_sample.global_max));
        json_object_set_new(object, "global_hard_max", integer(f->rt_pool_global_sample.global_hard_max));
    }
    for (unsigned i = 0; i < values->len; i++) {
        const struct thread *thread = g_ptr_array_index(values, i);
        const union event_fields *f = &thread->last.fields;

        if (!thread->last.valid)
            continue;
        json_array_append_new(threads, json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "thread_id",
                                                 (json_int_t)thread->tid, "name", text_or_null(thread->name),
                                                 "local_size", integer(f->rt_pool_local_sample.local_size),
                                                 "takes", integer(f->rt_pool_local_sample.takes), "gives",
                                                 integer(f->rt_pool_local_sample.gives), "misses",
                                                 integer(f->rt_pool_local_sample.misses), "refills",
                                                 integer(f->rt_pool_local_sample.refills), "donations",
                                                 integer(f->rt_pool_local_sample.donations), "overflows",
                                                 integer(f->rt_pool_local_sample.overflows)));
    }
    g_ptr_array_free(values, TRUE);
    json_object_set_new(object, "threads", threads);
    return object;
}

static json_t *vma_of(const struct process *process)
{
    const union event_fields *f = &process->vma.fields;
    json_t *object = json_object();

    json_object_set_new(object, "pid", pid(process));
    if (process->vma.valid) {
        json_object_set_new(object, "vma_count", integer(f->rt_process_vma_sample.vma_count));
        json_object_set_new(object, "max_map_count", integer(f->rt_process_vma_sample.max_map_count));
        json_object_set_new(object, "stack_count", integer(f->rt_process_vma_sample.stack_count));
        json_object_set_new(object, "stack_vma_count", integer(f->rt_process_vma_sample.stack_vma_count));
        json_object_set_new(object, "live_count", integer(f->rt_process_vma_sample.live_count));
    }
    if (process->info.valid)
        json_object_set_new(object, "mappings_per_1000_stacks",
                            integer(process->info.fields.rt_process_info.mappings_per_1000_stacks));
    return object;
}

typedef json_t *process_table(const struct process *process);

static json_t *per_process(const struct analysis *analysis, process_table *table)
{
    json_t *processes = json_array();

    for (unsigned i = 0; i < analysis_process_count(analysis); i++)
        json_array_append_new(processes, table(analysis_process(analysis, i)));
    return json_pack("{s:o}", "processes", processes);
}

json_t *table_pool(const struct analysis *analysis)
{
    return per_process(analysis, pool_of);
}

json_t *table_vma(const struct analysis *analysis)
{
    return per_process(analysis, vma_of);
}

/* Running totals: what was counted while we watched. */
#define GREW(object, field, event)                                                                           \
    integer((object)->last.fields.event.field - (object)->first.fields.event.field)

static void loops_of(const struct process *process, json_t *loops)
{
    GPtrArray *values = sorted_values(process->loops);

    for (unsigned i = 0; i < values->len; i++) {
        const struct loop *loop = g_ptr_array_index(values, i);
        json_t *object = json_object();

        json_object_set_new(object, "pid", pid(process));
        json_object_set_new(object, "loop_id", json_integer(loop->id));
        json_object_set_new(object, "name", text_or_null(loop->name));
        json_object_set_new(object, "thread_id",
                            loop->thread_id ? json_integer(loop->thread_id) : json_null());
        if (loop->last.valid) {
            json_object_set_new(object, "sampled_ns", json_integer(loop->last.time_ns - loop->first.time_ns));
            json_object_set_new(object, "passes", GREW(loop, passes, rt_loop_sample));
            json_object_set_new(object, "dispatches", GREW(loop, dispatches, rt_loop_sample));
            json_object_set_new(object, "idle_dispatches", GREW(loop, idle_dispatches, rt_loop_sample));
            json_object_set_new(object, "notifies", GREW(loop, notifies, rt_loop_sample));
            json_object_set_new(object, "event_writes", GREW(loop, event_writes, rt_loop_sample));
            json_object_set_new(object, "event_writes_while_polling",
                                GREW(loop, event_writes_while_polling, rt_loop_sample));
            json_object_set_new(object, "polls", GREW(loop, polls, rt_loop_sample));
            json_object_set_new(object, "polls_useful", GREW(loop, polls_useful, rt_loop_sample));
            /* a dialect tells how long a loop polls, not how it divides up the rest */
            json_object_set_new(object, "busy_ns",
                                process->dialect ? json_null() : GREW(loop, busy_ns, rt_loop_sample));
            json_object_set_new(object, "poll_ns", GREW(loop, poll_ns, rt_loop_sample));
            json_object_set_new(object, "wait_ns",
                                process->dialect ? json_null() : GREW(loop, wait_ns, rt_loop_sample));
        }
        json_array_append_new(loops, object);
    }
    g_ptr_array_free(values, TRUE);
}

static void locks_of(const struct process *process, json_t *locks)
{
    static const char *const kinds[] = { "thread_mutex", "coroutine_mutex" };
    GPtrArray *values = sorted_values(process->locks);

    for (unsigned i = 0; i < values->len; i++) {
        const struct lock *lock = g_ptr_array_index(values, i);
        json_t *object = json_object();

        json_object_set_new(object, "pid", pid(process));
        json_object_set_new(object, "lock_id", integer(lock->id));
        json_object_set_new(object, "class_name", text_or_null(lock->class_name));
        json_object_set_new(object, "kind",
                            text_or_null(lock->kind == 0 || lock->kind == 1 ? kinds[lock->kind] : NULL));
        if (lock->last.valid) {
            json_object_set_new(object, "acquisitions", GREW(lock, acquisitions, rt_lock_sample));
            json_object_set_new(object, "contentions", GREW(lock, contentions, rt_lock_sample));
            json_object_set_new(object, "wait_ns", GREW(lock, wait_ns, rt_lock_sample));
            json_object_set_new(object, "hold_ns", GREW(lock, hold_ns, rt_lock_sample));
        }
        json_array_append_new(locks, object);
    }
    g_ptr_array_free(values, TRUE);
}

static json_t *queue_json(const struct process *process, const struct device *device,
                          const struct queue *queue)
{
    json_t *object = json_object();

    json_object_set_new(object, "pid", pid(process));
    json_object_set_new(object, "device_id", json_integer(device->id));
    json_object_set_new(object, "device", text_or_null(device->name));
    json_object_set_new(object, "queue_index", json_integer(queue->index));
    json_object_set_new(object, "loop_id", queue->owner_loop ? json_integer(queue->owner_loop) : json_null());
    json_object_set_new(object, "attached_loop_id",
                        queue->attached_loop ? json_integer(queue->attached_loop) : json_null());
    json_object_set_new(object, "broken", json_boolean(queue->broken));
    if (queue->last.valid) {
        const union event_fields *f = &queue->last.fields;

        json_object_set_new(object, "avail_index", integer(f->vblk_queue_sample.avail_index));
        json_object_set_new(object, "popped_index", integer(f->vblk_queue_sample.popped_index));
        json_object_set_new(object, "used_index", integer(f->vblk_queue_sample.used_index));
        json_object_set_new(object, "in_flight", integer(f->vblk_queue_sample.in_flight));
        json_object_set_new(object, "kicks", GREW(queue, kicks, vblk_queue_sample));
        json_object_set_new(object, "empty_kicks", GREW(queue, empty_kicks, vblk_queue_sample));
        json_object_set_new(object, "pops", GREW(queue, pops, vblk_queue_sample));
        json_object_set_new(object, "completions", GREW(queue, completions, vblk_queue_sample));
        json_object_set_new(object, "interrupts", GREW(queue, interrupts, vblk_queue_sample));
        json_object_set_new(object, "suppressed_interrupts",
                            GREW(queue, suppressed_interrupts, vblk_queue_sample));
    }
    return object;
}

static void queues_of(const struct process *process, json_t *queues)
{
    GPtrArray *devices = sorted_values(process->devices);

    for (unsigned i = 0; i < devices->len; i++) {
        const struct device *device = g_ptr_array_index(devices, i);
        GPtrArray *values = sorted_values(device->queues);

        for (unsigned j = 0; j < values->len; j++)
            json_array_append_new(queues, queue_json(process, device, g_ptr_array_index(values, j)));
        g_ptr_array_free(values, TRUE);
    }
    g_ptr_array_free(devices, TRUE);
}

typedef void process_rows(const struct process *process, json_t *rows);

static json_t *rows_of_all(const struct analysis *analysis, process_rows *rows_of)
{
    json_t *rows = json_array();

    for (unsigned i = 0; i < analysis_process_count(analysis); i++)
        rows_of(analysis_process(analysis, i), rows);
    return rows;
}

json_t *table_loops(const struct analysis *analysis)
{
    return rows_of_all(analysis, loops_of);
}

json_t *table_locks(const struct analysis *analysis)
{
    return rows_of_all(analysis, locks_of);
}

json_t *table_queues(const struct analysis *analysis)
{
    return rows_of_all(analysis, queues_of);
}
