/*
 * Goal:   each message reaches the device with what it says, and one that is wrong is refused, answered, and harms nothing.
 * Method: a session with a stub device; right and wrong messages of each kind; what the device noted and what came
 *         back are compared, and the descriptors of the process counted.
 * Broken: a ring is set up wrongly, a front end waits for an answer for ever, or descriptors pile up.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "front_end_wire.h"
#include "served_stub.h"

static void reconnect(void)
{
    assert_true(wire_ended(fd));
    close(fd);
    fd = stub_connect(path);
    wire_negotiate(fd, STUB_FEATURES);
}

static int64_t ask_u64(uint32_t request, uint64_t value)
{
    return wire_ask(fd, request, &value, sizeof value, NULL, 0);
}

static int64_t ask_state(uint32_t request, uint32_t index, uint32_t num)
{
    struct vhost_user_vring_state state = { index, num };
    return wire_ask(fd, request, &state, sizeof state, NULL, 0);
}

static void assert_alive(void)
{
    assert_int_equal(wire_ask(fd, VHOST_USER_GET_QUEUE_NUM, NULL, 0, NULL, 0), STUB_QUEUES);
}

static void questions_are_answered(void **state)
{
    assert_int_equal(wire_ask(fd, VHOST_USER_GET_FEATURES, NULL, 0, NULL, 0), STUB_FEATURES | UINT64_C(1) << 30 |
                                                                                  UINT64_C(1) << 26);
    assert_int_equal(wire_ask(fd, VHOST_USER_GET_PROTOCOL_FEATURES, NULL, 0, NULL, 0),
                     1 | 1 << 1 | 1 << 3 | 1 << 5 | 1 << 9 | 1 << 12 | 1 << 13 | 1 << 15 | 1 << 16);
    assert_alive();
    struct vhost_user_vring_state ask = { 2, 0 };
    uint32_t request;
    uint8_t payload[sizeof(struct vhost_user_config)];
    wire_send(fd, VHOST_USER_GET_VRING_BASE, VHOST_USER_VERSION, &ask, sizeof ask, NULL, 0);
    assert_int_equal(wire_receive(fd, &request, payload), sizeof ask);
    const struct vhost_user_vring_state expected = { 2, 102 };
    assert_memory_equal(payload, &expected, sizeof expected);
}

static void settings_reach_the_device(void **state)
{
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_OWNER, NULL, 0, NULL, 0), 0);
    assert_int_equal(ask_state(VHOST_USER_SET_VRING_NUM, 1, 256), 0);
    assert_int_equal(ask_state(VHOST_USER_SET_VRING_BASE, 1, 77), 0);
    assert_int_equal(ask_state(VHOST_USER_SET_VRING_ENABLE, 3, 1), 0);
    assert_int_equal(ask_state(VHOST_USER_SET_VRING_ENABLE, 3, 0), 0);
    struct vhost_user_vring_address address = { 1, 0, 0x1000, 0x2000, 0x3000, 0 };
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_VRING_ADDR, &address, sizeof address, NULL, 0), 0);
    assert_int_equal(wire_ask(fd, VHOST_USER_RESET_OWNER, NULL, 0, NULL, 0), 0);
    const char *notes[] = { "size 1 256", "base 1 77", "enable 3 1", "enable 3 0", "address 1 1000 2000 3000",
                            "reset" };
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(stub_count(&stub, notes[i]), 1);
    /* Reset takes the features, but the connection and its protocol features stay. */
    assert_alive();
    assert_int_equal(ask_state(VHOST_USER_SET_VRING_ENABLE, 3, 1), 1);
}

static void ring_descriptors(void **state)
{
    const uint32_t requests[] = { VHOST_USER_SET_VRING_KICK, VHOST_USER_SET_VRING_CALL,
                                  VHOST_USER_SET_VRING_ERR };
    const char *names[] = { "kick", "call", "err" };
    for (unsigned i = 0; i < 3; i++) {
        char with[16], without[16];
        uint64_t value = 2;
        int event = eventfd(0, EFD_CLOEXEC); /* blocking, as it comes */
        snprintf(with, sizeof with, "%s 2 1", names[i]);
        snprintf(without, sizeof without, "%s 2 0", names[i]);
        assert_int_equal(wire_ask(fd, requests[i], &value, sizeof value, &event, 1), 0);
        assert_int_equal(stub_count(&stub, with), 1);
        assert_true(fcntl(event, F_GETFL) & O_NONBLOCK);
        close(event);
        value = 2 | VHOST_USER_VRING_NO_FD;
        assert_int_equal(wire_ask(fd, requests[i], &value, sizeof value, NULL, 0), 0);
        assert_int_equal(stub_count(&stub, without), 1);
    }
}

/* Refused by the device or for what they say: answered with non-zero, and the connection goes on. */
static void refused_messages_are_answered(void **state)
{
    int event = eventfd(0, EFD_CLOEXEC);
    uint64_t value;
    assert_int_equal(ask_u64(VHOST_USER_SET_FEATURES, UINT64_C(1) << 63), 1);
    assert_int_equal(ask_u64(VHOST_USER_SET_PROTOCOL_FEATURES, 1 << 3 | 1 << 4), 1);
    assert_int_equal(ask_state(VHOST_USER_SET_VRING_NUM, STUB_QUEUES, 16), 1);
    assert_int_equal(ask_state(VHOST_USER_SET_VRING_NUM, UINT32_MAX, 16), 1);
    assert_int_equal(ask_state(VHOST_USER_SET_VRING_BASE, 65536, 16), 1);
    assert_int_equal(ask_state(VHOST_USER_SET_VRING_ENABLE, 0, 2), 1);
    struct vhost_user_vring_address address = { .index = 4 };
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_VRING_ADDR, &address, sizeof address, NULL, 0), 1);
    address = (struct vhost_user_vring_address){ .index = 0, .flags = VHOST_USER_VRING_F_LOG };
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_VRING_ADDR, &address, sizeof address, NULL, 0), 1);
    value = 4;
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_VRING_KICK, &value, sizeof value, &event, 1), 1);
    value = 0x200;
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_VRING_CALL, &value, sizeof value, &event, 1), 1);
    value = UINT64_C(1) << 32;
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_VRING_ERR, &value, sizeof value, &event, 1), 1);
    assert_int_equal(wire_ask(fd, 77, &value, sizeof value, NULL, 0), 1);
    assert_int_equal(wire_ask(fd, 0, NULL, 0, NULL, 0), 1);
    assert_int_equal(wire_ask(fd, UINT32_MAX, NULL, 0, NULL, 0), 1);
    assert_alive();
    for (unsigned i = 0; i < 3; i++) {
        const char *untouched[] = { "size", "base", "kick" };
        assert_int_equal(stub_count(&stub, untouched[i]), 0);
    }
    /* The device's own refusal; it does not keep the descriptor. */
    stub_set_fail(&stub, -EBUSY);
    value = 1;
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_VRING_KICK, &value, sizeof value, &event, 1), 1);
    assert_int_equal(ask_u64(VHOST_USER_SET_FEATURES, 0), 1);
    stub_set_fail(&stub, 0);
    assert_int_equal(ask_state(VHOST_USER_SET_VRING_ENABLE, 0, 1), 0); /* the features are the old ones */
    close(event);
}

static void payloads_of_wrong_length_are_refused(void **state)
{
    const uint32_t requests[] = { VHOST_USER_SET_FEATURES,   VHOST_USER_SET_OWNER,
                                  VHOST_USER_RESET_OWNER,    VHOST_USER_SET_MEM_TABLE,
                                  VHOST_USER_SET_VRING_NUM,  VHOST_USER_SET_VRING_ADDR,
                                  VHOST_USER_SET_VRING_BASE, VHOST_USER_SET_VRING_KICK,
                                  VHOST_USER_SET_VRING_CALL, VHOST_USER_SET_VRING_ERR,
                                  VHOST_USER_RESET_DEVICE,   VHOST_USER_SET_STATUS,
                                  VHOST_USER_SET_CONFIG };
    const uint32_t sizes[] = { 1, 4, 7, 9, 33, 300, 4096 };
    static uint8_t zeros[4096];
    for (unsigned r = 0; r < sizeof requests / sizeof requests[0]; r++)
        for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            if (requests[r] != VHOST_USER_SET_MEM_TABLE || sizes[s] < 8 || sizes[s] > 264)
                if (requests[r] != VHOST_USER_SET_CONFIG || sizes[s] < 12 || sizes[s] > 268)
                    assert_int_equal(wire_ask(fd, requests[r], zeros, sizes[s], NULL, 0), 1);
    assert_alive();
}

static void features_gate_messages(void **state)
{
    close(fd);
    fd = stub_connect(path);
    uint64_t ack_only = 1 << VHOST_USER_PROTOCOL_F_REPLY_ACK;
    assert_int_equal(ask_u64(VHOST_USER_SET_PROTOCOL_FEATURES, ack_only), 0);
    assert_int_equal(ask_state(VHOST_USER_SET_VRING_ENABLE, 0, 1), 1);
    struct vhost_user_config config = { .size_bytes = 8 };
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_CONFIG, &config, 12 + 8, NULL, 0), 1);
    uint32_t request;
    uint8_t payload[sizeof config];
    wire_send(fd, VHOST_USER_GET_CONFIG, VHOST_USER_VERSION, &config, 12 + 8, NULL, 0);
    assert_int_equal(wire_receive(fd, &request, payload), 0);
    wire_send(fd, VHOST_USER_GET_QUEUE_NUM, VHOST_USER_VERSION, NULL, 0, NULL, 0);
    assert_true(wire_ended(fd)); /* there is no way to answer it with no */
    assert_int_equal(stub_count(&stub, "enable"), 0);
}

static void questions_without_an_answer_end_the_connection(void **state)
{
    struct vhost_user_vring_state ask = { STUB_QUEUES, 0 };
    wire_send(fd, VHOST_USER_GET_VRING_BASE, VHOST_USER_VERSION, &ask, sizeof ask, NULL, 0);
    reconnect();
    ask.index = 0;
    stub_set_fail(&stub, -EIO);
    wire_send(fd, VHOST_USER_GET_VRING_BASE, VHOST_USER_VERSION, &ask, sizeof ask, NULL, 0);
    assert_true(wire_ended(fd));
    stub_set_fail(&stub, 0);
    reconnect();
    wire_send(fd, VHOST_USER_GET_FEATURES, VHOST_USER_VERSION, &ask, sizeof ask, NULL, 0);
    reconnect();
    assert_alive();
}

static void the_configuration_space(void **state)
{
    struct vhost_user_config config = { .offset = 10, .size_bytes = 60, .flags = 0 }, reply;
    uint32_t request;
    wire_send(fd, VHOST_USER_GET_CONFIG, VHOST_USER_VERSION, &config, 12 + 60, NULL, 0);
    assert_int_equal(wire_receive(fd, &request, &reply), 12 + 60);
    assert_int_equal(reply.offset, 10);
    assert_int_equal(reply.size_bytes, 60);
    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(reply.bytes[i], 10 + i);
    config = (struct vhost_user_config){ .offset = 0, .size_bytes = 256 };
    wire_send(fd, VHOST_USER_GET_CONFIG, VHOST_USER_VERSION, &config, 12, NULL, 0);
    assert_int_equal(wire_receive(fd, &request, &reply), 12 + 256);

    const struct {
        uint32_t offset, size_bytes;
    } outside[] = { { 0, 0 }, { 0, 257 }, { 1, 256 }, { 256, 1 }, { UINT32_MAX, 2 }, { 1, UINT32_MAX } };
    for (unsigned i = 0; i < 6; i++) {
        config.offset = outside[i].offset;
        config.size_bytes = outside[i].size_bytes;
        wire_send(fd, VHOST_USER_GET_CONFIG, VHOST_USER_VERSION, &config, 12 + 60, NULL, 0);
        assert_int_equal(wire_receive(fd, &request, &reply), 0); /* "no" */
        assert_int_equal(request, VHOST_USER_GET_CONFIG);
        assert_int_equal(wire_ask(fd, VHOST_USER_SET_CONFIG, &config, 12 + 60, NULL, 0), 1);
    }
    config = (struct vhost_user_config){ .offset = 32, .size_bytes = 1, .bytes = { 0x5a } };
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_CONFIG, &config, 12 + 1, NULL, 0), 0);
    assert_int_equal(stub_count(&stub, "set_config 32 1 5a"), 1);
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_CONFIG, &config, 12 + 2, NULL, 0), 1); /* says 1, brings 2 */
    assert_int_equal(stub_count(&stub, "set_config"), 1);
    /* From a migration it is taken, too; from nobody else. */
    config.flags = VHOST_USER_CONFIG_BY_MIGRATION;
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_CONFIG, &config, 12 + 1, NULL, 0), 0);
    for (config.flags = 2; config.flags; config.flags <<= 1)
        assert_int_equal(wire_ask(fd, VHOST_USER_SET_CONFIG, &config, 12 + 1, NULL, 0), 1);
    assert_int_equal(stub_count(&stub, "set_config"), 2);
}

static void memory_tables(void **state)
{
    int memory[8];
    for (unsigned i = 0; i < 8; i++) {
        memory[i] = memfd_create("memory", MFD_CLOEXEC);
        assert_int_equal(ftruncate(memory[i], 0x10000), 0);
    }
    struct vhost_user_memory_table table = { .count = 8 };
    for (unsigned i = 0; i < 8; i++)
        table.regions[i] = (struct vhost_user_memory_region){ i * 0x10000, 0x10000, (i + 1) * 0x100000, 0 };
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_MEM_TABLE, &table, sizeof table, memory, 8), 0);
    assert_int_equal(stub_count(&stub, "memory"), 1);
    table.count = 1;
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_MEM_TABLE, &table, 8 + 32, memory, 1), 0);
    assert_int_equal(stub_count(&stub, "memory"), 2);
    /* Refused, and the device keeps what it has. */
    table.count = 0;
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_MEM_TABLE, &table, 8, NULL, 0), 1);
    table.count = 2;
    table.regions[1].size_bytes = 0x20000;
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_MEM_TABLE, &table, 8 + 64, memory, 2), 1);
    table.regions[1].size_bytes = 0x10000;
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_MEM_TABLE, &table, 8 + 63, memory, 2), 1);
    table.regions[1] = table.regions[0];
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_MEM_TABLE, &table, 8 + 64, memory, 2), 1);
    assert_int_equal(stub_count(&stub, "memory"), 2);
    for (unsigned i = 0; i < 8; i++)
        close(memory[i]);
    assert_alive();
}

/* Each message with descriptors that do not belong to it, or without its own. */
static void descriptors_that_do_not_fit_end_the_connection(void **state)
{
    static const uint8_t zeros[300];
    const struct {
        uint32_t request, size_bytes;
        uint64_t first;
        unsigned fd_count;
    } cases[] = {
        { VHOST_USER_GET_FEATURES, 0, 0, 1 },       { VHOST_USER_SET_FEATURES, 8, 0, 1 },
        { VHOST_USER_SET_OWNER, 0, 0, 8 },          { VHOST_USER_SET_VRING_NUM, 8, 0, 1 },
        { VHOST_USER_SET_VRING_KICK, 8, 0, 0 },     { VHOST_USER_SET_VRING_KICK, 8, 0, 2 },
        { VHOST_USER_SET_VRING_KICK, 8, 0x100, 1 }, { VHOST_USER_SET_VRING_CALL, 8, 0, 0 },
        { VHOST_USER_SET_VRING_CALL, 8, 0, 8 },     { VHOST_USER_SET_VRING_ERR, 8, 0x100, 1 },
        { VHOST_USER_SET_MEM_TABLE, 8 + 32, 1, 0 }, { VHOST_USER_SET_MEM_TABLE, 8 + 32, 1, 2 },
        { VHOST_USER_SET_MEM_TABLE, 8 + 32, 2, 1 }, { VHOST_USER_SET_MEM_TABLE, 8 + 32, 0xffffffff, 8 },
        { VHOST_USER_SET_MEM_TABLE, 9, 0, 1 },      { VHOST_USER_SET_MEM_TABLE, 4, 0, 1 },
        { VHOST_USER_SET_VRING_KICK, 4, 0, 1 },     { 77, 0, 0, 1 },
        { VHOST_USER_GET_FEATURES, 0, 0, 20 },      { VHOST_USER_SET_BACKEND_REQ_FD, 0, 0, 0 },
        { VHOST_USER_SET_BACKEND_REQ_FD, 0, 0, 2 }, { VHOST_USER_SET_BACKEND_REQ_FD, 8, 0, 1 },
        { VHOST_USER_RESET_DEVICE, 0, 0, 1 },       { VHOST_USER_SET_STATUS, 8, 1, 1 },
        { VHOST_USER_GET_STATUS, 0, 0, 1 },
    };
    int events[20];
    for (unsigned i = 0; i < 20; i++)
        events[i] = eventfd(0, EFD_CLOEXEC);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t payload[300];
        memcpy(payload, zeros, sizeof payload);
        memcpy(payload, &cases[i].first, 8);
        wire_send(fd, cases[i].request, VHOST_USER_VERSION, payload, cases[i].size_bytes, events,
                  cases[i].fd_count);
        reconnect();
    }
    for (unsigned i = 0; i < 20; i++)
        close(events[i]);
    assert_int_equal(stub_count(&stub, "kick") + stub_count(&stub, "call") + stub_count(&stub, "memory"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STUB_TEST(questions_are_answered),
        STUB_TEST(settings_reach_the_device),
        STUB_TEST(ring_descriptors),
        STUB_TEST(refused_messages_are_answered),
        STUB_TEST(payloads_of_wrong_length_are_refused),
        STUB_TEST(features_gate_messages),
        STUB_TEST(questions_without_an_answer_end_the_connection),
        STUB_TEST(the_configuration_space),
        STUB_TEST(memory_tables),
        STUB_TEST(descriptors_that_do_not_fit_end_the_connection),
    };
    return served_stub_run(tests);
}
