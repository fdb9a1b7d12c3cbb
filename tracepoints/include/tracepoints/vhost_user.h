/* Provider vhost_user: the front end's connection and its messages. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER vhost_user
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tracepoints/vhost_user.h"

#if !defined(TRACEPOINTS_VHOST_USER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TRACEPOINTS_VHOST_USER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* clang-format off: the blocks below are read as tables, also by tracepoints/catalogue */

/*
 * connect    A front end is connected.
 * Emitted:   virtio-blk/vhost_user, when the connection is accepted.
 * Pairs:     vhost_user:disconnect by device_id.
 * Set:       core
 * Baseline:  yes
 * Read by:   lost-request (restarts).
 */
LTTNG_UST_TRACEPOINT_EVENT(vhost_user, connect,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, int32_t, fd),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(int32_t, fd, fd)))

/*
 * disconnect
 *            The connection ended (0: closed by the front end in good order).
 * Emitted:   virtio-blk/vhost_user, after the last message.
 * Pairs:     vhost_user:connect by device_id.
 * Set:       core
 * Baseline:  no
 * Read by:   lost-request (restarts), stuck-request.
 */
LTTNG_UST_TRACEPOINT_EVENT(vhost_user, disconnect,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, int32_t, error),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(int32_t, error, error)))

/*
 * message    A message was handled; request is its number in the vhost-user protocol; a negative
 *            result: it was refused.
 * Emitted:   virtio-blk/vhost_user, after the message was handled.
 * Set:       core
 * Baseline:  no
 * Read by:   stale-fd, drain-order (evidence).
 */
LTTNG_UST_TRACEPOINT_EVENT(vhost_user, message,
    LTTNG_UST_TP_ARGS(uint32_t, device_id, uint32_t, request, uint32_t, size_bytes, uint32_t, fd_count,
                      int32_t, result),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint32_t, request, request)
        lttng_ust_field_integer(uint32_t, size_bytes, size_bytes)
        lttng_ust_field_integer(uint32_t, fd_count, fd_count)
        lttng_ust_field_integer(int32_t, result, result)))

/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
