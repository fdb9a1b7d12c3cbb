/* Provider rt_pool: the coroutine pool: batches that move between threads and the global list. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER rt_pool
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tracepoints/pool.h"

#if !defined(TRACEPOINTS_POOL_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TRACEPOINTS_POOL_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* clang-format off: the blocks below are read as tables, also by tracepoints/catalogue */

/*
 * refill     The local pool of a thread was empty and it asked the global pool; taken 0: that was empty
 *            too. Sizes are those after the move.
 * Emitted:   runtime/pool, by the thread that takes.
 * Set:       core
 * Baseline:  no
 * Read by:   pool-imbalance, pool-thrash.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_pool, refill,
    LTTNG_UST_TP_ARGS(int32_t, thread_id, uint32_t, taken, uint32_t, global_size, uint32_t, global_max),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int32_t, thread_id, thread_id)
        lttng_ust_field_integer(uint32_t, taken, taken)
        lttng_ust_field_integer(uint32_t, global_size, global_size)
        lttng_ust_field_integer(uint32_t, global_max, global_max)))

/*
 * donate     A full batch moved from a thread to the global pool.
 * Emitted:   runtime/pool, by the thread that gives.
 * Set:       core
 * Baseline:  no
 * Read by:   pool-imbalance.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_pool, donate,
    LTTNG_UST_TP_ARGS(int32_t, thread_id, uint32_t, given, uint32_t, global_size, uint32_t, global_max),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int32_t, thread_id, thread_id)
        lttng_ust_field_integer(uint32_t, given, given)
        lttng_ust_field_integer(uint32_t, global_size, global_size)
        lttng_ust_field_integer(uint32_t, global_max, global_max)))

/*
 * overflow   The global pool was full and the batch was freed.
 * Emitted:   runtime/pool, by the thread that gives.
 * Set:       core
 * Baseline:  no
 * Read by:   pool-overflow, pool-imbalance.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_pool, overflow,
    LTTNG_UST_TP_ARGS(int32_t, thread_id, uint32_t, dropped, uint32_t, global_size, uint32_t, global_max,
                      uint32_t, global_hard_max),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int32_t, thread_id, thread_id)
        lttng_ust_field_integer(uint32_t, dropped, dropped)
        lttng_ust_field_integer(uint32_t, global_size, global_size)
        lttng_ust_field_integer(uint32_t, global_max, global_max)
        lttng_ust_field_integer(uint32_t, global_hard_max, global_hard_max)))

/*
 * resize     The configured maximum was raised (delta above 0) or lowered.
 * Emitted:   runtime/pool, by the thread that configures a device.
 * Set:       core
 * Baseline:  no
 * Read by:   pool-overflow (the size it suggests).
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_pool, resize,
    LTTNG_UST_TP_ARGS(int32_t, delta, uint32_t, global_max, uint32_t, global_hard_max),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int32_t, delta, delta)
        lttng_ust_field_integer(uint32_t, global_max, global_max)
        lttng_ust_field_integer(uint32_t, global_hard_max, global_hard_max)))

/*
 * thread_exit
 *            A thread ended and its local pool was freed.
 * Emitted:   runtime/pool, by the thread that ends.
 * Set:       core
 * Baseline:  no
 * Read by:   vma-pressure (who holds idle stacks).
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_pool, thread_exit,
    LTTNG_UST_TP_ARGS(int32_t, thread_id, uint32_t, freed),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int32_t, thread_id, thread_id)
        lttng_ust_field_integer(uint32_t, freed, freed)))

/*
 * local_sample
 *            Running totals of one thread since it started; a miss made a new coroutine; name is the
 *            thread's. Under the per-thread policy global_size (of the other events) is the release
 *            list, global_max twice the maximum, taken the whole list, and dropped is 1; donations
 *            counts coroutines, and no donate is emitted, as that would be one for each life.
 * Emitted:   the sampler thread, once a second and in every baseline, for every thread with a pool.
 * Set:       core
 * Baseline:  yes
 * Read by:   pool-imbalance, pool-thrash, vma-pressure.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_pool, local_sample,
    LTTNG_UST_TP_ARGS(int32_t, thread_id, uint32_t, local_size, uint64_t, takes, uint64_t, gives,
                      uint64_t, misses, uint64_t, refills, uint64_t, donations, uint64_t, overflows,
                      const char *, name),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int32_t, thread_id, thread_id)
        lttng_ust_field_integer(uint32_t, local_size, local_size)
        lttng_ust_field_integer(uint64_t, takes, takes)
        lttng_ust_field_integer(uint64_t, gives, gives)
        lttng_ust_field_integer(uint64_t, misses, misses)
        lttng_ust_field_integer(uint64_t, refills, refills)
        lttng_ust_field_integer(uint64_t, donations, donations)
        lttng_ust_field_integer(uint64_t, overflows, overflows)
        lttng_ust_field_string(name, name)))

/*
 * global_sample
 *            The global pool; no limit is 4294967295.
 * Emitted:   the sampler thread, once a second and in every baseline.
 * Set:       core
 * Baseline:  yes
 * Read by:   pool-overflow, vma-pressure.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_pool, global_sample,
    LTTNG_UST_TP_ARGS(uint32_t, global_size, uint32_t, global_max, uint32_t, global_hard_max),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, global_size, global_size)
        lttng_ust_field_integer(uint32_t, global_max, global_max)
        lttng_ust_field_integer(uint32_t, global_hard_max, global_hard_max)))

/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
