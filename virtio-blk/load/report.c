/* Results of a load run: see report.h. */
#include "report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

int report_failure(const char *text)
{
    fflush(stdout);
    fprintf(stderr, "vblk-load: %s\n", text);
    return EXIT_FAILED;
}

static const double percentiles[] = { 1,  5,  10, 20, 30,   40,   50,    60,   70,
                                      80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99 };

void run_counts_init(struct run_counts *counts)
{
    *counts = (struct run_counts){ 0 };
    counts->read.latency = histogram_create();
    counts->write.latency = histogram_create();
}

void run_counts_deinit(struct run_counts *counts)
{
    histogram_destroy(counts->read.latency);
    histogram_destroy(counts->write.latency);
}

static void direction_merge(struct direction_counts *into, const struct direction_counts *from)
{
    into->io_bytes += from->io_bytes;
    histogram_merge(into->latency, from->latency);
}

void run_counts_merge(struct run_counts *into, const struct run_counts *from)
{
    direction_merge(&into->read, &from->read);
    direction_merge(&into->write, &from->write);
    if (into->failed_count == 0) {
        into->failed_sector = from->failed_sector;
        into->failed_status = from->failed_status;
        into->failed_read = from->failed_read;
    }
    into->failed_count += from->failed_count;
    into->kick_count += from->kick_count;
    into->wait_count += from->wait_count;
    into->used_length_wrong_count += from->used_length_wrong_count;
}

const char *report_status_name(uint8_t status)
{
    switch (status) {
    case VIRTIO_BLK_S_OK:
        return "OK";
    case VIRTIO_BLK_S_IOERR:
        return "I/O error";
    case VIRTIO_BLK_S_UNSUPP:
        return "unsupported";
    case 0xff:
        return "no status written";
    default:
        return "no status that exists";
    }
}

static double per_second(uint64_t count, uint64_t elapsed_ns)
{
    return elapsed_ns ? (double)count * 1e9 / (double)elapsed_ns : 0;
}

static json_t *latency_json(const struct histogram *latency)
{
    json_t *object = json_pack("{sI sI sf sf sI}", "min", (json_int_t)histogram_min(latency), "max",
                               (json_int_t)histogram_max(latency), "mean", histogram_mean(latency), "stddev",
                               histogram_stddev(latency), "N", (json_int_t)histogram_count(latency));
    json_t *percentile = json_object();
    for (unsigned i = 0; i < G_N_ELEMENTS(percentiles); i++) {
        char key[16];
        g_snprintf(key, sizeof(key), "%.6f", percentiles[i]);
        json_object_set_new(percentile, key, json_integer(histogram_percentile(latency, percentiles[i])));
    }
    json_object_set_new(object, "percentile", percentile);
    return object;
}

static json_t *direction_json(const struct direction_counts *counts, uint64_t elapsed_ns)
{
    uint64_t ios = histogram_count(counts->latency);
    return json_pack("{sI sI sf sf so}", "total_ios", (json_int_t)ios, "io_bytes",
                     (json_int_t)counts->io_bytes, "iops", per_second(ios, elapsed_ns), "bw_bytes",
                     per_second(counts->io_bytes, elapsed_ns), "lat_ns", latency_json(counts->latency));
}

/* Both directions as one, with read and write beside it. */
static json_t *counts_json(const struct run_counts *counts, uint64_t elapsed_ns)
{
    struct direction_counts both = { .latency = histogram_create() };
    direction_merge(&both, &counts->read);
    direction_merge(&both, &counts->write);
    json_t *object = direction_json(&both, elapsed_ns);
    histogram_destroy(both.latency);
    json_object_set_new(object, "read", direction_json(&counts->read, elapsed_ns));
    json_object_set_new(object, "write", direction_json(&counts->write, elapsed_ns));
    json_object_set_new(object, "error_count", json_integer(counts->failed_count));
    json_object_set_new(object, "kick_count", json_integer(counts->kick_count));
    json_object_set_new(object, "wait_count", json_integer(counts->wait_count));
    json_object_set_new(object, "used_length_wrong_count", json_integer(counts->used_length_wrong_count));
    return object;
}

static void report_json(const struct run_report *report)
{
    const struct load_options *options = report->options;
    json_t *object = counts_json(&report->total, report->elapsed_ns);
    json_t *queues = json_array();
    for (unsigned i = 0; i < options->queue_count; i++)
        json_array_append_new(queues, counts_json(report->queues[i], report->elapsed_ns));
    json_object_set_new(object, "queues", queues);
    json_object_set_new(object, "elapsed_ns", json_integer(report->elapsed_ns));
    json_object_set_new(object, "restart_count", json_integer(report->restart_count));
    json_object_set_new(object, "interrupted", json_boolean(report->interrupted));
    json_object_set_new(object, "options",
                        json_pack("{ss ss sI si si si sb sb sb sb sI}", "socket-path", options->socket_path,
                                  "rw", options->rw_name, "bs", (json_int_t)options->block_bytes, "iodepth",
                                  (int)options->iodepth, "queues", (int)options->queue_count, "queue-size",
                                  (int)options->queue_size, "packed", (int)options->packed, "poll", (int)options->poll, "event-idx",
                                  (int)(report->info->features >> VIRTIO_RING_F_EVENT_IDX & 1), "indirect",
                                  (int)(report->info->features >> VIRTIO_RING_F_INDIRECT_DESC & 1), "seed",
                                  (json_int_t)options->seed));
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(object);
}

static void print_latency(const char *label, const struct histogram *latency)
{
    static const double shown[] = { 50, 90, 99, 99.9, 99.99 };
    printf("  %s latency (us): min %.1f, mean %.1f, max %.1f, stddev %.1f\n    percentiles:", label,
           histogram_min(latency) / 1e3, histogram_mean(latency) / 1e3, histogram_max(latency) / 1e3,
           histogram_stddev(latency) / 1e3);
    for (unsigned i = 0; i < G_N_ELEMENTS(shown); i++)
        printf("%s %g %% %.1f", i ? "," : "", shown[i], histogram_percentile(latency, shown[i]) / 1e3);
    putchar('\n');
}

static void print_direction(const char *label, const struct direction_counts *counts, uint64_t elapsed_ns)
{
    uint64_t ios = histogram_count(counts->latency);
    if (ios == 0)
        return;
    printf("  %s: %" PRIu64 " requests, %.0f requests/s, %.1f MiB/s\n", label, ios,
           per_second(ios, elapsed_ns), per_second(counts->io_bytes, elapsed_ns) / (1 << 20));
    print_latency(label, counts->latency);
}

static void report_text(const struct run_report *report)
{
    const struct load_options *options = report->options;
    const struct run_counts *total = &report->total;
    uint64_t ios = histogram_count(total->read.latency) + histogram_count(total->write.latency);
    printf("%s: %s, %u bytes, depth %u, %u queue%s, %s%s\n", options->socket_path, options->rw_name,
           options->block_bytes, options->iodepth, options->queue_count, options->queue_count == 1 ? "" : "s",
           options->poll ? "polling" : "sleeping", report->interrupted ? ", interrupted" : "");
    print_direction("read", &total->read, report->elapsed_ns);
    print_direction("write", &total->write, report->elapsed_ns);
    printf("  %.3f s, %" PRIu64 " requests, %.3f kicks and %.3f sleeps a request, %u restarts, %" PRIu64
           " errors\n",
           report->elapsed_ns / 1e9, ios, ios ? (double)total->kick_count / ios : 0,
           ios ? (double)total->wait_count / ios : 0, report->restart_count, total->failed_count);
    if (total->used_length_wrong_count)
        printf("  %" PRIu64
               " completions with a used length above what the request allows (a fault of the server)\n",
               total->used_length_wrong_count);
}

void report_run(const struct run_report *report)
{
    if (report->options->json)
        report_json(report);
    else
        report_text(report);
}
