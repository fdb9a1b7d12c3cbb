#include "model/request.h"

#include "core/check.h"

static void *key_of(uint64_t id)
{
    return (void *)(uintptr_t)id;
}

struct request *process_request(const struct process *process, uint64_t request_id)
{
    return g_hash_table_lookup(process->requests, key_of(request_id));
}

enum request_stage request_stage(const struct request *request)
{
    if (request->complete_ns)
        return REQUEST_COMPLETING;
    if (request->submit_ns)
        return REQUEST_BACKEND;
    if (request->slow_ns && (!request->begin_seen || request->slow_stage > REQUEST_SERIALISING))
        return request->slow_stage;
    return request->blocking_id || (request->slow_ns && request->slow_stage == REQUEST_SERIALISING)
               ? REQUEST_SERIALISING
               : REQUEST_QUEUED;
}

const char *request_stage_text(enum request_stage stage)
{
    static const char *const names[] = { "queued", "serialising", "backend", "completing" };

    return (unsigned)stage < G_N_ELEMENTS(names) ? names[stage] : "unknown";
}

struct request_times request_times(const struct request *request, int64_t end_ns)
{
    struct request_times times = { -1, 0, -1, -1, end_ns - request->begin_ns };

    if (request->submit_ns) {
        times.queued_ns = request->submit_ns - request->begin_ns;
        if (request->blocked_ns && request->blocked_ns < request->submit_ns) {
            times.serialising_ns = request->submit_ns - request->blocked_ns;
            times.queued_ns -= times.serialising_ns;
        }
    }
    if (request->submit_ns && request->complete_ns)
        times.backend_ns = request->complete_ns - request->submit_ns;
    if (request->complete_ns)
        times.completing_ns = end_ns - request->complete_ns;
    return times;
}

const char *request_type_text(uint64_t type)
{
    switch (type) {
    case 0:
        return "read";
    case 1:
        return "write";
    case 4:
        return "flush";
    case 8:
        return "get-id";
    case 11:
        return "discard";
    case 13:
        return "write-zeroes";
    default:
        return "request";
    }
}

/* The id that holds the head; 0: none. NULL: heads are not known. */
static uint64_t *holder_of_head(struct queue *queue, uint32_t head)
{
    if (!queue || head > UINT16_MAX)
        return NULL;
    if (!queue->heads)
        queue->heads = g_array_new(FALSE, TRUE, sizeof(uint64_t));
    if (queue->heads->len <= head)
        g_array_set_size(queue->heads, head + 1);
    return &g_array_index(queue->heads, uint64_t, head);
}

static void release_head(struct process *process, const struct request *request)
{
    struct queue *queue = device_queue(process_device(process, request->device_id), request->queue_index);

    if (queue && queue->heads && request->head < queue->heads->len &&
        g_array_index(queue->heads, uint64_t, request->head) == request->id)
        g_array_index(queue->heads, uint64_t, request->head) = 0;
}

static void drop(struct process *process, struct request *request)
{
    release_head(process, request);
    g_hash_table_remove(process->requests, key_of(request->id));
}

static struct request *need_request(struct process *process, const struct event *event, uint64_t id)
{
    struct request *request = process_request(process, id);

    if (!request) {
        request = g_new0(struct request, 1);
        request->id = id;
        request->head = HEAD_UNKNOWN;
        request->vtid = EVENT_UNKNOWN_ID;
        request->begin_ns = request->seen_ns = event->time_ns;
        g_hash_table_insert(process->requests, key_of(id), request);
    }
    return request;
}

/* The driver can post a head only after it got it back: who held it is not in flight. */
static void take_head(struct process *process, struct occurrence *what, struct request *request)
{
    uint64_t *holder = holder_of_head(what->queue, request->head);
    struct request *older;

    if (!holder)
        return;
    older = *holder && *holder != request->id ? process_request(process, *holder) : NULL;
    if (older)
        g_hash_table_remove(process->requests, key_of(older->id));
    *holder = request->id;
}

static void begin(struct process *process, struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;
    struct request *request = process_request(process, f->vblk_request_begin.request_id);

    if (request && request->begin_seen)
        drop(process, request); /* another life under the same id: ids started anew */
    request = what->request = need_request(process, what->event, f->vblk_request_begin.request_id);
    request->device_id = (uint32_t)f->vblk_request_begin.device_id;
    request->queue_index = (uint16_t)f->vblk_request_begin.queue_index;
    request->head =
        f->vblk_request_begin.head > UINT16_MAX ? HEAD_UNKNOWN : (uint32_t)f->vblk_request_begin.head;
    request->type = f->vblk_request_begin.type;
    request->loop_id = (uint32_t)f->vblk_request_begin.loop_id;
    request->vtid = what->event->vtid;
    request->begin_seen = true;
    request->begin_ns = what->event->time_ns;
    take_head(process, what, request);
}

/* Which of the open ones it was is not known without begin: all of the queue that are left from before. */
static void drop_headless(struct process *process, const struct queue *queue, uint32_t device_id)
{
    GHashTableIter iter;
    void *value;

    if (!process->headless_requests)
        return;
    g_hash_table_iter_init(&iter, process->requests);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct request *request = value;

        if (request->head == HEAD_UNKNOWN && request->restart_ns && request->device_id == device_id &&
            request->queue_index == queue->index)
            g_hash_table_iter_remove(&iter);
    }
}

static void recovered(struct process *process, struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;
    struct request *request;

    if (!what->queue)
        return;
    drop_headless(process, what->queue, what->device->id);
    request = what->request = need_request(process, what->event, f->vblk_request_recovered.request_id);
    request->device_id = what->device->id;
    request->queue_index = what->queue->index;
    request->head =
        f->vblk_request_recovered.head > UINT16_MAX ? HEAD_UNKNOWN : (uint32_t)f->vblk_request_recovered.head;
    request->recovered = true;
    request->vtid = what->event->vtid;
    request->seen_ns = what->event->time_ns;
    take_head(process, what, request);
}

/*
 * The sampler tells of a slow request and its loop may end it at the same time, so a slow that comes alone proves
 * little: its begin was either before the recording or is lost, or it has just ended.
 */
static bool may_be_unseen(const struct process *process, int64_t begin_ns)
{
    return !process_records(process, SET_REQUEST) || begin_ns < process->first_ns ||
           begin_ns <= process->latest_loss_end_ns;
}

static void slow(struct process *process, struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;
    const int64_t begin_ns = what->event->time_ns - (int64_t)f->vblk_request_slow.age_ns;
    struct request *request = process_request(process, f->vblk_request_slow.request_id);

    if (f->vblk_request_slow.finished) {
        what->request = request;
        if (request && !process_records(process, SET_REQUEST))
            process->ended_request = request->id;
        return;
    }
    if (!request) {
        if (!may_be_unseen(process, begin_ns))
            return;
        request = need_request(process, what->event, f->vblk_request_slow.request_id);
        request->begin_ns = begin_ns;
        request->device_id = (uint32_t)f->vblk_request_slow.device_id;
        request->queue_index = (uint16_t)f->vblk_request_slow.queue_index;
        request->type = f->vblk_request_slow.type;
        process->headless_requests = true;
    }
    what->request = request;
    request->slow_ns = request->seen_ns = what->event->time_ns;
    request->slow_stage = (enum request_stage)f->vblk_request_slow.stage;
}

void request_update(struct process *process, struct occurrence *what)
{
    const struct event *event = what->event;
    /* request_id comes first in every event of vblk_request */
    const uint64_t id = event->fields.slots[0].u;
    struct request *request;

    switch (event->id) {
    case EVENT_vblk_request_begin:
        begin(process, what);
        return;
    case EVENT_vblk_request_recovered:
        recovered(process, what);
        return;
    case EVENT_vblk_request_slow:
        slow(process, what);
        return;
    default:
        break;
    }
    request = what->request = process_request(process, id);
    if (!request)
        return;
    request->seen_ns = event->time_ns;
    switch (event->id) {
    case EVENT_vblk_request_submit:
        if (!request->submit_ns)
            request->submit_ns = event->time_ns;
        break;
    case EVENT_vblk_request_complete:
        request->complete_ns = event->time_ns;
        break;
    case EVENT_vblk_request_serialise_wait:
        request->blocking_id = event->fields.vblk_request_serialise_wait.blocking_request_id;
        if (!request->blocked_ns) /* it may wait for several in turn */
            request->blocked_ns = event->time_ns;
        break;
    case EVENT_vblk_request_end:
    case EVENT_vblk_request_abandoned:
        what->device = process_device(process, request->device_id);
        what->queue = device_queue(what->device, request->queue_index);
        release_head(process, request);
        process->ended_request = request->id;
        break;
    default:
        break;
    }
}

void request_restart(struct process *process, uint32_t device_id, int64_t time_ns)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, process->requests);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct request *request = value;

        if (request->device_id == device_id && !request->restart_ns)
            request->restart_ns = time_ns;
    }
}
