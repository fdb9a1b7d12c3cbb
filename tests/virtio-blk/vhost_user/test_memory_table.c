/*
 * Goal:   guest memory that comes and goes region by region is the device's at once, and what cannot be is refused and
 *         changes nothing.
 * Method: a session with a stub device; regions added and removed in right and wrong ways, mixed with whole tables; what
 *         the device was given, mappings and descriptors are counted.
 * Broken: a guest whose memory grows loses requests, or memory and descriptors of guests stay with the process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <errno.h>
#include <sys/eventfd.h>

#include "front_end_wire.h"
#include "served_stub.h"

#define MIB UINT64_C(0x100000)
#define USER UINT64_C(0x700000000000)

static int memory;

static unsigned count_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned count = 0;
    while (fgets(line, sizeof line, maps))
        count += strstr(line, "memfd:guest") != NULL;
    fclose(maps);
    return count;
}

static int setup(void **state)
{
    memory = memfd_create("guest", MFD_CLOEXEC);
    return ftruncate(memory, 8 * MIB) || served_stub_setup(state);
}

static int teardown(void **state)
{
    int failed = served_stub_teardown(state);
    unsigned mappings = count_mappings();
    close(memory);
    if (mappings)
        print_error("%u mappings left\n", mappings);
    return failed || mappings;
}

/* The region number @index of 1 MiB. */
static struct vhost_user_memory_slot slot_at(unsigned index)
{
    return (struct vhost_user_memory_slot){
        .region = { (index + 1) * MIB, MIB, USER + index * MIB, index % 8 * MIB }
    };
}

static int64_t add(unsigned index)
{
    struct vhost_user_memory_slot slot = slot_at(index);
    return wire_ask(fd, VHOST_USER_ADD_MEM_REG, &slot, sizeof slot, &memory, 1);
}

static int64_t take_away(unsigned index, unsigned fd_count)
{
    struct vhost_user_memory_slot slot = slot_at(index);
    return wire_ask(fd, VHOST_USER_REM_MEM_REG, &slot, sizeof slot, &memory, fd_count);
}

static bool is_there(uint64_t user_address, uint64_t size_bytes)
{
    bool found = vhost_user_memory_map_user(stub.map, user_address, size_bytes);
    /* The session's thread lets go of the map when we hang up: an answer in between puts our look before that. */
    assert_true(wire_ask(fd, VHOST_USER_GET_MAX_MEM_SLOTS, NULL, 0, NULL, 0) > 0);
    return found;
}

static void regions_come_and_go(void **state)
{
    assert_int_equal(wire_ask(fd, VHOST_USER_GET_MAX_MEM_SLOTS, NULL, 0, NULL, 0), VHOST_USER_REGIONS_MAX);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(add(i), 0);
    assert_int_equal(stub_count(&stub, "memory more"), 3);
    assert_int_equal(count_mappings(), 3);
    assert_true(is_there(USER + MIB, 1));
    assert_int_equal(take_away(1, 0), 0);
    assert_int_equal(stub_count(&stub, "memory new"), 1);
    assert_false(is_there(USER + MIB, 1));
    assert_true(is_there(USER + 2 * MIB, 1));
    /* Some front ends send a descriptor along; teardown finds it if it stays open. */
    assert_int_equal(take_away(0, 1), 0);
    assert_int_equal(count_mappings(), 1);
    assert_int_equal(take_away(2, 0), 0);
    assert_int_equal(stub_count(&stub, "memory gone"), 1);
    assert_null(stub.map);
    assert_int_equal(add(1), 0);
    assert_true(is_there(USER + MIB, 1));
}

static void tables_and_regions_mix(void **state)
{
    struct vhost_user_memory_table table = { .count = 2, .regions = { slot_at(0).region, slot_at(1).region } };
    int fds[2] = { memory, memory };
    assert_int_equal(add(5), 0);
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_MEM_TABLE, &table, 8 + 64, fds, 2), 0);
    assert_int_equal(count_mappings(), 2);
    assert_int_equal(take_away(5, 0), 1); /* the table has replaced it */
    assert_int_equal(take_away(0, 0), 0);
    assert_int_equal(add(5), 0);
    assert_true(is_there(USER + 5 * MIB, 1));
    assert_true(is_there(USER + MIB, 1));
    assert_false(is_there(USER, 1));
    /* What the owner leaves behind is nobody's. */
    assert_int_equal(wire_ask(fd, VHOST_USER_RESET_OWNER, NULL, 0, NULL, 0), 0);
    assert_int_equal(take_away(5, 0), 1);
}

static void refusals_change_nothing(void **state)
{
    struct vhost_user_memory_slot slot = slot_at(0);
    assert_int_equal(take_away(0, 0), 1);
    assert_int_equal(take_away(0, 1), 1);
    assert_int_equal(add(0), 0);
    assert_int_equal(add(0), 1);
    slot.region.user_address += 1;
    assert_int_equal(wire_ask(fd, VHOST_USER_ADD_MEM_REG, &slot, sizeof slot, &memory, 1), 1);
    assert_int_equal(wire_ask(fd, VHOST_USER_REM_MEM_REG, &slot, sizeof slot, NULL, 0), 1);
    slot = slot_at(9);
    slot.region.mmap_offset_bytes = 8 * MIB;
    assert_int_equal(wire_ask(fd, VHOST_USER_ADD_MEM_REG, &slot, sizeof slot, &memory, 1), 1);
    /* The device's own refusal: the region is not there. */
    stub_set_fail(&stub, -ENOMEM);
    assert_int_equal(add(1), 1);
    assert_int_equal(take_away(0, 0), 1);
    stub_set_fail(&stub, 0);
    assert_int_equal(count_mappings(), 1);
    assert_int_equal(take_away(1, 0), 1);
    assert_int_equal(take_away(0, 0), 0);
    /* Payloads of wrong length, without descriptors, leave the connection alone. */
    for (uint32_t size = 0; size < 48; size += 8) {
        if (size == sizeof slot)
            continue;
        assert_int_equal(wire_ask(fd, VHOST_USER_ADD_MEM_REG, &slot, size, NULL, 0), 1);
        assert_int_equal(wire_ask(fd, VHOST_USER_REM_MEM_REG, &slot, size, NULL, 0), 1);
    }
    assert_int_equal(add(1), 0);
}

static void descriptors_that_do_not_fit_end_the_connection(void **state)
{
    const struct {
        uint32_t request, size_bytes;
        unsigned fd_count;
    } cases[] = { { VHOST_USER_ADD_MEM_REG, 40, 0 },       { VHOST_USER_ADD_MEM_REG, 40, 2 },
                  { VHOST_USER_ADD_MEM_REG, 39, 1 },       { VHOST_USER_REM_MEM_REG, 40, 2 },
                  { VHOST_USER_REM_MEM_REG, 41, 1 },       { VHOST_USER_GET_MAX_MEM_SLOTS, 0, 1 },
                  { VHOST_USER_GET_MAX_MEM_SLOTS, 8, 0 } };
    struct vhost_user_memory_slot slot = slot_at(0);
    int fds[2] = { memory, memory };
    uint8_t payload[64] = { 0 };
    memcpy(payload, &slot, sizeof slot);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(add(3), 0); /* goes with its connection */
        wire_send(fd, cases[i].request, VHOST_USER_VERSION, payload, cases[i].size_bytes, fds, cases[i].fd_count);
        assert_true(wire_ended(fd));
        close(fd);
        fd = stub_connect(path);
        wire_negotiate(fd, STUB_FEATURES);
    }
    assert_int_equal(stub_count(&stub, "memory more"), sizeof cases / sizeof cases[0]);
}

static void not_without_the_feature(void **state)
{
    close(fd);
    fd = stub_connect(path);
    uint64_t ack_only = 1 << VHOST_USER_PROTOCOL_F_REPLY_ACK;
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_PROTOCOL_FEATURES, &ack_only, sizeof ack_only, NULL, 0), 0);
    assert_int_equal(add(0), 1);
    assert_int_equal(take_away(0, 0), 1);
    wire_send(fd, VHOST_USER_GET_MAX_MEM_SLOTS, VHOST_USER_VERSION, NULL, 0, NULL, 0);
    assert_true(wire_ended(fd));
    assert_int_equal(stub_count(&stub, "memory"), 0);
}

static void as_many_as_there_are_slots(void **state)
{
    for (unsigned i = 0; i < VHOST_USER_REGIONS_MAX; i++)
        assert_int_equal(add(i), 0);
    assert_int_equal(add(VHOST_USER_REGIONS_MAX), 1);
    assert_int_equal(take_away(100, 0), 0);
    assert_int_equal(add(VHOST_USER_REGIONS_MAX), 0);
    assert_true(is_there(USER + VHOST_USER_REGIONS_MAX * MIB, MIB));
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(regions_come_and_go),
        TEST(tables_and_regions_mix),
        TEST(refusals_change_nothing),
        TEST(descriptors_that_do_not_fit_end_the_connection),
        TEST(not_without_the_feature),
        TEST(as_many_as_there_are_slots),
    };
    return served_stub_run(tests);
}
