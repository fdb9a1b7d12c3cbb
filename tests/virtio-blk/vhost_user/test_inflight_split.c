/*
 * Goal:   what a split ring's part of the region says after a process ended is read as the specification means it, and what
 *         a front end or another back end wrote wrongly is refused without harm.
 * Method: regions in every state that the steps of "Inflight I/O tracking" can leave, written by hand; then 200,000
 *         random ones, of which each must be refused or give sound heads. (Every instruction of our own steps:
 *         test_inflight_kill.)
 * Broken: a request is lost or completed twice after a restart, or a hostile region makes us write outside memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "vhost_user/inflight.h"
#include "vhost_user/inflight_split.h"

#define SIZE 8
#define ROUNDS 200000

/* Behind it lie bytes that nobody may touch. */
static struct {
    struct vhost_user_inflight_split part;
    struct vhost_user_inflight_split_entry desc[SIZE];
    uint8_t fence[4096];
} region;
static struct vhost_user_inflight_pending pending[SIZE];
static uint64_t counter;
static bool is_new;
static const char *reason;

static int recover(uint16_t used_index)
{
    reason = NULL;
    return vhost_user_inflight_split_recover(&region.part, SIZE, SIZE, used_index, pending, &counter, &is_new, &reason);
}

static int setup(void **state)
{
    memset(&region, 0, sizeof region);
    assert_int_equal(recover(100), 0);
    assert_true(is_new);
    return 0;
}

static void a_new_region_is_made_ready(void **state)
{
    assert_int_equal(region.part.version, 1);
    assert_int_equal(region.part.desc_num, SIZE);
    assert_int_equal(region.part.used_idx, 100);
    assert_int_equal(recover(100), 0);
    assert_false(is_new);
    /* A process that ended while it made it ready: no version yet, and rubbish is overwritten. */
    region.part.version = 0;
    region.part.desc[3].inflight = 1;
    assert_int_equal(recover(0), 0);
    assert_true(is_new);
    assert_int_equal(region.part.desc[3].inflight, 0);
}

static void requests_come_back_in_the_order_of_their_counters(void **state)
{
    const uint16_t heads[] = { 5, 0, 7, 2 };
    for (unsigned i = 0; i < 4; i++)
        vhost_user_inflight_split_take(&region.part, heads[i], 40 + i);
    assert_int_equal(recover(100), 4);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pending[i].slot, heads[i]);
    assert_int_equal(counter, 44);
}

/* A batch of three of which the driver knows, whose marks were not yet removed, or only some. */
static void the_last_batch_is_not_done_again(void **state)
{
    for (unsigned cleared = 0; cleared < 4; cleared++) {
        setup(NULL);
        for (uint16_t head = 0; head < 5; head++)
            vhost_user_inflight_split_take(&region.part, head, head);
        for (uint16_t head = 1; head < 4; head++)
            vhost_user_inflight_split_link(&region.part, head);
        for (uint16_t head = 1; head < 1 + cleared; head++)
            vhost_user_inflight_split_clear(&region.part, head);
        assert_int_equal(recover(103), 2);
        assert_int_equal(pending[0].slot, 0);
        assert_int_equal(pending[1].slot, 4);
        assert_int_equal(region.part.used_idx, 103);
    }
}

/* Linked, and the driver does not know of it: it is done again. */
static void a_batch_that_was_not_published_is_done_again(void **state)
{
    for (uint16_t head = 0; head < 3; head++)
        vhost_user_inflight_split_take(&region.part, head, head);
    vhost_user_inflight_split_link(&region.part, 1);
    assert_int_equal(recover(100), 3);
}

static void indices_wrap(void **state)
{
    region.part.used_idx = 0xfffe;
    for (uint16_t head = 0; head < 4; head++)
        vhost_user_inflight_split_take(&region.part, head, head);
    for (uint16_t head = 0; head < 3; head++)
        vhost_user_inflight_split_link(&region.part, head);
    assert_int_equal(recover(1), 1);
    assert_int_equal(pending[0].slot, 3);
}

/* A ring that was reset under a region that was not: harmless while nothing is in flight. */
static void an_old_region_of_an_idle_ring_is_fine(void **state)
{
    region.part.used_idx = 5000;
    assert_int_equal(recover(0), 0);
    assert_int_equal(region.part.used_idx, 0);
}

static void a_ring_may_be_smaller_than_the_region(void **state)
{
    vhost_user_inflight_split_take(&region.part, 1, 0);
    assert_int_equal(vhost_user_inflight_split_recover(&region.part, SIZE, 4, 100, pending, &counter, &is_new, &reason), 1);
}

static void what_cannot_be_is_refused(void **state)
{
    vhost_user_inflight_split_take(&region.part, 2, 0);
    region.part.version = 2;
    assert_int_equal(recover(100), -EINVAL);
    region.part.version = 1;
    region.part.features = 1;
    assert_int_equal(recover(100), -EINVAL);
    region.part.features = 0;
    region.part.desc_num = SIZE - 1;
    assert_int_equal(recover(100), -EINVAL);
    region.part.desc_num = SIZE + 1;
    assert_int_equal(recover(100), -EINVAL);
    region.part.desc_num = SIZE;
    assert_int_equal(recover(100 + SIZE + 1), -EINVAL); /* more given back than there can be */
    region.part.last_batch_head = SIZE;
    assert_int_equal(recover(101), -EINVAL);
    assert_non_null(reason);
    region.part.last_batch_head = 3;
    region.part.desc[3].next = 0xffff;
    assert_int_equal(recover(102), -EINVAL);
    /* A knot in the list: it is not followed for ever. */
    region.part.desc[3].next = 3;
    assert_int_equal(recover(104), 1);
}

static void random_regions_are_refused_or_sound(void **state)
{
    unsigned accepted = 0;
    srand(1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint8_t *bytes = (uint8_t *)&region;
        for (size_t i = 0; i < offsetof(typeof(region), fence); i++)
            bytes[i] = rand() % 3 ? (uint8_t)(rand() % 9) : (uint8_t)rand();
        memset(region.fence, 0x5a, sizeof region.fence);
        region.part.features = 0;
        if (rand() % 8) {
            region.part.version = 1;
            region.part.desc_num = SIZE;
        }
        uint16_t used_index = region.part.used_idx + (uint16_t)(rand() % 10);
        int count = recover(used_index);
        if (count < 0) {
            assert_non_null(reason);
        } else {
            unsigned seen = 0;
            accepted++;
            assert_true(count <= SIZE);
            for (int i = 0; i < count; i++) {
                assert_true(pending[i].slot < SIZE);
                assert_true(i == 0 || pending[i - 1].counter <= pending[i].counter);
                assert_false(seen >> pending[i].slot & 1);
                seen |= 1u << pending[i].slot;
            }
            assert_int_equal(recover(used_index), count); /* a second restart finds the same */
        }
        for (size_t i = 0; i < sizeof region.fence; i += 64)
            assert_int_equal(region.fence[i], 0x5a);
    }
    assert_true(accepted > ROUNDS / 100 && accepted < ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_new_region_is_made_ready, setup),
        cmocka_unit_test_setup(requests_come_back_in_the_order_of_their_counters, setup),
        cmocka_unit_test_setup(the_last_batch_is_not_done_again, setup),
        cmocka_unit_test_setup(a_batch_that_was_not_published_is_done_again, setup),
        cmocka_unit_test_setup(indices_wrap, setup),
        cmocka_unit_test_setup(an_old_region_of_an_idle_ring_is_fine, setup),
        cmocka_unit_test_setup(a_ring_may_be_smaller_than_the_region, setup),
        cmocka_unit_test_setup(what_cannot_be_is_refused, setup),
        cmocka_unit_test_setup(random_regions_are_refused_or_sound, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
