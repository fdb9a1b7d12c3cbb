/**
 * QEMU's events that the analyses understand: names and fields as QEMU's LTTng backend writes them, provider `qemu`.
 *
 * The field names are the argument names of QEMU's trace-events files, versions 7.2 to 10.2. Where a name or a field changed
 * between versions both are here; a field that a version lacks reads as 0. Pointers are addresses: see README.md. procname is the
 * tracer's context, the name of the thread, read with events that every thread of interest emits.
 */
#ifndef ANALYSIS_DIALECTS_QEMU_EVENTS_H
#define ANALYSIS_DIALECTS_QEMU_EVENTS_H

/* clang-format off */
#define QEMU_EVENTS(EVENT, U, I, S) \
    EVENT(qemu, qemu_mutex_lock, LOCK, U(mutex) S(file) I(line) S(procname)) \
    EVENT(qemu, qemu_mutex_locked, LOCK, U(mutex) S(file) I(line)) \
    EVENT(qemu, qemu_mutex_unlock, LOCK, U(mutex) S(file) I(line)) \
    EVENT(qemu, qemu_co_mutex_lock_uncontended, LOCK, U(mutex) U(self)) \
    EVENT(qemu, qemu_co_mutex_lock_entry, LOCK, U(mutex) U(self)) \
    EVENT(qemu, qemu_co_mutex_lock_return, LOCK, U(mutex) U(self)) \
    EVENT(qemu, qemu_co_mutex_unlock_entry, LOCK, U(mutex) U(self)) \
    EVENT(qemu, qemu_aio_coroutine_enter, COROUTINE, U(ctx) U(from) U(to) S(procname)) \
    EVENT(qemu, qemu_coroutine_yield, COROUTINE, U(from) U(to)) \
    EVENT(qemu, qemu_coroutine_terminate, COROUTINE, U(co)) \
    EVENT(qemu, aio_co_schedule, LOOP, U(ctx) U(co)) \
    EVENT(qemu, aio_co_schedule_bh_cb, LOOP, U(ctx) U(co)) \
    EVENT(qemu, run_poll_handlers_begin, LOOP, U(ctx) I(max_ns) I(timeout) S(procname)) \
    EVENT(qemu, run_poll_handlers_end, LOOP, U(ctx) U(progress) I(timeout)) \
    EVENT(qemu, poll_grow, LOOP, U(ctx) I(old) I(new)) \
    EVENT(qemu, poll_shrink, LOOP, U(ctx) I(old) I(new)) \
    EVENT(qemu, virtio_blk_handle_read, REQUEST, U(vdev) U(req) U(sector) U(nsectors)) \
    EVENT(qemu, virtio_blk_handle_write, REQUEST, U(vdev) U(req) U(sector) U(nsectors)) \
    EVENT(qemu, virtio_blk_rw_complete, REQUEST, U(vdev) U(req) I(ret)) \
    EVENT(qemu, virtio_blk_req_complete, REQUEST, U(vdev) U(req) I(status)) \
    EVENT(qemu, luring_co_submit, REQUEST, U(bs) U(luringcb) U(req) U(offset) U(nbytes) I(type)) \
    EVENT(qemu, luring_process_completion, REQUEST, U(aiocb) I(ret)) \
    EVENT(qemu, luring_cqe_handler, REQUEST, U(req) I(ret)) \
    EVENT(qemu, thread_pool_submit, REQUEST, U(pool) U(req)) \
    EVENT(qemu, thread_pool_submit_aio, REQUEST, U(pool) U(req)) \
    EVENT(qemu, thread_pool_complete, REQUEST, U(pool) U(req) I(ret)) \
    EVENT(qemu, thread_pool_complete_aio, REQUEST, U(pool) U(req) I(ret)) \
    EVENT(qemu, bdrv_open_common, CORE, U(bs) S(filename))
/* clang-format on */

#endif
