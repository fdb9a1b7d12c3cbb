/* Memory that is no memory, goes away, or is changed by the guest while the device looks at it. */
#include <endian.h>
#include <fcntl.h>
#include <linux/virtio_ring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "battery.h"
#include "kinds.h"

#define MIB 0x100000u

/* ---- memory tables ---- */

struct table_case {
    uint32_t count;
    struct wire_memory_region regions[WIRE_FDS_MAX];
    const char *fds;
    uint32_t size_bytes; /* 0: as the count says */
};

static enum seen act_table(struct attempt *attempt, const void *argument)
{
    const struct table_case *c = argument;
    struct fe_options options = attempt_options(attempt);
    struct wire_memory_table table = { .region_count = c->count };
    int fds[64];
    unsigned fd_count = 0;

    if (!attempt_open(attempt, &options))
        return STUCK;
    memcpy(table.regions, c->regions, sizeof(table.regions));
    for (const char *kind = c->fds; kind && *kind; kind++)
        fds[fd_count++] = kind_open(*kind, attempt->fe);
    uint32_t size_bytes = c->size_bytes ? c->size_bytes : 8 + (c->count < 8 ? c->count : 8) * 32;
    enum seen seen = attempt_message(attempt, WIRE_SET_MEM_TABLE, &table, size_bytes, fds, fd_count);
    while (fd_count > 0)
        close(fds[--fd_count]);
    if (seen != REFUSED)
        return seen;
    /* The memory before is still there. */
    return attempt_read(attempt, 0) == WORKS ? REFUSED : STUCK;
}

/* ---- memory that goes away ---- */

enum cut { CUT_DATA, CUT_ALL };

/* A file without seals: the front end can cut it. */
static enum seen act_truncate(struct attempt *attempt, const void *argument)
{
    enum cut cut = (enum cut)(uintptr_t)argument;
    struct fe_options options = attempt_options(attempt);
    int fd = memfd_create("cut", MFD_CLOEXEC);
    size_t size;

    options.queue_count = 2;
    if (!attempt_prepare(attempt, &options))
        return STUCK;
    struct front_end *fe = attempt->fe;
    uint8_t *memory = fe_memory(fe, &size);
    /* The same addresses, another file: mapped over it here, announced there. */
    if (ftruncate(fd, (off_t)size) != 0 || mmap(memory, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        return STUCK;
    struct wire_memory_table table = { .region_count = 1,
                                       .regions = { { fe_memory_guest_addr(fe), size, (uintptr_t)memory, 0 } } };
    enum seen seen = attempt_message(attempt, WIRE_SET_MEM_TABLE, &table, 8 + 32, &fd, 1);
    if (seen != WORKS || fe_start(fe) != 0 || attempt_read(attempt, 0) != WORKS)
        return STUCK;
    struct fe_queue *queue = fe_queue(fe, 0);
    uint16_t slot = fe_queue_take(queue);
    fe_queue_prepare(queue, slot, VIRTIO_BLK_T_OUT, 64, 4096, FE_TO_DEVICE);
    fe_queue_submit(queue, slot);
    if (cut == CUT_DATA) {
        /* Its data behind the end of the file, its ring before. */
        uint64_t last = fe_memory_guest_addr(fe) + size - 8192;

        queue->slots[slot].chain[1].addr = htole64(last);
    }
    fe_queue_publish(queue);
    if (cut != CUT_DATA)
        seen = attempt_wait_used(attempt, 0, 2);
    if (ftruncate(fd, cut == CUT_DATA ? (off_t)size - 16384 : 0) != 0)
        return STUCK;
    /* From here on nothing of it may be touched by us but the eventfds. */
    fe_queue_kick(queue);
    fe_queue_kick(fe_queue(fe, 1));
    close(fd);
    if (cut == CUT_DATA)
        return seen; /* the write came before the cut, or failed, or the queue broke */
    seen = attempt_wait_end(attempt);
    /* What is left of it here is not ours any more either. */
    if (mmap(memory, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return STUCK;
    return seen;
}

/* ---- memory that changes ---- */

struct flipper {
    struct front_end *fe;
    unsigned seed;
    _Atomic bool stop;
};

/* Good and wild values by turns in a chain's descriptors, its header, and the available ring. */
static void *flip(void *opaque)
{
    struct flipper *flipper = opaque;
    struct fe_queue *queue = fe_queue(flipper->fe, 0);
    unsigned seed = flipper->seed;

    while (!atomic_load(&flipper->stop)) {
        struct fe_slot *slot = &queue->slots[rand_r(&seed) % queue->layout.slot_count];
        volatile struct vring_desc *desc = &slot->chain[rand_r(&seed) % 3];
        volatile struct virtio_blk_outhdr *header = slot->header;
        struct vring_desc good = *(struct vring_desc *)desc;

        switch (rand_r(&seed) % 6) {
        case 0:
            desc->addr = rand_r(&seed) % 2 ? UINT64_MAX - 100 : 0;
            break;
        case 1:
            desc->len = rand_r(&seed) % 2 ? UINT32_MAX : 0;
            break;
        case 2:
            desc->flags = (uint16_t)rand_r(&seed);
            break;
        case 3:
            desc->next = (uint16_t)rand_r(&seed);
            break;
        case 4:
            header->sector = rand_r(&seed) % 2 ? UINT64_MAX : UINT64_C(1) << 55;
            break;
        default:
            /* A read becomes something else; never a write, whose place would be legal and unknown. */
            header->type = rand_r(&seed) % 2 ? VIRTIO_BLK_T_GET_ID : 77;
            break;
        }
        desc->addr = good.addr;
        desc->len = good.len;
        desc->flags = good.flags;
        desc->next = good.next;
        header->sector = 8;
        header->type = VIRTIO_BLK_T_IN;
    }
    return NULL;
}

static enum seen act_flip(struct attempt *attempt, const void *argument)
{
    struct fe_options options = attempt_options(attempt);
    struct flipper flipper = { .seed = (unsigned)(uintptr_t)argument };
    pthread_t thread;
    enum seen seen = WORKS;

    options.layout.indirect = flipper.seed % 2;
    if (!attempt_open(attempt, &options))
        return STUCK;
    struct fe_queue *queue = fe_queue(attempt->fe, 0);
    for (unsigned i = 0; i < queue->layout.slot_count; i++)
        fe_queue_prepare(queue, (uint16_t)i, VIRTIO_BLK_T_IN, 8, 4096, FE_FROM_DEVICE);
    flipper.fe = attempt->fe;
    if (pthread_create(&thread, NULL, flip, &flipper) != 0)
        return STUCK;
    uint16_t used = 0;
    for (unsigned round = 0; round < 2000 && seen == WORKS; round++) {
        for (unsigned i = 0; i < queue->layout.slot_count; i++)
            queue->avail->ring[(uint16_t)(used + i) % 16] = htole16(queue->slots[i].head);
        used = (uint16_t)(used + queue->layout.slot_count);
        __atomic_store_n(&queue->avail->idx, htole16(used), __ATOMIC_RELEASE);
        fe_queue_kick(queue);
        seen = attempt_wait_used(attempt, 0, used);
    }
    atomic_store(&flipper.stop, true);
    pthread_join(thread, NULL);
    return seen;
}

/* Requests while the interrupt's eventfd is full: the device must not hang in it. */
static enum seen act_full_call(struct attempt *attempt, const void *argument)
{
    struct fe_options options = attempt_options(attempt);

    options.queue_count = 2;
    if (!attempt_open(attempt, &options))
        return STUCK;
    struct fe_queue *queue = fe_queue(attempt->fe, 0);
    /* As the front end has it: blocking, and shared with the device. */
    if (eventfd_write(queue->call_fd, UINT64_MAX - 1 - 1) != 0)
        return STUCK;
    if (argument && fcntl(queue->call_fd, F_SETFL, 0) != 0)
        return STUCK;
    for (unsigned i = 0; i < 4; i++) {
        uint16_t slot = fe_queue_take(queue);

        fe_queue_prepare(queue, slot, VIRTIO_BLK_T_IN, 8, 4096, FE_FROM_DEVICE);
        fe_queue_submit(queue, slot);
        fe_queue_publish(queue);
        fe_queue_kick(queue);
    }
    return attempt_read(attempt, 1);
}

/* Kicks without end and without requests. */
static enum seen act_kick_storm(struct attempt *attempt, const void *argument)
{
    struct fe_options options = attempt_options(attempt);

    if (!attempt_open(attempt, &options))
        return STUCK;
    for (unsigned i = 0; i < 20000; i++)
        fe_queue_kick(fe_queue(attempt->fe, 0));
    return attempt_read(attempt, 0);
}

#define TABLE(name, seen, reason, ...) { name, seen, reason, act_table, &(const struct table_case){ __VA_ARGS__ }, 0, 0 }
#define CASE(name, seen, reason, act, argument) { name, seen, reason, act, (const void *)argument, 0, 0 }

const struct hostile_case memory_cases[] = {
    TABLE("no regions", REFUSED, "there are no regions", .count = 0),
    TABLE("regions that overlap in the guest", REFUSED, "overlaps", .count = 2, .fds = "mm",
          .regions = { { 0, MIB, 0x10000000, 0 }, { MIB - 1, MIB, 0x20000000, 0 } }),
    TABLE("regions that overlap in the front end", REFUSED, "overlaps", .count = 2, .fds = "mm",
          .regions = { { 0, MIB, 0x10000000, 0 }, { MIB, MIB, 0x10000fff, 0 } }),
    TABLE("the same region twice", REFUSED, "overlaps", .count = 2, .fds = "mm",
          .regions = { { 0, MIB, 0x10000000, 0 }, { 0, MIB, 0x10000000, 0 } }),
    TABLE("a region of size 0", REFUSED, "its size is 0", .count = 1, .fds = "m", .regions = { { 0, 0, 0x10000000, 0 } }),
    TABLE("a region that wraps in the guest", REFUSED, "overflow", .count = 1, .fds = "m",
          .regions = { { UINT64_MAX - 4095, MIB, 0x10000000, 0 } }),
    TABLE("a region that wraps in the front end", REFUSED, "overflow", .count = 1, .fds = "m",
          .regions = { { 0, MIB, UINT64_MAX - 4095, 0 } }),
    TABLE("a region whose offset overflows", REFUSED, "overflow", .count = 1, .fds = "m",
          .regions = { { 0, MIB, 0x10000000, UINT64_MAX - 4095 } }),
    TABLE("a region past the end of its file", REFUSED, "past the end", .count = 1, .fds = "m",
          .regions = { { 0, MIB + 1, 0x10000000, 0 } }),
    TABLE("a region past the end of its file by its offset", REFUSED, "past the end", .count = 1, .fds = "m",
          .regions = { { 0, MIB, 0x10000000, 1 } }),
    TABLE("a region in a pipe", REFUSED, NULL, .count = 1, .fds = "p", .regions = { { 0, 4096, 0x10000000, 0 } }),
    TABLE("a region in a directory", REFUSED, NULL, .count = 1, .fds = "d", .regions = { { 0, 4096, 0x10000000, 0 } }),
    TABLE("a region in an eventfd", REFUSED, NULL, .count = 1, .fds = "e", .regions = { { 0, 4096, 0x10000000, 0 } }),
    TABLE("a region in an epoll instance", REFUSED, NULL, .count = 1, .fds = "o", .regions = { { 0, 4096, 0x10000000, 0 } }),
    TABLE("a region in a closed socket", REFUSED, NULL, .count = 1, .fds = "s", .regions = { { 0, 4096, 0x10000000, 0 } }),
    TABLE("a region in /dev/null", REFUSED, NULL, .count = 1, .fds = "n", .regions = { { 0, 4096, 0x10000000, 0 } }),
    TABLE("a region in memory that is read-only", REFUSED, "cannot be mapped", .count = 1, .fds = "r",
          .regions = { { 0, MIB, 0x10000000, 0 } }),
    TABLE("the second region is none", REFUSED, "region 1", .count = 2, .fds = "md",
          .regions = { { 0, MIB, 0x10000000, 0 }, { MIB, MIB, 0x20000000, 0 } }),
    TABLE("nine regions", ENDED, NULL, .count = 9, .fds = "mmmmmmmm", .regions = { { 0, MIB, 0x10000000, 0 } }),
    TABLE("nine descriptors", ENDED, NULL, .count = 8, .fds = "mmmmmmmmm", .regions = { { 0, MIB, 0x10000000, 0 } }),
    TABLE("the largest number of regions", ENDED, NULL, .count = UINT32_MAX, .fds = "m", .regions = { { 0, MIB, 0x10000000, 0 } }),
    TABLE("a region without descriptor", ENDED, NULL, .count = 1, .regions = { { 0, MIB, 0x10000000, 0 } }),
    TABLE("a table shorter than its regions", REFUSED, "shorter", .count = 2, .fds = "mm", .size_bytes = 40,
          .regions = { { 0, MIB, 0x10000000, 0 }, { MIB, MIB, 0x20000000, 0 } }),
    TABLE("a region at an odd offset", HARMLESS, NULL, .count = 1, .fds = "m", .regions = { { 3, 4096, 0x10000000, 77 } }),
    TABLE("other memory while rings run", HARMLESS, NULL, .count = 1, .fds = "m", .regions = { { 0, MIB, 0x10000000, 0 } }),
    { "the rings' file is cut", BROKEN, "guest memory is gone", act_truncate, (const void *)CUT_ALL, 64, 4096 },
    { "the file is cut under a write's data", HARMLESS, NULL, act_truncate, (const void *)CUT_DATA, 64, 4096 },
    CASE("descriptors that change, seed 1", HARMLESS, NULL, act_flip, 1),
    CASE("descriptors that change, seed 2", HARMLESS, NULL, act_flip, 2),
    CASE("descriptors that change, seed 3", HARMLESS, NULL, act_flip, 3),
    CASE("descriptors that change, seed 4", HARMLESS, NULL, act_flip, 4),
    CASE("descriptors that change, seed 5", HARMLESS, NULL, act_flip, 5),
    CASE("descriptors that change, seed 6", HARMLESS, NULL, act_flip, 6),
    CASE("a full call eventfd", WORKS, NULL, act_full_call, 0),
    CASE("a full call eventfd that is made blocking", HARMLESS, NULL, act_full_call, 1),
    CASE("20000 kicks for nothing", WORKS, NULL, act_kick_storm, 0),
};
const unsigned memory_case_count = sizeof(memory_cases) / sizeof(memory_cases[0]);
