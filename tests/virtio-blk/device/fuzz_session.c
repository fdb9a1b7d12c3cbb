/*
 * Goal:   no sequence of messages, ring contents, kicks and hang-ups harms a device: no memory error, no descriptor left
 *         open, nothing that never ends.
 * Method: a whole device in this process, one thread, main loop and IOThread in one: passes of the loop run between the
 *         steps, so that requests are in flight (a disk that delays some) when the next message comes. Bytes are read as
 *         steps; some stand for whole things (a ring is set up and started, a request is made), because bytes alone would
 *         not get that far. After each input the front end hangs up and the device must be as before.
 * Broken: a guest or front end crashes vblkd, or uses it up.
 *
 *     00-1f  set up ring (2 bits; packed, event index, indirect; then a byte: size), start it
 *     20-3f  a request on ring (2 bits): a byte of type, two of sector, one of data length in sectors
 *     40-5f  up to 32 bytes into memory at an offset of three
 *     60-6f  kick ring (2 bits)
 *     70-7f  1 to 16 passes
 *     80-ff  a message: how many descriptors of which kind, request, flags, payload
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "device/internal.h"
#include "vhost_user/protocol.h"
#include "vhost_user/session_internal.h"

#define RINGS 4
#define MEMORY_BYTES 0x40000
#define USER UINT64_C(0x10000000)
#define RING_BYTES 0x8000
#define AVAIL 0x1000
#define USED 0x2000
#define HEADER 0x3000
#define STATUS 0x3100
#define DATA 0x4000

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static struct vblk_device *device;
static struct vblk_disk *disk;
static struct rt_loop *loop;
static uint8_t *memory;
static int kinds[6], kicks[RINGS], call;
static struct sockaddr_un address = { .sun_family = AF_UNIX };

struct input {
    const uint8_t *at, *end;
    int fd;
    bool has_memory, is_packed;
    uint16_t sizes[RINGS], next[RINGS];
};

static void check(bool condition, const char *what)
{
    if (!condition) {
        perror(what);
        abort();
    }
}

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

/* ---- the device ---- */

static void begin(void)
{
    static char directory[] = "/tmp/fuzz_session.XXXXXX";
    char *message = NULL;
    int ends[2];

    check(rt_loop_create("main", &loop) == 0, "loop");
    rt_loop_bind(loop);
    check(mkdtemp(directory) != NULL, "directory");
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", directory);
    const struct vblk_device_options options = { .name = "fuzz",
                                                 .socket_path = address.sun_path,
                                                 .fd = -1,
                                                 .blk_file = "null:1M",
                                                 .inject = "percent=30,delay-us=20",
                                                 .queue_count = RINGS,
                                                 .block_size_bytes = 512,
                                                 .socket_mode = -1,
                                                 .loops = &loop,
                                                 .loop_count = 1,
                                                 .main_loop = loop };
    if (vblk_device_open_disk(&options, &disk, &message) != 0 ||
        vblk_device_create(&options, disk, &device, &message) != 0) {
        fprintf(stderr, "%s\n", message);
        abort();
    }
    kinds[0] = memfd_create("memory", MFD_CLOEXEC);
    check(ftruncate(kinds[0], MEMORY_BYTES) == 0, "memory");
    memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, kinds[0], 0);
    check(memory != MAP_FAILED, "mmap");
    kinds[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    kinds[2] = memfd_create("short", MFD_CLOEXEC);
    check(ftruncate(kinds[2], 100) == 0 && pipe(ends) == 0, "kinds");
    kinds[3] = ends[1];
    close(ends[0]); /* nobody reads */
    kinds[4] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    kinds[5] = open("/dev/null", O_RDWR | O_CLOEXEC);
    call = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (unsigned i = 0; i < RINGS; i++)
        kicks[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void pass(unsigned count)
{
    while (count-- > 0 && rt_loop_pass(loop, false)) {
    }
}

/* ---- the front end ---- */

static void read_answers(struct input *input)
{
    uint8_t bytes[1024];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 8)];
    } control;
    struct iovec part = { bytes, sizeof(bytes) };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
                              .msg_controllen = sizeof(control.bytes) };

    while (recvmsg(input->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) > 0) {
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);

        for (size_t i = 0; header && i < (header->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
            close(fd);
        }
        message.msg_controllen = sizeof(control.bytes);
    }
}

static void send_message(struct input *input, uint32_t request, uint32_t flags, uint32_t says_bytes, const void *payload,
                         size_t size_bytes, const int *fds, unsigned fd_count)
{
    struct vhost_user_header header = { request, flags, says_bytes };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 10)];
    } control = { 0 };
    struct iovec parts[2] = { { &header, sizeof(header) }, { (void *)payload, size_bytes } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

    if (fd_count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
    }
    (void)sendmsg(input->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    pass(4);
    read_answers(input);
}

static void set(struct input *input, uint32_t request, const void *payload, size_t size_bytes, int fd)
{
    send_message(input, request, VHOST_USER_VERSION, (uint32_t)size_bytes, payload, size_bytes, &fd, fd >= 0);
}

static void set_up_ring(struct input *input, uint8_t op)
{
    unsigned ring = op & 3;
    uint64_t features = UINT64_C(1) << VIRTIO_F_VERSION_1 | UINT64_C(1) << VHOST_USER_F_PROTOCOL_FEATURES |
                        UINT64_C(1) << VIRTIO_BLK_F_FLUSH | UINT64_C(1) << VIRTIO_BLK_F_DISCARD |
                        UINT64_C(1) << VIRTIO_BLK_F_WRITE_ZEROES;
    uint64_t index = ring, base = ring * RING_BYTES;

    input->sizes[ring] = (uint16_t)(1 << take8(input) % 8);
    input->next[ring] = 0;
    if (!input->has_memory) {
        struct vhost_user_memory_table table = { .count = 1, .regions = { { 0, MEMORY_BYTES, USER, 0 } } };
        const uint64_t protocol =
            UINT64_C(1) << VHOST_USER_PROTOCOL_F_MQ | UINT64_C(1) << VHOST_USER_PROTOCOL_F_CONFIG |
            UINT64_C(1) << VHOST_USER_PROTOCOL_F_LOG_SHMFD | UINT64_C(1) << VHOST_USER_PROTOCOL_F_REPLY_ACK |
            UINT64_C(1) << VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS | UINT64_C(1) << VHOST_USER_PROTOCOL_F_STATUS |
            UINT64_C(1) << VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD | UINT64_C(1) << VHOST_USER_PROTOCOL_F_RESET_DEVICE |
            UINT64_C(1) << VHOST_USER_PROTOCOL_F_BACKEND_REQ;

        input->is_packed = op & 4;
        features |= (op & 4 ? UINT64_C(1) << VIRTIO_F_RING_PACKED : 0) |
                    (op & 8 ? UINT64_C(1) << VIRTIO_RING_F_EVENT_IDX : 0) |
                    (op & 16 ? UINT64_C(1) << VIRTIO_RING_F_INDIRECT_DESC : 0);
        set(input, VHOST_USER_SET_PROTOCOL_FEATURES, &protocol, sizeof(protocol), -1);
        set(input, VHOST_USER_SET_FEATURES, &features, sizeof(features), -1);
        set(input, VHOST_USER_SET_MEM_TABLE, &table, 8 + 32, kinds[0]);
        input->has_memory = true;
    }
    memset(memory + base, 0, RING_BYTES);
    const struct vhost_user_vring_state size = { ring, input->sizes[ring] }, enable = { ring, 1 };
    const struct vhost_user_vring_address where = { .index = ring,
                                                    .desc_user = USER + base,
                                                    .avail_user = USER + base + AVAIL,
                                                    .used_user = USER + base + USED,
                                                    .log_guest = base + USED };
    set(input, VHOST_USER_SET_VRING_NUM, &size, sizeof(size), -1);
    set(input, VHOST_USER_SET_VRING_ADDR, &where, sizeof(where), -1);
    set(input, VHOST_USER_SET_VRING_CALL, &index, sizeof(index), call);
    set(input, VHOST_USER_SET_VRING_KICK, &index, sizeof(index), kicks[ring]);
    set(input, VHOST_USER_SET_VRING_ENABLE, &enable, sizeof(enable), -1);
}

static void write_descriptor(uint8_t *at, uint64_t where, uint32_t bytes, uint16_t flags, uint16_t next, bool packed)
{
    uint16_t last[2] = { packed ? next : flags, packed ? flags : next };

    memcpy(at, &where, 8);
    memcpy(at + 8, &bytes, 4);
    memcpy(at + 12, last, 4);
}

static void request(struct input *input, uint8_t op)
{
    unsigned ring = op & 3;
    uint16_t size = input->sizes[ring], next = input->next[ring];
    uint64_t base = ring * RING_BYTES;
    uint8_t *desc = memory + base, type = take8(input);
    struct virtio_blk_outhdr header = { .type = htole32(type), .sector = htole64(take16(input)) };
    uint32_t data_bytes = (take8(input) % 16 + 1) * 512;
    uint16_t write = type == VIRTIO_BLK_T_IN || type == VIRTIO_BLK_T_GET_ID ? VRING_DESC_F_WRITE : 0;

    if (size < 4)
        return;
    memcpy(memory + base + HEADER, &header, sizeof(header));
    if (input->is_packed) {
        uint16_t mine = next / size % 2 ? 1 << VRING_PACKED_DESC_F_USED : 1 << VRING_PACKED_DESC_F_AVAIL;
        const uint16_t flags[3] = { VRING_DESC_F_NEXT, VRING_DESC_F_NEXT | write, VRING_DESC_F_WRITE };
        const uint64_t where[3] = { base + HEADER, base + DATA, base + STATUS };
        const uint32_t bytes[3] = { sizeof(header), data_bytes, 1 };

        for (unsigned i = 0; i < 3; i++) {
            uint16_t at = next + i;

            mine = at / size % 2 ? 1 << VRING_PACKED_DESC_F_USED : 1 << VRING_PACKED_DESC_F_AVAIL;
            write_descriptor(desc + at % size * 16, where[i], bytes[i], flags[i] | mine, next % size, true);
        }
        input->next[ring] = next + 3;
    } else {
        uint16_t head = next * 3 % (size - 2), index, *avail = (uint16_t *)(memory + base + AVAIL);

        write_descriptor(desc + head * 16, base + HEADER, sizeof(header), VRING_DESC_F_NEXT, head + 1, false);
        write_descriptor(desc + (head + 1) * 16, base + DATA, data_bytes, VRING_DESC_F_NEXT | write, head + 2, false);
        write_descriptor(desc + (head + 2) * 16, base + STATUS, 1, VRING_DESC_F_WRITE, 0, false);
        avail[2 + next % size] = head;
        index = ++input->next[ring];
        avail[1] = index;
    }
    eventfd_write(kicks[ring], 1);
    pass(2);
}

static void message(struct input *input, uint8_t op)
{
    uint8_t payload[600];
    int fds[9];
    unsigned fd_count = (op & 15) % 10;
    uint32_t request_number = take8(input) % 48;
    uint8_t how = take8(input);
    size_t size_bytes = take_bytes(input, payload, take8(input));

    for (unsigned i = 0; i < fd_count; i++)
        fds[i] = kinds[(op >> 4 & 7) % 6];
    send_message(input, request_number, how & 2 ? take8(input) : VHOST_USER_VERSION | (how & 8),
                 how & 1 ? take16(input) : (uint32_t)size_bytes, payload, size_bytes, fds, fd_count);
}

static int lowest_free_fd(void)
{
    int fd = dup(STDERR_FILENO);

    close(fd);
    return fd;
}

static bool is_served(void)
{
    return device->session->coroutine || !device->session->listen_handler;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    struct input input = { .at = bytes, .end = bytes + size_bytes };

    if (!device)
        begin();
    memset(memory, 0, MEMORY_BYTES);
    int lowest = lowest_free_fd();
    input.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(connect(input.fd, (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
    while (!device->session->coroutine)
        rt_loop_pass(loop, true);
    while (input.at < input.end) {
        uint8_t op = take8(&input);

        if (op < 0x20) {
            set_up_ring(&input, op);
        } else if (op < 0x40) {
            request(&input, op);
        } else if (op < 0x60) {
            uint32_t offset = take16(&input) | (uint32_t)take8(&input) << 16;

            (void)take_bytes(&input, memory + offset % (MEMORY_BYTES - 32), (op & 31) + 1);
        } else if (op < 0x70) {
            eventfd_write(kicks[op & 3], 1);
            pass(2);
        } else if (op < 0x80) {
            pass((op & 15) + 1);
        } else {
            message(&input, op);
        }
    }
    close(input.fd);
    while (is_served())
        rt_loop_pass(loop, true);
    for (unsigned i = 0; i < RINGS; i++) {
        eventfd_t count;

        check(device->queues[i].in_flight == 0 && !device->queues[i].vq, "a ring that is left");
        (void)eventfd_read(kicks[i], &count);
        (void)eventfd_read(call, &count);
    }
    check(lowest_free_fd() == lowest, "a descriptor that is left");
    return 0;
}
