/**
 * Reads a CTF trace's metadata file before babeltrace2 does: babeltrace2 2.0 loops for ever on a file that is cut
 * inside its first packet, and cannot say where a stream was damaged. Only what the reader needs is understood: the
 * text, the trace's UUID, which events are declared, and where the sizes and times of a packet stand.
 *
 *     struct metadata metadata;
 *     char *why = metadata_read(&metadata, "recording/ust/uid/0/64-bit");
 *     if (!why && metadata.layout.known) ...
 */
#ifndef ANALYSIS_INPUT_METADATA_H
#define ANALYSIS_INPUT_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "events/event.h"

enum packet_field {
    PACKET_MAGIC,
    PACKET_UUID, /**< 16 bytes */
    PACKET_STREAM_ID,
    PACKET_TIMESTAMP_BEGIN,
    PACKET_TIMESTAMP_END,
    PACKET_CONTENT_SIZE, /**< bits */
    PACKET_PACKET_SIZE,  /**< bits */
    PACKET_CPU_ID,
    PACKET_NUMBER, /**< packets of a stream count up from 0; may be missing */
    PACKET_STREAM_INSTANCE_ID,
    PACKET_FIELD_COUNT
};

#define PACKET_HEADER_BYTES_MAX 4096

/** Where the fields of packet header and packet context stand, from the start of a packet. */
struct packet_layout {
    bool known; /**< false: another tracer's layout; its packets cannot be walked */
    bool big_endian;
    unsigned
        header_bytes; /**< of packet header and packet context together, at most PACKET_HEADER_BYTES_MAX */
    struct {
        unsigned offset_bytes;
        unsigned size_bytes; /**< 0: the trace has no such field */
    } fields[PACKET_FIELD_COUNT];
};

struct metadata {
    bool has_uuid;
    uint8_t uuid[16];
    bool declared[EVENT_CLASS_COUNT];
    struct packet_layout layout;
};

/**
 * Read and check @folder's metadata file, as plain text or in packets.
 *
 * Returns:   NULL and @metadata_out is filled, or why the trace cannot be read: cause and remedy. The caller frees it.
 */
char *metadata_read(struct metadata *metadata_out, const char *folder);

/** The same for metadata in memory. */
char *metadata_parse(struct metadata *metadata_out, const uint8_t *bytes, size_t size_bytes);

#endif
