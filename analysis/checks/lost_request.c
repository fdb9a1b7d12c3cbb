/*
 * lost-request: a request in flight at a restart was neither resubmitted nor completed, or was completed twice.
 *
 * Ids start anew in a new process, heads do not: each head of each queue has a slot that knows its last life and, after a
 * restart (the front end comes back to the device, or to a later process with a device of that name), what is still owed.
 * What is owed is judged when the queue has gone on to something else: resubmission comes first. A driver that has gone
 * (abandoned, or a front end that asks for a new in-flight region) is owed nothing.
 */
#include <inttypes.h>

#include "core/check.h"
#include "model/request.h"
#include "model/successor.h"

static const enum event_id events[] = { EVENT_vblk_request_begin,
                                        EVENT_vblk_request_end,
                                        EVENT_vblk_request_abandoned,
                                        EVENT_vblk_request_recovered,
                                        EVENT_vhost_user_connect,
                                        EVENT_vhost_user_message,
                                        EVENT_vblk_dataplane_notifier_attach,
                                        EVENT_COUNT };

#define SECOND INT64_C(1000000000)
/* VHOST_USER_GET_INFLIGHT_FD: the front end has no region, so its driver is a new one. */
#define GET_INFLIGHT_FD 31
#define TWICE_KEPT 16

enum life { LIFE_UNKNOWN, LIFE_OPEN, LIFE_ENDED, LIFE_ABANDONED };

/* A head of a queue. */
struct slot {
    enum life life;
    uint64_t id; /* of the last request that had it */
    int64_t begin_ns, end_ns, vtid;
    uint64_t offset_bytes, size_and_type; /* what it asks for */

    /* in flight at a restart, and nothing heard of it since */
    bool owed;
    int64_t restart_ns;

    /* recovered while its older life could still end, or after that ended */
    uint64_t older_id;
    bool older_ended;
    int64_t older_end_ns;

    /* the first that this process did with the head */
    bool seen, first_recovered, first_ended;
    int64_t first_ns;
    uint64_t first_offset_bytes, first_size_and_type;
};

struct twice {
    uint32_t head;
    uint64_t id, older_id;
    int64_t older_end_ns, end_ns, recovered_ns, vtid;
    bool older_in_flight; /* it ended after it had been resubmitted: nothing needs to be concluded */
};

struct queue_state {
    uint32_t device_id;
    uint16_t queue_index;
    GArray *slots;      /* by head */
    int64_t restart_ns; /* the last; INT64_MIN: none */
    int64_t attached_ns,
        went_on_ns; /* since then: attached or resubmitting; took a new request. 0: not yet */
    int64_t vtid;   /* who took its last request */
    struct twice twice[TWICE_KEPT];
    unsigned twice_count;
};

struct lost {
    struct check_env *env;
    GHashTable *queues;
    GHashTable *older; /* id of a request that was resubmitted, and may end yet -> struct slot_place */
};

struct slot_place {
    struct queue_state *queue;
    uint32_t head;
};

/* What spans processes: each one's state. */
static void *shared_create(struct analysis *analysis)
{
    return g_ptr_array_new();
}

static void shared_destroy(void *shared)
{
    g_ptr_array_free(shared, TRUE);
}

static void queue_state_free(void *data)
{
    struct queue_state *queue = data;

    g_array_free(queue->slots, TRUE);
    g_free(queue);
}

static void *create(struct check_env *env)
{
    struct lost *lost = g_new0(struct lost, 1);

    lost->env = env;
    lost->queues = g_hash_table_new_full(NULL, NULL, NULL, queue_state_free);
    lost->older = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    g_ptr_array_add(env->shared, lost);
    return lost;
}

static void destroy(void *state)
{
    struct lost *lost = state;

    g_hash_table_destroy(lost->queues);
    g_hash_table_destroy(lost->older);
    g_free(lost);
}

static void *key_of(uint64_t id)
{
    return (void *)(uintptr_t)id;
}

static void *queue_key(uint32_t device_id, uint16_t queue_index)
{
    return key_of((uint64_t)device_id << 16 | queue_index);
}

static struct queue_state *find_queue(const struct lost *lost, uint32_t device_id, uint16_t queue_index)
{
    return g_hash_table_lookup(lost->queues, queue_key(device_id, queue_index));
}

static struct queue_state *need_queue(struct lost *lost, const struct occurrence *what)
{
    struct queue_state *queue = find_queue(lost, what->device->id, what->queue->index);

    if (!queue) {
        queue = g_new0(struct queue_state, 1);
        queue->device_id = what->device->id;
        queue->queue_index = what->queue->index;
        queue->slots = g_array_new(FALSE, TRUE, sizeof(struct slot));
        queue->restart_ns = INT64_MIN;
        queue->vtid = EVENT_UNKNOWN_ID;
        g_hash_table_insert(lost->queues, queue_key(queue->device_id, queue->queue_index), queue);
    }
    return queue;
}

static struct slot *need_slot(struct queue_state *queue, uint32_t head)
{
    if (queue->slots->len <= head)
        g_array_set_size(queue->slots, head + 1);
    return &g_array_index(queue->slots, struct slot, head);
}

static struct slot *slot_of(const struct lost *lost, const struct request *request,
                            struct queue_state **queue_out)
{
    struct queue_state *queue = find_queue(lost, request->device_id, request->queue_index);
    struct slot *slot;

    if (!queue || request->head >= queue->slots->len)
        return NULL;
    slot = &g_array_index(queue->slots, struct slot, request->head);
    *queue_out = queue;
    return slot->id == request->id ? slot : NULL;
}

static void forget_older(struct lost *lost, struct slot *slot)
{
    if (slot->older_id)
        g_hash_table_remove(lost->older, key_of(slot->older_id));
    slot->older_id = 0;
    slot->older_ended = false;
}

static void open_life(struct slot *slot, const struct occurrence *what, bool recovered)
{
    slot->life = LIFE_OPEN;
    slot->id = what->request->id;
    slot->begin_ns = what->event->time_ns;
    slot->vtid = what->event->vtid;
    if (!slot->seen) {
        slot->seen = true;
        slot->first_recovered = recovered;
        slot->first_ns = what->event->time_ns;
    }
}

static void recovered(struct lost *lost, const struct occurrence *what)
{
    struct queue_state *queue = need_queue(lost, what);
    struct slot *slot = need_slot(queue, what->request->head);

    queue->vtid = what->event->vtid;
    if (!queue->attached_ns)
        queue->attached_ns = what->event->time_ns;
    forget_older(lost, slot);
    if (slot->life == LIFE_OPEN || slot->life == LIFE_ENDED) {
        slot->older_id = slot->id;
        slot->older_ended = slot->life == LIFE_ENDED;
        slot->older_end_ns = slot->end_ns;
        if (slot->life == LIFE_OPEN) {
            struct slot_place *place = g_new0(struct slot_place, 1);

            place->queue = queue;
            place->head = what->request->head;
            g_hash_table_insert(lost->older, key_of(slot->id), place);
        }
    }
    slot->owed = false;
    open_life(slot, what, true);
}

static void began(struct lost *lost, const struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;
    struct queue_state *queue;
    struct slot *slot;

    if (!what->queue || !what->request || what->request->head == HEAD_UNKNOWN)
        return;
    queue = need_queue(lost, what);
    queue->vtid = what->event->vtid;
    slot = need_slot(queue, what->request->head);
    if (!what->request->recovered) {
        if (!queue->went_on_ns)
            queue->went_on_ns = what->event->time_ns;
        forget_older(lost, slot);
        slot->owed = false; /* the driver had it back to post it */
        open_life(slot, what, false);
    }
    slot->offset_bytes = f->vblk_request_begin.offset_bytes;
    slot->size_and_type = f->vblk_request_begin.size_bytes << 8 | f->vblk_request_begin.type;
    if (slot->first_ns == slot->begin_ns) {
        slot->first_offset_bytes = slot->offset_bytes;
        slot->first_size_and_type = slot->size_and_type;
    }
}

static void completed_twice(struct queue_state *queue, uint32_t head, const struct slot *slot, int64_t end_ns,
                            bool older_in_flight)
{
    if (queue->twice_count < TWICE_KEPT)
        queue->twice[queue->twice_count++] = (struct twice){ .head = head,
                                                             .id = slot->id,
                                                             .older_id = slot->older_id,
                                                             .older_end_ns = slot->older_end_ns,
                                                             .end_ns = end_ns,
                                                             .recovered_ns = slot->begin_ns,
                                                             .vtid = slot->vtid,
                                                             .older_in_flight = older_in_flight };
}

/* An end of the older life, after its request was resubmitted under a new id. */
static void older_ended(struct lost *lost, const struct event *event)
{
    const struct slot_place *place =
        g_hash_table_lookup(lost->older, key_of(event->fields.vblk_request_end.request_id));
    struct queue_state *queue;
    struct slot *slot;
    uint32_t head;

    if (!place)
        return;
    queue = place->queue;
    head = place->head;
    slot = &g_array_index(queue->slots, struct slot, head);
    g_hash_table_remove(lost->older, key_of(event->fields.vblk_request_end.request_id));
    if (event->id == EVENT_vblk_request_abandoned) {
        slot->older_id = 0;
        return;
    }
    slot->older_ended = true;
    slot->older_end_ns = event->time_ns;
    if (slot->life == LIFE_ENDED)
        completed_twice(queue, head, slot, event->time_ns, true);
}

static void ended(struct lost *lost, const struct occurrence *what)
{
    const struct event *event = what->event;
    struct queue_state *queue;
    struct slot *slot = what->request ? slot_of(lost, what->request, &queue) : NULL;

    if (!slot) {
        older_ended(lost, event);
        return;
    }
    slot->owed = false;
    slot->end_ns = event->time_ns;
    if (event->id == EVENT_vblk_request_abandoned) {
        slot->life = LIFE_ABANDONED;
        forget_older(lost, slot);
        return;
    }
    slot->life = LIFE_ENDED;
    if (slot->first_recovered && slot->first_ns == slot->begin_ns)
        slot->first_ended = true;
    if (slot->older_id && slot->older_ended)
        completed_twice(queue, what->request->head, slot, event->time_ns,
                        slot->older_end_ns > slot->begin_ns);
}

static void restarted(struct lost *lost, const struct occurrence *what)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, lost->queues);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct queue_state *queue = value;

        if (queue->device_id != what->device->id)
            continue;
        queue->restart_ns = what->event->time_ns;
        queue->attached_ns = queue->went_on_ns = 0;
        for (unsigned head = 0; head < queue->slots->len; head++) {
            struct slot *slot = &g_array_index(queue->slots, struct slot, head);

            if (slot->life == LIFE_OPEN && !slot->owed) {
                slot->owed = true;
                slot->restart_ns = what->event->time_ns;
            }
        }
    }
}

/* A driver without an in-flight region is a new one: the old one is gone, with what it was owed. */
static void new_driver(struct lost *lost, const struct occurrence *what)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, lost->queues);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct queue_state *queue = value;

        for (unsigned head = 0; queue->device_id == what->device->id && head < queue->slots->len; head++) {
            struct slot *slot = &g_array_index(queue->slots, struct slot, head);

            if (slot->owed && slot->restart_ns == queue->restart_ns) {
                slot->owed = false;
                slot->life = LIFE_ABANDONED;
            }
        }
    }
}

static void on_event(void *state, const struct occurrence *what)
{
    struct lost *lost = state;
    struct queue_state *queue;

    switch (what->event->id) {
    case EVENT_vblk_request_begin:
        began(lost, what);
        break;
    case EVENT_vblk_request_recovered:
        if (what->queue && what->request && what->request->head != HEAD_UNKNOWN)
            recovered(lost, what);
        break;
    case EVENT_vblk_request_end:
    case EVENT_vblk_request_abandoned:
        ended(lost, what);
        break;
    case EVENT_vhost_user_connect:
        if (what->device && !what->in_baseline)
            restarted(lost, what);
        break;
    case EVENT_vhost_user_message:
        if (what->device && what->event->fields.vhost_user_message.request == GET_INFLIGHT_FD &&
            what->event->fields.vhost_user_message.result >= 0)
            new_driver(lost, what);
        break;
    default: /* notifier_attach */
        queue = what->queue ? need_queue(lost, what) : NULL;
        if (queue && !queue->attached_ns)
            queue->attached_ns = what->event->time_ns;
        break;
    }
}

/* --- verdicts ------------------------------------------------------------------------------------------ */

/* A request that is owed, and to whom: the same process or its successor. */
struct debt {
    const struct check_env *env; /* of the process in which it was in flight */
    const struct process *debtor;
    const struct queue_state *queue; /* where it was in flight */
    const struct queue_state *later; /* the same queue in the debtor; NULL: it never showed */
    uint32_t head;
    const struct slot *slot;
    int64_t restart_ns;
};

/* When it should have been resubmitted; INT64_MAX: the trace is too short to say. */
static int64_t due_ns(const struct debt *debt)
{
    const int64_t stuck_ns = debt->env->options->stuck_request_ns, last_ns = debt->debtor->last_ns;

    if (debt->later && debt->later->went_on_ns)
        return debt->later->went_on_ns;
    if (debt->later && debt->later->attached_ns && last_ns - debt->later->attached_ns >= SECOND)
        return debt->later->attached_ns + SECOND;
    return last_ns - debt->restart_ns > stuck_ns ? debt->restart_ns + stuck_ns : INT64_MAX;
}

/* Its end in its own process, its resubmission in the debtor. */
static bool is_hidden(const struct debt *debt, int64_t due, struct loss *loss_out)
{
    const struct process *process = debt->env->process;
    const struct queue *queue = device_queue(
        process_device(debt->debtor, debt->later ? debt->later->device_id : 0), debt->queue->queue_index);
    const struct loop *owner =
        queue && queue->owner_loop ? process_loop(debt->debtor, queue->owner_loop) : NULL;
    const int64_t vtid = owner ? loop_vtid(owner) : debt->later ? debt->later->vtid : EVENT_UNKNOWN_ID;

    return loss_hides(process, debt->slot->vtid, EVENT_vblk_request_end, debt->slot->begin_ns,
                      process == debt->debtor ? due : process->last_ns, loss_out) ||
           loss_hides(debt->debtor, vtid, EVENT_vblk_request_recovered, debt->restart_ns, due, loss_out);
}

static struct finding *finding_of(const struct check_env *env, const struct queue_state *queue)
{
    struct finding *finding = finding_get(env, "lost-request", "device %" PRIu32 " queue %" PRIu16,
                                          queue->device_id, queue->queue_index);

    finding_raise(finding, SEVERITY_ERROR);
    return finding;
}

static void report_debt(const struct debt *debt, int64_t due)
{
    const struct process *process = debt->env->process;
    struct finding *finding = finding_of(debt->env, debt->queue);
    const char *device = device_text(process, debt->queue->device_id);

    finding_span(finding, debt->slot->begin_ns, due);
    finding_add_count(finding, 1);
    finding_evidence(
        finding, debt->slot->begin_ns, EVENT_vblk_request_begin,
        "%s takes request %" PRIu64 " (head %" PRIu32 ") from queue %" PRIu16 " of %s; it never ends",
        thread_text(process, debt->slot->vtid), debt->slot->id, debt->head, debt->queue->queue_index, device);
    finding_evidence(finding, debt->restart_ns, EVENT_vhost_user_connect,
                     "the front end is back%s%s; until %.6f s later head %" PRIu32 " is not resubmitted",
                     debt->debtor == process ? "" : ", at ",
                     debt->debtor == process ? "" : process_text(debt->debtor),
                     (double)(due - debt->restart_ns) / 1e9, debt->head);
    if (finding_is_told(finding))
        return;
    finding_subject_queue(finding, process, debt->queue->device_id, debt->queue->queue_index);
    finding_subject(finding, "request_id", json_integer((json_int_t)debt->slot->id));
    finding_subject(finding, "head", json_integer(debt->head));
    finding_cause(finding, "not resubmitted");
    finding_summary(finding,
                    "request %" PRIu64 " (head %" PRIu32 ") of queue %" PRIu16
                    " of %s was in flight at a restart and was "
                    "neither resubmitted nor completed",
                    debt->slot->id, debt->head, debt->queue->queue_index, device);
    finding_advice(
        finding,
        "The guest waits for it for ever: reset the device in the guest. Look at how the in-flight region "
        "is read after a restart: every slot that is in flight is resubmitted, in the order of its "
        "counter, slot 0 too.");
}

/* Evidence of all of a queue, and one "cannot tell" for all that is hidden. */
static void judge_debts(const struct check_env *env, const GArray *debts)
{
    const struct debt *hidden = NULL;
    struct loss loss, first_loss = { 0 };
    int64_t hidden_due = 0;

    for (unsigned i = 0; i < debts->len; i++) {
        const struct debt *debt = &g_array_index(debts, struct debt, i);
        const int64_t due = due_ns(debt);

        if (due == INT64_MAX)
            continue;
        if (!is_hidden(debt, due, &loss)) {
            report_debt(debt, due);
        } else if (!hidden) {
            hidden = debt;
            hidden_due = due;
            first_loss = loss;
        }
    }
    if (hidden)
        inconclusive(
            env, "lost-request", hidden->slot->begin_ns, hidden_due,
            "request %" PRIu64 " (head %" PRIu32 ") of queue %" PRIu16
            " of %s was in flight at a restart; its end or "
            "its resubmission may be among the events that were lost from %.6f s after the beginning of the "
            "trace on",
            hidden->slot->id, hidden->head, hidden->queue->queue_index,
            device_text(env->process, hidden->queue->device_id),
            (double)(first_loss.begin_ns - analysis_begin_ns(env->analysis)) / 1e9);
}

static void report_twice(const struct check_env *env, const struct queue_state *queue,
                         const struct twice *twice)
{
    const struct process *process = env->process;
    struct finding *finding = finding_of(env, queue);
    const char *device = device_text(process, queue->device_id);

    finding_span(finding, MIN(twice->older_end_ns, twice->end_ns), twice->end_ns);
    finding_add_count(finding, 1);
    finding_evidence(finding, twice->recovered_ns, EVENT_vblk_request_recovered,
                     "head %" PRIu32 " of queue %" PRIu16 " of %s, request %" PRIu64
                     " before, is resubmitted as request %" PRIu64,
                     twice->head, queue->queue_index, device, twice->older_id, twice->id);
    finding_evidence(finding, twice->older_end_ns, EVENT_vblk_request_end, "request %" PRIu64 " completes",
                     twice->older_id);
    finding_evidence(finding, twice->end_ns, EVENT_vblk_request_end,
                     "the resubmitted one is completed as well");
    if (finding_is_told(finding))
        return;
    finding_subject_queue(finding, process, queue->device_id, queue->queue_index);
    finding_subject(finding, "request_id", json_integer((json_int_t)twice->id));
    finding_subject(finding, "head", json_integer(twice->head));
    finding_cause(finding, "completed twice");
    finding_summary(finding,
                    "head %" PRIu32 " of queue %" PRIu16 " of %s was completed twice: as request %" PRIu64
                    " and, resubmitted after a restart, as request %" PRIu64,
                    twice->head, queue->queue_index, device, twice->older_id, twice->id);
    finding_advice(
        finding,
        "The driver may have used the head for another request in between, whose data is then wrong: check "
        "the guest's file system. Look at the order of the used ring and the in-flight region: a slot "
        "is cleared after its completion is pushed, and what the used ring holds is not resubmitted.");
}

static void judge_twice(const struct check_env *env, const struct queue_state *queue)
{
    const struct twice *hidden = NULL;
    bool told = false;

    for (unsigned i = 0; i < queue->twice_count; i++) {
        const struct twice *twice = &queue->twice[i];

        /* Ended first, resubmitted then: unless the driver had posted it again, which would be a begin. */
        if (!twice->older_in_flight && loss_hides(env->process, twice->vtid, EVENT_vblk_request_begin,
                                                  twice->older_end_ns, twice->recovered_ns, NULL)) {
            hidden = hidden ? hidden : twice;
            continue;
        }
        report_twice(env, queue, twice);
        told = true;
    }
    if (hidden && !told)
        inconclusive(env, "lost-request", hidden->older_end_ns, hidden->end_ns,
                     "head %" PRIu32 " of queue %" PRIu16
                     " of %s was completed and resubmitted; that the driver posted it "
                     "again in between may be among lost events",
                     hidden->head, queue->queue_index, device_text(env->process, queue->device_id));
}

static gint by_key(const void *a, const void *b)
{
    const struct queue_state *x = a, *y = b;

    if (x->device_id != y->device_id)
        return x->device_id < y->device_id ? -1 : 1;
    return (int)x->queue_index - (int)y->queue_index;
}

static const struct lost *state_of(const GPtrArray *all, const struct process *process)
{
    for (unsigned i = 0; i < all->len; i++) {
        const struct lost *lost = g_ptr_array_index(all, i);

        if (lost->env->process == process)
            return lost;
    }
    return NULL;
}

/*
 * Completed by the old process and again by the new one. A process that is killed may have taken the head again without
 * having said so; then the new one resubmits something else.
 */
static void judge_across(const struct check_env *env, const struct queue_state *queue, uint32_t head,
                         const struct slot *slot, const struct slot *later)
{
    const struct twice twice = { .head = head,
                                 .id = later->id,
                                 .older_id = slot->id,
                                 .older_end_ns = slot->end_ns,
                                 .end_ns = MAX(later->end_ns, later->first_ns),
                                 .recovered_ns = later->first_ns };

    if (slot->offset_bytes == later->first_offset_bytes &&
        slot->size_and_type == later->first_size_and_type &&
        !loss_hides(env->process, slot->vtid, EVENT_vblk_request_begin, slot->end_ns, env->process->last_ns,
                    NULL))
        report_twice(env, queue, &twice);
}

/* A process that is killed may have pushed the status without having said so. */
static bool was_being_reported(const struct process *process, const struct slot *slot)
{
    const struct request *request = process_request(process, slot->id);

    return request && request->complete_ns;
}

static void judge_queue(const GPtrArray *all, const struct lost *lost, const struct queue_state *queue)
{
    const struct check_env *env = lost->env;
    GArray *debts = g_array_new(FALSE, TRUE, sizeof(struct debt));
    struct device *device = NULL;
    const struct process *successor =
        device_successor(env->process, process_device(env->process, queue->device_id), &device);
    const struct lost *heir = successor ? state_of(all, successor) : NULL;
    const struct queue_state *later = heir ? find_queue(heir, device->id, queue->queue_index) : NULL;

    for (uint32_t head = 0; head < queue->slots->len; head++) {
        const struct slot *slot = &g_array_index(queue->slots, struct slot, head);
        const struct slot *next =
            later && head < later->slots->len ? &g_array_index(later->slots, struct slot, head) : NULL;
        struct debt debt = { .env = env,
                             .debtor = env->process,
                             .queue = queue,
                             .later = queue,
                             .head = head,
                             .slot = slot,
                             .restart_ns = slot->restart_ns };

        if (slot->owed && (!heir || due_ns(&debt) != INT64_MAX)) {
            g_array_append_val(debts, debt);
        } else if (slot->life == LIFE_OPEN && heir) {
            debt.debtor = successor;
            debt.later = later;
            debt.restart_ns = device->first_connect_ns;
            if (!(next && next->seen) && !was_being_reported(env->process, slot))
                g_array_append_val(debts, debt);
        } else if (slot->life == LIFE_ENDED && next && next->first_recovered && next->first_ended) {
            judge_across(env, queue, head, slot, next);
        }
    }
    judge_debts(env, debts);
    judge_twice(env, queue);
    g_array_free(debts, TRUE);
}

static void shared_finish(void *shared)
{
    const GPtrArray *all = shared;

    for (unsigned i = 0; i < all->len; i++) {
        const struct lost *lost = g_ptr_array_index(all, i);
        GList *queues;

        if (!process_declares(lost->env->process, EVENT_vblk_request_end) ||
            !process_declares(lost->env->process, EVENT_vblk_request_recovered))
            continue;
        queues = g_list_sort(g_hash_table_get_values(lost->queues), by_key);
        for (GList *link = queues; link; link = link->next)
            judge_queue(all, lost, link->data);
        g_list_free(queues);
    }
}

const struct check_class check_lost_request = {
    .ids = { "lost-request" },
    .needs = NEEDS(SET_REQUEST),
    .events = events,
    .create = create,
    .event = on_event,
    .destroy = destroy,
    .shared_create = shared_create,
    .shared_finish = shared_finish,
    .shared_destroy = shared_destroy,
};
