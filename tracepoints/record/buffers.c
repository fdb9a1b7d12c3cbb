#include "buffers.h"

#include "error.h"

#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

enum {
    CORE_PIECES = 8,
    DETAIL_PIECES = 16,
};
#define PIECE_BYTES_MIN (16 * KIB)
#define DETAIL_BYTES_MIN (DETAIL_PIECES * PIECE_BYTES_MIN)
#define DETAIL_BYTES_MAX (16 * GIB)

static uint64_t free_memory_bytes(void)
{
    uint64_t bytes = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
    struct statvfs shm;

    if (statvfs("/dev/shm", &shm) == 0)
        bytes = MIN(bytes, (uint64_t)shm.f_bavail * shm.f_frsize);
    return bytes;
}

void record_buffers_default(struct record_buffers buffers[RECORD_CHANNEL_COUNT])
{
    uint64_t budget = free_memory_bytes() / 4;

    buffers[RECORD_CHANNEL_CORE] = (struct record_buffers){ 1 * MIB, CORE_PIECES };
    buffers[RECORD_CHANNEL_DETAIL] = (struct record_buffers){ 4 * MIB, DETAIL_PIECES };
    while (record_buffers_total_bytes(buffers) > budget &&
           buffers[RECORD_CHANNEL_CORE].piece_bytes > PIECE_BYTES_MIN) {
        for (int channel = 0; channel < RECORD_CHANNEL_COUNT; channel++)
            buffers[channel].piece_bytes /= 2;
    }
}

bool record_buffers_parse(const char *text, struct record_buffers buffers[RECORD_CHANNEL_COUNT],
                          GError **error)
{
    char *end;
    uint64_t bytes = g_ascii_strtoull(text, &end, 10);
    uint64_t unit = *end == 'K' ? KIB : *end == 'M' ? MIB : *end == 'G' ? GIB : 1;

    if (unit > 1)
        end++;
    if (!g_ascii_isdigit(*text) || *end || bytes > DETAIL_BYTES_MAX / unit ||
        bytes * unit < DETAIL_BYTES_MIN || (bytes * unit & (bytes * unit - 1))) {
        g_set_error(error, RECORD_ERROR, RECORD_ERROR_USAGE,
                    "--buffer-size: '%s' is no power of two from %uK to %uG, such as 64M", text,
                    (unsigned)(DETAIL_BYTES_MIN / KIB), (unsigned)(DETAIL_BYTES_MAX / GIB));
        return false;
    }
    buffers[RECORD_CHANNEL_DETAIL] = (struct record_buffers){ bytes * unit / DETAIL_PIECES, DETAIL_PIECES };
    return true;
}

uint64_t record_buffers_total_bytes(const struct record_buffers buffers[RECORD_CHANNEL_COUNT])
{
    uint64_t bytes = 0;

    for (int channel = 0; channel < RECORD_CHANNEL_COUNT; channel++)
        bytes += buffers[channel].piece_bytes * buffers[channel].piece_count;
    return bytes * sysconf(_SC_NPROCESSORS_CONF);
}
