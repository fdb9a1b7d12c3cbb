/**
 * The device's side of a virtqueue, split or packed. The driver is hostile: every field of the ring is read once into a copy,
 * checked on the copy, and used from the copy.
 *
 *     while ((element = vblk_virtqueue_pop(vq, &error, &reason)) != NULL) {
 *         ...
 *         vblk_virtqueue_push(vq, element, written_bytes);
 *     }
 *     if (vblk_virtqueue_should_interrupt(vq)) eventfd_write(call_fd, 1);
 *
 * Thread:    one at a time: the queue's loop. The functions that take a const queue also from the sampler, while
 *            the queue exists.
 * Source:    VIRTIO 1.2, 2.7 (split virtqueues), 2.8 (packed virtqueues); vhost-user specification, "Vring state
 *            description" (base).
 */
#ifndef VBLK_VIRTQUEUE_H
#define VBLK_VIRTQUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "vhost_user/dirty_log.h"
#include "vhost_user/inflight.h"
#include "vhost_user/memory_map.h"

#define VBLK_VIRTQUEUE_SIZE_MAX 1024
/**
 * Descriptors of an indirect table. The specification allows no chain longer than the queue, but Linux builds
 * tables of seg_max + 2 descriptors whatever the queue's size is, so the queue's size is no reason to refuse
 * one.
 */
#define VBLK_VIRTQUEUE_CHAIN_MAX 1024
/** Pieces of one chain after translation: descriptors that cross memory regions take several. */
#define VBLK_VIRTQUEUE_IOV_MAX 2048
/** Pieces of all long chains of a queue that are in flight (4 MiB of memory). */
#define VBLK_VIRTQUEUE_IOV_BUDGET (256 * 1024)

struct vblk_virtqueue;

/** One descriptor chain. out: readable by the device, in: writable. The driver may split both anywhere. */
struct vblk_element {
    uint16_t head; /**< of a packed ring: the buffer id */
    uint16_t out_count, in_count; /**< iovec entries */
    uint32_t out_bytes, in_bytes;
    struct iovec *out, *in;    /**< valid until push */
    bool recovered;            /**< it was in flight when an earlier process ended */
    struct vblk_element *next; /**< for the caller while it holds the element */
};

/** Where a packed ring begins that nobody has used: both positions 0, both wrap counters 1. */
#define VBLK_VIRTQUEUE_BASE_PACKED UINT32_C(0x80008000)

struct vblk_virtqueue_config {
    uint16_t size;     /**< 1..VBLK_VIRTQUEUE_SIZE_MAX; split: a power of two */
    /** Split: the next available index. Packed: the next available position in bits 0 to 14 and its wrap counter in
     *  15, the next used one in bits 16 to 30 and its wrap counter in 31. */
    uint32_t base;
    uint64_t features; /**< negotiated; VIRTIO_F_RING_PACKED chooses the format */
    uint64_t desc_user, avail_user, used_user; /**< packed: ring, driver's and device's event suppression */
    /**
     * Where requests in flight are noted, and how many queues come before this one there; NULL or without map: nowhere. A
     * region that was in use tells what is popped first and where the ring goes on, whatever base says; one that cannot
     * be believed breaks the queue at its first pop.
     */
    const struct vhost_user_inflight *inflight;
    uint16_t index;
    bool forget_slot_zero; /**< --fault=inflight-slot-zero */
};

/**
 * The memory that it reads and writes; and more of it from now on: @map holds every region of the map before at the same
 * address, so that elements which were popped stay valid.
 *
 * Ownership: takes a reference of @map, and gives back that of the one before.
 */
struct vhost_user_memory_map *vblk_virtqueue_memory(const struct vblk_virtqueue *vq);
void vblk_virtqueue_extend_memory(struct vblk_virtqueue *vq, struct vhost_user_memory_map *map);

/**
 * Returns:   0, -EINVAL (size, alignment, base), -EFAULT (ring outside memory), -ENOMEM.
 *            Notifications are on.
 * Ownership: takes a reference of the map, and of the region's. The used index of a split ring is read from it once, as it stands.
 */
int vblk_virtqueue_create(const struct vblk_virtqueue_config *config, struct vhost_user_memory_map *map,
                          struct vblk_virtqueue **vq_out);
void vblk_virtqueue_destroy(struct vblk_virtqueue *vq); /**< no element may be out; NULL is fine */

/**
 * Whether another process may have served this ring before: the driver may not have been told of what that gave back.
 * recovered_out: how many requests of it are to be popped again.
 */
bool vblk_virtqueue_resumed(const struct vblk_virtqueue *vq, unsigned *recovered_out);

/** The driver's index moved and there is something to pop. Memory only. */
bool vblk_virtqueue_pending(struct vblk_virtqueue *vq);
/** About how many more can be popped: what the last pop saw, or some; for those who choose when to publish. */
unsigned vblk_virtqueue_waiting(const struct vblk_virtqueue *vq);

/**
 * Next chain, or NULL: nothing there (error_out 0), or an error.
 *
 * Errors:    -EPROTO  the driver broke the protocol; reason_out (a constant) says how; later pops fail too: a head,
 *                     buffer id, next or indirect index out of range, a head or id that is in use, an index jump, a
 *                     loop, a chain that runs into what is not available, more descriptors than the ring has, an
 *                     address outside memory, length 0, 4 GiB or more in all, an indirect table nested, of odd length,
 *                     with NEXT or not negotiated, a chain too long, readable after writable.
 *            -EFAULT  the front end truncated a file of guest memory; reason_out and later pops as above.
 *            -ENOMEM  memory or VBLK_VIRTQUEUE_IOV_BUDGET is used up; the chain stays in the ring: pop again
 *                     after the next push (with nothing in flight the budget does not count).
 * Memory is never trusted twice. No allocation in the usual case.
 * With notifications on, NULL without error also means that the driver will kick for what it adds next.
 * What the in-flight region had comes first, oldest first. A chain is noted there before it is returned.
 */
struct vblk_element *vblk_virtqueue_pop(struct vblk_virtqueue *vq, int *error_out, const char **reason_out);

/**
 * Give the chain back as used with @written_bytes (at most in_bytes; assert); visible to the driver at once.
 * The element is gone. Chains may be pushed in any order.
 */
void vblk_virtqueue_push(struct vblk_virtqueue *vq, struct vblk_element *element, uint32_t written_bytes);

/**
 * The same for one of a batch: the driver sees it at the next vblk_virtqueue_publish(), push or should_interrupt(), one of
 * which must follow soon. Each time that a driver which polls is shown something, a cache line goes back and forth.
 */
void vblk_virtqueue_push_unseen(struct vblk_virtqueue *vq, struct vblk_element *element, uint32_t written_bytes);
void vblk_virtqueue_publish(struct vblk_virtqueue *vq);

/**
 * The chain was well-formed, but cannot be what its device defines (no room for a header): it is dropped without
 * being given back, and the queue is broken as after -EPROTO. The element is gone.
 */
void vblk_virtqueue_discard(struct vblk_virtqueue *vq, struct vblk_element *element);

/**
 * After one or several pushes: whether the driver wants an interrupt for them (EVENT_IDX or flags; full fence
 * inside). The first answer does not need a push: what the driver saw before the queue existed is unknown.
 */
bool vblk_virtqueue_should_interrupt(struct vblk_virtqueue *vq);

/**
 * Ask the driver to kick or not. Turning on returns whether requests came in between (look again).
 * On a split ring with EVENT_IDX "off" is best effort, as the specification has it.
 */
bool vblk_virtqueue_enable_notifications(struct vblk_virtqueue *vq);
void vblk_virtqueue_disable_notifications(struct vblk_virtqueue *vq);
bool vblk_virtqueue_notifications_enabled(const struct vblk_virtqueue *vq);

/**
 * From now on mark what is written to the ring's memory in @log; NULL: mark nothing. @log_guest stands for the guest
 * address of the used ring (packed: of the device's event suppression), as SET_VRING_ADDR has it; descriptors are
 * marked where they are.
 *
 * Ownership: the log stays the caller's, and must live until another one is set.
 */
void vblk_virtqueue_set_log(struct vblk_virtqueue *vq, struct vhost_user_dirty_log *log, uint64_t log_guest);

/** For SET_VRING_BASE, as config.base: what a queue that goes on here must be given. */
uint32_t vblk_virtqueue_base(const struct vblk_virtqueue *vq);

/**
 * For samples. Split: indices; avail is read from the ring, unchecked. Packed: positions with their wrap counters in
 * bit 15; a next available descriptor shows as the popped one plus 1.
 */
uint16_t vblk_virtqueue_peek_avail_index(const struct vblk_virtqueue *vq);
uint16_t vblk_virtqueue_popped_index(const struct vblk_virtqueue *vq);
uint16_t vblk_virtqueue_used_index(const struct vblk_virtqueue *vq);

#endif
