/* How each event changes the model. Rules: see the header, and "what an announcement may change" below. */
#include <string.h>

#include "model/holding.h"
#include "model/phase.h"
#include "model/process.h"
#include "model/registration.h"
#include "model/request.h"
#include "model/trace.h"

/* Gone objects stay for the report until a table holds this many. */
#define GONE_KEPT_MAX 4096
/* Without thread context only time tells where a baseline that never ended stops. */
#define BASELINE_NS_MAX INT64_C(1000000000)
#define BASELINES_KEPT 8
/* How far apart a change and its event may be, if its thread loses the processor in between. */
#define OVERTAKEN_NS_MAX INT64_C(100000000)

static void *key_of(uint64_t id)
{
    return (void *)(uintptr_t)id;
}

static void replace_text(char **text, const char *value)
{
    if (!value || !*value)
        return;
    if (*text && !strcmp(*text, value))
        return;
    g_free(*text);
    *text = g_strdup(value);
}

static void keep_sample(struct sample *first, struct sample *last, const struct event *event)
{
    last->valid = true;
    last->time_ns = event->time_ns;
    last->fields = event->fields;
    if (first && !first->valid)
        *first = *last;
}

static struct loop *need_loop(struct process *process, uint32_t loop_id)
{
    struct loop *loop;

    if (!loop_id)
        return NULL;
    loop = process_loop(process, loop_id);
    if (!loop) {
        loop = g_new0(struct loop, 1);
        loop->id = loop_id;
        loop->vtid = EVENT_UNKNOWN_ID;
        loop->active_ns = INT64_MIN;
        g_hash_table_insert(process->loops, key_of(loop_id), loop);
    }
    return loop;
}

static struct device *need_device(struct process *process, uint32_t device_id)
{
    struct device *device;

    if (!device_id)
        return NULL;
    device = process_device(process, device_id);
    if (!device) {
        device = g_new0(struct device, 1);
        device->id = device_id;
        device->state = STATE_UNKNOWN;
        device->connected = -1;
        device->drained_vtid = device->state_vtid = EVENT_UNKNOWN_ID;
        device->drains = g_array_new(FALSE, TRUE, sizeof(struct drain));
        device->queues = g_hash_table_new_full(NULL, NULL, NULL, queue_free);
        g_hash_table_insert(process->devices, key_of(device_id), device);
    }
    return device;
}

static struct queue *need_queue(struct device *device, uint16_t index)
{
    struct queue *queue;

    if (!device)
        return NULL;
    queue = device_queue(device, index);
    if (!queue) {
        queue = g_new0(struct queue, 1);
        queue->index = index;
        queue->assigned_fd = -1;
        queue->attached_fd = -1;
        queue->notifications = -1;
        g_hash_table_insert(device->queues, key_of(index), queue);
    }
    return queue;
}

static struct lock *need_lock(struct process *process, uint64_t lock_id)
{
    struct lock *lock = process_lock(process, lock_id);

    if (!lock && lock_id) {
        lock = g_new0(struct lock, 1);
        lock->id = lock_id;
        lock->kind = -1;
        g_hash_table_insert(process->locks, key_of(lock_id), lock);
    }
    return lock;
}

static struct handler *need_handler(struct process *process, uint64_t handler_id)
{
    struct handler *handler = process_handler(process, handler_id);

    if (!handler && handler_id) {
        handler = g_new0(struct handler, 1);
        handler->id = handler_id;
        handler->role = ROLE_UNKNOWN;
        handler->alive = true;
        handler->attach_vtid = EVENT_UNKNOWN_ID;
        handler->attach_state = STATE_UNKNOWN;
        g_hash_table_insert(process->handlers, key_of(handler_id), handler);
    }
    return handler;
}

static gboolean is_gone_loop(void *key, void *value, void *data)
{
    return ((struct loop *)value)->gone;
}

static gboolean is_gone_device(void *key, void *value, void *data)
{
    return ((struct device *)value)->gone;
}

static gboolean is_gone_lock(void *key, void *value, void *data)
{
    return ((struct lock *)value)->gone;
}

static gboolean is_gone_thread(void *key, void *value, void *data)
{
    return ((struct thread *)value)->gone;
}

static gboolean is_dead_handler(void *key, void *value, void *data)
{
    return !((struct handler *)value)->alive;
}

static void bound(GHashTable *table, GHRFunc is_gone)
{
    if (g_hash_table_size(table) > GONE_KEPT_MAX)
        g_hash_table_foreach_remove(table, is_gone, NULL);
}

/* --- process ------------------------------------------------------------------------------------------- */

static void baseline_begin(struct process *process, const struct event *event)
{
    process->in_baseline = true;
    process->baseline = (struct baseline){ .serial = event->fields.rt_process_baseline_begin.serial,
                                           .begin_ns = event->time_ns,
                                           .end_ns = INT64_MAX,
                                           .vtid = event->vtid };
}

static void baseline_end(struct process *process, const struct event *event)
{
    GArray *whole = process->whole_baselines;
    GHashTableIter iter;
    void *value;

    if (!process->in_baseline || process->baseline.serial != event->fields.rt_process_baseline_end.serial)
        return; /* its begin is missing: not whole */
    process->in_baseline = false;
    process->baseline.end_ns = event->time_ns;
    if (whole->len > BASELINES_KEPT)
        g_array_set_size(whole, BASELINES_KEPT);
    g_array_append_val(whole, process->baseline);

    /* Drains that were open were announced; from here on every end must have a begin. */
    g_hash_table_iter_init(&iter, process->devices);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct device *device = value;

        if (!device->drains_known) {
            device->drains_known = true;
            device->drains_known_ns = event->time_ns;
        }
    }
}

static bool is_announcement(const struct process *process, const struct event *event)
{
    if (!process->in_baseline)
        return false;
    if (event->vtid != EVENT_UNKNOWN_ID && process->baseline.vtid != EVENT_UNKNOWN_ID)
        return event->vtid == process->baseline.vtid;
    return event->time_ns - process->baseline.begin_ns <= BASELINE_NS_MAX;
}

static void keep_info(struct process *process, const struct event *event)
{
    const char *texts[] = {
        event->fields.rt_process_info.version,       event->fields.rt_process_info.pool_policy,
        event->fields.rt_process_info.notify_policy, event->fields.rt_process_info.request_lock,
        event->fields.rt_process_info.stack_guard,   event->fields.rt_process_info.loop_monitor,
        event->fields.rt_process_info.faults,
    };

    keep_sample(NULL, &process->info, event);
    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++)
        replace_text(&process->info_text[i], texts[i]);
}

/* --- loops and handlers -------------------------------------------------------------------------------- */

/* These events are emitted by the thread that they name. */
static void learn_vtid(struct process *process, const struct event *event, int64_t thread_id)
{
    if (event->vtid == EVENT_UNKNOWN_ID || thread_id == event->vtid || !thread_id)
        return;
    if (g_hash_table_size(process->vtids) < GONE_KEPT_MAX)
        g_hash_table_insert(process->vtids, key_of((uint64_t)thread_id), key_of((uint64_t)event->vtid));
}

static void loop_destroy(struct process *process, struct occurrence *what)
{
    GHashTableIter iter;
    void *value;
    bool any = false;

    if (!what->loop)
        return;
    what->loop->gone = true;
    what->loop->sleep.asleep = what->loop->polling = false;
    what->loop->gone_ns = what->event->time_ns;
    g_hash_table_iter_init(&iter, process->handlers);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct handler *handler = value;

        if (handler->loop_id == what->loop->id)
            handler->alive = false; /* its registrations went with it */
    }
    process->sweep_loop = true;
    g_hash_table_iter_init(&iter, process->loops);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        any |= !((struct loop *)value)->gone;
    process->ended = !any;
}

static void fd_attach(struct process *process, struct occurrence *what)
{
    const struct event *event = what->event;
    const bool known = process_handler(process, event->fields.rt_loop_fd_attach.handler_id) != NULL;
    struct handler *handler = need_handler(process, event->fields.rt_loop_fd_attach.handler_id);
    const struct drain *drain;

    what->handler = handler;
    what->device = need_device(process, (uint32_t)event->fields.rt_loop_fd_attach.device_id);
    if (!handler)
        return;
    handler->seen_ns = event->time_ns;
    if (known && handler->role != ROLE_UNKNOWN)
        return; /* announced again: nothing new */
    handler->loop_id = (uint32_t)event->fields.rt_loop_fd_attach.loop_id;
    handler->fd = event->fields.rt_loop_fd_attach.fd;
    handler->role = (enum handler_role)event->fields.rt_loop_fd_attach.role;
    handler->device_id = (uint32_t)event->fields.rt_loop_fd_attach.device_id;
    handler->queue_index = (uint16_t)event->fields.rt_loop_fd_attach.queue_index;
    handler->attach_ns = event->time_ns;
    handler->announced = what->in_baseline;
    if (handler->role == ROLE_HOST_NOTIFIER)
        what->queue = need_queue(what->device, handler->queue_index);
    if (what->in_baseline)
        return;
    handler->attach_vtid = event->vtid;
    if (!what->device)
        return;
    handler->attach_state = what->device->state;
    drain = device_drain_of(what->device, event->vtid);
    if (drain) {
        handler->attach_in_drain = true;
        handler->attach_drain = *drain;
        if (handler->attach_state == STATE_UNKNOWN)
            handler->attach_state = drain->state;
    }
}

static void fd_detach(struct process *process, struct occurrence *what)
{
    if (!what->handler)
        return;
    what->handler->alive = false;
    process->ended_handler = what->handler->id;
    what->device = process_device(process, what->handler->device_id);
    if (what->handler->role == ROLE_HOST_NOTIFIER)
        what->queue = device_queue(what->device, what->handler->queue_index);
}

static void fd_dispatch(struct process *process, struct occurrence *what)
{
    const struct event *event = what->event;
    struct handler *handler = what->handler;

    if (!handler) {
        /* Never announced: it exists all the same, and that is all that is known. */
        handler = what->handler = need_handler(process, event->fields.rt_loop_fd_dispatch.handler_id);
        if (!handler)
            return;
        handler->loop_id = (uint32_t)event->fields.rt_loop_fd_dispatch.loop_id;
        handler->fd = event->fields.rt_loop_fd_dispatch.fd;
        handler->announced = true;
        handler->attach_ns = event->time_ns;
    }
    handler->seen_ns = event->time_ns;
    handler->dispatches++;
    if (!event->fields.rt_loop_fd_dispatch.progress) {
        handler->idle_dispatches++;
        if (handler->stale.reason) {
            handler->stale.last_idle_ns = event->time_ns;
            if (!handler->stale.first_idle_ns)
                handler->stale.first_idle_ns = event->time_ns;
        }
    }
    if (what->loop)
        what->loop->dispatches++;
}

/* --- devices ------------------------------------------------------------------------------------------- */

/*
 * What an announcement may change: a baseline is written by a thread of its own, so a change that happens meanwhile may
 * come before an older announcement. Known from changes, a state is therefore not overwritten by an announcement,
 * unless the baseline began later (then the sampler saw that change, and whatever followed it unseen), or events were lost.
 */
static bool announcement_counts(const struct process *process, int64_t known_ns)
{
    return process->latest_loss_end_ns >= known_ns || known_ns < process->baseline.begin_ns - OVERTAKEN_NS_MAX;
}

static void dataplane_state(struct process *process, struct occurrence *what)
{
    const struct event *event = what->event;
    const enum device_state old = (enum device_state)event->fields.vblk_dataplane_state.old_state;
    const enum device_state next = (enum device_state)event->fields.vblk_dataplane_state.new_state;
    struct device *device = what->device;

    if (!device)
        return;
    what->previous_state = device->state;
    what->previous_state_ns = device->state_ns;
    what->previous_state_vtid = device->state_vtid;
    if (old == next && device->state != STATE_UNKNOWN && !device->state_announced &&
        !announcement_counts(process, device->state_ns))
        return;
    device->state = next;
    device->state_ns = event->time_ns;
    device->state_vtid = event->vtid;
    device->state_announced = old == next;
}

static void drain_begin(struct process *process, struct occurrence *what)
{
    const struct event *event = what->event;
    struct device *device = what->device;
    const uint64_t depth = event->fields.vblk_dataplane_drain_begin.depth;

    if (!device)
        return;
    what->drain = (struct drain){ .vtid = what->in_baseline ? EVENT_UNKNOWN_ID : event->vtid,
                                  .begin_ns = event->time_ns,
                                  .depth = (uint32_t)depth,
                                  .state = (enum device_state)event->fields.vblk_dataplane_drain_begin.state,
                                  .before_recording = what->in_baseline };
    if (what->in_baseline) {
        /* One announcement says how deep; a second one of the same drains changes nothing. */
        while (device->drains->len < depth && device->drains->len < 64)
            g_array_append_val(device->drains, what->drain);
        return;
    }
    device->drained_vtid = event->vtid;
    if (depth == 1) { /* the outermost: whatever was believed open is not */
        g_array_set_size(device->drains, 0);
        device->drains_known = true;
        device->drains_known_ns = event->time_ns;
    }
    g_array_append_val(device->drains, what->drain);
}

static void drain_end(struct process *process, struct occurrence *what)
{
    const struct event *event = what->event;
    struct device *device = what->device;
    int found = -1;

    if (!device)
        return;
    what->drains_known_ns = device->drains_known ? device->drains_known_ns : INT64_MIN;
    /* Its own thread's innermost, else one of unknown origin, else (a coroutine moved) the innermost. */
    for (unsigned i = device->drains->len; i-- > 0 && found < 0;)
        if (g_array_index(device->drains, struct drain, i).vtid == event->vtid)
            found = (int)i;
    for (unsigned i = device->drains->len; i-- > 0 && found < 0;)
        if (g_array_index(device->drains, struct drain, i).vtid == EVENT_UNKNOWN_ID)
            found = (int)i;
    if (found < 0 && device->drains->len)
        found = (int)device->drains->len - 1;
    what->drain_matched = found >= 0;
    if (found >= 0) {
        what->drain = g_array_index(device->drains, struct drain, found);
        g_array_remove_index(device->drains, (unsigned)found);
    }
    if (event->fields.vblk_dataplane_drain_end.depth == 1) {
        g_array_set_size(device->drains, 0);
        device->drains_known = true;
        device->drains_known_ns = event->time_ns;
    }
}

static void queue_attach(struct occurrence *what, uint32_t loop_id, int64_t fd)
{
    struct queue *queue = what->queue;

    if (!queue)
        return;
    queue->attached_loop = loop_id;
    queue->attached_fd = fd;
    queue->attached_ns = what->event->time_ns;
    queue->attach_known = true;
}

static void dataplane(struct process *process, struct occurrence *what)
{
    const struct event *event = what->event;
    const union event_fields *f = &event->fields;

    /* All of vblk_dataplane begin with device_id; those about a queue go on with queue_index. */
    what->device = need_device(process, (uint32_t)f->slots[0].u);
    switch (event->id) {
    case EVENT_vblk_dataplane_notifier_assign:
    case EVENT_vblk_dataplane_notifier_release:
    case EVENT_vblk_dataplane_notifier_attach:
    case EVENT_vblk_dataplane_notifier_detach:
    case EVENT_vblk_dataplane_loop_change:
        what->queue = need_queue(what->device, (uint16_t)f->slots[1].u);
        break;
    default:
        break;
    }
    if (!what->device)
        return;

    switch (event->id) {
    case EVENT_vblk_dataplane_device_create:
        replace_text(&what->device->name, f->vblk_dataplane_device_create.name);
        replace_text(&what->device->backend, f->vblk_dataplane_device_create.backend);
        what->device->queue_count = (uint16_t)f->vblk_dataplane_device_create.queue_count;
        what->device->capacity_bytes = f->vblk_dataplane_device_create.capacity_bytes;
        if (!what->in_baseline && !what->device->drains_known) {
            what->device->drains_known = true; /* born under our eyes: nothing is open */
            what->device->drains_known_ns = event->time_ns;
        }
        break;
    case EVENT_vblk_dataplane_device_destroy:
        what->device->gone = true;
        process->sweep_loop = true;
        break;
    case EVENT_vblk_dataplane_state:
        dataplane_state(process, what);
        break;
    case EVENT_vblk_dataplane_notifier_assign:
        what->queue->assigned_fd = f->vblk_dataplane_notifier_assign.fd;
        if (!what->in_baseline)
            what->queue->broken = false; /* set up anew, by a driver that has reset it */
        break;
    case EVENT_vblk_dataplane_notifier_release:
        what->queue->assigned_fd = -1;
        break;
    case EVENT_vblk_dataplane_notifier_attach:
        what->loop = need_loop(process, (uint32_t)f->vblk_dataplane_notifier_attach.loop_id);
        if (!what->in_baseline || !what->queue->attach_known ||
            announcement_counts(process, what->queue->attached_ns))
            queue_attach(what, (uint32_t)f->vblk_dataplane_notifier_attach.loop_id,
                         f->vblk_dataplane_notifier_attach.fd);
        break;
    case EVENT_vblk_dataplane_notifier_detach:
        what->loop = need_loop(process, (uint32_t)f->vblk_dataplane_notifier_detach.loop_id);
        /* A late detach from the loop that the queue left does not undo its attach elsewhere. */
        if (!what->queue->attached_loop ||
            what->queue->attached_loop == f->vblk_dataplane_notifier_detach.loop_id)
            queue_attach(what, 0, -1);
        break;
    case EVENT_vblk_dataplane_drain_begin:
        drain_begin(process, what);
        break;
    case EVENT_vblk_dataplane_drain_end:
        drain_end(process, what);
        break;
    case EVENT_vblk_dataplane_loop_change:
        what->loop = need_loop(process, (uint32_t)f->vblk_dataplane_loop_change.new_loop_id);
        what->previous_owner_loop = what->queue->owner_loop;
        if (!what->in_baseline || !what->queue->owner_loop ||
            announcement_counts(process, what->queue->owner_ns)) {
            what->queue->owner_loop = (uint32_t)f->vblk_dataplane_loop_change.new_loop_id;
            what->queue->owner_ns = event->time_ns;
        }
        break;
    default:
        break;
    }
}

/* --- locks and pools ----------------------------------------------------------------------------------- */

static void lock_event(struct process *process, struct occurrence *what)
{
    const struct event *event = what->event;
    struct lock *lock = what->lock = need_lock(process, event->fields.slots[0].u);

    if (!lock)
        return;
    if (event->id == EVENT_rt_lock_create) {
        replace_text(&lock->class_name, event->fields.rt_lock_create.class_name);
        lock->kind = (int)event->fields.rt_lock_create.kind;
    } else if (event->id == EVENT_rt_lock_destroy) {
        lock->gone = true;
        process->sweep_loop = true;
    } else if (event->id == EVENT_rt_lock_sample) {
        keep_sample(&lock->first, &lock->last, event);
    } else if (event->id == EVENT_rt_lock_held_at_yield && lock->kind < 0) {
        lock->kind = 0; /* the event is about thread mutexes only */
    }
    if (event->id == EVENT_rt_lock_wait || event->id == EVENT_rt_lock_acquired ||
        event->id == EVENT_rt_lock_released || event->id == EVENT_rt_lock_held_at_yield)
        learn_vtid(process, event, event->fields.slots[1].i); /* thread_id comes second in these four */
    holding_update(process, what);
}

static void local_sample(struct process *process, const struct event *event)
{
    struct thread *thread = process_thread(process, event->fields.rt_pool_local_sample.thread_id);

    replace_text(&thread->name, event->fields.rt_pool_local_sample.name);
    keep_sample(&thread->first, &thread->last, event);
    thread->first.fields.rt_pool_local_sample.name = NULL;
    thread->last.fields.rt_pool_local_sample.name = NULL;
}

static void thread_exit(struct process *process, const struct event *event)
{
    struct thread *thread = process_find_thread(process, event->fields.rt_pool_thread_exit.thread_id);

    if (thread)
        thread->gone = true;
    bound(process->threads, is_gone_thread);
}

static void vhost_user(struct process *process, struct occurrence *what)
{
    what->device = need_device(process, (uint32_t)what->event->fields.slots[0].u);
    if (!what->device)
        return;
    if (what->event->id == EVENT_vhost_user_connect) {
        what->in_baseline = is_announcement(process, what->event);
        what->device->connected = 1;
        if (!what->device->first_connect_ns)
            what->device->first_connect_ns = what->event->time_ns;
        if (!what->in_baseline)
            request_restart(process, what->device->id, what->event->time_ns);
    } else if (what->event->id == EVENT_vhost_user_disconnect) {
        what->device->connected = 0;
    }
}

static void queue_event(struct process *process, struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;

    what->device = need_device(process, (uint32_t)f->slots[0].u);
    what->queue = need_queue(what->device, (uint16_t)f->slots[1].u);
    if (!what->queue)
        return;
    if (what->event->id == EVENT_vblk_queue_notifications) {
        what->queue->notifications = (int)f->vblk_queue_notifications.enabled;
        what->queue->notifications_ns = what->event->time_ns;
        what->queue->notifications_reason = f->vblk_queue_notifications.reason;
    } else if (what->event->id == EVENT_vblk_queue_broken)
        what->queue->broken = true;
    else if (what->event->id == EVENT_vblk_queue_sample)
        keep_sample(&what->queue->first, &what->queue->last, what->event);
}

void model_update(struct process *process, struct thread *thread, const struct event *event,
                  struct occurrence *what_out)
{
    struct occurrence *what = what_out;
    const union event_fields *f = &event->fields;

    *what = (struct occurrence){
        .event = event,
        .process = process,
        .thread = thread,
        .thread_acted_ns = INT64_MIN,
        .previous_state = STATE_UNKNOWN,
    };
    process->last_ns = event->time_ns;
    process->event_count++;
    if (thread) {
        what->thread_acted_ns = thread->last_ns;
        thread->last_ns = event->time_ns;
    }

    switch (event->id) {
    case EVENT_rt_loop_fd_dispatch:
        what->loop = need_loop(process, (uint32_t)f->slots[0].u);
        what->handler = process_handler(process, f->rt_loop_fd_dispatch.handler_id);
        fd_dispatch(process, what);
        phase_update(what);
        return;
    case EVENT_rt_process_baseline_begin:
        baseline_begin(process, event);
        break;
    case EVENT_rt_process_baseline_end:
        baseline_end(process, event);
        break;
    case EVENT_rt_process_info:
        keep_info(process, event);
        break;
    case EVENT_rt_process_vma_sample:
        if (!process->samples++)
            process->sampled_since_ns = event->time_ns;
        keep_sample(NULL, &process->vma, event);
        break;
    case EVENT_rt_pool_local_sample:
        local_sample(process, event);
        break;
    case EVENT_rt_pool_global_sample:
        keep_sample(NULL, &process->global_pool, event);
        break;
    case EVENT_rt_pool_thread_exit:
        thread_exit(process, event);
        break;

    case EVENT_rt_loop_create:
        what->loop = need_loop(process, (uint32_t)f->rt_loop_create.loop_id);
        if (what->loop) {
            replace_text(&what->loop->name, f->rt_loop_create.name);
            if (f->rt_loop_create.thread_id)
                what->loop->thread_id = f->rt_loop_create.thread_id;
            process->ended = false;
        }
        break;
    case EVENT_rt_loop_destroy:
        what->loop = need_loop(process, (uint32_t)f->rt_loop_destroy.loop_id);
        loop_destroy(process, what);
        break;
    case EVENT_rt_loop_fd_attach:
        what->in_baseline = is_announcement(process, event);
        what->loop = need_loop(process, (uint32_t)f->slots[0].u);
        fd_attach(process, what);
        break;
    case EVENT_rt_loop_fd_detach:
        what->loop = need_loop(process, (uint32_t)f->slots[0].u);
        what->handler = process_handler(process, f->rt_loop_fd_detach.handler_id);
        fd_detach(process, what);
        break;
    case EVENT_rt_loop_sample:
        what->loop = need_loop(process, (uint32_t)f->slots[0].u);
        if (what->loop)
            keep_sample(&what->loop->first, &what->loop->last, event);
        break;
    case EVENT_rt_loop_hog:
        what->loop = need_loop(process, (uint32_t)f->slots[0].u);
        what->handler = process_handler(process, f->rt_loop_hog.handler_id);
        phase_update(what);
        break;
    case EVENT_rt_loop_poll_end:
        what->loop = need_loop(process, (uint32_t)f->slots[0].u);
        what->handler = process_handler(process, f->rt_loop_poll_end.handler_id);
        phase_update(what);
        break;
    case EVENT_rt_loop_publish:
    case EVENT_rt_loop_notify:
        what->loop = need_loop(process, (uint32_t)f->slots[0].u);
        learn_vtid(process, event, f->slots[1].i); /* thread_id comes second in both */
        break;
    case EVENT_rt_loop_notify_me:
    case EVENT_rt_loop_notify_accept:
    case EVENT_rt_loop_work_run:
    case EVENT_rt_loop_poll_begin:
    case EVENT_rt_loop_poll_adjust:
    case EVENT_rt_loop_wait_begin:
    case EVENT_rt_loop_wait_end:
    case EVENT_rt_loop_state:
        what->in_baseline = is_announcement(process, event);
        what->loop = need_loop(process, (uint32_t)f->slots[0].u);
        phase_update(what);
        break;

    case EVENT_vblk_dataplane_device_create:
    case EVENT_vblk_dataplane_device_destroy:
    case EVENT_vblk_dataplane_state:
    case EVENT_vblk_dataplane_notifier_assign:
    case EVENT_vblk_dataplane_notifier_release:
    case EVENT_vblk_dataplane_notifier_attach:
    case EVENT_vblk_dataplane_notifier_detach:
    case EVENT_vblk_dataplane_notifier_commit:
    case EVENT_vblk_dataplane_drain_begin:
    case EVENT_vblk_dataplane_drain_end:
    case EVENT_vblk_dataplane_loop_change:
        what->in_baseline = is_announcement(process, event);
        dataplane(process, what);
        break;

    case EVENT_rt_lock_create:
    case EVENT_rt_lock_destroy:
    case EVENT_rt_lock_wait:
    case EVENT_rt_lock_acquired:
    case EVENT_rt_lock_owner:
    case EVENT_rt_lock_released:
    case EVENT_rt_lock_held_at_yield:
    case EVENT_rt_lock_sample:
        lock_event(process, what);
        break;

    case EVENT_rt_coroutine_yield:
    case EVENT_rt_coroutine_terminate:
        holding_update(process, what);
        break;

    case EVENT_vblk_queue_notifications:
    case EVENT_vblk_queue_kick:
    case EVENT_vblk_queue_interrupt:
    case EVENT_vblk_queue_sample:
    case EVENT_vblk_queue_broken:
        queue_event(process, what);
        break;

    case EVENT_vblk_request_begin:
        what->device = need_device(process, (uint32_t)f->vblk_request_begin.device_id);
        what->queue = need_queue(what->device, (uint16_t)f->vblk_request_begin.queue_index);
        what->loop = need_loop(process, (uint32_t)f->vblk_request_begin.loop_id);
        request_update(process, what);
        break;
    case EVENT_vblk_request_slow:
        what->device = need_device(process, (uint32_t)f->vblk_request_slow.device_id);
        what->queue = need_queue(what->device, (uint16_t)f->vblk_request_slow.queue_index);
        request_update(process, what);
        break;
    case EVENT_vblk_request_recovered:
        what->device = need_device(process, (uint32_t)f->vblk_request_recovered.device_id);
        what->queue = need_queue(what->device, (uint16_t)f->vblk_request_recovered.queue_index);
        request_update(process, what);
        break;
    case EVENT_vblk_request_submit:
    case EVENT_vblk_request_complete:
    case EVENT_vblk_request_end:
    case EVENT_vblk_request_serialise_wait:
    case EVENT_vblk_request_abandoned:
        request_update(process, what);
        break;

    case EVENT_vhost_user_connect:
    case EVENT_vhost_user_disconnect:
    case EVENT_vhost_user_message:
        vhost_user(process, what);
        break;
    default:
        break;
    }
    if (process->in_baseline && !what->in_baseline)
        what->in_baseline = is_announcement(process, event);
    registration_update(what);
}

void model_sweep(struct process *process)
{
    if (process->ended_handler) {
        g_hash_table_remove(process->handlers, key_of(process->ended_handler));
        process->ended_handler = 0;
    }
    if (process->ended_request) {
        g_hash_table_remove(process->requests, key_of(process->ended_request));
        process->ended_request = 0;
    }
    if (process->sweep_loop) {
        process->sweep_loop = false;
        g_hash_table_foreach_remove(process->handlers, is_dead_handler, NULL);
        bound(process->loops, is_gone_loop);
        bound(process->devices, is_gone_device);
        bound(process->locks, is_gone_lock);
    }
}
