/*
 * Goal: a run issues exactly what it was told, survives restarts with and without requests in flight, and ends with the
 *       right words whatever the server does, with everything counted that was completed.
 * Method: a server in a thread with one fault a case, polled and slept on, with and without EVENT_IDX.
 * If it fails: vblk-load hangs on a broken server, or reports a fault that is its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine.h"
#include "fake_server.h"
#include "random_order.h"

#include <string.h>

struct case_options {
    struct fake_options fake;
    struct load_options load;
    uint64_t requests; /* of each worker */
    unsigned restarts;
    uint64_t runtime_ns;
};

static struct case_options case_defaults(void)
{
    return (struct case_options){
        .fake = fake_defaults,
        .load = { .queue_count = 2,
                  .queue_size = 64,
                  .iodepth = 16,
                  .block_bytes = 4096,
                  .indirect = true,
                  .event_idx = true,
                  .reply_ack = true,
                  .protocol_features = true,
                  .drain = true,
                  .timeout_ns = 20000000000ull },
        .requests = 5000,
    };
}

struct worker_state {
    uint64_t left, done;
};

static bool next(struct load_worker *worker, uint16_t slot)
{
    struct worker_state *state = worker->state;
    if (state->left == 0)
        return false;
    state->left--;
    fe_queue_prepare(worker->queue, slot, VIRTIO_BLK_T_IN, random_below(&worker->random, 1024) * 8, 4096,
                     FE_FROM_DEVICE);
    return true;
}

static void done(struct load_worker *worker, uint16_t slot, uint8_t status, uint64_t latency_ns)
{
    struct worker_state *state = worker->state;
    if (status == VIRTIO_BLK_S_OK)
        state->done++;
}

/* Runs one case; returns how many requests completed. @error_out[512] gets the engine's words. */
static uint64_t run(const struct case_options *options, enum load_outcome *outcome_out, char *error_out)
{
    struct load_options load = options->load;
    struct worker_state states[8] = { 0 };
    struct fake_server *server = fake_start(&options->fake);
    load.cpus = g_array_new(FALSE, FALSE, sizeof(unsigned));
    load.socket_path = (char *)fake_path(server);
    struct fe_options fe_options = options_front_end(&load);
    struct front_end *fe = fe_create(&fe_options);
    if (fe_open(fe) < 0)
        fail_msg("%s", fe_error(fe));
    struct load_engine *engine = load_engine_create(fe, &load);
    struct load_job job = { .next = next,
                            .done = done,
                            .title = "test",
                            .restarts = options->restarts,
                            .request_count = options->requests * load.queue_count,
                            .runtime_ns = options->runtime_ns };
    for (unsigned i = 0; i < load.queue_count; i++) {
        states[i].left = options->requests;
        load_engine_worker(engine, i)->state = &states[i];
    }
    *outcome_out = load_engine_run(engine, &job);
    if (*outcome_out == LOAD_DONE) {
        assert_int_equal(load_engine_restart_count(engine), options->restarts);
        *outcome_out = load_engine_finish(engine);
    }
    g_strlcpy(error_out, load_engine_error(engine), 512);
    load_engine_destroy(engine);
    fe_destroy(fe);
    fake_stop(server);
    uint64_t completed = 0;
    for (unsigned i = 0; i < load.queue_count; i++)
        completed += states[i].done;
    assert_true(completed <= fake_seen(server).request_count);
    fake_free(server);
    g_array_unref(load.cpus);
    return completed;
}

static void test_every_request_completes_in_every_mode(void **state)
{
    for (unsigned mode = 0; mode < 16; mode++) {
        struct case_options options = case_defaults();
        enum load_outcome outcome;
        char error[512];
        options.load.poll = mode & 1;
        options.load.event_idx = mode & 2;
        options.load.indirect = mode & 4;
        options.restarts = mode & 8 ? 4 : 0;
        options.load.drain = !(mode & 1);
        if (!options.load.indirect)
            options.load.queue_size = 128;
        uint64_t completed = run(&options, &outcome, error);
        if (outcome != LOAD_DONE || completed != 10000)
            fail_msg("mode %u: %llu completed, %s", mode, (unsigned long long)completed, error);
    }
}

static void test_runtime_ends_a_run(void **state)
{
    struct case_options options = case_defaults();
    enum load_outcome outcome;
    char error[512];
    options.requests = UINT64_MAX / 4;
    options.runtime_ns = 50000000;
    assert_true(run(&options, &outcome, error) > 0);
    assert_int_equal(outcome, LOAD_DONE);
}

static void test_faults_of_the_server(void **state)
{
    const struct {
        enum fake_fault fault;
        const char *words, *or_words;
    } cases[] = {
        { FAULT_VANISH, "closed the connection during the run" },
        /* Noticed at once, or at the end if each time the request had just been issued again. */
        { FAULT_TWICE, "in flight", "completed more often than taken" },
        { FAULT_RUNAWAY, "ran ahead" },
        { FAULT_UNKNOWN_ID, "begins no request" },
        { FAULT_RING_ERROR, "broken ring" },
        { FAULT_SILENT, "none completed for" },
    };
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++)
        for (unsigned poll = 0; poll < 2; poll++) {
            struct case_options options = case_defaults();
            enum load_outcome outcome;
            char error[512];
            options.load.poll = poll;
            options.requests = 100000;
            options.fake.fault = cases[i].fault;
            options.fake.fault_after = 1000;
            if (cases[i].fault == FAULT_SILENT)
                options.load.timeout_ns = 300000000;
            uint64_t completed = run(&options, &outcome, error);
            if (outcome != LOAD_FAILED ||
                !(strstr(error, cases[i].words) || (cases[i].or_words && strstr(error, cases[i].or_words))))
                fail_msg("case %u: '%s' does not say '%s'", i, error, cases[i].words);
            /* All but what was in flight: two queues of 16. */
            assert_true(completed >= 1000 - 32);
        }
}

static void test_request_lost_over_a_restart_is_noticed(void **state)
{
    struct case_options options = case_defaults();
    enum load_outcome outcome;
    char error[512];
    options.load.drain = false;
    options.restarts = 1;
    options.fake.fault = FAULT_FORGET;
    options.fake.fault_after = 100;
    run(&options, &outcome, error);
    assert_int_equal(outcome, LOAD_FAILED);
    if (!strstr(error, "1 requests were taken and not completed"))
        fail_msg("'%s'", error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_request_completes_in_every_mode),
        cmocka_unit_test(test_runtime_ends_a_run),
        cmocka_unit_test(test_faults_of_the_server),
        cmocka_unit_test(test_request_lost_over_a_restart_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
