/* Provider qemu as far as the stories need it: names, field names and widths are those that QEMU's LTTng backend writes. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER qemu
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "qemu_points.h"

#if !defined(QEMU_POINTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define QEMU_POINTS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* clang-format off */

#define POINTER(name) lttng_ust_field_integer_hex(uint64_t, name, name)

LTTNG_UST_TRACEPOINT_EVENT_CLASS(qemu, mutex,
    LTTNG_UST_TP_ARGS(uint64_t, mutex, const char *, file, int, line),
    LTTNG_UST_TP_FIELDS(POINTER(mutex) lttng_ust_field_string(file, file) lttng_ust_field_integer(int, line, line)))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(qemu, mutex, qemu, qemu_mutex_lock, LTTNG_UST_TP_ARGS(uint64_t, mutex, const char *, file, int, line))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(qemu, mutex, qemu, qemu_mutex_locked, LTTNG_UST_TP_ARGS(uint64_t, mutex, const char *, file, int, line))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(qemu, mutex, qemu, qemu_mutex_unlock, LTTNG_UST_TP_ARGS(uint64_t, mutex, const char *, file, int, line))

LTTNG_UST_TRACEPOINT_EVENT(qemu, qemu_aio_coroutine_enter,
    LTTNG_UST_TP_ARGS(uint64_t, ctx, uint64_t, from, uint64_t, to, uint64_t, opaque),
    LTTNG_UST_TP_FIELDS(POINTER(ctx) POINTER(from) POINTER(to) POINTER(opaque)))
LTTNG_UST_TRACEPOINT_EVENT(qemu, qemu_coroutine_yield,
    LTTNG_UST_TP_ARGS(uint64_t, from, uint64_t, to), LTTNG_UST_TP_FIELDS(POINTER(from) POINTER(to)))
LTTNG_UST_TRACEPOINT_EVENT(qemu, qemu_coroutine_terminate,
    LTTNG_UST_TP_ARGS(uint64_t, co), LTTNG_UST_TP_FIELDS(POINTER(co)))

LTTNG_UST_TRACEPOINT_EVENT_CLASS(qemu, schedule,
    LTTNG_UST_TP_ARGS(uint64_t, ctx, uint64_t, co), LTTNG_UST_TP_FIELDS(POINTER(ctx) POINTER(co)))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(qemu, schedule, qemu, aio_co_schedule, LTTNG_UST_TP_ARGS(uint64_t, ctx, uint64_t, co))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(qemu, schedule, qemu, aio_co_schedule_bh_cb, LTTNG_UST_TP_ARGS(uint64_t, ctx, uint64_t, co))

LTTNG_UST_TRACEPOINT_EVENT(qemu, run_poll_handlers_begin,
    LTTNG_UST_TP_ARGS(uint64_t, ctx, int64_t, max_ns, int64_t, timeout),
    LTTNG_UST_TP_FIELDS(POINTER(ctx) lttng_ust_field_integer(int64_t, max_ns, max_ns) lttng_ust_field_integer(int64_t, timeout, timeout)))
LTTNG_UST_TRACEPOINT_EVENT(qemu, run_poll_handlers_end,
    LTTNG_UST_TP_ARGS(uint64_t, ctx, uint8_t, progress, int64_t, timeout),
    LTTNG_UST_TP_FIELDS(POINTER(ctx) lttng_ust_field_integer(uint8_t, progress, progress) lttng_ust_field_integer(int64_t, timeout, timeout)))

LTTNG_UST_TRACEPOINT_EVENT(qemu, virtio_blk_handle_read,
    LTTNG_UST_TP_ARGS(uint64_t, vdev, uint64_t, req, uint64_t, sector, uint64_t, nsectors),
    LTTNG_UST_TP_FIELDS(POINTER(vdev) POINTER(req) lttng_ust_field_integer(uint64_t, sector, sector) lttng_ust_field_integer(uint64_t, nsectors, nsectors)))
LTTNG_UST_TRACEPOINT_EVENT(qemu, virtio_blk_rw_complete,
    LTTNG_UST_TP_ARGS(uint64_t, vdev, uint64_t, req, int, ret),
    LTTNG_UST_TP_FIELDS(POINTER(vdev) POINTER(req) lttng_ust_field_integer(int, ret, ret)))
LTTNG_UST_TRACEPOINT_EVENT(qemu, virtio_blk_req_complete,
    LTTNG_UST_TP_ARGS(uint64_t, vdev, uint64_t, req, int, status),
    LTTNG_UST_TP_FIELDS(POINTER(vdev) POINTER(req) lttng_ust_field_integer(int, status, status)))

LTTNG_UST_TRACEPOINT_EVENT(qemu, thread_pool_submit_aio,
    LTTNG_UST_TP_ARGS(uint64_t, pool, uint64_t, req, uint64_t, opaque),
    LTTNG_UST_TP_FIELDS(POINTER(pool) POINTER(req) POINTER(opaque)))
LTTNG_UST_TRACEPOINT_EVENT(qemu, thread_pool_complete_aio,
    LTTNG_UST_TP_ARGS(uint64_t, pool, uint64_t, req, uint64_t, opaque, int, ret),
    LTTNG_UST_TP_FIELDS(POINTER(pool) POINTER(req) POINTER(opaque) lttng_ust_field_integer(int, ret, ret)))

LTTNG_UST_TRACEPOINT_EVENT(qemu, object_dynamic_cast_assert,
    LTTNG_UST_TP_ARGS(const char *, type, const char *, target),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(type, type) lttng_ust_field_string(target, target)))

/* clang-format on */
#endif

#include <lttng/tracepoint-event.h>
