/* vblkd: serves disks as vhost-user-blk devices. Main thread: sockets, signals, start and stop; IOThreads: queues. */
#include <errno.h>
#include <glib.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "control/control.h"
#include "device/device.h"
#include "log/log.h"
#include "operation/confine.h"
#include "operation/service.h"
#include "options.h"
#include "rt/coroutine.h"
#include "rt/iothread.h"
#include "rt/loop.h"
#include "rt/pool.h"
#include "rt/process.h"
#include "server/devices.h"

struct server {
    const struct vblkd_options *options;
    struct rt_loop *main_loop;
    struct rt_iothread **iothreads;
    struct rt_loop **loops;
    unsigned iothread_count;
    struct vblk_devices *devices;
    struct vblk_control *control;
    char *fault_names; /* what the process says about itself in every baseline */
    int signal_fd;
    struct rt_handler *signal_handler;
    bool stopping;
};

static void stop_co(void *opaque)
{
    struct server *server = opaque;

    vblk_control_stop(server->control);
    vblk_devices_destroy_co(server->devices);
    vblk_control_destroy_co(server->control);
    rt_loop_quit(server->main_loop);
}

/* Coroutines can be had for this: the pool's hard maximum bounds idle stacks, not live ones. */
static void stop(void *opaque)
{
    struct server *server = opaque;
    struct rt_coroutine *co;

    if (server->stopping)
        return;
    server->stopping = true;
    vblk_service_stopping();
    vblk_service_unwatch(); /* a drain takes what it takes; TimeoutStopSec= bounds it */
    co = rt_coroutine_create(stop_co, server);
    if (!co) {
        char hint[256];

        vblk_log(NULL, VBLK_LOG_ERROR, "cannot stop cleanly: %s", rt_stack_error_hint(hint, sizeof(hint)));
        _exit(1);
    }
    rt_coroutine_enter(co);
}

static bool signal_ready(void *opaque)
{
    struct server *server = opaque;
    struct signalfd_siginfo info;

    if (read(server->signal_fd, &info, sizeof(info)) != sizeof(info))
        return false;
    vblk_log(NULL, VBLK_LOG_INFO, "%s: draining and stopping", strsignal(info.ssi_signo));
    stop(server);
    return true;
}

/* The last front end on a socket that was handed over connected has left: nobody else can come. */
static void devices_ended(void *opaque)
{
    struct server *server = opaque;

    if (rt_loop_post(server->main_loop, stop, server) < 0)
        rt_loop_quit(server->main_loop);
}

static int watch_signals(struct server *server)
{
    static const struct rt_fd_callbacks callbacks = { .ready = signal_ready };
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    /* Before any thread starts, so that all inherit the mask. */
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    server->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (server->signal_fd < 0)
        return -errno;
    return rt_loop_attach_fd(server->main_loop, server->signal_fd, RT_FD_CONTROL, 0, 0, &callbacks, server,
                             &server->signal_handler);
}

static int start_iothreads(struct server *server)
{
    unsigned count = server->options->iothread_count;

    server->iothreads = g_new0(struct rt_iothread *, count);
    server->loops = g_new0(struct rt_loop *, count);
    for (unsigned i = 0; i < count; i++) {
        char name[24]; /* the kernel shows 15 of them */
        int error;

        snprintf(name, sizeof(name), "iothread%u", i);
        error = rt_iothread_create(name, server->options->poll_max_ns, &server->iothreads[i]);
        if (error < 0) {
            vblk_log(NULL, VBLK_LOG_ERROR, "%s: cannot start the thread: %s (try fewer --iothreads)", name,
                     g_strerror(-error));
            return error;
        }
        server->loops[i] = rt_iothread_loop(server->iothreads[i]);
        server->iothread_count++;
    }
    return 0;
}

static int report(int error, char *message)
{
    if (error < 0)
        vblk_log(NULL, VBLK_LOG_ERROR, "%s", message ? message : g_strerror(-error));
    g_free(message);
    return error;
}

static int create_devices(struct server *server)
{
    const struct vblk_devices_options options = { .main_loop = server->main_loop,
                                                  .loops = server->loops,
                                                  .loop_count = server->iothread_count,
                                                  .ended = devices_ended,
                                                  .opaque = server };
    int error = 0;

    server->devices = vblk_devices_create(&options);
    for (unsigned i = 0; i < server->options->disk_count && error == 0; i++) {
        char *message = NULL;

        error = vblk_devices_add(server->devices, &server->options->disks[i], &message);
        error = report(error, message); /* apart: arguments are evaluated in any order */
    }
    return error;
}

static int create_control(struct server *server)
{
    const char *path = server->options->control_path;
    const struct vblk_control_options options = { .path = path,
                                                  .fd = path ? -1 : vblk_service_take_socket("control"),
                                                  .main_loop = server->main_loop,
                                                  .devices = server->devices,
                                                  .disk_defaults = &server->options->disk_defaults,
                                                  .version = VBLKSCOPE_VERSION,
                                                  .faults = server->fault_names,
                                                  .request_lock = server->options->request_lock->name };
    char *message = NULL;
    int error;

    if (!options.path && options.fd < 0)
        return 0;
    error = vblk_control_create(&options, &server->control, &message);
    return report(error, message);
}

static void add_coroutines(const struct vblk_devices_entry *entry, void *opaque)
{
    *(uint64_t *)opaque += vblk_device_coroutines_max(entry->device);
}

/* Every stack that all rings may need at once, against what the kernel lets one process map. */
static void warn_about_mappings(const struct server *server)
{
    struct rt_stack_facts facts;
    uint64_t stacks = 0, mappings;

    rt_stack_facts(&facts);
    vblk_devices_each(server->devices, add_coroutines, &stacks);
    mappings = stacks * facts.mappings_per_1000_stacks / 1000;
    /* Half is left to libraries, guest memory and what idles in pools. */
    if (facts.max_map_count != RT_POOL_NO_LIMIT && mappings > facts.max_map_count / 2)
        vblk_log(NULL, VBLK_LOG_WARNING,
                 "vm.max_map_count is %u, and the disks' %" G_GUINT64_FORMAT " requests may need %" G_GUINT64_FORMAT
                 " mappings for their stacks: set it to %" G_GUINT64_FORMAT " (sysctl -w vm.max_map_count=%" G_GUINT64_FORMAT
                 "), or use fewer queues",
                 facts.max_map_count, stacks, mappings, 2 * mappings, 2 * mappings);
}

static void say_ready(const struct server *server)
{
    char status[64];
    unsigned left = vblk_service_sockets_left();

    for (unsigned i = 0; i < server->options->disk_count; i++) {
        const struct vblk_device_options *disk = &server->options->disks[i];

        if (disk->socket_path)
            vblk_log(NULL, VBLK_LOG_INFO, "%s: ready, serving %s with %u queues", disk->socket_path, disk->blk_file,
                     disk->queue_count);
        else
            vblk_log(NULL, VBLK_LOG_INFO, "descriptor %d: ready, serving %s with %u queues", disk->fd,
                     disk->blk_file, disk->queue_count);
        if (disk->on_disk_error == VBLK_DISK_ERROR_STOP && !server->control)
            vblk_log(NULL, VBLK_LOG_WARNING, "%s: after a disk error it waits for the command resume, and there is no socket "
                     "for it: say --control-path", disk->blk_file);
    }
    if (left > 0)
        vblk_log(NULL, VBLK_LOG_WARNING, "%u sockets of the service are not used: name disks after them (--name as "
                 "FileDescriptorName=)", left);
    if (server->control)
        vblk_log(NULL, VBLK_LOG_INFO, "%s: the control socket answers",
                 server->options->control_path ? server->options->control_path : "the service's socket control");
    snprintf(status, sizeof(status), "serving %u disk%s", server->options->disk_count,
             server->options->disk_count == 1 ? "" : "s");
    vblk_service_ready(status);
}

static void watch_loops(const struct server *server)
{
    struct rt_loop **loops = g_new(struct rt_loop *, server->iothread_count + 1);

    memcpy(loops, server->loops, server->iothread_count * sizeof(*loops));
    loops[server->iothread_count] = server->main_loop;
    vblk_service_watch(loops, server->iothread_count + 1);
    g_free(loops);
}

static int start_process(struct server *server)
{
    const struct vblkd_options *options = server->options;
    struct rt_process_options process = { .version = VBLKSCOPE_VERSION,
                                          .faults = server->fault_names = vblk_fault_names(options->faults),
                                          .request_lock = options->request_lock->name,
                                          .tracing = options->tracing };
    int error = rt_process_start(&process);

    if (error < 0)
        vblk_log(NULL, VBLK_LOG_ERROR, "cannot start the sampler thread: %s", g_strerror(-error));
    else if (options->tracing && rt_process_tracing_reason())
        vblk_log(NULL, VBLK_LOG_INFO, "continuing without tracing: %s", rt_process_tracing_reason());
    if (options->faults)
        vblk_log(NULL, VBLK_LOG_WARNING, "running with the mistakes %s on purpose: not for real data",
                 server->fault_names);
    return error;
}

static void end(struct server *server)
{
    for (unsigned i = 0; i < server->iothread_count; i++)
        rt_iothread_destroy(server->iothreads[i]);
    if (server->signal_handler)
        rt_loop_detach_fd(server->signal_handler);
    if (server->signal_fd >= 0)
        close(server->signal_fd);
    rt_process_stop();
    g_free(server->fault_names);
    rt_loop_destroy(server->main_loop);
    g_free(server->loops);
    g_free(server->iothreads);
}

/* What holds for the whole process, before anything uses it. */
static int choose_policies(const struct vblkd_options *options)
{
    int error = rt_stack_configure(options->stack_guard, 0);

    if (error == -EOPNOTSUPP) {
        vblk_log(NULL, VBLK_LOG_ERROR, "--stack-guard=lightweight: this kernel has none (Linux 6.13 and later): use "
                 "mprotect");
        return error;
    }
    if (error < 0) {
        vblk_log(NULL, VBLK_LOG_ERROR, "cannot try out stack guards in a child process: %s", g_strerror(-error));
        return error;
    }
    error = rt_loop_configure(&options->loop_policies);
    if (error < 0) {
        vblk_log(NULL, VBLK_LOG_ERROR, "--loop-monitor=io_uring: %s (%s)", rt_loop_monitor_hint(error),
                 g_strerror(-error));
        return error;
    }
    error = rt_pool_configure(options->coroutine_pool);
    if (error == 0)
        error = rt_stack_report_overflow();
    if (error < 0)
        vblk_log(NULL, VBLK_LOG_ERROR, "cannot prepare coroutines: %s", g_strerror(-error));
    return error;
}

/* The sanitizers' own doing, a look at their own process from a child and a symboliser to start, is what the filter is against. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANDBOX_BY_DEFAULT false
#else
#define SANDBOX_BY_DEFAULT true
#endif

/* Before there is a second thread or anything is opened. */
static int confine(const struct vblkd_options *options)
{
    char *message = NULL;
    int error = vblk_confine_privileges(options->user, &message);

    if (error == 0 && (options->sandbox == VBLKD_SANDBOX_ON || (options->sandbox == VBLKD_SANDBOX_AUTO && SANDBOX_BY_DEFAULT))) {
        error = vblk_confine_system_calls(&message);
        if (error < 0 && options->sandbox == VBLKD_SANDBOX_AUTO) {
            vblk_log(NULL, VBLK_LOG_WARNING, "continuing without: %s", message);
            g_clear_pointer(&message, g_free);
            error = 0;
        }
    }
    if (error < 0)
        vblk_log(NULL, VBLK_LOG_ERROR, "%s", message);
    g_free(message);
    return error;
}

static int serve(const struct vblkd_options *options)
{
    struct server server = { .options = options, .signal_fd = -1 };
    int error = choose_policies(options);

    if (error == 0)
        error = confine(options);
    if (error < 0)
        return 1;
    error = rt_loop_create("main", &server.main_loop);
    if (error < 0) {
        vblk_log(NULL, VBLK_LOG_ERROR, "cannot make the main loop: %s (%s)", g_strerror(-error),
                 error == -ENOMEM ? "more memory: ulimit -v" : "more descriptors: ulimit -n");
        return 1;
    }
    rt_loop_bind(server.main_loop);
    error = watch_signals(&server);
    if (error < 0)
        vblk_log(NULL, VBLK_LOG_ERROR, "cannot watch signals: %s", g_strerror(-error));
    if (error == 0)
        error = start_process(&server);
    if (error == 0)
        error = start_iothreads(&server);
    if (error == 0)
        error = create_devices(&server);
    if (error == 0)
        error = create_control(&server);
    if (error == 0) {
        warn_about_mappings(&server);
        say_ready(&server);
        watch_loops(&server);
    } else {
        stop(&server);
    }
    rt_loop_run(server.main_loop);
    end(&server);
    return error < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct vblkd_options *options;
    int status;

    setlocale(LC_CTYPE, ""); /* else glib prints ? for what is not ASCII, its own dots and quotes included */
    status = vblkd_options_parse(argc, argv, &options);
    if (status >= 0)
        return status;
    status = serve(options);
    vblkd_options_free(options);
    return status;
}
