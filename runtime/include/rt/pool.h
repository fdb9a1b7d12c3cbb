/**
 * The coroutine pool: stacks that were made once are used again.
 *
 * A global list of batches (128 coroutines) under one lock; at most two batches per thread, taken and given
 * without a lock and without an atomic read-modify-write. The global pool has a maximum that devices raise and
 * lower, and a hard maximum from the mapping budget, so that idle stacks never use up vm.max_map_count.
 * runtime/README.md tells the policy and its history.
 *
 *     rt_pool_inc_max(queue_count * queue_size / 2);   // a device comes
 *     ...
 *     rt_pool_dec_max(queue_count * queue_size / 2);   // and goes
 */
#ifndef RT_POOL_H
#define RT_POOL_H

#include <stdint.h>

#define RT_POOL_BATCH_SIZE 128
#define RT_POOL_NO_LIMIT UINT32_MAX

enum rt_stack_guard { RT_STACK_GUARD_AUTO, RT_STACK_GUARD_LIGHTWEIGHT, RT_STACK_GUARD_MPROTECT };

/**
 * Choose stacks before the first coroutine is made.
 *
 * Units:     stack_bytes is a multiple of the page size, without the guard; 0 takes the default of 64 KiB.
 * Returns:   0, or -EOPNOTSUPP: lightweight guards were asked for and this kernel has none (proved by
 *            touching one in a child); -EBUSY: stacks exist already, or their facts or the
 *            pool's limits were asked for; -EINVAL.
 * Thread:    any, before others use coroutines.
 */
int rt_stack_configure(enum rt_stack_guard guard, uint32_t stack_bytes);

struct rt_stack_facts {
    uint32_t stack_bytes;
    uint32_t mappings_per_1000_stacks; /**< measured at start, not assumed */
    uint32_t max_map_count;            /**< vm.max_map_count; RT_POOL_NO_LIMIT where there is none */
    const char *guard_name;            /**< "lightweight" or "mprotect": what is in use */
};

void rt_stack_facts(struct rt_stack_facts *facts_out);

/** One line that says why stacks cannot be mapped and what to do: names vm.max_map_count and a value. */
const char *rt_stack_error_hint(char *buffer, uint32_t buffer_bytes);

/** Raise or lower the global maximum (it starts at one batch). Thread: any. Trace: rt_pool:resize. */
void rt_pool_inc_max(uint32_t delta);
void rt_pool_dec_max(uint32_t delta);

struct rt_pool_global_stats {
    uint32_t global_size, global_max, global_hard_max;
    uint32_t stack_count;     /**< stacks that exist, live or pooled */
    uint32_t stack_vma_count; /**< mappings that hold them */
    uint32_t live_count;      /**< coroutines created and not ended */
};

struct rt_pool_thread_stats {
    int32_t thread_id;
    char name[16];
    uint32_t local_size;
    uint64_t takes, gives, misses, refills, donations, overflows;
};

/** A snapshot. Thread: any. A thread that starts, ends, or exchanges a batch meanwhile waits for some microseconds. */
void rt_pool_global_stats(struct rt_pool_global_stats *stats_out);

/** Calls visit for each thread that has used coroutines and still lives. Thread: any but a visitor. */
void rt_pool_each_thread(void (*visit)(const struct rt_pool_thread_stats *stats, void *opaque), void *opaque);

#endif
