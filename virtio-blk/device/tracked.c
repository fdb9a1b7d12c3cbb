#include "device/tracked.h"

#include <glib.h>

#include "tracepoints/request.h"

/*
 * ORDER tracked.overlap: of two overlapping requests, one of them serialising, at least one sees the other.
 *   any request: insert into its shard under the shard's lock, then read serialising_count
 *   serialising: raise serialising_count, then look into every shard under its lock
 * The shard's lock is the fence: if the serialising one looked before the other was inserted, its raise happened
 * before that insertion's lock, and the other reads a count above 0.
 * The same lock orders the end of a request (remove, then read waiting_count) with a waiter (raise waiting_count,
 * then look): the one that is not seen any more needs to wake nobody.
 */

void vblk_tracked_init(struct vblk_tracked_disk *disk, unsigned shard_count)
{
    *disk = (struct vblk_tracked_disk){ .shard_count = shard_count };
    disk->shards = g_new0(struct vblk_tracked_shard, shard_count);
    for (unsigned i = 0; i < shard_count; i++)
        rt_mutex_init(&disk->shards[i].lock, "blk-tracked-requests");
    rt_mutex_init(&disk->wait_lock, "blk-tracked-wait");
    rt_co_queue_init(&disk->waiting);
    rt_mutex_init(&disk->flush_lock, "blk-flush");
    rt_co_queue_init(&disk->flush_queue);
}

void vblk_tracked_deinit(struct vblk_tracked_disk *disk)
{
    for (unsigned i = 0; i < disk->shard_count; i++)
        rt_mutex_deinit(&disk->shards[i].lock);
    g_free(disk->shards);
    rt_mutex_deinit(&disk->wait_lock);
    rt_mutex_deinit(&disk->flush_lock);
}

static void shard_insert(struct vblk_tracked_shard *shard, struct vblk_tracked *tracked)
{
    rt_mutex_lock(&shard->lock);
    tracked->next = shard->first;
    tracked->at = &shard->first;
    if (tracked->next)
        tracked->next->at = &tracked->next;
    shard->first = tracked;
    rt_mutex_unlock(&shard->lock);
}

static void shard_remove_locked(struct vblk_tracked *tracked)
{
    *tracked->at = tracked->next;
    if (tracked->next)
        tracked->next->at = tracked->at;
}

static bool overlaps(const struct vblk_tracked *a, const struct vblk_tracked *b)
{
    return a->offset_bytes < b->offset_bytes + b->size_bytes && b->offset_bytes < a->offset_bytes + a->size_bytes;
}

/* Whether @tracked has to wait for @other. wait_lock held. Of two serialising ones the later waits; request ids do not
 * tell which that is (queues take them in blocks), and one without ticket comes here after us. */
static bool waits_for(const struct vblk_tracked *tracked, const struct vblk_tracked *other)
{
    if (tracked == other || !(tracked->serialising || other->serialising) || !overlaps(tracked, other))
        return false;
    return !other->serialising || !tracked->serialising || (other->ticket != 0 && other->ticket < tracked->ticket);
}

/* The id of a request that @tracked has to wait for, or 0. wait_lock held. */
static uint64_t find_blocking(struct vblk_tracked_disk *disk, const struct vblk_tracked *tracked)
{
    uint64_t id = 0;

    for (unsigned i = 0; i < disk->shard_count && id == 0; i++) {
        struct vblk_tracked_shard *shard = &disk->shards[i];

        rt_mutex_lock(&shard->lock);
        for (struct vblk_tracked *other = shard->first; other && id == 0; other = other->next)
            if (waits_for(tracked, other))
                id = other->request_id;
        rt_mutex_unlock(&shard->lock);
    }
    return id;
}

static void wake_waiting(struct vblk_tracked_disk *disk)
{
    rt_mutex_lock(&disk->wait_lock);
    rt_co_queue_wake_all(&disk->waiting);
    rt_mutex_unlock(&disk->wait_lock);
}

/* Somebody serialises. Plain requests step back while they wait, so that the serialising one, which waits for all
 * that are in the lists, does not wait for them in turn. */
static void wait_for_overlaps_co(struct vblk_tracked_disk *disk, struct vblk_tracked_shard *shard,
                                 struct vblk_tracked *tracked)
{
    uint64_t blocking;
    bool inserted = true, seen = true;

    rt_mutex_lock(&disk->wait_lock);
    atomic_fetch_add_explicit(&disk->waiting_count, 1, memory_order_relaxed); /* ORDER tracked.overlap */
    if (tracked->serialising)
        tracked->ticket = ++disk->last_ticket;
    for (;;) {
        if (!inserted) {
            shard_insert(shard, tracked);
            inserted = true;
        }
        blocking = find_blocking(disk, tracked);
        if (blocking == 0)
            break;
        lttng_ust_tracepoint(vblk_request, serialise_wait, tracked->request_id, blocking);
        if (!tracked->serialising) {
            rt_mutex_lock(&shard->lock);
            shard_remove_locked(tracked);
            rt_mutex_unlock(&shard->lock);
            inserted = false;
            /* The serialising one may have waited for this; but only the first time, since what was inserted and
             * taken back under wait_lock was seen by nobody: two that step back would wake each other for ever. */
            if (seen)
                rt_co_queue_wake_all(&disk->waiting);
            seen = false;
        }
        rt_co_queue_wait_mutex_co(&disk->waiting, &disk->wait_lock);
    }
    atomic_fetch_sub_explicit(&disk->waiting_count, 1, memory_order_relaxed);
    rt_mutex_unlock(&disk->wait_lock);
}

void vblk_tracked_begin_co(struct vblk_tracked_disk *disk, unsigned shard_index, struct vblk_tracked *tracked)
{
    struct vblk_tracked_shard *shard = &disk->shards[shard_index];

    if (tracked->serialising)
        atomic_fetch_add_explicit(&disk->serialising_count, 1, memory_order_relaxed); /* ORDER tracked.overlap */
    shard_insert(shard, tracked);
    if (atomic_load_explicit(&disk->serialising_count, memory_order_relaxed) > 0) /* ORDER tracked.overlap */
        wait_for_overlaps_co(disk, shard, tracked);
}

void vblk_tracked_end(struct vblk_tracked_disk *disk, unsigned shard_index, struct vblk_tracked *tracked, bool wrote)
{
    struct vblk_tracked_shard *shard = &disk->shards[shard_index];

    rt_mutex_lock(&shard->lock);
    shard_remove_locked(tracked);
    if (wrote)
        atomic_store_explicit(&shard->writes_done,
                              atomic_load_explicit(&shard->writes_done, memory_order_relaxed) + 1,
                              memory_order_release);
    rt_mutex_unlock(&shard->lock);
    if (tracked->serialising)
        atomic_fetch_sub_explicit(&disk->serialising_count, 1, memory_order_relaxed);
    if (atomic_load_explicit(&disk->waiting_count, memory_order_relaxed) > 0) /* ORDER tracked.overlap */
        wake_waiting(disk);
}

/* Counts from 1: what an earlier process left in the page cache counts as a write, too. */
static uint64_t write_generation(struct vblk_tracked_disk *disk)
{
    uint64_t generation = 1;

    for (unsigned i = 0; i < disk->shard_count; i++)
        generation += atomic_load_explicit(&disk->shards[i].writes_done, memory_order_acquire);
    return generation;
}

int vblk_tracked_flush_co(struct vblk_tracked_disk *disk, int (*flush_co)(void *opaque), void *opaque)
{
    uint64_t generation;
    int result = 0;

    rt_mutex_lock(&disk->flush_lock);
    generation = write_generation(disk);
    while (disk->flush_active && disk->flushed_generation < generation)
        rt_co_queue_wait_mutex_co(&disk->flush_queue, &disk->flush_lock);
    if (disk->flushed_generation < generation) {
        disk->flush_active = true;
        rt_mutex_unlock(&disk->flush_lock);
        result = flush_co(opaque);
        rt_mutex_lock(&disk->flush_lock);
        disk->flush_active = false;
        if (result == 0 && disk->flushed_generation < generation)
            disk->flushed_generation = generation;
        /* All: those whose writes this one covered return, the first of the others goes on. */
        rt_co_queue_wake_all(&disk->flush_queue);
    }
    rt_mutex_unlock(&disk->flush_lock);
    return result;
}
