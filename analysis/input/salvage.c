#include "input/salvage.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <glib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM "(set TMPDIR to a folder with room)"

static char *link_file(const char *from, const char *to)
{
    char *target = realpath(from, NULL);
    char *why = NULL;

    if (!target || symlink(target, to) < 0)
        why = g_strdup_printf("cannot link %s to %s: %s " ROOM, from, to, g_strerror(errno));
    free(target);
    return why;
}

char *salvage_link(const char *from, const char *to, const char *name)
{
    char *index_name = g_strdup_printf("index/%s.idx", name);
    char *source = g_build_filename(from, name, NULL), *copy = g_build_filename(to, name, NULL);
    char *source_index = g_build_filename(from, index_name, NULL);
    char *copy_index = g_build_filename(to, index_name, NULL),
         *index_folder = g_build_filename(to, "index", NULL);
    char *why = link_file(source, copy);

    if (!why && g_file_test(source_index, G_FILE_TEST_IS_REGULAR)) {
        if (mkdir(index_folder, 0700) < 0 && errno != EEXIST)
            why = g_strdup_printf("cannot make %s: %s " ROOM, index_folder, g_strerror(errno));
        else
            why = link_file(source_index, copy_index);
    }
    g_free(index_name);
    g_free(source);
    g_free(copy);
    g_free(source_index);
    g_free(copy_index);
    g_free(index_folder);
    return why;
}

static bool copy_bytes(int out, int in, uint64_t size_bytes)
{
    while (size_bytes > 0) {
        ssize_t count = sendfile(out, in, NULL, MIN(size_bytes, 1u << 30));

        if (count < 0 && errno != EINTR)
            return false;
        if (count == 0)
            break; /* lost padding: the caller extends the file */
        size_bytes -= MAX(count, 0);
    }
    return true;
}

char *salvage_cut(const char *from, const char *to, const char *name, uint64_t size_bytes)
{
    char *source = g_build_filename(from, name, NULL), *copy = g_build_filename(to, name, NULL);
    char *why = NULL;

    if (size_bytes > 0) {
        int in = open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        int out = in < 0 ? -1 : open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        if (out < 0 || !copy_bytes(out, in, size_bytes) || ftruncate(out, size_bytes) < 0)
            why = g_strdup_printf("cannot copy %s to %s: %s " ROOM, source, copy, g_strerror(errno));
        if (out >= 0)
            close(out);
        if (in >= 0)
            close(in);
    }
    g_free(source);
    g_free(copy);
    return why;
}

void salvage_remove_folder(const char *folder)
{
    char *tops[] = { (char *)folder, NULL };
    FTS *fts = fts_open(tops, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    FTSENT *entry;

    if (!fts)
        return;
    while ((entry = fts_read(fts))) {
        if (entry->fts_info == FTS_DP)
            (void)rmdir(entry->fts_accpath);
        else if (entry->fts_info != FTS_D)
            (void)unlink(entry->fts_accpath);
    }
    (void)fts_close(fts);
}
