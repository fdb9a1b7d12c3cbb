/* Provider rt_process: facts about the traced process, its memory mappings, and the brackets around a
 * baseline.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER rt_process
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tracepoints/process.h"

#if !defined(TRACEPOINTS_PROCESS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TRACEPOINTS_PROCESS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* clang-format off: the blocks below are read as tables, also by tracepoints/catalogue */

/* A tracepoint takes at most 10 arguments; an event with more fields takes them in a struct. LTTng reads
 * this file several times, hence the guard. */
#ifndef TRACEPOINTS_PROCESS_FIELDS
#define TRACEPOINTS_PROCESS_FIELDS
struct rt_process_info_fields {
    const char *version;
    uint32_t max_map_count;
    uint32_t stack_bytes;
    uint32_t batch_size;
    const char *pool_policy;
    const char *notify_policy;
    const char *request_lock;
    const char *stack_guard;
    const char *loop_monitor;
    const char *faults;
    uint32_t mappings_per_1000_stacks;
    uint32_t contract_version;
};
#endif

/*
 * info       The process and the values of its options. The strings are for people: no check depends on
 *            them. faults is comma-separated, empty for none; mappings_per_1000_stacks is what a stack
 *            costs as measured at start; contract_version is 1.
 * Emitted:   the sampler thread, in every baseline.
 * Set:       core
 * Baseline:  yes
 * Read by:   report header; vma-pressure (cost of a stack).
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_process, info,
    LTTNG_UST_TP_ARGS(const struct rt_process_info_fields *, fields),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(version, fields->version)
        lttng_ust_field_integer(uint32_t, max_map_count, fields->max_map_count)
        lttng_ust_field_integer(uint32_t, stack_bytes, fields->stack_bytes)
        lttng_ust_field_integer(uint32_t, batch_size, fields->batch_size)
        lttng_ust_field_string(pool_policy, fields->pool_policy)
        lttng_ust_field_string(notify_policy, fields->notify_policy)
        lttng_ust_field_string(request_lock, fields->request_lock)
        lttng_ust_field_string(stack_guard, fields->stack_guard)
        lttng_ust_field_string(loop_monitor, fields->loop_monitor)
        lttng_ust_field_string(faults, fields->faults)
        lttng_ust_field_integer(uint32_t, mappings_per_1000_stacks, fields->mappings_per_1000_stacks)
        lttng_ust_field_integer(uint32_t, contract_version, fields->contract_version)))

/*
 * baseline_begin
 *            What follows until baseline_end restates what already exists. serial counts the baselines
 *            of this process from 1.
 * Emitted:   the sampler thread, when a session starts, and once after the provider was loaded.
 * Pairs:     rt_process:baseline_end by serial. No end: the baseline is not whole and proves nothing.
 * Set:       core
 * Baseline:  yes
 * Read by:   every check that needs to know what existed before.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_process, baseline_begin,
    LTTNG_UST_TP_ARGS(uint32_t, serial),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, serial, serial)))

/*
 * baseline_end
 *            Everything that existed has been restated.
 * Emitted:   the sampler thread, after the last event of a baseline.
 * Pairs:     rt_process:baseline_begin by serial.
 * Set:       core
 * Baseline:  yes
 * Read by:   the same.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_process, baseline_end,
    LTTNG_UST_TP_ARGS(uint32_t, serial),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, serial, serial)))

/*
 * vma_sample
 *            Mappings of the process (may be up to 10 s old where counting is dear), and stacks held by
 *            coroutines, live or pooled; stack_vma_count are the mappings that hold stacks; live_count
 *            the coroutines created and not ended.
 * Emitted:   the sampler thread, once a second and in every baseline.
 * Set:       core
 * Baseline:  yes
 * Read by:   vma-pressure, vma-exhausted.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_process, vma_sample,
    LTTNG_UST_TP_ARGS(uint32_t, vma_count, uint32_t, max_map_count, uint32_t, stack_count,
                      uint32_t, stack_vma_count, uint32_t, live_count),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, vma_count, vma_count)
        lttng_ust_field_integer(uint32_t, max_map_count, max_map_count)
        lttng_ust_field_integer(uint32_t, stack_count, stack_count)
        lttng_ust_field_integer(uint32_t, stack_vma_count, stack_vma_count)
        lttng_ust_field_integer(uint32_t, live_count, live_count)))

/*
 * vma_exhausted
 *            A mapping call for a stack failed; operation names the call.
 * Emitted:   runtime/coroutine, by the thread that needed the stack, on the failing exit.
 * Set:       core
 * Baseline:  no
 * Read by:   vma-exhausted.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_process, vma_exhausted,
    LTTNG_UST_TP_ARGS(const char *, operation, int32_t, error, uint32_t, vma_count,
                      uint32_t, max_map_count),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(operation, operation)
        lttng_ust_field_integer(int32_t, error, error)
        lttng_ust_field_integer(uint32_t, vma_count, vma_count)
        lttng_ust_field_integer(uint32_t, max_map_count, max_map_count)))

/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
