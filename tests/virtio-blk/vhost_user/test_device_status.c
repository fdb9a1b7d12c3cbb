/*
 * Goal:   the status that a driver wrote is kept as virtio says, and each way to reset a device forgets the driver and
 *         keeps the connection.
 * Method: a session with a stub device; statuses in right and wrong orders, resets at each point, with and without the
 *         protocol features.
 * Broken: a driver believes that its features were taken when they were not, or a guest that reboots finds the device
 *         half set up, or without the memory that its front end does not announce again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <errno.h>
#include <sys/mman.h>

#include "front_end_wire.h"
#include "served_stub.h"

enum { ACKNOWLEDGE = 1, DRIVER = 2, DRIVER_OK = 4, FEATURES_OK = 8, NEEDS_RESET = 64, FAILED = 128 };

static int64_t set_status(uint64_t status)
{
    return wire_ask(fd, VHOST_USER_SET_STATUS, &status, sizeof status, NULL, 0);
}

static int64_t status(void)
{
    return wire_ask(fd, VHOST_USER_GET_STATUS, NULL, 0, NULL, 0);
}

static int64_t set_features(uint64_t features)
{
    features |= UINT64_C(1) << VHOST_USER_F_PROTOCOL_FEATURES;
    return wire_ask(fd, VHOST_USER_SET_FEATURES, &features, sizeof features, NULL, 0);
}

static int64_t enable_ring(void)
{
    struct vhost_user_vring_state enable = { 0, 1 };
    return wire_ask(fd, VHOST_USER_SET_VRING_ENABLE, &enable, sizeof enable, NULL, 0);
}

static void bits_are_kept_and_zero_resets(void **state)
{
    assert_int_equal(status(), 0);
    assert_int_equal(set_status(ACKNOWLEDGE), 0);
    assert_int_equal(set_status(ACKNOWLEDGE | DRIVER), 0);
    assert_int_equal(status(), ACKNOWLEDGE | DRIVER);
    assert_int_equal(set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK), 0);
    assert_int_equal(status(), ACKNOWLEDGE | DRIVER | FEATURES_OK);
    assert_int_equal(set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK), 0);
    assert_int_equal(set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK), 0); /* again */
    assert_int_equal(status(), ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
    assert_int_equal(set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK | FAILED), 0);
    assert_int_equal(stub_count(&stub, "reset_device"), 0);
    assert_int_equal(set_status(0), 0);
    assert_int_equal(status(), 0);
    assert_int_equal(stub_count(&stub, "reset_device"), 1);
    assert_int_equal(stub_count(&stub, "reset\n"), 0); /* the memory stays */
}

static void features_ok_needs_features(void **state)
{
    assert_int_equal(set_status(0), 0);
    /* After a reset nothing is accepted yet. */
    assert_int_equal(set_status(FEATURES_OK | DRIVER), 0);
    assert_int_equal(status(), DRIVER);
    assert_int_equal(set_features(UINT64_C(1) << 63), 1);
    assert_int_equal(set_status(FEATURES_OK | DRIVER), 0);
    assert_int_equal(status(), DRIVER);
    assert_int_equal(set_features(STUB_FEATURES), 0);
    stub_set_fail(&stub, -EINVAL); /* the device's own refusal */
    assert_int_equal(set_features(STUB_FEATURES), 1);
    stub_set_fail(&stub, 0);
    assert_int_equal(set_status(FEATURES_OK | DRIVER), 0);
    assert_int_equal(status(), DRIVER);
    assert_int_equal(set_features(STUB_FEATURES), 0);
    assert_int_equal(set_status(FEATURES_OK | DRIVER), 0);
    assert_int_equal(status(), DRIVER | FEATURES_OK);
}

static void refused_statuses_change_nothing(void **state)
{
    const uint64_t wrong[] = { DRIVER, ACKNOWLEDGE | DRIVER | NEEDS_RESET, ACKNOWLEDGE | DRIVER | 16,
                               ACKNOWLEDGE | DRIVER | 256, UINT64_MAX, UINT64_C(1) << 32 };
    assert_int_equal(set_status(ACKNOWLEDGE | DRIVER), 0);
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(set_status(wrong[i]), 1);
        assert_int_equal(status(), ACKNOWLEDGE | DRIVER);
    }
    assert_int_equal(stub_count(&stub, "reset"), 0);
}

/* What a reset leaves, whichever way it comes: the connection with its protocol features, no feature of the driver's, no
 * status. What rings are asked afterwards is answered, but for RESET_OWNER, which forgets that they have states. */
static void every_reset_forgets_the_driver(void **state)
{
    for (unsigned way = 0; way < 3; way++) {
        assert_int_equal(set_features(STUB_FEATURES), 0);
        assert_int_equal(set_status(DRIVER | FEATURES_OK), 0);
        assert_int_equal(enable_ring(), 0);
        if (way == 0)
            assert_int_equal(set_status(0), 0);
        else
            assert_int_equal(wire_ask(fd, way == 1 ? VHOST_USER_RESET_DEVICE : VHOST_USER_RESET_OWNER, NULL, 0, NULL, 0),
                             0);
        assert_int_equal(status(), 0);
        assert_int_equal(enable_ring(), way == 2);
        assert_int_equal(set_status(DRIVER | FEATURES_OK), 0);
        assert_int_equal(status(), DRIVER);
        assert_int_equal(wire_ask(fd, VHOST_USER_GET_QUEUE_NUM, NULL, 0, NULL, 0), STUB_QUEUES);
    }
    assert_int_equal(stub_count(&stub, "reset_device"), 2);
    assert_int_equal(stub_count(&stub, "reset"), 3);
    /* A reset that the device cannot do is told. */
    stub_set_fail(&stub, -EIO);
    assert_int_equal(set_status(0), 1);
    assert_int_equal(wire_ask(fd, VHOST_USER_RESET_DEVICE, NULL, 0, NULL, 0), 1);
    stub_set_fail(&stub, 0);
}

static void memory_outlives_a_reset_of_the_device(void **state)
{
    struct vhost_user_memory_slot slot = { .region = { 0x10000, 0x10000, 0x20000, 0 } };
    int memory = memfd_create("guest", MFD_CLOEXEC);
    assert_int_equal(ftruncate(memory, 0x10000), 0);
    assert_int_equal(wire_ask(fd, VHOST_USER_ADD_MEM_REG, &slot, sizeof slot, &memory, 1), 0);
    assert_int_equal(set_status(0), 0);
    assert_int_equal(wire_ask(fd, VHOST_USER_RESET_DEVICE, NULL, 0, NULL, 0), 0);
    assert_int_equal(wire_ask(fd, VHOST_USER_REM_MEM_REG, &slot, sizeof slot, NULL, 0), 0);
    close(memory);
}

static void each_connection_begins_anew(void **state)
{
    assert_int_equal(set_status(DRIVER | FEATURES_OK | DRIVER_OK), 0);
    close(fd);
    fd = stub_connect(path);
    /* What was agreed is gone with the front end that agreed to it: neither status nor the feature for asking is there. */
    wire_send(fd, VHOST_USER_GET_STATUS, VHOST_USER_VERSION, NULL, 0, NULL, 0);
    assert_true(wire_ended(fd));
    close(fd);
    fd = stub_connect(path);
    uint64_t protocol = 1 << VHOST_USER_PROTOCOL_F_REPLY_ACK;
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_PROTOCOL_FEATURES, &protocol, sizeof protocol, NULL, 0), 0);
    assert_int_equal(set_status(1), 1);
    assert_int_equal(wire_ask(fd, VHOST_USER_RESET_DEVICE, NULL, 0, NULL, 0), 1);
    protocol |= 1 << VHOST_USER_PROTOCOL_F_STATUS;
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_PROTOCOL_FEATURES, &protocol, sizeof protocol, NULL, 0), 0);
    assert_int_equal(status(), 0);
    assert_int_equal(set_status(FEATURES_OK), 0);
    assert_int_equal(status(), 0);
    assert_int_equal(stub_count(&stub, "reset"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STUB_TEST(bits_are_kept_and_zero_resets),   STUB_TEST(features_ok_needs_features),
        STUB_TEST(refused_statuses_change_nothing), STUB_TEST(every_reset_forgets_the_driver),
        STUB_TEST(memory_outlives_a_reset_of_the_device), STUB_TEST(each_connection_begins_anew),
    };
    return served_stub_run(tests);
}
