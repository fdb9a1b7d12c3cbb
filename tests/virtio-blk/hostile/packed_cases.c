/* What a driver can write into a packed ring: chains in a fresh ring, mostly of a header, data and a status byte in extra
 * memory; positions and sizes that cannot be; and flags that move while the device looks at them. */
#include <endian.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_ring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "battery.h"

#define IN VIRTIO_BLK_T_IN
#define W VRING_DESC_F_WRITE
#define N VRING_DESC_F_NEXT
#define I VRING_DESC_F_INDIRECT
#define A (1u << VRING_PACKED_DESC_F_AVAIL)
#define U (1u << VRING_PACKED_DESC_F_USED)
#define WRAP (1u << 15)

#define RING_SIZE 16

/* Offsets in the extra memory, biased; smaller values are addresses as they are. */
#define BIAS (UINT64_C(0x51) << 56)
#define X(offset) (BIAS | (offset))
#define HEADER X(0)
#define STATUS X(0x100)
#define DATA X(0x1000)
#define TABLE X(0x40000)

struct descriptor {
    uint64_t address;
    uint32_t size_bytes;
    uint16_t flags, id;
};

struct packed_case {
    struct descriptor ring[RING_SIZE]; /* in the first turn: available is A without U */
    struct descriptor table[16];       /* at table_at, if set, else at TABLE */
    uint64_t table_at;
    unsigned used_at;                  /* the entry that is seen to be used */
    uint16_t event_flags, event_off_wrap;
    bool no_indirect, is_none;         /* is_none: nothing is available */
};

static void write_descriptors(const struct front_end *fe, void *to, const struct descriptor *from, unsigned count)
{
    uint64_t extra = fe_memory_guest_addr(fe) + (uint64_t)(fe_extra(fe) - fe_memory(fe, NULL));

    for (unsigned i = 0; i < count; i++) {
        bool is_offset = from[i].address >> 56 == 0x51;
        struct vring_packed_desc desc = { .addr = htole64(is_offset ? extra + (from[i].address & ~BIAS) : from[i].address),
                                          .len = htole32(from[i].size_bytes),
                                          .id = htole16(from[i].id),
                                          .flags = htole16(from[i].flags) };

        memcpy((char *)to + i * sizeof(desc), &desc, sizeof(desc));
    }
}

static struct fe_options packed_options(const struct attempt *attempt)
{
    struct fe_options options = attempt_options(attempt);

    options.layout.packed = true;
    options.queue_count = 2;
    return options;
}

static enum seen act(struct attempt *attempt, const void *argument)
{
    const struct packed_case *c = argument;
    struct fe_options options = packed_options(attempt);

    options.layout.indirect = !c->no_indirect;
    if (!attempt_open(attempt, &options))
        return STUCK;
    struct fe_queue *queue = fe_queue(attempt->fe, 0);
    uint8_t *extra = fe_extra(attempt->fe);
    const struct virtio_blk_outhdr header = { .type = htole32(IN) };

    memcpy(extra, &header, sizeof(header));
    extra[0x100] = 0xff;
    write_descriptors(attempt->fe, extra + ((c->table_at ? c->table_at : TABLE) & ~BIAS), c->table, 16);
    queue->driver_event->off_wrap = htole16(c->event_off_wrap);
    queue->driver_event->flags = htole16(c->event_flags);
    /* The first one last, as drivers do. */
    write_descriptors(attempt->fe, queue->packed_desc + 1, c->ring + 1, RING_SIZE - 1);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    write_descriptors(attempt->fe, queue->packed_desc, c->ring, 1);
    fe_queue_kick(queue);
    if (c->is_none) {
        enum seen seen = attempt_read(attempt, 1);

        return seen == WORKS && extra[0x100] != 0xff ? STUCK : seen;
    }
    enum seen seen = attempt_wait_used(attempt, 0, (uint16_t)c->used_at);
    if (seen == WORKS && extra[0x100] != VIRTIO_BLK_S_OK) {
        snprintf(attempt->detail, sizeof(attempt->detail), "status %u", extra[0x100]);
        return STUCK;
    }
    return seen;
}

/* ---- sizes and positions ---- */

/* A ring of this size that is used for more than a turn. */
static enum seen act_size(struct attempt *attempt, const void *argument)
{
    struct fe_options options = packed_options(attempt);

    options.layout.size = (uint16_t)(uintptr_t)argument;
    if (!attempt_open(attempt, &options))
        return strstr(attempt->detail, "SET_VRING_NUM") ? REFUSED : STUCK;
    for (unsigned i = 0; i < 2u * options.layout.size + 3; i++) {
        enum seen seen = attempt_read(attempt, i % 2);

        if (seen != WORKS)
            return seen;
    }
    return WORKS;
}

static enum seen act_size_said(struct attempt *attempt, const void *argument)
{
    struct fe_options options = packed_options(attempt);
    const struct wire_vring_state state = { .index = 0, .num = (uint32_t)(uintptr_t)argument };

    if (!attempt_prepare(attempt, &options))
        return STUCK;
    return attempt_message(attempt, WIRE_SET_VRING_NUM, &state, sizeof(state), NULL, 0);
}

/* Stop a ring, and let it start at a position that it cannot have. The other one goes on. */
static enum seen act_base(struct attempt *attempt, const void *argument)
{
    struct fe_options options = packed_options(attempt);
    const struct wire_vring_state state = { .index = 0, .num = (uint32_t)(uintptr_t)argument };
    uint64_t ring = 0;
    uint32_t base;

    if (!attempt_open(attempt, &options) || attempt_read(attempt, 0) != WORKS ||
        fe_queue_get_base(attempt->fe, 0, &base) < 0)
        return STUCK;
    enum seen seen = attempt_message(attempt, WIRE_SET_VRING_BASE, &state, sizeof(state), NULL, 0);
    if (seen != WORKS)
        return seen;
    int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    seen = attempt_message(attempt, WIRE_SET_VRING_KICK, &ring, sizeof(ring), &fd, 1);
    close(fd);
    return seen == WORKS ? attempt_read(attempt, 1) : seen;
}

/* ---- what moves ---- */

struct mover {
    struct front_end *fe;
    unsigned seed;
    _Atomic bool stop;
};

/* Good and wild values by turns in the ring's descriptors, tables and event suppression. Never a write. */
static void *move(void *opaque)
{
    struct mover *mover = opaque;
    struct fe_queue *queue = fe_queue(mover->fe, 0);
    struct vring_packed_desc *table = (struct vring_packed_desc *)(fe_extra(mover->fe) + 0x40000);
    unsigned seed = mover->seed;

    while (!atomic_load(&mover->stop)) {
        volatile struct vring_packed_desc *desc = &queue->packed_desc[rand_r(&seed) % RING_SIZE];
        uint16_t turn = rand_r(&seed) % 2 ? A : U;

        switch (rand_r(&seed) % 8) {
        case 0:
            desc->flags = (uint16_t)(turn | (rand_r(&seed) % 8));
            break;
        case 1:
            desc->flags = (uint16_t)rand_r(&seed);
            break;
        case 2:
            desc->id = (uint16_t)(rand_r(&seed) % (RING_SIZE + 1));
            break;
        case 3:
            desc->len = rand_r(&seed) % 3 ? 48 : (uint32_t)rand_r(&seed) % 100;
            break;
        case 4:
            table[rand_r(&seed) % 3].flags = (uint16_t)rand_r(&seed);
            break;
        case 5:
            queue->driver_event->off_wrap = (uint16_t)rand_r(&seed);
            queue->driver_event->flags = (uint16_t)(rand_r(&seed) % 4);
            break;
        default: /* a table that is right, and available in one of both turns */
            write_descriptors(mover->fe, table, (const struct descriptor[]){ { HEADER, 16, 0, 0 }, { DATA, 512, W, 0 },
                                                                             { STATUS, 1, W, 0 } }, 3);
            write_descriptors(mover->fe, (void *)(uintptr_t)desc,
                              &(const struct descriptor){ TABLE, 48, (uint16_t)(I | turn),
                                                          (uint16_t)(rand_r(&seed) % RING_SIZE) }, 1);
        }
        if (rand_r(&seed) % 8 == 0)
            fe_queue_kick(queue);
    }
    return NULL;
}

/* One connection after another, since each ring breaks sooner or later. */
static enum seen act_move(struct attempt *attempt, const void *argument)
{
    struct fe_options options = packed_options(attempt);

    for (unsigned round = 0; round < 30; round++) {
        struct mover mover = { .seed = (unsigned)(uintptr_t)argument * 1000 + round };
        const struct virtio_blk_outhdr header = { .type = htole32(IN) };
        pthread_t thread;

        if (!attempt_open(attempt, &options))
            return STUCK;
        memcpy(fe_extra(attempt->fe), &header, sizeof(header));
        mover.fe = attempt->fe;
        if (pthread_create(&thread, NULL, move, &mover) != 0)
            return STUCK;
        enum seen seen = WORKS;
        for (unsigned i = 0; i < 20 && seen == WORKS; i++)
            seen = attempt_read(attempt, 1);
        atomic_store(&mover.stop, true);
        pthread_join(thread, NULL);
        if (seen != WORKS && seen != BROKEN)
            return seen;
        fe_destroy(attempt->fe);
        attempt->fe = NULL;
    }
    return WORKS;
}

#define RING(name, seen, reason, ...) { name, seen, reason, act, &(const struct packed_case){ __VA_ARGS__ }, 0, 0 }
#define SIZE(name, act_, seen, size) { name, seen, NULL, act_, (const void *)size, 0, 0 }
#define BASE(name, used, avail)                                                                               \
    { name, WORKS, "does not run", act_base, (const void *)((uintptr_t)(used) << 16 | (avail)), 0, 0 }

#define OUTSIDE "a descriptor lies outside guest memory"
#define TABLE_LENGTH "an indirect table's length is no multiple of 16, or 0"
#define TABLE_OUTSIDE "an indirect table lies outside guest memory"
#define NOT_AVAILABLE "a descriptor chain goes on in a descriptor that is not available"
#define OUT_OF_RANGE "a buffer id is out of range"

#define CHAIN(data, data_bytes, data_flags, id) \
    .ring = { { HEADER, 16, N | A, 0 }, { data, data_bytes, N | A | data_flags, 0 }, { STATUS, 1, W | A, id } }
#define INDIRECT(address, bytes, flags_) .ring = { { address, bytes, I | A | flags_, 5 } }
#define WHOLE_TABLE .table = { { HEADER, 16, 0, 0 }, { DATA, 512, W, 0 }, { STATUS, 1, W, 0 } }

const struct hostile_case packed_cases[] = {
    /* legal */
    RING("packed: a plain read", WORKS, NULL, CHAIN(DATA, 512, W, 7)),
    RING("packed: ids that do not count", WORKS, NULL,
         .ring = { { HEADER, 16, N | A, 65535 }, { DATA, 512, N | A | W, 16 }, { STATUS, 1, W | A, 15 } }),
    RING("packed: a read through a table", WORKS, NULL, INDIRECT(TABLE, 48, 0), WHOLE_TABLE),
    RING("packed: a table with flags that do not count", WORKS, NULL, INDIRECT(TABLE, 48, W),
         .table = { { HEADER, 16, N | A | U, 9 }, { DATA, 512, W | N | 0x40, 65535 }, { STATUS, 1, W | N, 1 } }),
    RING("packed: a table at an odd address", WORKS, NULL, INDIRECT(X(0x50003), 48, 0), WHOLE_TABLE, .table_at = X(0x50003)),
    RING("packed: the whole ring in one chain", WORKS, NULL,
         .ring = { { HEADER, 1, N | A, 0 }, { X(1), 1, N | A, 0 }, { X(2), 1, N | A, 0 }, { X(3), 1, N | A, 0 },
                   { X(4), 1, N | A, 0 }, { X(5), 1, N | A, 0 }, { X(6), 1, N | A, 0 }, { X(7), 1, N | A, 0 },
                   { X(8), 1, N | A, 0 }, { X(9), 1, N | A, 0 }, { X(10), 1, N | A, 0 }, { X(11), 1, N | A, 0 },
                   { X(12), 1, N | A, 0 }, { X(13), 3, N | A, 0 }, { DATA, 512, N | W | A, 0 }, { STATUS, 1, W | A, 3 } }),
    RING("packed: an event far outside", WORKS, NULL, CHAIN(DATA, 512, W, 7), .event_flags = 0, .event_off_wrap = 0x7fff),
    RING("packed: reserved event flags", WORKS, NULL, CHAIN(DATA, 512, W, 7), .event_flags = 0xfff3, .event_off_wrap = 0xffff),

    /* wraps */
    RING("packed: descriptors of the next turn", WORKS, NULL, .is_none = true,
         .ring = { { HEADER, 16, N | U, 0 }, { DATA, 512, N | W | U, 0 }, { STATUS, 1, W | U, 0 } }),
    RING("packed: descriptors that look used", WORKS, NULL, .is_none = true,
         .ring = { { HEADER, 16, N | A | U, 0 }, { DATA, 512, N | W | A | U, 0 }, { STATUS, 1, W | A | U, 0 } }),
    RING("packed: a hole at the ring's first entry", WORKS, NULL, .is_none = true,
         .ring = { { 0 }, { HEADER, 16, N | A, 0 }, { DATA, 512, N | W | A, 0 }, { STATUS, 1, W | A, 0 } }),
    RING("packed: a chain with a hole", BROKEN, NOT_AVAILABLE, .ring = { { HEADER, 16, N | A, 0 }, { 0 }, { STATUS, 1, W | A, 0 } }),
    RING("packed: a chain that goes on in the next turn's", BROKEN, NOT_AVAILABLE,
         .ring = { { HEADER, 16, N | A, 0 }, { DATA, 512, N | W | U, 0 }, { STATUS, 1, W | U, 0 } }),
    RING("packed: a chain that goes on in a used one", BROKEN, NOT_AVAILABLE,
         .ring = { { HEADER, 16, N | A, 0 }, { DATA, 512, W | A | U, 0 } }),

    /* ids and lengths */
    RING("packed: an id out of range", BROKEN, OUT_OF_RANGE, CHAIN(DATA, 512, W, 16)),
    RING("packed: the largest id", BROKEN, OUT_OF_RANGE, CHAIN(DATA, 512, W, 65535)),
    RING("packed: an id that is in use", BROKEN, "a buffer id is made available while it is in use",
         .ring = { { TABLE, 48, I | A, 5 }, { TABLE, 48, I | A, 5 }, { TABLE, 48, I | A, 5 }, { TABLE, 48, I | A, 5 } },
         .table = { { HEADER, 16, 0, 0 }, { DATA, 0x10000, W, 0 }, { STATUS, 1, W, 0 } }, .used_at = 3),
    RING("packed: a chain longer than the ring", BROKEN, "a descriptor chain is longer than the ring",
         .ring = { { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 },
                   { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 },
                   { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 },
                   { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 } }),
    RING("packed: a chain over what is in use", BROKEN, NULL,
         .ring = { { TABLE, 48, I | A, 5 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 },
                   { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 },
                   { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 },
                   { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 }, { HEADER, 16, N | A, 0 } },
         WHOLE_TABLE, .used_at = 1),
    RING("packed: length 0", BROKEN, "a descriptor has length 0", CHAIN(DATA, 0, W, 0)),
    RING("packed: data at 0", BROKEN, OUTSIDE, CHAIN(0, 512, W, 0)),
    RING("packed: data that wraps around 64 bits", BROKEN, OUTSIDE, CHAIN(UINT64_MAX - 255, 512, W, 0)),
    RING("packed: a readable status", BROKEN, "a readable descriptor follows a writable one",
         .ring = { { HEADER, 16, N | A, 0 }, { DATA, 512, N | W | A, 0 }, { STATUS, 1, A, 0 } }),

    /* indirect tables */
    RING("packed: a table of 47 bytes", BROKEN, TABLE_LENGTH, INDIRECT(TABLE, 47, 0), WHOLE_TABLE),
    RING("packed: a table of 0 bytes", BROKEN, TABLE_LENGTH, INDIRECT(TABLE, 0, 0), WHOLE_TABLE),
    RING("packed: a table of nearly 4 GiB", BROKEN, TABLE_OUTSIDE, INDIRECT(TABLE, UINT32_MAX - 15, 0), WHOLE_TABLE),
    RING("packed: a table that is too long", BROKEN, "an indirect chain is too long", INDIRECT(TABLE, 0x10000, 0), WHOLE_TABLE),
    RING("packed: a table outside", BROKEN, TABLE_OUTSIDE, INDIRECT(64, 48, 0), WHOLE_TABLE),
    RING("packed: a table with an entry of zeros", BROKEN, "a descriptor has length 0", INDIRECT(TABLE, 64, 0), WHOLE_TABLE),
    RING("packed: a table in a table", BROKEN, "an indirect table is nested in another", INDIRECT(TABLE, 48, 0),
         .table = { { HEADER, 16, 0, 0 }, { TABLE, 48, I, 0 } }),
    RING("packed: a table with a next one", BROKEN, "an indirect descriptor has a next one",
         .ring = { { TABLE, 48, I | N | A, 0 }, { STATUS, 1, W | A, 0 } }, WHOLE_TABLE),
    RING("packed: a table that was not negotiated", BROKEN, "an indirect descriptor, which was not negotiated",
         .no_indirect = true, INDIRECT(TABLE, 48, 0), WHOLE_TABLE),

    SIZE("packed: a ring of size 0", act_size_said, REFUSED, 0),
    SIZE("packed: a ring of size 1025", act_size_said, REFUSED, 1025),
    SIZE("packed: a ring of size 65537", act_size_said, REFUSED, 65537),
    SIZE("packed: a ring of size 1", act_size_said, WORKS, 1),
    SIZE("packed: rings of size 5", act_size, WORKS, 5),
    SIZE("packed: rings of size 1000", act_size, WORKS, 1000),
    SIZE("packed: rings of size 1024", act_size, WORKS, 1024),
    BASE("packed: a position outside the ring", WRAP | 16, WRAP | 16),
    BASE("packed: a used position outside the ring", WRAP | 16, WRAP | 0),
    BASE("packed: the largest positions", 0xffff, 0xffff),
    BASE("packed: more in flight than the ring has", 0 | 3, WRAP | 4),
    BASE("packed: used ahead of available", WRAP | 5, WRAP | 4),

    { "packed: flags that move, seed 1", HARMLESS, NULL, act_move, (const void *)1, 0, 0 },
    { "packed: flags that move, seed 2", HARMLESS, NULL, act_move, (const void *)2, 0, 0 },
    { "packed: flags that move, seed 3", HARMLESS, NULL, act_move, (const void *)3, 0, 0 },
};
const unsigned packed_case_count = sizeof(packed_cases) / sizeof(packed_cases[0]);
