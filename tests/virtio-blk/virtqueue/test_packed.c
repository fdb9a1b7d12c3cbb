/*
 * Goal:   a packed ring is served as VIRTIO 1.2, 2.8 has it, whatever its size and wherever it begins, and a driver that
 *         breaks it is found out, whatever it does.
 * Method: a driver in the test writes descriptors byte for byte; each element that comes out and each used descriptor is
 *         compared with what went in; each broken ring must give its own reason and leave the process alone.
 * Broken: a guest with packed rings reads or writes memory that is not its own, hangs, or loses its place after a stop.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/virtio_ring.h>
#include <signal.h>

#include "expect.h"
#include "guest.h"
#include "packed_guest.h"

#define NEXT VRING_DESC_F_NEXT
#define WRITE VRING_DESC_F_WRITE
#define INDIRECT VRING_DESC_F_INDIRECT
#define TABLE (GUEST_DATA + 0x20000)
#define BEGIN 0x8000 /* position 0, wrap counter 1 */

static void offer_one(struct guest *guest, uint16_t id)
{
    packed_offer(guest, (struct packed_part[]){ { GUEST_DATA, 1, 0 } }, 1, id);
}

static void assert_used(struct guest *guest, uint16_t at, uint16_t id, uint32_t size_bytes)
{
    uint16_t found_id = 0xffff;
    uint32_t found_bytes = 0;
    assert_true(packed_used(guest, at, &found_id, &found_bytes));
    assert_int_equal(found_id, id);
    assert_int_equal(found_bytes, size_bytes);
    /* The length counts only with this flag. */
    const struct vring_packed_desc *desc = guest_at(guest, GUEST_DESC);
    assert_int_equal(desc[at & 0x7fff].flags & WRITE, size_bytes ? WRITE : 0);
}

static void assert_not_used(struct guest *guest, uint16_t at)
{
    uint16_t id;
    uint32_t size_bytes;
    assert_false(packed_used(guest, at, &id, &size_bytes));
}

/* ---- legal drivers ---- */

static void a_chain_comes_out_as_it_went_in(void **state)
{
    /* Also where it goes on at the ring's begin, and in a turn with wrap counter 0. */
    const uint16_t bases[] = { BEGIN, BEGIN | 6, 6, 0 };
    for (unsigned i = 0; i < 4; i++) {
        struct guest guest;
        uint16_t base = bases[i];
        guest_init(&guest, 8, GUEST_F_PACKED, base);
        assert_false(vblk_virtqueue_pending(guest.vq));
        assert_empty(&guest);
        packed_offer(&guest,
                     (struct packed_part[]){ { GUEST_DATA, 16, 0 },
                                             { GUEST_DATA + 0x1000, 4096, WRITE },
                                             { GUEST_DATA + 0x3000, 1, WRITE } },
                     3, 5);
        assert_true(vblk_virtqueue_pending(guest.vq));
        assert_int_equal(vblk_virtqueue_popped_index(guest.vq), base);
        assert_int_equal(vblk_virtqueue_peek_avail_index(guest.vq), base + 1);
        struct vblk_element *element = pop_one(&guest);
        assert_int_equal(element->head, 5);
        assert_int_equal(element->out_count, 1);
        assert_int_equal(element->in_count, 2);
        assert_int_equal(element->out_bytes, 16);
        assert_int_equal(element->in_bytes, 4097);
        assert_ptr_equal(element->out[0].iov_base, guest_at(&guest, GUEST_DATA));
        assert_ptr_equal(element->in[0].iov_base, guest_at(&guest, GUEST_DATA + 0x1000));
        assert_int_equal(element->in[0].iov_len, 4096);
        assert_ptr_equal(element->in[1].iov_base, guest_at(&guest, GUEST_DATA + 0x3000));
        assert_empty(&guest);
        assert_int_equal(vblk_virtqueue_popped_index(guest.vq), guest.avail_index);
        assert_int_equal(vblk_virtqueue_peek_avail_index(guest.vq), guest.avail_index);
        assert_int_equal(vblk_virtqueue_used_index(guest.vq), base);
        assert_not_used(&guest, base);
        vblk_virtqueue_push(guest.vq, element, 4097);
        assert_used(&guest, base, 5, 4097);
        assert_not_used(&guest, packed_advance(&guest, base, 1));
        assert_int_equal(vblk_virtqueue_used_index(guest.vq), guest.avail_index);
        guest_deinit(&guest);
    }
}

static void queues_of_any_size_work(void **state)
{
    static const uint16_t sizes[] = { 1, 2, 3, 7, 100, 1000, 1023, VBLK_VIRTQUEUE_SIZE_MAX };
    for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct guest guest;
        struct vblk_element *held[VBLK_VIRTQUEUE_SIZE_MAX];
        uint16_t size = sizes[s], base = BEGIN | (size - 1);
        guest_init(&guest, size, GUEST_F_PACKED | GUEST_F_EVENT_IDX, base);
        for (unsigned round = 0; round < 7; round++) {
            for (unsigned i = 0; i < size; i++)
                offer_one(&guest, (uint16_t)(size - 1 - i));
            for (unsigned i = 0; i < size; i++)
                held[i] = pop_one(&guest);
            assert_empty(&guest);
            /* In another order than they came: each takes the next place, not its own. */
            for (unsigned i = size; i-- > 0;) {
                uint16_t at = vblk_virtqueue_used_index(guest.vq), id = held[i]->head;
                assert_int_equal(at, packed_advance(&guest, base, round * size + (size - 1 - i)));
                vblk_virtqueue_push(guest.vq, held[i], 0);
                assert_used(&guest, at, id, 0);
            }
            assert_int_equal(vblk_virtqueue_used_index(guest.vq), guest.avail_index);
        }
        guest_deinit(&guest);
    }
}

static void a_chain_may_use_the_whole_ring(void **state)
{
    struct guest guest;
    struct packed_part parts[255];
    guest_init(&guest, 255, GUEST_F_PACKED, 17);
    for (unsigned i = 0; i < 255; i++)
        parts[i] = (struct packed_part){ GUEST_DATA + i * 16, 16, i >= 100 ? WRITE : 0 };
    for (unsigned round = 0; round < 3; round++) {
        packed_offer(&guest, parts, 255, 254);
        struct vblk_element *element = pop_one(&guest);
        assert_int_equal(element->out_count, 100);
        assert_int_equal(element->in_count, 155);
        for (unsigned i = 0; i < 255; i++)
            assert_ptr_equal(element->out[i].iov_base, guest_at(&guest, GUEST_DATA + i * 16));
        uint16_t at = vblk_virtqueue_used_index(guest.vq);
        vblk_virtqueue_push(guest.vq, element, 1);
        assert_used(&guest, at, 254, 1);
        assert_int_equal(vblk_virtqueue_used_index(guest.vq), guest.avail_index);
    }
    guest_deinit(&guest);
}

static void buffers_may_be_split_anywhere(void **state)
{
    struct guest guest;
    struct packed_part parts[20];
    guest_init(&guest, 32, GUEST_F_PACKED, BEGIN | 20);
    /* A header of 16 descriptors, data across two regions, a status. */
    for (unsigned i = 0; i < 16; i++)
        parts[i] = (struct packed_part){ GUEST_DATA + i * 100, 1, 0 };
    parts[16] = (struct packed_part){ GUEST_HIGH - 100, 300, WRITE };
    parts[17] = (struct packed_part){ GUEST_HIGH - 1, 2, WRITE };
    packed_offer(&guest, parts, 18, 31);
    struct vblk_element *element = pop_one(&guest);
    assert_int_equal(element->out_count, 16);
    assert_int_equal(element->out_bytes, 16);
    assert_int_equal(element->in_count, 4);
    assert_int_equal(element->in_bytes, 302);
    assert_ptr_equal(element->in[0].iov_base, guest_at(&guest, GUEST_HIGH - 100));
    assert_int_equal(element->in[0].iov_len, 100);
    assert_ptr_equal(element->in[1].iov_base, guest_at(&guest, GUEST_HIGH));
    assert_int_equal(element->in[1].iov_len, 200);
    vblk_virtqueue_push(guest.vq, element, 302);
    assert_used(&guest, BEGIN | 20, 31, 302);
    guest_deinit(&guest);
}

static void an_indirect_table_is_followed(void **state)
{
    struct guest guest;
    guest_init(&guest, 4, GUEST_F_PACKED | GUEST_F_INDIRECT, BEGIN);
    /* Longer than the ring, after a plain descriptor; WRITE on the table means nothing, and in the table ids and all
     * flags but WRITE do not. */
    for (unsigned i = 0; i < 6; i++)
        packed_desc_at(&guest, TABLE, i, GUEST_DATA + 64 * (i + 1), i + 1, (uint16_t)(99 * i),
                       (i % 2 ? NEXT : packed_available((uint16_t)(i << 14))) | (i > 2 ? WRITE : 0));
    packed_offer(&guest,
                 (struct packed_part[]){ { GUEST_DATA, 16, 0 }, { TABLE, 6 * 16, INDIRECT | WRITE } }, 2, 2);
    struct vblk_element *element = pop_one(&guest);
    assert_int_equal(element->head, 2);
    assert_int_equal(element->out_count, 4);
    assert_int_equal(element->in_count, 3);
    assert_int_equal(element->out_bytes, 16 + 1 + 2 + 3);
    assert_int_equal(element->in_bytes, 4 + 5 + 6);
    assert_ptr_equal(element->in[2].iov_base, guest_at(&guest, GUEST_DATA + 64 * 6));
    vblk_virtqueue_push(guest.vq, element, 15);
    assert_used(&guest, BEGIN, 2, 15);
    assert_int_equal(vblk_virtqueue_used_index(guest.vq), BEGIN | 2); /* two entries of the ring */
    guest_deinit(&guest);
}

static void an_indirect_table_may_lie_anywhere(void **state)
{
    /* Unaligned, and across two regions in the middle of a descriptor. */
    const uint64_t places[] = { GUEST_DATA + 0x5003, GUEST_HIGH - 16 - 5 };
    for (unsigned p = 0; p < 2; p++) {
        struct guest guest;
        guest_init(&guest, 4, GUEST_F_PACKED | GUEST_F_INDIRECT, 0);
        struct vring_packed_desc table[3] = { { GUEST_DATA, 16, 0, 0 },
                                              { GUEST_DATA + 512, 512, 0, WRITE },
                                              { GUEST_DATA + 2048, 1, 0, WRITE } };
        for (size_t i = 0; i < sizeof table; i++)
            *(uint8_t *)guest_at(&guest, places[p] + i) = ((uint8_t *)table)[i];
        packed_offer(&guest, (struct packed_part[]){ { places[p], sizeof table, INDIRECT } }, 1, 0);
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
    struct vblk_element *held[VBLK_VIRTQUEUE_SIZE_MAX];
    unsigned first = 0, last = 0, most = 0;
    guest_init(&guest, VBLK_VIRTQUEUE_SIZE_MAX, GUEST_F_PACKED | GUEST_F_INDIRECT, BEGIN);
    for (unsigned i = 0; i < VBLK_VIRTQUEUE_CHAIN_MAX; i++)
        packed_desc_at(&guest, TABLE, i, GUEST_HIGH - 1, 2, 0, 0);
    for (unsigned i = 0; i < VBLK_VIRTQUEUE_SIZE_MAX; i++)
        packed_offer(&guest, (struct packed_part[]){ { TABLE, VBLK_VIRTQUEUE_CHAIN_MAX * 16, INDIRECT } }, 1,
                     (uint16_t)i);
    while (last < VBLK_VIRTQUEUE_SIZE_MAX) {
        int error = 0;
        const char *reason = NULL;
        held[last] = vblk_virtqueue_pop(guest.vq, &error, &reason);
        if (held[last]) {
            assert_int_equal(held[last]->head, last);
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

/* Random chains in a ring of a size that is no power of two, completions in random order; now and then the queue is
 * given up and made again where it stood. */
static void random_chains_come_out_right(void **state)
{
    enum { SIZE = 61, ROUNDS = 150000, LENGTH_MAX = 8 };
    unsigned seed = (unsigned)getpid(), free_entries = SIZE, free_count = SIZE, held_count = 0, made_again = 0;
    const uint64_t features = GUEST_F_PACKED | GUEST_F_INDIRECT | GUEST_F_EVENT_IDX;
    struct guest guest;
    struct {
        bool live;
        unsigned count, in_count, entries;
        struct packed_part parts[LENGTH_MAX];
    } chains[SIZE];
    uint16_t free_ids[SIZE], used = BEGIN | 60;
    struct vblk_element *held[SIZE];
    print_message("seed %u\n", seed);
    memset(chains, 0, sizeof chains);
    guest_init(&guest, SIZE, features, used);
    for (unsigned i = 0; i < SIZE; i++)
        free_ids[i] = (uint16_t)i;
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned what = (unsigned)rand_r(&seed) % 3;
        if (what == 0 && free_count && free_entries) {
            bool indirect = rand_r(&seed) % 2;
            unsigned most = indirect || free_entries > LENGTH_MAX ? LENGTH_MAX : free_entries;
            unsigned length = 1 + (unsigned)rand_r(&seed) % most;
            unsigned writable_from = (unsigned)rand_r(&seed) % (length + 1);
            uint16_t id = free_ids[--free_count];
            uint64_t table = TABLE + id * LENGTH_MAX * 16u;
            chains[id].live = true;
            chains[id].count = length;
            chains[id].in_count = length - writable_from;
            chains[id].entries = indirect ? 1 : length;
            for (unsigned i = 0; i < length; i++) {
                struct packed_part *part = &chains[id].parts[i];
                *part = (struct packed_part){ GUEST_DATA + (unsigned)rand_r(&seed) % 0x1000,
                                              1 + (uint32_t)rand_r(&seed) % 5000, i >= writable_from ? WRITE : 0 };
                if (indirect)
                    packed_desc_at(&guest, table, i, part->address, part->size_bytes, 0, part->flags);
            }
            if (indirect)
                packed_offer(&guest, (struct packed_part[]){ { table, length * 16, INDIRECT } }, 1, id);
            else
                packed_offer(&guest, chains[id].parts, length, id);
            free_entries -= chains[id].entries;
        } else if (what == 1) {
            struct vblk_element *element = pop(&guest);
            if (!element)
                continue;
            assert_true(chains[element->head].live);
            assert_int_equal(element->in_count, chains[element->head].in_count);
            assert_int_equal(element->in_count + element->out_count, chains[element->head].count);
            for (unsigned i = 0; i < chains[element->head].count; i++) {
                assert_ptr_equal(element->out[i].iov_base,
                                 guest_at(&guest, chains[element->head].parts[i].address));
                assert_int_equal(element->out[i].iov_len, chains[element->head].parts[i].size_bytes);
            }
            held[held_count++] = element;
        } else if (held_count) {
            unsigned pick = (unsigned)rand_r(&seed) % held_count;
            uint16_t id = held[pick]->head;
            uint32_t written = held[pick]->in_bytes ? (uint32_t)rand_r(&seed) % held[pick]->in_bytes : 0;
            vblk_virtqueue_push(guest.vq, held[pick], written);
            held[pick] = held[--held_count];
            assert_used(&guest, used, id, written);
            used = packed_advance(&guest, used, chains[id].entries);
            assert_int_equal(vblk_virtqueue_used_index(guest.vq), used);
            chains[id].live = false;
            free_ids[free_count++] = id;
            free_entries += chains[id].entries;
        } else {
            struct vblk_virtqueue_config config =
                guest_config(&guest, features, vblk_virtqueue_base(guest.vq));
            assert_int_equal(config.base, used | (uint32_t)used << 16);
            vblk_virtqueue_destroy(guest.vq);
            assert_int_equal(vblk_virtqueue_create(&config, guest.map, &guest.vq), 0);
            made_again++;
        }
    }
    assert_true(made_again > 100);
    while (held_count)
        vblk_virtqueue_push(guest.vq, held[--held_count], 0);
    guest_deinit(&guest);
}

/* ---- where a ring begins ---- */

static void a_queue_goes_on_where_it_was_told(void **state)
{
    struct guest guest;
    struct vblk_virtqueue *vq;
    guest_init(&guest, 7, GUEST_F_PACKED, BEGIN);
    /* Three chains that an earlier queue took and did not give back: not available, their entries not free, and their
     * used descriptors come before ours. */
    struct vblk_virtqueue_config config = guest_config(&guest, GUEST_F_PACKED, 1u | 0x8005u << 16);
    assert_int_equal(vblk_virtqueue_create(&config, guest.map, &vq), 0);
    vblk_virtqueue_destroy(guest.vq);
    guest.vq = vq;
    assert_int_equal(vblk_virtqueue_base(vq), config.base);
    packed_guest_clear(&guest, 1);
    assert_empty(&guest);
    for (uint16_t i = 0; i < 4; i++)
        offer_one(&guest, i);
    for (unsigned i = 0; i < 4; i++) {
        struct vblk_element *element = pop_one(&guest);
        if (i < 3)
            vblk_virtqueue_push(vq, element, 0);
        else
            vblk_virtqueue_discard(vq, element);
    }
    assert_used(&guest, 0x8005, 0, 0);
    assert_used(&guest, 0x8006, 1, 0);
    assert_used(&guest, 0, 2, 0);
    /* What was discarded is missing in the used position. */
    assert_int_equal(vblk_virtqueue_base(vq), 5 | 1u << 16);
    guest_deinit(&guest);
}

static void more_than_the_ring_has_cannot_be_out(void **state)
{
    struct guest guest;
    struct vblk_virtqueue *vq;
    guest_init(&guest, 7, GUEST_F_PACKED, BEGIN);
    struct vblk_virtqueue_config config = guest_config(&guest, GUEST_F_PACKED, 1u | 0x8005u << 16);
    assert_int_equal(vblk_virtqueue_create(&config, guest.map, &vq), 0);
    vblk_virtqueue_destroy(guest.vq);
    guest.vq = vq;
    packed_guest_clear(&guest, 1);
    struct vblk_element *held[4];
    for (uint16_t i = 0; i < 5; i++)
        offer_one(&guest, i);
    for (unsigned i = 0; i < 4; i++)
        held[i] = pop_one(&guest);
    assert_broken(&guest, "than the ring has");
    for (unsigned i = 0; i < 4; i++)
        vblk_virtqueue_push(vq, held[i], 0);
    guest_deinit(&guest);
}

static void rings_that_cannot_be_are_refused(void **state)
{
    struct guest guest;
    struct vblk_virtqueue *vq;
    guest_init(&guest, 10, GUEST_F_PACKED, BEGIN);
    const struct vblk_virtqueue_config good = guest_config(&guest, GUEST_F_PACKED, VBLK_VIRTQUEUE_BASE_PACKED);
    const uint64_t end = GUEST_FAR + GUEST_FAR_BYTES + GUEST_USER_OFFSET;
    const uint16_t sizes[] = { 0, 1025, 2048, 32768, 65535 };
    for (unsigned i = 0; i < 5; i++) {
        struct vblk_virtqueue_config config = good;
        config.size = sizes[i];
        assert_int_equal(vblk_virtqueue_create(&config, guest.map, &vq), -EINVAL);
    }
    /* A position beyond the ring; a used one that overtook the available one, or fell behind by more than a turn. */
    const struct {
        uint32_t base;
        int error;
    } bases[] = { { 0x800a8000, -EINVAL }, { 0x8000800a, -EINVAL }, { 0x8000ffff, -EINVAL }, { 0x80018000, -EINVAL },
                  { 0x00008000, 0 },       { 0x80000000, 0 },       { 0x80000001, -EINVAL }, { 0x80090008, 0 } };
    for (unsigned i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        struct vblk_virtqueue_config config = good;
        config.base = bases[i].base;
        assert_int_equal(vblk_virtqueue_create(&config, guest.map, &vq), bases[i].error);
        if (!bases[i].error)
            vblk_virtqueue_destroy(vq);
    }
    const struct {
        uint64_t desc, driver, device;
        int error;
    } places[] = {
        { good.desc_user + 8, good.avail_user, good.used_user, -EINVAL },
        { good.desc_user, good.avail_user + 2, good.used_user, -EINVAL },
        { good.desc_user, good.avail_user, good.used_user + 2, -EINVAL },
        { 0, good.avail_user, good.used_user, -EFAULT },
        { good.desc_user, UINT64_MAX - 3, good.used_user, -EFAULT },
        { end - 16 * 9, good.avail_user, good.used_user, -EFAULT },
        { good.desc_user, end, good.used_user, -EFAULT },
        { good.desc_user, good.avail_user, end - 2, -EFAULT },
        { end - 16 * 10, good.avail_user, good.used_user, 0 },
        { good.desc_user, end - 4, good.used_user, 0 },
        { good.desc_user, good.avail_user, end - 4, 0 },
    };
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct vblk_virtqueue_config config = good;
        config.desc_user = places[i].desc;
        config.avail_user = places[i].driver;
        config.used_user = places[i].device;
        assert_int_equal(vblk_virtqueue_create(&config, guest.map, &vq), places[i].error);
        if (!places[i].error)
            vblk_virtqueue_destroy(vq);
    }
    guest_deinit(&guest);
}

/* The driver sees none of a batch before it is published, or asked whether it wants an interrupt; then all, in order. */
static void a_batch_is_shown_at_once(void **state)
{
    struct guest guest;
    guest_init(&guest, 8, GUEST_F_PACKED, BEGIN);
    uint16_t used = BEGIN;
    for (unsigned how = 0; how < 3; how++) {
        for (uint16_t id = 0; id < 5; id++)
            offer_one(&guest, id);
        for (unsigned i = 0; i < 4; i++) {
            struct vblk_element *element = pop_one(&guest);
            assert_in_range(vblk_virtqueue_waiting(guest.vq), 1, 4 - i);
            vblk_virtqueue_push_unseen(guest.vq, element, 0);
        }
        assert_not_used(&guest, used); /* the one that a driver looks at next */
        if (how == 0)
            vblk_virtqueue_publish(guest.vq);
        else if (how == 1)
            assert_true(vblk_virtqueue_should_interrupt(guest.vq));
        vblk_virtqueue_push(guest.vq, pop_one(&guest), 0); /* shows what came before it, too */
        assert_int_equal(vblk_virtqueue_waiting(guest.vq), 0);
        for (uint16_t id = 0; id < 5; id++) {
            assert_used(&guest, used, id, 0);
            used = packed_advance(&guest, used, 1);
        }
    }
    guest_deinit(&guest);
}

/* ---- notification suppression ---- */

static void serve_one(struct guest *guest)
{
    offer_one(guest, 0);
    vblk_virtqueue_push(guest->vq, pop_one(guest), 0);
}

static void interrupts_follow_the_flags(void **state)
{
    for (unsigned event_idx = 0; event_idx < 2; event_idx++) {
        struct guest guest;
        guest_init(&guest, 5, GUEST_F_PACKED | (event_idx ? GUEST_F_EVENT_IDX : 0), BEGIN);
        for (unsigned i = 0; i < 12; i++) {
            packed_set_driver_event(&guest, i % 2 ? VRING_PACKED_EVENT_FLAG_DISABLE : VRING_PACKED_EVENT_FLAG_ENABLE,
                                    0);
            serve_one(&guest);
            assert_int_equal(vblk_virtqueue_should_interrupt(guest.vq), i % 2 == 0);
            assert_false(vblk_virtqueue_should_interrupt(guest.vq)); /* nothing was pushed since */
        }
        /* What means nothing (a position without EVENT_IDX, flags that do not exist) must not swallow one. */
        for (uint16_t flags = event_idx ? 3 : VRING_PACKED_EVENT_FLAG_DESC; flags < 5; flags++) {
            packed_set_driver_event(&guest, flags, 0x1234);
            serve_one(&guest);
            assert_true(vblk_virtqueue_should_interrupt(guest.vq));
        }
        guest_deinit(&guest);
    }
}

/* Each position of the event from a turn behind to a turn ahead, each batch, over several turns, for chains of one and
 * of several entries: yes exactly if an entry of the batch was the event's. */
static void interrupts_follow_the_event_position(void **state)
{
    static const struct packed_part parts[3] = { { GUEST_DATA, 1, 0 }, { GUEST_DATA, 1, 0 }, { GUEST_DATA, 1, 0 } };
    struct guest guest;
    guest_init(&guest, 11, GUEST_F_PACKED | GUEST_F_EVENT_IDX, BEGIN | 9);
    packed_set_driver_event(&guest, VRING_PACKED_EVENT_FLAG_DESC, 5);
    assert_true(vblk_virtqueue_should_interrupt(guest.vq)); /* nothing is known of the time before */
    for (unsigned length = 1; length <= 3; length++)
        for (unsigned batch = 1; batch * length < 11; batch++)
            for (unsigned event = 0; event < 22; event++) {
                uint16_t before = guest.avail_index, position = packed_advance(&guest, before, event);
                bool expected = event < batch * length;
                packed_set_driver_event(&guest, VRING_PACKED_EVENT_FLAG_DESC, position);
                for (unsigned i = 0; i < batch; i++) {
                    packed_offer(&guest, parts, length, (uint16_t)i);
                    vblk_virtqueue_push(guest.vq, pop_one(&guest), 0);
                }
                if (vblk_virtqueue_should_interrupt(guest.vq) != expected)
                    fail_msg("event %u entries ahead of %u chains of %u", event, batch, length);
            }
    /* More than a turn without a decision: surely. */
    packed_set_driver_event(&guest, VRING_PACKED_EVENT_FLAG_DESC, packed_advance(&guest, guest.avail_index, 21));
    for (unsigned i = 0; i < 12; i++)
        serve_one(&guest);
    assert_true(vblk_virtqueue_should_interrupt(guest.vq));
    guest_deinit(&guest);
}

static void kicks_follow_the_flags(void **state)
{
    struct guest guest;
    guest_init(&guest, 7, GUEST_F_PACKED, BEGIN);
    assert_true(vblk_virtqueue_notifications_enabled(guest.vq));
    assert_int_equal(packed_device_flags(&guest), VRING_PACKED_EVENT_FLAG_ENABLE);
    vblk_virtqueue_disable_notifications(guest.vq);
    assert_false(vblk_virtqueue_notifications_enabled(guest.vq));
    assert_int_equal(packed_device_flags(&guest), VRING_PACKED_EVENT_FLAG_DISABLE);
    assert_false(vblk_virtqueue_enable_notifications(guest.vq));
    assert_int_equal(packed_device_flags(&guest), VRING_PACKED_EVENT_FLAG_ENABLE);
    vblk_virtqueue_disable_notifications(guest.vq);
    offer_one(&guest, 0);
    assert_true(vblk_virtqueue_enable_notifications(guest.vq)); /* slipped in */
    vblk_virtqueue_push(guest.vq, pop_one(&guest), 0);
    guest_deinit(&guest);
}

static void kicks_follow_the_event_position(void **state)
{
    struct guest guest;
    guest_init(&guest, 7, GUEST_F_PACKED | GUEST_F_EVENT_IDX, 5);
    for (unsigned i = 0; i < 40; i++) {
        /* On, and found empty: whatever comes next must be kicked for, as often as we look. */
        assert_empty(&guest);
        offer_one(&guest, 0);
        assert_true(packed_need_kick(&guest, 1));
        vblk_virtqueue_push(guest.vq, pop_one(&guest), 0);
    }
    vblk_virtqueue_disable_notifications(guest.vq);
    for (unsigned i = 0; i < 100; i++) { /* also after turns of the ring */
        offer_one(&guest, 0);
        assert_false(packed_need_kick(&guest, 1));
        vblk_virtqueue_push(guest.vq, pop_one(&guest), 0);
        assert_empty(&guest);
    }
    offer_one(&guest, 0);
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

static void one(struct guest *guest, uint64_t address, uint32_t size_bytes, uint16_t flags)
{
    packed_offer(guest, (struct packed_part[]){ { address, size_bytes, flags } }, 1, 0);
}

static void id_out_of_range(struct guest *guest)
{
    offer_one(guest, 13);
}
static void id_huge(struct guest *guest)
{
    offer_one(guest, 0xffff);
}
static void chain_goes_round(struct guest *guest)
{
    for (unsigned i = 13; i-- > 0;) {
        uint16_t at = packed_advance(guest, guest->avail_index, i);
        packed_desc(guest, at, GUEST_DATA, 1, 0, NEXT | packed_available(at));
    }
}
static void chain_leaves_what_is_available(struct guest *guest)
{
    packed_desc(guest, guest->avail_index, GUEST_DATA, 1, 0, NEXT | packed_available(guest->avail_index));
}
static void chain_goes_on_in_the_wrong_turn(struct guest *guest)
{
    uint16_t second = packed_advance(guest, guest->avail_index, 1);
    packed_desc(guest, second, GUEST_DATA, 1, 0, packed_available(second ^ 0x8000));
    chain_leaves_what_is_available(guest);
}
static void chain_goes_on_in_a_used_one(struct guest *guest)
{
    uint16_t second = packed_advance(guest, guest->avail_index, 1);
    packed_desc(guest, second, GUEST_DATA, 1, 0, packed_available(0) | packed_available(0x8000));
    chain_leaves_what_is_available(guest);
}
static void address_outside(struct guest *guest)
{
    one(guest, GUEST_FAR + GUEST_FAR_BYTES, 1, 0);
}
static void address_below(struct guest *guest)
{
    one(guest, GUEST_LOW - 1, 2, 0);
}
static void address_wraps(struct guest *guest)
{
    one(guest, UINT64_MAX - 1, 512, 0);
}
static void length_leaves_memory(struct guest *guest)
{
    one(guest, GUEST_FAR + GUEST_FAR_BYTES - 1, 2, WRITE);
}
static void length_spans_a_hole(struct guest *guest)
{
    one(guest, GUEST_HIGH, GUEST_FAR - GUEST_HIGH + 1, WRITE);
}
static void length_huge(struct guest *guest)
{
    one(guest, GUEST_DATA, UINT32_MAX, WRITE);
}
static void length_zero(struct guest *guest)
{
    one(guest, GUEST_DATA, 0, 0);
}
static void readable_after_writable(struct guest *guest)
{
    packed_offer(guest, (struct packed_part[]){ { GUEST_DATA, 1, WRITE }, { GUEST_DATA, 1, 0 } }, 2, 0);
}
static void table(struct guest *guest, uint64_t address, uint32_t size_bytes, uint16_t flags)
{
    for (unsigned i = 0; i < 2; i++)
        packed_desc_at(guest, TABLE, i, GUEST_DATA, 1, 0, 0);
    one(guest, address, size_bytes, INDIRECT | flags);
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
    packed_desc_at(guest, TABLE, 0, TABLE, 16, 0, INDIRECT);
    one(guest, TABLE, 16, INDIRECT);
}
static void table_has_an_empty_buffer(struct guest *guest)
{
    /* Every descriptor of a packed table counts: one that is left out shows. */
    table(guest, TABLE, 48, 0);
}
static void table_too_long(struct guest *guest)
{
    for (unsigned i = 0; i <= VBLK_VIRTQUEUE_CHAIN_MAX; i++)
        packed_desc_at(guest, TABLE, i, GUEST_DATA, 1, 0, 0);
    one(guest, TABLE, (VBLK_VIRTQUEUE_CHAIN_MAX + 1) * 16, INDIRECT);
}
static void chain_in_too_many_pieces(struct guest *guest)
{
    for (unsigned i = 0; i < VBLK_VIRTQUEUE_CHAIN_MAX; i++)
        packed_desc_at(guest, TABLE, i, GUEST_HIGH - 1, 2, 0, 0);
    packed_offer(guest,
                 (struct packed_part[]){ { GUEST_DATA, 1, 0 }, { TABLE, VBLK_VIRTQUEUE_CHAIN_MAX * 16, INDIRECT } },
                 2, 0);
}

static void hostile_drivers_are_found_out(void **state)
{
    static const struct hostile cases[] = {
        { "id is out of range", 0, id_out_of_range },
        { "id is out of range", 0, id_huge },
        { "longer than the ring", 0, chain_goes_round },
        { "not available", 0, chain_leaves_what_is_available },
        { "not available", 0, chain_goes_on_in_the_wrong_turn },
        { "not available", 0, chain_goes_on_in_a_used_one },
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
        { "length 0", GUEST_F_INDIRECT, table_has_an_empty_buffer },
        { "too long", GUEST_F_INDIRECT, table_too_long },
        { "too many pieces", GUEST_F_INDIRECT, chain_in_too_many_pieces },
    };
    static const uint16_t bases[] = { BEGIN, BEGIN | 12, 0, 12 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (unsigned b = 0; b < 4; b++) {
            struct guest guest;
            guest_init(&guest, 13, GUEST_F_PACKED | cases[i].features, bases[b]);
            cases[i].write(&guest);
            assert_broken(&guest, cases[i].reason);
            guest_deinit(&guest);
        }
    struct guest guest; /* the base of the table cases is legal where it is negotiated */
    guest_init(&guest, 13, GUEST_F_PACKED | GUEST_F_INDIRECT, 0);
    table_good(&guest);
    vblk_virtqueue_push(guest.vq, pop_one(&guest), 0);
    guest_deinit(&guest);
}

static void an_id_in_use_cannot_come_again(void **state)
{
    struct guest guest;
    guest_init(&guest, 16, GUEST_F_PACKED, BEGIN);
    offer_one(&guest, 3);
    struct vblk_element *element = pop_one(&guest);
    offer_one(&guest, 3);
    assert_broken(&guest, "in use");
    vblk_virtqueue_push(guest.vq, element, 0); /* what is in flight still comes back */
    assert_used(&guest, BEGIN, 3, 0);
    guest_deinit(&guest);
}

static void a_ring_cannot_be_overfilled(void **state)
{
    struct guest guest;
    struct vblk_element *held[4];
    guest_init(&guest, 4, GUEST_F_PACKED, BEGIN);
    for (uint16_t i = 0; i < 4; i++)
        offer_one(&guest, i);
    for (unsigned i = 0; i < 4; i++)
        held[i] = pop_one(&guest);
    offer_one(&guest, 0); /* over a descriptor that is not used yet */
    assert_broken(&guest, "more descriptors are available");
    for (unsigned i = 0; i < 4; i++)
        vblk_virtqueue_push(guest.vq, held[i], 0);
    guest_deinit(&guest);
}

static struct sigaction ours;

static void truncated_memory_breaks_the_queue(void **state)
{
    struct guest guest;
    guest_init(&guest, 16, GUEST_F_PACKED, BEGIN);
    offer_one(&guest, 0);
    struct vblk_element *element = pop_one(&guest);
    sigaction(SIGBUS, &ours, NULL);
    assert_int_equal(ftruncate(guest.fds[0], 0), 0);
    assert_broken_by(&guest, -EFAULT, "truncated");
    vblk_virtqueue_push(guest.vq, element, 0);
    guest_deinit(&guest);
}

int main(void)
{
    struct guest guest;
    /* Installs the SIGBUS handler, which cmocka replaces by its own for each test. */
    guest_init(&guest, 16, GUEST_F_PACKED, BEGIN);
    guest_deinit(&guest);
    sigaction(SIGBUS, NULL, &ours);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_comes_out_as_it_went_in),
        cmocka_unit_test(queues_of_any_size_work),
        cmocka_unit_test(a_chain_may_use_the_whole_ring),
        cmocka_unit_test(buffers_may_be_split_anywhere),
        cmocka_unit_test(an_indirect_table_is_followed),
        cmocka_unit_test(an_indirect_table_may_lie_anywhere),
        cmocka_unit_test(long_chains_have_a_budget_and_none_is_lost),
        cmocka_unit_test(random_chains_come_out_right),
        cmocka_unit_test(a_queue_goes_on_where_it_was_told),
        cmocka_unit_test(more_than_the_ring_has_cannot_be_out),
        cmocka_unit_test(rings_that_cannot_be_are_refused),
        cmocka_unit_test(a_batch_is_shown_at_once),
        cmocka_unit_test(interrupts_follow_the_flags),
        cmocka_unit_test(interrupts_follow_the_event_position),
        cmocka_unit_test(kicks_follow_the_flags),
        cmocka_unit_test(kicks_follow_the_event_position),
        cmocka_unit_test(hostile_drivers_are_found_out),
        cmocka_unit_test(an_id_in_use_cannot_come_again),
        cmocka_unit_test(a_ring_cannot_be_overfilled),
        cmocka_unit_test(truncated_memory_breaks_the_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
