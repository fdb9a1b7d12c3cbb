/*
 * What measuring costs: requests a second through one queue against a server that polls and moves no data,
 *   bare:      the ring alone, without clock, histogram and control
 *   polling:   the whole engine with --poll
 *   sleeping:  the whole engine, sleeping on the call eventfd
 * and their ratios, as JSON. Each is measured several times in turn and the median is taken, so that a change of the
 * machine's speed meets all alike. The load generator is the bottleneck only where "polling" is far below "bare".
 *
 * Usage: bench_engine [SECONDS of each measurement]
 */
#include "engine.h"
#include "fake_server.h"
#include "histogram.h"
#include "random_order.h"

#include <stdio.h>
#include <stdlib.h>

#define DEPTH 32
#define ROUNDS 3

static bool next(struct load_worker *worker, uint16_t slot)
{
    fe_queue_prepare(worker->queue, slot, VIRTIO_BLK_T_IN, random_below(&worker->random, 1024) * 8, 4096,
                     FE_FROM_DEVICE);
    return true;
}

static void done(struct load_worker *worker, uint16_t slot, uint8_t status, uint64_t latency_ns)
{
    histogram_add(worker->state, latency_ns);
}

static double measure_engine(struct front_end *fe, struct load_options *options, bool poll, double seconds)
{
    struct histogram *latency = histogram_create();
    struct load_job job = {
        .next = next, .done = done, .title = "bench", .runtime_ns = (uint64_t)(seconds * 1e9)
    };
    options->poll = poll;
    struct load_engine *engine = load_engine_create(fe, options);
    load_engine_worker(engine, 0)->state = latency;
    if (load_engine_run(engine, &job) != LOAD_DONE) {
        fprintf(stderr, "bench_engine: %s\n", load_engine_error(engine));
        exit(1);
    }
    double rate = histogram_count(latency) * 1e9 / load_engine_elapsed_ns(engine);
    load_engine_destroy(engine);
    histogram_destroy(latency);
    return rate;
}

static double measure_bare(struct front_end *fe, double seconds)
{
    struct fe_queue *queue = fe_queue(fe, 0);
    uint16_t slots[DEPTH];
    uint64_t state = 1, count = 0;
    gint64 begin = g_get_monotonic_time(), end = begin + (gint64)(seconds * 1e6), now = begin;
    fe_queue_suppress(queue);
    for (bool stop = false; !stop || queue->in_flight;) {
        for (uint16_t slot; !stop && (slot = fe_queue_take(queue)) != FE_NO_SLOT;) {
            fe_queue_prepare(queue, slot, VIRTIO_BLK_T_IN, random_below(&state, 1024) * 8, 4096,
                             FE_FROM_DEVICE);
            fe_queue_submit(queue, slot);
        }
        fe_queue_publish(queue);
        int reaped = fe_queue_reap(queue, slots, DEPTH);
        for (int i = 0; i < reaped; i++)
            fe_queue_give(queue, slots[i]);
        /* Look at the clock every few thousand requests only. */
        if (reaped > 0 && count / 4096 != (count + reaped) / 4096) {
            now = g_get_monotonic_time();
            stop = now >= end;
        }
        count += reaped > 0 ? reaped : 0;
    }
    return count * 1e6 / (now - begin);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? g_ascii_strtod(argv[1], NULL) : 0.5;
    double bare[ROUNDS], polling[ROUNDS], sleeping[ROUNDS];
    struct fake_options fake = fake_defaults;
    fake.busy_poll = fake.null = true;
    struct fake_server *server = fake_start(&fake);
    struct load_options options = { .socket_path = (char *)fake_path(server),
                                    .queue_count = 1,
                                    .queue_size = 128,
                                    .iodepth = DEPTH,
                                    .block_bytes = 4096,
                                    .indirect = true,
                                    .event_idx = true,
                                    .reply_ack = true,
                                    .protocol_features = true,
                                    .drain = true,
                                    .timeout_ns = 10000000000ull,
                                    .cpus = g_array_new(FALSE, FALSE, sizeof(unsigned)) };
    struct fe_options fe_options = options_front_end(&options);
    struct front_end *fe = fe_create(&fe_options);
    if (fe_open(fe) < 0) {
        fprintf(stderr, "bench_engine: %s\n", fe_error(fe));
        return 1;
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        bare[i] = measure_bare(fe, seconds);
        polling[i] = measure_engine(fe, &options, true, seconds);
        sleeping[i] = measure_engine(fe, &options, false, seconds);
    }
    qsort(bare, ROUNDS, sizeof(double), compare);
    qsort(polling, ROUNDS, sizeof(double), compare);
    qsort(sleeping, ROUNDS, sizeof(double), compare);
    double b = bare[ROUNDS / 2], p = polling[ROUNDS / 2], s = sleeping[ROUNDS / 2];
    printf(
        "{ \"bare_iops\": %.0f, \"polling_iops\": %.0f, \"sleeping_iops\": %.0f, \"polling_to_bare\": %.2f, "
        "\"polling_to_sleeping\": %.2f }\n",
        b, p, s, p / b, p / s);
    fe_destroy(fe);
    fake_stop(server);
    fake_free(server);
    g_array_unref(options.cpus);
    return 0;
}
