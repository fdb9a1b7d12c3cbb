/* The in-flight region behind a virtqueue: what was taken is noted there until it is given back, and what a predecessor
 * left is taken first. Without a region none of this is called. */
#include <stdlib.h>

#include "virtqueue/internal.h"

/* --fault=inflight-slot-zero: it counts as taken, and nobody does it again. */
static void forget_slot_zero(struct tracking *tracking)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < tracking->pending_count; i++)
        if (tracking->pending[i].slot != 0)
            tracking->pending[kept++] = tracking->pending[i];
    tracking->pending_count = kept;
}

/* What the front end gave as base is where it believes us to be; a region that was in use, and the ring, know. */
static int recover_split(struct vblk_virtqueue *vq, const struct vhost_user_inflight *inflight, void *part,
                         const char **reason_out)
{
    struct tracking *tracking = &vq->tracking;
    bool is_new;
    tracking->split = part;
    int count = vhost_user_inflight_split_recover(part, inflight->queue_size, vq->size, used_index(vq),
                                                  tracking->pending, &tracking->counter, &is_new, reason_out);
    tracking->resumed = !is_new;
    if (count >= 0 && !is_new)
        vblk_split_set_popped(vq, (uint16_t)(used_index(vq) + count));
    return count;
}

static int recover_packed(struct vblk_virtqueue *vq, const struct vhost_user_inflight *inflight, void *part,
                          const char **reason_out)
{
    struct tracking *tracking = &vq->tracking;
    const uint16_t used = used_index(vq), popped = popped_index(vq);
    struct vhost_user_inflight_position position = { .used_index = used & PACKED_INDEX,
                                                     .used_wrap = used & PACKED_WRAP,
                                                     .avail_index = popped & PACKED_INDEX,
                                                     .avail_wrap = popped & PACKED_WRAP };
    int count = vhost_user_inflight_packed_recover(&tracking->packed, part, inflight->queue_size, vq->packed.desc,
                                                   vq->size, &position, tracking->pending, &tracking->resumed,
                                                   reason_out);
    if (count >= 0)
        vblk_packed_set_positions(vq, position.used_index | (position.used_wrap ? PACKED_WRAP : 0),
                                  position.avail_index | (position.avail_wrap ? PACKED_WRAP : 0));
    return count;
}

int vblk_tracking_init(struct vblk_virtqueue *vq, const struct vblk_virtqueue_config *config)
{
    struct tracking *tracking = &vq->tracking;
    const struct vhost_user_inflight *inflight = config->inflight;
    const char *reason = NULL;
    if (!inflight || !inflight->map)
        return 0;
    tracking->pending = calloc(vq->size, sizeof tracking->pending[0]);
    tracking->unseen = calloc(vq->size, sizeof tracking->unseen[0]);
    if (!tracking->pending || !tracking->unseen) {
        vblk_tracking_deinit(vq);
        return -ENOMEM;
    }
    tracking->map = vhost_user_memory_map_ref(inflight->map);
    void *part = vhost_user_inflight_queue(inflight, config->index, vq->is_packed, vq->size, &reason);
    int count = -EINVAL;
    if (part)
        count = vq->is_packed ? recover_packed(vq, inflight, part, &reason)
                              : recover_split(vq, inflight, part, &reason);
    if (count >= 0)
        tracking->pending_count = (unsigned)count;
    else
        tracking->refused = reason; /* breaks the queue at its first pop, which tells the reason like any other */
    if (config->forget_slot_zero)
        forget_slot_zero(tracking);
    return 0;
}

void vblk_tracking_deinit(struct vblk_virtqueue *vq)
{
    free(vq->tracking.pending);
    free(vq->tracking.unseen);
    vhost_user_inflight_packed_deinit(&vq->tracking.packed);
    vhost_user_memory_map_unref(vq->tracking.map);
}

int vblk_tracking_check(const struct vblk_virtqueue *vq, struct chain *chain)
{
    if (vq->tracking.refused)
        chain->reason = vq->tracking.refused;
    else if (vhost_user_memory_map_broken(vq->tracking.map))
        chain->reason = "the in-flight region is gone (its file was truncated)";
    return chain->reason ? -EPROTO : 0;
}

int vblk_tracking_take(struct vblk_virtqueue *vq, struct chain *chain)
{
    const struct tracking *tracking = &vq->tracking;
    uint16_t slot = tracking->pending[tracking->pending_next].slot;
    chain->recovered = true;
    return vq->is_packed ? vblk_packed_retake(vq, chain, slot) : vblk_split_retake(vq, chain, slot);
}

/* Once more from the ring: what a hostile driver has changed since is checked again if it is ever used. */
static void note_packed(struct vblk_virtqueue *vq, struct chain *chain)
{
    struct vhost_user_inflight_packed_queue *packed = &vq->tracking.packed;
    uint16_t at = popped_index(vq);
    chain->slot = vhost_user_inflight_packed_begin(packed);
    for (uint16_t i = 0; i < chain->holder->entry_count; i++) {
        const struct vring_packed_desc *desc = &vq->packed.desc[at & PACKED_INDEX];
        const struct vring_packed_desc copy = { .addr = __atomic_load_n(&desc->addr, __ATOMIC_RELAXED),
                                                .len = __atomic_load_n(&desc->len, __ATOMIC_RELAXED),
                                                .id = __atomic_load_n(&desc->id, __ATOMIC_RELAXED),
                                                .flags = __atomic_load_n(&desc->flags, __ATOMIC_RELAXED) };
        vhost_user_inflight_packed_add(packed, &copy, i + 1 == chain->holder->entry_count);
        at = packed_advance(vq, at, 1);
    }
    vhost_user_inflight_packed_commit(packed);
}

void vblk_tracking_taken(struct vblk_virtqueue *vq, struct chain *chain)
{
    struct tracking *tracking = &vq->tracking;
    if (chain->recovered)
        tracking->pending_next++; /* its mark is there */
    else if (vq->is_packed)
        note_packed(vq, chain);
    else
        vhost_user_inflight_split_take(tracking->split, chain->head, tracking->counter++);
    chain->holder->slot = vq->is_packed ? chain->slot : chain->head;
}

void vblk_tracking_put(struct vblk_virtqueue *vq, const struct vblk_element *element)
{
    const struct holder *holder = (const struct holder *)element;
    struct tracking *tracking = &vq->tracking;
    /* Only a driver that offers what it has not got back gets so far. */
    if (tracking->unseen_count == vq->size)
        vblk_virtqueue_publish(vq);
    if (vq->is_packed) {
        uint16_t used = packed_advance(vq, used_index(vq), holder->entry_count);
        vhost_user_inflight_packed_link(&tracking->packed, holder->slot);
        vhost_user_inflight_packed_advance(&tracking->packed, used & PACKED_INDEX, used & PACKED_WRAP);
    } else {
        vhost_user_inflight_split_link(tracking->split, element->head);
    }
    tracking->unseen[tracking->unseen_count++] = holder->slot;
}

void vblk_tracking_published(struct vblk_virtqueue *vq)
{
    struct tracking *tracking = &vq->tracking;
    if (!tracking->unseen_count)
        return;
    for (unsigned i = 0; i < tracking->unseen_count; i++)
        if (vq->is_packed)
            vhost_user_inflight_packed_clear(&tracking->packed, tracking->unseen[i]);
        else
            vhost_user_inflight_split_clear(tracking->split, tracking->unseen[i]);
    tracking->unseen_count = 0;
    if (vq->is_packed)
        vhost_user_inflight_packed_settle(&tracking->packed);
    else
        vhost_user_inflight_split_settle(tracking->split, used_index(vq));
}
