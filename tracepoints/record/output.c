#include "output.h"

#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

enum {
    ROOM_MIN_MIB = 2,        /* below this a recording is not even begun */
    ASIDE_MAX_MIB = 64,      /* setting aside more takes long where a file system has no fallocate */
    DESCRIPTION_MIB = 1,     /* of all events, for a few users' processes at once */
    STOP_BELOW_MAX_MIB = 64, /* what a fast disk takes between two looks at it */
};

struct record_output {
    char *path;
    char *aside; /* a file that only takes room; NULL once released */
    bool made;
    uint64_t stop_below_bytes;
};

static uint64_t available_bytes(const char *path)
{
    struct statvfs fs;

    return statvfs(path, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX;
}

static bool fail(GError **error, const char *path, const char *what, const char *remedy)
{
    g_set_error(error, RECORD_ERROR, RECORD_ERROR_FAILED, "%s: %s (%s)", path, what, remedy);
    return false;
}

static bool take_folder(struct record_output *output, GError **error)
{
    const char *const elsewhere = "name another folder with --output";
    GDir *dir;
    bool empty;

    if (g_mkdir(output->path, 0777) == 0) {
        output->made = true;
    } else if (errno != EEXIST) {
        return fail(error, output->path, g_strerror(errno), elsewhere);
    }
    dir = g_dir_open(output->path, 0, NULL);
    if (!dir)
        return fail(error, output->path, "exists and is no readable folder", elsewhere);
    empty = !g_dir_read_name(dir);
    g_dir_close(dir);
    if (!empty)
        return fail(error, output->path, "exists and is not empty", elsewhere);
    return true;
}

/* Also shows that the folder can be written. */
static bool set_room_aside(struct record_output *output, uint64_t held_bytes_max, GError **error)
{
    uint64_t available = available_bytes(output->path);
    uint64_t wanted = MIN(held_bytes_max + DESCRIPTION_MIB * MIB, MIN(ASIDE_MAX_MIB * MIB, available / 4));
    char *path = g_build_filename(output->path, ".room-to-finish", NULL);
    int fd = g_open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    int status;

    if (fd < 0) {
        g_free(path);
        return fail(error, output->path, g_strerror(errno),
                    "name a folder that can be written with --output");
    }
    output->aside = path;
    output->stop_below_bytes = MIN(available / 8, STOP_BELOW_MAX_MIB * MIB);
    status = available < ROOM_MIN_MIB * MIB ? ENOSPC : posix_fallocate(fd, 0, wanted);
    close(fd);
    if (status != 0) {
        record_output_release(output);
        return fail(error, output->path, g_strerror(status),
                    "make room, or name another folder with --output");
    }
    return true;
}

struct record_output *record_output_create(const char *path, uint64_t held_bytes_max, GError **error)
{
    struct record_output *output = g_new0(struct record_output, 1);
    g_autofree char *name = NULL;

    if (!path) {
        g_autoptr(GDateTime) now = g_date_time_new_now_local();

        path = name = g_date_time_format(now, "vblkscope-%Y%m%d-%H%M%S");
    }
    output->path = g_canonicalize_filename(path, NULL);
    if (!take_folder(output, error) || !set_room_aside(output, held_bytes_max, error)) {
        record_output_discard(output);
        record_output_destroy(output);
        return NULL;
    }
    return output;
}

const char *record_output_path(const struct record_output *output)
{
    return output->path;
}

bool record_output_nearly_full(const struct record_output *output)
{
    return available_bytes(output->path) < output->stop_below_bytes;
}

void record_output_release(struct record_output *output)
{
    if (output->aside)
        g_unlink(output->aside);
    g_clear_pointer(&output->aside, g_free);
}

static void remove_folders(const char *path)
{
    GDir *dir = g_dir_open(path, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *inner = g_build_filename(path, name, NULL);

        if (g_file_test(inner, G_FILE_TEST_IS_DIR) && !g_file_test(inner, G_FILE_TEST_IS_SYMLINK))
            remove_folders(inner);
    }
    if (dir)
        g_dir_close(dir);
    (void)g_rmdir(path); /* fails, as it should, if a file is in it */
}

void record_output_discard(struct record_output *output)
{
    record_output_release(output);
    if (output->made)
        remove_folders(output->path);
}

void record_output_destroy(struct record_output *output)
{
    if (!output)
        return;
    record_output_release(output);
    g_free(output->path);
    g_free(output);
}
