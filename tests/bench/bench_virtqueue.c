/*
 * Goal:   what it costs to trust no ring, and what a packed ring costs beside a split one.
 * Method: requests of three descriptors (header, 4 KiB, status) go around a ring of 128 in batches of 32, in one thread
 *         that is driver and device; the same ring is then walked by a device that believes everything it reads and
 *         adds one constant to each address. Plain and indirect chains, alternating in one run; medians of processor
 *         time. The driver's part (two stores a request) is in all of them. A packed ring's driver writes the descriptors
 *         of each request anew, three or with a table one, which is in its time; what a packed ring is for, fewer cache
 *         lines between two processors, does not show on one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/virtio_ring.h>

#include "compare.h"
#include "guest.h"
#include "packed_guest.h"

#define BATCH 32
#define SIZE 128
#define TABLE (GUEST_DATA + 0x20000)

static unsigned batches = 10000;

static const uint32_t chain_sizes[3] = { 16, 4096, 1 };
static const uint16_t chain_flags[3] = { VRING_DESC_F_NEXT, VRING_DESC_F_NEXT | VRING_DESC_F_WRITE, VRING_DESC_F_WRITE };

static uint64_t chain_address(unsigned chain, unsigned part)
{
    static const uint16_t offsets[3] = { 0, 512, 16 };
    return GUEST_DATA + chain * 4096u % 0x10000 + offsets[part];
}

/* Heads 0, 3, 6...: each chain stays where it is. */
static void prepare(struct guest *guest, bool indirect)
{
    for (unsigned i = 0; i < BATCH; i++) {
        unsigned head = 3 * i;
        for (unsigned j = 0; j < 3; j++) {
            if (indirect)
                guest_desc_at(guest, TABLE + head * 16, j, chain_address(i, j), chain_sizes[j], chain_flags[j],
                              (uint16_t)(j + 1));
            else
                guest_desc(guest, head + j, chain_address(i, j), chain_sizes[j], chain_flags[j],
                           (uint16_t)(head + j + 1));
        }
        if (indirect)
            guest_desc(guest, head, TABLE + head * 16, 48, VRING_DESC_F_INDIRECT, 0);
    }
}

struct ring {
    uint16_t *avail, *used;
    struct vring_desc *desc;
    uint8_t *base; /* of the region, minus its guest address */
};

static struct ring locate(const struct guest *guest)
{
    return (struct ring){ .avail = guest_at(guest, GUEST_AVAIL),
                          .used = guest_at(guest, GUEST_USED),
                          .desc = guest_at(guest, GUEST_DESC),
                          .base = (uint8_t *)guest_at(guest, GUEST_LOW) - GUEST_LOW };
}

static void offer(struct guest *guest, const struct ring *ring)
{
    for (unsigned i = 0; i < BATCH; i++)
        ring->avail[2 + (uint16_t)(guest->avail_index + i) % SIZE] = (uint16_t)(3 * i);
    guest->avail_index += BATCH;
    __atomic_store_n(&ring->avail[1], guest->avail_index, __ATOMIC_RELEASE);
}

/* Something must depend on what was found, or the compiler leaves it out. */
static volatile uintptr_t sink;

static void take_and_give_back(struct guest *guest)
{
    struct vblk_element *element, *first = NULL, **last = &first;
    int error;
    const char *reason;
    while ((element = vblk_virtqueue_pop(guest->vq, &error, &reason))) {
        sink = (uintptr_t)element->in[0].iov_base;
        *last = element;
        last = &element->next;
    }
    while ((element = first)) {
        first = element->next;
        vblk_virtqueue_push(guest->vq, element, element->in_bytes);
    }
    if (vblk_virtqueue_should_interrupt(guest->vq))
        sink = 1;
}

static double checked(struct guest *guest)
{
    struct ring ring = locate(guest);
    int64_t begin_ns = bench_cpu_ns();
    for (unsigned batch = 0; batch < batches; batch++) {
        offer(guest, &ring);
        take_and_give_back(guest);
    }
    return (double)(bench_cpu_ns() - begin_ns) / ((double)batches * BATCH);
}

static void prepare_packed(struct guest *guest)
{
    for (unsigned i = 0; i < BATCH; i++)
        for (unsigned j = 0; j < 3; j++)
            packed_desc_at(guest, TABLE + 48 * i, j, chain_address(i, j), chain_sizes[j], 0,
                           chain_flags[j] & VRING_DESC_F_WRITE);
}

/* The batch's first flags last, as a driver does that shows it at once. */
static void offer_packed(struct guest *guest, struct vring_packed_desc *ring, bool indirect)
{
    uint16_t first = guest->avail_index, at = first, first_flags = 0;
    unsigned position = at & 0x7fff;
    for (unsigned i = 0; i < BATCH; i++)
        for (unsigned j = 0; j < (indirect ? 1 : 3); j++) {
            struct vring_packed_desc *desc = &ring[position];
            uint16_t flags = (indirect ? VRING_DESC_F_INDIRECT : chain_flags[j]) | packed_available(at);
            desc->addr = indirect ? TABLE + 48 * i : chain_address(i, j);
            desc->len = indirect ? 48 : chain_sizes[j];
            desc->id = (uint16_t)i;
            if (at == first)
                first_flags = flags;
            else
                desc->flags = flags;
            at++;
            if (++position == SIZE) {
                position = 0;
                at = (uint16_t)((at & 0x8000) ^ 0x8000);
            }
        }
    guest->avail_index = at;
    __atomic_store_n(&ring[first & 0x7fff].flags, first_flags, __ATOMIC_RELEASE);
}

static double packed(struct guest *guest, bool indirect)
{
    struct vring_packed_desc *ring = guest_at(guest, GUEST_DESC);
    int64_t begin_ns = bench_cpu_ns();
    for (unsigned batch = 0; batch < batches; batch++) {
        offer_packed(guest, ring, indirect);
        take_and_give_back(guest);
    }
    return (double)(bench_cpu_ns() - begin_ns) / ((double)batches * BATCH);
}

static double packed_plain(struct guest *guest)
{
    return packed(guest, false);
}

static double packed_indirect(struct guest *guest)
{
    return packed(guest, true);
}

/* The least that any device has to do. */
static double believed(struct guest *guest)
{
    struct ring ring = locate(guest);
    static struct iovec found[BATCH][4];
    static uint16_t heads[BATCH];
    uint16_t popped = guest->avail_index, used = guest->avail_index;
    int64_t begin_ns = bench_cpu_ns();
    for (unsigned batch = 0; batch < batches; batch++) {
        unsigned count = 0;
        offer(guest, &ring);
        uint16_t avail = __atomic_load_n(&ring.avail[1], __ATOMIC_ACQUIRE);
        for (; popped != avail; popped++, count++) {
            heads[count] = ring.avail[2 + popped % SIZE];
            const struct vring_desc *table = ring.desc;
            const struct vring_desc *desc = &table[heads[count]];
            if (desc->flags & VRING_DESC_F_INDIRECT) {
                table = (const struct vring_desc *)(ring.base + desc->addr);
                desc = table;
            }
            for (unsigned i = 0; i < 4; desc = &table[desc->next]) {
                found[count][i++] = (struct iovec){ ring.base + desc->addr, desc->len };
                if (!(desc->flags & VRING_DESC_F_NEXT))
                    break;
            }
            sink = (uintptr_t)found[count][1].iov_base;
        }
        for (unsigned i = 0; i < count; i++, used++) {
            uint32_t *entry = (uint32_t *)ring.used + 1 + 2 * (used % SIZE);
            entry[0] = heads[i];
            entry[1] = 4097;
            __atomic_store_n(&ring.used[1], (uint16_t)(used + 1), __ATOMIC_RELEASE);
        }
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (!(ring.avail[0] & VRING_AVAIL_F_NO_INTERRUPT))
            sink = 1;
    }
    return (double)(bench_cpu_ns() - begin_ns) / ((double)batches * BATCH);
}

struct ring_kind {
    bool packed, indirect;
    double (*walk)(struct guest *guest);
};

static int sample(void *opaque, double *ns_out)
{
    const struct ring_kind *kind = opaque;
    struct guest guest;

    if (kind->packed) {
        guest_init(&guest, SIZE, GUEST_F_INDIRECT | GUEST_F_PACKED, 0x8000);
        prepare_packed(&guest);
    } else {
        guest_init(&guest, SIZE, GUEST_F_INDIRECT, 0);
        prepare(&guest, kind->indirect);
    }
    *ns_out = kind->walk(&guest);
    guest_deinit(&guest);
    return 0;
}

int main(int argc, char **argv)
{
    struct bench *bench = bench_begin(
        "virtqueue",
        "What it costs to trust no ring: pop and push of a request with three descriptors, next to a device that believes "
        "everything that it reads; and a packed ring next to a split one, neither of them trusted. One thread is driver and "
        "device; processor time.",
        NULL, argc, argv);
    struct bench_group *trust = bench_group(bench, BENCH_TIMES, "Chain", "believing", "checking");
    struct bench_group *format = bench_group(bench, BENCH_CHANGE, "Chain in a ring", "split", "packed");
    struct ring_kind kinds[] = { { false, false, believed },    { false, false, checked },
                                 { true, false, packed_plain }, { false, true, believed },
                                 { false, true, checked },      { true, true, packed_indirect } };
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    struct bench_subject subjects[KINDS];

    if (bench_quick(bench))
        batches = 100;
    for (unsigned i = 0; i < KINDS; i++)
        subjects[i] = (struct bench_subject){ .sample = sample, .opaque = &kinds[i] };
    bench_alternate(bench, subjects, KINDS, bench_pairs(bench, 15));
    for (unsigned i = 0; i < 2; i++) {
        const char *chain = i ? "indirect" : "plain";
        bench_row_of(bench_row(trust, chain, "ns", BENCH_LOWER), &subjects[3 * i], &subjects[3 * i + 1]);
        bench_row_of(bench_row(format, chain, "ns", BENCH_LOWER), &subjects[3 * i + 1], &subjects[3 * i + 2]);
    }
    bench_subjects_deinit(subjects, KINDS);
    return bench_finish(bench);
}
