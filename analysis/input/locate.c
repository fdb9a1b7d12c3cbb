#include "input/locate.h"

#include <errno.h>
#include <fts.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

GPtrArray *locate_create(void)
{
    return g_ptr_array_new_with_free_func(g_free);
}

static char *without_trailing_slash(const char *path)
{
    char *clean = g_strdup(path);
    size_t length = strlen(clean);

    while (length > 1 && clean[length - 1] == '/')
        clean[--length] = '\0';
    return clean;
}

static char *walk(GPtrArray *folders, char *top)
{
    char *tops[] = { top, NULL };
    unsigned found_before = folders->len;
    char *why = NULL;
    FTSENT *entry;
    FTS *fts = fts_open(tops, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);

    if (!fts)
        return g_strdup_printf("cannot be searched: %s", g_strerror(errno));
    while ((entry = fts_read(fts))) {
        if (entry->fts_info == FTS_F && strcmp(entry->fts_name, "metadata") == 0 && entry->fts_level > 0)
            g_ptr_array_add(folders, g_path_get_dirname(entry->fts_path));
        else if ((entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR) && !why)
            why = g_strdup_printf("cannot search %s: %s (check permissions)", entry->fts_path,
                                  g_strerror(entry->fts_errno));
    }
    (void)fts_close(fts);
    if (folders->len == found_before && !why)
        why = g_strdup("no trace here: no file named 'metadata' in it or below "
                       "(give the folder that the recorder printed)");
    return why;
}

char *locate_add(GPtrArray *folders, const char *path)
{
    struct stat info;
    char *top, *why;

    if (stat(path, &info) < 0)
        return g_strdup_printf("cannot be opened: %s (give the folder of a recording)", g_strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return g_strdup("not a folder (give the folder of a recording, not a file in it)");
    top = without_trailing_slash(path);
    why = walk(folders, top);
    g_free(top);
    return why;
}

static int compare_paths(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void locate_finish(GPtrArray *folders)
{
    GHashTable *seen = g_hash_table_new_full(g_str_hash, g_str_equal, free, NULL);

    g_ptr_array_sort(folders, compare_paths);
    for (unsigned i = 0; i < folders->len;) {
        char *real = realpath(g_ptr_array_index(folders, i), NULL);

        if (real && !g_hash_table_add(seen, real)) /* the table owns or has freed it */
            g_ptr_array_remove_index(folders, i);
        else
            i++;
    }
    g_hash_table_unref(seen);
}
