/*
 * Goal:   what it costs to trust no ring.
 * Method: requests of three descriptors (header, 4 KiB, status) go around a ring of 128 in batches of 32, in one thread
 *         that is driver and device; the same ring is then walked by a device that believes everything it reads and
 *         adds one constant to each address. Plain and indirect chains, alternating in one run; medians of processor
 *         time. The driver's part (two stores a request) is in all of them.
 * Usage:  bench_virtqueue [--json]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <linux/virtio_ring.h>

#include "guest.h"

#define ROUNDS 15
#define BATCHES 10000
#define BATCH 32
#define SIZE 128
#define TABLE (GUEST_DATA + 0x20000)

static double cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Heads 0, 3, 6...: each chain stays where it is. */
static void prepare(struct guest *guest, bool indirect)
{
    for (unsigned i = 0; i < BATCH; i++) {
        unsigned head = 3 * i;
        uint64_t data = GUEST_DATA + i * 4096u % 0x10000;
        const uint64_t addresses[3] = { data, data + 512, data + 16 };
        const uint32_t sizes[3] = { 16, 4096, 1 };
        const uint16_t flags[3] = { VRING_DESC_F_NEXT, VRING_DESC_F_NEXT | VRING_DESC_F_WRITE,
                                    VRING_DESC_F_WRITE };
        for (unsigned j = 0; j < 3; j++) {
            if (indirect)
                guest_desc_at(guest, TABLE + head * 16, j, addresses[j], sizes[j], flags[j],
                              (uint16_t)(j + 1));
            else
                guest_desc(guest, head + j, addresses[j], sizes[j], flags[j], (uint16_t)(head + j + 1));
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

static double checked(struct guest *guest)
{
    struct ring ring = locate(guest);
    double begin = cpu_ns();
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        struct vblk_element *element, *first = NULL, **last = &first;
        int error;
        const char *reason;
        offer(guest, &ring);
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
    return (cpu_ns() - begin) / ((double)BATCHES * BATCH);
}

/* The least that any device has to do. */
static double believed(struct guest *guest)
{
    struct ring ring = locate(guest);
    static struct iovec found[BATCH][4];
    static uint16_t heads[BATCH];
    uint16_t popped = guest->avail_index, used = guest->avail_index;
    double begin = cpu_ns();
    for (unsigned batch = 0; batch < BATCHES; batch++) {
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
    return (cpu_ns() - begin) / ((double)BATCHES * BATCH);
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

int main(int count, char **arguments)
{
    bool json = count == 2 && !strcmp(arguments[1], "--json");
    if (count > 1 && !json) {
        fprintf(stderr, "Usage: bench_virtqueue [--json]\n");
        return 2;
    }
    static const char *names[2] = { "plain", "indirect" };
    double values[2][2][ROUNDS], ns[2][2];
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned indirect = 0; indirect < 2; indirect++) {
            struct guest guest;
            guest_init(&guest, SIZE, GUEST_F_INDIRECT, 0);
            prepare(&guest, indirect);
            values[indirect][0][round] = checked(&guest);
            values[indirect][1][round] = believed(&guest);
            guest_deinit(&guest);
        }
    }
    for (unsigned indirect = 0; indirect < 2; indirect++)
        for (unsigned i = 0; i < 2; i++)
            ns[indirect][i] = median(values[indirect][i]);
    if (json) {
        printf("{ \"benchmark\": \"virtqueue\"");
        for (unsigned i = 0; i < 2; i++)
            printf(",\n  \"%s\": { \"checked_ns\": %.2f, \"believed_ns\": %.2f, \"ratio\": %.3f }", names[i],
                   ns[i][0], ns[i][1], ns[i][0] / ns[i][1]);
        printf(" }\n");
        return 0;
    }
    printf("pop and push of a request with three descriptors, ns\n\n");
    printf("  %-10s %10s %10s %8s %22s\n", "", "checked", "believed", "ratio", "checked, million/s");
    for (unsigned i = 0; i < 2; i++)
        printf("  %-10s %10.1f %10.1f %8.2f %22.1f\n", names[i], ns[i][0], ns[i][1], ns[i][0] / ns[i][1],
               1e3 / ns[i][0]);
    return 0;
}
