/*
 * A pair of fences for protocols in which one side runs often and the other hardly ever.
 *
 * Two threads that each store a flag and then load the other's flag need a full fence on both sides, or both
 * may load the old value. membarrier(2) lets the rare side pay for both: it makes every running thread of
 * this process pass a full fence, so that the frequent side only keeps the compiler from reordering. Where
 * the kernel has no membarrier both sides pay.
 *
 *     frequent side                    rare side
 *     store A, fence_light(), load B   store B, fence_heavy(), load A
 *
 * It orders, it does not publish: data that is handed over still needs release and acquire.
 *
 * Source:    membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED.
 */
#ifndef RUNTIME_ASYMMETRIC_FENCE_H
#define RUNTIME_ASYMMETRIC_FENCE_H

#include <stdatomic.h>
#include <stdbool.h>

/** Whether the kernel lets the rare side pay. Fixed by fence_prepare(), read-only afterwards. */
extern bool fence_asymmetric;

/**
 * Ask the kernel. Thread: any, before the first fence; every loop's creation calls it.
 *
 * A seccomp filter that is installed later must allow membarrier(2).
 */
void fence_prepare(void);

/** Thread: any. A system call, microseconds. */
void fence_heavy(void);

/* A lone fence is what TSan cannot model; it need not: what must happen before what is told by release and
 * acquire. */
static inline void fence_full(void)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option" /* clang has none of that name */
#pragma GCC diagnostic ignored "-Wtsan"
    atomic_thread_fence(memory_order_seq_cst);
#pragma GCC diagnostic pop
}

static inline void fence_light(void)
{
    if (fence_asymmetric)
        atomic_signal_fence(memory_order_seq_cst);
    else
        fence_full();
}

#endif
