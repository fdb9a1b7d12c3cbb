/*
 * Goal: the front end agrees with any server that follows the protocol, whatever features it offers, and names what is
 *       wrong with one that does not.
 * Method: a server in a thread with one fault a case.
 * If it fails: vblk-load hangs, crashes or misreports against some server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake_server.h"
#include "front_end.h"

#include <errno.h>
#include <glib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct fe_options options_for(const struct fake_server *server)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    options.socket_path = fake_path(server);
    options.timeout_ms = 300;
    return options;
}

static void finish(struct fake_server *server, struct front_end *fe)
{
    fe_destroy(fe);
    fake_stop(server);
    fake_free(server);
}

/* One read through queue 0; returns the status. */
static uint8_t read_block(struct front_end *fe)
{
    struct fe_queue *queue = fe_queue(fe, 0);
    uint16_t slot = fe_queue_take(queue);
    int count;
    fe_queue_prepare(queue, slot, VIRTIO_BLK_T_IN, 8, 4096, FE_FROM_DEVICE);
    fe_queue_submit(queue, slot);
    fe_queue_publish(queue);
    while ((count = fe_queue_reap(queue, &slot, 1)) == 0)
        assert_int_equal(fe_queue_wait(queue), 0);
    assert_int_equal(count, 1);
    uint8_t status = *queue->slots[slot].status;
    fe_queue_give(queue, slot);
    return status;
}

static void test_every_combination_of_features(void **state)
{
    const unsigned bits[] = { 28, 29, 12 };
    for (unsigned mask = 0; mask < 8; mask++)
        for (unsigned reply_ack = 0; reply_ack < 2; reply_ack++) {
            struct fake_options fake = fake_defaults;
            for (unsigned i = 0; i < 3; i++)
                if (mask >> i & 1)
                    fake.features &= ~(1ull << bits[i]);
            if (!reply_ack)
                fake.protocol_features &= ~(1ull << 3);
            struct fake_server *server = fake_start(&fake);
            struct fe_options options = options_for(server);
            options.queue_count = 2;
            struct front_end *fe = fe_create(&options);
            if (fe_open(fe) < 0)
                fail_msg("features %#llx: %s", (unsigned long long)fake.features, fe_error(fe));
            assert_int_equal(fe_info(fe)->config.capacity, fake.capacity_sectors);
            assert_int_equal(fe_info(fe)->queue_count_max, 4);
            assert_int_equal(read_block(fe), VIRTIO_BLK_S_OK);
            assert_int_equal(fe_stop(fe), 0);
            finish(server, fe);
        }
}

static void test_without_protocol_features(void **state)
{
    struct fake_server *server = fake_start(&fake_defaults);
    struct fe_options options = options_for(server);
    options.protocol_features = false;
    struct front_end *fe = fe_create(&options);
    assert_int_equal(fe_open(fe), 0);
    assert_false(fe_info(fe)->config_known);
    assert_int_equal(fe_info(fe)->protocol_features, 0);
    assert_int_equal(read_block(fe), VIRTIO_BLK_S_OK);
    assert_int_equal(fe_stop(fe), 0);
    finish(server, fe);
}

static void test_several_memory_regions(void **state)
{
    struct fake_server *server = fake_start(&fake_defaults);
    struct fe_options options = options_for(server);
    options.memory_region_count = 7;
    options.extra_bytes = 1 << 20;
    struct front_end *fe = fe_create(&options);
    assert_int_equal(fe_open(fe), 0);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(read_block(fe), VIRTIO_BLK_S_OK);
    assert_int_equal(fe_stop(fe), 0);
    finish(server, fe);
}

static void test_restart_goes_on_where_it_stopped(void **state)
{
    struct fake_server *server = fake_start(&fake_defaults);
    struct fe_options options = options_for(server);
    struct front_end *fe = fe_create(&options);
    assert_int_equal(fe_open(fe), 0);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(read_block(fe), VIRTIO_BLK_S_OK);
        assert_int_equal(fe_stop(fe), 0);
        assert_int_equal(fe_start(fe), 0);
    }
    fe_destroy(fe);
    fake_stop(server);
    assert_int_equal(fake_seen(server).request_count, 20);
    assert_int_equal(fake_seen(server).start_count, 21);
    fake_free(server);
}

/* What was in flight cannot be given to another server; where it can, see kill_loop.py. */
static void test_no_reconnect_without_a_region(void **state)
{
    struct fake_server *server = fake_start(&fake_defaults);
    struct fe_options options = options_for(server);
    options.protocol_wanted = 1ull << WIRE_P_INFLIGHT_SHMFD;
    struct front_end *fe = fe_create(&options);
    assert_int_equal(fe_open(fe), 0);
    assert_int_equal(fe_reconnect(fe), -ENOTSUP);
    assert_non_null(strstr(fe_error(fe), "may be lost"));
    assert_int_equal(read_block(fe), VIRTIO_BLK_S_OK); /* and nothing was changed */
    finish(server, fe);
}

static void test_faults_in_messages(void **state)
{
    const struct {
        enum fake_fault fault;
        uint32_t request;
        int error;
        const char *words;
    } cases[] = {
        { FAULT_NO_ANSWER, WIRE_GET_FEATURES, -ETIMEDOUT, "does not answer GET_FEATURES" },
        { FAULT_CLOSE, WIRE_GET_FEATURES, -ECONNRESET, "closed the connection at GET_FEATURES" },
        { FAULT_SHORT, WIRE_GET_FEATURES, -EPROTO, "has 4 bytes instead of 8" },
        { FAULT_OTHER, WIRE_GET_FEATURES, -EPROTO, "the answer to GET_FEATURES is SET_FEATURES" },
        { FAULT_HUGE, WIRE_GET_FEATURES, -EPROTO, "announces a message of 1073741824 bytes" },
        { FAULT_SHORT, WIRE_GET_CONFIG, -EPROTO, "GET_CONFIG" },
        { FAULT_CLOSE, WIRE_SET_OWNER, -ECONNRESET, "SET_OWNER" },
        { FAULT_REFUSE, WIRE_SET_FEATURES, -EREMOTEIO, "refuses SET_FEATURES" },
        { FAULT_REFUSE, WIRE_SET_MEM_TABLE, -EREMOTEIO, "refuses SET_MEM_TABLE" },
        { FAULT_REFUSE, WIRE_SET_VRING_KICK, -EREMOTEIO, "refuses SET_VRING_KICK" },
        { FAULT_NO_ANSWER, WIRE_SET_VRING_ENABLE, -ETIMEDOUT, "SET_VRING_ENABLE" },
        { FAULT_CLOSE, WIRE_GET_VRING_BASE, -ECONNRESET, "GET_VRING_BASE" },
        { FAULT_SHORT, WIRE_GET_VRING_BASE, -EPROTO, "GET_VRING_BASE" },
    };
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct fake_options fake = fake_defaults;
        fake.fault = cases[i].fault;
        fake.fault_request = cases[i].request;
        struct fake_server *server = fake_start(&fake);
        struct fe_options options = options_for(server);
        struct front_end *fe = fe_create(&options);
        int rc = fe_open(fe);
        if (rc == 0)
            rc = fe_stop(fe);
        if (rc != cases[i].error || !strstr(fe_error(fe), cases[i].words))
            fail_msg("case %u: %d '%s' instead of %d '%s'", i, rc, fe_error(fe), cases[i].error,
                     cases[i].words);
        assert_ptr_equal(strstr(fe_error(fe), fake_path(server)), fe_error(fe)); /* names the object first */
        assert_null(strchr(fe_error(fe), '\n'));
        finish(server, fe);
    }
}

static void test_what_cannot_be_agreed(void **state)
{
    const struct {
        uint64_t without;
        unsigned queues, slots, bytes, segment;
        const char *words;
        bool packed;
    } cases[] = {
        { 1ull << 32, 1, 32, 4096, 0, "no VIRTIO_F_VERSION_1" },
        { 0, 5, 32, 4096, 0, "use --queues=4 or fewer" },
        { 0, 1, 129, 4096, 0, "use --iodepth=128" },
        { 1ull << 28, 1, 43, 4096, 0, "use --iodepth=42" },
        { 0, 1, 1, 65536, 512, "does not fit into a queue" },
        { 0, 1, 32, 4096, 0, "offers no packed rings", true },
    };
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct fake_options fake = fake_defaults;
        fake.features &= ~cases[i].without;
        struct fake_server *server = fake_start(&fake);
        struct fe_options options = options_for(server);
        options.queue_count = cases[i].queues;
        options.layout.slot_count = cases[i].slots;
        options.layout.slot_bytes = cases[i].bytes;
        options.layout.segment_bytes = cases[i].segment;
        options.layout.packed = cases[i].packed;
        struct front_end *fe = fe_create(&options);
        assert_true(fe_connect(fe) == 0 && fe_negotiate(fe) < 0);
        if (!strstr(fe_error(fe), cases[i].words))
            fail_msg("case %u: '%s' does not say '%s'", i, fe_error(fe), cases[i].words);
        finish(server, fe);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_combination_of_features),
        cmocka_unit_test(test_without_protocol_features),
        cmocka_unit_test(test_several_memory_regions),
        cmocka_unit_test(test_restart_goes_on_where_it_stopped),
        cmocka_unit_test(test_no_reconnect_without_a_region),
        cmocka_unit_test(test_faults_in_messages),
        cmocka_unit_test(test_what_cannot_be_agreed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
