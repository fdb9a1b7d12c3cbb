/*
 * Goal:   a wait that is too long is given up, with its name, and no other one.
 * Method: a limit of a second and waits on either side of it, in a child process where the watchdog ends the process.
 * If it fails: the recorder hangs with a session daemon that hangs, or gives up a recording that was going well.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <glib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "error.h"
#include "watchdog.h"

enum { GAVE_UP = 7, WRONG = 8, DONE = 9 };

static void gave_up(const char *what, const char *object, void *opaque)
{
    _exit(strcmp(what, "wait") == 0 && strcmp(object, opaque) == 0 ? GAVE_UP : WRONG);
}

/* How a child that starts a watchdog and then does this ends. */
static int status_of(void (*act)(void))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        record_watchdog_start(1, gave_up, (void *)"object");
        act();
        _exit(DONE);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void hang(void)
{
    record_watchdog_begin("wait", "object");
    pause();
}

static void hang_the_second_time(void)
{
    record_watchdog_begin("another wait", "another object");
    record_watchdog_end();
    hang();
}

/* None of them is long, though all together and the time between them are. */
static void many_short_waits(void)
{
    gint64 end_us = g_get_monotonic_time() + 2 * G_TIME_SPAN_SECOND;

    while (g_get_monotonic_time() < end_us) {
        record_watchdog_begin("wait", "object");
        record_watchdog_end();
        g_usleep(1000);
    }
}

static void no_wait(void)
{
    g_usleep(1500 * 1000); /* nothing to wait for: time is what is tested */
}

static void test_a_wait_that_is_too_long(void **state)
{
    assert_int_equal(status_of(hang), GAVE_UP);
    assert_int_equal(status_of(hang_the_second_time), GAVE_UP);
}

static void test_waits_that_are_not(void **state)
{
    assert_int_equal(status_of(many_short_waits), DONE);
    assert_int_equal(status_of(no_wait), DONE);
}

static void test_without_a_watchdog_nothing_happens(void **state)
{
    record_watchdog_begin("wait", "object");
    record_watchdog_end();
    assert_int_equal(record_watchdog_limit_s(), RECORD_WAIT_LIMIT_S);
}

static void test_the_limit_comes_from_the_environment(void **state)
{
    static const char *const wrong[] = { "", "0", "-1", "soon", "1.5", "100000" };
    unsigned limit_s = 0;

    g_unsetenv("VBLKSCOPE_RECORD_WAIT");
    assert_true(record_wait_limit(&limit_s, NULL));
    assert_int_equal(limit_s, RECORD_WAIT_LIMIT_S);
    g_setenv("VBLKSCOPE_RECORD_WAIT", "300", TRUE);
    assert_true(record_wait_limit(&limit_s, NULL));
    assert_int_equal(limit_s, 300);
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) error = NULL;

        g_setenv("VBLKSCOPE_RECORD_WAIT", wrong[i], TRUE);
        assert_false(record_wait_limit(&limit_s, &error));
        assert_int_equal(error->code, RECORD_ERROR_USAGE);
        assert_non_null(strstr(error->message, "VBLKSCOPE_RECORD_WAIT"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wait_that_is_too_long),
        cmocka_unit_test(test_waits_that_are_not),
        cmocka_unit_test(test_without_a_watchdog_nothing_happens),
        cmocka_unit_test(test_the_limit_comes_from_the_environment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
