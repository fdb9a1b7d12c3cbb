#include "input/packets.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STREAM_MAGIC 0xC1FC1FC1u
#define PADDING_BYTES_MAX (1u << 30) /* a sub-buffer is never larger */

struct packet_header {
    uint64_t values[PACKET_FIELD_COUNT];
    const uint8_t *uuid;
};

static uint64_t read_integer(const uint8_t *bytes, unsigned size_bytes, bool big_endian)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < size_bytes; i++)
        value |= (uint64_t)bytes[i] << 8 * (big_endian ? size_bytes - 1 - i : i);
    return value;
}

static void decode(struct packet_header *header_out, const struct packet_layout *layout, const uint8_t *bytes)
{
    for (int field = 0; field < PACKET_FIELD_COUNT; field++) {
        const uint8_t *at = bytes + layout->fields[field].offset_bytes;

        if (field == PACKET_UUID)
            header_out->uuid = at;
        else
            header_out->values[field] =
                read_integer(at, layout->fields[field].size_bytes, layout->big_endian);
    }
}

/* What is wrong with a packet that begins at @offset; NULL: its content is whole. */
static const char *check(const struct packet_header *header, const struct metadata *metadata, uint64_t offset,
                         uint64_t file_bytes)
{
    uint64_t content_bits = header->values[PACKET_CONTENT_SIZE],
             packet_bits = header->values[PACKET_PACKET_SIZE];

    if (header->values[PACKET_MAGIC] != STREAM_MAGIC)
        return "a packet does not begin with the magic number";
    if (metadata->has_uuid && memcmp(header->uuid, metadata->uuid, sizeof(metadata->uuid)) != 0)
        return "a packet belongs to another trace";
    if (packet_bits % 8 || content_bits > packet_bits || content_bits / 8 < metadata->layout.header_bytes ||
        (packet_bits - content_bits) / 8 > PADDING_BYTES_MAX)
        return "a packet's sizes are impossible";
    if (header->values[PACKET_TIMESTAMP_END] < header->values[PACKET_TIMESTAMP_BEGIN] &&
        header->values[PACKET_TIMESTAMP_END] != 0) /* 0: its tracer crashed before it closed the packet */
        return "a packet ends before it begins";
    if (content_bits / 8 + (content_bits % 8 > 0) > file_bytes - offset)
        return "the file ends inside a packet";
    return NULL;
}

static ssize_t read_at(int fd, uint8_t *bytes, size_t size_bytes, uint64_t offset)
{
    size_t got = 0;

    while (got < size_bytes) {
        ssize_t count = pread(fd, bytes + got, size_bytes - got, offset + got);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        if (count == 0)
            break;
        got += count;
    }
    return got;
}

static char *walk(struct stream_summary *summary, const struct metadata *metadata, int fd,
                  uint64_t packets_max)
{
    const struct packet_layout *layout = &metadata->layout;
    uint8_t bytes[PACKET_HEADER_BYTES_MAX];
    struct packet_header header = { .uuid = NULL };

    while (summary->whole_bytes < summary->file_bytes) {
        ssize_t got = read_at(fd, bytes, layout->header_bytes, summary->whole_bytes);
        bool first = summary->packet_count == 0;

        if (got < 0)
            return g_strdup_printf("cannot be read: %s", g_strerror(-got));
        if (got < (ssize_t)layout->header_bytes) {
            summary->damage = "the file ends inside a packet";
            return NULL;
        }
        decode(&header, layout, bytes);
        summary->damage = check(&header, metadata, summary->whole_bytes, summary->file_bytes);
        if (!summary->damage && summary->packet_count == packets_max)
            summary->damage = "a packet's events cannot be decoded";
        if (first && header.values[PACKET_MAGIC] == STREAM_MAGIC) {
            summary->stream_class_id = header.values[PACKET_STREAM_ID];
            summary->stream_instance_id = header.values[PACKET_STREAM_INSTANCE_ID];
            if (layout->fields[PACKET_CPU_ID].size_bytes)
                summary->cpu_id = header.values[PACKET_CPU_ID];
        }
        if (summary->damage)
            return NULL;
        if (first) {
            summary->begin_cycles = header.values[PACKET_TIMESTAMP_BEGIN];
            summary->first_number = header.values[PACKET_NUMBER];
        }
        summary->end_cycles = MAX(header.values[PACKET_TIMESTAMP_BEGIN], header.values[PACKET_TIMESTAMP_END]);
        summary->whole_bytes += header.values[PACKET_PACKET_SIZE] / 8;
        summary->packet_count++;
    }
    if (summary->whole_bytes > summary->file_bytes)
        summary->damage = "the file ends inside a packet";
    return NULL;
}

/* LTTng's index header: magic, major, minor, bytes of an entry; big-endian. */
#define INDEX_MAGIC 0xC1F1DCC1u

static int64_t count_entries(int fd)
{
    uint32_t header[4];
    struct stat info;
    uint32_t entry_bytes;

    if (fstat(fd, &info) < 0 || read_at(fd, (uint8_t *)header, sizeof(header), 0) != sizeof(header) ||
        GUINT32_FROM_BE(header[0]) != INDEX_MAGIC)
        return -1;
    entry_bytes = GUINT32_FROM_BE(header[3]);
    return entry_bytes > 0 ? (info.st_size - (int64_t)sizeof(header)) / entry_bytes : -1;
}

int64_t packets_indexed(const char *path)
{
    char *folder = g_path_get_dirname(path), *name = g_path_get_basename(path);
    char *index = g_strdup_printf("%s/index/%s.idx", folder, name);
    int fd = open(index, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int64_t count = -1;

    if (fd >= 0) {
        count = count_entries(fd);
        close(fd);
    }
    g_free(index);
    g_free(name);
    g_free(folder);
    return count;
}

static void compare_with_index(struct stream_summary *summary, const struct metadata *metadata,
                               const char *path)
{
    int64_t indexed = packets_indexed(path);

    if (summary->file_bytes == 0 && indexed != 0)
        summary->damage = "the file is empty";
    else if (metadata->layout.known && indexed > (int64_t)summary->packet_count)
        summary->damage = "its index knows of packets that are missing";
}

char *packets_walk(struct stream_summary *summary_out, const struct metadata *metadata, const char *path,
                   uint64_t packets_max)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    char *why;

    if (fd < 0)
        return g_strdup_printf("cannot be opened: %s (check permissions)", g_strerror(errno));
    memset(summary_out, 0, sizeof(*summary_out));
    summary_out->cpu_id = EVENT_UNKNOWN_ID;
    if (fstat(fd, &info) < 0) {
        why = g_strdup_printf("cannot be read: %s", g_strerror(errno));
    } else {
        summary_out->file_bytes = info.st_size;
        why = metadata->layout.known ? walk(summary_out, metadata, fd, packets_max) : NULL;
    }
    close(fd);
    if (!why && !summary_out->damage)
        compare_with_index(summary_out, metadata, path);
    return why;
}
