/*
 * Goal:   a terminal gets a bar that goes away again; nothing else gets a byte.
 * Method: standard error is a pseudo terminal, then a pipe.
 * Breaks: logs would be full of control characters, or a user would wait without a sign.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <glib.h>
#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <unistd.h>

#include "input/progress.h"

static int saved_stderr = -1;

static void stderr_becomes(int fd)
{
    saved_stderr = dup(STDERR_FILENO);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
}

static void stderr_returns(void)
{
    assert_true(dup2(saved_stderr, STDERR_FILENO) >= 0);
    close(saved_stderr);
}

static bool has_input(int fd)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

    return poll(&poll_fd, 1, 0) > 0;
}

static void test_terminal_sees_share_and_count(void **state)
{
    struct feed_progress progress = {
        .event_count = 1234, .time_ns = 150, .has_range = true, .begin_ns = 100, .end_ns = 200
    };
    gint64 deadline_us = g_get_monotonic_time() + 10 * G_USEC_PER_SEC;
    struct progress_bar *bar;
    char text[1024] = "";
    int master, slave;
    ssize_t count;

    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    stderr_becomes(slave);
    bar = progress_bar_create();
    /* it waits a moment, so that short work shows nothing */
    while (bar && !has_input(master) && g_get_monotonic_time() < deadline_us)
        progress_bar_show(bar, &progress);
    progress_bar_destroy(bar);
    stderr_returns();
    assert_non_null(bar);
    count = read(master, text, sizeof(text) - 1);
    assert_true(count > 0);
    assert_non_null(strstr(text, "[####################                    ]  50 %  1234 events"));
    close(master);
    close(slave);
}

static void test_pipe_sees_nothing(void **state)
{
    struct feed_progress progress = { .event_count = 1 };
    struct progress_bar *bar;
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    stderr_becomes(fds[1]);
    bar = progress_bar_create();
    progress_bar_show(bar, &progress);
    progress_bar_clear(bar);
    progress_bar_destroy(bar);
    stderr_returns();
    assert_null(bar);
    assert_false(has_input(fds[0]));
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terminal_sees_share_and_count),
        cmocka_unit_test(test_pipe_sees_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
