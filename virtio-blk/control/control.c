#include "control/control.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/internal.h"
#include "log/log.h"

#define SOCKET_MODE 0600
/* How long nobody is accepted when descriptors or memory have run out. */
#define ACCEPT_PAUSE_NS INT64_C(1000000000)

static bool listener_ready(void *opaque);

static int watch_listener(struct vblk_control *control)
{
    static const struct rt_fd_callbacks callbacks = { .ready = listener_ready };

    return rt_loop_attach_fd(control->options.main_loop, control->listener.fd, RT_FD_CONTROL, 0, 0, &callbacks, control,
                             &control->listen_handler);
}

static void unwatch_listener(struct vblk_control *control)
{
    if (control->listen_handler)
        rt_loop_detach_fd(control->listen_handler);
    control->listen_handler = NULL;
}

/* A backlog that cannot be accepted would be reported in every pass. */
static void pause_accepting(struct vblk_control *control, int error)
{
    vblk_log(NULL, VBLK_LOG_ERROR, "control socket: cannot accept a client: %s (trying again)", g_strerror(-error));
    unwatch_listener(control);
    rt_timer_arm(control->accept_again, rt_clock_ns() + ACCEPT_PAUSE_NS);
}

static void accept_again(void *opaque)
{
    struct vblk_control *control = opaque;
    int error = watch_listener(control);

    if (error < 0)
        pause_accepting(control, error);
}

static void turn_away(int fd)
{
    static const char answer[] = "{\"error\": {\"message\": \"there are too many clients (close some of them)\"}}\n";

    /* Who does not get it sees the end of the connection. */
    (void)!send(fd, answer, strlen(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
    close(fd);
}

static bool listener_ready(void *opaque)
{
    struct vblk_control *control = opaque;
    int fd = accept4(control->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), error;

    if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
        return false;
    if (fd < 0) {
        pause_accepting(control, -errno);
        return false;
    }
    if (control->connection_count == VBLK_CONTROL_CLIENTS_MAX) {
        turn_away(fd);
        return true;
    }
    error = vblk_connection_start(control, fd);
    if (error < 0)
        pause_accepting(control, error);
    return true;
}

static void free_control(struct vblk_control *control)
{
    if (control->listener.path)
        vhost_user_listener_close(&control->listener);
    else if (control->listener.fd >= 0)
        close(control->listener.fd);
    rt_timer_destroy(control->accept_again);
    g_free(control);
}

static int open_socket(struct vblk_control *control, char **message_out)
{
    const struct vblk_control_options *options = &control->options;
    const struct vhost_user_listen_options listen_options = { .path = options->path, .mode = SOCKET_MODE };
    int error;

    if (options->path)
        return vhost_user_listen(&listen_options, &control->listener, message_out);
    /* Another process may have the same socket and accept first: accept() must not block then. */
    if (fcntl(options->fd, F_SETFL, fcntl(options->fd, F_GETFL) | O_NONBLOCK) == 0) {
        control->listener.fd = options->fd;
        return 0;
    }
    error = -errno;
    *message_out = g_strdup_printf("control socket: descriptor %d cannot be used: %s", options->fd, g_strerror(-error));
    return error;
}

int vblk_control_create(const struct vblk_control_options *options, struct vblk_control **control_out, char **message_out)
{
    struct vblk_control *control = g_new0(struct vblk_control, 1);
    int error = -ENOMEM;

    control->options = *options;
    control->listener.fd = -1;
    control->created_ns = rt_clock_ns();
    LIST_INIT(&control->connections);
    control->accept_again = rt_timer_create(options->main_loop, accept_again, control);
    if (control->accept_again)
        error = open_socket(control, message_out);
    else
        *message_out = g_strdup("control socket: no memory for its timer");
    if (error == 0) {
        error = watch_listener(control);
        if (error < 0)
            *message_out = g_strdup_printf("control socket: cannot wait for clients: %s", g_strerror(-error));
    }
    if (error < 0) {
        free_control(control);
        return error;
    }
    *control_out = control;
    return 0;
}

void vblk_control_stop(struct vblk_control *control)
{
    struct vblk_connection *connection;

    if (!control)
        return;
    control->stopping = true;
    unwatch_listener(control);
    rt_timer_cancel(control->accept_again);
    /* Those that wait for it find the end of it. */
    LIST_FOREACH(connection, &control->connections, link)
        (void)shutdown(connection->fd, SHUT_RDWR);
}

void vblk_control_destroy_co(struct vblk_control *control)
{
    if (!control)
        return;
    if (!control->stopping)
        vblk_control_stop(control);
    if (control->connection_count > 0) {
        control->destroyer = rt_coroutine_self();
        rt_coroutine_yield();
    }
    free_control(control);
}
