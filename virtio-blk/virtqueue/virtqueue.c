#include "virtqueue/virtqueue.h"

#include <assert.h>
#include <linux/virtio_config.h>
#include <stdlib.h>

#include "virtqueue/internal.h"

/* ---- life ---- */

int vblk_virtqueue_create(const struct vblk_virtqueue_config *config, struct vhost_user_memory_map *map,
                          struct vblk_virtqueue **vq_out)
{
    uint16_t size = config->size;
    if (!size || size > VBLK_VIRTQUEUE_SIZE_MAX)
        return -EINVAL;
    struct vblk_virtqueue *vq = calloc(1, sizeof *vq + size * sizeof vq->head_is_out[0]);
    if (!vq)
        return -ENOMEM;
    vq->size = size;
    vq->is_packed = config->features & 1ULL << VIRTIO_F_RING_PACKED;
    vq->event_idx = config->features & 1ULL << VIRTIO_RING_F_EVENT_IDX;
    vq->indirect = config->features & 1ULL << VIRTIO_RING_F_INDIRECT_DESC;
    vq->map = map;
    int error = vq->is_packed ? vblk_packed_init(vq, config) : vblk_split_init(vq, config);
    if (!error)
        error = vblk_tracking_init(vq, config);
    if (error) {
        free(vq);
        return error;
    }
    /* The split format's used ring with its event index, or what is said about events in the packed one. */
    vq->used_area_bytes = config->features & 1ULL << VIRTIO_F_RING_PACKED
                              ? sizeof(struct vring_packed_desc_event)
                              : 4 + size * sizeof(struct vring_used_elem) + (vq->event_idx ? sizeof(uint16_t) : 0);
    vq->used_area = vhost_user_memory_map_user(map, config->used_user, vq->used_area_bytes);
    vhost_user_memory_map_ref(map);
    (void)vblk_virtqueue_enable_notifications(vq);
    *vq_out = vq;
    return 0;
}

struct vhost_user_memory_map *vblk_virtqueue_memory(const struct vblk_virtqueue *vq)
{
    return vq->map;
}

void vblk_virtqueue_extend_memory(struct vblk_virtqueue *vq, struct vhost_user_memory_map *map)
{
    struct vhost_user_memory_map *old = vq->map;
    vq->map = vhost_user_memory_map_ref(map);
    vhost_user_memory_map_unref(old);
}

void vblk_virtqueue_destroy(struct vblk_virtqueue *vq)
{
    if (!vq)
        return;
    assert(vq->in_flight == 0);
    vblk_holder_free_all(vq);
    vblk_tracking_deinit(vq);
    vhost_user_memory_map_unref(vq->map);
    free(vq);
}

/* ---- pop and push ---- */

static struct vblk_element *break_queue(struct vblk_virtqueue *vq, int error, const char *reason, int *error_out,
                                        const char **reason_out)
{
    vq->broken = true;
    *error_out = error;
    *reason_out = reason;
    return NULL;
}

/* A chain was taken: from here until it is given back (or discarded) its head, or buffer id, is out. */
static struct vblk_element *taken(struct vblk_virtqueue *vq, struct chain *chain)
{
    struct holder *holder = chain->holder;
    holder->element = (struct vblk_element){
        .head = chain->head,
        .out_count = (uint16_t)chain->out_count,
        .in_count = (uint16_t)(chain->iov_count - chain->out_count),
        .out_bytes = (uint32_t)chain->out_bytes,
        .in_bytes = (uint32_t)chain->in_bytes,
        .out = holder->iov,
        .in = holder->iov + chain->out_count,
        .recovered = chain->recovered,
    };
    if (vq->tracking.map)
        vblk_tracking_taken(vq, chain);
    vq->head_is_out[chain->head] = true;
    vq->in_flight++;
    atomic_store_explicit(&vq->popped, chain->popped_after, memory_order_relaxed);
    return &holder->element;
}

/* A chain is not out any more; the element is gone. */
static void given_back(struct vblk_virtqueue *vq, struct vblk_element *element)
{
    vq->head_is_out[element->head] = false;
    vq->in_flight--;
    vblk_holder_give(vq, (struct holder *)element);
}

struct vblk_element *vblk_virtqueue_pop(struct vblk_virtqueue *vq, int *error_out, const char **reason_out)
{
    struct chain chain = { 0 };
    *error_out = 0;
    if (vq->broken)
        return break_queue(vq, -EPROTO, "the queue was broken before", error_out, reason_out);
    int result = vq->tracking.map ? vblk_tracking_check(vq, &chain) : 0;
    if (!result && tracking_is_pending(vq))
        result = vblk_tracking_take(vq, &chain);
    else if (!result)
        result = vq->is_packed ? vblk_packed_take(vq, &chain) : vblk_split_take(vq, &chain);
    /* What was read from memory that is gone are zeros that look like a ring. */
    if (vhost_user_memory_map_broken(vq->map)) {
        result = -EFAULT;
        chain.reason = "guest memory is gone: the file that the front end gave for it was truncated";
    }
    if (result > 0)
        return taken(vq, &chain);
    if (chain.holder)
        vblk_holder_give(vq, chain.holder);
    if (result == -EPROTO || result == -EFAULT)
        return break_queue(vq, result, chain.reason, error_out, reason_out);
    *error_out = result;
    return NULL;
}

void vblk_virtqueue_publish(struct vblk_virtqueue *vq)
{
    if (vq->is_packed)
        vblk_packed_publish(vq);
    else
        vblk_split_publish(vq);
    if (vq->tracking.map)
        vblk_tracking_published(vq);
}

void vblk_virtqueue_push_unseen(struct vblk_virtqueue *vq, struct vblk_element *element, uint32_t written_bytes)
{
    assert(vq->head_is_out[element->head] && written_bytes <= element->in_bytes);
    if (vq->tracking.map)
        vblk_tracking_put(vq, element);
    if (vq->is_packed)
        vblk_packed_put(vq, element, written_bytes);
    else
        vblk_split_put(vq, element, written_bytes);
    /* Used descriptors that follow one which nobody was shown yet would come to light after a kill, unwanted. */
    if (vq->tracking.map && vq->is_packed)
        vblk_virtqueue_publish(vq);
    given_back(vq, element);
}

void vblk_virtqueue_push(struct vblk_virtqueue *vq, struct vblk_element *element, uint32_t written_bytes)
{
    vblk_virtqueue_push_unseen(vq, element, written_bytes);
    vblk_virtqueue_publish(vq);
}

void vblk_virtqueue_discard(struct vblk_virtqueue *vq, struct vblk_element *element)
{
    assert(vq->head_is_out[element->head]);
    vq->broken = true;
    given_back(vq, element);
}

bool vblk_virtqueue_resumed(const struct vblk_virtqueue *vq, unsigned *recovered_out)
{
    *recovered_out = vq->tracking.pending_count;
    return vq->tracking.resumed;
}

bool vblk_virtqueue_pending(struct vblk_virtqueue *vq)
{
    return !vq->broken && (tracking_is_pending(vq) ||
                           (vq->is_packed ? vblk_packed_pending(vq) : vblk_split_pending(vq)));
}

unsigned vblk_virtqueue_waiting(const struct vblk_virtqueue *vq)
{
    return vq->is_packed ? vblk_packed_waiting(vq) : vblk_split_waiting(vq);
}

/* ---- notification suppression ---- */

bool vblk_virtqueue_should_interrupt(struct vblk_virtqueue *vq)
{
    bool wanted = vq->is_packed ? vblk_packed_should_interrupt(vq) : vblk_split_should_interrupt(vq);
    if (vq->tracking.map)
        vblk_tracking_published(vq);
    return wanted;
}

bool vblk_virtqueue_enable_notifications(struct vblk_virtqueue *vq)
{
    atomic_store_explicit(&vq->notifications, true, memory_order_relaxed);
    bool pending = vq->is_packed ? vblk_packed_enable_notifications(vq) : vblk_split_enable_notifications(vq);
    return pending || tracking_is_pending(vq);
}

void vblk_virtqueue_disable_notifications(struct vblk_virtqueue *vq)
{
    atomic_store_explicit(&vq->notifications, false, memory_order_relaxed);
    /* A kick too many does no harm, so nothing is ordered here. */
    if (vq->is_packed)
        vblk_packed_disable_notifications(vq);
    else
        vblk_split_disable_notifications(vq);
}

bool vblk_virtqueue_notifications_enabled(const struct vblk_virtqueue *vq)
{
    return atomic_load_explicit(&vq->notifications, memory_order_relaxed);
}

/* ---- the dirty log ---- */

void vblk_ring_mark(struct vblk_virtqueue *vq, const void *at, uint64_t size_bytes)
{
    uint64_t offset = (uintptr_t)at - (uintptr_t)vq->used_area;
    if (offset < vq->used_area_bytes)
        vhost_user_dirty_log_mark(vq->log, vq->log_guest + offset, size_bytes);
    else /* a packed ring's descriptors */
        vhost_user_dirty_log_mark_memory(vq->log, vq->map, at, size_bytes);
}

void vblk_virtqueue_set_log(struct vblk_virtqueue *vq, struct vhost_user_dirty_log *log, uint64_t log_guest)
{
    bool is_new = log && (log != vq->log || log_guest != vq->log_guest);
    vq->log = log;
    vq->log_guest = log_guest;
    if (!is_new)
        return;
    /* What was written when the queue was created, and since, unmarked: flags, and the event. */
    vblk_ring_mark(vq, vq->used_area, sizeof(uint32_t));
    vblk_ring_mark(vq, vq->used_area + vq->used_area_bytes - sizeof(uint16_t), sizeof(uint16_t));
}

/* ---- positions ---- */

uint16_t vblk_virtqueue_peek_avail_index(const struct vblk_virtqueue *vq)
{
    return vq->is_packed ? vblk_packed_peek(vq) : vblk_split_peek(vq);
}

uint16_t vblk_virtqueue_popped_index(const struct vblk_virtqueue *vq)
{
    return popped_index(vq);
}

uint16_t vblk_virtqueue_used_index(const struct vblk_virtqueue *vq)
{
    return used_index(vq);
}

uint32_t vblk_virtqueue_base(const struct vblk_virtqueue *vq)
{
    return popped_index(vq) | (vq->is_packed ? (uint32_t)used_index(vq) << 16 : 0);
}
