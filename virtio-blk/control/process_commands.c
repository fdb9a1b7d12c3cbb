/* Commands about the process: what it is, its loops, pool and locks. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "control/answer.h"
#include "control/command.h"
#include "control/internal.h"
#include "device/status.h"
#include "rt/lock.h"
#include "rt/pool.h"
#include "rt/process.h"

json_t *vblk_command_commands(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    json_t *list = json_array();
    const struct vblk_command *command;

    for (unsigned i = 0; (command = vblk_command_at(i)); i++) {
        json_t *described = json_array();
        struct vblk_argument argument;

        for (unsigned j = 0; vblk_command_argument_at(command, j, &argument); j++) {
            json_t *one = json_pack("{s:s, s:s, s:b, s:s}", "name", argument.name, "type",
                                    vblk_argument_type_name(argument.type), "required", argument.required, "text",
                                    argument.text);

            if (argument.type == VBLK_ARGUMENT_INTEGER) {
                vblk_answer_set_number(one, "minimum", argument.min);
                vblk_answer_set_number(one, "maximum", argument.max);
            }
            json_array_append_new(described, one);
        }
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "name", command->name, "text", command->text,
                                              "arguments", described));
    }
    return json_pack("{s:o}", "commands", list);
}

/* ---- status ---- */

/* Source: VIRTIO 1.2, 5.2.3 and 6 (feature bits). */
static json_t *name_features(uint64_t features)
{
    static const struct {
        unsigned bit;
        const char *name;
    } known[] = {
        { 1, "SIZE_MAX" },     { 2, "SEG_MAX" },         { 5, "RO" },         { 6, "BLK_SIZE" },   { 9, "FLUSH" },
        { 10, "TOPOLOGY" },    { 11, "CONFIG_WCE" },     { 12, "MQ" },        { 13, "DISCARD" },
        { 14, "WRITE_ZEROES" }, { 26, "LOG_ALL" },       { 28, "INDIRECT_DESC" }, { 29, "EVENT_IDX" },
        { 30, "PROTOCOL_FEATURES" }, { 32, "VERSION_1" }, { 33, "ACCESS_PLATFORM" }, { 34, "RING_PACKED" },
        { 35, "IN_ORDER" },    { 36, "ORDER_PLATFORM" }, { 38, "NOTIFICATION_DATA" }, { 40, "RING_RESET" },
    };
    json_t *names = json_array();

    for (unsigned i = 0; i < G_N_ELEMENTS(known); i++)
        if (features & UINT64_C(1) << known[i].bit)
            json_array_append_new(names, json_string(known[i].name));
    return names;
}

static void describe_disk(const struct vblk_devices_entry *entry, void *opaque)
{
    struct vblk_device_status status;
    json_t *disk = json_object();

    vblk_device_status(entry->device, &status);
    vblk_answer_set_number(disk, "device_id", status.device_id);
    vblk_answer_set_text(disk, "name", entry->name);
    vblk_answer_set_text(disk, "socket_path", entry->socket_path);
    vblk_answer_set_text(disk, "blk_file", entry->blk_file);
    vblk_answer_set_text(disk, "backend", status.backend);
    vblk_answer_set_text(disk, "serial", status.serial);
    vblk_answer_set_number(disk, "size_bytes", status.size_bytes);
    vblk_answer_set_number(disk, "block_size_bytes", status.block_size_bytes);
    json_object_set_new(disk, "read_only", json_boolean(status.read_only));
    json_object_set_new(disk, "connected", json_boolean(status.connected));
    vblk_answer_set_text(disk, "state", status.state);
    json_object_set_new(disk, "paused", json_boolean(vblk_device_is_paused(entry->device)));
    vblk_answer_set_text(disk, "drain", entry->drained ? "drained" : entry->draining ? "draining" : "none");
    vblk_answer_set_number(disk, "drain_depth", status.drain_depth);
    vblk_answer_set_number(disk, "features", status.features);
    json_object_set_new(disk, "feature_names", name_features(status.features));
    vblk_answer_set_number(disk, "memory_regions", status.memory_region_count);
    vblk_answer_set_number(disk, "memory_bytes", status.memory_bytes);
    vblk_answer_set_number(disk, "queues", status.queue_count);
    vblk_answer_set_number(disk, "running_queues", status.running_queue_count);
    vblk_answer_set_number(disk, "in_flight", status.in_flight);
    json_array_append_new(opaque, disk);
}

static json_t *split_names(const char *names)
{
    json_t *list = json_array();
    char **all = g_strsplit(names ? names : "", ",", -1);

    for (char **name = all; *name; name++)
        json_array_append_new(list, vblk_answer_text(*name));
    g_strfreev(all);
    return list;
}

json_t *vblk_command_status(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    const struct vblk_control_options *options = &control->options;
    const char *reason = rt_process_tracing_reason();
    struct rlimit files = { 0 };
    struct rt_stack_facts facts;
    json_t *disks = json_array();

    rt_stack_facts(&facts);
    (void)getrlimit(RLIMIT_NOFILE, &files);
    vblk_devices_each(options->devices, describe_disk, disks);
    return json_pack("{s:s, s:I, s:I, s:o, s:{s:s, s:s, s:s, s:s, s:s}, s:{s:b, s:o}, s:{s:I, s:I, s:I}, s:o}",
                     "version", options->version, "pid", (json_int_t)getpid(), "uptime_ns",
                     (json_int_t)(rt_clock_ns() - control->created_ns), "faults", split_names(options->faults),
                     "policies", "coroutine_pool", rt_pool_policy_name(rt_pool_policy()), "notify",
                     rt_notify_policy_name(), "loop_monitor", rt_loop_monitor_name(), "stack_guard", facts.guard_name,
                     "request_lock", options->request_lock, "tracing", "loaded", reason == NULL, "reason",
                     vblk_answer_text(reason), "limits", "max_map_count", (json_int_t)facts.max_map_count, "mappings",
                     (json_int_t)rt_process_vma_count(), "open_files_max", (json_int_t)MIN(files.rlim_cur, INT32_MAX),
                     "disks", disks);
}

/* ---- pool ---- */

static void describe_pool_thread(const struct rt_pool_thread_stats *stats, void *opaque)
{
    json_t *thread = json_object();

    vblk_answer_set_number(thread, "thread_id", stats->thread_id);
    vblk_answer_set_text(thread, "name", stats->name);
    vblk_answer_set_number(thread, "local_size", stats->local_size);
    vblk_answer_set_number(thread, "takes", stats->takes);
    vblk_answer_set_number(thread, "gives", stats->gives);
    vblk_answer_set_number(thread, "misses", stats->misses);
    vblk_answer_set_number(thread, "refills", stats->refills);
    vblk_answer_set_number(thread, "donations", stats->donations);
    vblk_answer_set_number(thread, "overflows", stats->overflows);
    json_array_append_new(opaque, thread);
}

json_t *vblk_command_pool(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    struct rt_pool_global_stats stats;
    struct rt_stack_facts facts;
    json_t *threads = json_array(), *pool = json_object();
    uint32_t mappings = rt_process_vma_count();

    rt_pool_global_stats(&stats);
    rt_stack_facts(&facts);
    rt_pool_each_thread(describe_pool_thread, threads);
    vblk_answer_set_text(pool, "policy", rt_pool_policy_name(rt_pool_policy()));
    vblk_answer_set_number(pool, "batch_size", RT_POOL_BATCH_SIZE);
    vblk_answer_set_number(pool, "global_size", stats.global_size);
    vblk_answer_set_number(pool, "global_max", stats.global_max);
    vblk_answer_set_number(pool, "global_hard_max", stats.global_hard_max);
    vblk_answer_set_number(pool, "live_count", stats.live_count);
    vblk_answer_set_number(pool, "stack_count", stats.stack_count);
    vblk_answer_set_number(pool, "stack_vma_count", stats.stack_vma_count);
    vblk_answer_set_number(pool, "stack_bytes", facts.stack_bytes);
    vblk_answer_set_text(pool, "stack_guard", facts.guard_name);
    vblk_answer_set_number(pool, "mappings_per_1000_stacks", facts.mappings_per_1000_stacks);
    vblk_answer_set_number(pool, "vma_count", mappings);
    vblk_answer_set_number(pool, "max_map_count", facts.max_map_count);
    vblk_answer_set_number(pool, "mappings_left", facts.max_map_count > mappings ? facts.max_map_count - mappings : 0);
    json_object_set_new(pool, "threads", threads);
    return pool;
}

/* ---- loops ---- */

static const char *role_name(enum rt_fd_role role)
{
    static const char *const names[] = {
        [RT_FD_OTHER] = "other",
        [RT_FD_WAKEUP] = "wakeup",
        [RT_FD_HOST_NOTIFIER] = "host_notifier",
        [RT_FD_VHOST_USER_SOCKET] = "vhost_user_socket",
        [RT_FD_CONTROL] = "control",
        [RT_FD_COMPLETION] = "completion",
    };

    return names[role];
}

static void describe_handler(const struct rt_handler_stats *stats, void *opaque)
{
    json_t *handler = json_object();

    vblk_answer_set_number(handler, "handler_id", stats->handler_id);
    vblk_answer_set_number(handler, "fd", stats->fd);
    vblk_answer_set_text(handler, "role", role_name(stats->role));
    vblk_answer_set_number(handler, "device_id", stats->device_id);
    vblk_answer_set_number(handler, "queue", stats->queue_index);
    json_object_set_new(handler, "can_poll", json_boolean(stats->can_poll));
    vblk_answer_set_number(handler, "dispatches", stats->dispatches);
    vblk_answer_set_number(handler, "idle_dispatches", stats->idle_dispatches);
    vblk_answer_set_number(handler, "poll_dispatches", stats->poll_dispatches);
    json_array_insert_new(opaque, 0, handler); /* they come newest first */
}

/* How answers and arguments tell of a loop that never sleeps, while a front end is there. */
#define NEVER_SLEEPS (-1)

static void describe_loop(struct rt_loop *loop, void *opaque)
{
    struct rt_loop_stats stats;
    int64_t poll_max_ns = rt_loop_poll_max_ns(loop);
    json_t *described = json_object(), *handlers = json_array();

    rt_loop_stats(loop, &stats);
    vblk_answer_set_number(described, "loop_id", rt_loop_id(loop));
    vblk_answer_set_text(described, "name", rt_loop_name(loop));
    vblk_answer_set_number(described, "thread_id", rt_loop_thread_id(loop));
    json_object_set_new(described, "poll_max_ns", json_integer(poll_max_ns == RT_WHILE_ATTACHED ? NEVER_SLEEPS : poll_max_ns));
    vblk_answer_set_number(described, "passes", stats.passes);
    vblk_answer_set_number(described, "dispatches", stats.dispatches);
    vblk_answer_set_number(described, "idle_dispatches", stats.idle_dispatches);
    vblk_answer_set_number(described, "notifies", stats.notifies);
    vblk_answer_set_number(described, "event_writes", stats.event_writes);
    vblk_answer_set_number(described, "event_writes_while_polling", stats.event_writes_while_polling);
    vblk_answer_set_number(described, "event_reads", stats.event_reads);
    vblk_answer_set_number(described, "polls", stats.polls);
    vblk_answer_set_number(described, "polls_useful", stats.polls_useful);
    vblk_answer_set_number(described, "busy_ns", stats.busy_ns);
    vblk_answer_set_number(described, "poll_ns", stats.poll_ns);
    vblk_answer_set_number(described, "wait_ns", stats.wait_ns);
    rt_loop_each_handler(loop, describe_handler, handlers);
    json_object_set_new(described, "handlers", handlers);
    json_array_insert_new(opaque, 0, described);
}

json_t *vblk_command_loops(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    json_t *loops = json_array();

    rt_loop_each(describe_loop, loops);
    return json_pack("{s:o}", "loops", loops);
}

struct poll_setting {
    const struct vblk_control *control;
    const char *name; /* NULL: every IOThread's */
    int64_t max_ns;
    json_t *names;
};

static void set_poll(struct rt_loop *loop, void *opaque)
{
    struct poll_setting *setting = opaque;

    if (setting->name ? strcmp(rt_loop_name(loop), setting->name) != 0 : loop == setting->control->options.main_loop)
        return;
    rt_loop_set_poll(loop, setting->max_ns == NEVER_SLEEPS ? RT_WHILE_ATTACHED : setting->max_ns);
    json_array_insert_new(setting->names, 0, vblk_answer_text(rt_loop_name(loop)));
}

json_t *vblk_command_set_poll(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    struct poll_setting setting = {
        .control = control,
        .name = json_string_value(json_object_get(arguments, "loop")),
        .max_ns = json_integer_value(json_object_get(arguments, "max_ns")),
        .names = json_array(),
    };

    rt_loop_each(set_poll, &setting);
    if (json_array_size(setting.names) == 0) {
        json_decref(setting.names);
        *message_out = g_strdup_printf("%s: there is no loop of that name (the command loops lists them)", setting.name);
        return NULL;
    }
    return json_pack("{s:I, s:o}", "max_ns", (json_int_t)setting.max_ns, "loops", setting.names);
}

/* ---- locks ---- */

static void describe_lock_class(const struct rt_lock_class_stats *stats, void *opaque)
{
    json_t *locks = json_object();

    vblk_answer_set_text(locks, "class_name", stats->class_name);
    vblk_answer_set_text(locks, "kind", stats->kind == RT_LOCK_THREAD_MUTEX ? "thread_mutex" : "coroutine_mutex");
    vblk_answer_set_number(locks, "lock_count", stats->lock_count);
    vblk_answer_set_number(locks, "waiter_count", stats->waiter_count);
    vblk_answer_set_number(locks, "acquisitions", stats->acquisitions);
    vblk_answer_set_number(locks, "contentions", stats->contentions);
    vblk_answer_set_number(locks, "wait_ns", stats->wait_ns);
    vblk_answer_set_number(locks, "hold_ns", stats->hold_ns);
    vblk_answer_set_number(locks, "contended_lock_id", stats->contended_lock_id);
    vblk_answer_set_number(locks, "contended_ns", stats->contended_ns);
    vblk_answer_set_number(locks, "owner_thread_id", stats->owner_thread_id);
    vblk_answer_set_number(locks, "owner_coroutine_id", stats->owner_coroutine_id);
    json_array_append_new(opaque, locks);
}

json_t *vblk_command_locks(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    json_t *locks = json_array();

    rt_lock_each_class(describe_lock_class, locks);
    return json_pack("{s:o}", "locks", locks);
}

json_t *vblk_command_trace_baseline(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    if (rt_process_tracing_reason()) {
        *message_out = g_strdup_printf("nothing can be traced: %s", rt_process_tracing_reason());
        return NULL;
    }
    rt_process_request_baseline();
    return json_object();
}
