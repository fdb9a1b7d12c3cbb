/* One list and one coroutine mutex for a whole disk: the slow original, kept to be compared with. The lock is never held
 * across a yield, so all that a waiter gains by yielding are two more trips through its loop. */
#include "device/tracked.h"

static void init(struct vblk_tracked_disk *disk)
{
    rt_co_mutex_init(&disk->lists[0].lock.coroutine, VBLK_TRACKED_LOCK_CLASS);
}

static void deinit(struct vblk_tracked_disk *disk)
{
    rt_co_mutex_deinit(&disk->lists[0].lock.coroutine);
}

static void lock_list_co(struct vblk_tracked_list *list)
{
    rt_co_mutex_lock_co(&list->lock.coroutine);
}

static void unlock_list(struct vblk_tracked_list *list)
{
    rt_co_mutex_unlock(&list->lock.coroutine);
}

static void lock_waits_co(struct vblk_tracked_disk *disk)
{
    lock_list_co(&disk->lists[0]);
}

static void unlock_waits(struct vblk_tracked_disk *disk)
{
    unlock_list(&disk->lists[0]);
}

static void wait_co(struct vblk_tracked_disk *disk, struct rt_co_queue *queue)
{
    (void)rt_co_queue_wait_co_mutex_co(queue, &disk->lists[0].lock.coroutine);
}

const struct vblk_request_lock vblk_request_lock_coroutine = {
    .name = "coroutine",
    .init = init,
    .deinit = deinit,
    .lock_list_co = lock_list_co,
    .unlock_list = unlock_list,
    .lock_waits_co = lock_waits_co,
    .unlock_waits = unlock_waits,
    .wait_co = wait_co,
};
