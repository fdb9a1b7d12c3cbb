/* What a front end can say: messages that are wrong, at the wrong time, with wrong descriptors, in pieces, in any order. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "battery.h"
#include "kinds.h"

enum stage { CONNECTED, MAPPED, STARTED };

struct message_case {
    enum stage stage;
    uint32_t request, size_bytes;
    uint64_t words[12];
    const char *fds; /* kinds.h */
    bool gone;       /* nothing is to work after it on this connection */
    /* As is: no request for an answer, another header. */
    uint32_t flags, header_size_bytes, cut_bytes;
};

static unsigned open_fds(const struct front_end *fe, const char *kinds, int *fds)
{
    unsigned count = 0;

    for (; kinds && *kinds; kinds++)
        fds[count++] = kind_open(*kinds, fe);
    return count;
}

static void close_fds(int *fds, unsigned count)
{
    while (count > 0)
        close(fds[--count]);
}

static bool reach(struct attempt *attempt, enum stage stage)
{
    struct fe_options options = attempt_options(attempt);

    options.queue_count = 2;
    if (stage == STARTED)
        return attempt_open(attempt, &options);
    if (stage == MAPPED)
        return attempt_prepare(attempt, &options);
    attempt->fe = fe_create(&options);
    return fe_connect(attempt->fe) == 0;
}

static enum seen act(struct attempt *attempt, const void *argument)
{
    const struct message_case *c = argument;
    int fds[64];
    unsigned fd_count;
    enum seen seen;

    if (!reach(attempt, c->stage))
        return STUCK;
    fd_count = open_fds(attempt->fe, c->fds, fds);
    if (c->stage == CONNECTED) { /* nothing is answered yet */
        (void)fe_send(attempt->fe, c->request, 0, c->words, c->size_bytes, fds, fd_count);
        seen = attempt_ask(attempt);
        if (seen == WORKS && battery_log_has(attempt->battery, "refused"))
            seen = REFUSED;
    } else {
        seen = attempt_message(attempt, c->request, c->words, c->size_bytes, fds, fd_count);
    }
    close_fds(fds, fd_count);
    if ((seen == WORKS || seen == REFUSED) && c->stage == STARTED && !c->gone)
        for (unsigned i = 0; i < 2; i++) {
            enum seen then = attempt_read(attempt, i);

            if (then != WORKS)
                return then;
        }
    return seen;
}

/* Bytes that are no message, or a part of one; the connection must end, here or when we close it. */
static enum seen act_raw(struct attempt *attempt, const void *argument)
{
    const struct message_case *c = argument;
    struct wire_header header = { c->request, c->flags, c->header_size_bytes };
    uint8_t bytes[sizeof(header) + sizeof(c->words)];
    int fds[64];

    if (!reach(attempt, c->stage))
        return STUCK;
    memcpy(bytes, &header, sizeof(header));
    memcpy(bytes + sizeof(header), c->words, sizeof(c->words));
    unsigned fd_count = open_fds(attempt->fe, c->fds, fds);
    (void)fe_send_bytes(attempt->fe, bytes, sizeof(header) + c->size_bytes - c->cut_bytes, fds, fd_count);
    close_fds(fds, fd_count);
    if (c->cut_bytes > 0)
        return WORKS; /* it waits for the rest; the connection is closed on it */
    return attempt_ask(attempt);
}

static enum seen act_byte_by_byte(struct attempt *attempt, const void *argument)
{
    const struct message_case *c = argument;
    struct wire_header header = { c->request, WIRE_VERSION | WIRE_NEED_REPLY, c->size_bytes };
    uint8_t bytes[sizeof(header) + sizeof(c->words)];
    struct fe_message answer;
    int fds[64];

    if (!reach(attempt, c->stage))
        return STUCK;
    memcpy(bytes, &header, sizeof(header));
    memcpy(bytes + sizeof(header), c->words, sizeof(c->words));
    unsigned fd_count = open_fds(attempt->fe, c->fds, fds);
    for (unsigned i = 0; i < sizeof(header) + c->size_bytes; i++)
        if (fe_send_bytes(attempt->fe, bytes + i, 1, fds, i + 1 == sizeof(header) + c->size_bytes ? fd_count : 0) < 0)
            return ENDED;
    close_fds(fds, fd_count);
    if (fe_recv(attempt->fe, &answer) < 0)
        return STUCK;
    return attempt_read(attempt, 0);
}

/* Random messages with random descriptors; the seed is in the table. */
static enum seen act_storm(struct attempt *attempt, const void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;

    if (!reach(attempt, rand_r(&seed) % 3))
        return STUCK;
    for (unsigned i = 0; i < 200; i++) {
        uint64_t words[12];
        int fds[9];
        unsigned fd_count = rand_r(&seed) % 3 ? 0 : 1 + rand_r(&seed) % 3, size_bytes = rand_r(&seed) % 5 * 8;

        for (unsigned word = 0; word < 12; word++)
            words[word] = (uint64_t)(rand_r(&seed) % 7) << (rand_r(&seed) % 4 ? 0 : rand_r(&seed) % 64);
        for (unsigned j = 0; j < fd_count; j++)
            fds[j] = kind_open(KINDS[rand_r(&seed) % strlen(KINDS)], attempt->fe);
        int result = fe_send(attempt->fe, rand_r(&seed) % 45, 0, words, size_bytes, fds, fd_count);
        close_fds(fds, fd_count);
        if (result < 0 || fe_gone(attempt->fe))
            break;
    }
    return ENDED;
}

/* Questions without reading answers, until the socket is full, then all of them are read. */
static enum seen act_deaf(struct attempt *attempt, const void *argument)
{
    struct fe_message answer;

    if (!reach(attempt, STARTED))
        return STUCK;
    struct pollfd room = { .fd = fe_socket(attempt->fe), .events = POLLOUT };
    unsigned sent = 0;
    for (; sent < 5000 && poll(&room, 1, 50) == 1; sent++)
        if (fe_send(attempt->fe, WIRE_GET_FEATURES, 0, NULL, 0, NULL, 0) < 0)
            return STUCK;
    for (; sent > 0; sent--)
        if (fe_recv(attempt->fe, &answer) < 0)
            return STUCK;
    return attempt_read(attempt, 1);
}

/* Start and stop a ring many times; each start brings new descriptors. */
static enum seen act_restarts(struct attempt *attempt, const void *argument)
{
    uint16_t base;

    if (!reach(attempt, STARTED))
        return STUCK;
    for (unsigned i = 0; i < 50; i++) {
        if (fe_queue_stop(attempt->fe, i % 2, &base) < 0 || fe_queue_start(attempt->fe, i % 2) < 0 ||
            fe_queue_enable(attempt->fe, i % 2, true) < 0)
            return STUCK;
        enum seen seen = attempt_read(attempt, i % 2);
        if (seen != WORKS)
            return seen;
    }
    return WORKS;
}

static enum seen act_many_queues(struct attempt *attempt, const void *argument)
{
    struct fe_options options = attempt_options(attempt);

    options.queue_count = (unsigned)(uintptr_t)argument;
    if (!attempt_open(attempt, &options))
        return strstr(attempt->detail, "the server offers") ? REFUSED : STUCK;
    for (unsigned i = 0; i < options.queue_count; i++) {
        enum seen seen = attempt_read(attempt, i);

        if (seen != WORKS)
            return seen;
    }
    return WORKS;
}

/* A descriptor of another kind in place of a ring's, and requests. */
static enum seen act_ring_fd(struct attempt *attempt, const void *argument)
{
    const struct message_case *c = argument;
    uint64_t ring = 0;

    if (!reach(attempt, STARTED))
        return STUCK;
    int fd = kind_open(c->fds[0], attempt->fe);
    enum seen seen = attempt_message(attempt, c->request, &ring, sizeof(ring), &fd, 1);
    close(fd);
    if (seen == ENDED || seen == STUCK)
        return seen;
    struct fe_queue *queue = fe_queue(attempt->fe, 0);
    fe_queue_prepare(queue, fe_queue_take(queue), VIRTIO_BLK_T_IN, 8, 4096, FE_FROM_DEVICE);
    fe_queue_submit(queue, 0);
    fe_queue_publish(queue);
    fe_queue_kick(queue);
    enum seen other = attempt_read(attempt, 1); /* the other ring goes on */
    return other == WORKS || other == BROKEN ? seen : other;
}

#define MESSAGE(name, seen, reason, ...) { name, seen, reason, act, &(const struct message_case){ __VA_ARGS__ }, 0, 0 }
#define RAW(name, seen, reason, ...) { name, seen, reason, act_raw, &(const struct message_case){ __VA_ARGS__ }, 0, 0 }
#define RING_FD(name, message, kind)                                                                          \
    { name, HARMLESS, NULL, act_ring_fd, &(const struct message_case){ .request = message, .fds = kind }, 0, 0 }
#define STORM(seed) { "a storm of messages, seed " #seed, ENDED, NULL, act_storm, (const void *)seed, 0, 0 }

#define S(request_, bytes, ...) .stage = STARTED, .request = WIRE_##request_, .size_bytes = bytes, .words = { __VA_ARGS__ }
#define M(request_, bytes, ...) .stage = MAPPED, .request = WIRE_##request_, .size_bytes = bytes, .words = { __VA_ARGS__ }
#define C(request_, bytes, ...) .stage = CONNECTED, .request = WIRE_##request_, .size_bytes = bytes, .words = { __VA_ARGS__ }
#define STATE(index, num) ((uint64_t)(num) << 32 | (index))
#define LENGTH "its payload has a wrong length"
#define FDS "descriptors are missing or too many"
#define NO_RING "the device has no such ring"

const struct hostile_case message_cases[] = {
    /* lengths */
    MESSAGE("SET_FEATURES of 7 bytes", REFUSED, LENGTH, S(SET_FEATURES, 7, 0)),
    MESSAGE("SET_FEATURES of 9 bytes", REFUSED, LENGTH, S(SET_FEATURES, 9, 0)),
    MESSAGE("SET_OWNER with a payload", REFUSED, LENGTH, S(SET_OWNER, 8, 0)),
    MESSAGE("SET_VRING_NUM of 4 bytes", REFUSED, LENGTH, S(SET_VRING_NUM, 4, 0)),
    MESSAGE("SET_VRING_ADDR of 39 bytes", REFUSED, LENGTH, S(SET_VRING_ADDR, 39, 0)),
    MESSAGE("SET_VRING_ENABLE of 0 bytes", REFUSED, LENGTH, S(SET_VRING_ENABLE, 0, 0)),
    MESSAGE("GET_VRING_BASE of 4 bytes", ENDED, LENGTH, S(GET_VRING_BASE, 4, 0)),
    MESSAGE("GET_FEATURES with a payload", ENDED, LENGTH, S(GET_FEATURES, 8, 0)),
    MESSAGE("SET_MEM_TABLE of 7 bytes", REFUSED, LENGTH, S(SET_MEM_TABLE, 7, 0)),
    MESSAGE("SET_CONFIG of 4 bytes", REFUSED, LENGTH, S(SET_CONFIG, 4, 0)),
    MESSAGE("GET_CONFIG of 4 bytes", REFUSED, LENGTH, S(GET_CONFIG, 4, 0)),
    MESSAGE("SET_LOG_BASE of 8 bytes", ENDED, LENGTH, S(SET_LOG_BASE, 8, 0), .fds = "m"),
    RAW("a payload that says 4 GiB", ENDED, "too long", .stage = STARTED, .request = 2, .flags = 1, .header_size_bytes = UINT32_MAX),
    RAW("a payload that says 4097 bytes", ENDED, "too long", .stage = STARTED, .request = 2, .flags = 1, .header_size_bytes = 4097),
    RAW("version 0", ENDED, "wrong version", .stage = STARTED, .request = 1, .flags = 0),
    RAW("version 2", ENDED, "wrong version", .stage = STARTED, .request = 1, .flags = 2),
    RAW("version 3", ENDED, "wrong version", .stage = CONNECTED, .request = 1, .flags = 3),
    RAW("a reply", ENDED, "is a reply", .stage = CONNECTED, .request = 1, .flags = 5),
    RAW("unknown flags", WORKS, NULL, .stage = STARTED, .request = 3, .flags = 0xfffffff1),
    RAW("a header cut after 5 bytes", WORKS, "middle of a message", .stage = STARTED, .request = 1, .flags = 1, .cut_bytes = 7),
    RAW("a payload cut in the middle", WORKS, "middle of a message", .stage = STARTED, .request = 2, .flags = 1, .header_size_bytes = 8,
        .size_bytes = 8, .cut_bytes = 3),
    RAW("a message cut with its descriptors", WORKS, "middle of a message", .stage = STARTED, .request = WIRE_SET_VRING_KICK, .flags = 1,
        .header_size_bytes = 8, .size_bytes = 8, .cut_bytes = 3, .fds = "e"),
    RAW("20 descriptors", ENDED, NULL, .stage = STARTED, .request = 1, .flags = 1, .fds = "eeeeeeeeeeeeeeeeeeee"),
    { "a message byte by byte", WORKS, NULL, act_byte_by_byte,
      &(const struct message_case){ S(SET_FEATURES, 7, 0) }, 0, 0 },
    { "descriptors with the last byte", WORKS, NULL, act_byte_by_byte,
      &(const struct message_case){ S(SET_VRING_CALL, 8, 1), .fds = "e" }, 0, 0 },
    { "questions until no more fit, before the first answer is read", WORKS, NULL, act_deaf, NULL, 0, 0 },

    /* numbers */
    MESSAGE("message 0", REFUSED, "not supported", .stage = STARTED, .request = 0),
    MESSAGE("message 200", REFUSED, "not supported", .stage = STARTED, .request = 200, .size_bytes = 8),
    MESSAGE("the largest message", REFUSED, "not supported", .stage = STARTED, .request = UINT32_MAX),
    MESSAGE("message 200 with a descriptor", ENDED, "not supported", .stage = STARTED, .request = 200, .fds = "e"),
    MESSAGE("features that were not offered", REFUSED, "was not offered", S(SET_FEATURES, 8, UINT64_MAX)),
    MESSAGE("fewer features while rings run", REFUSED, "rings run", S(SET_FEATURES, 8, UINT64_C(1) << 32 | 1 << 30)),
    MESSAGE("protocol features that were not offered", REFUSED, "was not offered", S(SET_PROTOCOL_FEATURES, 8, UINT64_MAX)),
    MESSAGE("a ring of size 0", REFUSED, NULL, M(SET_VRING_NUM, 8, STATE(0, 0))),
    MESSAGE("a ring of size 3", HARMLESS, NULL, M(SET_VRING_NUM, 8, STATE(0, 3))), /* packed ones may have it */
    MESSAGE("a ring of size 2048", REFUSED, NULL, M(SET_VRING_NUM, 8, STATE(0, 2048))),
    MESSAGE("a ring of size 65536", REFUSED, NULL, M(SET_VRING_NUM, 8, STATE(0, 65536))),
    MESSAGE("a ring of the largest size", REFUSED, NULL, M(SET_VRING_NUM, 8, STATE(0, UINT32_MAX))),
    MESSAGE("a ring of size 1024", WORKS, NULL, M(SET_VRING_NUM, 8, STATE(0, 1024))),
    MESSAGE("another size while it runs", REFUSED, NULL, S(SET_VRING_NUM, 8, STATE(0, 32))),
    MESSAGE("ring 64", REFUSED, NO_RING, S(SET_VRING_NUM, 8, STATE(64, 16))),
    MESSAGE("ring 4294967295", REFUSED, NO_RING, S(SET_VRING_NUM, 8, STATE(UINT32_MAX, 16))),
    MESSAGE("base 65536", REFUSED, NULL, M(SET_VRING_BASE, 8, STATE(0, 65536))),
    MESSAGE("the largest base", REFUSED, NULL, M(SET_VRING_BASE, 8, STATE(0, UINT32_MAX))),
    MESSAGE("base 65535", WORKS, NULL, M(SET_VRING_BASE, 8, STATE(0, 65535))),
    MESSAGE("another base while it runs", REFUSED, NULL, S(SET_VRING_BASE, 8, STATE(0, 5))),
    MESSAGE("the base of ring 64", ENDED, NO_RING, S(GET_VRING_BASE, 8, STATE(64, 0))),
    MESSAGE("the base of a ring that never ran", WORKS, NULL, S(GET_VRING_BASE, 8, STATE(3, 0))),
    MESSAGE("enable 2", REFUSED, "neither 0 nor 1", S(SET_VRING_ENABLE, 8, STATE(0, 2))),
    MESSAGE("enable ring 64", REFUSED, NO_RING, S(SET_VRING_ENABLE, 8, STATE(64, 1))),
    MESSAGE("enable a ring that has nothing", WORKS, NULL, S(SET_VRING_ENABLE, 8, STATE(3, 1))),
    MESSAGE("enable twice", WORKS, NULL, S(SET_VRING_ENABLE, 8, STATE(0, 1))),
    MESSAGE("a ring's address elsewhere while it runs", REFUSED, NULL, S(SET_VRING_ADDR, 40, 0, 4096, 8192, 12288, 0)),
    MESSAGE("a ring's address with unknown flags", REFUSED, "a flag is unknown", S(SET_VRING_ADDR, 40, STATE(0, 6), 0, 0, 0, 0)),
    MESSAGE("a ring's address with the log flag before the feature", REFUSED, "a flag is unknown", S(SET_VRING_ADDR, 40, STATE(0, 1), 0, 0, 0, 0)),
    MESSAGE("a ring outside memory", WORKS, NULL, M(SET_VRING_ADDR, 40, 0, 4096, 8192, 12288, 0)),
    MESSAGE("configuration at 250 of 10 bytes", REFUSED, "outside the configuration", S(GET_CONFIG, 22, STATE(250, 10), 0)),
    MESSAGE("configuration of 0 bytes", REFUSED, "outside the configuration", S(GET_CONFIG, 12, STATE(0, 0), 0)),
    MESSAGE("configuration at the largest offset", REFUSED, "outside the configuration", S(GET_CONFIG, 12, STATE(UINT32_MAX, 2), 0)),
    MESSAGE("configuration of the largest size", REFUSED, "outside the configuration", S(GET_CONFIG, 12, STATE(1, UINT32_MAX), 0)),
    MESSAGE("a new capacity by configuration", REFUSED, NULL, S(SET_CONFIG, 20, STATE(0, 8), 1, 1)),
    MESSAGE("a configuration longer than it says", REFUSED, NULL, S(SET_CONFIG, 24, STATE(0, 8), 1, 1)),

    /* descriptors */
    MESSAGE("a kick descriptor that is missing", ENDED, FDS, S(SET_VRING_KICK, 8, 0)),
    MESSAGE("two kick descriptors", ENDED, FDS, S(SET_VRING_KICK, 8, 0), .fds = "ee"),
    MESSAGE("a kick descriptor and the flag that there is none", ENDED, FDS, S(SET_VRING_KICK, 8, 0x100), .fds = "e"),
    MESSAGE("a call descriptor that is missing", ENDED, FDS, S(SET_VRING_CALL, 8, 0)),
    MESSAGE("eight error descriptors", ENDED, FDS, S(SET_VRING_ERR, 8, 0), .fds = "eeeeeeee"),
    MESSAGE("a kick descriptor for ring 64", REFUSED, NO_RING, S(SET_VRING_KICK, 8, 64), .fds = "e"),
    MESSAGE("a kick descriptor with an unknown flag", REFUSED, "a flag is unknown", S(SET_VRING_KICK, 8, 0x200), .fds = "e"),
    MESSAGE("a call descriptor with a high flag", REFUSED, "a flag is unknown", S(SET_VRING_CALL, 8, UINT64_C(1) << 63), .fds = "e"),
    MESSAGE("GET_FEATURES with a descriptor", ENDED, FDS, S(GET_FEATURES, 0, 0), .fds = "e"),
    MESSAGE("SET_OWNER with eight descriptors", ENDED, FDS, S(SET_OWNER, 0, 0), .fds = "eeeeeeee"),
    MESSAGE("a log without descriptor", ENDED, FDS, S(SET_LOG_BASE, 16, 4096, 0)),
    MESSAGE("a log with two descriptors", ENDED, FDS, S(SET_LOG_BASE, 16, 4096, 0), .fds = "mm"),
    MESSAGE("a log of size 0", ENDED, "its size is 0", S(SET_LOG_BASE, 16, 0, 0), .fds = "m"),
    MESSAGE("a log past the end of its file", ENDED, "past the end", S(SET_LOG_BASE, 16, 1 << 20, 1), .fds = "m"),
    MESSAGE("a log whose size overflows", ENDED, "overflow", S(SET_LOG_BASE, 16, UINT64_MAX, 2), .fds = "m"),
    MESSAGE("a log in an eventfd", ENDED, NULL, S(SET_LOG_BASE, 16, 8, 0), .fds = "e"),
    MESSAGE("a log in a pipe", ENDED, NULL, S(SET_LOG_BASE, 16, 8, 0), .fds = "p"),
    MESSAGE("a log in a directory", ENDED, NULL, S(SET_LOG_BASE, 16, 8, 0), .fds = "d"),
    MESSAGE("a log in an epoll instance", ENDED, NULL, S(SET_LOG_BASE, 16, 8, 0), .fds = "o"),
    MESSAGE("a log in memory that is read-only", ENDED, "cannot be mapped", S(SET_LOG_BASE, 16, 4096, 0), .fds = "r"),
    MESSAGE("a log that is right", WORKS, NULL, S(SET_LOG_BASE, 16, 4096, 0), .fds = "m"),
    MESSAGE("a log in a regular file", WORKS, NULL, S(SET_LOG_BASE, 16, 4096, 0), .fds = "f"),
    MESSAGE("a log's eventfd that is a directory", HARMLESS, NULL, S(SET_LOG_FD, 0, 0), .fds = "d"),
    MESSAGE("a log's eventfd that is missing", ENDED, FDS, S(SET_LOG_FD, 0, 0)),
    RING_FD("a full kick eventfd", WIRE_SET_VRING_KICK, "E"),
    RING_FD("a pipe for kicks", WIRE_SET_VRING_KICK, "p"),
    RING_FD("the wrong end of a pipe for kicks", WIRE_SET_VRING_KICK, "P"),
    RING_FD("a file for kicks", WIRE_SET_VRING_KICK, "f"),
    RING_FD("a directory for kicks", WIRE_SET_VRING_KICK, "d"),
    RING_FD("an epoll instance for kicks", WIRE_SET_VRING_KICK, "o"),
    MESSAGE("a closed socket for kicks", REFUSED, "is a socket", S(SET_VRING_KICK, 8, 0), .fds = "s"),
    RING_FD("memory for kicks", WIRE_SET_VRING_KICK, "m"),
    RING_FD("/dev/zero for kicks: always readable", WIRE_SET_VRING_KICK, "z"),
    RING_FD("/dev/null for kicks", WIRE_SET_VRING_KICK, "n"),
    RING_FD("a timer for kicks", WIRE_SET_VRING_KICK, "t"),
    MESSAGE("the connection's socket for kicks", REFUSED, "is a socket", S(SET_VRING_KICK, 8, 0), .fds = "u"),
    MESSAGE("a datagram socket for kicks", REFUSED, "is a socket", S(SET_VRING_KICK, 8, 0), .fds = "w"),
    RING_FD("a full call eventfd", WIRE_SET_VRING_CALL, "E"),
    RING_FD("a pipe for calls", WIRE_SET_VRING_CALL, "p"),
    RING_FD("a pipe that nobody reads for calls", WIRE_SET_VRING_CALL, "P"),
    RING_FD("a file for calls", WIRE_SET_VRING_CALL, "f"),
    RING_FD("a directory for calls", WIRE_SET_VRING_CALL, "d"),
    RING_FD("an epoll instance for calls", WIRE_SET_VRING_CALL, "o"),
    MESSAGE("a closed socket for calls", REFUSED, "is a socket", S(SET_VRING_CALL, 8, 0), .fds = "s"),
    RING_FD("memory for calls", WIRE_SET_VRING_CALL, "m"),
    RING_FD("/dev/zero for calls", WIRE_SET_VRING_CALL, "z"),
    MESSAGE("the connection's socket for calls", REFUSED, "is a socket", S(SET_VRING_CALL, 8, 0), .fds = "u"),
    RING_FD("a full error eventfd", WIRE_SET_VRING_ERR, "E"),
    MESSAGE("the connection's socket for errors", REFUSED, "is a socket", S(SET_VRING_ERR, 8, 0), .fds = "u"),
    MESSAGE("the connection's socket for the log", REFUSED, "is a socket", S(SET_LOG_FD, 0, 0), .fds = "u"),
    RING_FD("a directory for errors", WIRE_SET_VRING_ERR, "d"),

    /* before negotiation, twice, in the wrong order */
    MESSAGE("enable before negotiation", REFUSED, "not negotiated", C(SET_VRING_ENABLE, 8, STATE(0, 1))),
    MESSAGE("a queue number before negotiation", ENDED, "not negotiated", C(GET_QUEUE_NUM, 0, 0)),
    MESSAGE("a log before negotiation", ENDED, "not negotiated", C(SET_LOG_BASE, 16, 4096, 0), .fds = "m"),
    MESSAGE("a log's eventfd before negotiation", REFUSED, "not negotiated", C(SET_LOG_FD, 0, 0), .fds = "e"),
    MESSAGE("a memory slot before negotiation", REFUSED, NULL, C(ADD_MEM_REG, 40, 0, 0, 0x100000, 0, 0), .fds = "m"),
    MESSAGE("removal of memory before negotiation", REFUSED, NULL, C(REM_MEM_REG, 40, 0, 0, 0x100000, 0, 0)),
    MESSAGE("in-flight memory before negotiation", HARMLESS, NULL, C(GET_INFLIGHT_FD, 24, 0, 0, 0)),
    MESSAGE("a status before negotiation", HARMLESS, NULL, C(SET_STATUS, 8, 15)),
    MESSAGE("a reset before negotiation", HARMLESS, NULL, C(RESET_DEVICE, 0, 0)),
    MESSAGE("a kick before anything", WORKS, NULL, C(SET_VRING_KICK, 8, 0), .fds = "e"),
    MESSAGE("the base before anything", HARMLESS, NULL, C(GET_VRING_BASE, 8, 0)),
    MESSAGE("memory before anything", WORKS, NULL, C(SET_MEM_TABLE, 40, 1, 0x1000, 0x1000, 0x1000, 0), .fds = "m"),
    MESSAGE("an owner twice", WORKS, NULL, S(SET_OWNER, 0, 0)),
    MESSAGE("an owner reset while rings run", WORKS, NULL, S(RESET_OWNER, 0, 0), .gone = true),
    MESSAGE("a device reset while rings run", HARMLESS, NULL, S(RESET_DEVICE, 0, 0), .gone = true),
    MESSAGE("a stopped ring's base again", WORKS, NULL, M(GET_VRING_BASE, 8, 0)),

    /* memory by slots */
    MESSAGE("a slot over another", REFUSED, NULL, S(ADD_MEM_REG, 40, 0, 0x100000000, 0x100000, 0, 0), .fds = "m"),
    MESSAGE("a slot of size 0", REFUSED, NULL, S(ADD_MEM_REG, 40, 0, 0x1000, 0, 0, 0), .fds = "m"),
    MESSAGE("a slot past the end of its file", REFUSED, NULL, S(ADD_MEM_REG, 40, 0, 0x1000, 0x200000, 0x1000, 0), .fds = "m"),
    MESSAGE("a slot that wraps around", REFUSED, NULL, S(ADD_MEM_REG, 40, 0, UINT64_MAX - 0xfff, 0x100000, 0x1000, 0), .fds = "m"),
    MESSAGE("a slot without descriptor", ENDED, FDS, S(ADD_MEM_REG, 40, 0, 0x1000, 0x1000, 0x1000, 0)),
    MESSAGE("a slot in a directory", REFUSED, NULL, S(ADD_MEM_REG, 40, 0, 0x1000, 0x1000, 0x1000, 0), .fds = "d"),
    MESSAGE("a slot in an eventfd", REFUSED, NULL, S(ADD_MEM_REG, 40, 0, 0x1000, 0x1000, 0x1000, 0), .fds = "e"),
    MESSAGE("a slot that is right", WORKS, NULL, S(ADD_MEM_REG, 40, 0, 0x1000, 0x1000, 0x1000, 0), .fds = "m"),
    MESSAGE("removal of a slot that is not there", REFUSED, NULL, S(REM_MEM_REG, 40, 0, 0x1000, 0x1000, 0x1000, 0)),
    MESSAGE("removal with two descriptors", ENDED, FDS, S(REM_MEM_REG, 40, 0, 0x1000, 0x1000, 0x1000, 0), .fds = "mm"),

    /* what may come or not, by what is offered: nothing of it may harm */
    MESSAGE("in-flight memory for 0 queues", HARMLESS, NULL, S(GET_INFLIGHT_FD, 24, 0, 0, 0), .gone = true),
    MESSAGE("in-flight memory for 65535 queues", HARMLESS, NULL, S(GET_INFLIGHT_FD, 24, 0, 0, 0xffffffff), .gone = true),
    MESSAGE("in-flight memory with a descriptor", ENDED, NULL, S(GET_INFLIGHT_FD, 24, 0, 0, 0x00100002), .fds = "m"),
    MESSAGE("in-flight memory of our own, too short", HARMLESS, NULL, S(SET_INFLIGHT_FD, 24, 64, 0, 0x00100002), .fds = "m", .gone = true),
    MESSAGE("in-flight memory of our own, past its file", HARMLESS, NULL, S(SET_INFLIGHT_FD, 24, 1 << 21, 0, 0x00100002), .fds = "m", .gone = true),
    MESSAGE("in-flight memory of our own, wrapping", HARMLESS, NULL, S(SET_INFLIGHT_FD, 24, UINT64_MAX, 8, 0x00100002), .fds = "m", .gone = true),
    MESSAGE("in-flight memory of zeros", HARMLESS, NULL, S(SET_INFLIGHT_FD, 24, 1 << 20, 0, 0x00100002), .fds = "m", .gone = true),
    MESSAGE("in-flight memory in a pipe", HARMLESS, NULL, S(SET_INFLIGHT_FD, 24, 4096, 0, 0x00100002), .fds = "p", .gone = true),
    MESSAGE("in-flight memory without descriptor", ENDED, NULL, S(SET_INFLIGHT_FD, 24, 4096, 0, 0x00100002), .gone = true),
    MESSAGE("a status of all ones", HARMLESS, NULL, S(SET_STATUS, 8, UINT64_MAX), .gone = true),
    MESSAGE("a status of 0", HARMLESS, NULL, S(SET_STATUS, 8, 0), .gone = true),
    MESSAGE("a back-end channel that is a pipe", HARMLESS, NULL, S(SET_BACKEND_REQ_FD, 0, 0), .fds = "P", .gone = true),
    MESSAGE("a back-end channel that is closed", HARMLESS, NULL, S(SET_BACKEND_REQ_FD, 0, 0), .fds = "s", .gone = true),
    MESSAGE("a back-end channel that is a directory", HARMLESS, NULL, S(SET_BACKEND_REQ_FD, 0, 0), .fds = "d", .gone = true),
    MESSAGE("a back-end channel that is the connection", REFUSED, "not one of a pair", S(SET_BACKEND_REQ_FD, 0, 0), .fds = "u"),
    MESSAGE("a back-end channel that is missing", ENDED, NULL, S(SET_BACKEND_REQ_FD, 0, 0), .gone = true),

    { "64 queues on a device that has them or refuses", HARMLESS, NULL, act_many_queues, (const void *)64, 0, 0 },
    { "65 queues", REFUSED, NULL, act_many_queues, (const void *)65, 0, 0 },
    { "50 restarts of rings", WORKS, NULL, act_restarts, NULL, 0, 0 },
    STORM(1), STORM(2), STORM(3), STORM(4), STORM(5), STORM(6), STORM(7), STORM(8), STORM(9), STORM(10),
    STORM(11), STORM(12), STORM(13), STORM(14), STORM(15), STORM(16),
};
const unsigned message_case_count = sizeof(message_cases) / sizeof(message_cases[0]);
