/*
 * Goal: verify passes on a server that keeps its promises and fails on each way of breaking one.
 * Method: a server in a thread that loses, misplaces, tears or fails a single write; kills between the phases.
 * If it fails: verify's "nothing differs" means nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "commands.h"
#include "fake_server.h"

#include <glib/gstdio.h>
#include <string.h>

static struct load_options options;

static int setup(void **state)
{
    options = (struct load_options){
        .command = LOAD_VERIFY,
        .queue_count = 2,
        .queue_size = 64,
        .iodepth = 8,
        .block_bytes = 4096,
        .seed = 1,
        .indirect = true,
        .event_idx = true,
        .reply_ack = true,
        .protocol_features = true,
        .drain = true,
        .timeout_ns = 20000000000ull,
        .passes = 2,
        .write_phase = true,
        .read_phase = true,
        .cpus = g_array_new(FALSE, FALSE, sizeof(unsigned)),
    };
    return 0;
}

static int teardown(void **state)
{
    g_array_unref(options.cpus);
    return 0;
}

static int verify_against(enum fake_fault fault, struct fake_seen *seen_out)
{
    struct fake_options fake = fake_defaults;
    fake.fault = fault;
    fake.fault_after = 2500; /* a write of the second pass: each is 1,024 writes, a flush, 1,024 reads */
    struct fake_server *server = fake_start(&fake);
    options.socket_path = (char *)fake_path(server);
    int status = command_verify(&options);
    fake_stop(server);
    if (seen_out)
        *seen_out = fake_seen(server);
    fake_free(server);
    return status;
}

static void test_good_server(void **state)
{
    struct fake_seen seen;
    options.restarts = 2;
    assert_int_equal(verify_against(FAULT_NONE, &seen), EXIT_DONE);
    assert_int_equal(seen.request_count, 4 * 1024 + 2);
    assert_int_equal(seen.flush_count, 2);
    options.block_bytes = 65536;
    options.segment_bytes = 4096;
    assert_int_equal(verify_against(FAULT_NONE, NULL), EXIT_DONE);
}

static void test_one_broken_promise(void **state)
{
    const enum fake_fault faults[] = { FAULT_LOST_WRITE, FAULT_MISPLACED, FAULT_TORN,
                                       FAULT_IO_ERROR,   FAULT_NO_STATUS, FAULT_VANISH };
    for (unsigned i = 0; i < G_N_ELEMENTS(faults); i++)
        if (verify_against(faults[i], NULL) != EXIT_FAILED)
            fail_msg("fault %d was not noticed", faults[i]);
}

static void test_acknowledged_writes_of_a_run_that_was_cut(void **state)
{
    g_autofree char *directory = g_dir_make_tmp("verify-XXXXXX", NULL);
    options.ack_log_path = g_build_filename(directory, "acks", NULL);
    options.passes = 1;
    struct fake_options fake = fake_defaults;
    fake.fault = FAULT_VANISH;
    fake.fault_after = 500;
    struct fake_server *server = fake_start(&fake);
    options.socket_path = (char *)fake_path(server);
    options.read_phase = false;
    assert_int_equal(command_verify(&options), EXIT_FAILED);
    /* The server closed one connection and serves the next, with the disk as it is. */
    options.read_phase = true;
    options.write_phase = false;
    assert_int_equal(command_verify(&options), EXIT_DONE);
    fake_stop(server);
    fake_free(server);
    /* On an empty disk the same log proves the loss. */
    assert_int_equal(verify_against(FAULT_NONE, NULL), EXIT_FAILED);
    g_unlink(options.ack_log_path);
    g_rmdir(directory);
    g_clear_pointer(&options.ack_log_path, g_free);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_good_server, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_broken_promise, setup, teardown),
        cmocka_unit_test_setup_teardown(test_acknowledged_writes_of_a_run_that_was_cut, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
