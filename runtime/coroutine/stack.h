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

/**
 * Give back the memory of a chain of at most a batch, without a change of mappings or guards. Only the first coroutine stays
 * as it is and remembers the others: until rt_stack_restore() it is a chain of one, batch_released.
 *
 * Thread:    any that owns the chain; a system call for each run of stacks that lie side by side.
 */
void rt_stack_release_memory(struct rt_coroutine *first);

/**
 * Make up to @most of a released chain again, @first as the last of all: it is batch_released as long as others are missing.
 *
 * Returns:   those that were made, as a chain.
 * Thread:    any that owns the chain; a system call for each.
 */
struct rt_coroutine *rt_stack_restore(struct rt_coroutine *first, uint32_t most);

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
