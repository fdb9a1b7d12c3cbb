/**
 * What guards a disk's tracked requests (tracked.h); one policy for the process, chosen at its start.
 *
 *     const struct vblk_request_lock *policy = vblk_request_lock_find("thread");   // NULL: no such policy
 *
 * | name      | lists          | lock                                        | a contended acquisition           |
 * |-----------|----------------|---------------------------------------------|-----------------------------------|
 * | sharded   | one per queue  | a thread mutex each, and one to wait under  | rare: only its own loop takes it  |
 * | thread    | one            | one thread mutex                            | blocks the thread, for very short |
 * | coroutine | one            | one coroutine mutex                         | yields, and comes back by way of  |
 * |           |                |                                             | the loop: the slow original       |
 *
 * The rules for requests and flushes are the same under each, and are written once, in tracked.c. A policy only says how
 * many locks there are and of which kind.
 */
#ifndef VBLK_REQUEST_LOCK_H
#define VBLK_REQUEST_LOCK_H

#include <stdbool.h>

#include "rt/lock.h"

union vblk_lock {
    struct rt_mutex thread;
    struct rt_co_mutex coroutine;
};

/** The two kinds of lock behind one face. What is held here is held briefly, and never over a yield. */
struct vblk_lock_kind {
    void (*init)(union vblk_lock *lock, const char *class_name);
    void (*deinit)(union vblk_lock *lock);
    void (*lock_co)(union vblk_lock *lock); /**< coroutine only; a coroutine mutex may yield until it has it */
    void (*unlock)(union vblk_lock *lock);
    /** Wait in @queue, without the lock meanwhile. Nobody cancels: a drain waits for what is in hand. */
    void (*wait_co)(union vblk_lock *lock, struct rt_co_queue *queue);
};

struct vblk_request_lock {
    const char *name;
    const struct vblk_lock_kind *kind;
    /** A list and its lock for each queue, and one more lock to wait under, which is taken before a list's. Otherwise there is
     * one list, and its lock is also the one to wait under. */
    bool list_per_queue;
};

/** Policies by number, the default first; NULL after the last. */
const struct vblk_request_lock *vblk_request_lock_at(unsigned index);
/** By name, or NULL. */
const struct vblk_request_lock *vblk_request_lock_find(const char *name);

#endif
