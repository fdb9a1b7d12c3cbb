/**
 * A ring of records in memory that two processes share: one writes, one reads.
 *
 *     struct ring *ring = ring_create();                          // then fork
 *     void *record = ring_reserve(ring, size);  ring_commit(ring);          // the writer; it waits for room
 *     ring_flush(ring);                                                      // at the end
 *     void *record = ring_peek(ring, alive, data);  ring_consume(ring);     // the reader; it waits for a record
 *
 * Records are 8-byte aligned, contiguous, and begin with their size in bytes as uint32_t. What is read may be changed in place until it is consumed.
 */
#ifndef ANALYSIS_INPUT_RING_H
#define ANALYSIS_INPUT_RING_H

#include <stdbool.h>
#include <stddef.h>

/** The largest record. */
#define RING_RECORD_BYTES_MAX (1u << 20)

struct ring;

/** NULL: no memory, see errno. */
struct ring *ring_create(void);
void ring_destroy(struct ring *ring);

/** Writer: room for a record of @size_bytes, which ring_commit() then hands over. */
void *ring_reserve(struct ring *ring, size_t size_bytes);
void ring_commit(struct ring *ring);

/** Writer: let the reader see all that was committed. Otherwise it sees it in portions. */
void ring_flush(struct ring *ring);

/**
 * Reader: the next record. While there is none, @alive is asked now and then whether the writer may still give one.
 * Returns:   the record, until ring_consume(); NULL: @alive said no and nothing is left.
 */
void *ring_peek(struct ring *ring, bool (*alive)(void *data), void *data);
void ring_consume(struct ring *ring);

#endif
