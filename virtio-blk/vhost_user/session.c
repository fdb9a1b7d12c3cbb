#include "vhost_user/session.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rt/coroutine.h"
#include "rt/loop.h"
#include "vhost_user/dispatch.h"
#include "vhost_user/session_internal.h"
#include "vhost_user/writable.h"
#include "tracepoints/vhost_user.h"

/* How long a session does not accept when the process has run out of descriptors or memory. */
#define ACCEPT_PAUSE_NS INT64_C(1000000000)

static bool listener_ready(void *opaque);

/* ---- waiting for the socket ---- */

static void resume(struct vhost_user_session *session)
{
    session->waiting = VHOST_USER_WAIT_NONE;
    rt_coroutine_wake(session->coroutine); /* which may end, and the session with it */
}

static bool socket_readable(void *opaque)
{
    struct vhost_user_session *session = opaque;
    if (session->waiting != VHOST_USER_WAIT_READ) {
        /* Busy with an operation. Being told so in every pass would be a spinning loop: not until it reads again. */
        rt_loop_detach_fd(session->handler);
        session->handler = NULL;
        return false;
    }
    resume(session);
    return true;
}

static int wait_readable_co(struct vhost_user_session *session)
{
    static const struct rt_fd_callbacks callbacks = { .ready = socket_readable };
    if (!session->handler) {
        int error = rt_loop_attach_fd(session->loop, session->fd, RT_FD_VHOST_USER_SOCKET, session->device_id,
                                      0, &callbacks, session, &session->handler);
        if (error)
            return error;
    }
    session->waiting = VHOST_USER_WAIT_READ;
    rt_coroutine_yield();
    return 0;
}

static int wait_writable_co(struct vhost_user_session *session)
{
    session->waiting = VHOST_USER_WAIT_WRITE;
    int error = vhost_user_wait_writable_co(session->loop, session->fd, RT_FD_VHOST_USER_SOCKET, session->device_id);
    session->waiting = VHOST_USER_WAIT_NONE;
    return error;
}

/* ---- one connection ---- */

static int receive_co(struct vhost_user_session *session)
{
    for (;;) {
        int got = vhost_user_receive(&session->receiver);
        if (got != -EAGAIN)
            return got;
        int error = wait_readable_co(session);
        if (error)
            return error;
    }
}

static int reply_co(struct vhost_user_session *session, const struct vhost_user_reply *reply)
{
    vhost_user_sender_init(&session->sender, session->fd, &session->receiver.message.header, &reply->payload,
                           reply->size_bytes);
    if (reply->has_fd)
        session->sender.attached_fd = reply->fd;
    for (;;) {
        int sent = vhost_user_send(&session->sender);
        if (sent != -EAGAIN)
            return sent < 0 ? sent : 0;
        int error = wait_writable_co(session);
        if (error)
            return error;
    }
}

static const char *describe_broken_stream(int error)
{
    switch (error) {
    case -ECONNRESET:
        return "it ended in the middle of a message";
    case -EPROTO:
        return "a message has a wrong version, is a reply, or has too many descriptors (or this process has "
               "none left)";
    case -EMSGSIZE:
        return "a message says that it is too long";
    default:
        return g_strerror(-error);
    }
}

/* What could not be read as a message is reported like one that was refused. */
static void report_broken_stream(struct vhost_user_session *session, int error)
{
    const struct vhost_user_message *message = &session->receiver.message;
    if (vhost_user_receiver_has_header(&session->receiver))
        lttng_ust_tracepoint(vhost_user, message, session->device_id, message->header.request,
                             message->header.size_bytes, message->fd_count, error);
    vblk_log(&session->log, VBLK_LOG_WARNING, "connection closed: %s", describe_broken_stream(error));
}

/* ---- the back end's channel ---- */

static void drop_channel(struct vhost_user_session *session)
{
    if (session->channel_handler)
        rt_loop_detach_fd(session->channel_handler);
    session->channel_handler = NULL;
    vhost_user_backend_channel_close(&session->channel);
}

/* Whatever ends the channel: the front end learns of changes when it asks for the configuration. */
static void lose_channel(struct vhost_user_session *session, int error)
{
    vblk_log(&session->log, error ? VBLK_LOG_WARNING : VBLK_LOG_INFO, "back-end channel closed: %s",
             error == -EPROTO ? "the front end sends what is no answer"
             : error          ? g_strerror(-error)
                              : "by the front end");
    drop_channel(session);
}

static bool channel_readable(void *opaque)
{
    struct vhost_user_session *session = opaque;
    uint64_t verdict;
    int got;
    while ((got = vhost_user_backend_channel_receive(&session->channel, &verdict)) == 1)
        if (verdict)
            vblk_log(&session->log, VBLK_LOG_WARNING, "the front end could not take the new configuration");
    if (got != -EAGAIN)
        lose_channel(session, got);
    return true;
}

/* A channel that came with a message takes the place of the one before. */
static void adopt_channel(struct vhost_user_session *session)
{
    static const struct rt_fd_callbacks callbacks = { .ready = channel_readable };
    if (session->offered_channel_fd < 0)
        return;
    drop_channel(session);
    vhost_user_backend_channel_open(&session->channel, session->offered_channel_fd);
    session->offered_channel_fd = -1;
    int error = rt_loop_attach_fd(session->loop, session->channel.fd, RT_FD_VHOST_USER_SOCKET, session->device_id,
                                  0, &callbacks, session, &session->channel_handler);
    if (error)
        lose_channel(session, error);
}

bool vhost_user_session_config_changed(struct vhost_user_session *session)
{
    bool asks = session->protocol_features >> VHOST_USER_PROTOCOL_F_REPLY_ACK & 1;
    if (!(session->protocol_features >> VHOST_USER_PROTOCOL_F_CONFIG & 1))
        return false; /* it could not ask what has changed */
    int error = vhost_user_backend_channel_tell(&session->channel, asks);
    if (error == -EAGAIN)
        vblk_log(&session->log, VBLK_LOG_WARNING,
                 "the front end does not read its back-end channel: it learns of the new configuration when it does");
    else if (error && error != -ENOTCONN)
        lose_channel(session, error);
    return !error;
}

/* Returns 0 when the front end has closed or the session ends, else why the connection cannot go on. */
static int converse_co(struct vhost_user_session *session)
{
    while (!session->closing) {
        int got = receive_co(session);
        if (session->closing)
            break;
        if (got < 0)
            report_broken_stream(session, got);
        if (got <= 0)
            return got;

        struct vhost_user_reply reply = { 0 };
        int error = vhost_user_dispatch_co(session, &session->receiver.message, &reply);
        if (reply.size_bytes || reply.is_empty) {
            int unsent = reply_co(session, &reply);
            error = error ? error : unsent;
        }
        if (reply.has_fd)
            close(reply.fd);
        vhost_user_receiver_next(&session->receiver);
        adopt_channel(session);
        if (error)
            return error;
    }
    return 0;
}

static int watch_listener(struct vhost_user_session *session)
{
    static const struct rt_fd_callbacks callbacks = { .ready = listener_ready };
    return rt_loop_attach_fd(session->loop, session->listener.fd, RT_FD_VHOST_USER_SOCKET, session->device_id,
                             0, &callbacks, session, &session->listen_handler);
}

static void unwatch_listener(struct vhost_user_session *session)
{
    if (session->listen_handler)
        rt_loop_detach_fd(session->listen_handler);
    session->listen_handler = NULL;
}

/* From now on somebody may connect, or later if that is impossible now. */
static void listen_again(void *opaque)
{
    struct vhost_user_session *session = opaque;
    int error = watch_listener(session);
    if (error) {
        vblk_log(&session->log, VBLK_LOG_ERROR, "cannot wait for a front end: %s (trying again)",
                 g_strerror(-error));
        rt_timer_arm(session->accept_again, rt_clock_ns() + ACCEPT_PAUSE_NS);
    }
}

static void hang_up_co(struct vhost_user_session *session, int error)
{
    /* At once, so that a front end that made a mistake does not wait for the drain to learn it. */
    (void)shutdown(session->fd, SHUT_RDWR);
    atomic_store_explicit(&session->connected_fd, -1, memory_order_relaxed);
    lttng_ust_tracepoint(vhost_user, disconnect, session->device_id, error);
    vblk_log(&session->log, VBLK_LOG_INFO, "front end disconnected");
    drop_channel(session);
    session->map = NULL;
    session->ops->disconnected_co(session->opaque, error);
    if (session->handler)
        rt_loop_detach_fd(session->handler);
    session->handler = NULL;
    vhost_user_receiver_next(&session->receiver);
    close(session->fd);
    session->fd = -1;
    session->features = session->protocol_features = 0;
    session->features_accepted = false;
    session->status = 0;
}

static void serve_co(void *opaque)
{
    struct vhost_user_session *session = opaque;
    session->coroutine = rt_coroutine_self();
    vhost_user_receiver_init(&session->receiver, session->fd);
    atomic_store_explicit(&session->connected_fd, session->fd, memory_order_relaxed);
    lttng_ust_tracepoint(vhost_user, connect, session->device_id, session->fd);
    vblk_log(&session->log, VBLK_LOG_INFO, "front end connected");
    session->ops->connected(session->opaque, session->fd);

    hang_up_co(session, converse_co(session));

    session->coroutine = NULL;
    if (session->closing)
        rt_coroutine_wake(session->destroyer); /* queued: it frees the session when this coroutine has ended */
    else if (session->listener.fd >= 0)
        listen_again(session);
    else if (session->ops->ended)
        session->ops->ended(session->opaque);
}

/* The plain stack of the loop. */
static void serve(struct vhost_user_session *session, int fd)
{
    struct rt_coroutine *co = rt_coroutine_create(serve_co, session);
    session->fd = fd;
    if (co) {
        rt_coroutine_enter(co);
        return;
    }
    vblk_log(&session->log, VBLK_LOG_ERROR,
             "front end refused: no memory for a coroutine (see vm.max_map_count)");
    close(fd);
    session->fd = -1;
    if (session->listener.fd >= 0)
        rt_timer_arm(session->accept_again, rt_clock_ns() + ACCEPT_PAUSE_NS);
    else if (session->ops->ended)
        session->ops->ended(session->opaque);
}

static bool listener_ready(void *opaque)
{
    struct vhost_user_session *session = opaque;
    int fd = accept4(session->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
        return false;
    /* The next one waits in the backlog. */
    unwatch_listener(session);
    if (fd < 0) {
        vblk_log(&session->log, VBLK_LOG_ERROR, "cannot accept a front end: %s (trying again)",
                 g_strerror(errno));
        rt_timer_arm(session->accept_again, rt_clock_ns() + ACCEPT_PAUSE_NS);
        return false;
    }
    serve(session, fd);
    return true;
}

/* A socket that was connected when the session was created. */
static void serve_given(void *opaque)
{
    struct vhost_user_session *session = opaque;
    int fd = session->given_fd;
    session->given_fd = -1;
    serve(session, fd);
}

/* ---- life ---- */

/* Whether a descriptor from outside is one we can serve on, and which kind. */
static int examine_given(int fd, bool *listens_out, char **message_out)
{
    int domain = 0, type = 0, listens = 0;
    socklen_t size = sizeof domain;
    struct sockaddr_storage peer;
    socklen_t peer_bytes = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0) {
        int error = errno;
        *message_out = g_strdup_printf("descriptor %d: is not a socket: %s (give the number of an open one)",
                                       fd, g_strerror(error));
        return -error;
    }
    if (domain != AF_UNIX || type != SOCK_STREAM ||
        (!listens && getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) < 0)) {
        *message_out = g_strdup_printf(
            "descriptor %d: is not a Unix stream socket that is connected or listens (vhost-user needs one)",
            fd);
        return -EINVAL;
    }
    *listens_out = listens;
    return 0;
}

static int open_socket(struct vhost_user_session *session, const struct vhost_user_session_options *options,
                       char **message_out)
{
    bool listens = false;
    if (options->fd < 0) {
        const struct vhost_user_listen_options listen_options = { .path = options->socket_path,
                                                                  .mode = options->socket_mode,
                                                                  .group = options->socket_group };
        return vhost_user_listen(&listen_options, &session->listener, message_out);
    }
    int error = examine_given(options->fd, &listens, message_out);
    if (error)
        return error;
    (void)fcntl(options->fd, F_SETFD, FD_CLOEXEC);
    if (!listens) {
        session->given_fd = options->fd;
        return 0;
    }
    /* Another process may have the same socket and accept first: accept() must not block then. */
    if (fcntl(options->fd, F_SETFL, fcntl(options->fd, F_GETFL) | O_NONBLOCK) < 0) {
        error = errno;
        *message_out =
            g_strdup_printf("descriptor %d: cannot be made non-blocking: %s", options->fd, g_strerror(error));
        return -error;
    }
    session->listener.fd = options->fd;
    return 0;
}

/* Again what exists, for a trace that begins now. In the sampler's thread. */
static void trace_baseline(void *opaque)
{
    struct vhost_user_session *session = opaque;
    int fd = atomic_load_explicit(&session->connected_fd, memory_order_relaxed);
    if (fd >= 0)
        lttng_ust_tracepoint(vhost_user, connect, session->device_id, fd);
}

static void close_sockets(struct vhost_user_session *session)
{
    if (session->listener.path)
        vhost_user_listener_close(&session->listener);
    else if (session->listener.fd >= 0)
        close(session->listener.fd);
    if (session->given_fd >= 0)
        close(session->given_fd);
}

static void free_session(struct vhost_user_session *session)
{
    rt_bh_destroy(session->serve_given);
    rt_timer_destroy(session->accept_again);
    g_free(session->name);
    g_free(session);
}

static void ignore_sigpipe(void)
{
    /* A front end may hand us the end of a pipe that nobody reads as its call descriptor. */
    struct sigaction action;
    if (sigaction(SIGPIPE, NULL, &action) == 0 && !(action.sa_flags & SA_SIGINFO) &&
        action.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
}

int vhost_user_session_create(const struct vhost_user_session_options *options,
                              struct vhost_user_session **session_out, char **message_out)
{
    struct vhost_user_session *session = g_new0(struct vhost_user_session, 1);
    session->name = g_strdup(options->name);
    session->device_id = options->device_id;
    session->queue_count = options->queue_count;
    session->features_offered = options->features | UINT64_C(1) << VHOST_USER_F_PROTOCOL_FEATURES |
                                UINT64_C(1) << VHOST_F_LOG_ALL;
    session->ops = options->ops;
    session->opaque = options->opaque;
    session->loop = rt_loop_current();
    session->fd = session->channel.fd = session->offered_channel_fd = -1;
    session->connected_fd = -1;
    session->accept_again = rt_timer_create(session->loop, listen_again, session);
    session->serve_given = rt_bh_create(session->loop, serve_given, session);
    vblk_log_init(&session->log, session->name);
    ignore_sigpipe();

    session->listener.fd = session->given_fd = -1;
    int error = 0;
    if (!session->accept_again || !session->serve_given) {
        error = -ENOMEM;
        *message_out = g_strdup_printf("%s: no memory for a session", session->name);
    }
    if (!error)
        error = open_socket(session, options, message_out);
    if (!error && session->listener.fd >= 0) {
        error = watch_listener(session);
        if (error) {
            *message_out =
                g_strdup_printf("%s: cannot wait for a front end: %s", session->name, g_strerror(-error));
            /* A descriptor that was given stays the caller's. */
            if (session->listener.path)
                vhost_user_listener_close(&session->listener);
        }
    }
    if (error) {
        free_session(session);
        return error;
    }
    if (session->given_fd >= 0)
        rt_bh_schedule(session->serve_given);
    session->source = (struct rt_process_source){ .baseline = trace_baseline, .opaque = session };
    rt_process_add_source(&session->source);
    *session_out = session;
    return 0;
}

bool vhost_user_session_has_protocol_features(const struct vhost_user_session *session)
{
    return session->features & UINT64_C(1) << VHOST_USER_F_PROTOCOL_FEATURES;
}

void vhost_user_session_destroy_co(struct vhost_user_session *session)
{
    if (!session)
        return;
    assert(rt_in_coroutine() && session->coroutine != rt_coroutine_self());
    session->closing = true;
    unwatch_listener(session);
    rt_timer_cancel(session->accept_again);
    rt_bh_cancel(session->serve_given);
    if (session->coroutine) {
        /* Wakes it if it waits for the socket; if it is in an operation it finds out afterwards. */
        session->destroyer = rt_coroutine_self();
        (void)shutdown(session->fd, SHUT_RDWR);
        rt_coroutine_yield();
    }
    rt_process_remove_source(&session->source);
    close_sockets(session);
    free_session(session);
}
