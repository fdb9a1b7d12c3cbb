/*
 * Goal:   text keeps to the width of the terminal, and colours go only where they are wanted.
 * Method: a pseudo-terminal of several widths, a pipe, and the environment; words that fit, that just fit, and that do not.
 * Breaks: reports would be cut or garbled on a narrow terminal, and escape sequences would get into files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pty.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "report/terminal.h"

static int open_terminal(unsigned columns, int *master_out)
{
    struct winsize size = { .ws_row = 24, .ws_col = (unsigned short)columns };
    int terminal;

    assert_int_equal(openpty(master_out, &terminal, NULL, NULL, &size), 0);
    return terminal;
}

static void assert_width(unsigned columns, const char *variable, unsigned expected)
{
    int master, terminal = open_terminal(columns, &master);

    if (variable)
        g_setenv("COLUMNS", variable, TRUE);
    else
        g_unsetenv("COLUMNS");
    assert_int_equal(terminal_width(terminal), expected);
    g_unsetenv("COLUMNS");
    (void)close(terminal);
    (void)close(master);
}

static void test_width(void **state)
{
    int ends[2];

    assert_width(80, NULL, 80);
    assert_width(5, NULL, 40);
    assert_width(500, NULL, TERMINAL_WIDTH);
    assert_width(0, NULL, TERMINAL_WIDTH);
    assert_width(80, "60", 60);
    assert_width(80, "wide", 80);
    assert_int_equal(pipe(ends), 0);
    g_setenv("COLUMNS", "50", TRUE);
    assert_int_equal(terminal_width(ends[1]), TERMINAL_WIDTH);
    g_unsetenv("COLUMNS");
    assert_false(terminal_colours(ends[1]));
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void test_colours(void **state)
{
    int master, terminal = open_terminal(80, &master);

    g_unsetenv("NO_COLOR");
    g_setenv("TERM", "xterm", TRUE);
    assert_true(terminal_colours(terminal));
    g_setenv("NO_COLOR", "", TRUE);
    assert_true(terminal_colours(terminal));
    g_setenv("NO_COLOR", "1", TRUE);
    assert_false(terminal_colours(terminal));
    g_unsetenv("NO_COLOR");
    g_setenv("TERM", "dumb", TRUE);
    assert_false(terminal_colours(terminal));
    (void)close(terminal);
    (void)close(master);
}

static void assert_wrapped(const char *text, unsigned indent, unsigned column, unsigned width, const char *expected)
{
    GString *out = g_string_new(NULL);

    wrap_text(out, text, indent, column, width);
    assert_string_equal(out->str, expected);
    g_string_free(out, TRUE);
}

static void test_words_are_broken_between_words(void **state)
{
    assert_wrapped("one two three", 2, 0, 7, "one two\n  three\n");
    assert_wrapped("one two three", 2, 1, 7, "one\n  two\n  three\n");
    assert_wrapped("much-too-long word", 2, 0, 7, "much-too-long\n  word\n");
    assert_wrapped("\303\244\303\244\303\244 \303\266", 2, 0, 5, "\303\244\303\244\303\244 \303\266\n"); /* characters, not bytes */
    assert_wrapped("", 2, 0, 7, "\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_width),
        cmocka_unit_test(test_colours),
        cmocka_unit_test(test_words_are_broken_between_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
