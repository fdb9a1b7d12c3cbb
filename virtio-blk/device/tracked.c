#include "device/tracked.h"

#include <glib.h>

#include "tracepoints/request.h"

/*
 * ORDER tracked.overlap: of two overlapping requests, one of them serialising, at least one sees the other.
 *   any request: insert into its list under the list's lock, then read serialising_count
 *   serialising: raise serialising_count, then look into every list under its lock
 * The list's lock is the fence: if the serialising one looked before the other was inserted, its raise happened
 * before that insertion's lock, and the other reads a count above 0.
 * The same lock orders the end of a request (remove, then read waiting_count) with a waiter (raise waiting_count,
 * then look): the one that is not seen any more needs to wake nobody.
 */

void vblk_tracked_init(struct vblk_tracked_disk *disk, const struct vblk_request_lock *policy, unsigned queue_count)
{
    *disk = (struct vblk_tracked_disk){ .policy = policy, .list_count = policy->list_per_queue ? queue_count : 1 };
    disk->lists = g_aligned_alloc0(disk->list_count, sizeof(disk->lists[0]), _Alignof(struct vblk_tracked_list));
    for (unsigned i = 0; i < disk->list_count; i++)
        policy->kind->init(&disk->lists[i].lock, VBLK_TRACKED_LOCK_CLASS);
    disk->wait_lock = policy->list_per_queue ? &disk->own_wait_lock : &disk->lists[0].lock;
    if (policy->list_per_queue)
        policy->kind->init(&disk->own_wait_lock, "blk-tracked-wait");
    rt_co_queue_init(&disk->waiting);
    rt_co_queue_init(&disk->flush_queue);
}

void vblk_tracked_deinit(struct vblk_tracked_disk *disk)
{
    for (unsigned i = 0; i < disk->list_count; i++)
        disk->policy->kind->deinit(&disk->lists[i].lock);
    if (disk->policy->list_per_queue)
        disk->policy->kind->deinit(&disk->own_wait_lock);
    g_aligned_free(disk->lists);
}

static struct vblk_tracked_list *list_of(struct vblk_tracked_disk *disk, unsigned queue_index)
{
    return &disk->lists[disk->policy->list_per_queue ? queue_index : 0];
}

static void insert_locked(struct vblk_tracked_list *list, struct vblk_tracked *tracked)
{
    tracked->next = list->first;
    tracked->at = &list->first;
    if (tracked->next)
        tracked->next->at = &tracked->next;
    list->first = tracked;
}

static void remove_locked(struct vblk_tracked *tracked)
{
    *tracked->at = tracked->next;
    if (tracked->next)
        tracked->next->at = tracked->at;
}

/* A list's lock for whoever holds wait_lock, which may be the same. */
static void lock_list_in_wait_co(const struct vblk_request_lock *policy, struct vblk_tracked_list *list)
{
    if (policy->list_per_queue)
        policy->kind->lock_co(&list->lock);
}

static void unlock_list_in_wait(const struct vblk_request_lock *policy, struct vblk_tracked_list *list)
{
    if (policy->list_per_queue)
        policy->kind->unlock(&list->lock);
}

static bool overlaps(const struct vblk_tracked *a, const struct vblk_tracked *b)
{
    return a->offset_bytes < b->offset_bytes + b->size_bytes && b->offset_bytes < a->offset_bytes + a->size_bytes;
}

/* Whether @tracked has to wait for @other. Of two serialising ones the later waits; request ids do not tell which that
 * is (queues take them in blocks), and one without ticket comes here after us. */
static bool waits_for(const struct vblk_tracked *tracked, const struct vblk_tracked *other)
{
    if (tracked == other || !(tracked->serialising || other->serialising) || !overlaps(tracked, other))
        return false;
    return !other->serialising || !tracked->serialising || (other->ticket != 0 && other->ticket < tracked->ticket);
}

/* The id of a request that @tracked has to wait for, or 0. wait_lock is held. */
static uint64_t find_blocking_co(struct vblk_tracked_disk *disk, const struct vblk_tracked *tracked)
{
    uint64_t id = 0;

    for (unsigned i = 0; i < disk->list_count && id == 0; i++) {
        struct vblk_tracked_list *list = &disk->lists[i];

        lock_list_in_wait_co(disk->policy, list);
        for (struct vblk_tracked *other = list->first; other && id == 0; other = other->next)
            if (waits_for(tracked, other))
                id = other->request_id;
        unlock_list_in_wait(disk->policy, list);
    }
    return id;
}

/* Somebody serialises. Plain requests step back while they wait, so that the serialising one, which waits for all
 * that are in the lists, does not wait for them in turn. */
static void wait_for_overlaps_co(struct vblk_tracked_disk *disk, struct vblk_tracked_list *list,
                                 struct vblk_tracked *tracked)
{
    const struct vblk_request_lock *policy = disk->policy;
    const struct vblk_lock_kind *kind = policy->kind;
    uint64_t blocking;
    bool inserted = true, seen = true;

    kind->lock_co(disk->wait_lock);
    atomic_fetch_add_explicit(&disk->waiting_count, 1, memory_order_relaxed); /* ORDER tracked.overlap */
    if (tracked->serialising)
        tracked->ticket = ++disk->last_ticket;
    for (;;) {
        if (!inserted) {
            lock_list_in_wait_co(policy, list);
            insert_locked(list, tracked);
            unlock_list_in_wait(policy, list);
            inserted = true;
        }
        blocking = find_blocking_co(disk, tracked);
        if (blocking == 0)
            break;
        lttng_ust_tracepoint(vblk_request, serialise_wait, tracked->request_id, blocking);
        if (!tracked->serialising) {
            lock_list_in_wait_co(policy, list);
            remove_locked(tracked);
            unlock_list_in_wait(policy, list);
            inserted = false;
            /* The serialising one may have waited for this; but only the first time, since what was inserted and
             * taken back under this lock was seen by nobody: two that step back would wake each other for ever. */
            if (seen)
                rt_co_queue_wake_all(&disk->waiting);
            seen = false;
        }
        kind->wait_co(disk->wait_lock, &disk->waiting);
    }
    atomic_fetch_sub_explicit(&disk->waiting_count, 1, memory_order_relaxed);
    kind->unlock(disk->wait_lock);
}

void vblk_tracked_begin_co(struct vblk_tracked_disk *disk, unsigned queue_index, struct vblk_tracked *tracked)
{
    const struct vblk_lock_kind *kind = disk->policy->kind;
    struct vblk_tracked_list *list = list_of(disk, queue_index);

    if (tracked->serialising)
        atomic_fetch_add_explicit(&disk->serialising_count, 1, memory_order_relaxed); /* ORDER tracked.overlap */
    kind->lock_co(&list->lock);
    insert_locked(list, tracked);
    kind->unlock(&list->lock);
    if (atomic_load_explicit(&disk->serialising_count, memory_order_relaxed) > 0) /* ORDER tracked.overlap */
        wait_for_overlaps_co(disk, list, tracked);
}

void vblk_tracked_end_co(struct vblk_tracked_disk *disk, unsigned queue_index, struct vblk_tracked *tracked, bool wrote)
{
    const struct vblk_lock_kind *kind = disk->policy->kind;
    struct vblk_tracked_list *list = list_of(disk, queue_index);

    kind->lock_co(&list->lock);
    remove_locked(tracked);
    if (wrote)
        atomic_store_explicit(&list->writes_done, atomic_load_explicit(&list->writes_done, memory_order_relaxed) + 1,
                              memory_order_release);
    kind->unlock(&list->lock);
    if (tracked->serialising)
        atomic_fetch_sub_explicit(&disk->serialising_count, 1, memory_order_relaxed);
    if (atomic_load_explicit(&disk->waiting_count, memory_order_relaxed) > 0) { /* ORDER tracked.overlap */
        kind->lock_co(disk->wait_lock);
        rt_co_queue_wake_all(&disk->waiting);
        kind->unlock(disk->wait_lock);
    }
}

/* Counts from 1: what an earlier process left in the page cache counts as a write, too. */
static uint64_t write_generation(struct vblk_tracked_disk *disk)
{
    uint64_t generation = 1;

    for (unsigned i = 0; i < disk->list_count; i++)
        generation += atomic_load_explicit(&disk->lists[i].writes_done, memory_order_acquire);
    return generation;
}

int vblk_tracked_flush_co(struct vblk_tracked_disk *disk, int (*flush_co)(void *opaque), void *opaque)
{
    const struct vblk_lock_kind *kind = disk->policy->kind;
    uint64_t generation;
    int result = 0;

    kind->lock_co(disk->wait_lock);
    generation = write_generation(disk);
    while (disk->flush_active && disk->flushed_generation < generation)
        kind->wait_co(disk->wait_lock, &disk->flush_queue);
    if (disk->flushed_generation < generation) {
        disk->flush_active = true;
        kind->unlock(disk->wait_lock);
        result = flush_co(opaque);
        kind->lock_co(disk->wait_lock);
        disk->flush_active = false;
        if (result == 0 && disk->flushed_generation < generation)
            disk->flushed_generation = generation;
        /* All: those whose writes this one covered return, the first of the others goes on. */
        rt_co_queue_wake_all(&disk->flush_queue);
    }
    kind->unlock(disk->wait_lock);
    return result;
}
