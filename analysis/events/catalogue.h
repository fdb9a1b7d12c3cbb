/**
 * The events that the analyses know: provider, name, set and fields, once, as an X-macro.
 *
 * U and I are integers (widened to 64 bits, enumerations and booleans too), S is a string. The order is that of
 * the trace contract (tracepoints/README.md). A field that a trace lacks reads as 0 or "".
 */
#ifndef ANALYSIS_EVENTS_CATALOGUE_H
#define ANALYSIS_EVENTS_CATALOGUE_H

/* clang-format off */
#define VBLK_EVENTS(EVENT, U, I, S) \
    EVENT(rt_process, info, CORE, S(version) U(max_map_count) U(stack_bytes) U(batch_size) S(pool_policy) S(notify_policy) S(request_lock) S(stack_guard) S(loop_monitor) S(faults) U(mappings_per_1000_stacks) U(contract_version)) \
    EVENT(rt_process, baseline_begin, CORE, U(serial)) \
    EVENT(rt_process, baseline_end, CORE, U(serial)) \
    EVENT(rt_process, vma_sample, CORE, U(vma_count) U(max_map_count) U(stack_count) U(stack_vma_count) U(live_count)) \
    EVENT(rt_process, vma_exhausted, CORE, S(operation) I(error) U(vma_count) U(max_map_count)) \
    EVENT(rt_pool, refill, CORE, I(thread_id) U(taken) U(global_size) U(global_max)) \
    EVENT(rt_pool, donate, CORE, I(thread_id) U(given) U(global_size) U(global_max)) \
    EVENT(rt_pool, overflow, CORE, I(thread_id) U(dropped) U(global_size) U(global_max) U(global_hard_max)) \
    EVENT(rt_pool, resize, CORE, I(delta) U(global_max) U(global_hard_max)) \
    EVENT(rt_pool, thread_exit, CORE, I(thread_id) U(freed)) \
    EVENT(rt_pool, local_sample, CORE, I(thread_id) U(local_size) U(takes) U(gives) U(misses) U(refills) U(donations) U(overflows) S(name)) \
    EVENT(rt_pool, global_sample, CORE, U(global_size) U(global_max) U(global_hard_max)) \
    EVENT(rt_coroutine, create, COROUTINE, U(coroutine_id) I(thread_id) U(pooled)) \
    EVENT(rt_coroutine, enter, COROUTINE, U(coroutine_id) U(from_id) U(loop_id) I(thread_id)) \
    EVENT(rt_coroutine, yield, COROUTINE, U(coroutine_id) U(to_id) I(thread_id)) \
    EVENT(rt_coroutine, terminate, COROUTINE, U(coroutine_id) I(thread_id)) \
    EVENT(rt_loop, create, CORE, U(loop_id) S(name) I(thread_id)) \
    EVENT(rt_loop, destroy, CORE, U(loop_id)) \
    EVENT(rt_loop, fd_attach, CORE, U(loop_id) U(handler_id) I(fd) U(role) U(device_id) U(queue_index)) \
    EVENT(rt_loop, fd_detach, CORE, U(loop_id) U(handler_id) I(fd)) \
    EVENT(rt_loop, fd_dispatch, LOOP, U(loop_id) U(handler_id) I(fd) U(progress)) \
    EVENT(rt_loop, publish, LOOP, U(loop_id) I(thread_id) U(kind)) \
    EVENT(rt_loop, notify, LOOP, U(loop_id) I(thread_id) U(notify_me) U(wrote_event)) \
    EVENT(rt_loop, notify_me, LOOP, U(loop_id) U(old_value) U(new_value)) \
    EVENT(rt_loop, notify_accept, LOOP, U(loop_id) U(was_notified)) \
    EVENT(rt_loop, state, CORE, U(loop_id) U(notify_me) U(notified) U(pending) U(waiting) U(waiting_ns) I(timeout_ns)) \
    EVENT(rt_loop, work_run, LOOP, U(loop_id) U(count)) \
    EVENT(rt_loop, hog, CORE, U(loop_id) U(handler_id) U(duration_ns)) \
    EVENT(rt_loop, poll_begin, LOOP, U(loop_id) I(poll_max_ns) I(timeout_ns)) \
    EVENT(rt_loop, poll_end, LOOP, U(loop_id) U(progress) U(handler_id)) \
    EVENT(rt_loop, poll_adjust, CORE, U(loop_id) I(old_ns) I(new_ns) U(handler_id)) \
    EVENT(rt_loop, wait_begin, LOOP, U(loop_id) I(timeout_ns)) \
    EVENT(rt_loop, wait_end, LOOP, U(loop_id) I(ready_count)) \
    EVENT(rt_loop, sample, CORE, U(loop_id) U(passes) U(dispatches) U(idle_dispatches) U(notifies) U(event_writes) U(event_writes_while_polling) U(polls) U(polls_useful) U(busy_ns) U(poll_ns) U(wait_ns)) \
    EVENT(rt_lock, create, CORE, U(lock_id) S(class_name) U(kind)) \
    EVENT(rt_lock, destroy, CORE, U(lock_id)) \
    EVENT(rt_lock, wait, CORE, U(lock_id) I(thread_id) U(coroutine_id) I(owner_thread_id) U(owner_coroutine_id)) \
    EVENT(rt_lock, acquired, LOCK, U(lock_id) I(thread_id) U(coroutine_id) U(waited)) \
    EVENT(rt_lock, owner, CORE, U(lock_id) I(owner_thread_id) U(owner_coroutine_id) U(waiters)) \
    EVENT(rt_lock, released, LOCK, U(lock_id) I(thread_id) U(coroutine_id)) \
    EVENT(rt_lock, held_at_yield, CORE, U(lock_id) I(thread_id) U(coroutine_id)) \
    EVENT(rt_lock, sample, CORE, U(lock_id) U(acquisitions) U(contentions) U(wait_ns) U(hold_ns)) \
    EVENT(vblk_dataplane, device_create, CORE, U(device_id) S(name) U(queue_count) U(capacity_bytes) S(backend)) \
    EVENT(vblk_dataplane, device_destroy, CORE, U(device_id)) \
    EVENT(vblk_dataplane, state, CORE, U(device_id) U(old_state) U(new_state)) \
    EVENT(vblk_dataplane, notifier_assign, CORE, U(device_id) U(queue_index) I(fd)) \
    EVENT(vblk_dataplane, notifier_release, CORE, U(device_id) U(queue_index) I(fd)) \
    EVENT(vblk_dataplane, notifier_attach, CORE, U(device_id) U(queue_index) I(fd) U(loop_id)) \
    EVENT(vblk_dataplane, notifier_detach, CORE, U(device_id) U(queue_index) I(fd) U(loop_id)) \
    EVENT(vblk_dataplane, notifier_commit, CORE, U(device_id) U(count) U(assign)) \
    EVENT(vblk_dataplane, drain_begin, CORE, U(device_id) U(depth) U(in_flight) U(state)) \
    EVENT(vblk_dataplane, drain_end, CORE, U(device_id) U(depth) U(in_flight) U(state)) \
    EVENT(vblk_dataplane, loop_change, CORE, U(device_id) U(queue_index) U(old_loop_id) U(new_loop_id)) \
    EVENT(vblk_queue, notifications, LOOP, U(device_id) U(queue_index) U(enabled) U(reason)) \
    EVENT(vblk_queue, kick, REQUEST, U(device_id) U(queue_index)) \
    EVENT(vblk_queue, interrupt, REQUEST, U(device_id) U(queue_index) U(suppressed)) \
    EVENT(vblk_queue, sample, CORE, U(device_id) U(queue_index) U(avail_index) U(popped_index) U(used_index) U(in_flight) U(notifications_enabled) U(kicks) U(empty_kicks) U(pops) U(completions) U(interrupts) U(suppressed_interrupts)) \
    EVENT(vblk_queue, broken, CORE, U(device_id) U(queue_index) I(error) S(reason)) \
    EVENT(vblk_request, begin, REQUEST, U(request_id) U(device_id) U(queue_index) U(head) U(type) U(offset_bytes) U(size_bytes) U(loop_id)) \
    EVENT(vblk_request, submit, REQUEST, U(request_id)) \
    EVENT(vblk_request, complete, REQUEST, U(request_id) I(result)) \
    EVENT(vblk_request, end, REQUEST, U(request_id) U(status)) \
    EVENT(vblk_request, serialise_wait, CORE, U(request_id) U(blocking_request_id)) \
    EVENT(vblk_request, slow, CORE, U(request_id) U(device_id) U(queue_index) U(type) U(stage) U(age_ns) U(finished)) \
    EVENT(vblk_request, recovered, CORE, U(request_id) U(device_id) U(queue_index) U(head)) \
    EVENT(vblk_request, abandoned, CORE, U(request_id)) \
    EVENT(vhost_user, connect, CORE, U(device_id) I(fd)) \
    EVENT(vhost_user, disconnect, CORE, U(device_id) I(error)) \
    EVENT(vhost_user, message, CORE, U(device_id) U(request) U(size_bytes) U(fd_count) I(result))
/* clang-format on */

#endif
