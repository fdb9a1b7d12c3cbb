/*
 * Goal: what was appended is read back, a log cut by a crash keeps its whole records and can be continued, and another
 *       run's log or a file that is none is refused with a reason.
 * Method: write logs, damage them, read them.
 * If it fails: a kill test accepts lost writes, or a good disk is called bad.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ack_log.h"

#include <glib/gstdio.h>
#include <string.h>

static const struct ack_run run = { .seed = 1, .block_bytes = 4096, .size_bytes = 16 * 4096 };

static char *log_path(void)
{
    g_autofree char *directory = g_dir_make_tmp("ack-log-XXXXXX", NULL);
    return g_build_filename(directory, "acks", NULL);
}

static void remove_log(const char *path)
{
    g_autofree char *directory = g_path_get_dirname(path);
    g_unlink(path);
    g_rmdir(directory);
}

static void append(const char *path, uint64_t block, uint64_t generation)
{
    g_autoptr(GError) error = NULL;
    struct ack_log *log = ack_log_open(path, &run, &error);
    assert_non_null(log);
    const struct ack_record record = { block, generation };
    assert_int_equal(ack_log_append(log, &record, 1), 0);
    ack_log_close(log);
}

static void assert_refused(const char *path, const struct ack_run *wanted, const char *words)
{
    g_autoptr(GError) error = NULL;
    uint32_t generations[16] = { 0 };
    uint64_t count;
    assert_false(ack_log_read(path, wanted, generations, 16, &count, &error));
    if (!strstr(error->message, words))
        fail_msg("'%s' does not say '%s'", error->message, words);
}

static void test_highest_generation_of_each_block(void **state)
{
    g_autofree char *path = log_path();
    g_autoptr(GError) error = NULL;
    uint32_t generations[16] = { 0 };
    uint64_t count;
    append(path, 3, 1);
    append(path, 5, 1);
    append(path, 3, 2);
    assert_true(ack_log_read(path, &run, generations, 16, &count, &error));
    assert_int_equal(count, 3);
    assert_int_equal(generations[3], 2);
    assert_int_equal(generations[5], 1);
    assert_int_equal(generations[4], 0);
    remove_log(path);
}

static void test_cut_line_does_not_count_and_is_not_glued_to_the_next(void **state)
{
    g_autofree char *path = log_path();
    g_autofree char *text = NULL;
    gsize length;
    g_autoptr(GError) error = NULL;
    uint32_t generations[16] = { 0 };
    uint64_t count;
    append(path, 3, 1);
    append(path, 12, 1);
    assert_true(g_file_get_contents(path, &text, &length, NULL));
    assert_true(g_file_set_contents(path, text, length - 3, NULL)); /* "12 1\n" becomes "12" */
    assert_true(ack_log_read(path, &run, generations, 16, &count, &error));
    assert_int_equal(count, 1);
    assert_int_equal(generations[12], 0);
    append(path, 7, 2);
    assert_true(ack_log_read(path, &run, generations, 16, &count, &error));
    assert_int_equal(count, 2);
    assert_int_equal(generations[7], 2);
    remove_log(path);
}

static void test_refusals(void **state)
{
    g_autofree char *path = log_path();
    g_autoptr(GError) error = NULL;
    struct ack_run other = run;
    other.seed = 2;
    assert_refused(path, &run, "name the file");
    append(path, 3, 1);
    assert_refused(path, &other, "another run");
    assert_null(ack_log_open(path, &other, &error));
    assert_non_null(strstr(error->message, "another run"));
    append(path, 16, 1); /* one beyond the end */
    assert_refused(path, &run, "a line is no record");
    assert_true(g_file_set_contents(path, "what is this\n", -1, NULL));
    assert_refused(path, &run, "another run");
    remove_log(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_highest_generation_of_each_block),
        cmocka_unit_test(test_cut_line_does_not_count_and_is_not_glued_to_the_next),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
