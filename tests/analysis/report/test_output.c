/*
 * Goal:   a report file is whole or not there, other kinds of files stay what they are, and the exit status follows
 *         --fail-on.
 * Method: files that exist, a link, a device, a folder that does not exist; each severity against each limit.
 * Breaks: a script would read half a report, or act on the wrong status.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "input/folder.h"
#include "report/output.h"

static json_t *make(const char *severity, bool unsure)
{
    return json_pack("{s:[{s:s}], s:o}", "findings", "severity", severity, "inconclusive",
                     unsure ? json_pack("[{}]") : json_array());
}

static void test_status_follows_fail_on(void **state)
{
    static const struct {
        const char *severity;
        bool unsure;
        int status;
        enum report_severity fail_on;
        int expected;
    } cases[] = {
        { "error", false, 1, SEVERITY_OF_WARNING, 1 }, { "error", false, 1, SEVERITY_OF_ERROR, 1 },
        { "warning", false, 1, SEVERITY_OF_ERROR, 0 }, { "warning", true, 1, SEVERITY_OF_ERROR, 3 },
        { "info", false, 0, SEVERITY_OF_WARNING, 0 },  { "info", false, 0, SEVERITY_OF_INFO, 1 },
        { "info", true, 3, SEVERITY_OF_WARNING, 3 },   { "error", false, 2, SEVERITY_OF_INFO, 2 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        json_t *report = make(cases[i].severity, cases[i].unsure);

        assert_int_equal(report_exit_status(report, cases[i].status, cases[i].fail_on), cases[i].expected);
        json_decref(report);
    }
}

/* Of what was not read nothing can be told, also when the findings do not count. */
static void test_status_of_an_interrupted_run(void **state)
{
    json_t *report = make("warning", false);

    json_object_set_new(report, "trace", json_pack("{s:b}", "interrupted", 1));
    assert_int_equal(report_exit_status(report, 1, SEVERITY_OF_WARNING), 1);
    assert_int_equal(report_exit_status(report, 1, SEVERITY_OF_ERROR), 3);
    json_decref(report);
}

static void test_names(void **state)
{
    enum report_format format;
    enum report_severity severity;

    assert_true(report_format_by_name("json", &format));
    assert_int_equal(format, REPORT_JSON);
    assert_false(report_format_by_name("xml", &format));
    assert_true(report_severity_by_name("error", &severity));
    assert_int_equal(severity, SEVERITY_OF_ERROR);
    assert_false(report_severity_by_name("fatal", &severity));
}

static void write_to(const char *folder, const char *name, const char *reason)
{
    json_t *report = make("error", false);
    char *path = g_build_filename(folder, name, NULL);
    char *why = report_write(report, REPORT_JSON, path);

    if (reason)
        assert_true(why && strstr(why, reason) && strstr(why, path));
    else
        assert_null(why);
    g_free(why);
    g_free(path);
    json_decref(report);
}

static void assert_json(const char *folder, const char *name)
{
    gsize size_bytes;
    guint8 *bytes = folder_read(folder, name, &size_bytes);
    json_t *report = json_loadb((const char *)bytes, size_bytes, 0, NULL);

    assert_non_null(report);
    assert_int_equal(bytes[size_bytes - 1], '\n');
    json_decref(report);
    g_free(bytes);
}

static void test_replaces_files_whole(void **state)
{
    char *folder = folder_make();

    write_to(folder, "new.json", NULL);
    assert_json(folder, "new.json");
    folder_write(folder, "old.json", "x", 1);
    write_to(folder, "old.json", NULL);
    assert_json(folder, "old.json");
    folder_remove(folder);
}

static void test_writes_through_links_and_devices(void **state)
{
    char *folder = folder_make(), *link = g_build_filename(folder, "link", NULL);

    folder_write(folder, "target", "x", 1);
    assert_int_equal(symlink("target", link), 0);
    write_to(folder, "link", NULL);
    assert_true(g_file_test(link, G_FILE_TEST_IS_SYMLINK));
    assert_json(folder, "target");
    write_to("/dev", "null", NULL);
    assert_false(g_file_test("/dev/null", G_FILE_TEST_IS_REGULAR));
    g_free(link);
    folder_remove(folder);
}

static void test_failures_leave_nothing_behind(void **state)
{
    char *folder = folder_make(), *inner = g_build_filename(folder, "folder", NULL);
    GDir *dir;

    write_to(folder, "nowhere/report.json", "No such file");
    write_to("/dev", "full", "No space left");
    assert_int_equal(g_mkdir_with_parents(inner, 0700), 0);
    write_to(folder, "folder", "directory");
    dir = g_dir_open(folder, 0, NULL);
    assert_string_equal(g_dir_read_name(dir), "folder");
    assert_null(g_dir_read_name(dir));
    g_dir_close(dir);
    g_free(inner);
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_follows_fail_on),
        cmocka_unit_test(test_status_of_an_interrupted_run),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_replaces_files_whole),
        cmocka_unit_test(test_writes_through_links_and_devices),
        cmocka_unit_test(test_failures_leave_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
