/* Every event once, with values at the far end of each type, so that a wrong width or sign shows in the trace.
 * What must arrive stands in expected/every_event.txt, in the same order. */
#include "every_event.h"

#include "tracepoints/coroutine.h"
#include "tracepoints/dataplane.h"
#include "tracepoints/lock.h"
#include "tracepoints/loop.h"
#include "tracepoints/pool.h"
#include "tracepoints/process.h"
#include "tracepoints/queue.h"
#include "tracepoints/request.h"
#include "tracepoints/vhost_user.h"

static void emit_process(void)
{
    lttng_ust_tracepoint(rt_process, info,
                         &(struct rt_process_info_fields){
                             .version = "version 1",
                             .max_map_count = 4294960002u,
                             .stack_bytes = 4294960003u,
                             .batch_size = 4294960004u,
                             .pool_policy = "pool_policy 5",
                             .notify_policy = "notify_policy 6",
                             .request_lock = "request_lock 7",
                             .stack_guard = "stack_guard 8",
                             .loop_monitor = "loop_monitor 9",
                             .faults = "faults 10",
                             .mappings_per_1000_stacks = 4294960011u,
                             .contract_version = 4294960012u,
                         });
    lttng_ust_tracepoint(rt_process, baseline_begin, 4294960013u);
    lttng_ust_tracepoint(rt_process, baseline_end, 4294960014u);
    lttng_ust_tracepoint(rt_process, vma_sample, 4294960015u, 4294960016u, 4294960017u, 4294960018u,
                         4294960019u);
    lttng_ust_tracepoint(rt_process, vma_exhausted, "operation 20", -2147480021, 4294960022u, 4294960023u);
}

static void emit_pool(void)
{
    lttng_ust_tracepoint(rt_pool, refill, -2147480024, 4294960025u, 4294960026u, 4294960027u);
    lttng_ust_tracepoint(rt_pool, donate, -2147480028, 4294960029u, 4294960030u, 4294960031u);
    lttng_ust_tracepoint(rt_pool, overflow, -2147480032, 4294960033u, 4294960034u, 4294960035u, 4294960036u);
    lttng_ust_tracepoint(rt_pool, resize, -2147480037, 4294960038u, 4294960039u);
    lttng_ust_tracepoint(rt_pool, thread_exit, -2147480040, 4294960041u);
    lttng_ust_tracepoint(rt_pool, local_sample, -2147480042, 4294960043u, 18446744073709550044u,
                         18446744073709550045u, 18446744073709550046u, 18446744073709550047u,
                         18446744073709550048u, 18446744073709550049u, "name 50");
    lttng_ust_tracepoint(rt_pool, global_sample, 4294960051u, 4294960052u, 4294960053u);
}

static void emit_coroutine(void)
{
    lttng_ust_tracepoint(rt_coroutine, create, 18446744073709550054u, -2147480055, 1);
    lttng_ust_tracepoint(rt_coroutine, enter, 18446744073709550057u, 18446744073709550058u, 4294960059u,
                         -2147480060);
    lttng_ust_tracepoint(rt_coroutine, yield, 18446744073709550061u, 18446744073709550062u, -2147480063);
    lttng_ust_tracepoint(rt_coroutine, terminate, 18446744073709550064u, -2147480065);
}

static void emit_loop(void)
{
    lttng_ust_tracepoint(rt_loop, create, 4294960066u, "name 67", -2147480068);
    lttng_ust_tracepoint(rt_loop, destroy, 4294960069u);
    lttng_ust_tracepoint(rt_loop, fd_attach, 4294960070u, 18446744073709550071u, -2147480072, 0, 4294960074u,
                         65075);
    lttng_ust_tracepoint(rt_loop, fd_detach, 4294960076u, 18446744073709550077u, -2147480078);
    lttng_ust_tracepoint(rt_loop, fd_dispatch, 4294960079u, 18446744073709550080u, -2147480081, 1);
    lttng_ust_tracepoint(rt_loop, publish, 4294960083u, -2147480084, 0);
    lttng_ust_tracepoint(rt_loop, notify, 4294960086u, -2147480087, 4294960088u, 1);
    lttng_ust_tracepoint(rt_loop, notify_me, 4294960090u, 4294960091u, 4294960092u);
    lttng_ust_tracepoint(rt_loop, notify_accept, 4294960093u, 1);
    lttng_ust_tracepoint(rt_loop, state, 4294960095u, 4294960096u, 1, 4294960098u, 1, 18446744073709550100u,
                         -9223372036854770101);
    lttng_ust_tracepoint(rt_loop, work_run, 4294960102u, 4294960103u);
    lttng_ust_tracepoint(rt_loop, hog, 4294960104u, 18446744073709550105u, 18446744073709550106u);
    lttng_ust_tracepoint(rt_loop, poll_begin, 4294960107u, -9223372036854770108, -9223372036854770109);
    lttng_ust_tracepoint(rt_loop, poll_end, 4294960110u, 1, 18446744073709550112u);
    lttng_ust_tracepoint(rt_loop, poll_adjust, 4294960113u, -9223372036854770114, -9223372036854770115,
                         18446744073709550116u);
    lttng_ust_tracepoint(rt_loop, wait_begin, 4294960117u, -9223372036854770118);
    lttng_ust_tracepoint(rt_loop, wait_end, 4294960119u, -2147480120);
    lttng_ust_tracepoint(rt_loop, sample,
                         &(struct rt_loop_sample_fields){
                             .loop_id = 4294960121u,
                             .passes = 18446744073709550122u,
                             .dispatches = 18446744073709550123u,
                             .idle_dispatches = 18446744073709550124u,
                             .notifies = 18446744073709550125u,
                             .event_writes = 18446744073709550126u,
                             .event_writes_while_polling = 18446744073709550127u,
                             .polls = 18446744073709550128u,
                             .polls_useful = 18446744073709550129u,
                             .busy_ns = 18446744073709550130u,
                             .poll_ns = 18446744073709550131u,
                             .wait_ns = 18446744073709550132u,
                         });
}

static void emit_lock(void)
{
    lttng_ust_tracepoint(rt_lock, create, 18446744073709550133u, "class_name 134", 0);
    lttng_ust_tracepoint(rt_lock, destroy, 18446744073709550136u);
    lttng_ust_tracepoint(rt_lock, wait, 18446744073709550137u, -2147480138, 18446744073709550139u,
                         -2147480140, 18446744073709550141u);
    lttng_ust_tracepoint(rt_lock, acquired, 18446744073709550142u, -2147480143, 18446744073709550144u, 1);
    lttng_ust_tracepoint(rt_lock, owner, 18446744073709550146u, -2147480147, 18446744073709550148u,
                         4294960149u);
    lttng_ust_tracepoint(rt_lock, released, 18446744073709550150u, -2147480151, 18446744073709550152u);
    lttng_ust_tracepoint(rt_lock, held_at_yield, 18446744073709550153u, -2147480154, 18446744073709550155u);
    lttng_ust_tracepoint(rt_lock, sample, 18446744073709550156u, 18446744073709550157u, 18446744073709550158u,
                         18446744073709550159u, 18446744073709550160u);
}

static void emit_dataplane(void)
{
    lttng_ust_tracepoint(vblk_dataplane, device_create, 4294960161u, "name 162", 65163, 18446744073709550164u,
                         "backend 165");
    lttng_ust_tracepoint(vblk_dataplane, device_destroy, 4294960166u);
    lttng_ust_tracepoint(vblk_dataplane, state, 4294960167u, 0, 1);
    lttng_ust_tracepoint(vblk_dataplane, notifier_assign, 4294960170u, 65171, -2147480172);
    lttng_ust_tracepoint(vblk_dataplane, notifier_release, 4294960173u, 65174, -2147480175);
    lttng_ust_tracepoint(vblk_dataplane, notifier_attach, 4294960176u, 65177, -2147480178, 4294960179u);
    lttng_ust_tracepoint(vblk_dataplane, notifier_detach, 4294960180u, 65181, -2147480182, 4294960183u);
    lttng_ust_tracepoint(vblk_dataplane, notifier_commit, 4294960184u, 65185, 1);
    lttng_ust_tracepoint(vblk_dataplane, drain_begin, 4294960187u, 4294960188u, 4294960189u, 2);
    lttng_ust_tracepoint(vblk_dataplane, drain_end, 4294960191u, 4294960192u, 4294960193u, 3);
    lttng_ust_tracepoint(vblk_dataplane, loop_change, 4294960195u, 65196, 4294960197u, 4294960198u);
}

static void emit_queue(void)
{
    lttng_ust_tracepoint(vblk_queue, notifications, 4294960199u, 65200, 1, 0);
    lttng_ust_tracepoint(vblk_queue, kick, 4294960203u, 65204);
    lttng_ust_tracepoint(vblk_queue, interrupt, 4294960205u, 65206, 1);
    lttng_ust_tracepoint(vblk_queue, sample,
                         &(struct vblk_queue_sample_fields){
                             .device_id = 4294960208u,
                             .queue_index = 65209,
                             .avail_index = 65210,
                             .popped_index = 65211,
                             .used_index = 65212,
                             .in_flight = 4294960213u,
                             .notifications_enabled = 1,
                             .kicks = 18446744073709550215u,
                             .empty_kicks = 18446744073709550216u,
                             .pops = 18446744073709550217u,
                             .completions = 18446744073709550218u,
                             .interrupts = 18446744073709550219u,
                             .suppressed_interrupts = 18446744073709550220u,
                         });
    lttng_ust_tracepoint(vblk_queue, broken, 4294960221u, 65222, -2147480223, "reason 224");
}

static void emit_request(void)
{
    lttng_ust_tracepoint(vblk_request, begin, 18446744073709550225u, 4294960226u, 65227, 65228, 0,
                         18446744073709550230u, 4294960231u, 4294960232u);
    lttng_ust_tracepoint(vblk_request, submit, 18446744073709550233u);
    lttng_ust_tracepoint(vblk_request, complete, 18446744073709550234u, -2147480235);
    lttng_ust_tracepoint(vblk_request, end, 18446744073709550236u, 1);
    lttng_ust_tracepoint(vblk_request, serialise_wait, 18446744073709550238u, 18446744073709550239u);
    lttng_ust_tracepoint(vblk_request, slow, 18446744073709550240u, 4294960241u, 65242, 1, 0,
                         18446744073709550245u, 1);
    lttng_ust_tracepoint(vblk_request, recovered, 18446744073709550247u, 4294960248u, 65249, 65250);
    lttng_ust_tracepoint(vblk_request, abandoned, 18446744073709550251u);
}

static void emit_vhost_user(void)
{
    lttng_ust_tracepoint(vhost_user, connect, 4294960252u, -2147480253);
    lttng_ust_tracepoint(vhost_user, disconnect, 4294960254u, -2147480255);
    lttng_ust_tracepoint(vhost_user, message, 4294960256u, 4294960257u, 4294960258u, 4294960259u,
                         -2147480260);
}

void emit_every_event(void)
{
    emit_process();
    emit_pool();
    emit_coroutine();
    emit_loop();
    emit_lock();
    emit_dataplane();
    emit_queue();
    emit_request();
    emit_vhost_user();
}
