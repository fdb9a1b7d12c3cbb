/*
 * Goal:   an operator gets one whole line for each thing, and a guest that causes lines cannot flood the log.
 * Method: stderr is a pipe; what arrives in it is compared.
 * Broken: lines run into each other, a guest forges lines with control characters, the disk with the log
 * fills up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "log/log.h"

static int saved_stderr, read_end;

static void capture_begin(void)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    saved_stderr = dup(STDERR_FILENO);
    assert_true(saved_stderr >= 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    close(ends[1]);
    read_end = ends[0];
}

static size_t capture_end(char *text, size_t size)
{
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    size_t length = 0;
    ssize_t got;
    while ((got = read(read_end, text + length, size - 1 - length)) > 0)
        length += (size_t)got;
    close(read_end);
    text[length] = 0;
    return length;
}

static void a_line_names_program_and_object(void **state)
{
    char text[4096];
    struct vblk_log log;
    vblk_log_init(&log, "disk0");
    capture_begin();
    vblk_log(&log, VBLK_LOG_WARNING, "queue %d stopped: %s", 3, "evil\nvblkd: disk1: all is well\x1b[0m");
    vblk_log(NULL, VBLK_LOG_INFO, "ready");
    capture_end(text, sizeof text);
    assert_string_equal(
        text, "test_log: disk0: queue 3 stopped: evil?vblkd: disk1: all is well?[0m\ntest_log: ready\n");
}

static void a_long_line_is_cut(void **state)
{
    char text[8192], longer[4000];
    struct vblk_log log;
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    vblk_log_init(&log, "disk0");
    capture_begin();
    vblk_log(&log, VBLK_LOG_ERROR, "%s", longer);
    size_t length = capture_end(text, sizeof text);
    assert_true(length > 500 && length <= 1025);
    assert_ptr_equal(strchr(text, '\n'), text + length - 1);
}

static void a_flood_is_held_back_and_told(void **state)
{
    char text[65536];
    struct vblk_log log, other;
    vblk_log_init(&log, "noisy");
    vblk_log_init(&other, "quiet");
    capture_begin();
    for (int i = 0; i < 200; i++)
        vblk_log(&log, VBLK_LOG_WARNING, "again");
    vblk_log(&other, VBLK_LOG_WARNING, "heard"); /* one object's flood does not silence another */
    log.credit_ns = INT64_C(1000000000);         /* as if time had passed */
    vblk_log(&log, VBLK_LOG_WARNING, "later");
    capture_end(text, sizeof text);
    int lines = 0;
    for (const char *at = text; (at = strstr(at, "again")) != NULL; at++)
        lines++;
    assert_in_range(lines, VBLK_LOG_BURST, VBLK_LOG_BURST + 2);
    assert_non_null(strstr(text, "quiet: heard\n"));
    char told[64];
    snprintf(told, sizeof told, "later (%d more lines were held back)\n", 200 - lines);
    assert_non_null(strstr(text, told));
}

int main(void)
{
    unsetenv("JOURNAL_STREAM");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_names_program_and_object),
        cmocka_unit_test(a_long_line_is_cut),
        cmocka_unit_test(a_flood_is_held_back_and_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
