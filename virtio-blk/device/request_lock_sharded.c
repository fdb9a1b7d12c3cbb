/* A list and a thread mutex for each queue, so that on the usual path each loop takes only what is its own. Whoever must
 * see all requests, because one serialises, visits every list. */
#include "device/tracked.h"

static void init(struct vblk_tracked_disk *disk)
{
    for (unsigned i = 0; i < disk->list_count; i++)
        rt_mutex_init(&disk->lists[i].lock.thread, VBLK_TRACKED_LOCK_CLASS);
    rt_mutex_init(&disk->wait_lock, "blk-tracked-wait");
}

static void deinit(struct vblk_tracked_disk *disk)
{
    for (unsigned i = 0; i < disk->list_count; i++)
        rt_mutex_deinit(&disk->lists[i].lock.thread);
    rt_mutex_deinit(&disk->wait_lock);
}

static void lock_list_co(struct vblk_tracked_list *list)
{
    rt_mutex_lock(&list->lock.thread);
}

static void unlock_list(struct vblk_tracked_list *list)
{
    rt_mutex_unlock(&list->lock.thread);
}

static void lock_waits_co(struct vblk_tracked_disk *disk)
{
    rt_mutex_lock(&disk->wait_lock);
}

static void unlock_waits(struct vblk_tracked_disk *disk)
{
    rt_mutex_unlock(&disk->wait_lock);
}

static void wait_co(struct vblk_tracked_disk *disk, struct rt_co_queue *queue)
{
    (void)rt_co_queue_wait_mutex_co(queue, &disk->wait_lock);
}

const struct vblk_request_lock vblk_request_lock_sharded = {
    .name = "sharded",
    .list_per_queue = true,
    .init = init,
    .deinit = deinit,
    .lock_list_co = lock_list_co,
    .unlock_list = unlock_list,
    .lock_waits_co = lock_waits_co,
    .unlock_waits = unlock_waits,
    .wait_co = wait_co,
};
