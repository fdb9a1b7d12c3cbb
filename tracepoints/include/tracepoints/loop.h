/* Provider rt_loop: event loops: what is attached, what runs, polling, sleeping and cross-thread wake-up. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER rt_loop
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tracepoints/loop.h"

#if !defined(TRACEPOINTS_LOOP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TRACEPOINTS_LOOP_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* clang-format off: the blocks below are read as tables, also by tracepoints/catalogue */

/* A tracepoint takes at most 10 arguments; an event with more fields takes them in a struct. LTTng reads
 * this file several times, hence the guard. */
#ifndef TRACEPOINTS_LOOP_FIELDS
#define TRACEPOINTS_LOOP_FIELDS
struct rt_loop_sample_fields {
    uint32_t loop_id;
    uint64_t passes;
    uint64_t dispatches;
    uint64_t idle_dispatches;
    uint64_t notifies;
    uint64_t event_writes;
    uint64_t event_writes_while_polling;
    uint64_t polls;
    uint64_t polls_useful;
    uint64_t busy_ns;
    uint64_t poll_ns;
    uint64_t wait_ns;
};
#endif

LTTNG_UST_TRACEPOINT_ENUM(rt_loop, fd_role,
    LTTNG_UST_TP_ENUM_VALUES(
        lttng_ust_field_enum_value("other", 0)
        lttng_ust_field_enum_value("wakeup", 1)
        lttng_ust_field_enum_value("host_notifier", 2)
        lttng_ust_field_enum_value("vhost_user_socket", 3)
        lttng_ust_field_enum_value("control", 4)
        lttng_ust_field_enum_value("completion", 5)))

LTTNG_UST_TRACEPOINT_ENUM(rt_loop, publish_kind,
    LTTNG_UST_TP_ENUM_VALUES(
        lttng_ust_field_enum_value("bottom_half", 0)
        lttng_ust_field_enum_value("coroutine", 1)
        lttng_ust_field_enum_value("timer", 2)))

/*
 * create     A loop exists; thread_id 0: not running yet.
 * Emitted:   runtime/loop, at creation, and again when its thread is known.
 * Pairs:     rt_loop:destroy by loop_id.
 * Set:       core
 * Baseline:  yes
 * Read by:   every check that names a loop.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, create,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, const char *, name, int32_t, thread_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_string(name, name)
        lttng_ust_field_integer(int32_t, thread_id, thread_id)))

/*
 * destroy    The loop is gone.
 * Emitted:   runtime/loop, by the destroying thread.
 * Pairs:     rt_loop:create by loop_id.
 * Set:       core
 * Baseline:  no
 * Read by:   every check that names a loop.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, destroy,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)))

/*
 * fd_attach  A descriptor got a handler in the loop. device_id 0: no device, and queue_index means
 *            nothing.
 * Emitted:   runtime/loop, under the registry lock, by the thread that calls: in start and stop the
 *            queue's loop thread, in a drain the draining thread.
 * Pairs:     rt_loop:fd_detach by handler_id (a descriptor's number is reused).
 * Set:       core
 * Baseline:  yes
 * Read by:   stale-fd, unread-fd, deaf-queue.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, fd_attach,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, uint64_t, handler_id, int32_t, fd, uint8_t, role,
                      uint32_t, device_id, uint16_t, queue_index),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(uint64_t, handler_id, handler_id)
        lttng_ust_field_integer(int32_t, fd, fd)
        lttng_ust_field_enum(rt_loop, fd_role, uint8_t, role, role)
        lttng_ust_field_integer(uint32_t, device_id, device_id)
        lttng_ust_field_integer(uint16_t, queue_index, queue_index)))

/*
 * fd_detach  The handler was removed.
 * Emitted:   runtime/loop, under the registry lock, by the thread that calls.
 * Pairs:     rt_loop:fd_attach by handler_id.
 * Set:       core
 * Baseline:  no
 * Read by:   stale-fd, unread-fd, deaf-queue.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, fd_detach,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, uint64_t, handler_id, int32_t, fd),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(uint64_t, handler_id, handler_id)
        lttng_ust_field_integer(int32_t, fd, fd)))

/*
 * fd_dispatch
 *            The handler ran; progress 0: nothing was there (EAGAIN).
 * Emitted:   runtime/loop, by the loop's thread, after the handler returned.
 * Set:       loop
 * Baseline:  no
 * Read by:   unread-fd, stale-fd (wasted dispatches).
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, fd_dispatch,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, uint64_t, handler_id, int32_t, fd, uint8_t, progress),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(uint64_t, handler_id, handler_id)
        lttng_ust_field_integer(int32_t, fd, fd)
        lttng_ust_field_integer(uint8_t, progress, progress)))

/*
 * publish    Work was made visible to the loop; kind timer: armed from another thread.
 * Emitted:   runtime/loop, by the publishing thread, before it notifies.
 * Pairs:     the rt_loop:notify that follows in the thread.
 * Set:       loop
 * Baseline:  no
 * Read by:   lost-wakeup, late-wakeup.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, publish,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, int32_t, thread_id, uint8_t, kind),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(int32_t, thread_id, thread_id)
        lttng_ust_field_enum(rt_loop, publish_kind, uint8_t, kind, kind)))

/*
 * notify     The loop was notified. notify_me is what the notifier saw; 0: the loop looks at "notified"
 *            before it blocks, so nothing needs to be written.
 * Emitted:   runtime/loop, by the notifying thread.
 * Pairs:     the rt_loop:publish before it in the thread.
 * Set:       loop
 * Baseline:  no
 * Read by:   lost-wakeup, late-wakeup, needless-event-writes.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, notify,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, int32_t, thread_id, uint32_t, notify_me, uint8_t, wrote_event),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(int32_t, thread_id, thread_id)
        lttng_ust_field_integer(uint32_t, notify_me, notify_me)
        lttng_ust_field_integer(uint8_t, wrote_event, wrote_event)))

/*
 * notify_me  The flag changed; resting value 0, above 0 while the loop may block.
 * Emitted:   runtime/loop, by the loop's thread.
 * Pairs:     the change back, around one wait.
 * Set:       loop
 * Baseline:  no
 * Read by:   notify-me-unbalanced, lost-wakeup.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, notify_me,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, uint32_t, old_value, uint32_t, new_value),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(uint32_t, old_value, old_value)
        lttng_ust_field_integer(uint32_t, new_value, new_value)))

/*
 * notify_accept
 *            The loop cleared "notified", which had this value; need not be emitted when it was 0.
 * Emitted:   runtime/loop, by the loop's thread, between wait and dispatch.
 * Set:       loop
 * Baseline:  no
 * Read by:   lost-wakeup, late-wakeup.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, notify_accept,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, uint8_t, was_notified),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(uint8_t, was_notified, was_notified)))

/*
 * state      A loop that was running before the recording: its flags, published work not yet run, and
 *            how long it has been blocked with which timeout (-1: none).
 * Emitted:   the sampler thread, in every baseline, for every running loop.
 * Set:       core
 * Baseline:  yes
 * Read by:   lost-wakeup, deaf-queue.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, state,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, uint32_t, notify_me, uint8_t, notified, uint32_t, pending,
                      uint8_t, waiting, uint64_t, waiting_ns, int64_t, timeout_ns),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(uint32_t, notify_me, notify_me)
        lttng_ust_field_integer(uint8_t, notified, notified)
        lttng_ust_field_integer(uint32_t, pending, pending)
        lttng_ust_field_integer(uint8_t, waiting, waiting)
        lttng_ust_field_integer(uint64_t, waiting_ns, waiting_ns)
        lttng_ust_field_integer(int64_t, timeout_ns, timeout_ns)))

/*
 * work_run   Bottom halves and coroutines that ran in this pass. Several publishes of one bottom half
 *            run once, so counts do not balance: a pass that accepted after a publish has settled it.
 *            Expired timers are not counted.
 * Emitted:   runtime/loop, by the loop's thread, in a pass that ran some.
 * Set:       loop
 * Baseline:  no
 * Read by:   lost-wakeup, false-progress.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, work_run,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, uint32_t, count),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(uint32_t, count, count)))

/*
 * hog        One handler (0: published work or a timer) held the loop longer than the configured limit.
 * Emitted:   runtime/loop, by the loop's thread, after the handler returned.
 * Set:       core
 * Baseline:  no
 * Read by:   loop-hog.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, hog,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, uint64_t, handler_id, uint64_t, duration_ns),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(uint64_t, handler_id, handler_id)
        lttng_ust_field_integer(uint64_t, duration_ns, duration_ns)))

/*
 * poll_begin
 *            Busy polling starts, for at most poll_max_ns; timeout_ns is what the wait would use (-1:
 *            none).
 * Emitted:   runtime/loop, by the loop's thread.
 * Pairs:     rt_loop:poll_end by loop_id.
 * Set:       loop
 * Baseline:  no
 * Read by:   poll-waste, false-progress, needless-event-writes.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, poll_begin,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, int64_t, poll_max_ns, int64_t, timeout_ns),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(int64_t, poll_max_ns, poll_max_ns)
        lttng_ust_field_integer(int64_t, timeout_ns, timeout_ns)))

/*
 * poll_end   Busy polling ended, by this handler; 0: by "notified", or nothing did.
 * Emitted:   runtime/loop, by the loop's thread.
 * Pairs:     rt_loop:poll_begin by loop_id.
 * Set:       loop
 * Baseline:  no
 * Read by:   poll-waste, false-progress.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, poll_end,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, uint8_t, progress, uint64_t, handler_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(uint8_t, progress, progress)
        lttng_ust_field_integer(uint64_t, handler_id, handler_id)))

/*
 * poll_adjust
 *            Adaptive polling grew or shrank, because of this handler (0: the loop).
 * Emitted:   runtime/loop, by the loop's thread, when the window changes.
 * Set:       core
 * Baseline:  no
 * Read by:   poll-waste.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, poll_adjust,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, int64_t, old_ns, int64_t, new_ns, uint64_t, handler_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(int64_t, old_ns, old_ns)
        lttng_ust_field_integer(int64_t, new_ns, new_ns)
        lttng_ust_field_integer(uint64_t, handler_id, handler_id)))

/*
 * wait_begin
 *            The loop blocks in the kernel; -1: without limit.
 * Emitted:   runtime/loop, by the loop's thread, before the call.
 * Pairs:     rt_loop:wait_end by loop_id. No end: asleep when tracing stopped.
 * Set:       loop
 * Baseline:  no
 * Read by:   lost-wakeup, late-wakeup, deaf-queue.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, wait_begin,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, int64_t, timeout_ns),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(int64_t, timeout_ns, timeout_ns)))

/*
 * wait_end   The kernel returned, with this many ready descriptors (negative errno on failure).
 * Emitted:   runtime/loop, by the loop's thread, after the call.
 * Pairs:     rt_loop:wait_begin by loop_id.
 * Set:       loop
 * Baseline:  no
 * Read by:   lost-wakeup, late-wakeup, deaf-queue.
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, wait_end,
    LTTNG_UST_TP_ARGS(uint32_t, loop_id, int32_t, ready_count),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, loop_id)
        lttng_ust_field_integer(int32_t, ready_count, ready_count)))

/*
 * sample     Running totals of one loop since it was created. busy + poll + wait is the wall time of
 *            the thread, an open wait included.
 * Emitted:   the sampler thread, once a second and in every baseline, for every loop.
 * Set:       core
 * Baseline:  yes
 * Read by:   poll-waste, needless-event-writes, lock-contention (busy time).
 */
LTTNG_UST_TRACEPOINT_EVENT(rt_loop, sample,
    LTTNG_UST_TP_ARGS(const struct rt_loop_sample_fields *, fields),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, loop_id, fields->loop_id)
        lttng_ust_field_integer(uint64_t, passes, fields->passes)
        lttng_ust_field_integer(uint64_t, dispatches, fields->dispatches)
        lttng_ust_field_integer(uint64_t, idle_dispatches, fields->idle_dispatches)
        lttng_ust_field_integer(uint64_t, notifies, fields->notifies)
        lttng_ust_field_integer(uint64_t, event_writes, fields->event_writes)
        lttng_ust_field_integer(uint64_t, event_writes_while_polling, fields->event_writes_while_polling)
        lttng_ust_field_integer(uint64_t, polls, fields->polls)
        lttng_ust_field_integer(uint64_t, polls_useful, fields->polls_useful)
        lttng_ust_field_integer(uint64_t, busy_ns, fields->busy_ns)
        lttng_ust_field_integer(uint64_t, poll_ns, fields->poll_ns)
        lttng_ust_field_integer(uint64_t, wait_ns, fields->wait_ns)))

/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
