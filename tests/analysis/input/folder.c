#include "input/folder.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "input/salvage.h"

char *folder_make(void)
{
    char *folder = g_dir_make_tmp("test-input-XXXXXX", NULL);

    assert_non_null(folder);
    return folder;
}

void folder_remove(char *folder)
{
    salvage_remove_folder(folder);
    assert_false(g_file_test(folder, G_FILE_TEST_EXISTS));
    g_free(folder);
}

void folder_write(const char *folder, const char *name, const void *bytes, gsize size_bytes)
{
    char *path = g_build_filename(folder, name, NULL), *above = g_path_get_dirname(path);
    FILE *file;

    assert_int_equal(g_mkdir_with_parents(above, 0700), 0);
    file = fopen(path, "w"); /* g_file_set_contents() would wait for the disk each time */
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size_bytes, file), size_bytes);
    assert_int_equal(fclose(file), 0);
    g_free(above);
    g_free(path);
}

guint8 *folder_read(const char *folder, const char *name, gsize *size_bytes_out)
{
    char *path = g_build_filename(folder, name, NULL), *bytes;

    assert_true(g_file_get_contents(path, &bytes, size_bytes_out, NULL));
    g_free(path);
    return (guint8 *)bytes;
}

void folder_build_trace(const char *folder, const char *name, const char *events)
{
    char *list = g_build_filename(folder, "events.txt", NULL), *trace = g_build_filename(folder, name, NULL);
    char *argv[] = { (char *)PYTHON, (char *)BUILD_TRACE, list, trace, NULL };
    int wait_status = -1;

    folder_write(folder, "events.txt", events, strlen(events));
    assert_true(g_spawn_sync(NULL, argv, NULL, 0, NULL, NULL, NULL, NULL, &wait_status, NULL));
    assert_int_equal(wait_status, 0);
    g_free(list);
    g_free(trace);
}
