#include "vhost_user/inflight_packed.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vhost_user/inflight.h"

#define LOAD(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
/* ORDER inflight.packed: each store after all before it */
#define STORE(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELEASE)

static int refuse(const char **reason_out, const char *reason)
{
    *reason_out = reason;
    return -EINVAL;
}

/* ---- recovery ---- */

/* The version comes last: a process that ends before it leaves a region that is new. */
static void make_ready(struct vhost_user_inflight_packed *part, uint16_t desc_num,
                       const struct vhost_user_inflight_position *position)
{
    memset(part, 0, sizeof *part + desc_num * sizeof part->desc[0]);
    part->desc_num = desc_num;
    for (uint16_t i = 0; i < desc_num; i++)
        part->desc[i].next = i + 1;
    part->used_idx = part->old_used_idx = position->used_index;
    part->used_wrap_counter = part->old_used_wrap_counter = position->used_wrap;
    STORE(part->version, VHOST_USER_INFLIGHT_VERSION);
}

/* Whether the driver has been told of what lies at this position: then the descriptor is no longer as it was offered. */
static bool is_used(const struct vring_packed_desc *ring, uint16_t index, bool wrap)
{
    const uint16_t both = 1 << VRING_PACKED_DESC_F_AVAIL | 1 << VRING_PACKED_DESC_F_USED;
    uint16_t flags = le16toh(__atomic_load_n(&ring[index].flags, __ATOMIC_ACQUIRE)) & both;
    return flags != (wrap ? 1 << VRING_PACKED_DESC_F_AVAIL : 1 << VRING_PACKED_DESC_F_USED);
}

/* What was begun is finished or undone; afterwards there is one position and one free list. */
static int settle_last_batch(struct vhost_user_inflight_packed *part, const struct vring_packed_desc *ring,
                             uint16_t size, const char **reason_out)
{
    uint16_t index = LOAD(part->used_idx), old_index = LOAD(part->old_used_idx);
    uint8_t wrap = LOAD(part->used_wrap_counter), old_wrap = LOAD(part->old_used_wrap_counter);
    if (index >= size || old_index >= size || wrap > 1 || old_wrap > 1)
        return refuse(reason_out, "the in-flight region's used index is out of range");
    /* ORDER inflight.packed, recover */
    if ((index != old_index || wrap != old_wrap) && is_used(ring, old_index, old_wrap)) {
        STORE(part->old_free_head, LOAD(part->free_head));
        STORE(part->old_used_idx, index);
        STORE(part->old_used_wrap_counter, wrap);
    } else {
        STORE(part->free_head, LOAD(part->old_free_head));
        STORE(part->used_idx, old_index);
        STORE(part->used_wrap_counter, old_wrap);
    }
    return 0;
}

/* Which entries nobody owns yet, while lists are read that the front end may have knotted. */
struct census {
    bool *owned;
    uint16_t desc_num, owned_count;
};

static bool own(struct census *census, uint16_t index)
{
    if (index >= census->desc_num || census->owned[index])
        return false;
    census->owned[index] = true;
    census->owned_count++;
    return true;
}

/* Free entries are not in flight, whatever they say. */
static int read_free_list(struct vhost_user_inflight_packed_queue *queue, struct census *census,
                          const char **reason_out)
{
    uint16_t *link = &queue->free_head;
    *link = LOAD(queue->part->free_head);
    while (*link != queue->desc_num) {
        uint16_t index = *link;
        if (!own(census, index))
            return refuse(reason_out, "the in-flight region's free list is broken");
        STORE(queue->part->desc[index].inflight, 0);
        link = &queue->next[index];
        *link = LOAD(queue->part->desc[index].next);
    }
    queue->old_free_head = queue->free_head;
    return 0;
}

/* All other entries belong to chains that are in flight, of a ring of @size. Returns their descriptors. */
static int read_chains(struct vhost_user_inflight_packed_queue *queue, uint16_t size, struct census *census,
                       struct vhost_user_inflight_pending *pending, unsigned *count_out, const char **reason_out)
{
    unsigned total = 0;
    for (uint16_t slot = 0; slot < queue->desc_num; slot++) {
        const struct vhost_user_inflight_packed_entry *first = &queue->part->desc[slot];
        if (!LOAD(first->inflight))
            continue;
        uint16_t num = LOAD(first->num), index = slot;
        if (total + num > size) /* of which the region may have more */
            return refuse(reason_out, "the in-flight region has more descriptors in flight than the ring");
        for (uint16_t i = 0; i < num; i++) {
            if (!own(census, index))
                return refuse(reason_out, "a chain of the in-flight region is broken");
            queue->last[slot] = index;
            queue->next[index] = LOAD(queue->part->desc[index].next);
            index = queue->next[index];
        }
        if (!num || queue->last[slot] != LOAD(first->last))
            return refuse(reason_out, "a chain of the in-flight region is broken");
        total += num;
        pending[(*count_out)++] =
            (struct vhost_user_inflight_pending){ .counter = LOAD(first->counter), .slot = slot };
    }
    return (int)total;
}

static int read_region(struct vhost_user_inflight_packed_queue *queue, uint16_t size,
                       struct vhost_user_inflight_position *position,
                       struct vhost_user_inflight_pending *pending, const char **reason_out)
{
    struct census census = { .owned = calloc(queue->desc_num, sizeof(bool)), .desc_num = queue->desc_num };
    unsigned count = 0;
    if (!census.owned)
        return -ENOMEM;
    int total = read_free_list(queue, &census, reason_out);
    if (total == 0)
        total = read_chains(queue, size, &census, pending, &count, reason_out);
    free(census.owned);
    if (total < 0)
        return total;
    /* With an entry that is neither free nor in flight there would be too few for a full ring. */
    if (census.owned_count != queue->desc_num)
        return refuse(reason_out, "the in-flight region's entries are not all free or in flight");
    vhost_user_inflight_sort(pending, count);
    queue->counter = count ? pending[count - 1].counter + 1 : 0;
    queue->used_index = LOAD(queue->part->used_idx);
    queue->used_wrap = LOAD(queue->part->used_wrap_counter);
    if (queue->used_index >= size)
        return refuse(reason_out, "the in-flight region's used index is out of range");
    unsigned avail = queue->used_index + (unsigned)total;
    bool wraps = avail >= size;
    *position = (struct vhost_user_inflight_position){ .used_index = queue->used_index,
                                                       .used_wrap = queue->used_wrap,
                                                       .avail_index = (uint16_t)(wraps ? avail - size : avail),
                                                       .avail_wrap = queue->used_wrap != wraps };
    return (int)count;
}

int vhost_user_inflight_packed_recover(struct vhost_user_inflight_packed_queue *queue,
                                       struct vhost_user_inflight_packed *part, uint16_t capacity,
                                       const struct vring_packed_desc *ring, uint16_t size,
                                       struct vhost_user_inflight_position *position_inout,
                                       struct vhost_user_inflight_pending *pending_out, bool *is_old_out,
                                       const char **reason_out)
{
    *queue = (struct vhost_user_inflight_packed_queue){ 0 };
    *reason_out = "there is no memory for the in-flight region";
    uint16_t version = __atomic_load_n(&part->version, __ATOMIC_ACQUIRE);
    *is_old_out = version != 0;
    if (version == 0)
        make_ready(part, capacity, position_inout);
    else if (version != VHOST_USER_INFLIGHT_VERSION || LOAD(part->features))
        return refuse(reason_out, "the in-flight region has a version or features that are unknown");
    uint16_t desc_num = LOAD(part->desc_num);
    if (desc_num < size || desc_num > capacity)
        return refuse(reason_out, "the in-flight region is of a ring of another size");
    int error = settle_last_batch(part, ring, size, reason_out);
    if (error)
        return error;
    queue->part = part;
    queue->desc_num = desc_num;
    queue->next = calloc(desc_num, sizeof queue->next[0]);
    queue->last = calloc(desc_num, sizeof queue->last[0]);
    if (!queue->next || !queue->last)
        return -ENOMEM;
    struct vhost_user_inflight_position position;
    int count = read_region(queue, size, &position, pending_out, reason_out);
    if (count >= 0 && version)
        *position_inout = position;
    return count;
}

void vhost_user_inflight_packed_deinit(struct vhost_user_inflight_packed_queue *queue)
{
    free(queue->next);
    free(queue->last);
    *queue = (struct vhost_user_inflight_packed_queue){ 0 };
}

uint16_t vhost_user_inflight_packed_count(const struct vhost_user_inflight_packed_queue *queue, uint16_t slot)
{
    uint16_t count = 1;
    for (uint16_t index = slot; index != queue->last[slot]; index = queue->next[index])
        count++;
    return count;
}

void vhost_user_inflight_packed_read(const struct vhost_user_inflight_packed_queue *queue, uint16_t slot,
                                     uint16_t number, struct vring_packed_desc *descriptor_out)
{
    uint16_t index = slot;
    while (number--)
        index = queue->next[index];
    const struct vhost_user_inflight_packed_entry *entry = &queue->part->desc[index];
    *descriptor_out = (struct vring_packed_desc){ .addr = htole64(LOAD(entry->addr)),
                                                  .len = htole32(LOAD(entry->len)),
                                                  .id = htole16(LOAD(entry->id)),
                                                  .flags = htole16(LOAD(entry->flags)) };
}

/* ---- take; ORDER inflight.packed ---- */

uint16_t vhost_user_inflight_packed_begin(struct vhost_user_inflight_packed_queue *queue)
{
    uint16_t slot = queue->old_free_head;
    struct vhost_user_inflight_packed_entry *first = &queue->part->desc[slot];
    STORE(first->num, 0);
    STORE(first->counter, queue->counter);
    queue->counter++;
    STORE(first->inflight, 1);
    return slot;
}

void vhost_user_inflight_packed_add(struct vhost_user_inflight_packed_queue *queue,
                                    const struct vring_packed_desc *descriptor, bool is_last)
{
    uint16_t slot = queue->old_free_head, index = queue->free_head;
    struct vhost_user_inflight_packed_entry *first = &queue->part->desc[slot],
                                            *entry = &queue->part->desc[index];
    if (is_last) {
        STORE(first->last, index);
        queue->last[slot] = index;
    }
    STORE(first->num, (uint16_t)(LOAD(first->num) + 1));
    STORE(entry->addr, le64toh(descriptor->addr));
    STORE(entry->len, le32toh(descriptor->len));
    STORE(entry->flags, le16toh(descriptor->flags));
    STORE(entry->id, le16toh(descriptor->id));
    queue->free_head = queue->next[index];
    STORE(queue->part->free_head, queue->free_head);
}

void vhost_user_inflight_packed_commit(struct vhost_user_inflight_packed_queue *queue)
{
    queue->old_free_head = queue->free_head;
    STORE(queue->part->old_free_head, queue->old_free_head);
}

/* ---- give; ORDER inflight.packed ---- */

void vhost_user_inflight_packed_link(struct vhost_user_inflight_packed_queue *queue, uint16_t slot)
{
    uint16_t last = queue->last[slot];
    queue->next[last] = queue->free_head;
    STORE(queue->part->desc[last].next, queue->free_head);
    queue->free_head = slot;
    STORE(queue->part->free_head, slot);
}

void vhost_user_inflight_packed_advance(struct vhost_user_inflight_packed_queue *queue, uint16_t used_index,
                                        bool used_wrap)
{
    queue->used_index = used_index;
    queue->used_wrap = used_wrap;
    STORE(queue->part->used_idx, used_index);
    STORE(queue->part->used_wrap_counter, used_wrap);
}

void vhost_user_inflight_packed_clear(struct vhost_user_inflight_packed_queue *queue, uint16_t slot)
{
    STORE(queue->part->desc[slot].inflight, 0);
}

void vhost_user_inflight_packed_settle(struct vhost_user_inflight_packed_queue *queue)
{
    queue->old_free_head = queue->free_head;
    STORE(queue->part->old_free_head, queue->free_head);
    STORE(queue->part->old_used_idx, queue->used_index);
    STORE(queue->part->old_used_wrap_counter, queue->used_wrap);
}
