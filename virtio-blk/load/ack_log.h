/*
 * Record of acknowledged writes that survives whatever happens to server and load generator.
 *
 * A text file: one line that names the run ("vblk-load-ack 1 seed=.. bs=.. offset=.. size=.."), then
 * "BLOCK GENERATION" a line. A last line without its end was cut by a crash and does not count.
 *
 * Threads: ack_log_append() from any number; lines are never mixed.
 */
#ifndef LOAD_ACK_LOG_H
#define LOAD_ACK_LOG_H

#include <glib.h>
#include <stdint.h>

/* What makes block numbers of two runs comparable. */
struct ack_run {
    uint64_t seed;
    uint64_t block_bytes;
    uint64_t offset_bytes;
    uint64_t size_bytes;
};

struct ack_record {
    uint64_t block;
    uint64_t generation;
};

struct ack_log;

/**
 * Open @path for appending; an existing log of the same run is continued.
 *
 * Errors: NULL, @error_out says object, cause and remedy: not writable, another run's log, a broken line.
 */
struct ack_log *ack_log_open(const char *path, const struct ack_run *run, GError **error_out);

/** Append records and force them to disk. Returns 0 or -errno. */
int ack_log_append(struct ack_log *log, const struct ack_record *records, unsigned count);

void ack_log_close(struct ack_log *log);

/**
 * Read @path into @generations[block_count]: the highest acknowledged generation of each block, 0 for none.
 *
 * Returns: TRUE, and the number of records in *@count_out.
 */
gboolean ack_log_read(const char *path, const struct ack_run *run, uint32_t *generations,
                      uint64_t block_count, uint64_t *count_out, GError **error_out);

#endif
