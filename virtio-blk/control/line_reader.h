/**
 * Lines out of a stream of bytes, of bounded length whatever the other side sends.
 *
 *     struct vblk_line_reader reader;
 *     vblk_line_reader_init(&reader);
 *     while (vblk_line_reader_fill(&reader, fd) > 0)
 *         while ((kind = vblk_line_reader_next(&reader, &line, &length)) != VBLK_LINE_NONE)
 *             ...
 *     kind = vblk_line_reader_rest(&reader, &line, &length);     // what came without an end of line
 *     vblk_line_reader_deinit(&reader);
 */
#ifndef VBLK_CONTROL_LINE_READER_H
#define VBLK_CONTROL_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/** Bytes of a line, without its end. */
#define VBLK_LINE_MAX 65536

struct vblk_line_reader {
    char *bytes; /**< VBLK_LINE_MAX + 1 of them, from the first fill on */
    size_t begin, end;
    bool skipping; /**< the line was too long, and its end has not come */
};

enum vblk_line {
    VBLK_LINE_NONE,     /**< fill again */
    VBLK_LINE_WHOLE,    /**< without its end; valid until the next fill. May be empty */
    VBLK_LINE_TOO_LONG, /**< told once; what belongs to it is dropped */
};

void vblk_line_reader_init(struct vblk_line_reader *reader);
void vblk_line_reader_deinit(struct vblk_line_reader *reader);
/** Receive once, when vblk_line_reader_next() has said none. Returns bytes, 0 at the end, -errno (-EAGAIN: not now). */
ssize_t vblk_line_reader_fill(struct vblk_line_reader *reader, int fd);
enum vblk_line vblk_line_reader_next(struct vblk_line_reader *reader, const char **line_out, size_t *length_out);
/** After the end of the stream: what is left, as a line, or none. */
enum vblk_line vblk_line_reader_rest(struct vblk_line_reader *reader, const char **line_out, size_t *length_out);

#endif
