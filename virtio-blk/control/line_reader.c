#include "control/line_reader.h"

#include <errno.h>
#include <glib.h>
#include <string.h>
#include <sys/socket.h>

void vblk_line_reader_init(struct vblk_line_reader *reader)
{
    *reader = (struct vblk_line_reader){ 0 };
}

void vblk_line_reader_deinit(struct vblk_line_reader *reader)
{
    g_free(reader->bytes);
}

ssize_t vblk_line_reader_fill(struct vblk_line_reader *reader, int fd)
{
    ssize_t bytes;

    if (!reader->bytes)
        reader->bytes = g_malloc(VBLK_LINE_MAX + 1);
    memmove(reader->bytes, reader->bytes + reader->begin, reader->end - reader->begin);
    reader->end -= reader->begin;
    reader->begin = 0;
    do
        bytes = recv(fd, reader->bytes + reader->end, VBLK_LINE_MAX + 1 - reader->end, MSG_DONTWAIT);
    while (bytes < 0 && errno == EINTR);
    if (bytes < 0)
        return -errno;
    reader->end += bytes;
    return bytes;
}

enum vblk_line vblk_line_reader_next(struct vblk_line_reader *reader, const char **line_out, size_t *length_out)
{
    while (reader->end > reader->begin) {
        const char *line = reader->bytes + reader->begin;
        size_t length = reader->end - reader->begin;
        const char *newline = memchr(line, '\n', length);
        bool skipping = reader->skipping;

        if (newline) {
            reader->begin += newline + 1 - line;
            reader->skipping = false;
            if (skipping)
                continue;
            *line_out = line;
            *length_out = newline - line;
            return VBLK_LINE_WHOLE;
        }
        if (!skipping && length <= VBLK_LINE_MAX)
            return VBLK_LINE_NONE;
        reader->begin = reader->end;
        reader->skipping = true;
        if (!skipping)
            return VBLK_LINE_TOO_LONG;
    }
    return VBLK_LINE_NONE;
}

enum vblk_line vblk_line_reader_rest(struct vblk_line_reader *reader, const char **line_out, size_t *length_out)
{
    if (reader->skipping || reader->end == reader->begin)
        return VBLK_LINE_NONE;
    *line_out = reader->bytes + reader->begin;
    *length_out = reader->end - reader->begin;
    reader->begin = reader->end;
    return VBLK_LINE_WHOLE;
}
