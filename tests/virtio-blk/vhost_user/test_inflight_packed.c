/*
 * Goal:   what a packed ring's part of the region says after a process ended is read as the specification means it, and what
 *         a front end or another back end wrote wrongly is refused without harm.
 * Method: chains taken and given back out of order by our steps, cut off at the points that the specification names; then
 *         200,000 random regions, of which each must be refused or give sound chains. (Every instruction of our own
 *         steps: test_inflight_kill.)
 * Broken: a request is lost or completed twice after a restart, or a hostile region makes us write outside memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <endian.h>
#include <errno.h>

#include "vhost_user/inflight.h"
#include "vhost_user/inflight_packed.h"

#define SIZE 8
#define ROUNDS 200000
#define OFFERED(wrap) ((wrap) ? 1 << VRING_PACKED_DESC_F_AVAIL : 1 << VRING_PACKED_DESC_F_USED)
#define USED(wrap) ((wrap) ? 1 << VRING_PACKED_DESC_F_AVAIL | 1 << VRING_PACKED_DESC_F_USED : 0)

/* Behind it lie bytes that nobody may touch. */
static struct {
    struct vhost_user_inflight_packed part;
    struct vhost_user_inflight_packed_entry desc[SIZE];
    uint8_t fence[4096];
} region;
static struct vring_packed_desc ring[SIZE];
static struct vhost_user_inflight_packed_queue queue;
static struct vhost_user_inflight_position position;
static struct vhost_user_inflight_pending pending[SIZE];
static const char *reason;
static bool is_old;

static int recover(void)
{
    reason = NULL;
    vhost_user_inflight_packed_deinit(&queue);
    return vhost_user_inflight_packed_recover(&queue, &region.part, SIZE, ring, SIZE, &position, pending, &is_old,
                                              &reason);
}

static int setup(void **state)
{
    memset(&region, 0, sizeof region);
    for (unsigned i = 0; i < SIZE; i++)
        ring[i] = (struct vring_packed_desc){ .flags = htole16(OFFERED(true)) };
    position = (struct vhost_user_inflight_position){ .used_wrap = true, .avail_wrap = true };
    return recover() != 0;
}

static int teardown(void **state)
{
    vhost_user_inflight_packed_deinit(&queue);
    return 0;
}

static uint16_t take(uint16_t id, unsigned descriptors)
{
    uint16_t slot = vhost_user_inflight_packed_begin(&queue);
    for (unsigned i = 0; i < descriptors; i++) {
        const struct vring_packed_desc descriptor = { htole64(0x1000 * id + i), htole32(512 + i), htole16(id),
                                                      htole16(i + 1 < descriptors ? VRING_DESC_F_NEXT : 0) };
        vhost_user_inflight_packed_add(&queue, &descriptor, i + 1 == descriptors);
    }
    vhost_user_inflight_packed_commit(&queue);
    return slot;
}

static void give(uint16_t slot, unsigned descriptors, bool publish, bool finish)
{
    uint16_t at = queue.used_index, next = (uint16_t)((at + descriptors) % SIZE);
    bool wrap = queue.used_wrap, next_wrap = wrap != (at + descriptors >= SIZE);
    vhost_user_inflight_packed_link(&queue, slot);
    vhost_user_inflight_packed_advance(&queue, next, next_wrap);
    if (publish)
        ring[at].flags = htole16(USED(wrap));
    if (finish) {
        vhost_user_inflight_packed_clear(&queue, slot);
        vhost_user_inflight_packed_settle(&queue);
    }
}

static void assert_position(uint16_t used_index, bool used_wrap, uint16_t avail_index, bool avail_wrap)
{
    assert_int_equal(position.used_index, used_index);
    assert_int_equal(position.used_wrap, used_wrap);
    assert_int_equal(position.avail_index, avail_index);
    assert_int_equal(position.avail_wrap, avail_wrap);
}

static void a_new_region_takes_the_rings_position(void **state)
{
    assert_int_equal(region.part.version, 1);
    assert_int_equal(region.part.desc[SIZE - 1].next, SIZE);
    memset(&region, 0, sizeof region);
    position = (struct vhost_user_inflight_position){ .used_index = 5, .avail_index = 5, .avail_wrap = true };
    assert_int_equal(recover(), 0);
    assert_position(5, false, 5, true);
    /* From now on the region knows, and not the front end. */
    position = (struct vhost_user_inflight_position){ .used_index = 1 };
    assert_int_equal(recover(), 0);
    assert_position(5, false, 5, false);
}

static void chains_come_back_whole_and_in_order(void **state)
{
    (void)take(7, 1);
    uint16_t second = take(3, 3);
    (void)take(1, 2);
    give(second, 3, true, true);
    (void)take(4, 1);
    assert_int_equal(recover(), 3);
    assert_position(3, true, 7, true);
    const uint16_t ids[] = { 7, 1, 4 }, counts[] = { 1, 2, 1 };
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(vhost_user_inflight_packed_count(&queue, pending[i].slot), counts[i]);
        for (uint16_t j = 0; j < counts[i]; j++) {
            struct vring_packed_desc descriptor;
            vhost_user_inflight_packed_read(&queue, pending[i].slot, j, &descriptor);
            assert_int_equal(le64toh(descriptor.addr), 0x1000 * ids[i] + j);
            assert_int_equal(le32toh(descriptor.len), 512 + j);
            assert_int_equal(le16toh(descriptor.id), ids[i]);
            assert_int_equal(le16toh(descriptor.flags), j + 1 < counts[i] ? VRING_DESC_F_NEXT : 0);
        }
    }
}

static void what_the_driver_was_told_is_not_done_again(void **state)
{
    for (unsigned published = 0; published < 2; published++) {
        setup(NULL);
        (void)take(1, 2);
        uint16_t slot = take(2, 2);
        give(slot, 2, published, false);
        assert_int_equal(recover(), published ? 1 : 2);
        assert_position(published ? 2 : 0, true, 4, true);
        assert_int_equal(recover(), published ? 1 : 2); /* a second restart finds the same */
    }
}

/* A chain as long as the ring: the index comes back to where it was, only the wrap counter tells. */
static void a_chain_as_long_as_the_ring(void **state)
{
    for (unsigned published = 0; published < 2; published++) {
        setup(NULL);
        give(take(1, SIZE), SIZE, published, false);
        assert_int_equal(recover(), published ? 0 : 1);
        assert_position(0, !published, 0, false);
    }
}

static void a_chain_that_was_being_taken_was_not(void **state)
{
    const struct vring_packed_desc descriptor = { 0 };
    (void)take(1, 2);
    (void)vhost_user_inflight_packed_begin(&queue);
    vhost_user_inflight_packed_add(&queue, &descriptor, false);
    vhost_user_inflight_packed_add(&queue, &descriptor, true);
    assert_int_equal(recover(), 1);
    assert_position(0, true, 2, true);
    (void)take(2, 3); /* into the same entries */
    assert_int_equal(recover(), 2);
    assert_position(0, true, 5, true);
}

static void the_ring_goes_round(void **state)
{
    for (unsigned i = 0; i < 100; i++) {
        uint16_t first = take((uint16_t)i, 1 + i % 3), second = take((uint16_t)i, 1 + i % 2);
        give(second, 1 + i % 2, true, true);
        give(first, 1 + i % 3, true, true);
        /* The driver offers all again. */
        for (unsigned j = 0; j < SIZE; j++)
            ring[j].flags = htole16(OFFERED(j >= queue.used_index ? queue.used_wrap : !queue.used_wrap));
        uint16_t used_index = queue.used_index;
        assert_int_equal(recover(), 0);
        assert_int_equal(position.used_index, used_index);
        assert_int_equal(position.avail_index, used_index);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    uint16_t slot = take(1, 3);
    region.part.version = 7;
    assert_int_equal(recover(), -EINVAL);
    region.part.version = 1;
    region.part.features = 2;
    assert_int_equal(recover(), -EINVAL);
    region.part.features = 0;
    region.part.desc_num = SIZE + 1;
    assert_int_equal(recover(), -EINVAL);
    region.part.desc_num = SIZE;
    region.part.old_used_idx = SIZE;
    assert_int_equal(recover(), -EINVAL);
    region.part.old_used_idx = 0;
    region.part.used_wrap_counter = 2;
    assert_int_equal(recover(), -EINVAL);
    region.part.used_wrap_counter = 1;
    region.part.old_free_head = SIZE + 1;
    assert_int_equal(recover(), -EINVAL);
    region.part.old_free_head = 3;
    region.part.desc[3].next = 3; /* a knot */
    assert_int_equal(recover(), -EINVAL);
    region.part.desc[3].next = 4;
    region.part.desc[slot].num = 4; /* into the free list */
    assert_int_equal(recover(), -EINVAL);
    region.part.desc[slot].num = 0;
    assert_int_equal(recover(), -EINVAL);
    region.part.desc[slot].num = 2; /* its last is another */
    assert_int_equal(recover(), -EINVAL);
    assert_non_null(reason);
    region.part.desc[slot].num = 3;
    region.part.desc[5].next = SIZE; /* two entries that nobody has */
    assert_int_equal(recover(), -EINVAL);
    region.part.desc[5].next = 6;
    assert_int_equal(recover(), 1);
}

/* The driver may choose a ring that is smaller than the region's: what is told about it has no more room than that. */
static void more_chains_than_a_smaller_ring_has(void **state)
{
    for (unsigned i = 0; i < SIZE; i++)
        take(i, 1);
    for (uint16_t size = 1; size < SIZE; size++) {
        struct vhost_user_inflight_pending *few = malloc(size * sizeof *few); /* guarded by AddressSanitizer */
        vhost_user_inflight_packed_deinit(&queue);
        reason = NULL;
        assert_int_equal(vhost_user_inflight_packed_recover(&queue, &region.part, SIZE, ring, size, &position, few, &is_old,
                                                            &reason),
                         -EINVAL);
        assert_non_null(reason);
        free(few);
    }
    assert_int_equal(recover(), SIZE);
}

static void random_regions_are_refused_or_sound(void **state)
{
    unsigned accepted = 0;
    srand(1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        setup(NULL);
        for (unsigned i = 0; i < 3; i++)
            (void)take((uint16_t)i, 1 + (unsigned)rand() % 2);
        /* Anything may be anything; a few bytes, so that some regions hold together. */
        for (unsigned i = 0, count = 1 + (unsigned)rand() % 4; i < count; i++)
            ((uint8_t *)&region)[(unsigned)rand() % offsetof(typeof(region), fence)] = (uint8_t)(rand() % 12);
        memset(region.fence, 0x5a, sizeof region.fence);
        region.part.features = 0;
        int count = recover();
        if (count < 0) {
            assert_non_null(reason);
        } else {
            unsigned descriptors = 0;
            accepted++;
            for (int i = 0; i < count; i++) {
                assert_true(pending[i].slot < SIZE);
                descriptors += vhost_user_inflight_packed_count(&queue, pending[i].slot);
            }
            assert_true(descriptors <= SIZE);
            assert_true(position.used_index < SIZE && position.avail_index < SIZE);
            for (int i = 0; i < count; i++)
                give(pending[i].slot, vhost_user_inflight_packed_count(&queue, pending[i].slot), true, true);
            for (unsigned i = 0; i < SIZE; i++) /* a full ring */
                (void)take(9, 1);
        }
        for (size_t i = 0; i < sizeof region.fence; i += 64)
            assert_int_equal(region.fence[i], 0x5a);
    }
    assert_true(accepted > ROUNDS / 100 && accepted < ROUNDS);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_new_region_takes_the_rings_position),
        TEST(chains_come_back_whole_and_in_order),
        TEST(what_the_driver_was_told_is_not_done_again),
        TEST(a_chain_as_long_as_the_ring),
        TEST(a_chain_that_was_being_taken_was_not),
        TEST(the_ring_goes_round),
        TEST(what_cannot_be_is_refused),
        TEST(more_chains_than_a_smaller_ring_has),
        TEST(random_regions_are_refused_or_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
