/* The load itself: issue requests in a pattern for a time, report rates and latencies. */
#include "commands.h"
#include "engine.h"
#include "extent.h"
#include "histogram.h"
#include "random_order.h"
#include "report.h"

#include <endian.h>
#include <inttypes.h>

struct run {
    const struct load_options *options;
    struct extent extent;
};

/* One worker's part; nobody else touches it while the run goes on. */
struct run_state {
    struct run_counts counts;
    uint64_t left;        /* requests still to issue; UINT64_MAX without --number-ios */
    uint64_t first_block; /* of this queue's share, for sequential patterns */
    uint64_t share_count;
    uint64_t position;
};

static bool next(struct load_worker *worker, uint16_t slot)
{
    const struct run *run = worker->job->context;
    struct run_state *state = worker->state;
    const struct load_options *options = run->options;
    uint64_t block;

    if (state->left == 0)
        return false;
    state->left--;
    if (options->random) {
        block = random_below(&worker->random, run->extent.block_count);
    } else {
        block = state->first_block + state->position;
        if (++state->position == state->share_count)
            state->position = 0;
    }
    bool read = options->read_percent == 100 ||
                (options->read_percent > 0 && random_below(&worker->random, 100) < options->read_percent);
    fe_queue_prepare(worker->queue, slot, read ? VIRTIO_BLK_T_IN : VIRTIO_BLK_T_OUT,
                     extent_sector(&run->extent, block), run->extent.block_bytes,
                     read ? FE_FROM_DEVICE : FE_TO_DEVICE);
    return true;
}

static void done(struct load_worker *worker, uint16_t slot, uint8_t status, uint64_t latency_ns)
{
    const struct run *run = worker->job->context;
    struct run_state *state = worker->state;
    const struct fe_slot *request = &worker->queue->slots[slot];
    struct direction_counts *counts =
        request->type == VIRTIO_BLK_T_IN ? &state->counts.read : &state->counts.write;
    if (status != VIRTIO_BLK_S_OK) {
        if (state->counts.failed_count++ == 0) {
            state->counts.failed_sector = le64toh(request->header->sector);
            state->counts.failed_status = status;
            state->counts.failed_read = request->type == VIRTIO_BLK_T_IN;
        }
        return;
    }
    counts->io_bytes += run->extent.block_bytes;
    histogram_add(counts->latency, latency_ns);
}

static void fill_with_random(struct fe_queue *queue, uint64_t seed)
{
    for (unsigned i = 0; i < queue->layout.slot_count; i++)
        for (uint32_t at = 0; at + sizeof(uint64_t) <= queue->layout.slot_bytes; at += sizeof(uint64_t))
            *(uint64_t *)(queue->slots[i].data + at) = random_next(&seed);
}

static void init_state(struct run_state *state, const struct run *run, unsigned index)
{
    const struct load_options *options = run->options;
    unsigned count = options->queue_count;
    uint64_t blocks = run->extent.block_count;
    run_counts_init(&state->counts);
    state->left = UINT64_MAX;
    if (options->number_ios)
        state->left = options->number_ios / count + (index < options->number_ios % count);
    state->first_block = blocks / count * index;
    state->share_count = index + 1 < count ? blocks / count : blocks - state->first_block;
}

int command_run(const struct load_options *options)
{
    struct run run = { .options = options };
    struct fe_options fe_options = options_front_end(options);
    struct front_end *fe = fe_create(&fe_options);
    g_autofree char *problem = NULL;
    int status = EXIT_FAILED;

    if (fe_connect(fe) < 0 || fe_negotiate(fe) < 0) {
        report_failure(fe_error(fe));
        goto out;
    }
    if (!extent_init(&run.extent, options, fe_info(fe), options->read_percent < 100, &problem)) {
        report_failure(problem);
        goto out;
    }
    if (fe_map(fe) < 0 || fe_start(fe) < 0) {
        report_failure(fe_error(fe));
        goto out;
    }

    struct load_engine *engine = load_engine_create(fe, options);
    struct run_state *states = g_new0(struct run_state, options->queue_count);
    struct load_job job = { .next = next,
                            .done = done,
                            .context = &run,
                            .title = options->rw_name,
                            .request_count = options->number_ios,
                            .runtime_ns = options->runtime_ns,
                            .restarts = options->restarts };
    for (unsigned i = 0; i < options->queue_count; i++) {
        init_state(&states[i], &run, i);
        load_engine_worker(engine, i)->state = &states[i];
        if (options->read_percent < 100)
            fill_with_random(fe_queue(fe, i), options->seed + i);
    }
    enum load_outcome outcome = load_engine_run(engine, &job);
    if (outcome != LOAD_FAILED && load_engine_finish(engine) == LOAD_FAILED)
        outcome = LOAD_FAILED;

    struct run_report report = { .options = options,
                                 .info = fe_info(fe),
                                 .elapsed_ns = load_engine_elapsed_ns(engine),
                                 .restart_count = load_engine_restart_count(engine),
                                 .interrupted = outcome == LOAD_INTERRUPTED };
    run_counts_init(&report.total);
    report.queues = g_new0(const struct run_counts *, options->queue_count);
    for (unsigned i = 0; i < options->queue_count; i++) {
        struct fe_queue *queue = fe_queue(fe, i);
        states[i].counts.kick_count = queue->kick_count;
        states[i].counts.wait_count = queue->wait_count;
        states[i].counts.used_length_wrong_count = queue->used_length_wrong_count;
        run_counts_merge(&report.total, &states[i].counts);
        report.queues[i] = &states[i].counts;
    }
    /* What was completed is reported whatever ended the run. */
    report_run(&report);
    status = outcome == LOAD_FAILED ? report_failure(load_engine_error(engine)) : EXIT_DONE;
    if (report.total.failed_count > 0) {
        g_autofree char *text =
            g_strdup_printf("%s: %" PRIu64 " requests failed, the first a %s of sector %" PRIu64
                            " with status %u (%s; the server's log says why)",
                            options->socket_path, report.total.failed_count,
                            report.total.failed_read ? "read" : "write", report.total.failed_sector,
                            report.total.failed_status, report_status_name(report.total.failed_status));
        status = report_failure(text);
    }
    for (unsigned i = 0; i < options->queue_count; i++)
        run_counts_deinit(&states[i].counts);
    run_counts_deinit(&report.total);
    g_free(report.queues);
    g_free(states);
    load_engine_destroy(engine);
out:
    fe_destroy(fe);
    return status;
}
