#include "series/series.h"

#include <string.h>

#include "core/json_text.h"
#include "series/grid.h"
#include "series/heat.h"

#define TOTALS_MAX 6

enum row_kind { ROW_PROCESS, ROW_THREAD, ROW_LOOP, ROW_LOCK, ROW_HOLDER, ROW_QUEUE, ROW_KINDS };

/* Running totals at the last sample, and the columns of their growth. */
struct totals {
    bool valid;
    int64_t first_ns, last_ns;
    uint64_t first[TOTALS_MAX], last[TOTALS_MAX];
    struct column *columns[TOTALS_MAX]; /* NULL: this one is not shown */
};

static const char *const pool_names[] = { "takes", "misses", "refills", "donations", "overflows" };
static const char *const loop_names[] = { "busy_ns",  "poll_ns",      "wait_ns",
                                          "notifies", "event_writes", "passes" };
static const char *const lock_names[] = { "acquisitions", "contentions", "wait_ns", "hold_ns" };
static const char *const queue_names[] = { "completions", "kicks", "interrupts" };
enum { LOCK_CONTENTIONS = 1 };

struct thread_row {
    struct totals totals;
    struct column *size;
};

struct loop_row {
    struct totals totals;
};

struct lock_row {
    struct totals totals;
    GHashTable *holders; /* thread id -> struct column; NULL: nobody waited yet */
};

struct queue_row {
    struct totals totals;
    struct column *depth, *in_flight;
    bool in_flight_known;
    int64_t in_flight_now;
};

struct process_row {
    const struct process *process;
    bool shown, pool_seen, vma_seen;
    struct column *global_size, *global_max, *pool[G_N_ELEMENTS(pool_names)];
    struct column *vma_count, *max_map_count, *stack_count, *live_count;
    GHashTable *threads, *loops, *locks, *queues; /* by id; a queue by device and index */
};

struct series {
    struct grid *grid; /* NULL: no event yet */
    struct heat *heat;
    GPtrArray *processes; /* struct process_row, by the process's index */
    unsigned rows[ROW_KINDS];
};

static void lock_row_free(void *data)
{
    struct lock_row *row = data;

    if (row->holders)
        g_hash_table_destroy(row->holders);
    g_free(row);
}

static void process_row_free(void *data)
{
    struct process_row *row = data;

    if (!row)
        return;
    g_hash_table_destroy(row->threads);
    g_hash_table_destroy(row->loops);
    g_hash_table_destroy(row->locks);
    g_hash_table_destroy(row->queues);
    g_free(row);
}

struct series *series_create(void)
{
    struct series *series = g_new0(struct series, 1);

    series->processes = g_ptr_array_new_with_free_func(process_row_free);
    return series;
}

void series_destroy(struct series *series)
{
    if (!series)
        return;
    g_ptr_array_free(series->processes, TRUE);
    heat_destroy(series->heat);
    grid_destroy(series->grid);
    g_free(series);
}

/* --- rows ---------------------------------------------------------------------------------------------- */

static bool may_show(struct series *series, enum row_kind kind)
{
    if (series->rows[kind] >= SERIES_ROWS_MAX)
        return false;
    series->rows[kind]++;
    return true;
}

static void *key_of(uint64_t id)
{
    return (void *)(uintptr_t)id;
}

static struct process_row *need_process(struct series *series, const struct process *process)
{
    struct process_row *row;
    struct grid *grid = series->grid;

    if (process->index >= series->processes->len)
        g_ptr_array_set_size(series->processes, (int)process->index + 1);
    row = series->processes->pdata[process->index];
    if (row)
        return row;
    row = series->processes->pdata[process->index] = g_new0(struct process_row, 1);
    row->process = process;
    row->threads = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    row->loops = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    row->locks = g_hash_table_new_full(NULL, NULL, NULL, lock_row_free);
    row->queues = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    row->shown = may_show(series, ROW_PROCESS);
    if (!row->shown)
        return row;
    row->global_size = grid_column(grid, COLUMN_GAUGE);
    row->global_max = grid_column(grid, COLUMN_GAUGE);
    for (unsigned i = 0; i < G_N_ELEMENTS(pool_names); i++)
        row->pool[i] = grid_column(grid, COLUMN_TOTAL);
    row->vma_count = grid_column(grid, COLUMN_GAUGE);
    row->max_map_count = grid_column(grid, COLUMN_GAUGE);
    row->stack_count = grid_column(grid, COLUMN_GAUGE);
    row->live_count = grid_column(grid, COLUMN_GAUGE);
    return row;
}

static void show_totals(struct series *series, struct totals *totals, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        totals->columns[i] = grid_column(series->grid, COLUMN_TOTAL);
}

static void take_totals(struct totals *totals, int64_t time_ns, const uint64_t *values, unsigned count)
{
    bool grew = totals->valid;

    for (unsigned i = 0; i < count; i++)
        grew &= values[i] >= totals->last[i];
    for (unsigned i = 0; i < count; i++) {
        if (grew && totals->columns[i])
            column_add(totals->columns[i], totals->last_ns, time_ns,
                       (int64_t)MIN(values[i] - totals->last[i], (uint64_t)INT64_MAX));
        if (!grew)
            totals->first[i] = values[i];
        totals->last[i] = values[i];
    }
    if (!grew)
        totals->first_ns = time_ns;
    totals->last_ns = time_ns;
    totals->valid = true;
}

/* --- events -------------------------------------------------------------------------------------------- */

static void global_pool(struct process_row *row, int64_t time_ns, uint64_t size, uint64_t max)
{
    if (!row->shown)
        return;
    row->pool_seen = true;
    column_set(row->global_size, time_ns, (int64_t)size);
    column_set(row->global_max, time_ns, (int64_t)max);
}

static void vma_sample(struct process_row *row, const struct event *event)
{
    const union event_fields *f = &event->fields;

    if (!row->shown)
        return;
    row->vma_seen = true;
    column_set(row->vma_count, event->time_ns, (int64_t)f->rt_process_vma_sample.vma_count);
    column_set(row->max_map_count, event->time_ns, (int64_t)f->rt_process_vma_sample.max_map_count);
    column_set(row->stack_count, event->time_ns, (int64_t)f->rt_process_vma_sample.stack_count);
    column_set(row->live_count, event->time_ns, (int64_t)f->rt_process_vma_sample.live_count);
}

static void local_sample(struct series *series, struct process_row *row, const struct event *event)
{
    const union event_fields *f = &event->fields;
    const uint64_t values[] = { f->rt_pool_local_sample.takes, f->rt_pool_local_sample.misses,
                                f->rt_pool_local_sample.refills, f->rt_pool_local_sample.donations,
                                f->rt_pool_local_sample.overflows };
    void *key = key_of((uint64_t)f->rt_pool_local_sample.thread_id);
    struct thread_row *thread = g_hash_table_lookup(row->threads, key);

    if (!thread) {
        thread = g_new0(struct thread_row, 1);
        g_hash_table_insert(row->threads, key, thread);
        for (unsigned i = 0; i < G_N_ELEMENTS(pool_names); i++)
            thread->totals.columns[i] = row->pool[i]; /* of all threads together */
        if (row->shown && may_show(series, ROW_THREAD))
            thread->size = grid_column(series->grid, COLUMN_GAUGE);
    }
    row->pool_seen |= row->shown;
    take_totals(&thread->totals, event->time_ns, values, G_N_ELEMENTS(values));
    if (thread->size)
        column_set(thread->size, event->time_ns, (int64_t)f->rt_pool_local_sample.local_size);
}

/* The kernel may give the id to another thread, whose totals start at 0. */
static void thread_exit(struct process_row *row, const struct event *event)
{
    struct thread_row *thread =
        g_hash_table_lookup(row->threads, key_of((uint64_t)event->fields.rt_pool_thread_exit.thread_id));

    if (!thread)
        return;
    memset(thread->totals.last, 0, sizeof(thread->totals.last));
    thread->totals.last_ns = event->time_ns;
    if (thread->size)
        column_set(thread->size, event->time_ns, 0);
    else
        g_hash_table_remove(row->threads, key_of((uint64_t)event->fields.rt_pool_thread_exit.thread_id));
}

static void loop_sample(struct series *series, struct process_row *row, const struct event *event)
{
    const union event_fields *f = &event->fields;
    const uint64_t values[] = { f->rt_loop_sample.busy_ns,      f->rt_loop_sample.poll_ns,
                                f->rt_loop_sample.wait_ns,      f->rt_loop_sample.notifies,
                                f->rt_loop_sample.event_writes, f->rt_loop_sample.passes };
    void *key = key_of(f->rt_loop_sample.loop_id);
    struct loop_row *loop = g_hash_table_lookup(row->loops, key);

    if (!loop) {
        if (!may_show(series, ROW_LOOP))
            return;
        loop = g_new0(struct loop_row, 1);
        show_totals(series, &loop->totals, G_N_ELEMENTS(loop_names));
        g_hash_table_insert(row->loops, key, loop);
    }
    take_totals(&loop->totals, event->time_ns, values, G_N_ELEMENTS(values));
}

static struct lock_row *need_lock(struct process_row *row, uint64_t lock_id)
{
    struct lock_row *lock = g_hash_table_lookup(row->locks, key_of(lock_id));

    if (!lock) {
        lock = g_new0(struct lock_row, 1);
        g_hash_table_insert(row->locks, key_of(lock_id), lock);
    }
    return lock;
}

/* Somebody waited for it. What it grew by before, without waits, is known as a whole only. */
static bool show_lock(struct series *series, struct lock_row *lock)
{
    struct totals *totals = &lock->totals;

    if (lock->holders)
        return true;
    if (!may_show(series, ROW_LOCK))
        return false;
    lock->holders = g_hash_table_new(NULL, NULL);
    show_totals(series, totals, G_N_ELEMENTS(lock_names));
    for (unsigned i = 0; totals->valid && totals->last_ns > totals->first_ns && i < G_N_ELEMENTS(lock_names);
         i++)
        column_add(totals->columns[i], totals->first_ns, totals->last_ns,
                   (int64_t)(totals->last[i] - totals->first[i]));
    return true;
}

static void lock_sample(struct series *series, struct process_row *row, const struct event *event)
{
    const union event_fields *f = &event->fields;
    const uint64_t values[] = { f->rt_lock_sample.acquisitions, f->rt_lock_sample.contentions,
                                f->rt_lock_sample.wait_ns, f->rt_lock_sample.hold_ns };
    struct lock_row *lock = need_lock(row, f->rt_lock_sample.lock_id);

    if (lock->totals.valid && values[LOCK_CONTENTIONS] > lock->totals.last[LOCK_CONTENTIONS])
        (void)show_lock(series, lock);
    take_totals(&lock->totals, event->time_ns, values, G_N_ELEMENTS(values));
}

static void lock_waited(struct series *series, struct process_row *row, const struct occurrence *what)
{
    struct lock_row *lock = need_lock(row, what->waited.lock_id);
    void *key = key_of((uint64_t)what->waited.owner_tid);
    struct column *column;

    if (!show_lock(series, lock))
        return;
    column = g_hash_table_lookup(lock->holders, key);
    if (!column) {
        if (!may_show(series, ROW_HOLDER))
            return;
        column = grid_column(series->grid, COLUMN_TOTAL);
        g_hash_table_insert(lock->holders, key, column);
    }
    column_add(column, what->waited.since_ns, what->event->time_ns,
               what->event->time_ns - what->waited.since_ns);
}

static void lock_destroyed(struct process_row *row, uint64_t lock_id)
{
    const struct lock_row *lock = g_hash_table_lookup(row->locks, key_of(lock_id));

    if (lock && !lock->holders)
        g_hash_table_remove(row->locks, key_of(lock_id));
}

static void *queue_key(const struct device *device, const struct queue *queue)
{
    return key_of((uint64_t)device->id << 16 | queue->index);
}

static void queue_sample(struct series *series, struct process_row *row, const struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;
    const int64_t time_ns = what->event->time_ns;
    const uint64_t values[] = { f->vblk_queue_sample.completions, f->vblk_queue_sample.kicks,
                                f->vblk_queue_sample.interrupts };
    struct queue_row *queue;

    if (!what->device || !what->queue)
        return;
    queue = g_hash_table_lookup(row->queues, queue_key(what->device, what->queue));
    if (!queue) {
        if (!may_show(series, ROW_QUEUE))
            return;
        queue = g_new0(struct queue_row, 1);
        show_totals(series, &queue->totals, G_N_ELEMENTS(queue_names));
        queue->depth = grid_column(series->grid, COLUMN_GAUGE);
        queue->in_flight = grid_column(series->grid, COLUMN_GAUGE);
        g_hash_table_insert(row->queues, queue_key(what->device, what->queue), queue);
    }
    take_totals(&queue->totals, time_ns, values, G_N_ELEMENTS(values));
    queue->in_flight_known = true;
    queue->in_flight_now = (int64_t)MIN(f->vblk_queue_sample.in_flight, UINT32_MAX);
    column_set(queue->in_flight, time_ns, queue->in_flight_now);
    /* ring indexes are free running, 16 bits wide */
    column_set(queue->depth, time_ns,
               queue->in_flight_now +
                   (uint16_t)(f->vblk_queue_sample.avail_index - f->vblk_queue_sample.popped_index));
}

/* Between samples, where requests were recorded. */
static void queue_in_flight(struct process_row *row, const struct occurrence *what, int change)
{
    struct queue_row *queue;

    if (!what->device || !what->queue || !what->request)
        return;
    queue = g_hash_table_lookup(row->queues, queue_key(what->device, what->queue));
    if (!queue || !queue->in_flight_known)
        return;
    queue->in_flight_now = MAX(queue->in_flight_now + change, 0);
    column_set(queue->in_flight, what->event->time_ns, queue->in_flight_now);
}

void series_event(struct series *series, const struct occurrence *what)
{
    const struct event *event = what->event;
    const union event_fields *f = &event->fields;
    struct process_row *row;

    if (!series->grid) {
        series->grid = grid_create(event->time_ns);
        series->heat = heat_create(series->grid);
    }
    row = need_process(series, what->process);
    switch (event->id) {
    case EVENT_rt_process_vma_sample:
        vma_sample(row, event);
        break;
    case EVENT_rt_pool_global_sample:
        global_pool(row, event->time_ns, f->rt_pool_global_sample.global_size,
                    f->rt_pool_global_sample.global_max);
        break;
    case EVENT_rt_pool_refill:
        global_pool(row, event->time_ns, f->rt_pool_refill.global_size, f->rt_pool_refill.global_max);
        break;
    case EVENT_rt_pool_donate:
        global_pool(row, event->time_ns, f->rt_pool_donate.global_size, f->rt_pool_donate.global_max);
        break;
    case EVENT_rt_pool_overflow:
        global_pool(row, event->time_ns, f->rt_pool_overflow.global_size, f->rt_pool_overflow.global_max);
        break;
    case EVENT_rt_pool_local_sample:
        local_sample(series, row, event);
        break;
    case EVENT_rt_pool_thread_exit:
        thread_exit(row, event);
        break;
    case EVENT_rt_loop_sample:
        loop_sample(series, row, event);
        break;
    case EVENT_rt_lock_sample:
        lock_sample(series, row, event);
        break;
    case EVENT_rt_lock_acquired:
        if (what->has_waited)
            lock_waited(series, row, what);
        break;
    case EVENT_rt_lock_destroy:
        lock_destroyed(row, f->rt_lock_destroy.lock_id);
        break;
    case EVENT_vblk_queue_sample:
        queue_sample(series, row, what);
        break;
    case EVENT_vblk_request_begin:
        queue_in_flight(row, what, 1);
        break;
    case EVENT_vblk_request_abandoned:
        queue_in_flight(row, what, -1);
        break;
    case EVENT_vblk_request_end:
        queue_in_flight(row, what, -1);
        heat_event(series->heat, what);
        break;
    default:
        break;
    }
}

void series_finish(struct series *series, int64_t end_ns)
{
    if (series->grid)
        grid_reach(series->grid, end_ns);
}

/* --- JSON ---------------------------------------------------------------------------------------------- */

static gint by_number(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return x < y ? -1 : x > y;
}

static json_t *row_json(const struct process *process)
{
    json_t *row = json_object();

    json_object_set_new(row, "process", text_or_null(process_text(process)));
    json_object_set_new(row, "pid",
                        process->vpid == EVENT_UNKNOWN_ID ? json_null() : json_integer(process->vpid));
    return row;
}

static void add_columns(json_t *row, struct column *const *columns, const char *const *names, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        json_object_set_new(row, names[i], column_json(columns[i]));
}

static void add_thread(json_t *row, const struct process *process, uint64_t tid)
{
    const struct thread *thread = process_find_thread(process, (int64_t)tid);

    json_object_set_new(row, "thread_id", tid ? json_integer((json_int_t)tid) : json_null());
    json_object_set_new(row, "name", text_or_null(thread ? thread->name : NULL));
}

static json_t *pool_json(const struct process_row *of)
{
    json_t *row = row_json(of->process), *locals = json_array();
    GList *keys = g_list_sort(g_hash_table_get_keys(of->threads), by_number);

    json_object_set_new(row, "global_size", column_json(of->global_size));
    json_object_set_new(row, "global_max", column_json(of->global_max));
    add_columns(row, of->pool, pool_names, G_N_ELEMENTS(pool_names));
    for (GList *key = keys; key; key = key->next) {
        const struct thread_row *thread = g_hash_table_lookup(of->threads, key->data);
        json_t *local;

        if (!thread->size)
            continue;
        local = json_object();
        add_thread(local, of->process, (uintptr_t)key->data);
        json_object_set_new(local, "size", column_json(thread->size));
        json_array_append_new(locals, local);
    }
    g_list_free(keys);
    json_object_set_new(row, "locals", locals);
    return row;
}

static json_t *vma_json(const struct process_row *of)
{
    json_t *row = row_json(of->process);

    json_object_set_new(row, "vma_count", column_json(of->vma_count));
    json_object_set_new(row, "max_map_count", column_json(of->max_map_count));
    json_object_set_new(row, "stack_count", column_json(of->stack_count));
    json_object_set_new(row, "live_count", column_json(of->live_count));
    return row;
}

static json_t *loop_json(const struct process *process, uint64_t id, const void *of)
{
    const struct loop_row *loop = of;
    const struct loop *known = process_loop(process, (uint32_t)id);
    json_t *row = row_json(process);

    json_object_set_new(row, "loop_id", json_integer((json_int_t)id));
    json_object_set_new(row, "loop", text_or_null(known ? known->name : NULL));
    add_columns(row, loop->totals.columns, loop_names, G_N_ELEMENTS(loop_names));
    return row;
}

static json_t *lock_json(const struct process *process, uint64_t id, const void *of)
{
    const struct lock_row *lock = of;
    const struct lock *known = process_lock(process, id);
    json_t *row, *holders;
    GList *keys;

    if (!lock->holders)
        return NULL;
    row = row_json(process);
    holders = json_array();
    json_object_set_new(row, "lock_id", json_integer((json_int_t)id));
    json_object_set_new(row, "class_name", text_or_null(known ? known->class_name : NULL));
    add_columns(row, lock->totals.columns, lock_names, G_N_ELEMENTS(lock_names));
    keys = g_list_sort(g_hash_table_get_keys(lock->holders), by_number);
    for (GList *key = keys; key; key = key->next) {
        json_t *holder = json_object();

        add_thread(holder, process, (uintptr_t)key->data);
        json_object_set_new(holder, "wait_ns", column_json(g_hash_table_lookup(lock->holders, key->data)));
        json_array_append_new(holders, holder);
    }
    g_list_free(keys);
    json_object_set_new(row, "holders", holders);
    return row;
}

static json_t *queue_json(const struct process *process, uint64_t id, const void *of)
{
    const struct queue_row *queue = of;
    const struct device *known = process_device(process, (uint32_t)(id >> 16));
    json_t *row = row_json(process);

    json_object_set_new(row, "device_id", json_integer((json_int_t)(id >> 16)));
    json_object_set_new(row, "device", text_or_null(known ? known->name : NULL));
    json_object_set_new(row, "queue_index", json_integer((json_int_t)(id & 0xffff)));
    json_object_set_new(row, "depth", column_json(queue->depth));
    json_object_set_new(row, "in_flight", column_json(queue->in_flight));
    add_columns(row, queue->totals.columns, queue_names, G_N_ELEMENTS(queue_names));
    return row;
}

typedef json_t *make_row(const struct process *process, uint64_t id, const void *row);

/* In the order of ids: reports must not depend on hashing. */
static void add_rows(json_t *rows, const struct process *process, GHashTable *table, make_row *make)
{
    GList *keys = g_list_sort(g_hash_table_get_keys(table), by_number);

    for (GList *key = keys; key; key = key->next) {
        json_t *row = make(process, (uintptr_t)key->data, g_hash_table_lookup(table, key->data));

        if (row)
            json_array_append_new(rows, row);
    }
    g_list_free(keys);
}

json_t *series_json(const struct series *series)
{
    const struct grid *grid = series->grid;
    json_t *pool = json_array(), *vma = json_array(), *loops = json_array(), *locks = json_array(),
           *queues = json_array();

    for (unsigned i = 0; i < series->processes->len; i++) {
        const struct process_row *row = g_ptr_array_index(series->processes, i);

        if (!row)
            continue;
        if (row->pool_seen)
            json_array_append_new(pool, pool_json(row));
        if (row->vma_seen)
            json_array_append_new(vma, vma_json(row));
        add_rows(loops, row->process, row->loops, loop_json);
        add_rows(locks, row->process, row->locks, lock_json);
        add_rows(queues, row->process, row->queues, queue_json);
    }
    return json_pack("{s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "begin_ns",
                     grid ? json_integer(grid_begin_ns(grid)) : json_null(), "step_ns",
                     (json_int_t)(grid ? grid_step_ns(grid) : GRID_STEP_NS), "steps",
                     (json_int_t)(grid ? grid_steps(grid) : 0), "rows_max", (json_int_t)SERIES_ROWS_MAX,
                     "pool", pool, "vma", vma, "loops", loops, "locks", locks, "queues", queues, "latency",
                     series->heat ? heat_json(series->heat) : json_pack("{s:{}, s:{}}", "stages", "heat"));
}
