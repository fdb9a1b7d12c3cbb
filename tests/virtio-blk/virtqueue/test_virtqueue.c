/*
 * Goal:   a split ring is served as VIRTIO 1.2, 2.7 has it, and a driver that breaks it is found out, whatever it
 *         does.
 * Method: a driver in the test writes rings and descriptors byte for byte; each element that comes out is compared
 *         with what went in; each broken ring must give its own reason and leave the process alone.
 * Broken: a guest reads or writes memory that is not its own, a queue hangs, or a legal driver is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/virtio_ring.h>
#include <signal.h>

#include "expect.h"
#include "guest.h"

#define NEXT VRING_DESC_F_NEXT
#define WRITE VRING_DESC_F_WRITE
#define INDIRECT VRING_DESC_F_INDIRECT
#define TABLE (GUEST_DATA + 0x20000)

/* ---- legal drivers ---- */

static void a_chain_comes_out_as_it_went_in(void **state)
{
    struct guest guest;
    guest_init(&guest, 8, 0, 0);
    assert_false(vblk_virtqueue_pending(guest.vq));
    assert_empty(&guest);
    guest_desc(&guest, 3, GUEST_DATA, 16, NEXT, 5);
    guest_desc(&guest, 5, GUEST_DATA + 0x1000, 4096, NEXT | WRITE, 0);
    guest_desc(&guest, 0, GUEST_DATA + 0x3000, 1, WRITE, 7);
    guest_offer(&guest, 3);
    assert_true(vblk_virtqueue_pending(guest.vq));
    struct vblk_element *element = pop_one(&guest);
    assert_int_equal(element->head, 3);
    assert_int_equal(element->out_count, 1);
    assert_int_equal(element->in_count, 2);
    assert_int_equal(element->out_bytes, 16);
    assert_int_equal(element->in_bytes, 4097);
    assert_ptr_equal(element->out[0].iov_base, guest_at(&guest, GUEST_DATA));
    assert_ptr_equal(element->in[0].iov_base, guest_at(&guest, GUEST_DATA + 0x1000));
    assert_int_equal(element->in[0].iov_len, 4096);
    assert_ptr_equal(element->in[1].iov_base, guest_at(&guest, GUEST_DATA + 0x3000));
    assert_int_equal(element->in[1].iov_len, 1);
    assert_empty(&guest);
    assert_int_equal(vblk_virtqueue_popped_index(guest.vq), 1);
    assert_int_equal(guest_used_index(&guest), 0);
    vblk_virtqueue_push(guest.vq, element, 4097);
    assert_int_equal(guest_used_index(&guest), 1);
    assert_int_equal(vblk_virtqueue_used_index(guest.vq), 1);
    assert_int_equal(guest_used_head(&guest, 0), 3);
    assert_int_equal(guest_used_bytes(&guest, 0), 4097);
    guest_deinit(&guest);
}

static void a_chain_may_use_the_whole_table(void **state)
{
    struct guest guest;
    guest_init(&guest, 256, 0, 0);
    for (unsigned i = 0; i < 256; i++)
        guest_desc(&guest, i, GUEST_DATA + i * 16, 16, (i < 255 ? NEXT : 0) | (i >= 100 ? WRITE : 0), i + 1);
    guest_offer(&guest, 0);
    struct vblk_element *element = pop_one(&guest);
    assert_int_equal(element->out_count, 100);
    assert_int_equal(element->in_count, 156);
    for (unsigned i = 0; i < 256; i++)
        assert_ptr_equal(element->out[i].iov_base, guest_at(&guest, GUEST_DATA + i * 16));
    vblk_virtqueue_push(guest.vq, element, 0);
    guest_deinit(&guest);
}

static void the_smallest_and_the_largest_queue_work(void **state)
{
    const uint16_t sizes[] = { 1, 2, VBLK_VIRTQUEUE_SIZE_MAX };
    for (unsigned s = 0; s < 3; s++) {
        struct guest guest;
        guest_init(&guest, sizes[s], GUEST_F_EVENT_IDX, 65530);
        for (unsigned round = 0; round < 40; round++) {
            struct vblk_element *held[VBLK_VIRTQUEUE_SIZE_MAX];
            for (unsigned i = 0; i < sizes[s]; i++) {
                guest_desc(&guest, i, GUEST_DATA + i, 1, 0, 0);
                guest_offer(&guest, (uint16_t)i);
            }
            for (unsigned i = 0; i < sizes[s]; i++)
                held[i] = pop_one(&guest);
            assert_empty(&guest);
            for (unsigned i = sizes[s]; i-- > 0;)
                vblk_virtqueue_push(guest.vq, held[i], 0);
            assert_int_equal(guest_used_index(&guest), guest.avail_index);
        }
        guest_deinit(&guest);
    }
}

static void buffers_may_cross_adjacent_regions(void **state)
{
    struct guest guest;
    guest_init(&guest, 8, 0, 0);
    guest_desc(&guest, 0, GUEST_HIGH - 100, 300, NEXT, 1);
    guest_desc(&guest, 1, GUEST_HIGH - 1, 2, WRITE, 0);
    guest_offer(&guest, 0);
    struct vblk_element *element = pop_one(&guest);
    assert_int_equal(element->out_count, 2);
    assert_int_equal(element->out_bytes, 300);
    assert_ptr_equal(element->out[0].iov_base, guest_at(&guest, GUEST_HIGH - 100));
    assert_int_equal(element->out[0].iov_len, 100);
    assert_ptr_equal(element->out[1].iov_base, guest_at(&guest, GUEST_HIGH));
    assert_int_equal(element->out[1].iov_len, 200);
    assert_int_equal(element->in_count, 2);
    assert_int_equal(element->in_bytes, 2);
    vblk_virtqueue_push(guest.vq, element, 2);
    guest_deinit(&guest);
}

static void an_indirect_table_is_followed(void **state)
{
    struct guest guest;
    guest_init(&guest, 4, GUEST_F_INDIRECT, 0);
    /* Longer than the queue, in an order of its own, after a plain descriptor; WRITE on the table means
     * nothing. */
    guest_desc(&guest, 2, GUEST_DATA, 16, NEXT, 1);
    guest_desc(&guest, 1, TABLE, 6 * 16, INDIRECT | WRITE, 0);
    const unsigned order[6] = { 0, 5, 2, 4, 1, 3 };
    for (unsigned i = 0; i < 6; i++)
        guest_desc_at(&guest, TABLE, order[i], GUEST_DATA + 64 * (i + 1), i + 1,
                      (i < 5 ? NEXT : 0) | (i > 2 ? WRITE : 0), i < 5 ? order[i + 1] : 0);
    guest_offer(&guest, 2);
    struct vblk_element *element = pop_one(&guest);
    assert_int_equal(element->head, 2);
    assert_int_equal(element->out_count, 4);
    assert_int_equal(element->in_count, 3);
    assert_int_equal(element->out_bytes, 16 + 1 + 2 + 3);
    assert_int_equal(element->in_bytes, 4 + 5 + 6);
    assert_ptr_equal(element->in[2].iov_base, guest_at(&guest, GUEST_DATA + 64 * 6));
    vblk_virtqueue_push(guest.vq, element, 15);
    guest_deinit(&guest);
}

static void an_indirect_table_may_lie_anywhere(void **state)
{
    /* Unaligned, and across two regions in the middle of a descriptor. */
    const uint64_t places[] = { GUEST_DATA + 0x5003, GUEST_HIGH - 16 - 5 };
    for (unsigned p = 0; p < 2; p++) {
        struct guest guest;
        guest_init(&guest, 4, GUEST_F_INDIRECT, 0);
        struct vring_desc table[3] = { { GUEST_DATA, 16, NEXT, 1 },
                                       { GUEST_DATA + 512, 512, NEXT | WRITE, 2 },
                                       { GUEST_DATA + 2048, 1, WRITE, 0 } };
        for (size_t i = 0; i < sizeof table; i++)
            *(uint8_t *)guest_at(&guest, places[p] + i) = ((uint8_t *)table)[i];
        guest_desc(&guest, 0, places[p], sizeof table, INDIRECT, 0);
        guest_offer(&guest, 0);
        struct vblk_element *element = pop_one(&guest);
        assert_int_equal(element->out_bytes, 16);
        assert_int_equal(element->in_bytes, 513);
        assert_ptr_equal(element->in[1].iov_base, guest_at(&guest, GUEST_DATA + 2048));
        vblk_virtqueue_push(guest.vq, element, 513);
        guest_deinit(&guest);
    }
}

static void long_chains_have_a_budget_and_none_is_lost(void **state)
{
    struct guest guest;
    guest_init(&guest, VBLK_VIRTQUEUE_SIZE_MAX, GUEST_F_INDIRECT, 0);
    struct vblk_element *held[VBLK_VIRTQUEUE_SIZE_MAX];
    for (unsigned i = 0; i < VBLK_VIRTQUEUE_CHAIN_MAX; i++)
        guest_desc_at(&guest, TABLE, i, GUEST_HIGH - 1, 2, i + 1 < VBLK_VIRTQUEUE_CHAIN_MAX ? NEXT : 0,
                      i + 1);
    for (unsigned i = 0; i < VBLK_VIRTQUEUE_SIZE_MAX; i++) {
        guest_desc(&guest, i, TABLE, VBLK_VIRTQUEUE_CHAIN_MAX * 16, INDIRECT, 0);
        guest_offer(&guest, (uint16_t)i);
    }
    unsigned first = 0, last = 0, most = 0;
    while (last < VBLK_VIRTQUEUE_SIZE_MAX) {
        int error = 0;
        const char *reason = NULL;
        held[last] = vblk_virtqueue_pop(guest.vq, &error, &reason);
        if (held[last]) {
            assert_int_equal(held[last]->head, last);
            assert_int_equal(held[last]->out_count, VBLK_VIRTQUEUE_IOV_MAX);
            last++;
            most = last - first > most ? last - first : most;
        } else {
            assert_int_equal(error, -ENOMEM);
            assert_true(first < last);
            vblk_virtqueue_push(guest.vq, held[first++], 0);
        }
    }
    assert_int_equal(most, VBLK_VIRTQUEUE_IOV_BUDGET / VBLK_VIRTQUEUE_IOV_MAX);
    while (first < last)
        vblk_virtqueue_push(guest.vq, held[first++], 0);
    guest_deinit(&guest);
}

/* A driver with its own list of free descriptors, random chains, and completions in random order. */
static void random_chains_come_out_right(void **state)
{
    enum { SIZE = 64, ROUNDS = 150000 };
    unsigned seed = (unsigned)getpid();
    print_message("seed %u\n", seed);
    struct guest guest;
    guest_init(&guest, SIZE, GUEST_F_INDIRECT | GUEST_F_EVENT_IDX, 65000);
    uint16_t free_list[SIZE];
    unsigned free_count = SIZE;
    struct {
        bool live;
        uint16_t indexes[SIZE];
        unsigned count, in_count;
        uint64_t addresses[SIZE];
        uint32_t sizes[SIZE];
    } chains[SIZE];
    memset(chains, 0, sizeof chains);
    struct vblk_element *held[SIZE];
    unsigned held_count = 0;
    uint16_t used_seen = 65000;
    for (unsigned i = 0; i < SIZE; i++)
        free_list[i] = (uint16_t)i;
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned what = (unsigned)rand_r(&seed) % 3;
        if (what == 0 && free_count) {
            bool indirect = rand_r(&seed) % 2;
            unsigned length = 1 + (unsigned)rand_r(&seed) % (indirect ? 16 : free_count < 8 ? free_count : 8);
            uint16_t head = free_list[free_count - 1];
            unsigned writable_from = (unsigned)rand_r(&seed) % (length + 1);
            uint64_t table = TABLE + head * 16 * 16;
            chains[head].live = true;
            chains[head].count = length;
            chains[head].in_count = length - writable_from;
            for (unsigned i = 0; i < length; i++) {
                uint64_t address = GUEST_DATA + (unsigned)rand_r(&seed) % 0x1000;
                uint32_t size = 1 + (uint32_t)rand_r(&seed) % 5000;
                uint16_t flags = (i + 1 < length ? NEXT : 0) | (i >= writable_from ? WRITE : 0);
                if (!indirect || i == 0)
                    chains[head].indexes[i] = free_list[--free_count];
                chains[head].addresses[i] = address;
                chains[head].sizes[i] = size;
                if (indirect)
                    guest_desc_at(&guest, table, i, address, size, flags, i + 1);
                else
                    guest_desc(&guest, chains[head].indexes[i], address, size, flags,
                               i + 1 < length ? free_list[free_count - 1] : 0xffff);
            }
            if (indirect)
                guest_desc(&guest, head, table, length * 16, INDIRECT, 0);
            chains[head].indexes[SIZE - 1] = (uint16_t)(indirect ? 1 : length);
            guest_offer(&guest, head);
        } else if (what == 1) {
            struct vblk_element *element = pop(&guest);
            if (!element)
                continue;
            assert_true(chains[element->head].live);
            assert_int_equal(element->in_count, chains[element->head].in_count);
            assert_int_equal(element->in_count + element->out_count, chains[element->head].count);
            for (unsigned i = 0; i < chains[element->head].count; i++) {
                assert_ptr_equal(element->out[i].iov_base,
                                 guest_at(&guest, chains[element->head].addresses[i]));
                assert_int_equal(element->out[i].iov_len, chains[element->head].sizes[i]);
            }
            held[held_count++] = element;
        } else if (held_count) {
            unsigned pick = (unsigned)rand_r(&seed) % held_count;
            uint16_t head = held[pick]->head;
            uint32_t written = held[pick]->in_bytes ? (uint32_t)rand_r(&seed) % held[pick]->in_bytes : 0;
            vblk_virtqueue_push(guest.vq, held[pick], written);
            held[pick] = held[--held_count];
            assert_int_equal(guest_used_index(&guest), (uint16_t)(used_seen + 1));
            assert_int_equal(guest_used_head(&guest, used_seen), head);
            assert_int_equal(guest_used_bytes(&guest, used_seen), written);
            used_seen++;
            chains[head].live = false;
            for (unsigned i = 0; i < chains[head].indexes[SIZE - 1]; i++)
                free_list[free_count++] = chains[head].indexes[i];
        }
    }
    while (held_count)
        vblk_virtqueue_push(guest.vq, held[--held_count], 0);
    guest_deinit(&guest);
}

/* ---- notification suppression ---- */

/* The driver sees none of a batch before it is published, or asked whether it wants an interrupt; then all, in order. */
static void a_batch_is_shown_at_once(void **state)
{
    struct guest guest;
    guest_init(&guest, 8, 0, 65533);
    uint16_t used = 65533;
    for (unsigned how = 0; how < 3; how++) {
        for (uint16_t head = 0; head < 5; head++) {
            guest_desc(&guest, head, GUEST_DATA, 1, VRING_DESC_F_WRITE, 0);
            guest_offer(&guest, head);
        }
        for (unsigned i = 0; i < 4; i++) {
            struct vblk_element *element = pop_one(&guest);
            assert_int_equal(vblk_virtqueue_waiting(guest.vq), 4 - i);
            vblk_virtqueue_push_unseen(guest.vq, element, i % 2);
        }
        assert_int_equal(guest_used_index(&guest), used);
        if (how == 0)
            vblk_virtqueue_publish(guest.vq);
        else if (how == 1)
            assert_true(vblk_virtqueue_should_interrupt(guest.vq));
        vblk_virtqueue_push(guest.vq, pop_one(&guest), 0); /* shows what came before it, too */
        assert_int_equal(guest_used_index(&guest), (uint16_t)(used + 5));
        for (uint16_t i = 0; i < 5; i++) {
            assert_int_equal(guest_used_head(&guest, used + i), i);
            assert_int_equal(guest_used_bytes(&guest, used + i), i < 4 ? i % 2 : 0);
        }
        used += 5;
    }
    guest_deinit(&guest);
}

static void interrupts_follow_the_flags(void **state)
{
    struct guest guest;
    guest_init(&guest, 8, 0, 0);
    guest_desc(&guest, 0, GUEST_DATA, 1, 0, 0);
    for (unsigned i = 0; i < 4; i++) {
        guest_set_avail_flags(&guest, i % 2 ? VRING_AVAIL_F_NO_INTERRUPT : 0);
        guest_offer(&guest, 0);
        vblk_virtqueue_push(guest.vq, pop_one(&guest), 0);
        assert_int_equal(vblk_virtqueue_should_interrupt(guest.vq), i % 2 == 0);
        assert_false(vblk_virtqueue_should_interrupt(guest.vq)); /* nothing was pushed since */
    }
    guest_deinit(&guest);
}

/* Each distance of the event from the used index, each batch, across the wrap: as the specification's
 * formula. */
static void interrupts_follow_the_event_index(void **state)
{
    struct guest guest;
    guest_init(&guest, 16, GUEST_F_EVENT_IDX, 65535 - 100);
    guest_desc(&guest, 0, GUEST_DATA, 1, 0, 0);
    guest_set_used_event(&guest, 0x4000);
    assert_true(vblk_virtqueue_should_interrupt(guest.vq)); /* nothing is known of the time before */
    uint16_t used = 65535 - 100;
    for (unsigned batch = 1; batch <= 4; batch++) {
        for (int distance = -6; distance <= 6; distance++) {
            uint16_t event = (uint16_t)(used + distance);
            guest_set_used_event(&guest, event);
            for (unsigned i = 0; i < batch; i++) {
                guest_offer(&guest, 0);
                vblk_virtqueue_push(guest.vq, pop_one(&guest), 0);
            }
            bool expected = distance >= 0 && distance < (int)batch;
            assert_int_equal(vblk_virtqueue_should_interrupt(guest.vq), expected);
            assert_int_equal(guest_need_event(event, (uint16_t)(used + batch), used), expected);
            used += batch;
        }
    }
    guest_set_used_event(&guest, used + 0x7fff);
    for (unsigned i = 0; i < 65536 + 5; i++) {
        guest_offer(&guest, 0);
        vblk_virtqueue_push(guest.vq, pop_one(&guest), 0);
    }
    assert_true(vblk_virtqueue_should_interrupt(guest.vq)); /* once around the circle: surely passed */
    guest_deinit(&guest);
}

static void kicks_follow_the_flags(void **state)
{
    struct guest guest;
    guest_init(&guest, 8, 0, 0);
    assert_true(vblk_virtqueue_notifications_enabled(guest.vq));
    assert_int_equal(guest_used_flags(&guest), 0);
    vblk_virtqueue_disable_notifications(guest.vq);
    assert_false(vblk_virtqueue_notifications_enabled(guest.vq));
    assert_int_equal(guest_used_flags(&guest), VRING_USED_F_NO_NOTIFY);
    assert_false(vblk_virtqueue_enable_notifications(guest.vq));
    assert_int_equal(guest_used_flags(&guest), 0);
    vblk_virtqueue_disable_notifications(guest.vq);
    guest_desc(&guest, 0, GUEST_DATA, 1, 0, 0);
    guest_offer(&guest, 0);
    assert_true(vblk_virtqueue_enable_notifications(guest.vq)); /* slipped in */
    vblk_virtqueue_push(guest.vq, pop_one(&guest), 0);
    guest_deinit(&guest);
}

static void kicks_follow_the_event_index(void **state)
{
    struct guest guest;
    guest_init(&guest, 16, GUEST_F_EVENT_IDX, 65530);
    guest_desc(&guest, 0, GUEST_DATA, 1, 0, 0);
    for (unsigned i = 0; i < 20; i++) {
        /* On, and found empty: whatever comes next must be kicked for, as often as we look. */
        assert_empty(&guest);
        uint16_t before = guest.avail_index;
        guest_offer(&guest, 0);
        assert_true(guest_need_event(guest_avail_event(&guest), guest.avail_index, before));
        vblk_virtqueue_push(guest.vq, pop_one(&guest), 0);
    }
    vblk_virtqueue_disable_notifications(guest.vq);
    assert_int_equal(guest_used_flags(&guest), 0);
    for (unsigned i = 0; i < 1000; i++) {
        uint16_t before = guest.avail_index;
        guest_offer(&guest, 0);
        assert_false(guest_need_event(guest_avail_event(&guest), guest.avail_index, before));
        vblk_virtqueue_push(guest.vq, pop_one(&guest), 0);
        assert_empty(&guest);
    }
    guest_offer(&guest, 0);
    assert_true(vblk_virtqueue_enable_notifications(guest.vq));
    vblk_virtqueue_push(guest.vq, pop_one(&guest), 0);
    assert_false(vblk_virtqueue_enable_notifications(guest.vq));
    guest_deinit(&guest);
}

/* ---- hostile drivers ---- */

struct hostile {
    const char *reason;
    uint64_t features;
    void (*write)(struct guest *guest);
};

static void head_out_of_range(struct guest *guest)
{
    guest_offer(guest, 16);
}
static void head_huge(struct guest *guest)
{
    guest_offer(guest, 0xffff);
}
static void index_jumps(struct guest *guest)
{
    guest_set_avail_index(guest, guest->avail_index + 17);
}
static void index_goes_back(struct guest *guest)
{
    guest_set_avail_index(guest, guest->avail_index - 1);
}
static void chain_loops(struct guest *guest)
{
    guest_desc(guest, 0, GUEST_DATA, 1, NEXT, 1);
    guest_desc(guest, 1, GUEST_DATA, 1, NEXT, 0);
    guest_offer(guest, 0);
}
static void chain_loops_in_itself(struct guest *guest)
{
    guest_desc(guest, 3, GUEST_DATA, 1, NEXT, 3);
    guest_offer(guest, 3);
}
static void next_out_of_range(struct guest *guest)
{
    guest_desc(guest, 0, GUEST_DATA, 1, NEXT, 16);
    guest_offer(guest, 0);
}
static void address_outside(struct guest *guest)
{
    guest_desc(guest, 0, GUEST_FAR + GUEST_FAR_BYTES, 1, 0, 0);
    guest_offer(guest, 0);
}
static void address_below(struct guest *guest)
{
    guest_desc(guest, 0, GUEST_LOW - 1, 2, 0, 0);
    guest_offer(guest, 0);
}
static void address_wraps(struct guest *guest)
{
    guest_desc(guest, 0, UINT64_MAX - 1, 512, 0, 0);
    guest_offer(guest, 0);
}
static void length_leaves_memory(struct guest *guest)
{
    guest_desc(guest, 0, GUEST_FAR + GUEST_FAR_BYTES - 1, 2, WRITE, 0);
    guest_offer(guest, 0);
}
static void length_spans_a_hole(struct guest *guest)
{
    guest_desc(guest, 0, GUEST_HIGH, GUEST_FAR - GUEST_HIGH + 1, WRITE, 0);
    guest_offer(guest, 0);
}
static void length_huge(struct guest *guest)
{
    guest_desc(guest, 0, GUEST_DATA, UINT32_MAX, WRITE, 0);
    guest_offer(guest, 0);
}
static void length_zero(struct guest *guest)
{
    guest_desc(guest, 0, GUEST_DATA, 0, 0, 0);
    guest_offer(guest, 0);
}
static void readable_after_writable(struct guest *guest)
{
    guest_desc(guest, 0, GUEST_DATA, 1, WRITE | NEXT, 1);
    guest_desc(guest, 1, GUEST_DATA, 1, 0, 0);
    guest_offer(guest, 0);
}
static void table(struct guest *guest, uint64_t address, uint32_t size_bytes, uint16_t flags)
{
    guest_desc(guest, 0, address, size_bytes, INDIRECT | flags, 1);
    guest_desc(guest, 1, GUEST_DATA, 1, 0, 0);
    guest_desc_at(guest, TABLE, 0, GUEST_DATA, 1, 0, 0);
    guest_offer(guest, 0);
}
static void table_good(struct guest *guest)
{
    table(guest, TABLE, 32, 0);
}
static void table_with_next(struct guest *guest)
{
    table(guest, TABLE, 32, NEXT);
}
static void table_odd(struct guest *guest)
{
    table(guest, TABLE, 33, 0);
}
static void table_short(struct guest *guest)
{
    table(guest, TABLE, 15, 0);
}
static void table_empty(struct guest *guest)
{
    table(guest, TABLE, 0, 0);
}
static void table_outside(struct guest *guest)
{
    table(guest, 0x1000, 32, 0);
}
static void table_ends_outside(struct guest *guest)
{
    guest_desc_at(guest, GUEST_FAR + GUEST_FAR_BYTES - 16, 0, GUEST_DATA, 1, 0, 0);
    table(guest, GUEST_FAR + GUEST_FAR_BYTES - 16, 32, 0);
}
static void table_huge(struct guest *guest)
{
    table(guest, TABLE, UINT32_MAX - 15, 0);
}
static void table_wraps(struct guest *guest)
{
    table(guest, UINT64_MAX - 15, 32, 0);
}
static void table_nested(struct guest *guest)
{
    guest_desc_at(guest, TABLE, 0, TABLE, 32, INDIRECT, 0);
    guest_desc(guest, 0, TABLE, 32, INDIRECT, 0);
    guest_offer(guest, 0);
}
static void table_loops(struct guest *guest)
{
    guest_desc_at(guest, TABLE, 0, GUEST_DATA, 1, NEXT, 1);
    guest_desc_at(guest, TABLE, 1, GUEST_DATA, 1, NEXT, 0);
    guest_desc(guest, 0, TABLE, 32, INDIRECT, 0);
    guest_offer(guest, 0);
}
static void table_left(struct guest *guest)
{
    guest_desc_at(guest, TABLE, 0, GUEST_DATA, 1, NEXT, 2);
    guest_desc(guest, 0, TABLE, 32, INDIRECT, 0);
    guest_offer(guest, 0);
}
static void table_too_long(struct guest *guest)
{
    for (unsigned i = 0; i <= VBLK_VIRTQUEUE_CHAIN_MAX; i++)
        guest_desc_at(guest, TABLE, i, GUEST_DATA, 1, NEXT, i + 1);
    guest_desc(guest, 0, TABLE, 2 * VBLK_VIRTQUEUE_CHAIN_MAX * 16, INDIRECT, 0);
    guest_offer(guest, 0);
}
static void chain_in_too_many_pieces(struct guest *guest)
{
    guest_desc(guest, 0, GUEST_DATA, 1, NEXT, 1);
    guest_desc(guest, 1, TABLE, VBLK_VIRTQUEUE_CHAIN_MAX * 16, INDIRECT, 0);
    for (unsigned i = 0; i < VBLK_VIRTQUEUE_CHAIN_MAX; i++)
        guest_desc_at(guest, TABLE, i, GUEST_HIGH - 1, 2, NEXT, i + 1);
    guest_offer(guest, 0);
}

static void hostile_drivers_are_found_out(void **state)
{
    static const struct hostile cases[] = {
        { "head is out of range", 0, head_out_of_range },
        { "head is out of range", 0, head_huge },
        { "moved by more", 0, index_jumps },
        { "moved by more", GUEST_F_EVENT_IDX, index_jumps },
        { "moved by more", 0, index_goes_back },
        { "chain loops", 0, chain_loops },
        { "chain loops", 0, chain_loops_in_itself },
        { "next one is out of range", 0, next_out_of_range },
        { "outside guest memory", 0, address_outside },
        { "outside guest memory", 0, address_below },
        { "outside guest memory", 0, address_wraps },
        { "outside guest memory", 0, length_leaves_memory },
        { "outside guest memory", 0, length_spans_a_hole },
        { "outside guest memory", 0, length_huge },
        { "length 0", 0, length_zero },
        { "readable descriptor follows", 0, readable_after_writable },
        { "not negotiated", 0, table_good },
        { "has a next one", GUEST_F_INDIRECT, table_with_next },
        { "multiple of 16", GUEST_F_INDIRECT, table_odd },
        { "multiple of 16", GUEST_F_INDIRECT, table_short },
        { "multiple of 16", GUEST_F_INDIRECT, table_empty },
        { "outside guest memory", GUEST_F_INDIRECT, table_outside },
        { "outside guest memory", GUEST_F_INDIRECT, table_ends_outside },
        { "outside guest memory", GUEST_F_INDIRECT, table_huge },
        { "outside guest memory", GUEST_F_INDIRECT, table_wraps },
        { "nested", GUEST_F_INDIRECT, table_nested },
        { "table's chain loops", GUEST_F_INDIRECT, table_loops },
        { "leaves the table", GUEST_F_INDIRECT, table_left },
        { "too long", GUEST_F_INDIRECT, table_too_long },
        { "too many pieces", GUEST_F_INDIRECT, chain_in_too_many_pieces },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct guest guest;
        guest_init(&guest, 16, cases[i].features, (uint16_t)(i % 2 ? 65535 : 0));
        cases[i].write(&guest);
        assert_broken(&guest, cases[i].reason);
        guest_deinit(&guest);
    }
    struct guest guest; /* the base of the table cases is legal where it is negotiated */
    guest_init(&guest, 16, GUEST_F_INDIRECT, 0);
    table_good(&guest);
    vblk_virtqueue_push(guest.vq, pop_one(&guest), 0);
    guest_deinit(&guest);
}

static void a_chain_of_4_gib_is_refused(void **state)
{
    /* One region of 2 GiB, of which nothing is touched. */
    int fd = memfd_create("large", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, INT64_C(2) << 30), 0);
    struct vhost_user_memory_region region = { 0, UINT64_C(2) << 30, 0, 0 };
    struct vhost_user_memory_map *map;
    const char *reason;
    unsigned at;
    assert_int_equal(vhost_user_memory_map_create(&region, &fd, 1, &map, &reason, &at), 0);
    struct vblk_virtqueue_config config = {
        .size = 4, .desc_user = 0, .avail_user = 0x1000, .used_user = 0x2000
    };
    struct vring_desc *desc = vhost_user_memory_map_user(map, 0, 4096);
    uint16_t *avail = vhost_user_memory_map_user(map, 0x1000, 4096);
    for (unsigned i = 0; i < 2; i++) {
        struct vblk_virtqueue *vq;
        int error = 0;
        config.base = avail[1];
        assert_int_equal(vblk_virtqueue_create(&config, map, &vq), 0);
        desc[0] = (struct vring_desc){ 0, 1U << 31, NEXT | WRITE, 1 };
        desc[1] = (struct vring_desc){ 0, (1U << 31) - (i ? 0 : 1), WRITE, 0 };
        avail[1]++;
        struct vblk_element *element = vblk_virtqueue_pop(vq, &error, &reason);
        if (i == 0) {
            assert_non_null(element);
            assert_int_equal(element->in_bytes, UINT32_MAX);
            vblk_virtqueue_push(vq, element, UINT32_MAX);
        } else {
            assert_null(element);
            assert_int_equal(error, -EPROTO);
            assert_non_null(strstr(reason, "4 GiB"));
        }
        vblk_virtqueue_destroy(vq);
    }
    vhost_user_memory_map_unref(map);
    close(fd);
}

static void a_head_in_use_cannot_come_again(void **state)
{
    struct guest guest;
    guest_init(&guest, 16, 0, 0);
    guest_desc(&guest, 0, GUEST_DATA, 1, 0, 0);
    guest_offer(&guest, 0);
    struct vblk_element *element = pop_one(&guest);
    guest_offer(&guest, 0);
    assert_broken(&guest, "in use");
    vblk_virtqueue_push(guest.vq, element, 0); /* what is in flight still comes back */
    assert_int_equal(guest_used_index(&guest), 1);
    guest_deinit(&guest);
}

static void a_discarded_chain_breaks_the_queue(void **state)
{
    struct guest guest;
    guest_init(&guest, 16, 0, 0);
    for (unsigned i = 0; i < 2; i++) {
        guest_desc(&guest, i, GUEST_DATA, 1, 0, 0);
        guest_offer(&guest, (uint16_t)i);
    }
    struct vblk_element *kept = pop_one(&guest), *dropped = pop_one(&guest);
    vblk_virtqueue_discard(guest.vq, dropped);
    assert_broken(&guest, "before");
    vblk_virtqueue_push(guest.vq, kept, 0);
    assert_int_equal(guest_used_index(&guest), 1);
    assert_int_equal(guest_used_head(&guest, 0), 0);
    guest_deinit(&guest); /* which asserts that none is out */
}

static struct sigaction ours;

static void truncated_memory_breaks_the_queue(void **state)
{
    struct guest guest;
    guest_init(&guest, 16, 0, 0);
    guest_desc(&guest, 0, GUEST_DATA, 1, 0, 0);
    guest_offer(&guest, 0);
    struct vblk_element *element = pop_one(&guest);
    sigaction(SIGBUS, &ours, NULL);
    assert_int_equal(ftruncate(guest.fds[0], 0), 0);
    assert_broken_by(&guest, -EFAULT, "truncated");
    vblk_virtqueue_push(guest.vq, element, 0);
    guest_deinit(&guest);
}

static void rings_that_cannot_be_are_refused(void **state)
{
    struct guest guest;
    guest_init(&guest, 16, 0, 0);
    const struct vblk_virtqueue_config good = { .size = 16,
                                                .desc_user = GUEST_DESC + GUEST_USER_OFFSET,
                                                .avail_user = GUEST_AVAIL + GUEST_USER_OFFSET,
                                                .used_user = GUEST_USED + GUEST_USER_OFFSET };
    const uint64_t end = GUEST_FAR + GUEST_FAR_BYTES + GUEST_USER_OFFSET;
    struct vblk_virtqueue *vq;
    const uint16_t sizes[] = { 0, 3, 15, 2048, 32768, 65535 };
    for (unsigned i = 0; i < 6; i++) {
        struct vblk_virtqueue_config config = good;
        config.size = sizes[i];
        assert_int_equal(vblk_virtqueue_create(&config, guest.map, &vq), -EINVAL);
    }
    const struct {
        uint64_t desc, avail, used;
        int error;
    } places[] = {
        { good.desc_user + 8, good.avail_user, good.used_user, -EINVAL },
        { good.desc_user, good.avail_user + 1, good.used_user, -EINVAL },
        { good.desc_user, good.avail_user, good.used_user + 2, -EINVAL },
        { 0, good.avail_user, good.used_user, -EFAULT },
        { good.desc_user, UINT64_MAX - 3, good.used_user, -EFAULT },
        { end - 16 * 15, good.avail_user, good.used_user, -EFAULT },
        { good.desc_user, end - 4 - 2 * 15, good.used_user, -EFAULT },
        { good.desc_user, good.avail_user, end - 4 - 8 * 15, -EFAULT },
        /* The last that fits, without event fields; with them it does not. */
        { good.desc_user, good.avail_user, end - 4 - 8 * 16, 0 },
    };
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct vblk_virtqueue_config config = good;
        config.desc_user = places[i].desc;
        config.avail_user = places[i].avail;
        config.used_user = places[i].used;
        assert_int_equal(vblk_virtqueue_create(&config, guest.map, &vq), places[i].error);
        if (!places[i].error) {
            vblk_virtqueue_destroy(vq);
            config.features = GUEST_F_EVENT_IDX;
            assert_int_equal(vblk_virtqueue_create(&config, guest.map, &vq), -EFAULT);
        }
    }
    guest_deinit(&guest);
}

int main(void)
{
    struct guest guest;
    /* Installs the SIGBUS handler, which cmocka replaces by its own for each test. */
    guest_init(&guest, 16, 0, 0);
    guest_deinit(&guest);
    sigaction(SIGBUS, NULL, &ours);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_comes_out_as_it_went_in),
        cmocka_unit_test(a_chain_may_use_the_whole_table),
        cmocka_unit_test(the_smallest_and_the_largest_queue_work),
        cmocka_unit_test(buffers_may_cross_adjacent_regions),
        cmocka_unit_test(an_indirect_table_is_followed),
        cmocka_unit_test(an_indirect_table_may_lie_anywhere),
        cmocka_unit_test(long_chains_have_a_budget_and_none_is_lost),
        cmocka_unit_test(random_chains_come_out_right),
        cmocka_unit_test(a_batch_is_shown_at_once),
        cmocka_unit_test(interrupts_follow_the_flags),
        cmocka_unit_test(interrupts_follow_the_event_index),
        cmocka_unit_test(kicks_follow_the_flags),
        cmocka_unit_test(kicks_follow_the_event_index),
        cmocka_unit_test(hostile_drivers_are_found_out),
        cmocka_unit_test(a_chain_of_4_gib_is_refused),
        cmocka_unit_test(a_head_in_use_cannot_come_again),
        cmocka_unit_test(a_discarded_chain_breaks_the_queue),
        cmocka_unit_test(truncated_memory_breaks_the_queue),
        cmocka_unit_test(rings_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
