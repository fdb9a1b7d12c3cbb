/* Provider rt_lock: thread mutexes and coroutine mutexes; a reader/writer lock for coroutines is of the latter kind. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER rt_lock
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tracepoints/lock.h"

#if !defined(TRACEPOINTS_LOCK_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TRACEPOINTS_LOCK_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* clang-format off: the blocks below are read as tables, also by tracepoints/catalogue */

LTTNG_UST_TRACEPOINT_ENUM(rt_lock, lock_kind,
    LTTNG_UST_TP_ENUM_VALUES(
        lttng_ust_field_enum_value("thread_mutex", 0)
        lttng_ust_field_enum_value("coroutine_mutex", 1)))

/*
 * create     A lock exists; class_name says what it protects and is shared by locks of one purpose.
 * Emitted:   runtime/lock, at initialisation.
 * Pairs:     rt_lock:destroy by lock_id.
 * Set:       core
 * Baseline:  yes
 * Read by:   every check that names a lock.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_lock, create,
    LTTNG_UST_TP_ARGS(uint64_t, lock_id, const char *, class_name, uint8_t, kind),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, lock_id, lock_id)
        lttng_ust_field_string(class_name, class_name)
        lttng_ust_field_enum(rt_lock, lock_kind, uint8_t, kind, kind)))

/*
 * destroy    The lock is gone.
 * Emitted:   runtime/lock.
 * Pairs:     rt_lock:create by lock_id.
 * Set:       core
 * Baseline:  no
 * Read by:   every check that names a lock.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_lock, destroy,
    LTTNG_UST_TP_ARGS(uint64_t, lock_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, lock_id, lock_id)))

/*
 * wait       An acquisition found the lock held, by this owner. 0 and 0: by readers, or by somebody who just left.
 * Emitted:   runtime/lock, by the thread that waits, before it blocks or yields.
 * Pairs:     rt_lock:acquired with waited 1, by lock_id and thread_id (thread mutex) or coroutine_id
 *            (coroutine mutex).
 * Set:       core
 * Baseline:  no
 * Read by:   lock-contention, lock-across-yield.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_lock, wait,
    LTTNG_UST_TP_ARGS(uint64_t, lock_id, int32_t, thread_id, uint64_t, coroutine_id,
                      int32_t, owner_thread_id, uint64_t, owner_coroutine_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, lock_id, lock_id)
        lttng_ust_field_integer(int32_t, thread_id, thread_id)
        lttng_ust_field_integer(uint64_t, coroutine_id, coroutine_id)
        lttng_ust_field_integer(int32_t, owner_thread_id, owner_thread_id)
        lttng_ust_field_integer(uint64_t, owner_coroutine_id, owner_coroutine_id)))

/*
 * acquired   The lock was taken; waited 1: a wait came before. Readers of one lock acquire it side by side, so that a
 *            second acquired without a released in between marks a reader/writer lock.
 * Emitted:   runtime/lock, by the thread that holds it now.
 * Pairs:     rt_lock:released by lock_id.
 * Set:       core with the filter `waited == 1`, else lock
 * Baseline:  no
 * Read by:   lock-contention, lock-across-yield.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_lock, acquired,
    LTTNG_UST_TP_ARGS(uint64_t, lock_id, int32_t, thread_id, uint64_t, coroutine_id, uint8_t, waited),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, lock_id, lock_id)
        lttng_ust_field_integer(int32_t, thread_id, thread_id)
        lttng_ust_field_integer(uint64_t, coroutine_id, coroutine_id)
        lttng_ust_field_integer(uint8_t, waited, waited)))

/*
 * owner      A lock that is held while a baseline is taken; one that readers hold has no owner.
 * Emitted:   the sampler thread, in every baseline.
 * Set:       core
 * Baseline:  yes
 * Read by:   lock-across-yield, lock-contention.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_lock, owner,
    LTTNG_UST_TP_ARGS(uint64_t, lock_id, int32_t, owner_thread_id, uint64_t, owner_coroutine_id,
                      uint32_t, waiters),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, lock_id, lock_id)
        lttng_ust_field_integer(int32_t, owner_thread_id, owner_thread_id)
        lttng_ust_field_integer(uint64_t, owner_coroutine_id, owner_coroutine_id)
        lttng_ust_field_integer(uint32_t, waiters, waiters)))

/*
 * released   The lock was given back.
 * Emitted:   runtime/lock, by the thread that held it.
 * Pairs:     rt_lock:acquired by lock_id.
 * Set:       lock
 * Baseline:  no
 * Read by:   lock-contention, lock-across-yield.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_lock, released,
    LTTNG_UST_TP_ARGS(uint64_t, lock_id, int32_t, thread_id, uint64_t, coroutine_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, lock_id, lock_id)
        lttng_ust_field_integer(int32_t, thread_id, thread_id)
        lttng_ust_field_integer(uint64_t, coroutine_id, coroutine_id)))

/*
 * held_at_yield
 *            A coroutine yielded while it held a thread mutex: a broken rule, whether or not it hangs.
 * Emitted:   runtime/lock, by the yielding thread, before the switch.
 * Set:       core
 * Baseline:  no
 * Read by:   lock-across-yield.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_lock, held_at_yield,
    LTTNG_UST_TP_ARGS(uint64_t, lock_id, int32_t, thread_id, uint64_t, coroutine_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, lock_id, lock_id)
        lttng_ust_field_integer(int32_t, thread_id, thread_id)
        lttng_ust_field_integer(uint64_t, coroutine_id, coroutine_id)))

/*
 * sample     Running totals of one lock.
 * Emitted:   the sampler thread, once a second and in every baseline, for every lock that was used.
 * Set:       core
 * Baseline:  yes
 * Read by:   lock-contention.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_lock, sample,
    LTTNG_UST_TP_ARGS(uint64_t, lock_id, uint64_t, acquisitions, uint64_t, contentions, uint64_t, wait_ns,
                      uint64_t, hold_ns),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, lock_id, lock_id)
        lttng_ust_field_integer(uint64_t, acquisitions, acquisitions)
        lttng_ust_field_integer(uint64_t, contentions, contentions)
        lttng_ust_field_integer(uint64_t, wait_ns, wait_ns)
        lttng_ust_field_integer(uint64_t, hold_ns, hold_ns)))

/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
