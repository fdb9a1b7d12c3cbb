/*
 * Goal:   every trace below a path is found, once, in a fixed order; a path without one is refused with the reason.
 * Method: folders with and without `metadata` files, given twice, with slashes at the end, through a link.
 * Breaks: a recording would be missed, read twice, or its order would depend on the file system.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "input/folder.h"
#include "input/locate.h"

static void add(GPtrArray *folders, const char *top, const char *name)
{
    char *path = g_build_filename(top, name, NULL);
    char *why = locate_add(folders, path);

    assert_null(why);
    g_free(path);
}

static void refuse(const char *top, const char *name, const char *reason)
{
    GPtrArray *folders = locate_create();
    char *path = g_build_filename(top, name, NULL);
    char *why = locate_add(folders, path);

    assert_non_null(why);
    assert_non_null(strstr(why, reason));
    assert_int_equal(folders->len, 0);
    g_free(why);
    g_free(path);
    g_ptr_array_unref(folders);
}

static void assert_folder(GPtrArray *folders, unsigned index, const char *top, const char *name)
{
    char *path = g_build_filename(top, name, NULL);

    assert_string_equal(g_ptr_array_index(folders, index), path);
    g_free(path);
}

static void test_finds_traces_at_and_below(void **state)
{
    char *top = folder_make();
    GPtrArray *folders = locate_create();

    folder_write(top, "z/ust/uid/0/64-bit/metadata", "", 0);
    folder_write(top, "a/metadata", "", 0);
    folder_write(top, "b/notes.txt", "", 0);
    add(folders, top, "z");
    add(folders, top, "a//");
    locate_finish(folders);
    assert_int_equal(folders->len, 2);
    assert_folder(folders, 0, top, "a");
    assert_folder(folders, 1, top, "z/ust/uid/0/64-bit");
    g_ptr_array_unref(folders);
    folder_remove(top);
}

static void test_keeps_each_folder_once(void **state)
{
    char *top = folder_make(), *real = g_build_filename(top, "a", NULL),
         *link = g_build_filename(top, "link", NULL);
    GPtrArray *folders = locate_create();

    folder_write(top, "a/metadata", "", 0);
    assert_int_equal(symlink(real, link), 0);
    add(folders, top, "a");
    add(folders, top, "");
    add(folders, top, "link");
    locate_finish(folders);
    assert_int_equal(folders->len, 1);
    assert_folder(folders, 0, top, "a");
    g_ptr_array_unref(folders);
    g_free(real);
    g_free(link);
    folder_remove(top);
}

static void test_refuses_what_is_no_trace(void **state)
{
    char *top = folder_make();

    folder_write(top, "b/notes.txt", "x", 1);
    refuse(top, "b", "no file named 'metadata'");
    refuse(top, "b/notes.txt", "not a folder");
    refuse(top, "nowhere", "No such file");
    folder_remove(top);
}

static void test_survives_a_ring_of_links(void **state)
{
    char *top = folder_make(), *inner = g_build_filename(top, "a/again", NULL);
    GPtrArray *folders = locate_create();

    folder_write(top, "a/metadata", "", 0);
    assert_int_equal(symlink(top, inner), 0);
    add(folders, top, "");
    locate_finish(folders);
    assert_int_equal(folders->len, 1);
    g_ptr_array_unref(folders);
    g_free(inner);
    folder_remove(top);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_traces_at_and_below),
        cmocka_unit_test(test_keeps_each_folder_once),
        cmocka_unit_test(test_refuses_what_is_no_trace),
        cmocka_unit_test(test_survives_a_ring_of_links),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
