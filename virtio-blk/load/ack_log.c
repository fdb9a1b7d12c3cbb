/* Record of acknowledged writes: see ack_log.h. */
#include "ack_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ack_log {
    int fd;
};

static char *header_line(const struct ack_run *run)
{
    return g_strdup_printf("vblk-load-ack 1 seed=%" PRIu64 " bs=%" PRIu64 " offset=%" PRIu64 " size=%" PRIu64
                           "\n",
                           run->seed, run->block_bytes, run->offset_bytes, run->size_bytes);
}

static void set_error(GError **error_out, const char *path, const char *doing, const char *cause,
                      const char *remedy)
{
    g_set_error(error_out, G_FILE_ERROR, G_FILE_ERROR_FAILED, "%s: cannot %s: %s (%s)", path, doing, cause,
                remedy);
}

/* Write all of @text at once: O_APPEND keeps batches of several threads whole. */
static int append_text(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, text, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -errno;
        text += written;
        length -= written;
    }
    return fdatasync(fd) < 0 ? -errno : 0;
}

/* A line cut by a crash must not run into the next record: cut it off. */
static int drop_partial_line(int fd, const char *text, size_t length)
{
    size_t whole = length;
    while (whole > 0 && text[whole - 1] != '\n')
        whole--;
    return whole < length && ftruncate(fd, whole) < 0 ? -errno : 0;
}

struct ack_log *ack_log_open(const char *path, const struct ack_run *run, GError **error_out)
{
    g_autofree char *header = header_line(run);
    g_autofree char *text = NULL;
    gsize length = 0;
    int rc = 0;
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) {
        set_error(error_out, path, "open the acknowledgement log", g_strerror(errno),
                  "check folder and mode");
        return NULL;
    }
    if (!g_file_get_contents(path, &text, &length, error_out)) {
        close(fd);
        return NULL;
    }
    rc = drop_partial_line(fd, text, length);
    if (memchr(text, '\n', length) == NULL) {
        if (rc == 0)
            rc = append_text(fd, header, strlen(header));
    } else if (!g_str_has_prefix(text, header)) {
        set_error(error_out, path, "continue the acknowledgement log", "it belongs to another run",
                  "use the same --seed, --bs, --offset and --size, or another file");
        close(fd);
        return NULL;
    }
    if (rc < 0) {
        set_error(error_out, path, "write the acknowledgement log", g_strerror(-rc), "free some space");
        close(fd);
        return NULL;
    }
    struct ack_log *log = g_new0(struct ack_log, 1);
    log->fd = fd;
    return log;
}

int ack_log_append(struct ack_log *log, const struct ack_record *records, unsigned count)
{
    enum { LINE_BYTES_MAX = 2 * 20 + 3, LINES = 64 };
    char text[LINES * LINE_BYTES_MAX];
    for (unsigned next = 0; next < count;) {
        size_t length = 0;
        for (unsigned i = 0; i < LINES && next < count; i++, next++)
            length += g_snprintf(text + length, LINE_BYTES_MAX, "%" PRIu64 " %" PRIu64 "\n",
                                 records[next].block, records[next].generation);
        int rc = append_text(log->fd, text, length);
        if (rc < 0)
            return rc;
    }
    return 0;
}

void ack_log_close(struct ack_log *log)
{
    if (!log)
        return;
    close(log->fd);
    g_free(log);
}

gboolean ack_log_read(const char *path, const struct ack_run *run, uint32_t *generations,
                      uint64_t block_count, uint64_t *count_out, GError **error_out)
{
    g_autofree char *header = header_line(run);
    g_autofree char *line = NULL;
    size_t line_bytes = 0;
    uint64_t count = 0;
    ssize_t length;
    FILE *file = fopen(path, "re");
    if (!file) {
        set_error(error_out, path, "read the acknowledgement log", g_strerror(errno),
                  "name the file that the write phase made");
        return FALSE;
    }
    const char *problem = NULL;
    if (getline(&line, &line_bytes, file) < 0 || strcmp(line, header) != 0)
        problem = "it belongs to another run (use the same --seed, --bs, --offset and --size)";
    while (!problem && (length = getline(&line, &line_bytes, file)) > 0) {
        uint64_t block, generation;
        char end;
        if (line[length - 1] != '\n')
            break;
        if (sscanf(line, "%" SCNu64 " %" SCNu64 "%c", &block, &generation, &end) != 3 || end != '\n' ||
            block >= block_count || generation == 0 || generation > UINT32_MAX) {
            problem = "a line is no record (is it an acknowledgement log?)";
            break;
        }
        if (generation > generations[block])
            generations[block] = generation;
        count++;
    }
    if (!problem && ferror(file))
        problem = "it cannot be read to its end (check the file system)";
    fclose(file);
    if (problem) {
        g_set_error(error_out, G_FILE_ERROR, G_FILE_ERROR_FAILED,
                    "%s: cannot use the acknowledgement log: %s", path, problem);
        return FALSE;
    }
    *count_out = count;
    return TRUE;
}
