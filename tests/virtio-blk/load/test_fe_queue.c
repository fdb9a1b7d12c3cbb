/*
 * Goal: chains describe exactly the slot's header, data and status; kicks and interrupts are asked for at the right
 *       moment across index wrap-around; a used ring that lies is refused.
 * Method: play the server's side of the ring by hand, one step at a time.
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
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define GUEST 0x100000000ull

struct fixture {
    struct fe_queue queue;
    uint8_t *memory;
};

static void setup(struct fixture *fixture, struct fe_queue_layout layout)
{
    fixture->memory = aligned_alloc(4096, fe_queue_memory_bytes(&layout));
    memset(fixture->memory, 0, fe_queue_memory_bytes(&layout));
    fe_queue_init(&fixture->queue, &layout, fixture->memory, GUEST);
    fixture->queue.kick_fd = eventfd(0, EFD_NONBLOCK);
    fixture->queue.call_fd = eventfd(0, 0);
}

static void teardown(struct fixture *fixture)
{
    close(fixture->queue.kick_fd);
    close(fixture->queue.call_fd);
    fe_queue_deinit(&fixture->queue);
    free(fixture->memory);
}

static const struct fe_queue_layout small = {
    .size = 16, .slot_count = 4, .slot_bytes = 8192, .indirect = true, .event_idx = true
};

static void *at(struct fixture *fixture, uint64_t guest_addr)
{
    return fixture->memory + (guest_addr - GUEST);
}

/* The server's side: complete a head. */
static void complete(struct fixture *fixture, uint32_t head, uint32_t length)
{
    struct vring_used *used = fixture->queue.used;
    used->ring[used->idx % fixture->queue.layout.size] = (struct vring_used_elem){ head, length };
    used->idx++;
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

static void assert_desc(const struct vring_desc *desc, uint64_t addr, uint32_t len, uint16_t flags)
{
    assert_int_equal(desc->addr, addr);
    assert_int_equal(desc->len, len);
    assert_int_equal(desc->flags, flags);
}

static void test_indirect_chain(void **state)
{
    struct fixture f;
    struct fe_queue_layout layout = small;
    layout.segment_bytes = 4096;
    setup(&f, layout);
    uint16_t slot = fe_queue_take(&f.queue);
    struct fe_slot *s = &f.queue.slots[slot];
    fe_queue_prepare(&f.queue, slot, VIRTIO_BLK_T_OUT, 77, 5120, FE_TO_DEVICE);
    assert_int_equal(s->header->type, VIRTIO_BLK_T_OUT);
    assert_int_equal(s->header->sector, 77);
    assert_int_equal(*s->status, 0xff);
    const struct vring_desc *head = &f.queue.desc[s->head];
    assert_int_equal(head->flags, VRING_DESC_F_INDIRECT);
    assert_int_equal(head->len, 4 * sizeof(struct vring_desc));
    const struct vring_desc *table = at(&f, head->addr);
    assert_desc(&table[0], fe_queue_guest_addr(&f.queue, s->header), 16, VRING_DESC_F_NEXT);
    assert_desc(&table[1], fe_queue_guest_addr(&f.queue, s->data), 4096, VRING_DESC_F_NEXT);
    assert_desc(&table[2], fe_queue_guest_addr(&f.queue, s->data + 4096), 1024, VRING_DESC_F_NEXT);
    assert_desc(&table[3], fe_queue_guest_addr(&f.queue, s->status), 1, VRING_DESC_F_WRITE);
    assert_int_equal(table[2].next, 3);

    /* The same slot as a read, then as a flush: everything that changes is changed. */
    fe_queue_prepare(&f.queue, slot, VIRTIO_BLK_T_IN, 78, 512, FE_FROM_DEVICE);
    assert_desc(&table[1], fe_queue_guest_addr(&f.queue, s->data), 512,
                VRING_DESC_F_NEXT | VRING_DESC_F_WRITE);
    assert_int_equal(head->len, 3 * sizeof(struct vring_desc));
    fe_queue_prepare(&f.queue, slot, VIRTIO_BLK_T_FLUSH, 0, 0, FE_TO_DEVICE);
    assert_desc(&table[1], fe_queue_guest_addr(&f.queue, s->status), 1, VRING_DESC_F_WRITE);
    assert_int_equal(head->len, 2 * sizeof(struct vring_desc));
    teardown(&f);
}

static void test_direct_chains_do_not_overlap(void **state)
{
    struct fixture f;
    struct fe_queue_layout layout = small;
    layout.indirect = false;
    assert_int_equal(fe_queue_slots_max(&layout), 5); /* 16 entries, three a request */
    setup(&f, layout);
    bool taken[16] = { false };
    for (unsigned i = 0; i < 4; i++) {
        uint16_t slot = issue(&f);
        uint16_t at_desc = f.queue.slots[slot].head;
        for (unsigned length = 1;; length++) {
            assert_true(at_desc < 16 && !taken[at_desc]);
            taken[at_desc] = true;
            if (!(f.queue.desc[at_desc].flags & VRING_DESC_F_NEXT)) {
                assert_int_equal(length, 3);
                break;
            }
            at_desc = f.queue.desc[at_desc].next;
        }
    }
    teardown(&f);
}

static void test_slots_max(void **state)
{
    struct fe_queue_layout layout = small;
    assert_int_equal(fe_queue_slots_max(&layout), 16);
    layout.segment_bytes = 512; /* 16 segments and two: longer than the queue */
    assert_int_equal(fe_queue_slots_max(&layout), 0);
    layout.size = 32;
    assert_int_equal(fe_queue_slots_max(&layout), 32);
    layout.indirect = false;
    assert_int_equal(fe_queue_slots_max(&layout), 1);
}

static void test_kick_only_when_asked_for_across_wrap_around(void **state)
{
    for (unsigned event_idx = 0; event_idx < 2; event_idx++) {
        struct fixture f;
        struct fe_queue_layout layout = small;
        layout.event_idx = event_idx;
        setup(&f, layout);
        uint16_t slots[4];
        for (unsigned i = 0; i < 70000; i++) {
            bool want = i % 3 == 0;
            /* A server that wants no event points far away; one that does, at what comes next. */
            if (event_idx)
                *f.queue.avail_event = want ? f.queue.avail_next : f.queue.avail_next - 1;
            else
                f.queue.used->flags = want ? 0 : VRING_USED_F_NO_NOTIFY;
            uint16_t slot = issue(&f);
            assert_int_equal(fe_queue_publish(&f.queue), want);
            assert_int_equal(kicked(&f), want);
            assert_int_equal(f.queue.avail->idx, (uint16_t)(i + 1));
            complete(&f, f.queue.slots[slot].head, 513);
            assert_int_equal(fe_queue_reap(&f.queue, slots, 4), 1);
            assert_int_equal(slots[0], slot);
            fe_queue_give(&f.queue, slot);
        }
        assert_false(fe_queue_publish(&f.queue)); /* nothing new */
        assert_int_equal(f.queue.used_length_wrong_count, 0);
        teardown(&f);
    }
}

static void test_a_batch_kicks_if_the_event_lies_within(void **state)
{
    struct fixture f;
    setup(&f, small);
    *f.queue.avail_event = 2;
    for (unsigned i = 0; i < 4; i++)
        issue(&f);
    assert_true(fe_queue_publish(&f.queue));
    assert_int_equal(f.queue.kick_count, 1);
    teardown(&f);
}

static void test_arm_sees_what_completed_before(void **state)
{
    for (unsigned event_idx = 0; event_idx < 2; event_idx++) {
        struct fixture f;
        struct fe_queue_layout layout = small;
        uint16_t slots[4];
        layout.event_idx = event_idx;
        setup(&f, layout);
        uint16_t slot = issue(&f);
        fe_queue_publish(&f.queue);
        assert_false(fe_queue_arm(&f.queue));
        if (event_idx)
            assert_int_equal(*f.queue.used_event, 0);
        else
            assert_int_equal(f.queue.avail->flags, 0);
        complete(&f, f.queue.slots[slot].head, 513);
        assert_true(fe_queue_arm(&f.queue));
        assert_int_equal(fe_queue_wait(&f.queue), 0); /* returns at once, no interrupt came */
        assert_int_equal(fe_queue_reap(&f.queue, slots, 4), 1);
        assert_false(fe_queue_arm(&f.queue));
        if (event_idx)
            assert_int_equal(*f.queue.used_event, 1);
        teardown(&f);
    }
}

static void test_polling_never_asks_for_an_interrupt(void **state)
{
    struct fixture f;
    uint16_t slots[4];
    setup(&f, small);
    fe_queue_suppress(&f.queue);
    for (unsigned i = 0; i < 200000; i++) {
        uint16_t slot = issue(&f);
        fe_queue_publish(&f.queue);
        uint16_t old = f.queue.used->idx;
        complete(&f, f.queue.slots[slot].head, 513);
        assert_false(vring_need_event(*f.queue.used_event, f.queue.used->idx, old));
        assert_int_equal(fe_queue_reap(&f.queue, slots, 4), 1);
        fe_queue_give(&f.queue, slot);
    }
    teardown(&f);
}

static void test_wake_ends_a_wait(void **state)
{
    struct fixture f;
    setup(&f, small);
    fe_queue_wake(&f.queue);
    assert_int_equal(fe_queue_wait(&f.queue), 0);
    struct pollfd fd = { f.queue.call_fd, POLLIN, 0 };
    assert_int_equal(poll(&fd, 1, 0), 0); /* and is consumed */
    teardown(&f);
}

static void test_lies_in_the_used_ring(void **state)
{
    const struct {
        uint32_t heads[2];
        unsigned count;
        unsigned jump;
        const char *words;
    } lies[] = {
        { { 99 }, 1, 0, "begins no request" },
        { { 15 }, 1, 0, "begins no request" }, /* in the table, but no slot's head */
        { { 3 }, 1, 0, "not in flight" },
        { { 0, 0 }, 2, 0, "not in flight" }, /* one request twice */
        { { 0 }, 1, 100, "ran ahead" },
    };
    for (unsigned i = 0; i < G_N_ELEMENTS(lies); i++) {
        struct fixture f;
        uint16_t slots[8];
        setup(&f, small);
        issue(&f);
        issue(&f);
        fe_queue_publish(&f.queue);
        for (unsigned k = 0; k < lies[i].count; k++)
            complete(&f, lies[i].heads[k], 1);
        f.queue.used->idx += lies[i].jump;
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
    complete(&f, 0, 513);
    complete(&f, 1, 514);
    assert_int_equal(fe_queue_reap(&f.queue, slots, 4), 2);
    assert_int_equal(f.queue.used_length_wrong_count, 1);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_indirect_chain),
        cmocka_unit_test(test_direct_chains_do_not_overlap),
        cmocka_unit_test(test_slots_max),
        cmocka_unit_test(test_kick_only_when_asked_for_across_wrap_around),
        cmocka_unit_test(test_a_batch_kicks_if_the_event_lies_within),
        cmocka_unit_test(test_arm_sees_what_completed_before),
        cmocka_unit_test(test_polling_never_asks_for_an_interrupt),
        cmocka_unit_test(test_wake_ends_a_wait),
        cmocka_unit_test(test_lies_in_the_used_ring),
        cmocka_unit_test(test_used_length_beyond_the_request_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
