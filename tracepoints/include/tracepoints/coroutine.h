/* Provider rt_coroutine: lives and switches of coroutines. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER rt_coroutine
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tracepoints/coroutine.h"

#if !defined(TRACEPOINTS_COROUTINE_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TRACEPOINTS_COROUTINE_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* clang-format off: the blocks below are read as tables, also by tracepoints/catalogue */

/*
 * create     A coroutine came to life; pooled 1: on a stack from the pool.
 * Emitted:   runtime/coroutine, once per life.
 * Pairs:     rt_coroutine:terminate by coroutine_id.
 * Set:       coroutine
 * Baseline:  no
 * Read by:   latency and concurrency tables.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_coroutine, create,
    LTTNG_UST_TP_ARGS(uint64_t, coroutine_id, int32_t, thread_id, uint8_t, pooled),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, coroutine_id, coroutine_id)
        lttng_ust_field_integer(int32_t, thread_id, thread_id)
        lttng_ust_field_integer(uint8_t, pooled, pooled)))

/*
 * enter      Control passes into the coroutine from from_id (0: not a coroutine), in loop_id (0: no
 *            loop).
 * Emitted:   runtime/coroutine, by the entering thread, before the switch.
 * Pairs:     rt_coroutine:yield or rt_coroutine:terminate by coroutine_id.
 * Set:       coroutine
 * Baseline:  no
 * Read by:   lock-across-yield, lock-contention (yields).
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_coroutine, enter,
    LTTNG_UST_TP_ARGS(uint64_t, coroutine_id, uint64_t, from_id, uint32_t, loop_id, int32_t, thread_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, coroutine_id, coroutine_id)
        lttng_ust_field_integer(uint64_t, from_id, from_id)
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(int32_t, thread_id, thread_id)))

/*
 * yield      Control leaves the coroutine and returns to to_id (0: not a coroutine).
 * Emitted:   runtime/coroutine, by the yielding thread, before the switch.
 * Pairs:     rt_coroutine:enter by coroutine_id.
 * Set:       coroutine
 * Baseline:  no
 * Read by:   lock-across-yield, lock-contention (yields).
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_coroutine, yield,
    LTTNG_UST_TP_ARGS(uint64_t, coroutine_id, uint64_t, to_id, int32_t, thread_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, coroutine_id, coroutine_id)
        lttng_ust_field_integer(uint64_t, to_id, to_id)
        lttng_ust_field_integer(int32_t, thread_id, thread_id)))

/*
 * terminate  The coroutine's function returned.
 * Emitted:   runtime/coroutine, by the thread on which it ends.
 * Pairs:     rt_coroutine:create by coroutine_id. No terminate: alive when tracing stopped.
 * Set:       coroutine
 * Baseline:  no
 * Read by:   latency and concurrency tables.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_coroutine, terminate,
    LTTNG_UST_TP_ARGS(uint64_t, coroutine_id, int32_t, thread_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, coroutine_id, coroutine_id)
        lttng_ust_field_integer(int32_t, thread_id, thread_id)))

/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
