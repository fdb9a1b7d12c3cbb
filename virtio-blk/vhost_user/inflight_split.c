#include "vhost_user/inflight_split.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vhost_user/inflight.h"

static int refuse(const char **reason_out, const char *reason)
{
    *reason_out = reason;
    return -EINVAL;
}

static int by_counter(const void *left, const void *right)
{
    const struct vhost_user_inflight_pending *a = left, *b = right;
    if (a->counter != b->counter)
        return a->counter < b->counter ? -1 : 1;
    return (int)a->slot - (int)b->slot;
}

void vhost_user_inflight_sort(struct vhost_user_inflight_pending *pending, unsigned count)
{
    qsort(pending, count, sizeof pending[0], by_counter);
}

/* The version comes last: a process that ends before it leaves a region that is new. */
static void make_ready(struct vhost_user_inflight_split *part, uint16_t capacity, uint16_t used_index)
{
    memset(part->desc, 0, capacity * sizeof part->desc[0]);
    part->features = 0;
    part->desc_num = capacity;
    part->last_batch_head = 0;
    part->used_idx = used_index;
    __atomic_store_n(&part->version, VHOST_USER_INFLIGHT_VERSION, __ATOMIC_RELEASE);
}

static unsigned collect(const struct vhost_user_inflight_split *part, uint16_t size,
                        struct vhost_user_inflight_pending *pending)
{
    unsigned count = 0;
    for (uint16_t head = 0; head < size; head++)
        if (__atomic_load_n(&part->desc[head].inflight, __ATOMIC_RELAXED))
            pending[count++] = (struct vhost_user_inflight_pending){
                .counter = __atomic_load_n(&part->desc[head].counter, __ATOMIC_RELAXED), .slot = head
            };
    return count;
}

/* The driver has seen these: their marks are what the last process had no time to remove. */
static int clear_last_batch(struct vhost_user_inflight_split *part, uint16_t size, uint16_t count,
                            const char **reason_out)
{
    uint16_t head = __atomic_load_n(&part->last_batch_head, __ATOMIC_RELAXED);
    for (uint16_t i = 0; i < count; i++) {
        if (head >= size)
            return refuse(reason_out, "the in-flight region's last batch has a head that is out of range");
        uint16_t next = __atomic_load_n(&part->desc[head].next, __ATOMIC_RELAXED);
        vhost_user_inflight_split_clear(part, head);
        head = next;
    }
    return 0;
}

int vhost_user_inflight_split_recover(struct vhost_user_inflight_split *part, uint16_t capacity,
                                      uint16_t size, uint16_t used_index,
                                      struct vhost_user_inflight_pending *pending_out, uint64_t *counter_out,
                                      bool *is_new_out, const char **reason_out)
{
    uint16_t version = __atomic_load_n(&part->version, __ATOMIC_ACQUIRE);
    *is_new_out = version == 0;
    *counter_out = 0;
    if (version == 0) {
        make_ready(part, capacity, used_index);
        return 0;
    }
    if (version != VHOST_USER_INFLIGHT_VERSION || __atomic_load_n(&part->features, __ATOMIC_RELAXED))
        return refuse(reason_out, "the in-flight region has a version or features that are unknown");
    uint16_t desc_num = __atomic_load_n(&part->desc_num, __ATOMIC_RELAXED);
    if (desc_num < size || desc_num > capacity)
        return refuse(reason_out, "the in-flight region is of a ring of another size");

    /* ORDER inflight.split, recover */
    unsigned count = collect(part, size, pending_out);
    uint16_t behind = used_index - __atomic_load_n(&part->used_idx, __ATOMIC_RELAXED);
    if (count && behind > size)
        return refuse(reason_out, "the in-flight region and the used ring are too far apart");
    if (count && behind) {
        int error = clear_last_batch(part, size, behind, reason_out);
        if (error)
            return error;
        count = collect(part, size, pending_out);
    }
    vhost_user_inflight_split_settle(part, used_index);
    vhost_user_inflight_sort(pending_out, count);
    if (count)
        *counter_out = pending_out[count - 1].counter + 1;
    return (int)count;
}
