/* What a file or a block device does with discards. */
#include <fcntl.h>
#include <glib.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "disk/backend.h"

/* A number in a block device's folder of sysfs, or 0. */
static uint64_t queue_limit(const struct stat *st, const char *name)
{
    FILE *file = NULL;
    char path[96], text[32];
    uint64_t limit = 0;

    /* A partition has its disk's folder above its own. */
    for (unsigned up = 0; up < 2 && !file; up++) {
        snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%squeue/%s", major(st->st_rdev), minor(st->st_rdev),
                 up ? "../" : "", name);
        file = fopen(path, "re");
    }
    if (!file)
        return 0;
    if (fgets(text, sizeof(text), file))
        limit = g_ascii_strtoull(text, NULL, 10);
    fclose(file);
    return limit;
}

static void find_in_file(int fd, const struct stat *st, struct vblk_disk_facts *facts)
{
    uint64_t behind = (facts->size_bytes + st->st_blksize - 1) / st->st_blksize * st->st_blksize;

    /* Behind the end there is nothing to lose. */
    facts->discard = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, behind, st->st_blksize) == 0;
    facts->discard_align_bytes = st->st_blksize % 512 == 0 ? st->st_blksize : 0;
}

static void find_in_device(int fd, const struct stat *st, struct vblk_disk *disk)
{
    uint64_t granularity = queue_limit(st, "discard_granularity");
    int block_bytes = 0;

    if (ioctl(fd, BLKSSZGET, &block_bytes) == 0)
        disk->range_align_bytes = block_bytes;
    /* Punching a hole into a device means zeros that it makes itself. */
    disk->facts.discard = granularity > 0 && queue_limit(st, "write_zeroes_max_bytes") > 0;
    disk->facts.discard_align_bytes = granularity <= UINT32_MAX && granularity % 512 == 0 ? granularity : 0;
}

void vblk_disk_file_find_discard(int fd, const struct stat *st, struct vblk_disk *disk)
{
    if (S_ISBLK(st->st_mode))
        find_in_device(fd, st, disk);
    else
        find_in_file(fd, st, &disk->facts);
}
