/* Memory for elements, within a bound, and the rules that descriptors of a chain must keep in any format. */
#include <stdlib.h>
#include <string.h>

#include "virtqueue/internal.h"

#define IOV_KEPT_MAX 256

/* ---- memory for elements ---- */

struct holder *vblk_holder_take(struct vblk_virtqueue *vq)
{
    struct holder *holder = vq->free;
    if (holder) {
        vq->free = holder->next_free;
        if (holder->iov != holder->iov_inline)
            vq->iov_in_flight += holder->iov_max;
        return holder;
    }
    holder = malloc(sizeof *holder);
    if (holder) {
        holder->iov = holder->iov_inline;
        holder->iov_max = VBLK_IOV_INLINE;
    }
    return holder;
}

void vblk_holder_give(struct vblk_virtqueue *vq, struct holder *holder)
{
    if (holder->iov != holder->iov_inline) {
        vq->iov_in_flight -= holder->iov_max;
        if (holder->iov_max > IOV_KEPT_MAX) {
            free(holder->iov);
            holder->iov = holder->iov_inline;
            holder->iov_max = VBLK_IOV_INLINE;
        }
    }
    holder->next_free = vq->free;
    vq->free = holder;
}

void vblk_holder_free_all(struct vblk_virtqueue *vq)
{
    while (vq->free) {
        struct holder *holder = vq->free;
        vq->free = holder->next_free;
        if (holder->iov != holder->iov_inline)
            free(holder->iov);
        free(holder);
    }
}

/* More room for buffers. The sum over a queue has a bound, so that a guest cannot make the process eat the
 * host. */
static int grow(struct vblk_virtqueue *vq, struct chain *chain)
{
    struct holder *holder = chain->holder;
    if (holder->iov_max == VBLK_VIRTQUEUE_IOV_MAX) {
        chain->reason = "a descriptor chain has too many pieces";
        return -EPROTO;
    }
    bool was_inline = holder->iov == holder->iov_inline;
    unsigned larger =
        holder->iov_max * 4 < VBLK_VIRTQUEUE_IOV_MAX ? holder->iov_max * 4 : VBLK_VIRTQUEUE_IOV_MAX;
    unsigned added = larger - (was_inline ? 0 : holder->iov_max);
    if (vq->in_flight && vq->iov_in_flight + added > VBLK_VIRTQUEUE_IOV_BUDGET)
        return -ENOMEM;
    struct iovec *iov = realloc(was_inline ? NULL : holder->iov, larger * sizeof *iov);
    if (!iov)
        return -ENOMEM;
    if (was_inline)
        memcpy(iov, holder->iov_inline, chain->iov_count * sizeof *iov);
    holder->iov = iov;
    holder->iov_max = larger;
    vq->iov_in_flight += added;
    return 0;
}

/* ---- reading a chain ---- */

int vblk_chain_add_buffer(struct vblk_virtqueue *vq, struct chain *chain, const struct descriptor *descriptor)
{
    bool writable = descriptor->flags & VRING_DESC_F_WRITE;
    if (!descriptor->size_bytes) {
        chain->reason = "a descriptor has length 0";
        return -EPROTO;
    }
    if (!writable && chain->in_bytes) {
        chain->reason = "a readable descriptor follows a writable one";
        return -EPROTO;
    }
    int count;
    for (;;) {
        struct holder *holder = chain->holder;
        count = vhost_user_memory_map_translate_near(vq->map, &vq->region_hint, descriptor->address,
                                                     descriptor->size_bytes, holder->iov + chain->iov_count,
                                                     (int)(holder->iov_max - chain->iov_count));
        if (count != -E2BIG)
            break;
        int error = grow(vq, chain);
        if (error)
            return error;
    }
    if (count < 0) {
        chain->reason = "a descriptor lies outside guest memory";
        return -EPROTO;
    }
    chain->iov_count += (unsigned)count;
    if (writable) {
        chain->in_bytes += descriptor->size_bytes;
    } else {
        chain->out_bytes += descriptor->size_bytes;
        chain->out_count = chain->iov_count;
    }
    if (chain->in_bytes > UINT32_MAX || chain->out_bytes > UINT32_MAX) {
        chain->reason = "a descriptor chain is 4 GiB or longer";
        return -EPROTO;
    }
    return 0;
}

int vblk_table_find(struct vblk_virtqueue *vq, struct chain *chain, const struct descriptor *descriptor,
                    struct table *table_out)
{
    if (!vq->indirect || descriptor->flags & VRING_DESC_F_NEXT) {
        chain->reason = vq->indirect ? "an indirect descriptor has a next one"
                                     : "an indirect descriptor, which was not negotiated";
        return -EPROTO;
    }
    if (!descriptor->size_bytes || descriptor->size_bytes % sizeof(struct vring_desc)) {
        chain->reason = "an indirect table's length is no multiple of 16, or 0";
        return -EPROTO;
    }
    /* All of it must be there, also what the chain does not use. */
    struct iovec whole[16];
    int pieces = vhost_user_memory_map_translate_near(vq->map, &vq->region_hint, descriptor->address,
                                                      descriptor->size_bytes, whole, 16);
    if (pieces < 0 && pieces != -E2BIG) {
        chain->reason = "an indirect table lies outside guest memory";
        return -EPROTO;
    }
    bool plain = pieces == 1 && (uintptr_t)whole[0].iov_base % sizeof(uint64_t) == 0;
    *table_out = (struct table){ .address = descriptor->address,
                                 .count = descriptor->size_bytes / sizeof(struct vring_desc),
                                 .plain = plain ? whole[0].iov_base : NULL };
    return 0;
}

/* Byte by byte. */
int vblk_table_gather(struct vblk_virtqueue *vq, struct chain *chain, uint64_t address,
                      struct descriptor *descriptor_out)
{
    struct iovec pieces[sizeof(struct vring_desc)];
    uint64_t words[2];
    uint8_t *to = (uint8_t *)words;
    int count = vhost_user_memory_map_translate_near(vq->map, &vq->region_hint, address, sizeof words, pieces,
                                                     sizeof words);
    if (count < 0) {
        chain->reason = "an indirect table lies outside guest memory";
        return -EPROTO;
    }
    for (int i = 0; i < count; i++)
        for (size_t j = 0; j < pieces[i].iov_len; j++)
            *to++ = __atomic_load_n((const uint8_t *)pieces[i].iov_base + j, __ATOMIC_RELAXED);
    *descriptor_out = descriptor_unpack(words[0], words[1]);
    return 0;
}
