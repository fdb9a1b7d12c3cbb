/* What a driver can write into a split ring. Each case is one chain in a fresh ring, mostly of a header, data and a status
 * byte in extra memory. */
#include <endian.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_ring.h>
#include <stdio.h>
#include <string.h>

#include "battery.h"

#define IN VIRTIO_BLK_T_IN
#define OUT VIRTIO_BLK_T_OUT
#define W VRING_DESC_F_WRITE
#define N VRING_DESC_F_NEXT
#define I VRING_DESC_F_INDIRECT

/* Addresses by where they are: in the extra memory, around the point in it where two regions meet, from the end of all. */
#define TAG_X (UINT64_C(0x51) << 56)
#define TAG_EDGE (UINT64_C(0x52) << 56)
#define TAG_END (UINT64_C(0x53) << 56)
#define BIAS 0x1000000
#define X(offset) (TAG_X | (BIAS + (offset)))
#define EDGE(offset) (TAG_EDGE | (BIAS + (offset)))
#define END(offset) (TAG_END | (BIAS + (offset)))

#define HEADER X(0)
#define STATUS X(0x100)
#define DATA X(0x1000)
#define TABLE X(0x40000)

struct descriptor {
    uint64_t address;
    uint32_t size_bytes;
    uint16_t flags, next;
};

struct ring_case {
    uint32_t type;
    uint64_t sector;
    struct descriptor ring[16];  /* the ring's table from 0 */
    struct descriptor table[16]; /* at table_at, if set, else at TABLE */
    uint64_t table_at, header_at, status_at;
    uint16_t head;
    uint16_t entries;            /* 0: one */
    uint16_t avail_index;        /* 0: as the entries say */
    bool no_indirect, no_event_idx;
    uint8_t status;              /* if it works */
};

static uint64_t region_bytes(const struct front_end *fe)
{
    size_t size;

    fe_memory(fe, &size);
    return size / 4 / 4096 * 4096;
}

/* Offset in the front end's memory. */
static uint64_t offset_of(const struct front_end *fe, uint64_t address)
{
    uint64_t offset = (address & ~(UINT64_C(0xff) << 56)) - BIAS, extra;
    size_t size;
    uint8_t *memory = fe_memory(fe, &size);

    extra = (uint64_t)(fe_extra(fe) - memory);
    switch (address >> 56) {
    case 0x51:
        return extra + offset;
    case 0x52:
        return (extra / region_bytes(fe) + 1) * region_bytes(fe) + offset;
    default:
        return size + offset;
    }
}

static bool is_tagged(uint64_t address)
{
    return address >> 56 >= 0x51 && address >> 56 <= 0x53;
}

static uint64_t resolve(const struct front_end *fe, uint64_t address)
{
    return is_tagged(address) ? fe_memory_guest_addr(fe) + offset_of(fe, address) : address;
}

static void write_table(const struct front_end *fe, void *to, const struct descriptor *from, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct vring_desc desc = { .addr = htole64(resolve(fe, from[i].address)),
                                   .len = htole32(from[i].size_bytes),
                                   .flags = htole16(from[i].flags),
                                   .next = htole16(from[i].next) };

        memcpy((char *)to + i * sizeof(desc), &desc, sizeof(desc));
    }
}

static enum seen act(struct attempt *attempt, const void *argument)
{
    const struct ring_case *c = argument;
    struct fe_options options = attempt_options(attempt);

    options.layout.indirect = !c->no_indirect;
    options.layout.event_idx = !c->no_event_idx;
    if (!attempt_open(attempt, &options))
        return STUCK;
    struct front_end *fe = attempt->fe;
    struct fe_queue *queue = fe_queue(fe, 0);
    uint8_t *memory = fe_memory(fe, NULL);
    const struct virtio_blk_outhdr header = { .type = htole32(c->type), .sector = htole64(c->sector) };
    uint8_t *status = memory + offset_of(fe, c->status_at ? c->status_at : STATUS);
    uint16_t entries = c->entries ? c->entries : 1;

    memset(memory + offset_of(fe, DATA), 0xd5, 0x20000);
    memcpy(memory + offset_of(fe, c->header_at ? c->header_at : HEADER), &header, sizeof(header));
    *status = 0xff;
    write_table(fe, memory + offset_of(fe, c->table_at ? c->table_at : TABLE), c->table, 16);
    write_table(fe, queue->desc, c->ring, 16);
    for (uint16_t i = 0; i < entries; i++)
        queue->avail->ring[i % 16] = htole16(c->head);
    __atomic_store_n(&queue->avail->idx, htole16(c->avail_index ? c->avail_index : entries), __ATOMIC_RELEASE);
    fe_queue_kick(queue);
    enum seen seen = attempt_wait_used(attempt, 0, entries);
    if (seen == WORKS && *status != c->status) {
        snprintf(attempt->detail, sizeof(attempt->detail), "status %u instead of %u", *status, c->status);
        return STUCK;
    }
    return seen;
}

#define RING(name, seen, reason, ...) { name, seen, reason, act, &(const struct ring_case){ __VA_ARGS__ }, 0, 0 }
#define WRITE(name, sector_, bytes, ...)                                                                      \
    { name, WORKS, NULL, act, &(const struct ring_case){ .type = OUT, .sector = sector_, __VA_ARGS__ }, sector_, bytes }

#define OUTSIDE "a descriptor lies outside guest memory"
#define RANGE_NEXT "a descriptor's next one is out of range"
#define LOOPS "a descriptor chain loops"
#define ZERO "a descriptor has length 0"
#define ORDER_ "a readable descriptor follows a writable one"
#define TABLE_LENGTH "an indirect table's length is no multiple of 16, or 0"
#define TABLE_OUTSIDE "an indirect table lies outside guest memory"
#define NO_HEADER "request header missing or short"
#define NO_STATUS "no room for the request's status"
#define JUMP "the available index moved by more than the queue's size"

/* A whole request with one thing replaced. */
#define CHAIN(header, header_bytes, data, data_bytes, data_flags, status_, status_bytes)                      \
    .ring = { { header, header_bytes, N, 1 }, { data, data_bytes, N | data_flags, 2 }, { status_, status_bytes, W, 0 } }
#define DATA_AT(data, bytes) CHAIN(HEADER, 16, data, bytes, W, STATUS, 1)
#define INDIRECT(address, bytes) .ring = { { address, bytes, I, 0 } }
#define TABLE_OF(...) .table = { __VA_ARGS__ }
#define WHOLE_TABLE TABLE_OF({ HEADER, 16, N, 1 }, { DATA, 512, N | W, 2 }, { STATUS, 1, W, 0 })

const struct hostile_case ring_cases[] = {
    /* legal */
    RING("a plain read", WORKS, NULL, .type = IN, DATA_AT(DATA, 4096)),
    RING("a read without event indices", WORKS, NULL, .type = IN, .no_event_idx = true, DATA_AT(DATA, 4096)),
    RING("a read through a table", WORKS, NULL, .type = IN, INDIRECT(TABLE, 48), WHOLE_TABLE),
    RING("a table longer than its chain", WORKS, NULL, .type = IN, INDIRECT(TABLE, 256), WHOLE_TABLE),
    RING("a table at an odd address", WORKS, NULL, .type = IN, INDIRECT(X(0x50003), 48), WHOLE_TABLE,
         .table_at = X(0x50003)),
    RING("a table across two regions", WORKS, NULL, .type = IN, INDIRECT(EDGE(-24), 48), WHOLE_TABLE,
         .table_at = EDGE(-24)),
    RING("a table across two regions at an odd address", WORKS, NULL, .type = IN, INDIRECT(EDGE(-7), 48), WHOLE_TABLE,
         .table_at = EDGE(-7)),
    RING("a header before a table", WORKS, NULL, .type = IN, .ring = { { HEADER, 16, N, 1 }, { TABLE, 32, I, 0 } },
         TABLE_OF({ DATA, 512, N | W, 1 }, { STATUS, 1, W, 0 })),
    RING("a table with its chain backwards", WORKS, NULL, .type = IN, .ring = { { HEADER, 16, N, 1 }, { TABLE, 64, I, 0 } },
         TABLE_OF({ DATA, 512, N | W, 3 }, { STATUS, 1, W, 0 }, { 0 }, { DATA, 512, N | W, 1 })),
    RING("data across two regions", WORKS, NULL, .type = IN, DATA_AT(EDGE(-100), 4096)),
    RING("a header across two regions", WORKS, NULL, .type = IN, .header_at = EDGE(-5),
         CHAIN(EDGE(-5), 16, DATA, 512, W, STATUS, 1)),
    RING("status at the last byte of a region", WORKS, NULL, .type = IN, .status_at = EDGE(-1),
         CHAIN(HEADER, 16, DATA, 512, W, EDGE(-1), 1)),
    RING("data and status in one descriptor", WORKS, NULL, .type = IN, .status_at = X(0x1000 + 512),
         .ring = { { HEADER, 16, N, 1 }, { DATA, 513, W, 0 } }),
    RING("a header in sixteen pieces", WORKS, NULL, .type = IN, INDIRECT(TABLE, 16 * 13),
         TABLE_OF({ X(0), 1, N, 1 }, { X(1), 1, N, 2 }, { X(2), 1, N, 3 }, { X(3), 1, N, 4 }, { X(4), 1, N, 5 },
                  { X(5), 1, N, 6 }, { X(6), 1, N, 7 }, { X(7), 1, N, 8 }, { X(8), 1, N, 9 }, { X(9), 1, N, 10 },
                  { X(10), 6, N, 11 }, { DATA, 512, N | W, 12 }, { STATUS, 1, W, 0 })),
    RING("data of odd pieces", WORKS, NULL, .type = IN,
         .ring = { { HEADER, 16, N, 1 }, { DATA, 1, N | W, 2 }, { X(0x2001), 510, N | W, 3 }, { X(0x3000), 1, N | W, 4 },
                   { STATUS, 1, W, 0 } }),
    RING("the last sector", WORKS, NULL, .type = IN, .sector = HOSTILE_DISK_BYTES / 512 - 1, DATA_AT(DATA, 512)),
    RING("a read without data", WORKS, NULL, .type = IN, .ring = { { HEADER, 16, N, 1 }, { STATUS, 1, W, 0 } }),
    RING("a flush", WORKS, NULL, .type = VIRTIO_BLK_T_FLUSH, .ring = { { HEADER, 16, N, 1 }, { STATUS, 1, W, 0 } }),
    RING("an identity", WORKS, NULL, .type = VIRTIO_BLK_T_GET_ID, DATA_AT(DATA, 20)),
    RING("an identity into one byte", WORKS, NULL, .type = VIRTIO_BLK_T_GET_ID, DATA_AT(DATA, 1)),
    RING("an identity across two regions", WORKS, NULL, .type = VIRTIO_BLK_T_GET_ID, DATA_AT(EDGE(-3), 20)),
    RING("the last descriptor as head", WORKS, NULL, .type = IN, .head = 15,
         .ring = { [15] = { HEADER, 16, N, 3 }, [3] = { DATA, 512, N | W, 9 }, [9] = { STATUS, 1, W, 0 } }),
    WRITE("a plain write", 16, 512, .ring = { { HEADER, 16, N, 1 }, { DATA, 512, N, 2 }, { STATUS, 1, W, 0 } }),
    WRITE("header and data in one descriptor", 24, 512, .header_at = X(0x1000),
          .ring = { { DATA, 16 + 512, N, 1 }, { STATUS, 1, W, 0 } }),
    WRITE("a header split within its sector number", 32, 1024,
          .ring = { { HEADER, 11, N, 1 }, { X(11), 5, N, 2 }, { DATA, 1024, N, 3 }, { STATUS, 1, W, 0 } }),
    WRITE("a write across two regions", 40, 4096,
          .ring = { { HEADER, 16, N, 1 }, { EDGE(-1000), 4096, N, 2 }, { STATUS, 1, W, 0 } }),
    WRITE("the last sector, written", HOSTILE_DISK_BYTES / 512 - 1, 512,
          .ring = { { HEADER, 16, N, 1 }, { DATA, 512, N, 2 }, { STATUS, 1, W, 0 } }),

    /* well-formed, and cannot be done */
    RING("a sector beyond the disk", WORKS, NULL, .type = IN, .sector = HOSTILE_DISK_BYTES / 512, DATA_AT(DATA, 512),
         .status = VIRTIO_BLK_S_IOERR),
    RING("data over the end of the disk", WORKS, NULL, .type = IN, .sector = HOSTILE_DISK_BYTES / 512 - 1,
         DATA_AT(DATA, 1024), .status = VIRTIO_BLK_S_IOERR),
    RING("a write over the end of the disk", WORKS, NULL, .type = OUT, .sector = HOSTILE_DISK_BYTES / 512 - 1,
         CHAIN(HEADER, 16, DATA, 1024, 0, STATUS, 1), .status = VIRTIO_BLK_S_IOERR),
    RING("a sector that overflows to 0", WORKS, NULL, .type = OUT, .sector = UINT64_C(1) << 55,
         CHAIN(HEADER, 16, DATA, 512, 0, STATUS, 1), .status = VIRTIO_BLK_S_IOERR),
    RING("the largest sector", WORKS, NULL, .type = OUT, .sector = UINT64_MAX,
         CHAIN(HEADER, 16, DATA, 512, 0, STATUS, 1), .status = VIRTIO_BLK_S_IOERR),
    RING("a sector whose end overflows", WORKS, NULL, .type = OUT, .sector = UINT64_MAX / 512,
         CHAIN(HEADER, 16, DATA, 1024, 0, STATUS, 1), .status = VIRTIO_BLK_S_IOERR),
    RING("a sector that is negative in bytes", WORKS, NULL, .type = IN, .sector = UINT64_C(1) << 54, DATA_AT(DATA, 512),
         .status = VIRTIO_BLK_S_IOERR),
    RING("a read of 511 bytes", WORKS, NULL, .type = IN, DATA_AT(DATA, 511), .status = VIRTIO_BLK_S_IOERR),
    RING("a read of 513 bytes", WORKS, NULL, .type = IN, DATA_AT(DATA, 513), .status = VIRTIO_BLK_S_IOERR),
    RING("a write of one byte", WORKS, NULL, .type = OUT, CHAIN(HEADER, 16, DATA, 1, 0, STATUS, 1),
         .status = VIRTIO_BLK_S_IOERR),
    RING("a write of 513 bytes", WORKS, NULL, .type = OUT, CHAIN(HEADER, 16, DATA, 513, 0, STATUS, 1),
         .status = VIRTIO_BLK_S_IOERR),
    RING("a write whose data is writable", WORKS, NULL, .type = OUT, CHAIN(HEADER, 16, DATA, 512, W, STATUS, 1),
         .status = VIRTIO_BLK_S_IOERR),
    RING("a read whose data is readable", WORKS, NULL, .type = IN, CHAIN(HEADER, 16, DATA, 512, 0, STATUS, 1),
         .status = VIRTIO_BLK_S_IOERR),
    RING("a read longer than the disk", WORKS, NULL, .type = IN, DATA_AT(DATA, 0x120000),
         .status = VIRTIO_BLK_S_IOERR, .status_at = X(0x100)),
    RING("an unknown type", WORKS, NULL, .type = 3, DATA_AT(DATA, 512), .status = VIRTIO_BLK_S_UNSUPP),
    RING("the largest type", WORKS, NULL, .type = UINT32_MAX, DATA_AT(DATA, 512), .status = VIRTIO_BLK_S_UNSUPP),
    RING("a barrier of old", WORKS, NULL, .type = 0x80000000, DATA_AT(DATA, 512), .status = VIRTIO_BLK_S_UNSUPP),
    RING("a SCSI command of old", WORKS, NULL, .type = 2, DATA_AT(DATA, 512), .status = VIRTIO_BLK_S_UNSUPP),
    RING("a secure erase", WORKS, NULL, .type = 14, CHAIN(HEADER, 16, DATA, 16, 0, STATUS, 1),
         .status = VIRTIO_BLK_S_UNSUPP),

    /* no request at all */
    RING("no descriptor for the header", BROKEN, NO_HEADER, .type = IN, .ring = { { STATUS, 1, W, 0 } }),
    RING("a header of 15 bytes", BROKEN, NO_HEADER, .type = IN, CHAIN(HEADER, 15, DATA, 512, W, STATUS, 1)),
    RING("a header of one byte", BROKEN, NO_HEADER, .type = IN, CHAIN(HEADER, 1, DATA, 512, W, STATUS, 1)),
    RING("no status", BROKEN, NO_STATUS, .type = IN, .ring = { { HEADER, 16, 0, 0 } }),
    RING("a write without status", BROKEN, NO_STATUS, .type = OUT, .ring = { { HEADER, 16, N, 1 }, { DATA, 512, 0, 0 } }),

    /* chains */
    RING("a head out of range", BROKEN, "a head is out of range", .type = IN, .head = 16, DATA_AT(DATA, 512)),
    RING("the largest head", BROKEN, "a head is out of range", .type = IN, .head = 65535, DATA_AT(DATA, 512)),
    RING("a next out of range", BROKEN, RANGE_NEXT, .type = IN, .ring = { { HEADER, 16, N, 16 } }),
    RING("the largest next", BROKEN, RANGE_NEXT, .type = IN, .ring = { { HEADER, 16, N, 65535 } }),
    RING("a descriptor that is its own next", BROKEN, LOOPS, .type = IN, .ring = { { HEADER, 16, N, 0 } }),
    RING("a loop of two", BROKEN, LOOPS, .type = IN, .ring = { { HEADER, 16, N, 1 }, { HEADER, 16, N, 0 } }),
    RING("a loop behind the head", BROKEN, LOOPS, .type = IN,
         .ring = { { HEADER, 16, N, 1 }, { DATA, 512, N | W, 2 }, { DATA, 512, N | W, 1 } }),
    RING("length 0", BROKEN, ZERO, .type = IN, DATA_AT(DATA, 0)),
    RING("a header of length 0", BROKEN, ZERO, .type = IN, CHAIN(HEADER, 0, DATA, 512, W, STATUS, 1)),
    RING("a status of length 0", BROKEN, ZERO, .type = IN, CHAIN(HEADER, 16, DATA, 512, W, STATUS, 0)),
    RING("readable after writable", BROKEN, ORDER_, .type = IN,
         .ring = { { HEADER, 16, N, 1 }, { DATA, 512, N | W, 2 }, { DATA, 512, N, 3 }, { STATUS, 1, W, 0 } }),
    RING("a readable status", BROKEN, ORDER_, .type = IN, .ring = { { HEADER, 16, N, 1 }, { DATA, 512, N | W, 2 }, { STATUS, 1, 0, 0 } }),
    RING("a writable header", BROKEN, ORDER_, .type = OUT,
         .ring = { { HEADER, 16, N | W, 1 }, { DATA, 512, N, 2 }, { STATUS, 1, W, 0 } }),
    RING("the same head twice", BROKEN, "a head is made available while it is in use", .type = IN, .entries = 16,
         DATA_AT(DATA, 0x10000)),

    /* addresses */
    RING("data at 0", BROKEN, OUTSIDE, .type = IN, DATA_AT(0, 512)),
    RING("data at an address of the process", BROKEN, OUTSIDE, .type = IN, DATA_AT(0x7f0000000000, 512)),
    RING("data at the largest address", BROKEN, OUTSIDE, .type = IN, DATA_AT(UINT64_MAX, 512)),
    RING("data that wraps around 64 bits", BROKEN, OUTSIDE, .type = IN, DATA_AT(UINT64_MAX - 255, 512)),
    RING("data behind the end of memory", BROKEN, OUTSIDE, .type = IN, DATA_AT(END(0), 512)),
    RING("data over the end of memory", BROKEN, OUTSIDE, .type = IN, DATA_AT(END(-511), 512)),
    RING("data before the beginning of memory", BROKEN, OUTSIDE, .type = IN, DATA_AT(UINT64_C(0xfffffe00), 512)),
    RING("data over the beginning of memory", BROKEN, OUTSIDE, .type = IN, DATA_AT(UINT64_C(0xffffff00), 512)),
    RING("data of 4 GiB", BROKEN, OUTSIDE, .type = IN, DATA_AT(DATA, UINT32_MAX)),
    RING("a header outside", BROKEN, OUTSIDE, .type = IN, CHAIN(4096, 16, DATA, 512, W, STATUS, 1)),
    RING("a status outside", BROKEN, OUTSIDE, .type = IN, CHAIN(HEADER, 16, DATA, 512, W, 4096, 1)),
    RING("data of 4 GiB in all", BROKEN, NULL, .type = IN, INDIRECT(TABLE, 256),
         TABLE_OF({ HEADER, 16, N, 1 }, { DATA, 0x7fffffff, N | W, 2 }, { DATA, 0x7fffffff, N | W, 3 }, { DATA, 0x7fffffff, N | W, 4 },
                  { STATUS, 1, W, 0 })),
    RING("data at the last bytes of memory", WORKS, NULL, .type = IN, DATA_AT(END(-512), 512)),

    /* indirect tables */
    RING("a table of 47 bytes", BROKEN, TABLE_LENGTH, .type = IN, INDIRECT(TABLE, 47), WHOLE_TABLE),
    RING("a table of 1 byte", BROKEN, TABLE_LENGTH, .type = IN, INDIRECT(TABLE, 1), WHOLE_TABLE),
    RING("a table of 0 bytes", BROKEN, TABLE_LENGTH, .type = IN, INDIRECT(TABLE, 0), WHOLE_TABLE),
    RING("a table of the largest length", BROKEN, NULL, .type = IN, INDIRECT(TABLE, UINT32_MAX), WHOLE_TABLE),
    RING("a table of nearly 4 GiB", BROKEN, TABLE_OUTSIDE, .type = IN, INDIRECT(TABLE, UINT32_MAX - 15), WHOLE_TABLE),
    RING("a table outside", BROKEN, TABLE_OUTSIDE, .type = IN, INDIRECT(64, 48), WHOLE_TABLE),
    RING("a table over the end of memory", BROKEN, TABLE_OUTSIDE, .type = IN, INDIRECT(END(-32), 48),
         .table_at = TABLE, WHOLE_TABLE),
    RING("a table that wraps around 64 bits", BROKEN, TABLE_OUTSIDE, .type = IN, INDIRECT(UINT64_MAX - 31, 48),
         WHOLE_TABLE),
    RING("a table in a table", BROKEN, "an indirect table is nested in another", .type = IN, INDIRECT(TABLE, 48),
         TABLE_OF({ HEADER, 16, N, 1 }, { TABLE, 48, I, 0 })),
    RING("a table that is its own entry", BROKEN, "an indirect table is nested in another", .type = IN,
         INDIRECT(TABLE, 16), TABLE_OF({ TABLE, 16, I, 0 })),
    RING("a table with a next one", BROKEN, "an indirect descriptor has a next one", .type = IN,
         .ring = { { TABLE, 48, I | N, 1 }, { STATUS, 1, W, 0 } }, WHOLE_TABLE),
    RING("a table that was not negotiated", BROKEN, "an indirect descriptor, which was not negotiated", .type = IN,
         .no_indirect = true, INDIRECT(TABLE, 48), WHOLE_TABLE),
    RING("a chain that leaves its table", BROKEN, "an indirect table's chain leaves the table", .type = IN,
         INDIRECT(TABLE, 32), TABLE_OF({ HEADER, 16, N, 1 }, { DATA, 512, N | W, 2 }, { STATUS, 1, W, 0 })),
    RING("a chain that leaves its table far", BROKEN, "an indirect table's chain leaves the table", .type = IN,
         INDIRECT(TABLE, 32), TABLE_OF({ HEADER, 16, N, 65535 })),
    RING("a table that loops", BROKEN, "an indirect table's chain loops", .type = IN, INDIRECT(TABLE, 32),
         TABLE_OF({ HEADER, 16, N, 1 }, { HEADER, 16, N, 0 })),
    RING("a table's data outside", BROKEN, OUTSIDE, .type = IN, INDIRECT(TABLE, 48),
         TABLE_OF({ HEADER, 16, N, 1 }, { 12, 512, N | W, 2 }, { STATUS, 1, W, 0 })),
    RING("a table of the largest chain that is one too long", BROKEN, NULL, .type = IN, INDIRECT(TABLE, 1025 * 16),
         TABLE_OF({ HEADER, 16, N, 0 })),

    /* indices */
    RING("an index jump of 17", BROKEN, JUMP, .type = IN, .avail_index = 17, DATA_AT(DATA, 512)),
    RING("an index jump of 32768", BROKEN, JUMP, .type = IN, .avail_index = 32768, DATA_AT(DATA, 512)),
    RING("an index that goes back", BROKEN, JUMP, .type = IN, .avail_index = 65535, DATA_AT(DATA, 512)),
    RING("an index jump without event indices", BROKEN, JUMP, .type = IN, .avail_index = 1000, .no_event_idx = true,
         DATA_AT(DATA, 512)),
};
const unsigned ring_case_count = sizeof(ring_cases) / sizeof(ring_cases[0]);
