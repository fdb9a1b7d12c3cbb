#include "model/holding.h"

#include "core/check.h"

/* More cannot be waiting at once in earnest: then those go whose end may be lost. */
#define WAITS_MAX 65536

struct hold *process_hold(const struct process *process, uint64_t lock_id)
{
    for (unsigned i = 0; i < process->holds->len; i++) {
        struct hold *hold = &g_array_index(process->holds, struct hold, i);

        if (hold->lock_id == lock_id)
            return hold;
    }
    return NULL;
}

/* A coroutine wherever it runs; a thread for what it does outside of them. */
static void *acquirer(int64_t tid, uint64_t coroutine_id)
{
    return (void *)(uintptr_t)(coroutine_id ? coroutine_id : (uint64_t)tid | UINT64_C(1) << 63);
}

const struct lock_wait *process_waiting(const struct process *process, int64_t tid, uint64_t coroutine_id)
{
    return g_hash_table_lookup(process->waits, acquirer(tid, coroutine_id));
}

static gboolean is_older_than_loss(void *key, void *value, void *data)
{
    return ((const struct lock_wait *)value)->since_ns <= *(const int64_t *)data;
}

static void end_hold(struct process *process, uint64_t lock_id)
{
    for (unsigned i = 0; i < process->holds->len; i++) {
        if (g_array_index(process->holds, struct hold, i).lock_id == lock_id) {
            g_array_remove_index_fast(process->holds, i);
            return;
        }
    }
}

static void begin_hold(struct process *process, const struct hold *hold)
{
    end_hold(process, hold->lock_id);
    g_array_append_val(process->holds, *hold);
}

static void wait(struct process *process, const struct event *event)
{
    const union event_fields *f = &event->fields;
    struct lock_wait *wait = g_new0(struct lock_wait, 1);

    *wait = (struct lock_wait){ .lock_id = f->rt_lock_wait.lock_id,
                                .tid = f->rt_lock_wait.thread_id,
                                .coroutine_id = f->rt_lock_wait.coroutine_id,
                                .owner_tid = f->rt_lock_wait.owner_thread_id,
                                .owner_coroutine_id = f->rt_lock_wait.owner_coroutine_id,
                                .since_ns = event->time_ns };
    /* Who waits now waits for nothing else: if an older wait is left, its end was lost. */
    g_hash_table_replace(process->waits, acquirer(wait->tid, wait->coroutine_id), wait);
    if (g_hash_table_size(process->waits) > WAITS_MAX)
        g_hash_table_foreach_remove(process->waits, is_older_than_loss, &process->latest_loss_end_ns);
}

/* Acquired while another holds it: readers, or that one's release was lost. Its release will tell, if it comes. */
static void joined(struct lock *lock, const struct hold *other, uint64_t coroutine_id)
{
    if (other)
        lock->joined_coroutine_id = other->coroutine_id;
    else if (lock->joined_coroutine_id == coroutine_id)
        lock->joined_coroutine_id = 0;
}

static void acquired(struct process *process, struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;
    const struct hold hold = { .lock_id = f->rt_lock_acquired.lock_id,
                               .tid = f->rt_lock_acquired.thread_id,
                               .coroutine_id = f->rt_lock_acquired.coroutine_id,
                               .since_ns = what->event->time_ns };

    const struct lock_wait *waited = process_waiting(process, hold.tid, hold.coroutine_id);

    if (waited) {
        what->has_waited = waited->lock_id == hold.lock_id && f->rt_lock_acquired.waited;
        what->waited = *waited;
        g_hash_table_remove(process->waits, acquirer(hold.tid, hold.coroutine_id));
    }
    if (!process_records(process, SET_LOCK))
        return; /* its release is not told */
    if (what->lock)
        joined(what->lock, process_hold(process, hold.lock_id), hold.coroutine_id);
    begin_hold(process, &hold);
}

/* An announcement may be older than a release that it was overtaken by. */
static void owner(struct process *process, const struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;
    const struct hold hold = { .lock_id = f->rt_lock_owner.lock_id,
                               .tid = f->rt_lock_owner.owner_thread_id,
                               .coroutine_id = f->rt_lock_owner.owner_coroutine_id,
                               .since_ns = what->event->time_ns,
                               .announced = true };

    if (!process_records(process, SET_LOCK) || process_hold(process, hold.lock_id) ||
        (what->lock && what->lock->released_ns >= process->baseline.begin_ns && what->lock->released_ns))
        return;
    begin_hold(process, &hold);
}

static void yielded(struct process *process, uint64_t coroutine_id)
{
    for (unsigned i = 0; i < process->holds->len; i++) {
        const struct hold *hold = &g_array_index(process->holds, struct hold, i);
        struct lock *lock = hold->coroutine_id == coroutine_id ? process_lock(process, hold->lock_id) : NULL;

        if (lock)
            lock->held_across_yield = true;
    }
}

static gboolean is_for_lock(void *key, void *value, void *data)
{
    return ((const struct lock_wait *)value)->lock_id == *(const uint64_t *)data;
}

void holding_update(struct process *process, struct occurrence *what)
{
    const struct event *event = what->event;
    struct hold *hold;
    uint64_t lock_id;

    switch (event->id) {
    case EVENT_rt_lock_wait:
        wait(process, event);
        break;
    case EVENT_rt_lock_acquired:
        acquired(process, what);
        break;
    case EVENT_rt_lock_owner:
        owner(process, what);
        break;
    case EVENT_rt_lock_released:
        end_hold(process, event->fields.rt_lock_released.lock_id);
        if (what->lock) {
            what->lock->released_ns = event->time_ns;
            if (what->lock->joined_coroutine_id &&
                what->lock->joined_coroutine_id == event->fields.rt_lock_released.coroutine_id)
                what->lock->is_shared = true;
        }
        break;
    case EVENT_rt_lock_held_at_yield:
        hold = process_hold(process, event->fields.rt_lock_held_at_yield.lock_id);
        if (hold && hold->coroutine_id == event->fields.rt_lock_held_at_yield.coroutine_id)
            hold->told = true;
        break;
    case EVENT_rt_lock_destroy:
        end_hold(process, event->fields.rt_lock_destroy.lock_id);
        lock_id = event->fields.rt_lock_destroy.lock_id;
        g_hash_table_foreach_remove(process->waits, is_for_lock, &lock_id);
        break;
    case EVENT_rt_coroutine_yield:
        if (process->holds->len && event->fields.rt_coroutine_yield.coroutine_id)
            yielded(process, event->fields.rt_coroutine_yield.coroutine_id);
        break;
    case EVENT_rt_coroutine_terminate:
        if (event->fields.rt_coroutine_terminate.coroutine_id)
            g_hash_table_remove(process->waits,
                                acquirer(0, event->fields.rt_coroutine_terminate.coroutine_id));
        break;
    default:
        break;
    }
}
