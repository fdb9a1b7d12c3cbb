/**
 * Walks the packets of one stream file by their headers, to find how much of it is whole. Reads nothing else of a
 * packet, so that it costs little.
 *
 *     struct stream_summary summary;
 *     char *why = packets_walk(&summary, &metadata, "recording/.../channel0_1", PACKETS_ALL);
 *     if (!why && summary.damage) ...
 */
#ifndef ANALYSIS_INPUT_PACKETS_H
#define ANALYSIS_INPUT_PACKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "input/metadata.h"

#define PACKETS_ALL UINT64_MAX

struct stream_summary {
    uint64_t file_bytes;
    uint64_t packet_count; /**< whole packets, at most as many as were asked for */
    /**
     * Where the last whole packet ends; beyond file_bytes if only padding of it is missing.
     */
    uint64_t whole_bytes;
    uint64_t first_number;             /**< of the first packet, from 0 when recording begins; 0 if it has none */
    uint64_t begin_cycles, end_cycles; /**< of the whole packets; meaningless when there is none */
    uint64_t stream_class_id;          /**< of the first packet whose header could be read, else 0 */
    uint64_t stream_instance_id;       /**< the same; 0 also for a tracer that has none */
    int64_t cpu_id;                    /**< the same, else EVENT_UNKNOWN_ID */
    const char *damage;                /**< NULL: the file is whole; else what is wrong behind whole_bytes */
};

/**
 * Walk at most @packets_max packets of the file @path; those behind it count as damaged.
 *
 * Returns:   NULL, or why the file cannot be read. The caller frees it.
 */
char *packets_walk(struct stream_summary *summary_out, const struct metadata *metadata, const char *path,
                   uint64_t packets_max);

/**
 * How many packets LTTng's index of the stream file @path (index/NAME.idx beside it) knows of; -1 without an index.
 * More than the file holds: packets are missing at its end. None, and an empty file: nothing ever happened there, as in
 * a chunk of a rotated recording.
 */
int64_t packets_indexed(const char *path);

#endif
