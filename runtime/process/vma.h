/*
 * How many mappings this process has and may have. Private to runtime/; rt_process_vma_count() is the public one.
 */
#ifndef RUNTIME_PROCESS_VMA_H
#define RUNTIME_PROCESS_VMA_H

#include <stdint.h>

/**
 * Count the lines of /proc/self/maps. Takes milliseconds where there are tens of thousands.
 *
 * Returns:   0 or -errno.
 * Thread:    any. Async-signal-safe, small on the stack, no allocation: it must work when nothing can be mapped.
 */
int rt_vma_count_now(uint32_t *count_out);

/** vm.max_map_count as it is now; RT_POOL_NO_LIMIT where there is none. The same rules. */
uint32_t rt_vma_limit(void);

#endif
