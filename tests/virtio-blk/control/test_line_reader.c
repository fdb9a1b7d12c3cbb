/*
 * Goal:   lines come out as they were sent however they were cut, and no line takes more memory than there is for one.
 * Method: a socket pair; the same text sent byte by byte, at once and in odd pieces; lines at, below and above the limit.
 * If it fails: a client's commands are lost or mixed up, or a hostile client uses up memory.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/line_reader.h"

struct pair {
    int ours, theirs;
    struct vblk_line_reader reader;
};

static void open_pair(struct pair *pair)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    pair->ours = fds[0];
    pair->theirs = fds[1];
    vblk_line_reader_init(&pair->reader);
}

static void close_pair(struct pair *pair)
{
    close(pair->ours);
    vblk_line_reader_deinit(&pair->reader);
}

static void send_all(struct pair *pair, const char *bytes, size_t length)
{
    assert_int_equal(send(pair->theirs, bytes, length, 0), length);
}

static void expect(struct pair *pair, enum vblk_line kind, const char *text)
{
    const char *line;
    size_t length;

    assert_int_equal(vblk_line_reader_next(&pair->reader, &line, &length), kind);
    if (kind == VBLK_LINE_WHOLE) {
        assert_int_equal(length, strlen(text));
        assert_memory_equal(line, text, length);
    }
}

static void test_any_cut(void **state)
{
    static const char text[] = "first\n\nthird line\nlast";

    (void)state;
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        struct pair pair;
        char *seen = calloc(1, sizeof(text) + 8);
        const char *line;
        size_t length;

        open_pair(&pair);
        assert_int_equal(vblk_line_reader_fill(&pair.reader, pair.ours), -EAGAIN);
        for (size_t at = 0; at < strlen(text); at += piece) {
            size_t part = strlen(text) - at < piece ? strlen(text) - at : piece;

            send_all(&pair, text + at, part);
            assert_int_equal(vblk_line_reader_fill(&pair.reader, pair.ours), part);
            while (vblk_line_reader_next(&pair.reader, &line, &length) == VBLK_LINE_WHOLE) {
                strncat(seen, line, length);
                strcat(seen, "|");
            }
        }
        close(pair.theirs);
        assert_int_equal(vblk_line_reader_fill(&pair.reader, pair.ours), 0);
        assert_int_equal(vblk_line_reader_rest(&pair.reader, &line, &length), VBLK_LINE_WHOLE);
        strncat(seen, line, length);
        assert_string_equal(seen, "first||third line|last");
        assert_int_equal(vblk_line_reader_rest(&pair.reader, &line, &length), VBLK_LINE_NONE);
        free(seen);
        close_pair(&pair);
    }
}

/* Bytes go through the reader as the socket's buffer lets them. */
static unsigned count_too_long(struct pair *pair, size_t length, bool *whole_out)
{
    char *bytes = malloc(length);
    unsigned count = 0;
    size_t sent = 0;

    memset(bytes, 'x', length);
    *whole_out = false;
    while (sent < length) {
        ssize_t part = send(pair->theirs, bytes + sent, length - sent < 10000 ? length - sent : 10000, 0);
        const char *line;
        size_t line_length;
        enum vblk_line kind;

        assert_true(part > 0);
        sent += part;
        if (sent == length)
            send_all(pair, "\nnext\n", 6);
        while (vblk_line_reader_fill(&pair->reader, pair->ours) > 0)
            while ((kind = vblk_line_reader_next(&pair->reader, &line, &line_length)) != VBLK_LINE_NONE) {
                count += kind == VBLK_LINE_TOO_LONG;
                *whole_out |= kind == VBLK_LINE_WHOLE && line_length == length;
                if (kind == VBLK_LINE_WHOLE && line_length != length)
                    assert_memory_equal(line, "next", 4); /* what follows is read */
            }
    }
    free(bytes);
    return count;
}

static void test_limit(void **state)
{
    struct pair pair;
    bool whole;

    (void)state;
    open_pair(&pair);
    assert_int_equal(count_too_long(&pair, VBLK_LINE_MAX, &whole), 0);
    assert_true(whole);
    assert_int_equal(count_too_long(&pair, VBLK_LINE_MAX + 1, &whole), 1);
    assert_false(whole);
    assert_int_equal(count_too_long(&pair, 20 * VBLK_LINE_MAX, &whole), 1); /* told once */
    send_all(&pair, "good\n", 5);
    assert_int_equal(vblk_line_reader_fill(&pair.reader, pair.ours), 5);
    expect(&pair, VBLK_LINE_WHOLE, "good");
    expect(&pair, VBLK_LINE_NONE, NULL);
    close(pair.theirs);
    close_pair(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_cut),
        cmocka_unit_test(test_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
