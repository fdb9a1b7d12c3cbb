/*
 * Goal:   a dirty log reaches the device, the front end is told when it is in use, and one that is none ends the
 *         connection: a front end that believed in it would lose pages of its guest.
 * Method: a session with a stub device that marks the first page of whatever log it is given; right and wrong
 *         messages; what came back, what the device noted, the bitmap, and the number of descriptors.
 * Broken: a migration waits for ever, or ends with an incomplete guest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fcntl.h>

#include "front_end_wire.h"
#include "served_stub.h"

#define LOG_BYTES 4096
#define PROTOCOL_FEATURES                                                                                     \
    (UINT64_C(1) << VHOST_USER_PROTOCOL_F_LOG_SHMFD | UINT64_C(1) << VHOST_USER_PROTOCOL_F_REPLY_ACK)

static int file;

static int64_t ask_u64(uint32_t request, uint64_t value)
{
    return wire_ask(fd, request, &value, sizeof value, NULL, 0);
}

static void choose(uint64_t protocol_features)
{
    wire_send(fd, VHOST_USER_SET_PROTOCOL_FEATURES, VHOST_USER_VERSION, &protocol_features, sizeof protocol_features,
              NULL, 0);
}

static void connect_and_negotiate(uint64_t protocol_features)
{
    fd = stub_connect(path);
    wire_negotiate(fd, STUB_FEATURES);
    choose(protocol_features);
}

static int setup(void **state)
{
    file = memfd_create("log", MFD_CLOEXEC);
    if (ftruncate(file, 2 * LOG_BYTES) || served_stub_setup(state))
        return 1;
    choose(PROTOCOL_FEATURES);
    return 0;
}

static int teardown(void **state)
{
    int failed = served_stub_teardown(state);
    close(file);
    return failed;
}

static int64_t set_log(uint64_t size_bytes, uint64_t offset_bytes)
{
    struct vhost_user_log wire = { size_bytes, offset_bytes };
    return wire_ask(fd, VHOST_USER_SET_LOG_BASE, &wire, sizeof wire, &file, 1);
}

static void a_log_is_answered_when_it_is_in_use(void **state)
{
    for (unsigned round = 1; round <= 3; round++) {
        uint8_t bytes[2] = { 0 }, none = 0;
        assert_int_equal(pwrite(file, &none, 1, LOG_BYTES + 8), 1);
        assert_int_equal(set_log(LOG_BYTES - 8, LOG_BYTES + 8), 0);
        assert_int_equal(stub_count(&stub, "log\n"), round);
        assert_int_equal(pread(file, bytes, 2, LOG_BYTES + 8), 2);
        assert_int_equal(bytes[0], 1);
        assert_int_equal(bytes[1], 0);
    }
    /* Once, also to a front end that acknowledges nothing. */
    close(fd);
    connect_and_negotiate(UINT64_C(1) << VHOST_USER_PROTOCOL_F_LOG_SHMFD);
    struct vhost_user_log wire = { LOG_BYTES, 0 };
    uint32_t request = 0;
    uint64_t answer = 42;
    wire_send(fd, VHOST_USER_SET_LOG_BASE, VHOST_USER_VERSION, &wire, sizeof wire, &file, 1);
    assert_int_equal(wire_receive(fd, &request, &answer), sizeof answer);
    assert_int_equal(request, VHOST_USER_SET_LOG_BASE);
    assert_int_equal(answer, 0);
}

static void what_is_no_log_ends_the_connection(void **state)
{
    static const struct {
        uint64_t size_bytes, offset_bytes;
    } cases[] = { { 0, 0 },          { 2 * LOG_BYTES + 1, 0 },       { 1, 2 * LOG_BYTES }, { 1, UINT64_MAX },
                  { UINT64_MAX, 1 }, { UINT64_MAX, UINT64_MAX }, { LOG_BYTES, LOG_BYTES + 1 } };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct vhost_user_log wire = { cases[i].size_bytes, cases[i].offset_bytes };
        wire_send(fd, VHOST_USER_SET_LOG_BASE, VHOST_USER_VERSION, &wire, sizeof wire, &file, 1);
        assert_true(wire_ended(fd));
        close(fd);
        connect_and_negotiate(PROTOCOL_FEATURES);
    }
    struct vhost_user_log wire = { LOG_BYTES, 0 };
    wire_send(fd, VHOST_USER_SET_LOG_BASE, VHOST_USER_VERSION, &wire, sizeof wire, NULL, 0); /* no descriptor */
    assert_true(wire_ended(fd));
    close(fd);
    connect_and_negotiate(UINT64_C(1) << VHOST_USER_PROTOCOL_F_REPLY_ACK); /* not negotiated */
    wire_send(fd, VHOST_USER_SET_LOG_BASE, VHOST_USER_VERSION, &wire, sizeof wire, &file, 1);
    assert_true(wire_ended(fd));
    assert_int_equal(stub_count(&stub, "log\n"), 0);
    close(fd);
    connect_and_negotiate(PROTOCOL_FEATURES);
}

static void an_eventfd_may_tell_of_marks(void **state)
{
    int event = eventfd(0, EFD_CLOEXEC); /* blocking, as it comes */
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_LOG_FD, NULL, 0, &event, 1), 0);
    uint64_t value = 0;
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_LOG_FD, &value, sizeof value, &event, 1), 0);
    assert_int_equal(stub_count(&stub, "log-fd 1"), 2);
    wire_send(fd, VHOST_USER_SET_LOG_FD, VHOST_USER_VERSION, NULL, 0, NULL, 0); /* none */
    assert_true(wire_ended(fd));
    close(event);
}

static void the_log_flag_needs_the_feature(void **state)
{
    struct vhost_user_vring_address address = { 1, VHOST_USER_VRING_F_LOG, 0x1000, 0x2000, 0x3000, 0x4000 };
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_VRING_ADDR, &address, sizeof address, NULL, 0), 1);
    assert_int_equal(ask_u64(VHOST_USER_SET_FEATURES, STUB_FEATURES | UINT64_C(1) << VHOST_F_LOG_ALL), 0);
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_VRING_ADDR, &address, sizeof address, NULL, 0), 0);
    address.flags |= 2;
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_VRING_ADDR, &address, sizeof address, NULL, 0), 1);
    assert_int_equal(stub_count(&stub, "address"), 1);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_log_is_answered_when_it_is_in_use),
        TEST(what_is_no_log_ends_the_connection),
        TEST(an_eventfd_may_tell_of_marks),
        TEST(the_log_flag_needs_the_feature),
    };
    return served_stub_run(tests);
}
