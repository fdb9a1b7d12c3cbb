/*
 * Goal:   what a front end says about a ring is taken when it makes sense, refused when it does not, and a refusal changes
 *         nothing.
 * Method: messages with values at and beyond each limit to a device in this process, on rings that are stopped and that
 *         run; requests afterwards show that the ring still works.
 * If it fails: a careless or hostile front end brings a ring, or the device, into a state that nobody thought of.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fe_control.h"
#include "served.h"

static struct served served;

static int set_up(void **state)
{
    (void)state;
    served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M", .queue_count = 2 }, 1, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    served_stop(&served);
    return 0;
}

static struct front_end *mapped(void)
{
    struct front_end *fe = served_connect(&served, NULL);

    assert_int_equal(fe_negotiate(fe), 0);
    assert_int_equal(fe_map(fe), 0);
    return fe;
}

static int say_state(struct front_end *fe, uint32_t request, uint32_t index, uint32_t number)
{
    const struct wire_vring_state state = { .index = index, .num = number };

    return fe_set(fe, request, &state, sizeof(state), NULL, 0);
}

static void read_once(struct front_end *fe)
{
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512), VIRTIO_BLK_S_OK);
}

static void test_sizes(void **state)
{
    static const struct {
        uint32_t size;
        int error;
    } cases[] = { { 0, -EREMOTEIO }, { 3, -EREMOTEIO },    { 1023, -EREMOTEIO }, { 2048, -EREMOTEIO },
                  { 1, 0 },          { 1024, 0 },          { 128, 0 },           { UINT32_MAX, -EREMOTEIO },
                  { 65536, -EREMOTEIO } };
    struct front_end *fe = mapped();

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(say_state(fe, WIRE_SET_VRING_NUM, 0, cases[i].size), cases[i].error);
    assert_int_equal(say_state(fe, WIRE_SET_VRING_NUM, 2, 128), -EREMOTEIO); /* no such ring */
    assert_int_equal(fe_start(fe), 0);
    read_once(fe);
    fe_destroy(fe);
}

static void test_bases(void **state)
{
    struct front_end *fe = mapped();
    const struct wire_vring_state ask = { .index = 1 };
    struct wire_vring_state answer;

    (void)state;
    assert_int_equal(say_state(fe, WIRE_SET_VRING_BASE, 1, 65536), -EREMOTEIO);
    assert_int_equal(say_state(fe, WIRE_SET_VRING_BASE, 1, 65535), 0);
    /* A ring that never ran has the base that it was given. */
    assert_int_equal(fe_get(fe, WIRE_GET_VRING_BASE, &ask, sizeof(ask), &answer, sizeof(answer)), 0);
    assert_int_equal(answer.index, 1);
    assert_int_equal(answer.num, 65535);
    fe_destroy(fe);
}

static struct front_end *packed_front_end(void)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;

    options.layout.packed = true;
    options.layout.size = 99;
    options.queue_count = 2;
    return served_connect(&served, &options);
}

/* Rings of a size that is no power of two, stopped in each turn and begun where they stood. */
static void test_a_packed_ring_keeps_its_place(void **state)
{
    struct front_end *fe = packed_front_end();
    uint32_t base, expected;

    (void)state;
    assert_int_equal(fe_negotiate(fe), 0);
    assert_int_equal(fe_map(fe), 0);
    assert_int_equal(say_state(fe, WIRE_SET_VRING_NUM, 1, 1025), -EREMOTEIO);
    assert_int_equal(say_state(fe, WIRE_SET_VRING_NUM, 1, 1023), 0);
    /* Both positions at 0, both wrap counters 1: where a ring begins of which nothing else was said. */
    assert_int_equal(fe_queue_get_base(fe, 1, &base), 0);
    assert_int_equal(base, 0x80008000);
    assert_int_equal(say_state(fe, WIRE_SET_VRING_BASE, 1, 0x00058005), 0);
    assert_int_equal(fe_queue_get_base(fe, 1, &base), 0);
    assert_int_equal(base, 0x00058005);
    assert_int_equal(fe_start(fe), 0);
    for (unsigned done = 0; done < 250; done += 7) {
        for (unsigned i = 0; i < 7; i++)
            read_once(fe);
        assert_int_equal(fe_queue_get_base(fe, 0, &base), 0);
        expected = (done + 7) % 99 | ((done + 7) / 99 % 2 ? 0 : 0x8000);
        assert_int_equal(base, expected | expected << 16);
        assert_int_equal(fe_queue_start(fe, 0), 0);
        assert_int_equal(fe_queue_enable(fe, 0, true), 0);
    }
    read_once(fe);
    assert_int_equal(fe_stop(fe), 0);
    fe_destroy(fe);
}

/* A place in a ring of one format means nothing in the other, as after another driver has come. */
static void test_another_format_begins_anew(void **state)
{
    struct front_end *fe = packed_front_end();
    uint64_t split = 1ull << 32 | 1ull << WIRE_F_PROTOCOL_FEATURES, packed = split | 1ull << 34;
    uint32_t base;

    (void)state;
    assert_int_equal(fe_negotiate(fe), 0);
    assert_int_equal(fe_map(fe), 0);
    assert_int_equal(say_state(fe, WIRE_SET_VRING_BASE, 1, 0x00058005), 0);
    assert_int_equal(fe_set(fe, WIRE_SET_FEATURES, &split, sizeof(split), NULL, 0), 0);
    assert_int_equal(fe_queue_get_base(fe, 1, &base), 0);
    assert_int_equal(base, 0);
    assert_int_equal(say_state(fe, WIRE_SET_VRING_BASE, 1, 7), 0);
    assert_int_equal(fe_set(fe, WIRE_SET_FEATURES, &packed, sizeof(packed), NULL, 0), 0);
    assert_int_equal(fe_queue_get_base(fe, 1, &base), 0);
    assert_int_equal(base, 0x80008000);
    fe_destroy(fe);
}

static void test_a_running_ring_keeps_what_it_has(void **state)
{
    struct front_end *fe = served_front_end(&served, NULL);
    const struct fe_queue *queue = fe_queue(fe, 0);
    struct wire_vring_addr address = { .desc_user_addr = (uintptr_t)queue->desc,
                                       .avail_user_addr = (uintptr_t)queue->avail,
                                       .used_user_addr = (uintptr_t)queue->used };

    (void)state;
    read_once(fe);
    assert_int_equal(say_state(fe, WIRE_SET_VRING_NUM, 0, 64), -EREMOTEIO);
    assert_int_equal(say_state(fe, WIRE_SET_VRING_BASE, 0, 0), -EREMOTEIO);
    assert_int_equal(fe_set(fe, WIRE_SET_VRING_ADDR, &address, sizeof(address), NULL, 0), 0);
    address.used_user_addr += 4096;
    assert_int_equal(fe_set(fe, WIRE_SET_VRING_ADDR, &address, sizeof(address), NULL, 0), -EREMOTEIO);
    read_once(fe);
    assert_int_equal(fe_stop(fe), 0);
    fe_destroy(fe);
}

static void test_enabling_again_and_again(void **state)
{
    struct front_end *fe = served_front_end(&served, NULL);

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(fe_queue_enable(fe, 0, true), 0);
        read_once(fe);
    }
    assert_int_equal(say_state(fe, WIRE_SET_VRING_ENABLE, 0, 2), -EREMOTEIO);
    /* A ring about which nothing was said can be enabled; it runs when the rest has come. */
    assert_int_equal(say_state(fe, WIRE_SET_VRING_ENABLE, 1, 1), 0);
    assert_int_equal(say_state(fe, WIRE_SET_VRING_ENABLE, 1, 0), 0);
    read_once(fe);
    fe_destroy(fe);
}

/* Enabled first, kicked afterwards: the kick descriptor starts it. */
static void test_enabled_before_its_kick_descriptor(void **state)
{
    struct front_end *fe = mapped();

    (void)state;
    assert_int_equal(fe_queue_enable(fe, 0, true), 0);
    assert_int_equal(fe_queue_start(fe, 0), 0);
    read_once(fe);
    fe_destroy(fe);
}

static void test_kick_descriptor_of_an_incomplete_ring(void **state)
{
    struct front_end *fe = mapped();
    const uint64_t ring = 1;
    uint16_t base;
    int fd = eventfd(0, EFD_CLOEXEC);

    (void)state;
    /* Neither size nor addresses: it waits, also beside a ring that runs; and a second one replaces the first. */
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(fe_set(fe, WIRE_SET_VRING_KICK, &ring, sizeof(ring), &fd, 1), 0);
    assert_int_equal(say_state(fe, WIRE_SET_VRING_ENABLE, 1, 1), 0);
    assert_int_equal(fe_start(fe), 0);
    read_once(fe);
    assert_int_equal(fe_set(fe, WIRE_SET_VRING_KICK, &ring, sizeof(ring), &fd, 1), 0);
    read_once(fe);
    assert_int_equal(fe_queue_stop(fe, 0, &base), 0);
    fe_destroy(fe);
    close(fd);
    served_wait(&served, served_is_stopped, "the device stopped");
    assert_int_equal(served.device->queues[1].kick_fd, -1);
}

static void test_kick_descriptor_alone_and_then_stop(void **state)
{
    struct front_end *fe = mapped();
    const uint64_t ring = 0;
    int fd = eventfd(0, EFD_CLOEXEC);
    uint16_t base;

    (void)state;
    assert_int_equal(fe_set(fe, WIRE_SET_VRING_KICK, &ring, sizeof(ring), &fd, 1), 0);
    close(fd);
    assert_int_equal(fe_queue_stop(fe, 0, &base), 0);
    served_wait(&served, served_is_stopped, "nothing is assigned any more");
    assert_int_equal(fe_start(fe), 0);
    read_once(fe);
    fe_destroy(fe);
}

static void test_without_call_descriptor(void **state)
{
    struct front_end *fe = served_front_end(&served, NULL);
    const uint64_t none = WIRE_VRING_NO_FD;
    struct fe_queue *queue = fe_queue(fe, 0);
    uint64_t deadline_ns = rt_clock_ns() + SERVED_DEADLINE_MS * INT64_C(1000000);
    int count = 0;
    uint16_t slot;

    (void)state;
    read_once(fe);
    assert_int_equal(fe_set(fe, WIRE_SET_VRING_CALL, &none, sizeof(none), NULL, 0), 0);
    served_submit(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512);
    fe_queue_publish(queue);
    while ((count = fe_queue_reap(queue, &slot, 1)) == 0 && (uint64_t)rt_clock_ns() < deadline_ns)
        usleep(200);
    assert_int_equal(count, 1);
    fe_queue_give(queue, slot);
    fe_destroy(fe);
}

static bool is_writeback(struct vblk_device *device)
{
    return atomic_load(&device->writeback);
}

static bool is_writethrough(struct vblk_device *device)
{
    return !atomic_load(&device->writeback);
}

static void test_the_cache_mode_can_be_written(void **state)
{
    struct front_end *fe = served_front_end(&served, NULL);

    (void)state;
    served_wait(&served, is_writeback, "the cache is on at first");
    assert_int_equal(fe_write_config(fe, 32, 0, WIRE_CONFIG_BY_DRIVER), 0);
    served_wait(&served, is_writethrough, "the driver has turned it off");
    assert_int_equal(fe_read_config(fe), 0);
    assert_int_equal(fe_info(fe)->config.wce, 0);
    assert_int_equal(fe_write_config(fe, 32, 2, WIRE_CONFIG_BY_DRIVER), -EREMOTEIO);
    assert_int_equal(fe_write_config(fe, 31, 1, WIRE_CONFIG_BY_DRIVER), -EREMOTEIO);
    assert_int_equal(fe_write_config(fe, 32, 1, 2), -EREMOTEIO);
    served_wait(&served, is_writethrough, "refused messages change nothing");
    assert_int_equal(fe_write_config(fe, 32, 1, WIRE_CONFIG_BY_MIGRATION), 0);
    served_wait(&served, is_writeback, "a migration has turned it on");
    read_once(fe);
    assert_int_equal(fe_write_config(fe, 32, 0, WIRE_CONFIG_BY_DRIVER), 0);
    fe_destroy(fe);
    /* The next front end finds it as it was at first. */
    fe = served_front_end(&served, NULL);
    assert_int_equal(fe_info(fe)->config.wce, 1);
    served_wait(&served, is_writeback, "the cache is on again");
    fe_destroy(fe);
}

static struct front_end *with_status(bool packed)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;

    options.layout.packed = packed;
    options.queue_count = 2;
    options.protocol_wanted = 1ull << WIRE_P_STATUS | 1ull << WIRE_P_RESET_DEVICE | 1ull << WIRE_P_CONFIGURE_MEM_SLOTS;
    return served_connect(&served, &options);
}

/* As a monitor brings a guest up, resets it and brings it up again: memory is announced once, everything else anew. */
static void resets_and_new_negotiation(bool is_packed)
{
    struct front_end *fe = with_status(is_packed);
    const uint64_t up = WIRE_STATUS_ACKNOWLEDGE | WIRE_STATUS_DRIVER | WIRE_STATUS_FEATURES_OK | WIRE_STATUS_DRIVER_OK;
    uint64_t features, status;

    assert_int_equal(fe_negotiate(fe), 0);
    assert_int_equal(fe_map(fe), 0);
    features = fe_info(fe)->features;
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(fe_start(fe), 0);
        assert_int_equal(fe_set_status(fe, up), 0);
        assert_int_equal(fe_get_status(fe, &status), 0);
        assert_int_equal(status, up);
        read_once(fe);
        assert_int_equal(fe_write_config(fe, 32, 0, WIRE_CONFIG_BY_DRIVER), 0);
        if (i % 3 == 0)
            assert_int_equal(fe_stop(fe), 0); /* stopped first, afterwards, or all at once by the reset */
        if (i % 2 == 0)
            assert_int_equal(fe_set_status(fe, 0), 0);
        else
            assert_int_equal(fe_reset_device(fe), 0);
        served_wait(&served, served_is_stopped, "a reset stops all rings");
        assert_int_equal(fe_get_status(fe, &status), 0);
        assert_int_equal(status, 0);
        for (unsigned q = 0; q < 2; q++)
            assert_int_equal(served.device->queues[q].kick_fd, -1);
        /* A monitor that only pauses its guest resets first, and asks then where the rings stand: fe_stop() compares. */
        if (i % 3 == 1) {
            assert_int_equal(fe_queue_enable(fe, 0, false), 0);
            assert_int_equal(fe_stop(fe), 0);
        }
        /* Neither can the driver flush, nor does its front end read the field again. */
        assert_int_equal(fe_read_config(fe), 0);
        assert_int_equal(fe_info(fe)->config.wce, 0);
        assert_int_equal(fe_set(fe, WIRE_SET_FEATURES, &features, sizeof(features), NULL, 0), 0);
    }
    assert_int_equal(fe_start(fe), 0);
    read_once(fe);
    fe_destroy(fe);
}

static void test_resets_and_new_negotiation(void **state)
{
    (void)state;
    resets_and_new_negotiation(false);
    resets_and_new_negotiation(true);
}

static void test_resets_at_any_point(void **state)
{
    struct front_end *fe = with_status(false);

    (void)state;
    /* At every point of a front end's life, also when there is nothing to reset. */
    assert_int_equal(fe_negotiate(fe), 0);
    assert_int_equal(fe_reset_device(fe), 0);
    assert_int_equal(fe_set_status(fe, 0), 0);
    assert_int_equal(fe_set(fe, WIRE_SET_FEATURES, &fe_info(fe)->features, 8, NULL, 0), 0);
    assert_int_equal(fe_map(fe), 0);
    assert_int_equal(fe_reset_device(fe), 0);
    assert_int_equal(fe_set(fe, WIRE_SET_FEATURES, &fe_info(fe)->features, 8, NULL, 0), 0);
    assert_int_equal(fe_queue_start(fe, 1), 0);
    assert_int_equal(fe_reset_device(fe), 0); /* kicked and not enabled */
    served_wait(&served, served_is_stopped, "the ring that was never enabled is forgotten");
    assert_int_equal(fe_set(fe, WIRE_SET_FEATURES, &fe_info(fe)->features, 8, NULL, 0), 0);
    assert_int_equal(fe_start(fe), 0);
    read_once(fe);
    fe_destroy(fe);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_sizes),
        TEST(test_bases),
        TEST(test_a_packed_ring_keeps_its_place),
        TEST(test_another_format_begins_anew),
        TEST(test_a_running_ring_keeps_what_it_has),
        TEST(test_enabling_again_and_again),
        TEST(test_enabled_before_its_kick_descriptor),
        TEST(test_kick_descriptor_of_an_incomplete_ring),
        TEST(test_kick_descriptor_alone_and_then_stop),
        TEST(test_without_call_descriptor),
        TEST(test_the_cache_mode_can_be_written),
        TEST(test_resets_and_new_negotiation),
        TEST(test_resets_at_any_point),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
