/*
 * A queue's home: the IOThread that processes it, what the queue has there (bottom half, timer, the disk's context),
 * and how it moves to another one while it runs.
 *
 * Whoever goes to a queue's home must find it there, and what it has there, until it is back: visits share home_lock,
 * a move has it alone. All take it in the main loop, and none holds it when it takes it again: a drain takes it anew for each
 * queue, so moves come between a drain's begin and its end, and drains that wait for a move come behind it.
 *
 * ORDER dataplane.move: a queue that moves is watched by the old loop, by none, then by the new one; a drain holds on to that.
 *   move:   what it needs there is made in the new loop first, since this may fail; in the old loop detach, wait for
 *           requests, leave; in the new loop enter; then in the main loop, in one go [V1]: announce the new loop, look at
 *           the flag, the ring and the drain's depth, and only if all let it, kick and go over to attach
 *   drain:  its begin visits every ring, so it waits for a move; its end leaves a queue that moves to the move [V2], which
 *           has not looked at the depth yet, or looked when nothing was drained and is behind nobody's detach
 *   start:  attaches what nobody has attached meanwhile [V3]
 * If weaker: a queue is attached without a bottom half, by two, or by nobody.
 * Test: tests/model/dataplane.pml.
 */
#include <errno.h>

#include "device/internal.h"
#include "tracepoints/dataplane.h"

/* What a queue has in its home. */
struct belongings {
    struct rt_bh *bh;
    struct rt_timer *retry_timer;
    struct vblk_disk_loop *disk;
};

static struct vblk_disk_loop **context_in(const struct vblk_device *device, const struct rt_loop *loop)
{
    unsigned i = 0;

    while (device->loops[i] != loop)
        i++;
    return &device->disk_loops[i];
}

/* Whether a queue still uses its loop's context. */
static bool is_home(const struct vblk_device *device, const struct rt_loop *loop)
{
    for (unsigned i = 0; i < device->queue_count; i++)
        if (device->queues[i].home == loop && device->queues[i].bh)
            return true;
    return false;
}

/* In @loop. */
static void let_context_go(struct vblk_device *device, const struct rt_loop *loop)
{
    struct vblk_disk_loop **context = context_in(device, loop);

    if (*context && !is_home(device, loop)) {
        vblk_disk_detach_loop(*context);
        *context = NULL;
    }
}

/* In @loop: make what the queue needs there. */
static int make(struct vblk_queue *queue, struct rt_loop *loop, struct belongings *belongings_out)
{
    struct vblk_device *device = queue->device;
    struct vblk_disk_loop **context = context_in(device, loop);
    struct belongings made;
    int error = 0;

    if (!*context)
        error = vblk_disk_attach_loop(device->disk, loop, context);
    if (error == 0)
        error = vblk_queue_create_work(queue, loop, &made.bh, &made.retry_timer);
    if (error < 0) {
        let_context_go(device, loop);
        return error;
    }
    made.disk = *context;
    *belongings_out = made;
    return 0;
}

/* In the home loop. */
static void settle_in(struct vblk_queue *queue, const struct belongings *belongings)
{
    queue->bh = belongings->bh;
    queue->retry_timer = belongings->retry_timer;
    queue->disk = belongings->disk;
    vblk_queue_begin_work(queue);
}

int vblk_home_enter_co(struct vblk_queue *queue)
{
    struct vblk_device *device = queue->device;
    struct belongings made;
    int error;

    rt_co_rwlock_read_co(&device->home_lock);
    queue->at_home = true;
    rt_coroutine_move(queue->home);
    error = make(queue, queue->home, &made);
    if (error == 0)
        settle_in(queue, &made);
    rt_coroutine_move(device->main_loop);
    queue->at_home = error == 0;
    rt_co_rwlock_unlock(&device->home_lock);
    return error;
}

/* In the home loop. */
static void leave(struct vblk_queue *queue)
{
    vblk_queue_end_work(queue);
    queue->disk = NULL;
    let_context_go(queue->device, queue->home);
}

bool vblk_home_visit_co(struct vblk_queue *queue)
{
    struct vblk_device *device = queue->device;

    rt_co_rwlock_read_co(&device->home_lock);
    if (queue->at_home) {
        rt_coroutine_move(queue->home);
        if (queue->bh)
            return true;
        rt_coroutine_move(device->main_loop); /* somebody has left just before, or is about to enter */
    }
    rt_co_rwlock_unlock(&device->home_lock);
    return false;
}

void vblk_home_return_co(struct vblk_queue *queue)
{
    rt_coroutine_move(queue->device->main_loop);
    rt_co_rwlock_unlock(&queue->device->home_lock);
}

void vblk_home_leave_co(struct vblk_queue *queue)
{
    leave(queue);
    rt_coroutine_move(queue->device->main_loop);
    queue->at_home = false;
    rt_co_rwlock_unlock(&queue->device->home_lock);
}

void vblk_home_change_loop(struct vblk_queue *queue, struct rt_loop *loop)
{
    struct vblk_device *device = queue->device;

    pthread_mutex_lock(&device->ring_lock);
    lttng_ust_tracepoint(vblk_dataplane, loop_change, device->device_id, queue->index, rt_loop_id(queue->loop),
                         rt_loop_id(loop));
    queue->loop = loop;
    pthread_mutex_unlock(&device->ring_lock);
}

/* ---- moving ---- */

static int attach_here_co(struct vblk_queue *queue)
{
    int error;

    vblk_notifier_kick(queue); /* what came while nobody watched */
    rt_coroutine_move(queue->home);
    error = vblk_notifier_attach(queue);
    rt_coroutine_move(queue->device->main_loop);
    if (error < 0)
        vblk_queue_break(queue, error, "its notifier could not be attached in its new loop");
    return error;
}

static int move_co(struct vblk_queue *queue, struct rt_loop *loop)
{
    struct vblk_device *device = queue->device;
    bool stays = vblk_has_fault(device, VBLK_FAULT_WRONG_LOOP);
    struct belongings made;
    int error = 0;

    if (!stays) {
        rt_coroutine_move(loop);
        error = make(queue, loop, &made);
        rt_coroutine_move(device->main_loop);
        if (error < 0)
            return error;
    }

    queue->moving = true;
    rt_coroutine_move(queue->home);
    vblk_notifier_detach(queue);
    vblk_queue_drain_co(queue);
    if (!stays) {
        leave(queue);
        rt_coroutine_move(loop);
        queue->home = loop;
        settle_in(queue, &made);
    }
    rt_coroutine_move(device->main_loop);

    /* ORDER dataplane.move [V1]. A ring that a start has not brought so far is still the main loop's. */
    if (queue->loop != device->main_loop)
        vblk_home_change_loop(queue, loop);
    if (vblk_dataplane_may_attach(queue))
        error = attach_here_co(queue);
    queue->moving = false;
    return error;
}

int vblk_device_move_queue_co(struct vblk_device *device, uint16_t queue_index, unsigned loop_index)
{
    struct vblk_queue *queue;
    struct rt_loop *loop;
    int error = 0;

    if (queue_index >= device->queue_count || loop_index >= device->loop_count)
        return -EINVAL;
    queue = &device->queues[queue_index];
    loop = device->loops[loop_index];
    rt_co_rwlock_write_co(&device->home_lock);
    if ((queue->loop != device->main_loop ? queue->loop : queue->home) != loop) {
        if (queue->at_home)
            error = move_co(queue, loop);
        else
            queue->home = loop;
    }
    rt_co_rwlock_unlock(&device->home_lock);
    return error;
}
