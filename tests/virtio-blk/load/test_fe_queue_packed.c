/*
 * Goal: a packed ring holds exactly the slot's header, data and status, a batch becomes visible at once, kicks and
 *       interrupts are asked for at the right moment over many turns of the ring, and a server that lies is refused.
 * Method: play the server's side of the ring by hand, one step at a time; rings of odd sizes, with tables and without.
 * If it fails: the load generator corrupts data, hangs, or blames the server wrongly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fe_queue.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define GUEST 0x100000000ull
#define WRAP 0x8000u
#define AVAIL (1u << VRING_PACKED_DESC_F_AVAIL)
#define USED (1u << VRING_PACKED_DESC_F_USED)

struct fixture {
    struct fe_queue queue;
    uint8_t *memory;
    uint16_t used_at; /* where the server completes next */
};

static const struct fe_queue_layout small = { .size = 13,
                                              .slot_count = 4,
                                              .slot_bytes = 8192,
                                              .packed = true,
                                              .indirect = true,
                                              .event_idx = true };

static void setup(struct fixture *fixture, struct fe_queue_layout layout)
{
    fixture->memory = aligned_alloc(4096, fe_queue_memory_bytes(&layout));
    memset(fixture->memory, 0, fe_queue_memory_bytes(&layout));
    fe_queue_init(&fixture->queue, &layout, fixture->memory, GUEST);
    fixture->queue.kick_fd = eventfd(0, EFD_NONBLOCK);
    fixture->queue.call_fd = eventfd(0, 0);
    fixture->used_at = WRAP;
}

static void teardown(struct fixture *fixture)
{
    close(fixture->queue.kick_fd);
    close(fixture->queue.call_fd);
    fe_queue_deinit(&fixture->queue);
    free(fixture->memory);
}

static uint16_t next(const struct fixture *fixture, uint16_t at, unsigned count)
{
    for (; count > 0; count--) {
        at++;
        if ((at & ~WRAP) == fixture->queue.layout.size)
            at = (at & WRAP) ^ WRAP;
    }
    return at;
}

static struct vring_packed_desc *desc_at(struct fixture *fixture, uint16_t at)
{
    return &fixture->queue.packed_desc[at & ~WRAP];
}

static bool is_available(struct fixture *fixture, uint16_t at)
{
    return (desc_at(fixture, at)->flags & (AVAIL | USED)) == (at & WRAP ? AVAIL : USED);
}

/* The server's side: complete a buffer whose chain had so many entries. */
static void complete(struct fixture *fixture, uint16_t id, uint32_t length, unsigned entries)
{
    struct vring_packed_desc *desc = desc_at(fixture, fixture->used_at);
    desc->id = id;
    desc->len = length;
    desc->flags = fixture->used_at & WRAP ? AVAIL | USED : 0;
    fixture->used_at = next(fixture, fixture->used_at, entries);
}

static uint16_t issue(struct fixture *fixture)
{
    uint16_t slot = fe_queue_take(&fixture->queue);
    fe_queue_prepare(&fixture->queue, slot, VIRTIO_BLK_T_IN, slot, 512, FE_FROM_DEVICE);
    fe_queue_submit(&fixture->queue, slot);
    return slot;
}

static bool kicked(struct fixture *fixture)
{
    eventfd_t count;
    return eventfd_read(fixture->queue.kick_fd, &count) == 0;
}

static void assert_desc(const struct vring_packed_desc *desc, uint64_t addr, uint32_t len, uint16_t flags)
{
    assert_int_equal(desc->addr, addr);
    assert_int_equal(desc->len, len);
    assert_int_equal(desc->flags, flags);
}

static void test_a_table_describes_the_request(void **state)
{
    struct fixture f;
    struct fe_queue_layout layout = small;
    layout.segment_bytes = 4096;
    setup(&f, layout);
    uint16_t slot = fe_queue_take(&f.queue);
    struct fe_slot *s = &f.queue.slots[slot];
    fe_queue_prepare(&f.queue, slot, VIRTIO_BLK_T_OUT, 77, 5120, FE_TO_DEVICE);
    fe_queue_submit(&f.queue, slot);
    fe_queue_publish(&f.queue);
    const struct vring_packed_desc *head = desc_at(&f, WRAP);
    assert_int_equal(head->flags, VRING_DESC_F_INDIRECT | AVAIL);
    assert_int_equal(head->id, slot);
    assert_int_equal(head->len, 4 * sizeof(*head));
    const struct vring_packed_desc *table = (const void *)(f.memory + (head->addr - GUEST));
    assert_desc(&table[0], fe_queue_guest_addr(&f.queue, s->header), 16, 0);
    assert_desc(&table[1], fe_queue_guest_addr(&f.queue, s->data), 4096, 0);
    assert_desc(&table[2], fe_queue_guest_addr(&f.queue, s->data + 4096), 1024, 0);
    assert_desc(&table[3], fe_queue_guest_addr(&f.queue, s->status), 1, VRING_DESC_F_WRITE);
    assert_false(is_available(&f, WRAP | 1));
    teardown(&f);
}

/* Chains of three in a ring of 13: each turn begins elsewhere in a chain, and after the first turn what lies in the ring
 * is left over from the one before. */
static void test_chains_in_the_ring_wrap_around(void **state)
{
    struct fixture f;
    uint16_t slots[4], at = WRAP;
    struct fe_queue_layout layout = small;
    layout.indirect = false;
    assert_int_equal(fe_queue_slots_max(&layout), 4);
    setup(&f, layout);
    for (unsigned round = 0; round < 100; round++) {
        uint16_t issued[4];
        for (unsigned i = 0; i < 4; i++) {
            issued[i] = issue(&f);
            assert_false(is_available(&f, at)); /* the batch's first one is not shown yet */
        }
        fe_queue_publish(&f.queue);
        for (unsigned i = 0; i < 4; i++) {
            const struct fe_slot *s = &f.queue.slots[issued[i]];
            const void *parts[3] = { s->header, s->data, s->status };
            const uint32_t sizes[3] = { 16, 512, 1 };
            const uint16_t flags[3] = { VRING_DESC_F_NEXT, VRING_DESC_F_NEXT | VRING_DESC_F_WRITE,
                                        VRING_DESC_F_WRITE };
            for (unsigned k = 0; k < 3; k++, at = next(&f, at, 1)) {
                assert_true(is_available(&f, at));
                assert_desc(desc_at(&f, at), fe_queue_guest_addr(&f.queue, parts[k]), sizes[k],
                            flags[k] | (at & WRAP ? AVAIL : USED));
            }
            assert_int_equal(desc_at(&f, next(&f, at, 25))->id, issued[i]); /* the entry before */
        }
        assert_false(is_available(&f, at));
        /* In another order than issued. */
        const unsigned order[4] = { 2, 0, 3, 1 };
        for (unsigned i = 0; i < 4; i++) {
            complete(&f, issued[order[i]], 513, 3);
            assert_int_equal(fe_queue_base(&f.queue), f.used_at | (uint32_t)f.used_at << 16);
        }
        assert_int_equal(fe_queue_reap(&f.queue, slots, 4), 4);
        for (unsigned i = 0; i < 4; i++) {
            assert_int_equal(slots[i], issued[order[i]]);
            fe_queue_give(&f.queue, slots[i]);
        }
        assert_int_equal(f.queue.last_used, at);
        assert_int_equal(fe_queue_base(&f.queue), at | (uint32_t)at << 16);
    }
    assert_int_equal(f.queue.used_length_wrong_count, 0);
    teardown(&f);
}

/* Each distance of the event from what is next, in two turns: a kick exactly if it lies in the batch. */
static void test_kicks_follow_the_event(void **state)
{
    struct fixture f;
    uint16_t slots[4];
    setup(&f, small);
    for (unsigned round = 0; round < 5; round++)
        for (unsigned batch = 1; batch <= 4; batch++)
            for (unsigned ahead = 0; ahead < 26; ahead++) {
                f.queue.device_event->off_wrap = next(&f, f.queue.avail_next, ahead);
                f.queue.device_event->flags = VRING_PACKED_EVENT_FLAG_DESC;
                for (unsigned i = 0; i < batch; i++)
                    issue(&f);
                assert_int_equal(fe_queue_publish(&f.queue), ahead < batch);
                assert_int_equal(kicked(&f), ahead < batch);
                assert_false(fe_queue_publish(&f.queue)); /* nothing new */
                for (unsigned i = 0; i < 4; i++)
                    if (f.queue.slots[i].in_flight)
                        complete(&f, i, 513, 1);
                assert_int_equal(fe_queue_reap(&f.queue, slots, 4), batch);
                for (unsigned i = 0; i < batch; i++)
                    fe_queue_give(&f.queue, slots[i]);
            }
    teardown(&f);
}

static void test_kicks_follow_the_flags(void **state)
{
    static const struct {
        uint16_t flags;
        bool event_idx, kick;
    } cases[] = {
        { VRING_PACKED_EVENT_FLAG_ENABLE, true, true },   { VRING_PACKED_EVENT_FLAG_DISABLE, true, false },
        { VRING_PACKED_EVENT_FLAG_ENABLE, false, true },  { VRING_PACKED_EVENT_FLAG_DISABLE, false, false },
        { VRING_PACKED_EVENT_FLAG_DESC, false, true },
    };
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct fixture f;
        struct fe_queue_layout layout = small;
        layout.event_idx = cases[i].event_idx;
        setup(&f, layout);
        f.queue.device_event->flags = cases[i].flags;
        f.queue.device_event->off_wrap = 5;
        issue(&f);
        assert_int_equal(fe_queue_publish(&f.queue), cases[i].kick);
        teardown(&f);
    }
}

static void test_arm_sees_what_completed_before(void **state)
{
    for (unsigned event_idx = 0; event_idx < 2; event_idx++) {
        struct fixture f;
        struct fe_queue_layout layout = small;
        uint16_t slots[4];
        layout.event_idx = event_idx;
        setup(&f, layout);
        for (unsigned i = 0; i < 40; i++) {
            uint16_t slot = issue(&f);
            fe_queue_publish(&f.queue);
            assert_false(fe_queue_arm(&f.queue));
            assert_int_equal(f.queue.driver_event->flags,
                             event_idx ? VRING_PACKED_EVENT_FLAG_DESC : VRING_PACKED_EVENT_FLAG_ENABLE);
            assert_int_equal(f.queue.driver_event->off_wrap, f.used_at);
            complete(&f, slot, 513, 1);
            assert_true(fe_queue_arm(&f.queue));
            assert_int_equal(fe_queue_wait(&f.queue), 0); /* returns at once, no interrupt came */
            assert_int_equal(f.queue.driver_event->flags, VRING_PACKED_EVENT_FLAG_DISABLE);
            assert_int_equal(fe_queue_reap(&f.queue, slots, 4), 1);
            fe_queue_give(&f.queue, slot);
        }
        fe_queue_suppress(&f.queue);
        assert_int_equal(f.queue.driver_event->flags, VRING_PACKED_EVENT_FLAG_DISABLE);
        teardown(&f);
    }
}

static void test_lies_in_used_descriptors(void **state)
{
    static const struct {
        uint16_t ids[2];
        unsigned count;
        const char *words;
    } lies[] = {
        { { 99 }, 1, "does not exist" },
        { { 4 }, 1, "does not exist" }, /* in the ring's range, but no slot's */
        { { 3 }, 1, "not in flight" },
        { { 0, 0 }, 2, "not in flight" }, /* one request twice */
    };
    for (unsigned i = 0; i < G_N_ELEMENTS(lies); i++) {
        struct fixture f;
        uint16_t slots[8];
        setup(&f, small);
        issue(&f);
        issue(&f);
        fe_queue_publish(&f.queue);
        for (unsigned k = 0; k < lies[i].count; k++)
            complete(&f, lies[i].ids[k], 1, 1);
        (void)fe_queue_base(&f.queue); /* goes no further than it may */
        assert_int_equal(fe_queue_reap(&f.queue, slots, 8), -EPROTO);
        if (!strstr(f.queue.broken, lies[i].words))
            fail_msg("'%s' does not say '%s'", f.queue.broken, lies[i].words);
        teardown(&f);
    }
}

static void test_used_length_beyond_the_request_is_counted(void **state)
{
    struct fixture f;
    uint16_t slots[4];
    setup(&f, small);
    issue(&f);
    issue(&f);
    fe_queue_publish(&f.queue);
    complete(&f, 0, 513, 1);
    complete(&f, 1, 514, 1);
    assert_int_equal(fe_queue_reap(&f.queue, slots, 1), 1); /* no more than asked for */
    assert_int_equal(fe_queue_reap(&f.queue, slots, 4), 1);
    assert_int_equal(f.queue.used_length_wrong_count, 1);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_table_describes_the_request),
        cmocka_unit_test(test_chains_in_the_ring_wrap_around),
        cmocka_unit_test(test_kicks_follow_the_event),
        cmocka_unit_test(test_kicks_follow_the_flags),
        cmocka_unit_test(test_arm_sees_what_completed_before),
        cmocka_unit_test(test_lies_in_used_descriptors),
        cmocka_unit_test(test_used_length_beyond_the_request_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
