/*
 * Goal:   no sequence of messages, whole or broken, with whatever descriptors, crashes the process or costs it one.
 * Method: the input is a little program that sends messages and pieces of messages over a socket pair and writes guest
 *         memory; the device behind sets up rings from what it is told and serves them. Afterwards the lowest free
 *         descriptor must be the same as before.
 * Broken: a front end takes over or stops the process that serves it and others.
 *
 * Input:  instructions of one byte and their operands, see run().
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front_end_wire.h"
#include "vhost_user/dispatch.h"
#include "vhost_user/session_internal.h"
#include "virtqueue/virtqueue.h"

#define QUEUES 2
#define MEMORY_BYTES 0x20000
#define POPS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static void check(bool condition, const char *what)
{
    if (!condition) {
        perror(what);
        abort();
    }
}

/* ---- a device that takes everything and serves a ring when it is kicked ---- */

static struct {
    struct vhost_user_memory_map *map;
    struct vhost_user_inflight inflight;
    struct vblk_virtqueue_config rings[QUEUES];
    int fds[QUEUES][3];
    uint64_t features;
    struct vhost_user_dirty_log *log;
    uint64_t log_guest[QUEUES];
} device;

static int set_features_co(void *opaque, uint64_t features)
{
    device.features = features;
    return 0;
}

static void set_log_co(void *opaque, struct vhost_user_dirty_log *dirty_log)
{
    vhost_user_dirty_log_destroy(device.log);
    device.log = dirty_log;
}

static void set_log_fd_co(void *opaque, int fd)
{
    close(fd);
}

static int set_memory_co(void *opaque, struct vhost_user_memory_map *map, bool keeps_old)
{
    vhost_user_memory_map_unref(device.map);
    device.map = map ? vhost_user_memory_map_ref(map) : NULL;
    return 0;
}

static int set_ring_size(void *opaque, uint16_t index, uint32_t size)
{
    device.rings[index].size = (uint16_t)size;
    return size > UINT16_MAX ? -EINVAL : 0;
}

static int set_ring_address_co(void *opaque, uint16_t index, const struct vhost_user_ring_address *address)
{
    device.rings[index].desc_user = address->desc_user;
    device.rings[index].avail_user = address->avail_user;
    device.rings[index].used_user = address->used_user;
    device.log_guest[index] = address->log_guest;
    return 0;
}

static int set_ring_base(void *opaque, uint16_t index, uint32_t base)
{
    device.rings[index].base = (uint16_t)base;
    return 0;
}

static void set_fd(uint16_t index, unsigned which, int fd)
{
    if (device.fds[index][which] >= 0)
        close(device.fds[index][which]);
    device.fds[index][which] = fd;
}

static int set_ring_kick_co(void *opaque, uint16_t index, int fd)
{
    struct vblk_virtqueue *vq;
    device.rings[index].features = device.features;
    device.rings[index].inflight = &device.inflight;
    device.rings[index].index = index;
    if (!device.map)
        return -ENXIO;
    int error = vblk_virtqueue_create(&device.rings[index], device.map, &vq);
    if (error)
        return error;
    vblk_virtqueue_set_log(vq, device.log, device.log_guest[index]);
    for (unsigned i = 0; i < POPS_MAX; i++) {
        const char *reason;
        struct vblk_element *element = vblk_virtqueue_pop(vq, &error, &reason);
        if (!element)
            break;
        vblk_virtqueue_push(vq, element, element->in_bytes);
    }
    vblk_virtqueue_destroy(vq);
    set_fd(index, 0, fd);
    return 0;
}

static int set_ring_call(void *opaque, uint16_t index, int fd)
{
    set_fd(index, 1, fd);
    return 0;
}

static int set_ring_error(void *opaque, uint16_t index, int fd)
{
    set_fd(index, 2, fd);
    return 0;
}

static int set_ring_enable_co(void *opaque, uint16_t index, bool enable)
{
    return 0;
}

static int get_ring_base_co(void *opaque, uint16_t index, uint32_t *base_out)
{
    *base_out = device.rings[index].base;
    return 0;
}

static int set_inflight(void *opaque, const struct vhost_user_inflight *inflight)
{
    vhost_user_inflight_unmap(&device.inflight);
    device.inflight = *inflight;
    return 0;
}

static int reset_co(void *opaque)
{
    device.features = 0;
    return 0;
}

static int reset_device_co(void *opaque)
{
    device.features = 0;
    return 0;
}

static int get_config(void *opaque, uint32_t offset, uint32_t size, uint8_t *bytes_out)
{
    memset(bytes_out, 0x22, size);
    return 0;
}

static int set_config(void *opaque, uint32_t offset, uint32_t size, const uint8_t *bytes)
{
    return bytes[size - 1] ? 0 : -EINVAL;
}

static const struct vhost_user_ops ops = {
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
};

/* ---- the session without its loop ---- */

/* What session.c does with the back end's channel, and with what came on it. */
static void drop_channel(struct vhost_user_session *session)
{
    vhost_user_backend_channel_close(&session->channel);
}

static void use_channel(struct vhost_user_session *session)
{
    uint64_t verdict;
    int got;
    if (session->offered_channel_fd >= 0) {
        drop_channel(session);
        vhost_user_backend_channel_open(&session->channel, session->offered_channel_fd);
        session->offered_channel_fd = -1;
    }
    if (session->channel.fd < 0)
        return;
    got = vhost_user_backend_channel_tell(&session->channel, session->protocol_features >> 3 & 1);
    if (!got || got == -EAGAIN)
        while ((got = vhost_user_backend_channel_receive(&session->channel, &verdict)) == 1)
            ;
    if (got != -EAGAIN)
        drop_channel(session);
}

/* Handle what has arrived. False: the connection ended. */
static bool handle(struct vhost_user_session *session, int there)
{
    for (;;) {
        int got = vhost_user_receive(&session->receiver);
        if (got == -EAGAIN)
            return true;
        if (got != 1)
            return false;
        struct vhost_user_reply reply = { 0 };
        int error = vhost_user_dispatch_co(session, &session->receiver.message, &reply);
        if (reply.size_bytes || reply.is_empty) {
            uint8_t bytes[sizeof(struct vhost_user_header) + sizeof reply.payload];
            check(reply.size_bytes <= sizeof reply.payload, "a reply that is too long");
            vhost_user_sender_init(&session->sender, session->fd, &session->receiver.message.header,
                                   &reply.payload, reply.size_bytes);
            if (reply.has_fd)
                close(reply.fd); /* how it would travel is test_inflight_messages.c's */
            check(vhost_user_send(&session->sender) == 1, "a reply that does not go out");
            check(recv(there, bytes, sizeof bytes, MSG_DONTWAIT) ==
                      (ssize_t)(sizeof(struct vhost_user_header) + reply.size_bytes),
                  "a reply that does not arrive");
        }
        vhost_user_receiver_next(&session->receiver);
        use_channel(session);
        if (error)
            return false;
    }
}

/* ---- the front end ---- */

struct input {
    const uint8_t *at, *end;
};

static uint8_t take8(struct input *input)
{
    return input->at < input->end ? *input->at++ : 0;
}

static uint16_t take16(struct input *input)
{
    uint16_t low = take8(input);
    return (uint16_t)(low | take8(input) << 8);
}

static size_t take_bytes(struct input *input, void *to, size_t size_bytes)
{
    size_t left = (size_t)(input->end - input->at);
    size_bytes = size_bytes < left ? size_bytes : left;
    memcpy(to, input->at, size_bytes);
    input->at += size_bytes;
    return size_bytes;
}

/* Kinds of descriptors to send; opened once, but for the channel, which each input has anew. */
#define KIND_CHANNEL 4
static int kinds[8], channel_there;
static uint8_t *memory;

static void open_kinds(void)
{
    int pipes[2];
    kinds[0] = memfd_create("memory", MFD_CLOEXEC);
    check(ftruncate(kinds[0], MEMORY_BYTES) == 0, "memory");
    memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, kinds[0], 0);
    check(memory != MAP_FAILED, "mmap");
    kinds[1] = eventfd(0, EFD_CLOEXEC);
    kinds[2] = memfd_create("short", MFD_CLOEXEC);
    check(ftruncate(kinds[2], 100) == 0, "short");
    check(pipe(pipes) == 0, "pipe");
    kinds[3] = pipes[1];
    close(pipes[0]); /* nobody reads */
    kinds[5] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); /* not connected */
    kinds[6] = kinds[7] = kinds[0];
}

static void open_channel(void)
{
    int ends[2];
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "channel");
    kinds[KIND_CHANNEL] = ends[0];
    channel_there = ends[1];
}

static void close_channel(void)
{
    close(kinds[KIND_CHANNEL]);
    close(channel_there);
}

/* The front end's answers: what has come is read, and something is said. */
static void answer_on_channel(struct input *input)
{
    uint8_t bytes[64];
    while (recv(channel_there, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    (void)send(channel_there, bytes, take_bytes(input, bytes, take8(input) % sizeof bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Returns false when the connection has ended. */
static bool run(struct vhost_user_session *session, int there, struct input *input)
{
    while (input->at < input->end) {
        uint8_t op = take8(input), bytes[600];
        if (op & 0x80) {
            uint16_t offset = take16(input);
            (void)take_bytes(input, memory + offset, op & 0x7f);
            continue;
        }
        /* A message: descriptors by number and kind; its size as it is, or another; perhaps cut in two. */
        int fds[9];
        unsigned fd_count = op & 15 ? (op & 15u) % 10 : 0;
        for (unsigned i = 0; i < fd_count; i++)
            fds[i] = kinds[op >> 4 & 7];
        uint32_t request = take8(input), how = take8(input);
        if (request >= 0xf0)
            answer_on_channel(input);
        /* Mostly one that exists. */
        request = request < 0xc0 ? request % 32 : request < 0xe0 ? request - 0xc0 + 16 : request;
        struct vhost_user_header header = { request, VHOST_USER_VERSION | (how & 8), 0 };
        size_t size_bytes =
            take_bytes(input, bytes + sizeof header, take16(input) % (sizeof bytes - sizeof header));
        header.size_bytes = (uint32_t)size_bytes;
        if (how & 1)
            header.size_bytes = take16(input);
        if (how & 2)
            header.flags = take8(input);
        memcpy(bytes, &header, sizeof header);
        size_bytes += sizeof header;
        size_t first = how & 4 ? take8(input) % size_bytes : 0;
        if (first && (!wire_send_bytes(there, bytes, first, fds, fd_count) || !handle(session, there)))
            return false;
        if (!wire_send_bytes(there, bytes + first, size_bytes - first, fds,
                             first && !(how & 16) ? 0 : fd_count) ||
            !handle(session, there))
            return false;
    }
    return true;
}

static int lowest_free_fd(void)
{
    int fd = dup(STDERR_FILENO);
    close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    static struct vhost_user_session session;
    struct input input = { bytes, bytes + size_bytes };
    int ends[2];
    if (!memory) {
        open_kinds();
        vblk_log_init(&session.log, "fuzz"); /* once: its limit keeps the output short */
    }
    memset(memory, 0, MEMORY_BYTES);
    int lowest = lowest_free_fd();

    open_channel();
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    session.queue_count = QUEUES;
    session.features_offered = UINT64_C(1) << 32 | UINT64_C(1) << 28 | UINT64_C(1) << 29 | UINT64_C(1) << 30;
    session.features = session.protocol_features = 0;
    session.features_accepted = false;
    session.status = 0;
    session.map = NULL;
    session.channel.fd = session.offered_channel_fd = -1;
    session.ops = &ops;
    session.fd = ends[0];
    memset(&device, 0, sizeof device);
    memset(device.fds, -1, sizeof device.fds);
    vhost_user_receiver_init(&session.receiver, ends[0]);

    if (run(&session, ends[1], &input)) {
        close(ends[1]);
        (void)handle(&session, ends[1]); /* the end, perhaps in the middle of a message */
    } else {
        close(ends[1]);
    }
    vhost_user_receiver_next(&session.receiver);
    drop_channel(&session);
    close_channel();
    close(ends[0]);
    for (unsigned i = 0; i < QUEUES; i++)
        for (unsigned which = 0; which < 3; which++)
            set_fd((uint16_t)i, which, -1);
    vhost_user_memory_map_unref(device.map);
    vhost_user_inflight_unmap(&device.inflight);
    check(lowest_free_fd() == lowest, "a descriptor was leaked");
    return 0;
}
