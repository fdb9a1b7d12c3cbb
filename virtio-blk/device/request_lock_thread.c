/* One list and one thread mutex for a whole disk. Loops contend for it, but what it guards is so short that they spin. */
#include "device/tracked.h"

static void init(struct vblk_tracked_disk *disk)
{
    rt_mutex_init(&disk->lists[0].lock.thread, VBLK_TRACKED_LOCK_CLASS);
}

static void deinit(struct vblk_tracked_disk *disk)
{
    rt_mutex_deinit(&disk->lists[0].lock.thread);
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
    lock_list_co(&disk->lists[0]);
}

static void unlock_waits(struct vblk_tracked_disk *disk)
{
    unlock_list(&disk->lists[0]);
}

static void wait_co(struct vblk_tracked_disk *disk, struct rt_co_queue *queue)
{
    (void)rt_co_queue_wait_mutex_co(queue, &disk->lists[0].lock.thread);
}

const struct vblk_request_lock vblk_request_lock_thread = {
    .name = "thread",
    .init = init,
    .deinit = deinit,
    .lock_list_co = lock_list_co,
    .unlock_list = unlock_list,
    .lock_waits_co = lock_waits_co,
    .unlock_waits = unlock_waits,
    .wait_co = wait_co,
};
