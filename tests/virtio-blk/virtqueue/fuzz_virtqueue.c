/*
 * Goal:   no ring, whatever is in it and however it changes between calls, leads out of guest memory or to a crash.
 * Method: the input is a little program: it writes descriptors, tables, ring entries and indices, and calls the queue.
 *         Each element that comes out must lie in memory; errors must be those that the header names.
 * Broken: a guest takes over or stops the process that serves it and others.
 *
 * Input:  size exponent, features, base (2), then instructions of one byte and their operands, see run().
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"

#define HELD_MAX 64
#define TABLE (GUEST_DATA + 0x20000)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

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

static uint64_t take64(struct input *input)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++)
        value |= (uint64_t)take8(input) << 8 * i;
    return value;
}

static void check(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

/* Places where something can go wrong, so that the fuzzer need not guess 64 bits. */
static uint64_t take_address(struct input *input)
{
    static const uint64_t bases[] = { GUEST_DATA,      TABLE,      GUEST_DESC,
                                      GUEST_USED,      GUEST_HIGH, GUEST_HIGH + GUEST_HIGH_BYTES,
                                      GUEST_FAR,       0,          GUEST_FAR + GUEST_FAR_BYTES,
                                      GUEST_LOW - 512, UINT64_MAX, GUEST_HIGH - 256 };
    uint8_t which = take8(input);
    if (which == 255)
        return take64(input);
    return bases[which % (sizeof bases / sizeof bases[0])] + (uint64_t)(int64_t)(int16_t)take16(input);
}

static uint32_t take_size(struct input *input)
{
    uint16_t size = take16(input);
    /* Small, a table's, huge. */
    return size < 0x8000 ? size : size < 0xf000 ? (size & 0xfffu) * 16 : UINT32_MAX - (size & 0xfffu);
}

struct machine {
    struct guest *guest;
    struct vblk_element *held[HELD_MAX];
    unsigned held_count;
};

static void pop(struct machine *machine)
{
    int error = 1;
    const char *reason = NULL;
    if (machine->held_count == HELD_MAX)
        return;
    struct vblk_element *element = vblk_virtqueue_pop(machine->guest->vq, &error, &reason);
    if (!element) {
        check(error == 0 || error == -ENOMEM || (error == -EPROTO && reason), "an error that does not exist");
        return;
    }
    check(guest_is_sound(machine->guest, element), "an element that leaves memory");
    for (unsigned i = 0; i < machine->held_count; i++)
        check(machine->held[i]->head != element->head, "a head twice");
    /* What a device would do: read here, write there, also into the ring itself. */
    for (unsigned i = 0; i < element->in_count; i++)
        memset(element->in[i].iov_base, 0x11, element->in[i].iov_len < 64 ? element->in[i].iov_len : 64);
    machine->held[machine->held_count++] = element;
}

static void push(struct machine *machine, uint8_t which)
{
    if (!machine->held_count)
        return;
    unsigned pick = which % machine->held_count;
    uint16_t before = vblk_virtqueue_used_index(machine->guest->vq);
    vblk_virtqueue_push(machine->guest->vq, machine->held[pick], machine->held[pick]->in_bytes);
    check(vblk_virtqueue_used_index(machine->guest->vq) == (uint16_t)(before + 1), "a used index that jumps");
    check(guest_used_index(machine->guest) == (uint16_t)(before + 1), "a used index that is not published");
    machine->held[pick] = machine->held[--machine->held_count];
}

static void run(struct machine *machine, struct input *input)
{
    struct guest *guest = machine->guest;
    while (input->at < input->end) {
        uint8_t op = take8(input);
        switch (op % 8) {
        case 0:
        case 1: {
            uint64_t address = take_address(input);
            uint32_t size = take_size(input);
            uint16_t next = take8(input);
            guest_desc_at(guest, op % 8 ? TABLE : GUEST_DESC, (op >> 3) + (next & 0x80 ? 1000u : 0), address,
                          size, take8(input), next);
            break;
        }
        case 2:
            guest_offer(guest, op & 0x80 ? take16(input) : op >> 3);
            break;
        case 3:
            guest_set_avail_index(guest,
                                  op & 0x80 ? take16(input) : (uint16_t)(guest->avail_index + (op >> 3)));
            break;
        case 4:
            pop(machine);
            break;
        case 5:
            push(machine, op >> 3);
            break;
        case 6:
            guest_set_used_event(guest, take16(input));
            guest_set_avail_flags(guest, op >> 3);
            (void)vblk_virtqueue_should_interrupt(guest->vq);
            break;
        case 7:
            if (op & 8)
                vblk_virtqueue_disable_notifications(guest->vq);
            else
                (void)vblk_virtqueue_enable_notifications(guest->vq);
            (void)vblk_virtqueue_pending(guest->vq);
            break;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    static struct guest guest; /* once: making memory is dear, and it is cleared for each input */
    struct input input = { bytes, bytes + size_bytes };
    struct machine machine = { .guest = &guest };
    uint16_t size = (uint16_t)(1u << take8(&input) % 11);
    uint8_t bits = take8(&input);
    uint64_t features = (bits & 1 ? GUEST_F_INDIRECT : 0) | (bits & 2 ? GUEST_F_EVENT_IDX : 0);
    if (!guest.map)
        guest_init(&guest, size, features, 0);
    guest_restart(&guest, size, features, take16(&input));
    run(&machine, &input);
    while (machine.held_count)
        push(&machine, 0);
    return 0;
}
