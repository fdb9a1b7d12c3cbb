/*
 * libnbd is a state machine: it says whether it wants to read or write its socket, is told when it may, and calls back when a
 * command is done, with its lock held. Coroutines therefore go on only when it has returned (finish_done).
 *
 *   connecting --handle--> ready --lost--> connecting ...    (a timer between two attempts)
 *   deadline_ns: until then commands wait for a connection; after it they fail until there is one again.
 */
#include "disk/nbd_connection.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <libnbd.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "disk/nbd_connect.h"
#include "rt/coroutine.h"
#include "rt/loop.h"

/* Between two attempts: doubles from the first to the second. */
#define BACK_OFF_MIN_NS (100 * INT64_C(1000000))
#define BACK_OFF_MAX_NS (5 * INT64_C(1000000000))
/* A first connection that neither comes nor fails, where commands wait for no lost one. */
#define FIRST_NS (10 * INT64_C(1000000000))
/* Idle buffers that are kept. */
#define BUFFERS_MAX 16
#define BUFFER_GRAIN_BYTES ((size_t)128 * 1024)

struct buffer {
    size_t size_bytes;
    struct buffer *next;
    _Alignas(64) char data[];
};

/* On the stack of the coroutine that runs it. */
struct op {
    struct vblk_nbd_connection *connection;
    struct rt_coroutine *co;
    GList link; /* in sent, done or waiting */
    uint64_t life; /* of the connection that it was sent on */
    int64_t lost_ns; /* when a connection was first lost under it; 0: never */
    int result;
    bool done;
};

struct vblk_nbd_connection {
    struct vblk_nbd_connection_options options;
    struct rt_loop *loop;
    struct nbd_handle *handle; /* NULL: not connected */
    int fd;                    /* of the socket, our own: libnbd closes its one when it likes */
    int write_fd;              /* an epoll instance that watches for writing: the loop watches for reading only */
    bool wants_write;
    struct rt_handler *read_handler, *write_handler;
    struct rt_bh *done_bh;
    uint64_t life;             /* counts connections */
    GQueue sent;
    GQueue done;               /* commands whose coroutines are to go on */
    GQueue waiting;            /* for a connection */

    struct vblk_nbd_attempt *attempt;
    struct rt_timer *attempt_timer, *deadline_timer;
    int64_t back_off_ns, deadline_ns;
    bool was_ready, gave_up, told;
    bool useful;               /* this life has carried out a command */

    struct buffer *buffers; /* idle */
    unsigned buffer_count;
};

static void start_attempt(void *opaque);

/* ---- commands that are done ---- */

static void finish(struct op *op, int result)
{
    op->result = result;
    op->done = true;
    g_queue_unlink(&op->connection->sent, &op->link);
    g_queue_push_tail_link(&op->connection->done, &op->link);
}

static int completed(void *opaque, int *error)
{
    struct op *op = opaque;

    op->connection->useful |= *error == 0;
    finish(op, -*error);
    return 1; /* nothing is left of it in libnbd */
}

/* Outside of coroutines: each goes on at once. */
static void finish_done(void *opaque)
{
    struct vblk_nbd_connection *connection = opaque;
    GList *link;

    while ((link = g_queue_pop_head_link(&connection->done)))
        rt_coroutine_wake(((struct op *)link->data)->co);
}

static void wake_waiting(struct vblk_nbd_connection *connection, int result)
{
    GList *link;

    while ((link = g_queue_pop_head_link(&connection->waiting))) {
        ((struct op *)link->data)->result = result;
        g_queue_push_tail_link(&connection->done, link);
    }
    rt_bh_schedule(connection->done_bh);
}

/* ---- losing and getting it ---- */

static void unwatch(struct vblk_nbd_connection *connection)
{
    /* Before the descriptors are closed. */
    if (connection->read_handler)
        rt_loop_detach_fd(connection->read_handler);
    if (connection->write_handler)
        rt_loop_detach_fd(connection->write_handler);
    connection->read_handler = connection->write_handler = NULL;
    if (connection->write_fd >= 0)
        close(connection->write_fd);
    if (connection->fd >= 0)
        close(connection->fd);
    connection->fd = connection->write_fd = -1;
    connection->wants_write = false;
}

static void drop_handle(struct vblk_nbd_connection *connection)
{
    unwatch(connection);
    nbd_close(connection->handle);
    connection->handle = NULL;
    while (connection->sent.head)
        finish(connection->sent.head->data, -ENOTCONN); /* what libnbd has not failed itself */
    connection->life++;
}

static void give_up(void *opaque)
{
    struct vblk_nbd_connection *connection = opaque;

    if (connection->handle || connection->gave_up)
        return;
    connection->gave_up = true;
    if (connection->options.reconnect_ns > 0 || !connection->was_ready)
        vblk_log(connection->options.log, VBLK_LOG_ERROR,
                 "the NBD server did not come back in time; requests fail until it is there");
    wake_waiting(connection, -EIO);
}

static void try_later(struct vblk_nbd_connection *connection)
{
    rt_timer_arm(connection->attempt_timer, rt_clock_ns() + connection->back_off_ns);
    connection->back_off_ns = MIN(2 * connection->back_off_ns, BACK_OFF_MAX_NS);
}

static void lose(struct vblk_nbd_connection *connection, const char *why)
{
    vblk_log(connection->options.log, VBLK_LOG_WARNING, "the connection to the NBD server is lost: %s; %u requests were under way",
             why ? why : "closed", connection->sent.length + connection->done.length);
    connection->told = false;
    drop_handle(connection);
    connection->deadline_ns = rt_clock_ns() + connection->options.reconnect_ns;
    rt_timer_arm(connection->deadline_timer, connection->deadline_ns);
    if (connection->options.reconnect_ns == 0)
        give_up(connection);
    rt_bh_schedule(connection->done_bh);
    connection->back_off_ns = BACK_OFF_MIN_NS;
    if (connection->useful)
        start_attempt(connection);
    else
        try_later(connection); /* it may be lost as fast as it comes */
}

/* After each call of libnbd that may have moved it. */
static void look(struct vblk_nbd_connection *connection)
{
    const char *why = nbd_get_error(); /* of the call before, if it failed */
    bool wants_write;

    if (nbd_aio_is_dead(connection->handle) || nbd_aio_is_closed(connection->handle)) {
        lose(connection, why);
        return;
    }
    wants_write = nbd_aio_get_direction(connection->handle) & LIBNBD_AIO_DIRECTION_WRITE;
    if (wants_write != connection->wants_write) {
        struct epoll_event event = { .events = wants_write ? EPOLLOUT : 0 };

        connection->wants_write = wants_write;
        if (epoll_ctl(connection->write_fd, EPOLL_CTL_MOD, connection->fd, &event) != 0)
            lose(connection, g_strerror(errno));
    }
}

static bool readable(void *opaque)
{
    struct vblk_nbd_connection *connection = opaque;
    struct pollfd readable_now = { .fd = connection->fd, .events = POLLIN };
    unsigned before;

    /* One reply a call, as long as they come. Never without cause: libnbd would wait for a reply from then on, and send nothing
     * before it. */
    do {
        before = connection->done.length;
        (void)nbd_aio_notify_read(connection->handle); /* what fails kills it, which look() sees */
    } while (connection->done.length > before && poll(&readable_now, 1, 0) == 1);
    look(connection);
    finish_done(connection);
    return true;
}

static bool writable(void *opaque)
{
    struct vblk_nbd_connection *connection = opaque;

    if (!connection->wants_write)
        return false;
    (void)nbd_aio_notify_write(connection->handle);
    look(connection);
    finish_done(connection);
    return true;
}

static int watch(struct vblk_nbd_connection *connection)
{
    static const struct rt_fd_callbacks on_read = { .ready = readable }, on_write = { .ready = writable };
    struct epoll_event event = { 0 };
    int error;

    connection->fd = fcntl(nbd_aio_get_fd(connection->handle), F_DUPFD_CLOEXEC, 0);
    connection->write_fd = epoll_create1(EPOLL_CLOEXEC);
    if (connection->fd < 0 || connection->write_fd < 0 ||
        epoll_ctl(connection->write_fd, EPOLL_CTL_ADD, connection->fd, &event) != 0)
        return -errno;
    error = rt_loop_attach_fd(connection->loop, connection->fd, RT_FD_COMPLETION, 0, 0, &on_read, connection,
                              &connection->read_handler);
    if (error == 0)
        error = rt_loop_attach_fd(connection->loop, connection->write_fd, RT_FD_COMPLETION, 0, 0, &on_write, connection,
                                  &connection->write_handler);
    return error;
}

static int adopt(struct vblk_nbd_connection *connection, struct nbd_handle *handle)
{
    int error;

    connection->handle = handle;
    error = watch(connection);
    if (error < 0) {
        drop_handle(connection);
        return error;
    }
    rt_timer_cancel(connection->deadline_timer);
    connection->was_ready = true;
    connection->gave_up = connection->useful = false;
    look(connection);
    return 0;
}

static void connected(void *opaque, struct nbd_handle *handle, const char *why)
{
    struct vblk_nbd_connection *connection = opaque;
    bool again = connection->was_ready;

    connection->attempt = NULL;
    if (handle && nbd_get_size(handle) < (int64_t)connection->options.size_bytes) {
        nbd_close(handle);
        handle = NULL;
        why = "its disk has become smaller";
    }
    if (handle && adopt(connection, handle) == 0) {
        if (again)
            vblk_log(connection->options.log, VBLK_LOG_INFO, "connected to the NBD server again");
        wake_waiting(connection, 0);
        return;
    }
    if (!connection->told)
        vblk_log(connection->options.log, VBLK_LOG_WARNING, "cannot connect to the NBD server: %s; trying again",
                 why ? why : "no descriptors");
    connection->told = true;
    if (connection->options.reconnect_ns == 0)
        give_up(connection);
    try_later(connection);
}

static void start_attempt(void *opaque)
{
    struct vblk_nbd_connection *connection = opaque;

    if (vblk_nbd_connect_start(connection->options.uri, connection->loop, connected, connection, &connection->attempt) < 0)
        try_later(connection);
}

/* ---- commands ---- */

static int64_t send_command(struct vblk_nbd_connection *connection, const struct vblk_nbd_command *command,
                            struct op *op)
{
    const nbd_completion_callback callback = { .callback = completed, .user_data = op };
    struct nbd_handle *handle = connection->handle;

    switch (command->type) {
    case VBLK_NBD_READ:
        return nbd_aio_pread(handle, command->data, command->size_bytes, command->offset_bytes, callback, command->flags);
    case VBLK_NBD_WRITE:
        return nbd_aio_pwrite(handle, command->data, command->size_bytes, command->offset_bytes, callback, command->flags);
    case VBLK_NBD_TRIM:
        return nbd_aio_trim(handle, command->size_bytes, command->offset_bytes, callback, command->flags);
    case VBLK_NBD_ZERO:
        return nbd_aio_zero(handle, command->size_bytes, command->offset_bytes, callback, command->flags);
    case VBLK_NBD_FLUSH:
        break;
    }
    return nbd_aio_flush(handle, callback, command->flags);
}

/* 0: there is a connection, perhaps. */
static int wait_for_connection_co(struct vblk_nbd_connection *connection, struct op *op)
{
    if (connection->gave_up)
        return -EIO;
    op->result = 0;
    g_queue_push_tail_link(&connection->waiting, &op->link);
    rt_coroutine_yield();
    return op->result;
}

/* One trip to the server. */
static void send_co(struct vblk_nbd_connection *connection, const struct vblk_nbd_command *command, struct op *op)
{
    op->done = false;
    op->life = connection->life;
    g_queue_push_tail_link(&connection->sent, &op->link);
    /* A command that a broken connection ends within the call is freed by then, and libnbd 1.14 returns its number out of
     * that memory: what came back means nothing once the command is done. */
    if (send_command(connection, command, op) < 0 && !op->done)
        finish(op, -(nbd_get_errno() ?: EIO));
    look(connection);
    if (op->done)
        g_queue_unlink(&connection->done, &op->link);
    else
        rt_coroutine_yield();
    if (connection->done.length > 0)
        rt_bh_schedule(connection->done_bh);
}

int vblk_nbd_connection_run_co(struct vblk_nbd_connection *connection, const struct vblk_nbd_command *command)
{
    struct op op = { .connection = connection, .co = rt_coroutine_self() };
    int result;

    op.link.data = &op;
    for (;;) {
        if (!connection->handle) {
            result = wait_for_connection_co(connection, &op);
            if (result < 0)
                return result;
            continue;
        }
        send_co(connection, command, &op);
        if (op.result == 0)
            return 0;
        /* A server that says that it is going is as good as gone. */
        if (op.result == -ESHUTDOWN && op.life == connection->life)
            lose(connection, "the server shuts down");
        if (op.life == connection->life)
            return op.result;
        /* Perhaps this command is why: memory that cannot be sent, or a server that dies of it. */
        if (op.lost_ns == 0)
            op.lost_ns = rt_clock_ns();
        else if (rt_clock_ns() - op.lost_ns > connection->options.reconnect_ns)
            return -EIO;
    }
}

/* ---- buffers ---- */

void *vblk_nbd_connection_take_buffer(struct vblk_nbd_connection *connection, size_t size_bytes)
{
    struct buffer *buffer, **at = &connection->buffers;
    void *memory;

    for (; (buffer = *at); at = &buffer->next)
        if (buffer->size_bytes >= size_bytes) {
            *at = buffer->next;
            connection->buffer_count--;
            return buffer->data;
        }
    size_bytes = (size_bytes + BUFFER_GRAIN_BYTES - 1) / BUFFER_GRAIN_BYTES * BUFFER_GRAIN_BYTES;
    if (posix_memalign(&memory, _Alignof(struct buffer), sizeof(*buffer) + size_bytes) != 0)
        return NULL;
    buffer = memory;
    buffer->size_bytes = size_bytes;
    return buffer->data;
}

void vblk_nbd_connection_give_buffer(struct vblk_nbd_connection *connection, void *data)
{
    struct buffer *buffer = (struct buffer *)((char *)data - offsetof(struct buffer, data));

    if (connection->buffer_count == BUFFERS_MAX) {
        free(buffer);
        return;
    }
    buffer->next = connection->buffers;
    connection->buffers = buffer;
    connection->buffer_count++;
}

/* ---- life ---- */

int vblk_nbd_connection_create(const struct vblk_nbd_connection_options *options, struct rt_loop *loop,
                               struct nbd_handle *handle, struct vblk_nbd_connection **connection_out)
{
    struct vblk_nbd_connection *connection = g_new0(struct vblk_nbd_connection, 1);
    int error = 0;

    connection->options = *options;
    connection->loop = loop;
    connection->fd = connection->write_fd = -1;
    connection->back_off_ns = BACK_OFF_MIN_NS;
    g_queue_init(&connection->sent);
    g_queue_init(&connection->done);
    g_queue_init(&connection->waiting);
    connection->done_bh = rt_bh_create(loop, finish_done, connection);
    connection->attempt_timer = rt_timer_create(loop, start_attempt, connection);
    connection->deadline_timer = rt_timer_create(loop, give_up, connection);
    if (!connection->done_bh || !connection->attempt_timer || !connection->deadline_timer) {
        nbd_close(handle);
        error = -ENOMEM;
    } else if (handle) {
        error = adopt(connection, handle);
    }
    if (error < 0) {
        vblk_nbd_connection_destroy(connection);
        return error;
    }
    if (!handle) {
        connection->deadline_ns = rt_clock_ns() + (options->reconnect_ns > 0 ? options->reconnect_ns : FIRST_NS);
        rt_timer_arm(connection->deadline_timer, connection->deadline_ns);
        start_attempt(connection);
    }
    *connection_out = connection;
    return 0;
}

void vblk_nbd_connection_destroy(struct vblk_nbd_connection *connection)
{
    if (!connection)
        return;
    if (connection->attempt)
        vblk_nbd_connect_cancel(connection->attempt);
    if (connection->handle) {
        (void)nbd_aio_disconnect(connection->handle, 0); /* a courtesy: one that does not get through is hung up on */
        drop_handle(connection);
    }
    rt_timer_destroy(connection->deadline_timer);
    rt_timer_destroy(connection->attempt_timer);
    rt_bh_destroy(connection->done_bh);
    while (connection->buffers) {
        struct buffer *buffer = connection->buffers;

        connection->buffers = buffer->next;
        free(buffer);
    }
    g_free(connection);
}
