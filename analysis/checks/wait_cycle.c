#include "checks/wait_cycle.h"

#include <inttypes.h>

#include "core/check.h"
#include "model/holding.h"
#include "model/request.h"

#define DEPTH_MAX 64
#define THREAD_MUTEX 0

/*
 * LOCK -> who holds it. CONTEXT (a coroutine, or what a thread runs outside of any) -> the lock that it waits for, the drain
 * that it makes, and for a coroutine the thread that has to resume it. THREAD -> the mutex in which it is blocked.
 * DRAIN -> the threads and coroutines that have requests of the device in hand.
 */
enum node_kind { LOCK, CONTEXT, THREAD, DRAIN };

struct node {
    enum node_kind kind;
    uint64_t id; /* lock, coroutine (0: outside), device */
    int64_t tid; /* CONTEXT, THREAD */
};

struct search {
    const struct process *process;
    struct node goal;
    struct node visited[DEPTH_MAX * 4];
    unsigned visited_count;
    GPtrArray *edges;
};

static void edge_free(void *data)
{
    struct wait_edge *edge = data;

    g_free(edge->text);
    g_free(edge);
}

static bool is_same(const struct node *a, const struct node *b)
{
    if (a->kind != b->kind || a->id != b->id)
        return false;
    return a->kind == LOCK || a->kind == DRAIN || (a->kind == CONTEXT && a->id) || a->tid == b->tid;
}

static bool search_from(struct search *search, const struct node *node, unsigned depth);

/* Go along an edge; keep its text if it leads round. */
static bool follow(struct search *search, const struct node *to, unsigned depth, int64_t time_ns,
                   enum event_id event, int64_t vtid, char *text)
{
    struct wait_edge *edge = g_new0(struct wait_edge, 1);

    *edge = (struct wait_edge){ .time_ns = time_ns, .event = event, .vtid = vtid, .text = text };
    g_ptr_array_add(search->edges, edge);
    if (is_same(to, &search->goal) || search_from(search, to, depth + 1))
        return true;
    g_ptr_array_remove_index(search->edges, search->edges->len - 1);
    return false;
}

static const char *context_text(const struct process *process, const struct node *node, char *buffer,
                                size_t size)
{
    if (node->id)
        g_snprintf(buffer, size, "coroutine %" PRIu64 " of %s", node->id, thread_text(process, node->tid));
    else
        g_snprintf(buffer, size, "%s", thread_text(process, node->tid));
    return buffer;
}

/* A thread that has emitted anything since is not blocked. */
static bool is_blocked(const struct process *process, const struct lock_wait *wait)
{
    const struct thread *thread = process_find_thread(process, process_vtid(process, wait->tid));

    return !thread || thread->last_ns <= wait->since_ns;
}

static bool still_waits(const struct process *process, const struct lock_wait *wait)
{
    const struct lock *lock = process_lock(process, wait->lock_id);

    return !lock || lock->kind != THREAD_MUTEX || is_blocked(process, wait);
}

static bool search_lock(struct search *search, const struct node *node, unsigned depth)
{
    const struct process *process = search->process;
    const struct hold *hold = process_hold(process, node->id);
    const struct lock_wait *latest = NULL;
    struct node holder = { .kind = CONTEXT };
    GHashTableIter iter;
    void *value;
    int64_t since_ns = 0;
    char who[200];

    /* Without releases recorded: whom the latest of those who wait found holding it. */
    g_hash_table_iter_init(&iter, process->waits);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct lock_wait *wait = value;

        if (wait->lock_id == node->id && (!latest || wait->since_ns > latest->since_ns))
            latest = wait;
    }
    if (hold) {
        holder.id = hold->coroutine_id;
        holder.tid = hold->tid;
        since_ns = hold->since_ns;
    } else if (latest && (latest->owner_tid || latest->owner_coroutine_id)) {
        holder.id = latest->owner_coroutine_id;
        holder.tid = latest->owner_tid;
    } else {
        return false;
    }
    return follow(search, &holder, depth, since_ns ? since_ns : latest->since_ns,
                  hold ? hold->announced ? EVENT_rt_lock_owner : EVENT_rt_lock_acquired : EVENT_rt_lock_wait,
                  EVENT_UNKNOWN_ID,
                  g_strdup_printf("%s is held by %s", lock_text(process, node->id),
                                  context_text(process, &holder, who, sizeof(who))));
}

static bool search_drains(struct search *search, const struct node *node, unsigned depth)
{
    const struct process *process = search->process;
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, process->devices);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct device *device = value;
        const struct node drain = { .kind = DRAIN, .id = device->id };

        for (unsigned i = 0; i < device->drains->len; i++) {
            const struct drain *open = &g_array_index(device->drains, struct drain, i);

            if (open->vtid != EVENT_UNKNOWN_ID && open->vtid == process_vtid(process, node->tid) &&
                follow(search, &drain, depth, open->begin_ns, EVENT_vblk_dataplane_drain_begin, open->vtid,
                       g_strdup_printf("%s drains %s and waits for its requests",
                                       thread_text(process, node->tid), device_text(process, device->id))))
                return true;
        }
    }
    return false;
}

static bool search_context(struct search *search, const struct node *node, unsigned depth)
{
    const struct process *process = search->process;
    const struct lock_wait *wait = process_waiting(process, node->tid, node->id);
    const struct node thread = { .kind = THREAD, .tid = node->tid };
    char who[200];

    context_text(process, node, who, sizeof(who));
    if (wait && still_waits(process, wait)) {
        const struct node lock = { .kind = LOCK, .id = wait->lock_id };

        if (follow(search, &lock, depth, wait->since_ns, EVENT_rt_lock_wait, process_vtid(process, wait->tid),
                   g_strdup_printf("%s waits for %s", who, lock_text(process, wait->lock_id))))
            return true;
    }
    if (search_drains(search, node, depth))
        return true;
    return node->id && follow(search, &thread, depth, 0, EVENT_rt_coroutine_yield, EVENT_UNKNOWN_ID,
                              g_strdup_printf("%s can go on only when its thread runs it", who));
}

static bool search_thread(struct search *search, const struct node *node, unsigned depth)
{
    const struct process *process = search->process;
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, process->waits);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct lock_wait *wait = value;
        const struct lock *model = process_lock(process, wait->lock_id);
        const struct node lock = { .kind = LOCK, .id = wait->lock_id };

        if (wait->tid == node->tid && model && model->kind == THREAD_MUTEX && is_blocked(process, wait) &&
            follow(search, &lock, depth, wait->since_ns, EVENT_rt_lock_wait, process_vtid(process, wait->tid),
                   g_strdup_printf("%s is blocked in %s and runs nothing else",
                                   thread_text(process, node->tid), lock_text(process, wait->lock_id))))
            return true;
    }
    return false;
}

static bool has_requests(const struct process *process, const struct queue *queue)
{
    if (!process_records(process, SET_REQUEST))
        return true;
    for (unsigned head = 0; queue->heads && head < queue->heads->len; head++)
        if (g_array_index(queue->heads, uint64_t, head))
            return true;
    return false;
}

/* A loop that has requests of the device: its thread, and whatever of its coroutines waits. */
static bool search_loop_of(struct search *search, const struct node *drain, const struct loop *loop,
                           unsigned depth)
{
    const struct process *process = search->process;
    const struct node thread = { .kind = THREAD, .tid = loop->thread_id };
    GHashTableIter iter;
    void *value;

    if (follow(search, &thread, depth, 0, EVENT_vblk_dataplane_drain_begin, EVENT_UNKNOWN_ID,
               g_strdup_printf("the drain of %s waits for requests of %s",
                               device_text(process, (uint32_t)drain->id), loop_text(process, loop->id))))
        return true;
    g_hash_table_iter_init(&iter, process->waits);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct lock_wait *wait = value;
        const struct node context = { .kind = CONTEXT, .id = wait->coroutine_id, .tid = wait->tid };

        if (wait->tid == loop->thread_id && wait->coroutine_id &&
            follow(search, &context, depth, 0, EVENT_vblk_dataplane_drain_begin, EVENT_UNKNOWN_ID,
                   g_strdup_printf("the drain of %s waits for what coroutine %" PRIu64 " of %s has in hand",
                                   device_text(process, (uint32_t)drain->id), wait->coroutine_id,
                                   loop_text(process, loop->id))))
            return true;
    }
    return false;
}

static bool search_drain(struct search *search, const struct node *node, unsigned depth)
{
    const struct process *process = search->process;
    const struct device *device = process_device(process, (uint32_t)node->id);
    GHashTableIter iter;
    void *value;

    if (!device)
        return false;
    g_hash_table_iter_init(&iter, device->queues);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct queue *queue = value;
        const struct loop *loop = process_loop(process, queue->owner_loop);

        if (loop && loop->thread_id && has_requests(process, queue) &&
            search_loop_of(search, node, loop, depth))
            return true;
    }
    return false;
}

static bool search_from(struct search *search, const struct node *node, unsigned depth)
{
    if (depth >= DEPTH_MAX || search->visited_count == G_N_ELEMENTS(search->visited))
        return false;
    for (unsigned i = 0; i < search->visited_count; i++)
        if (is_same(&search->visited[i], node))
            return false;
    search->visited[search->visited_count++] = *node;
    switch (node->kind) {
    case LOCK:
        return search_lock(search, node, depth);
    case CONTEXT:
        return search_context(search, node, depth);
    case THREAD:
        return search_thread(search, node, depth);
    case DRAIN:
        return search_drain(search, node, depth);
    }
    return false;
}

GPtrArray *wait_cycle_through(const struct process *process, uint64_t lock_id)
{
    struct search search = { .process = process, .goal = { .kind = LOCK, .id = lock_id } };

    search.edges = g_ptr_array_new_with_free_func(edge_free);
    if (search_from(&search, &search.goal, 0))
        return search.edges;
    g_ptr_array_free(search.edges, TRUE);
    return NULL;
}
