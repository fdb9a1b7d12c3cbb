/* A small vhost-user-blk server for tests: see fake_server.h. */
#include "fake_server.h"

#include <glib.h>
#include <glib/gstdio.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_ring.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define RINGS 8
#define REGIONS 8

const struct fake_options fake_defaults = {
    .features = 1ull << 32 | 1ull << 30 | 1ull << 29 | 1ull << 28 | 1ull << 12 | 1ull << 9 | 1ull << 6,
    .protocol_features = 1ull << 0 | 1ull << 3 | 1ull << 9,
    .queue_count = 4,
    .capacity_sectors = 8192,
    .blk_size = 512,
};

struct ring {
    uint32_t size;
    struct vring_desc *desc;
    struct vring_avail *avail;
    struct vring_used *used;
    int kick_fd, call_fd, err_fd;
    uint16_t next; /* available index to take */
    uint16_t used_idx;
    bool kicked, enabled;
};

struct region {
    uint64_t guest, size, user;
    uint8_t *base;
    size_t mapped;
    uint8_t *map;
};

struct fake_server {
    struct fake_options options;
    GThread *thread;
    char *directory, *path;
    int listen_fd, stop_fd, fd;
    uint8_t *disk;
    uint64_t features, protocol_features;
    struct ring rings[RINGS];
    struct region regions[REGIONS];
    unsigned region_count;
    struct fake_seen seen;
};

static void *at_guest(struct fake_server *server, uint64_t address)
{
    for (unsigned i = 0; i < server->region_count; i++)
        if (address - server->regions[i].guest < server->regions[i].size)
            return server->regions[i].base + (address - server->regions[i].guest);
    g_error("fake server: guest address %#" G_GINT64_MODIFIER "x is in no region", address);
}

static void *at_user(struct fake_server *server, uint64_t address)
{
    for (unsigned i = 0; i < server->region_count; i++)
        if (address - server->regions[i].user < server->regions[i].size)
            return server->regions[i].base + (address - server->regions[i].user);
    g_error("fake server: user address %#" G_GINT64_MODIFIER "x is in no region", address);
}

/* Copy between the disk and one data descriptor, which may cross regions: page by page. */
static void move(struct fake_server *server, uint64_t disk_at, const struct vring_desc *desc, bool to_disk)
{
    for (uint32_t done = 0; done < desc->len;) {
        uint32_t part = MIN(desc->len - done, 512);
        void *memory = at_guest(server, desc->addr + done);
        if (disk_at + done + part <= server->options.capacity_sectors * 512) {
            if (to_disk)
                memcpy(server->disk + disk_at + done, memory, part);
            else
                memcpy(memory, server->disk + disk_at + done, part);
        }
        done += part;
    }
}

static void complete(struct fake_server *server, struct ring *ring, uint32_t head, uint32_t length)
{
    struct vring_used_elem *element = &ring->used->ring[ring->used_idx % ring->size];
    uint16_t old = ring->used_idx++;
    element->id = head;
    element->len = length;
    __atomic_store_n(&ring->used->idx, ring->used_idx, __ATOMIC_SEQ_CST);
    bool interrupt;
    if (server->features >> VIRTIO_RING_F_EVENT_IDX & 1)
        interrupt = vring_need_event(__atomic_load_n(&ring->avail->ring[ring->size], __ATOMIC_SEQ_CST),
                                     ring->used_idx, old);
    else
        interrupt = !(__atomic_load_n(&ring->avail->flags, __ATOMIC_SEQ_CST) & VRING_AVAIL_F_NO_INTERRUPT);
    if (interrupt)
        (void)eventfd_write(ring->call_fd, 1);
}

/* Returns false if the connection is to be closed. */
static bool serve_request(struct fake_server *server, struct ring *ring, uint16_t head)
{
    const struct fake_options *options = &server->options;
    const struct vring_desc *table = ring->desc;
    struct vring_desc desc = ring->desc[head];
    bool strike = ++server->seen.request_count == options->fault_after;
    enum fake_fault fault = strike ? options->fault : FAULT_NONE;
    struct virtio_blk_outhdr header = { 0 };
    uint64_t disk_at = 0;
    uint32_t written = 0;
    uint8_t *status = NULL;

    if (options->fault == FAULT_SILENT && server->seen.request_count >= options->fault_after)
        return true;
    if (desc.flags & VRING_DESC_F_INDIRECT) {
        table = at_guest(server, desc.addr);
        desc = table[0];
    }
    for (unsigned position = 0;; position++) {
        if (position == 0) {
            memcpy(&header, at_guest(server, desc.addr), sizeof(header));
            disk_at = header.sector * 512;
        } else if (!(desc.flags & VRING_DESC_F_NEXT)) {
            status = at_guest(server, desc.addr);
            written++;
        } else {
            bool to_disk = header.type == VIRTIO_BLK_T_OUT;
            uint64_t to = fault == FAULT_MISPLACED ? disk_at + desc.len : disk_at;
            struct vring_desc part = desc;
            if (fault == FAULT_TORN)
                part.len = 512;
            if (header.type == VIRTIO_BLK_T_GET_ID)
                memcpy(at_guest(server, desc.addr), "fake-serial", 12);
            else if (!options->null && fault != FAULT_LOST_WRITE)
                move(server, to, &part, to_disk);
            disk_at += desc.len;
            written += to_disk ? 0 : desc.len;
        }
        if (!(desc.flags & VRING_DESC_F_NEXT))
            break;
        desc = table[desc.next];
    }
    server->seen.flush_count += header.type == VIRTIO_BLK_T_FLUSH;

    if (fault == FAULT_VANISH)
        return false;
    if (fault == FAULT_FORGET)
        return true;
    if (fault == FAULT_RING_ERROR)
        (void)eventfd_write(ring->err_fd, 1);
    if (fault == FAULT_RUNAWAY)
        ring->used_idx += ring->size;
    if (fault != FAULT_NO_STATUS)
        *status = fault == FAULT_IO_ERROR ? VIRTIO_BLK_S_IOERR : VIRTIO_BLK_S_OK;
    complete(server, ring, fault == FAULT_UNKNOWN_ID ? ring->size + 5 : head, written);
    if (fault == FAULT_TWICE)
        complete(server, ring, head, written);
    if (fault == FAULT_RUNAWAY)
        (void)eventfd_write(ring->call_fd, 1); /* the event index was jumped over */
    return true;
}

static bool serve_ring(struct fake_server *server, struct ring *ring)
{
    if (!ring->kicked || !ring->enabled)
        return true;
    uint16_t available;
    while ((available = __atomic_load_n(&ring->avail->idx, __ATOMIC_SEQ_CST)) != ring->next) {
        while (ring->next != available)
            if (!serve_request(server, ring, ring->avail->ring[ring->next++ % ring->size]))
                return false;
        /* A polling server asks for no kicks. */
        if (server->features >> VIRTIO_RING_F_EVENT_IDX & 1)
            __atomic_store_n((uint16_t *)&ring->used->ring[ring->size],
                             (uint16_t)(server->options.busy_poll ? ring->next + 0x8000 : ring->next),
                             __ATOMIC_SEQ_CST);
    }
    return true;
}

static void unmap_regions(struct fake_server *server)
{
    for (unsigned i = 0; i < server->region_count; i++)
        munmap(server->regions[i].map, server->regions[i].mapped);
    server->region_count = 0;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void stop_ring(struct ring *ring)
{
    close_fd(&ring->kick_fd);
    close_fd(&ring->call_fd);
    close_fd(&ring->err_fd);
    ring->kicked = ring->enabled = false;
}

static void reset(struct fake_server *server)
{
    for (unsigned i = 0; i < RINGS; i++)
        stop_ring(&server->rings[i]);
    unmap_regions(server);
    close_fd(&server->fd);
    server->features = server->protocol_features = 0;
}

#define PACKED __attribute__((packed))

struct PACKED message {
    struct PACKED {
        uint32_t request, flags, size;
    } header;
    union PACKED {
        uint64_t u64;
        struct PACKED {
            uint32_t index, num;
        } state;
        struct PACKED {
            uint32_t index, flags;
            uint64_t desc, used, avail, log;
        } addr;
        struct PACKED {
            uint32_t count, padding;
            struct PACKED {
                uint64_t guest, size, user, offset;
            } regions[REGIONS];
        } memory;
        struct PACKED {
            uint32_t offset, size, flags;
            uint8_t bytes[256];
        } config;
        uint8_t bytes[512];
    };
};

static bool answer(struct fake_server *server, struct message *message, uint32_t size)
{
    bool strike = message->header.request == server->options.fault_request;
    enum fake_fault fault = strike ? server->options.fault : FAULT_NONE;
    if (fault == FAULT_NO_ANSWER)
        return true;
    if (fault == FAULT_SHORT)
        size -= 4;
    if (fault == FAULT_OTHER)
        message->header.request++;
    message->header.flags = 1 | 4;
    message->header.size = fault == FAULT_HUGE ? 1u << 30 : size;
    return send(server->fd, message, sizeof(message->header) + size, MSG_NOSIGNAL) > 0;
}

static void map_regions(struct fake_server *server, const struct message *message, const int *fds)
{
    unmap_regions(server);
    for (unsigned i = 0; i < message->memory.count; i++) {
        struct region *region = &server->regions[i];
        region->guest = message->memory.regions[i].guest;
        region->size = message->memory.regions[i].size;
        region->user = message->memory.regions[i].user;
        region->mapped = region->size + message->memory.regions[i].offset;
        region->map = mmap(NULL, region->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
        g_assert(region->map != MAP_FAILED);
        region->base = region->map + message->memory.regions[i].offset;
        close(fds[i]);
    }
    server->region_count = message->memory.count;
}

/* Returns false if the connection is to be closed. */
static bool serve_message(struct fake_server *server)
{
    struct message message = { 0 };
    int fds[REGIONS];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(fds))];
    } control;
    struct iovec part = { &message.header, sizeof(message.header) };
    struct msghdr header = { .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes) };
    if (recvmsg(server->fd, &header, MSG_WAITALL) != sizeof(message.header))
        return false;
    struct cmsghdr *c = CMSG_FIRSTHDR(&header);
    if (c)
        memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
    if (message.header.size &&
        recv(server->fd, message.bytes, message.header.size, MSG_WAITALL) != message.header.size)
        return false;

    bool strike = message.header.request == server->options.fault_request;
    if (strike && server->options.fault == FAULT_CLOSE)
        return false;
    struct ring *ring = &server->rings[message.state.index % RINGS];
    switch (message.header.request) {
    case 1:
        message.u64 = server->options.features;
        return answer(server, &message, 8);
    case 2:
        server->features = message.u64;
        break;
    case 5:
        map_regions(server, &message, fds);
        break;
    case 8:
        ring->size = message.state.num;
        break;
    case 9:
        ring->desc = at_user(server, message.addr.desc);
        ring->used = at_user(server, message.addr.used);
        ring->avail = at_user(server, message.addr.avail);
        ring->used_idx = ring->used->idx;
        break;
    case 10:
        ring->next = message.state.num;
        break;
    case 11:
        if (!serve_ring(server, ring))
            return false;
        message.state.num = ring->next;
        stop_ring(ring);
        return answer(server, &message, 8);
    case 12:
        close_fd(&ring->kick_fd);
        ring->kick_fd = fds[0];
        server->seen.start_count++;
        break;
    case 13:
        close_fd(&ring->call_fd);
        ring->call_fd = fds[0];
        break;
    case 14:
        close_fd(&ring->err_fd);
        ring->err_fd = fds[0];
        break;
    case 15:
        message.u64 = server->options.protocol_features;
        return answer(server, &message, 8);
    case 16:
        server->protocol_features = message.u64;
        break;
    case 17:
        message.u64 = server->options.queue_count;
        return answer(server, &message, 8);
    case 18:
        ring->enabled = message.state.num;
        break;
    case 24: {
        struct virtio_blk_config config = { .capacity = server->options.capacity_sectors,
                                            .blk_size = server->options.blk_size,
                                            .num_queues = server->options.queue_count };
        memcpy(message.config.bytes, &config, MIN(message.config.size, sizeof(config)));
        return answer(server, &message, 12 + message.config.size);
    }
    default:
        break;
    }
    if (!(server->features >> 30 & 1))
        ring->enabled = true;
    if (message.header.flags & 8) {
        message.u64 = strike && server->options.fault == FAULT_REFUSE;
        return answer(server, &message, 8);
    }
    return true;
}

/* One turn of a connection; false: closed. */
static bool turn(struct fake_server *server, bool *stop_out)
{
    struct pollfd fds[2 + RINGS] = { { server->stop_fd, POLLIN, 0 }, { server->fd, POLLIN, 0 } };
    for (unsigned i = 0; i < RINGS; i++)
        fds[2 + i] = (struct pollfd){ server->rings[i].kick_fd, POLLIN, 0 };
    bool busy = false;
    for (unsigned i = 0; server->options.busy_poll && i < RINGS; i++)
        busy |= server->rings[i].kicked && server->rings[i].enabled;
    poll(fds, 2 + RINGS, busy ? 0 : -1);
    *stop_out = fds[0].revents;
    if (fds[1].revents && !serve_message(server))
        return false;
    for (unsigned i = 0; i < RINGS; i++) {
        eventfd_t count;
        if (server->rings[i].kick_fd >= 0 && server->rings[i].kick_fd == fds[2 + i].fd &&
            fds[2 + i].revents) {
            (void)eventfd_read(server->rings[i].kick_fd, &count);
            server->seen.kick_count++;
            server->rings[i].kicked = true;
        }
    }
    for (unsigned i = 0; i < RINGS; i++)
        for (unsigned again = 0; again < (busy ? 10000u : 1u); again++)
            if (!serve_ring(server, &server->rings[i]))
                return false;
    return true;
}

static void *serve(void *argument)
{
    struct fake_server *server = argument;
    bool stop = false;
    while (!stop) {
        struct pollfd fds[] = { { server->stop_fd, POLLIN, 0 }, { server->listen_fd, POLLIN, 0 } };
        poll(fds, 2, -1);
        stop = fds[0].revents;
        if (!fds[1].revents)
            continue;
        server->fd = accept(server->listen_fd, NULL, NULL);
        while (!stop && turn(server, &stop)) {
        }
        reset(server);
    }
    return NULL;
}

struct fake_server *fake_start(const struct fake_options *options)
{
    struct fake_server *server = g_new0(struct fake_server, 1);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    server->options = *options;
    server->fd = -1;
    for (unsigned i = 0; i < RINGS; i++)
        server->rings[i].kick_fd = server->rings[i].call_fd = server->rings[i].err_fd = -1;
    server->disk = g_malloc0(options->null ? 1 : options->capacity_sectors * 512);
    server->directory = g_dir_make_tmp("fake-server-XXXXXX", NULL);
    server->path = g_build_filename(server->directory, "socket", NULL);
    server->stop_fd = eventfd(0, EFD_CLOEXEC);
    server->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    g_strlcpy(address.sun_path, server->path, sizeof(address.sun_path));
    g_assert(bind(server->listen_fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    g_assert(listen(server->listen_fd, 4) == 0);
    server->thread = g_thread_new("fake-server", serve, server);
    return server;
}

const char *fake_path(const struct fake_server *server)
{
    return server->path;
}

void fake_stop(struct fake_server *server)
{
    (void)eventfd_write(server->stop_fd, 1);
    g_thread_join(server->thread);
    close(server->listen_fd);
    close(server->stop_fd);
    g_unlink(server->path);
    g_rmdir(server->directory);
}

struct fake_seen fake_seen(const struct fake_server *server)
{
    return server->seen;
}

void fake_free(struct fake_server *server)
{
    g_free(server->disk);
    g_free(server->path);
    g_free(server->directory);
    g_free(server);
}
