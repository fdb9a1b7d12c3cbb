/* What fe_queue.c asks of a packed ring, and what both share. Nobody else includes it. */
#ifndef LOAD_FE_QUEUE_PACKED_H
#define LOAD_FE_QUEUE_PACKED_H

#include "fe_queue.h"

/* fe_queue.c: the server did something wrong (-EPROTO); and a request that was in flight is complete. */
int fe_queue_broken(struct fe_queue *queue, const char *what, unsigned value);
void fe_queue_completed(struct fe_queue *queue, struct fe_slot *slot, uint32_t used_bytes);

void fe_packed_init(struct fe_queue *queue);
/* @position counts within the slot's chain; @flags are those of a split descriptor. */
void fe_packed_write_desc(const struct fe_queue *queue, struct fe_slot *slot, unsigned position, const void *byte,
                          uint32_t bytes, uint16_t flags);
void fe_packed_submit(struct fe_queue *queue, struct fe_slot *slot);
/* Show what was submitted since @before, the first position of it; true: the server wants a kick. */
bool fe_packed_publish(struct fe_queue *queue, uint16_t before);
int fe_packed_reap(struct fe_queue *queue, uint16_t *slots, unsigned max);
void fe_packed_suppress(struct fe_queue *queue);
bool fe_packed_arm(struct fe_queue *queue);
uint32_t fe_packed_base(const struct fe_queue *queue);

#endif
