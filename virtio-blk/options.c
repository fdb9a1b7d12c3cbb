#include "options.h"

#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "operation/service.h"
#include "rt/loop.h"
#include "server/disk_keys.h"

/* README.md, "Waking and polling". */
#define POLL_MAX_NS_DEFAULT 200000
#define NBD_RECONNECT_S_DEFAULT 30

/* What the command line says as text, before it is checked. */
struct raw_options {
    char *socket_path, *blk_file, *num_queues, *iothreads, *serial, *block_size, *cache, *poll_max_ns, *stack_guard;
    char *coroutine_pool, *loop_monitor, *notify, *request_lock, *on_disk_error, *nbd_reconnect, *name, *socket_mode, *socket_group, *fd, *user, *sandbox;
    char *control_path;
    char **disks, **faults, **injections;
    gboolean read_only, incoming, busy_poll, print_capabilities, version, no_tracing;
};

/* Print one line and say "usage". */
static int usage(const char *format, ...) G_GNUC_PRINTF(1, 2);

static int usage(const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    fprintf(stderr, "vblkd: %s\n", text);
    g_free(text);
    return 2;
}

static bool parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *number_out)
{
    return g_ascii_string_to_unsigned(text, 10, min, max, number_out, NULL);
}

/* -1: fine. Else the exit status, @why told and freed. */
static int refuse(char *why)
{
    int status = why ? usage("%s", why) : -1;

    g_free(why);
    return status;
}

static int parse_faults(char **names, unsigned *faults_out)
{
    for (char **name = names; name && *name; name++) {
        unsigned fault = vblk_fault_by_name(*name);

        if (fault == 0) {
            char *known = vblk_fault_known();
            int status = usage("--fault=%s: unknown; known are: %s", *name, known);

            g_free(known);
            return status;
        }
        *faults_out |= fault;
    }
    return -1;
}

/* Everything but the disks. */
static int check_process(const struct raw_options *raw, struct vblkd_options *options)
{
    uint64_t number;

    options->iothread_count = 1;
    if (raw->iothreads) {
        if (!parse_number(raw->iothreads, 1, VBLKD_IOTHREADS_MAX, &number))
            return usage("--iothreads=%s: must be 1 to %d", raw->iothreads, VBLKD_IOTHREADS_MAX);
        options->iothread_count = number;
    }
    options->poll_max_ns = POLL_MAX_NS_DEFAULT;
    if (raw->poll_max_ns) {
        if (raw->busy_poll)
            return usage("--poll-max-ns and --busy-poll exclude each other");
        if (!parse_number(raw->poll_max_ns, 0, INT64_C(1000000000), &number))
            return usage("--poll-max-ns=%s: must be 0 to 1000000000 nanoseconds", raw->poll_max_ns);
        options->poll_max_ns = number;
    }
    if (raw->busy_poll)
        options->poll_max_ns = RT_WHILE_ATTACHED;
    if (raw->loop_monitor) {
        if (strcmp(raw->loop_monitor, "epoll") == 0)
            options->loop_policies.monitor = RT_LOOP_MONITOR_EPOLL;
        else if (strcmp(raw->loop_monitor, "io_uring") == 0)
            options->loop_policies.monitor = RT_LOOP_MONITOR_IO_URING;
        else
            return usage("--loop-monitor=%s: must be epoll or io_uring", raw->loop_monitor);
    }
    if (raw->notify) {
        if (strcmp(raw->notify, "blocking-only") == 0)
            options->loop_policies.notify = RT_NOTIFY_BLOCKING_ONLY;
        else if (strcmp(raw->notify, "always") == 0)
            options->loop_policies.notify = RT_NOTIFY_ALWAYS;
        else
            return usage("--notify=%s: must be blocking-only or always", raw->notify);
    }
    options->stack_guard = RT_STACK_GUARD_AUTO;
    if (raw->stack_guard && strcmp(raw->stack_guard, "auto") != 0) {
        if (strcmp(raw->stack_guard, "lightweight") == 0)
            options->stack_guard = RT_STACK_GUARD_LIGHTWEIGHT;
        else if (strcmp(raw->stack_guard, "mprotect") == 0)
            options->stack_guard = RT_STACK_GUARD_MPROTECT;
        else
            return usage("--stack-guard=%s: must be auto, lightweight or mprotect", raw->stack_guard);
    }
    options->request_lock = raw->request_lock ? vblk_request_lock_find(raw->request_lock) : vblk_request_lock_at(0);
    if (!options->request_lock)
        return usage("--request-lock=%s: must be sharded, thread or coroutine", raw->request_lock);
    options->coroutine_pool = RT_POOL_BATCHED;
    if (raw->coroutine_pool) {
        const char *name;
        unsigned policy = 0;

        while ((name = rt_pool_policy_name(policy)) && strcmp(raw->coroutine_pool, name) != 0)
            policy++;
        if (!name)
            return usage("--coroutine-pool=%s: must be batched, per-thread or none", raw->coroutine_pool);
        options->coroutine_pool = policy;
    }
    options->instant_on_loop = !raw->request_lock && !raw->coroutine_pool && !raw->stack_guard;
    options->tracing = !raw->no_tracing;
    if (raw->control_path && *raw->control_path == '\0')
        return usage("--control-path: empty (say where to listen)");
    options->control_path = raw->control_path;
    options->user = raw->user;
    options->sandbox = VBLKD_SANDBOX_AUTO;
    if (raw->sandbox && strcmp(raw->sandbox, "auto") != 0) {
        if (strcmp(raw->sandbox, "on") != 0 && strcmp(raw->sandbox, "off") != 0)
            return usage("--sandbox=%s: must be auto, on or off", raw->sandbox);
        options->sandbox = strcmp(raw->sandbox, "on") == 0 ? VBLKD_SANDBOX_ON : VBLKD_SANDBOX_OFF;
    }
    int status = parse_faults(raw->faults, &options->faults);
    options->loop_policies.faults = vblk_fault_of_loops(options->faults);
    if (status < 0 && options->loop_policies.faults && options->loop_policies.notify == RT_NOTIFY_ALWAYS)
        return usage("--notify=always has not what the faults suppress-before-publish and no-recheck spoil: leave it out");
    return status;
}

/* A service manager's socket: the one of the disk's name, or the only one for the only disk. */
static void take_socket(struct vblk_device_options *disk, bool is_only)
{
    if (disk->socket_path || disk->fd >= 0)
        return;
    if (disk->name)
        disk->fd = vblk_service_take_socket(disk->name);
    if (disk->fd < 0 && is_only)
        disk->fd = vblk_service_take_socket(NULL);
}

static int check_disks(const struct raw_options *raw, struct vblkd_options *options, GPtrArray *strings)
{
    const struct vblk_device_options defaults = { .fd = -1,
                                                  .queue_count = VBLK_QUEUES_MAX,
                                                  .block_size_bytes = 512,
                                                  .socket_mode = -1,
                                                  .instant_on_loop = options->instant_on_loop,
                                                  .nbd_reconnect_s = NBD_RECONNECT_S_DEFAULT,
                                                  .request_lock = options->request_lock,
                                                  .faults = options->faults };
    char *injections = raw->injections ? g_strjoinv(";", raw->injections) : NULL;
    const struct {
        const char *key, *value;
    } plain[] = {
        { "socket-path", raw->socket_path }, { "fd", raw->fd },
        { "blk-file", raw->blk_file },       { "name", raw->name },
        { "num-queues", raw->num_queues },   { "serial", raw->serial },
        { "block-size", raw->block_size },   { "cache", raw->cache },
        { "socket-mode", raw->socket_mode }, { "socket-group", raw->socket_group },
        { "read-only", raw->read_only ? "on" : NULL },
        { "incoming", raw->incoming ? "on" : NULL },
        { "inject", injections },
        { "on-disk-error", raw->on_disk_error },
        { "nbd-reconnect", raw->nbd_reconnect },
    };
    /* The plain options describe the first disk if one of them names it. */
    bool has_plain = raw->blk_file || raw->socket_path || raw->fd || (!raw->disks && !raw->control_path);
    unsigned more = raw->disks ? g_strv_length(raw->disks) : 0;
    struct vblk_device_options base = defaults;
    int status = -1;

    if (injections)
        g_ptr_array_add(strings, injections);
    for (unsigned i = 0; i < G_N_ELEMENTS(plain) && status < 0; i++)
        if (plain[i].value)
            status = refuse(vblk_disk_keys_set(&base, plain[i].key, plain[i].value));
    /* What all share; what names one disk is not shared. */
    options->disk_defaults = base;
    options->disk_defaults.socket_path = options->disk_defaults.blk_file = NULL;
    options->disk_defaults.name = options->disk_defaults.serial = NULL;
    options->disk_defaults.fd = -1;
    options->disks = g_new0(struct vblk_device_options, more + 1);
    if (status < 0 && has_plain) {
        take_socket(&base, more == 0);
        options->disks[options->disk_count++] = base;
        status = refuse(vblk_disk_keys_check(&base));
    }
    for (unsigned i = 0; i < more && status < 0; i++) {
        struct vblk_device_options *disk = &options->disks[options->disk_count++];

        *disk = options->disk_defaults;
        status = refuse(vblk_disk_keys_parse(disk, raw->disks[i], strings));
        if (status < 0) {
            take_socket(disk, more == 1 && !has_plain);
            status = refuse(vblk_disk_keys_check(disk));
        }
    }
    for (unsigned i = 0; i < options->disk_count && status < 0; i++)
        for (unsigned j = 0; j < i && status < 0; j++)
            if (g_strcmp0(options->disks[i].socket_path, options->disks[j].socket_path) == 0 &&
                options->disks[i].fd == options->disks[j].fd)
                status = options->disks[i].socket_path
                             ? usage("%s: the same socket for two disks", options->disks[i].socket_path)
                             : usage("--fd=%d: the same socket for two disks", options->disks[i].fd);
    return status;
}

/* What a management tool asks before it starts us. Source: QEMU's "backend program conventions". */
static void print_capabilities(void)
{
    puts("{\n  \"type\": \"block\",\n  \"features\": [\n    \"read-only\",\n    \"blk-file\"\n  ]\n}");
}

static void raw_clear(struct raw_options *raw)
{
    char **texts[] = { &raw->socket_path, &raw->blk_file, &raw->num_queues, &raw->iothreads, &raw->serial,
                       &raw->block_size, &raw->cache, &raw->poll_max_ns, &raw->loop_monitor, &raw->notify,
                       &raw->stack_guard,
                       &raw->coroutine_pool, &raw->request_lock, &raw->on_disk_error, &raw->nbd_reconnect, &raw->name, &raw->socket_mode, &raw->socket_group, &raw->fd,
                       &raw->user, &raw->sandbox, &raw->control_path };

    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++)
        g_free(*texts[i]);
    g_strfreev(raw->disks);
    g_strfreev(raw->faults);
    g_strfreev(raw->injections);
}

struct held_options {
    struct vblkd_options options; /* first */
    struct raw_options raw;       /* strings that the options point to */
    GPtrArray *strings;
};

void vblkd_options_free(struct vblkd_options *options)
{
    struct held_options *held = (struct held_options *)options;

    if (!options)
        return;
    g_free(options->disks);
    raw_clear(&held->raw);
    g_ptr_array_unref(held->strings);
    g_free(held);
}

int vblkd_options_parse(int argc, char **argv, struct vblkd_options **options_out)
{
    struct held_options *held = g_new0(struct held_options, 1);
    struct raw_options *raw = &held->raw;
    const GOptionEntry entries[] = {
        { "socket-path", 0, 0, G_OPTION_ARG_FILENAME, &raw->socket_path, "Listen for the front end at PATH", "PATH" },
        { "fd", 0, 0, G_OPTION_ARG_STRING, &raw->fd, "Use descriptor N: a connected or a listening socket", "N" },
        { "blk-file", 0, 0, G_OPTION_ARG_FILENAME, &raw->blk_file,
          "Serve DISK: a file, a block device, null:SIZE, or nbd:URI", "DISK" },
        { "read-only", 'r', 0, G_OPTION_ARG_NONE, &raw->read_only, "The driver may not write", NULL },
        { "incoming", 0, 0, G_OPTION_ARG_NONE, &raw->incoming,
          "The guest comes by migration: take the disk when that starts, and not now", NULL },
        { "num-queues", 0, 0, G_OPTION_ARG_STRING, &raw->num_queues, "Queues to offer (default: 64)", "N" },
        { "iothreads", 0, 0, G_OPTION_ARG_STRING, &raw->iothreads, "Threads that run queues (default: 1)", "N" },
        { "serial", 0, 0, G_OPTION_ARG_STRING, &raw->serial,
          "Serial number, up to 20 bytes (default: the end of the name)", "TEXT" },
        { "block-size", 0, 0, G_OPTION_ARG_STRING, &raw->block_size,
          "Block size shown to the driver, 512 or 4096 (default: 512)", "BYTES" },
        { "cache", 0, 0, G_OPTION_ARG_STRING, &raw->cache,
          "writeback (the page cache) or none (direct I/O) (default: writeback)", "MODE" },
        { "disk", 0, 0, G_OPTION_ARG_STRING_ARRAY, &raw->disks,
          "One more disk: socket-path=PATH,blk-file=DISK,num-queues=N,...; repeatable", "KEYS" },
        { "nbd-reconnect", 0, 0, G_OPTION_ARG_STRING, &raw->nbd_reconnect,
          "How long requests wait for an NBD server that is lost; 0: they fail at once (default: 30)", "SECONDS" },
        { "on-disk-error", 0, 0, G_OPTION_ARG_STRING, &raw->on_disk_error,
          "Tell the driver when the disk fails, or wait until it is resumed: report or stop (default: report)", "ACTION" },
        { "inject", 0, 0, G_OPTION_ARG_STRING_ARRAY, &raw->injections,
          "Delay, reorder or fail requests for an experiment: delay-us=N,reorder=PERCENT,error=PERCENT,...; repeatable",
          "RULE" },
        { "name", 0, 0, G_OPTION_ARG_STRING, &raw->name, "Name in messages and traces (default: the socket path)",
          "NAME" },
        { "socket-mode", 0, 0, G_OPTION_ARG_STRING, &raw->socket_mode, "Mode of the socket, octal", "MODE" },
        { "socket-group", 0, 0, G_OPTION_ARG_STRING, &raw->socket_group, "Group of the socket", "GROUP" },
        { "control-path", 0, 0, G_OPTION_ARG_FILENAME, &raw->control_path,
          "Answer control commands at PATH (vblkscope ctl; vblkd-control(7))", "PATH" },
        { "poll-max-ns", 0, 0, G_OPTION_ARG_STRING, &raw->poll_max_ns,
          "Longest busy polling before a thread sleeps, 0 for none (default: 200000)", "N" },
        { "busy-poll", 0, 0, G_OPTION_ARG_NONE, &raw->busy_poll, "Never sleep while a front end is there: each IOThread takes a core", NULL },
        { "loop-monitor", 0, 0, G_OPTION_ARG_STRING, &raw->loop_monitor,
          "What watches descriptors: epoll or io_uring (default: epoll)", "MONITOR" },
        { "notify", 0, 0, G_OPTION_ARG_STRING, &raw->notify,
          "Wake threads by a system call only while they may sleep, or always: blocking-only, always "
          "(default: blocking-only)", "POLICY" },
        { "stack-guard", 0, 0, G_OPTION_ARG_STRING, &raw->stack_guard,
          "What guards stacks: auto, lightweight or mprotect (default: auto)", "KIND" },
        { "request-lock", 0, 0, G_OPTION_ARG_STRING, &raw->request_lock,
          "What guards a disk's tracked requests: sharded, thread or coroutine (default: sharded)", "KIND" },
        { "coroutine-pool", 0, 0, G_OPTION_ARG_STRING, &raw->coroutine_pool,
          "Where idle coroutines wait: batched, per-thread or none (default: batched)", "POLICY" },
        { "no-tracing", 0, 0, G_OPTION_ARG_NONE, &raw->no_tracing, "Do not load the tracepoint provider", NULL },
        { "user", 0, 0, G_OPTION_ARG_STRING, &raw->user, "Become that user before anything is opened (from root)", "NAME" },
        { "sandbox", 0, 0, G_OPTION_ARG_STRING, &raw->sandbox,
          "Limit system calls to those that a device needs: auto, on or off (default: auto)", "MODE" },
        { "fault", 0, 0, G_OPTION_ARG_STRING_ARRAY, &raw->faults,
          "Bring back a historical mistake, to see its trace; repeatable", "NAME" },
        { "print-capabilities", 0, 0, G_OPTION_ARG_NONE, &raw->print_capabilities,
          "Print what management tools ask for, as JSON, and exit", NULL },
        { "version", 0, 0, G_OPTION_ARG_NONE, &raw->version, "Print the version and exit", NULL },
        { NULL },
    };
    GOptionContext *context = g_option_context_new("- serve disks as vhost-user-blk devices");
    char **arguments = g_strdupv(argv);
    GError *error = NULL;
    int status;

    (void)argc;
    held->strings = g_ptr_array_new_with_free_func(g_free);
    g_option_context_add_main_entries(context, entries, NULL);
    g_option_context_set_description(context, "Exit status: 0 after a clean stop, 1 failed, 2 usage. See vblkd(1).");
    if (!g_option_context_parse_strv(context, &arguments, &error)) {
        status = usage("%s (see --help)", error->message);
        g_error_free(error);
    } else if (arguments[1]) {
        status = usage("%s: unexpected argument (see --help)", arguments[1]);
    } else if (raw->version) {
        puts("vblkd " VBLKSCOPE_VERSION);
        status = 0;
    } else if (raw->print_capabilities) {
        print_capabilities();
        status = 0;
    } else {
        status = check_process(raw, &held->options);
        if (status < 0)
            status = check_disks(raw, &held->options, held->strings);
    }
    g_strfreev(arguments);
    g_option_context_free(context);
    if (status < 0)
        *options_out = &held->options;
    else
        vblkd_options_free(&held->options);
    return status;
}
