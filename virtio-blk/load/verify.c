/*
 * Verify: stamp every block in a random order, flush, read all back in another order, check each sector.
 *
 * A pass writes every block once and ends before the next begins, so at any time a block has at most one
 * write in flight and its last acknowledged generation is known.
 */
#include "ack_log.h"
#include "commands.h"
#include "engine.h"
#include "extent.h"
#include "random_order.h"
#include "stamp.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MISMATCHES_SHOWN 10
/* Positions that a worker takes at once: enough to keep workers off each other's cache line. */
#define CHUNK 16

struct mismatch {
    uint64_t sector;
    uint64_t block;
    uint64_t generation_min;
    uint64_t generation_max;
    char found[160];
};

struct verify {
    const struct load_options *options;
    struct extent extent;
    struct load_engine *engine;
    struct random_order order; /* of the phase */
    uint64_t generation;       /* of the pass */
    uint64_t next_position;    /* workers, atomic */
    uint32_t *acknowledged;    /* [block_count] highest generation in the log; NULL without */
    uint32_t acknowledged_max;
    struct ack_log *ack_log; /* NULL without, or when only reading */
    bool flush_issued;       /* worker 0's, during a flush */

    /* Under lock. */
    pthread_mutex_t lock;
    struct mismatch mismatches[MISMATCHES_SHOWN];
    char problem[512]; /* why a worker could not go on */

    /* Sums of finished phases. */
    uint64_t acknowledged_count;
    uint64_t checked_count;  /* blocks */
    uint64_t mismatch_count; /* sectors */
    uint64_t failed_count;   /* requests */
    uint64_t failed_sector;
    uint8_t failed_status;
};

/* One worker's, during a phase. */
struct verify_state {
    uint64_t *block_of_slot;
    uint64_t position;
    uint64_t position_end;
    struct ack_record *pending; /* completed, not yet in the log */
    unsigned pending_count;
    uint64_t acknowledged_count;
    uint64_t checked_count;
    uint64_t failed_count;
    uint64_t failed_sector;
    uint8_t failed_status;
};

static bool next_block(struct load_worker *worker, uint16_t slot, uint64_t *block_out)
{
    struct verify *verify = worker->job->context;
    struct verify_state *state = worker->state;
    if (state->position == state->position_end) {
        /* Only the counter itself is shared, so no order is needed. */
        state->position = __atomic_fetch_add(&verify->next_position, CHUNK, __ATOMIC_RELAXED);
        state->position = MIN(state->position, verify->extent.block_count);
        state->position_end = MIN(state->position + CHUNK, verify->extent.block_count);
        if (state->position == state->position_end)
            return false;
    }
    *block_out = state->block_of_slot[slot] = random_order_at(&verify->order, state->position++);
    return true;
}

static bool note_status(struct load_worker *worker, uint16_t slot, uint8_t status)
{
    const struct verify *verify = worker->job->context;
    struct verify_state *state = worker->state;
    if (status == VIRTIO_BLK_S_OK)
        return true;
    if (state->failed_count++ == 0) {
        state->failed_sector = extent_sector(&verify->extent, state->block_of_slot[slot]);
        state->failed_status = status;
    }
    return false;
}

static bool write_next(struct load_worker *worker, uint16_t slot)
{
    const struct verify *verify = worker->job->context;
    const struct extent *extent = &verify->extent;
    uint64_t block;
    if (!next_block(worker, slot, &block))
        return false;
    struct stamp stamp = { .sector = extent_sector(extent, block),
                           .block = block,
                           .seed = verify->options->seed,
                           .generation = verify->generation };
    uint8_t *data = worker->queue->slots[slot].data;
    uint64_t first = stamp.sector;
    for (; stamp.sector < first + extent->block_sectors; stamp.sector++, data += STAMP_SECTOR_BYTES)
        stamp_write(data, &stamp);
    fe_queue_prepare(worker->queue, slot, VIRTIO_BLK_T_OUT, first, extent->block_bytes, FE_TO_DEVICE);
    return true;
}

static void write_done(struct load_worker *worker, uint16_t slot, uint8_t status, uint64_t latency_ns)
{
    const struct verify *verify = worker->job->context;
    struct verify_state *state = worker->state;
    if (!note_status(worker, slot, status))
        return;
    state->pending[state->pending_count++] =
        (struct ack_record){ .block = state->block_of_slot[slot], .generation = verify->generation };
}

static void write_batch_end(struct load_worker *worker)
{
    struct verify *verify = worker->job->context;
    struct verify_state *state = worker->state;
    int rc = verify->ack_log && state->pending_count
                 ? ack_log_append(verify->ack_log, state->pending, state->pending_count)
                 : 0;
    if (rc < 0) {
        pthread_mutex_lock(&verify->lock);
        g_snprintf(verify->problem, sizeof(verify->problem),
                   "%s: cannot write the acknowledgement log: %s (free some space)",
                   verify->options->ack_log_path, g_strerror(-rc));
        pthread_mutex_unlock(&verify->lock);
        worker->failed = true;
    } else {
        state->acknowledged_count += state->pending_count;
    }
    state->pending_count = 0;
}

static bool flush_next(struct load_worker *worker, uint16_t slot)
{
    struct verify *verify = worker->job->context;
    struct verify_state *state = worker->state;
    if (worker->index != 0 || verify->flush_issued)
        return false;
    verify->flush_issued = true;
    state->block_of_slot[slot] = 0;
    fe_queue_prepare(worker->queue, slot, VIRTIO_BLK_T_FLUSH, 0, 0, FE_TO_DEVICE);
    return true;
}

static void flush_done(struct load_worker *worker, uint16_t slot, uint8_t status, uint64_t latency_ns)
{
    (void)note_status(worker, slot, status);
}

static bool read_next(struct load_worker *worker, uint16_t slot)
{
    const struct verify *verify = worker->job->context;
    const struct extent *extent = &verify->extent;
    uint64_t block;
    if (!next_block(worker, slot, &block))
        return false;
    /* What the slot held before must not pass for what was read. */
    for (uint32_t at = 0; at < extent->block_bytes; at += STAMP_SECTOR_BYTES)
        memset(worker->queue->slots[slot].data + at, 0xa5, sizeof(uint64_t));
    fe_queue_prepare(worker->queue, slot, VIRTIO_BLK_T_IN, extent_sector(extent, block), extent->block_bytes,
                     FE_FROM_DEVICE);
    return true;
}

static void note_mismatch(struct verify *verify, const struct mismatch *mismatch)
{
    pthread_mutex_lock(&verify->lock);
    if (verify->mismatch_count < MISMATCHES_SHOWN)
        verify->mismatches[verify->mismatch_count] = *mismatch;
    verify->mismatch_count++;
    pthread_mutex_unlock(&verify->lock);
}

static void read_done(struct load_worker *worker, uint16_t slot, uint8_t status, uint64_t latency_ns)
{
    struct verify *verify = worker->job->context;
    struct verify_state *state = worker->state;
    const struct extent *extent = &verify->extent;
    if (!note_status(worker, slot, status))
        return;
    uint64_t block = state->block_of_slot[slot];
    /* After a crash, writes of the pass that was under way may have arrived without being acknowledged. */
    uint64_t low = verify->acknowledged ? verify->acknowledged[block] : verify->generation;
    uint64_t high = verify->acknowledged ? verify->acknowledged_max + 1ull : verify->generation;
    for (uint32_t i = 0; i < extent->block_sectors; i++) {
        struct mismatch mismatch = { .sector = extent_sector(extent, block) + i,
                                     .block = block,
                                     .generation_min = low,
                                     .generation_max = high };
        struct stamp expected = {
            .sector = mismatch.sector, .block = block, .seed = verify->options->seed, .generation = low
        };
        if (!stamp_check(worker->queue->slots[slot].data + i * STAMP_SECTOR_BYTES, &expected, high,
                         mismatch.found, sizeof(mismatch.found)))
            note_mismatch(verify, &mismatch);
    }
    state->checked_count++;
}

static enum load_outcome run_phase(struct verify *verify, struct load_job *job, uint64_t order_seed)
{
    unsigned count = verify->options->queue_count;
    struct verify_state *states = g_new0(struct verify_state, count);
    job->context = verify;
    verify->next_position = 0;
    verify->flush_issued = false;
    random_order_init(&verify->order, verify->extent.block_count, order_seed);
    for (unsigned i = 0; i < count; i++) {
        states[i].block_of_slot = g_new0(uint64_t, verify->options->iodepth);
        states[i].pending = g_new0(struct ack_record, verify->options->iodepth);
        load_engine_worker(verify->engine, i)->state = &states[i];
    }
    enum load_outcome outcome = load_engine_run(verify->engine, job);
    for (unsigned i = 0; i < count; i++) {
        if (verify->failed_count == 0) {
            verify->failed_sector = states[i].failed_sector;
            verify->failed_status = states[i].failed_status;
        }
        verify->failed_count += states[i].failed_count;
        verify->acknowledged_count += states[i].acknowledged_count;
        verify->checked_count += states[i].checked_count;
        g_free(states[i].block_of_slot);
        g_free(states[i].pending);
    }
    g_free(states);
    return outcome;
}

static enum load_outcome run_passes(struct verify *verify, bool flush)
{
    const struct load_options *options = verify->options;
    enum load_outcome outcome = LOAD_DONE;
    for (unsigned pass = 0; pass < options->passes && outcome == LOAD_DONE; pass++) {
        uint64_t seed = random_mix(options->seed ^ random_mix(verify->generation));
        struct load_job write_job = { .next = write_next,
                                      .done = write_done,
                                      .batch_end = write_batch_end,
                                      .title = "write",
                                      .request_count = verify->extent.block_count,
                                      .restarts = options->restarts };
        struct load_job flush_job = {
            .next = flush_next, .done = flush_done, .title = "flush", .request_count = 1
        };
        struct load_job read_job = { .next = read_next,
                                     .done = read_done,
                                     .title = "check",
                                     .request_count = verify->extent.block_count,
                                     .restarts = options->restarts };
        if (options->write_phase)
            outcome = run_phase(verify, &write_job, seed);
        if (options->write_phase && flush && outcome == LOAD_DONE)
            outcome = run_phase(verify, &flush_job, seed);
        if (options->read_phase && outcome == LOAD_DONE)
            outcome = run_phase(verify, &read_job, ~seed);
        if (pass + 1 < options->passes)
            verify->generation++;
    }
    return outcome;
}

/* Take over what an acknowledgement log says, and open it if we go on writing. */
static gboolean use_ack_log(struct verify *verify, char **error_out)
{
    const struct load_options *options = verify->options;
    struct ack_run run = { .seed = options->seed,
                           .block_bytes = options->block_bytes,
                           .offset_bytes = options->offset_bytes,
                           .size_bytes = verify->extent.block_count * options->block_bytes };
    g_autoptr(GError) error = NULL;
    uint64_t record_count;
    uint64_t block_count = verify->extent.block_count;
    g_autofree uint32_t *generations = g_try_new0(uint32_t, block_count);
    if (!generations) {
        *error_out =
            g_strdup_printf("%s: no memory for %" PRIu64 " blocks (use a larger --bs or a smaller --size)",
                            options->socket_path, block_count);
        return FALSE;
    }
    if (options->write_phase && !(verify->ack_log = ack_log_open(options->ack_log_path, &run, &error))) {
        *error_out = g_strdup(error->message);
        return FALSE;
    }
    if (!ack_log_read(options->ack_log_path, &run, generations, block_count, &record_count, &error)) {
        *error_out = g_strdup(error->message);
        return FALSE;
    }
    for (uint64_t i = 0; i < block_count; i++)
        verify->acknowledged_max = MAX(verify->acknowledged_max, generations[i]);
    /* A pass of our own leaves no doubt about any block; only a read of somebody else's does. */
    if (!options->write_phase)
        verify->acknowledged = g_steal_pointer(&generations);
    else if (options->generation == 0)
        verify->generation = verify->acknowledged_max + 1ull;
    return TRUE;
}

static void report_json(const struct verify *verify, enum load_outcome outcome)
{
    json_t *mismatches = json_array();
    for (uint64_t i = 0; i < MIN(verify->mismatch_count, MISMATCHES_SHOWN); i++) {
        const struct mismatch *m = &verify->mismatches[i];
        json_array_append_new(mismatches,
                              json_pack("{sI sI sI sI ss}", "sector", (json_int_t)m->sector, "block",
                                        (json_int_t)m->block, "generation_min", (json_int_t)m->generation_min,
                                        "generation_max", (json_int_t)m->generation_max, "found", m->found));
    }
    json_t *document = json_pack(
        "{sI sI sI sI sI sI sI si si sb so}", "block_count", (json_int_t)verify->extent.block_count,
        "block_bytes", (json_int_t)verify->extent.block_bytes, "generation", (json_int_t)verify->generation,
        "acknowledged_count", (json_int_t)verify->acknowledged_count, "checked_count",
        (json_int_t)verify->checked_count, "mismatch_count", (json_int_t)verify->mismatch_count,
        "error_count", (json_int_t)verify->failed_count, "restart_count",
        (int)load_engine_restart_count(verify->engine), "reconnect_count",
        (int)load_engine_reconnect_count(verify->engine), "complete", (int)(outcome == LOAD_DONE), "mismatches",
        mismatches);
    json_dumpf(document, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(document);
}

static void report_text(const struct verify *verify)
{
    const struct load_options *options = verify->options;
    printf("%s: %" PRIu64 " blocks of %u bytes, seed %" PRIu64 ", generation %" PRIu64 ": %" PRIu64
           " writes acknowledged, %" PRIu64 " blocks checked, %" PRIu64 " sectors differ, %" PRIu64
           " requests failed, %u restarts, %u reconnects\n",
           options->socket_path, verify->extent.block_count, verify->extent.block_bytes, options->seed,
           verify->generation, verify->acknowledged_count, verify->checked_count, verify->mismatch_count,
           verify->failed_count, load_engine_restart_count(verify->engine),
           load_engine_reconnect_count(verify->engine));
    for (uint64_t i = 0; i < MIN(verify->mismatch_count, MISMATCHES_SHOWN); i++) {
        const struct mismatch *m = &verify->mismatches[i];
        printf("  sector %" PRIu64 ": expected block %" PRIu64 " seed %" PRIu64 " generation %" PRIu64,
               m->sector, m->block, options->seed, m->generation_min);
        if (m->generation_max != m->generation_min)
            printf(" to %" PRIu64, m->generation_max);
        printf(", found %s\n", m->found);
    }
    if (verify->mismatch_count > MISMATCHES_SHOWN)
        printf("  and %" PRIu64 " more\n", verify->mismatch_count - MISMATCHES_SHOWN);
}

static int conclude(const struct verify *verify, enum load_outcome outcome)
{
    const char *path = verify->options->socket_path;
    g_autofree char *text = NULL;
    if (outcome == LOAD_FAILED)
        return report_failure(verify->problem[0] ? verify->problem : load_engine_error(verify->engine));
    if (verify->failed_count > 0)
        text = g_strdup_printf("%s: %" PRIu64 " requests failed, the first at sector %" PRIu64
                               " with status %u (the server's log says why)",
                               path, verify->failed_count, verify->failed_sector, verify->failed_status);
    else if (verify->mismatch_count > 0)
        text = g_strdup_printf("%s: %" PRIu64 " sectors differ from what was written (they are listed above; "
                                              "compare the disk image with the server stopped)",
                               path, verify->mismatch_count);
    else if (outcome == LOAD_INTERRUPTED)
        text = g_strdup_printf("%s: interrupted, not everything was checked (run it again to the end)", path);
    return text ? report_failure(text) : EXIT_DONE;
}

int command_verify(const struct load_options *options)
{
    struct verify verify = { .options = options,
                             .generation = options->generation ? options->generation : 1 };
    struct fe_options fe_options = options_front_end(options);
    struct front_end *fe = fe_create(&fe_options);
    g_autofree char *problem = NULL;
    int status = EXIT_FAILED;

    pthread_mutex_init(&verify.lock, NULL);
    if (fe_connect(fe) < 0 || fe_negotiate(fe) < 0) {
        report_failure(fe_error(fe));
        goto out;
    }
    if (!extent_init(&verify.extent, options, fe_info(fe), options->write_phase, &problem) ||
        (options->ack_log_path && !use_ack_log(&verify, &problem))) {
        report_failure(problem);
        goto out;
    }
    if (fe_map(fe) < 0 || fe_start(fe) < 0) {
        report_failure(fe_error(fe));
        goto out;
    }
    verify.engine = load_engine_create(fe, options);
    enum load_outcome outcome = run_passes(&verify, fe_info(fe)->features >> VIRTIO_BLK_F_FLUSH & 1);
    if (outcome != LOAD_FAILED && load_engine_finish(verify.engine) == LOAD_FAILED)
        outcome = LOAD_FAILED;
    if (options->json)
        report_json(&verify, outcome);
    else
        report_text(&verify);
    status = conclude(&verify, outcome);
    load_engine_destroy(verify.engine);
out:
    ack_log_close(verify.ack_log);
    g_free(verify.acknowledged);
    pthread_mutex_destroy(&verify.lock);
    fe_destroy(fe);
    return status;
}
