/*
 * Goal:   no ring, whatever is in it and however it changes between calls, leads out of guest memory or to a crash.
 * Method: the input is a little program: it writes descriptors, tables, ring entries and indices, and calls the queue.
 *         Each element that comes out must lie in memory; errors must be those that the header names.
 * Broken: a guest takes over or stops the process that serves it and others.
 *
 * Input:  format (bit 7) and size exponent, features, base (2), then instructions of one byte and their operands, see
 *         run_split() and run_packed(). Packed, one more byte makes the size smaller, to any in between.
 */
#include <errno.h>
#include <linux/virtio_ring.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"
#include "packed_guest.h"

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
    uint64_t features;
    struct vblk_element *held[HELD_MAX];
    unsigned held_count;
    bool unseen; /* something was pushed and not shown */
};

static void pop(struct machine *machine)
{
    int error = 1;
    const char *reason = NULL;
    if (machine->held_count == HELD_MAX)
        return;
    struct vblk_element *element = vblk_virtqueue_pop(machine->guest->vq, &error, &reason);
    if (!element) {
        check(error == 0 || error == -ENOMEM || ((error == -EPROTO || error == -EFAULT) && reason), "an error that does not exist");
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
    uint16_t before = vblk_virtqueue_used_index(machine->guest->vq), head = machine->held[pick]->head, id = 0;
    uint32_t written = machine->held[pick]->in_bytes, size_bytes = 0;
    if (which & 0x10) {
        /* One of a batch, shown by a later push or at the end. */
        vblk_virtqueue_push_unseen(machine->guest->vq, machine->held[pick], written);
        machine->held[pick] = machine->held[--machine->held_count];
        machine->unseen = true;
        return;
    }
    vblk_virtqueue_push(machine->guest->vq, machine->held[pick], written);
    if (machine->features & GUEST_F_PACKED) {
        /* What a driver makes available before it saw the last turn used may be overwritten by that: its own fault. */
        check(machine->unseen || (packed_used(machine->guest, before, &id, &size_bytes) && id == head &&
                                  size_bytes == written),
              "a used descriptor that is not published");
    } else {
        check(vblk_virtqueue_used_index(machine->guest->vq) == (uint16_t)(before + 1), "a used index that jumps");
        check(guest_used_index(machine->guest) == (uint16_t)(before + 1), "a used index that is not published");
    }
    machine->unseen = false;
    machine->held[pick] = machine->held[--machine->held_count];
}

static void notifications(struct machine *machine, bool off)
{
    if (off)
        vblk_virtqueue_disable_notifications(machine->guest->vq);
    else
        (void)vblk_virtqueue_enable_notifications(machine->guest->vq);
    (void)vblk_virtqueue_pending(machine->guest->vq);
    (void)vblk_virtqueue_peek_avail_index(machine->guest->vq);
    (void)vblk_virtqueue_waiting(machine->guest->vq);
}

static void run_split(struct machine *machine, struct input *input)
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
            notifications(machine, op & 8);
            break;
        }
    }
}

static uint16_t take_position(const struct guest *guest, struct input *input)
{
    uint16_t at = take16(input);
    return (uint16_t)((at & 0x7fff) % guest->size | (at & 0x8000));
}

/* A chain as drivers make them, with wild content. */
static void offer_packed(struct guest *guest, struct input *input, unsigned count)
{
    struct packed_part parts[4];
    for (unsigned i = 0; i < count; i++) {
        parts[i].address = take_address(input);
        parts[i].size_bytes = take_size(input);
        parts[i].flags = take8(input) & (VRING_DESC_F_WRITE | VRING_DESC_F_INDIRECT);
    }
    packed_offer(guest, parts, count, take8(input));
}

/* Another queue in the same memory, anywhere. */
static void begin_again(struct machine *machine, uint32_t base)
{
    struct guest *guest = machine->guest;
    struct vblk_virtqueue_config config = guest_config(guest, machine->features, base);
    struct vblk_virtqueue *vq;
    if (machine->held_count)
        return;
    int error = vblk_virtqueue_create(&config, guest->map, &vq);
    check(error == 0 || error == -EINVAL, "an error that does not exist");
    if (error)
        return;
    check(vblk_virtqueue_base(vq) == base, "a queue that begins elsewhere");
    vblk_virtqueue_destroy(guest->vq);
    guest->vq = vq;
}

static void run_packed(struct machine *machine, struct input *input)
{
    struct guest *guest = machine->guest;
    while (input->at < input->end) {
        uint8_t op = take8(input);
        switch (op % 8) {
        case 0: {
            uint64_t address = take_address(input);
            uint32_t size = take_size(input);
            packed_desc_at(guest, TABLE, op >> 3, address, size, op, take8(input));
            break;
        }
        case 1: {
            uint16_t at = take_position(guest, input);
            uint64_t address = take_address(input);
            uint32_t size = take_size(input);
            uint16_t id = take8(input);
            packed_desc(guest, at, address, size, id, op & 0x80 ? take16(input) : packed_available(at) | op >> 4);
            break;
        }
        case 2:
            offer_packed(guest, input, 1u + (op >> 3) % 4);
            break;
        case 3:
            guest->avail_index = op & 0x80 ? take_position(guest, input) : vblk_virtqueue_popped_index(guest->vq);
            if (op & 0x40)
                begin_again(machine, take16(input) | (uint32_t)take16(input) << 16);
            break;
        case 4:
            pop(machine);
            break;
        case 5:
            push(machine, op >> 3);
            break;
        case 6:
            packed_set_driver_event(guest, op >> 3, take16(input));
            (void)vblk_virtqueue_should_interrupt(guest->vq);
            break;
        case 7:
            notifications(machine, op & 8);
            break;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    static struct guest guest; /* once: making memory is dear, and it is cleared for each input */
    struct input input = { bytes, bytes + size_bytes };
    struct machine machine = { .guest = &guest };
    uint8_t format = take8(&input), bits = take8(&input);
    bool packed = format & 0x80;
    uint16_t size = (uint16_t)(1u << (format & 0x7f) % 11);
    if (packed)
        size -= take8(&input) * size / 512;
    machine.features = (bits & 1 ? GUEST_F_INDIRECT : 0) | (bits & 2 ? GUEST_F_EVENT_IDX : 0) |
                       (packed ? GUEST_F_PACKED : 0);
    if (!guest.map)
        guest_init(&guest, 1, 0, 0);
    guest_restart(&guest, size, machine.features,
                  packed ? (uint16_t)(take16(&input) % size | (bits & 4 ? 0x8000 : 0)) : take16(&input));
    if (packed)
        run_packed(&machine, &input);
    else
        run_split(&machine, &input);
    while (machine.held_count)
        push(&machine, 0);
    vblk_virtqueue_publish(guest.vq);
    return 0;
}
