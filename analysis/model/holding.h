/**
 * Who holds which lock and who waits for which: by thread and coroutine, since a mutex that a coroutine took belongs to it
 * also while it is suspended and its thread runs others.
 *
 * Readers of a reader/writer lock hold it together. Of those the latest is known, until any of them releases it: a reader that
 * is named does hold it, but not all who do are named.
 *
 * Holders are known only if the set lock was recorded (released), or from the owner that a wait or a baseline names.
 * Memory: an entry for each lock that is held and each acquisition that waits.
 */
#ifndef ANALYSIS_MODEL_HOLDING_H
#define ANALYSIS_MODEL_HOLDING_H

#include "model/process.h"

struct hold {
    uint64_t lock_id;
    int64_t tid;           /**< where it was acquired */
    uint64_t coroutine_id; /**< 0: outside of coroutines */
    int64_t since_ns;
    bool announced; /**< by a baseline: held since before */
    bool told;      /**< held_at_yield told of the yield that comes next */
};

/** The hold of the lock; NULL: not held, or not known. */
struct hold *process_hold(const struct process *process, uint64_t lock_id);

/** The acquisition that waits in this coroutine (or, if 0, in this thread) for any lock; NULL: none. */
const struct lock_wait *process_waiting(const struct process *process, int64_t tid, uint64_t coroutine_id);

/** Applies events of rt_lock, and what coroutines do with locks in hand; resolves what->waited. */
void holding_update(struct process *process, struct occurrence *what);

#endif
