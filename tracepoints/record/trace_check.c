#include "trace_check.h"

#include "error.h"
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The head of a packet as lttng-ust writes it on a 64-bit machine, in its own byte order, and as the trace's
 * metadata declares it (packet.header, then packet.context). */
struct packet_head {
    uint32_t magic;
    uint8_t uuid[16];
    uint32_t stream_id;
    uint64_t stream_instance_id;
    uint64_t timestamp_begin;
    uint64_t timestamp_end;
    uint64_t content_size_bits;
    uint64_t packet_size_bits;
    uint64_t packet_seq_num;
    uint64_t events_discarded;
    uint32_t cpu_id;
} __attribute__((packed));

#define CTF_MAGIC 0xc1fc1fc1u

static bool fail(GError **error, const char *path)
{
    g_set_error(error, RECORD_ERROR, RECORD_ERROR_FAILED, "%s: cannot read the trace back: %s", path,
                g_strerror(errno));
    return false;
}

static bool check_stream(int fd, uint64_t size, enum record_channel channel, struct record_trace_facts *facts)
{
    struct packet_head head;
    uint64_t expected_seq_num = 0;

    for (uint64_t offset = 0; offset < size; offset += head.packet_size_bits / 8) {
        ssize_t length = pread(fd, &head, sizeof(head), offset);

        if (length < 0)
            return false;
        if (length < (ssize_t)sizeof(head) || head.magic != CTF_MAGIC ||
            head.packet_size_bits / 8 < sizeof(head) || head.content_size_bits > head.packet_size_bits ||
            offset + head.packet_size_bits / 8 > size) {
            facts->damaged = true;
            return true;
        }
        facts->has_events |= head.content_size_bits / 8 > sizeof(head);
        facts->lost[channel] |= head.events_discarded > 0 || head.packet_seq_num != expected_seq_num;
        expected_seq_num = head.packet_seq_num + 1;
    }
    return true;
}

static bool check_file(const char *path, const char *name, struct record_trace_facts *facts, GError **error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    bool done = true;

    if (fd < 0)
        return fail(error, path);
    if (fstat(fd, &status) != 0) {
        close(fd);
        return fail(error, path);
    }
    facts->bytes += status.st_size;
    if (strcmp(name, "metadata") == 0)
        facts->damaged |= status.st_size == 0;
    for (int channel = 0; channel < RECORD_CHANNEL_COUNT && done; channel++) {
        const char *prefix = record_channel_name(channel);

        if (g_str_has_prefix(name, prefix) && name[strlen(prefix)] == '_' && !g_str_has_suffix(name, ".idx"))
            done = check_stream(fd, status.st_size, channel, facts);
    }
    if (!done)
        fail(error, path);
    close(fd);
    return done;
}

static bool check_folder(const char *folder, struct record_trace_facts *facts, GError **error)
{
    GDir *dir = g_dir_open(folder, 0, NULL);
    const char *name;
    bool done = true;

    if (!dir)
        return fail(error, folder);
    while (done && (name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(folder, name, NULL);

        done = g_file_test(path, G_FILE_TEST_IS_DIR) ? check_folder(path, facts, error)
                                                     : check_file(path, name, facts, error);
    }
    g_dir_close(dir);
    return done;
}

bool record_trace_check(const char *folder, struct record_trace_facts *facts_out, GError **error)
{
    struct record_trace_facts facts = { 0 };

    if (!check_folder(folder, &facts, error))
        return false;
    *facts_out = facts;
    return true;
}

uint64_t record_trace_bytes(const char *folder)
{
    GDir *dir = g_dir_open(folder, 0, NULL);
    uint64_t bytes = 0;
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        struct stat status;

        if (*name != '.' && lstat(path, &status) == 0) /* hidden: the room set aside */
            bytes += S_ISDIR(status.st_mode) ? record_trace_bytes(path) : (uint64_t)status.st_size;
    }
    if (dir)
        g_dir_close(dir);
    return bytes;
}
