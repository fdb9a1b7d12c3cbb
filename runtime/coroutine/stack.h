/*
 * Stacks and where they come from. Private to runtime/.
 *
 * A slab is one mapping that holds a batch of stacks, each with a guard page below it. The control block of the
 * coroutine lies at the top of its stack. A slab goes back to the kernel when all its stacks are free.
 */
#ifndef RUNTIME_COROUTINE_STACK_H
#define RUNTIME_COROUTINE_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_coroutine;

/**
 * Make a coroutine on a new stack.
 *
 * Returns:   the coroutine, with everything but its life set; NULL when nothing could be mapped.
 * Thread:    any; takes the slabs' lock.
 * Trace:     rt_process:vma_exhausted when it fails.
 */
struct rt_coroutine *rt_stack_create(void);

/** Free a chain (pool_next) of coroutines that run nowhere. Their pages go back to the kernel. Thread: any. */
void rt_stack_destroy_chain(struct rt_coroutine *first);

struct rt_stack_place {
    char *base; /**< lowest usable byte */
    size_t bytes;
    struct rt_coroutine *co; /**< on it; all zeros if nobody has used the stack yet */
};

/** Whether @address lies in the guard page of one of our stacks, and whose that is. Async-signal-safe. */
bool rt_stack_find_guard(const void *address, struct rt_stack_place *place_out);

/** Stacks that exist, and the mappings that hold them. Thread: any; never waits. */
void rt_stack_counts(uint32_t *stack_count_out, uint32_t *stack_vma_count_out);

/** Page size plus stack size: what a stack takes from the address space. */
size_t rt_stack_stride(void);

#endif
