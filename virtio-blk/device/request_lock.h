/**
 * What guards a disk's tracked requests (tracked.h); one policy for the process, chosen at its start.
 *
 *     const struct vblk_request_lock *lock = vblk_request_lock_find("thread");   // NULL: no such policy
 *
 * | name      | lists          | lock                                        | a contended acquisition           |
 * |-----------|----------------|---------------------------------------------|-----------------------------------|
 * | sharded   | one per queue  | a thread mutex each, and one to wait under  | rare: only its own loop takes it  |
 * | thread    | one            | one thread mutex                            | blocks the thread, for very short |
 * | coroutine | one            | one coroutine mutex                         | yields, and comes back by way of  |
 * |           |                |                                             | the loop: the slow original       |
 *
 * The rules for requests and flushes are the same under each, and are written once, in tracked.c. A policy only locks.
 */
#ifndef VBLK_REQUEST_LOCK_H
#define VBLK_REQUEST_LOCK_H

#include <stdbool.h>

struct rt_co_queue;
struct vblk_tracked_disk;
struct vblk_tracked_list;

struct vblk_request_lock {
    const char *name;
    /** A list and its lock for each queue. Otherwise there is one list, and its lock is also the one to wait under. */
    bool list_per_queue;

    void (*init)(struct vblk_tracked_disk *disk);
    void (*deinit)(struct vblk_tracked_disk *disk);

    /** A list, to insert or remove. Coroutine only, as all of these; held briefly, never over a yield. */
    void (*lock_list_co)(struct vblk_tracked_list *list);
    void (*unlock_list)(struct vblk_tracked_list *list);

    /** Waiting for other requests, and the order of flushes. With list_per_queue taken before a list's lock. */
    void (*lock_waits_co)(struct vblk_tracked_disk *disk);
    void (*unlock_waits)(struct vblk_tracked_disk *disk);
    /** Wait in @queue; drops lock_waits meanwhile. Nobody cancels: a drain waits for what is in hand. */
    void (*wait_co)(struct vblk_tracked_disk *disk, struct rt_co_queue *queue);
};

extern const struct vblk_request_lock vblk_request_lock_sharded;
extern const struct vblk_request_lock vblk_request_lock_thread;
extern const struct vblk_request_lock vblk_request_lock_coroutine;

/** Policies by number, the default first; NULL after the last. */
const struct vblk_request_lock *vblk_request_lock_at(unsigned index);
/** By name, or NULL. */
const struct vblk_request_lock *vblk_request_lock_find(const char *name);

#endif
