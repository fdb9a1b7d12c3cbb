/*
 * What a coroutine is made of. Private to runtime/: other rooms see rt/coroutine.h.
 *
 * The control block lies at the top of its own stack, so that a life touches one page and takes no malloc.
 */
#ifndef RUNTIME_COROUTINE_INTERNAL_H
#define RUNTIME_COROUTINE_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop/work_queue.h"
#include "rt/coroutine.h"

struct stack_slab;

/** Why control came back to the one who entered; the first needs no rt_coroutine_settle(). */
enum coroutine_left { COROUTINE_YIELDED = 0, COROUTINE_WOKE_OTHERS, COROUTINE_MOVES, COROUTINE_ENDED };

struct rt_coroutine {
    /* The thread that runs it, or holds it while it is suspended; changes hands as ORDER coroutine.wakeup tells. */
    struct rt_coroutine_head head; /**< the context is valid while it does not run; first: the public half casts */
    struct rt_coroutine *caller;   /**< who entered it; NULL: it does not run */
    rt_coroutine_fn *fn;
    void *opaque;
    uint64_t id; /**< of this life; 0 for a leader */

    /* Any thread. */
    _Atomic(struct rt_loop *) loop; /**< where a wake-up goes: the loop in which it was entered last */
    _Atomic bool wake_pending;      /**< it is in a list of woken coroutines */

    /* Whoever holds it in a list: the loop's list of woken coroutines, or a pool. Never both. */
    struct work_link wake_link;
    struct rt_loop *move_to;         /**< while it is handed over by rt_coroutine_move() */
    struct rt_coroutine *pool_next;  /**< next in its batch */
    struct rt_coroutine *batch_next; /**< first of a batch in the global pool: next batch */
    uint32_t batch_count;            /**< first of a batch in the global pool: its size */
    bool batch_released;             /**< first of a batch: the others' memory is gone; rt_stack_release_memory() */
    int64_t batch_idle_since_ns;     /**< first of a batch in the global pool */

    /* Fixed when the stack is made. */
    uint32_t stack_index; /**< in its slab */
    struct stack_slab *slab;
    void *stack_base; /**< lowest usable byte; for sanitizers and valgrind */
    size_t stack_bytes;
    unsigned valgrind_id;
    void *tsan_fiber;
    void *asan_fake_stack;
    struct rt_coroutine *came_from; /**< ucontext only: who switched here */
};

static inline struct rt_coroutine *coroutine_of_head(struct rt_coroutine_head *head)
{
    return (struct rt_coroutine *)(void *)head;
}

static inline struct rt_coroutine *coroutine_of_wake_link(struct work_link *link)
{
    return (struct rt_coroutine *)(void *)((char *)link - offsetof(struct rt_coroutine, wake_link));
}

#endif
