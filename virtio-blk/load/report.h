/* What the program says: results of a load run as text or in JSON with fio's key names, and failures. */
#ifndef LOAD_REPORT_H
#define LOAD_REPORT_H

#include "front_end.h"
#include "histogram.h"
#include "options.h"

enum exit_status { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/** "vblk-load: " and the text on stderr. Returns EXIT_FAILED. */
int report_failure(const char *text);

struct direction_counts {
    uint64_t io_bytes;
    struct histogram *latency; /* ns; its count is the number of requests */
};

struct run_counts {
    struct direction_counts read;
    struct direction_counts write;
    uint64_t failed_count;
    uint64_t failed_sector; /* of the first failure */
    uint8_t failed_status;
    bool failed_read;
    uint64_t kick_count;
    uint64_t wait_count;
    uint64_t used_length_wrong_count;
};

void run_counts_init(struct run_counts *counts);
void run_counts_deinit(struct run_counts *counts);
void run_counts_merge(struct run_counts *into, const struct run_counts *from);

struct run_report {
    const struct load_options *options;
    const struct fe_info *info;
    struct run_counts total;
    const struct run_counts **queues; /* [options->queue_count] */
    uint64_t elapsed_ns;
    unsigned restart_count;
    bool interrupted;
};

/** Print to stdout, as text or JSON. */
void report_run(const struct run_report *report);

/** "I/O error" for VIRTIO_BLK_S_IOERR and so on. */
const char *report_status_name(uint8_t status);

#endif
