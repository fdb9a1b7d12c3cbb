/*
 * Guard pages: what the kernel can do and what it costs. Private to runtime/coroutine/.
 */
#ifndef RUNTIME_COROUTINE_GUARD_H
#define RUNTIME_COROUTINE_GUARD_H

#include <stddef.h>
#include <stdint.h>

#include "rt/pool.h"

/** Make the page at @page inaccessible. Returns 0 or -errno. @guard is not AUTO. */
int rt_guard_install(enum rt_stack_guard guard, void *page, size_t page_bytes);

/** The failing call's name, for traces. */
const char *rt_guard_operation(enum rt_stack_guard guard);

/** Map memory for stacks, without huge pages. Returns NULL with errno set. */
void *rt_guard_map(size_t bytes);

/**
 * Try @guard in a child process: install some, count what they cost, touch one.
 *
 * Returns:   0, or -EOPNOTSUPP: the kernel has none (or says so and lets the touch pass); -errno: no child.
 * Output:    mappings that 1,000 stacks cost.
 */
int rt_guard_probe(enum rt_stack_guard guard, size_t stride_bytes, uint32_t *mappings_per_1000_out);

#endif
