/* One client of the control socket, in a coroutine of the main loop: reads a line, runs it, answers, reads the next. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/command.h"
#include "control/internal.h"
#include "vhost_user/writable.h"

static bool socket_readable(void *opaque)
{
    struct vblk_connection *connection = opaque;

    if (!connection->reading) {
        /* Busy with a command. Being told so in every pass would be a spinning loop: not until it reads again. */
        rt_loop_detach_fd(connection->handler);
        connection->handler = NULL;
        return false;
    }
    connection->reading = false;
    rt_coroutine_wake(connection->coroutine); /* which may end, and the connection with it */
    return true;
}

static int wait_readable_co(struct vblk_connection *connection)
{
    static const struct rt_fd_callbacks callbacks = { .ready = socket_readable };

    if (!connection->handler) {
        int error = rt_loop_attach_fd(connection->control->options.main_loop, connection->fd, RT_FD_CONTROL, 0, 0,
                                      &callbacks, connection, &connection->handler);
        if (error < 0)
            return error;
    }
    connection->reading = true;
    rt_coroutine_yield();
    return 0;
}

/* Whoever sends many commands at once does not keep everybody else waiting. */
static void give_way_co(void)
{
    rt_coroutine_wake(rt_coroutine_self()); /* queued: it runs when control is back in the loop */
    rt_coroutine_yield();
}

static int send_co(struct vblk_connection *connection, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(connection->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        int error = sent < 0 ? -errno : 0;

        if (error == -EAGAIN)
            error = vhost_user_wait_writable_co(connection->control->options.main_loop, connection->fd, RT_FD_CONTROL, 0);
        if (error < 0 && error != -EINTR)
            return error;
        if (sent > 0) {
            bytes += sent;
            length -= sent;
        }
    }
    return 0;
}

static bool is_blank(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!g_ascii_isspace(line[i]))
            return false;
    return true;
}

/* 0, or why the connection cannot go on. */
static int answer_co(struct vblk_connection *connection, enum vblk_line kind, const char *line, size_t length)
{
    char *text;
    int error;

    if (kind == VBLK_LINE_WHOLE && is_blank(line, length))
        return 0;
    text = kind == VBLK_LINE_WHOLE ? vblk_command_line_co(connection->control, line, length)
                                   : vblk_command_refuse_line(VBLK_LINE_MAX);
    error = send_co(connection, text, strlen(text));
    g_free(text);
    return error;
}

static int converse_co(struct vblk_connection *connection)
{
    const char *line;
    size_t length;
    int error;

    while (!connection->control->stopping) {
        enum vblk_line kind = vblk_line_reader_next(&connection->reader, &line, &length);
        ssize_t got;

        if (kind != VBLK_LINE_NONE) {
            error = answer_co(connection, kind, line, length);
            if (error < 0)
                return error;
            give_way_co();
            continue;
        }
        got = vblk_line_reader_fill(&connection->reader, connection->fd);
        if (got == 0) {
            kind = vblk_line_reader_rest(&connection->reader, &line, &length);
            return kind == VBLK_LINE_NONE || connection->control->stopping ? 0
                                                                          : answer_co(connection, kind, line, length);
        }
        if (got > 0)
            give_way_co(); /* an endless line */
        else if (got != -EAGAIN)
            return got;
        else if ((error = wait_readable_co(connection)) < 0)
            return error;
    }
    return 0;
}

static void serve_co(void *opaque)
{
    struct vblk_connection *connection = opaque;
    struct vblk_control *control = connection->control;

    (void)converse_co(connection); /* a client that is gone needs no answer, and others do not care */
    if (connection->handler)
        rt_loop_detach_fd(connection->handler);
    close(connection->fd);
    vblk_line_reader_deinit(&connection->reader);
    LIST_REMOVE(connection, link);
    g_free(connection);
    if (--control->connection_count == 0 && control->destroyer)
        rt_coroutine_wake(control->destroyer); /* queued: it frees what we still use when this coroutine has ended */
}

int vblk_connection_start(struct vblk_control *control, int fd)
{
    struct vblk_connection *connection = g_new0(struct vblk_connection, 1);

    connection->coroutine = rt_coroutine_create(serve_co, connection);
    if (!connection->coroutine) {
        g_free(connection);
        close(fd);
        return -ENOMEM;
    }
    connection->control = control;
    connection->fd = fd;
    vblk_line_reader_init(&connection->reader);
    LIST_INSERT_HEAD(&control->connections, connection, link);
    control->connection_count++;
    rt_coroutine_enter(connection->coroutine);
    return 0;
}
