#include "stub_device.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "rt/coroutine.h"
#include "rt/loop.h"

#define PATIENCE_SECONDS 20

static void must(bool condition, const char *what)
{
    if (!condition) {
        perror(what);
        abort();
    }
}

__attribute__((format(printf, 2, 3))) static int note(struct stub *stub, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&stub->lock);
    size_t length = strlen(stub->notes);
    int added = vsnprintf(stub->notes + length, sizeof stub->notes - length, format, arguments);
    must(added > 0 && (size_t)added + 1 < sizeof stub->notes - length, "room for notes");
    strcat(stub->notes, "\n");
    int error = stub->fail;
    pthread_cond_broadcast(&stub->changed);
    pthread_mutex_unlock(&stub->lock);
    va_end(arguments);
    return error;
}

static void connected(void *opaque, int fd)
{
    note(opaque, "connected");
}

static void forget(struct stub *stub)
{
    vhost_user_memory_map_unref(stub->map);
    stub->map = NULL;
    if (stub->kick_fd >= 0)
        close(stub->kick_fd);
    stub->kick_fd = -1;
}

static void disconnected_co(void *opaque, int error)
{
    forget(opaque);
    note(opaque, "disconnected %d", error);
}

static int set_features_co(void *opaque, uint64_t features)
{
    struct stub *stub = opaque;
    return note(stub, "features %llx %d", (unsigned long long)features,
                vhost_user_session_has_protocol_features(stub->session));
}

static void set_log_co(void *opaque, struct vhost_user_dirty_log *dirty_log)
{
    note(opaque, "log");
    vhost_user_dirty_log_mark(dirty_log, 0, 1);
    vhost_user_dirty_log_destroy(dirty_log);
}

static void set_log_fd_co(void *opaque, int fd)
{
    note(opaque, "log-fd %d", fcntl(fd, F_GETFL) & O_NONBLOCK ? 1 : 0);
    close(fd);
}

static int set_memory_co(void *opaque, struct vhost_user_memory_map *map, bool keeps_old)
{
    struct stub *stub = opaque;
    pthread_mutex_lock(&stub->lock);
    bool block = stub->block;
    stub->block = false;
    stub->blocked = block ? rt_coroutine_self() : NULL;
    pthread_cond_broadcast(&stub->changed);
    pthread_mutex_unlock(&stub->lock);
    if (block)
        rt_coroutine_yield();
    int error = note(stub, "memory %s", !map ? "gone" : keeps_old ? "more" : "new");
    if (!error) {
        vhost_user_memory_map_unref(stub->map);
        stub->map = map ? vhost_user_memory_map_ref(map) : NULL;
    }
    return error;
}

static int set_ring_size(void *opaque, uint16_t index, uint32_t size)
{
    return note(opaque, "size %u %u", index, size);
}

static int set_ring_address_co(void *opaque, uint16_t index, const struct vhost_user_ring_address *address)
{
    return note(opaque, "address %u %llx %llx %llx", index, (unsigned long long)address->desc_user,
                (unsigned long long)address->used_user, (unsigned long long)address->avail_user);
}

static int set_ring_base(void *opaque, uint16_t index, uint32_t base)
{
    return note(opaque, "base %u %u", index, base);
}

static int set_ring_kick_co(void *opaque, uint16_t index, int fd)
{
    struct stub *stub = opaque;
    int error = note(stub, "kick %u %d", index, fd >= 0);
    if (!error) {
        if (stub->kick_fd >= 0)
            close(stub->kick_fd);
        stub->kick_fd = fd;
    }
    return error;
}

static int set_ring_call(void *opaque, uint16_t index, int fd)
{
    int error = note(opaque, "call %u %d", index, fd >= 0);
    if (!error && fd >= 0)
        close(fd);
    return error;
}

static int set_ring_error(void *opaque, uint16_t index, int fd)
{
    int error = note(opaque, "err %u %d", index, fd >= 0);
    if (!error && fd >= 0)
        close(fd);
    return error;
}

static int set_ring_enable_co(void *opaque, uint16_t index, bool enable)
{
    return note(opaque, "enable %u %d", index, enable);
}

static int get_ring_base_co(void *opaque, uint16_t index, uint32_t *base_out)
{
    *base_out = 100u + index;
    return note(opaque, "get_base %u", index);
}

static int set_inflight(void *opaque, const struct vhost_user_inflight *inflight)
{
    struct vhost_user_inflight mine = *inflight;
    int error = note(opaque, "inflight %u %u", inflight->queue_count, inflight->queue_size);
    if (!error)
        vhost_user_inflight_unmap(&mine);
    return error;
}

static int reset_co(void *opaque)
{
    return note(opaque, "reset");
}

static int reset_device_co(void *opaque)
{
    return note(opaque, "reset_device");
}

static int get_config(void *opaque, uint32_t offset, uint32_t size, uint8_t *bytes_out)
{
    for (uint32_t i = 0; i < size; i++)
        bytes_out[i] = (uint8_t)(offset + i);
    return note(opaque, "get_config %u %u", offset, size);
}

static int set_config(void *opaque, uint32_t offset, uint32_t size, const uint8_t *bytes)
{
    return note(opaque, "set_config %u %u %02x", offset, size, bytes[size - 1]);
}

static void ended(void *opaque)
{
    note(opaque, "ended");
}

static const struct vhost_user_ops ops = {
    .connected = connected,
    .disconnected_co = disconnected_co,
    .set_features_co = set_features_co,
    .set_log_co = set_log_co,
    .set_log_fd_co = set_log_fd_co,
    .set_memory_co = set_memory_co,
    .set_ring_size = set_ring_size,
    .set_ring_address_co = set_ring_address_co,
    .set_ring_base = set_ring_base,
    .set_ring_kick_co = set_ring_kick_co,
    .set_ring_call = set_ring_call,
    .set_ring_error = set_ring_error,
    .set_ring_enable_co = set_ring_enable_co,
    .get_ring_base_co = get_ring_base_co,
    .set_inflight = set_inflight,
    .reset_co = reset_co,
    .reset_device_co = reset_device_co,
    .get_config = get_config,
    .set_config = set_config,
    .ended = ended,
};

static void *run(void *opaque)
{
    struct stub *stub = opaque;
    const struct vhost_user_session_options options = {
        .name = "stub",
        .device_id = 1,
        .queue_count = STUB_QUEUES,
        .features = STUB_FEATURES,
        .socket_path = stub->options.path,
        .fd = stub->options.path ? -1 : stub->options.fd,
        .socket_mode = -1,
        .ops = &ops,
        .opaque = stub,
    };
    rt_loop_bind(stub->loop);
    stub->create_error = vhost_user_session_create(&options, &stub->session, &stub->message);
    pthread_mutex_lock(&stub->lock);
    stub->started = true;
    pthread_cond_broadcast(&stub->changed);
    pthread_mutex_unlock(&stub->lock);
    if (!stub->create_error)
        rt_loop_run(stub->loop);
    return NULL;
}

int stub_start(struct stub *stub, const struct stub_options *options)
{
    memset(stub, 0, sizeof *stub);
    stub->options = *options;
    stub->kick_fd = -1;
    pthread_mutex_init(&stub->lock, NULL);
    pthread_cond_init(&stub->changed, NULL);
    must(rt_loop_create("stub", &stub->loop) == 0, "loop");
    must(pthread_create(&stub->thread, NULL, run, stub) == 0, "thread");
    pthread_mutex_lock(&stub->lock);
    while (!stub->started)
        pthread_cond_wait(&stub->changed, &stub->lock);
    pthread_mutex_unlock(&stub->lock);
    if (stub->create_error) {
        pthread_join(stub->thread, NULL);
        rt_loop_destroy(stub->loop);
    }
    return stub->create_error;
}

static void destroy_co(void *opaque)
{
    struct stub *stub = opaque;
    vhost_user_session_destroy_co(stub->session);
    rt_loop_quit(stub->loop);
}

static void begin_destroy(void *opaque)
{
    rt_coroutine_enter(rt_coroutine_create(destroy_co, opaque));
}

void stub_stop(struct stub *stub)
{
    must(rt_loop_post(stub->loop, begin_destroy, stub) == 0, "post");
    pthread_join(stub->thread, NULL);
    rt_loop_destroy(stub->loop);
}

void stub_set_fail(struct stub *stub, int error)
{
    pthread_mutex_lock(&stub->lock);
    stub->fail = error;
    pthread_mutex_unlock(&stub->lock);
}

void stub_block(struct stub *stub)
{
    pthread_mutex_lock(&stub->lock);
    stub->block = true;
    pthread_mutex_unlock(&stub->lock);
}

/* Waits until it is blocked. */
void stub_release(struct stub *stub)
{
    pthread_mutex_lock(&stub->lock);
    while (!stub->blocked)
        pthread_cond_wait(&stub->changed, &stub->lock);
    struct rt_coroutine *co = stub->blocked;
    stub->blocked = NULL;
    pthread_mutex_unlock(&stub->lock);
    rt_coroutine_wake(co);
}

static unsigned count_locked(const struct stub *stub, const char *text)
{
    unsigned count = 0;
    for (const char *line = stub->notes; *line; line = strchr(line, '\n') + 1)
        count += strncmp(line, text, strlen(text)) == 0;
    return count;
}

unsigned stub_count(struct stub *stub, const char *text)
{
    pthread_mutex_lock(&stub->lock);
    unsigned count = count_locked(stub, text);
    pthread_mutex_unlock(&stub->lock);
    return count;
}

void stub_wait_count(struct stub *stub, const char *text, unsigned count)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += PATIENCE_SECONDS;
    pthread_mutex_lock(&stub->lock);
    while (count_locked(stub, text) < count) {
        if (pthread_cond_timedwait(&stub->changed, &stub->lock, &deadline) == ETIMEDOUT) {
            fprintf(stderr, "waited in vain for \"%s\"; notes:\n%s", text, stub->notes);
            abort();
        }
    }
    pthread_mutex_unlock(&stub->lock);
}

void stub_wait(struct stub *stub, const char *text)
{
    stub_wait_count(stub, text, 1);
}

int stub_connect(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    return fd;
}
