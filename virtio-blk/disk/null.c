/* A disk without bytes: writes are dropped, reads leave the buffer as it is (what costs nothing, so that everything
 * else can be measured). Completes at once, never yields. */
#include <errno.h>
#include <glib.h>

#include "disk/backend.h"
#include "disk/size.h"

static void null_close(struct vblk_disk *disk)
{
    g_free(disk);
}

static int null_attach_loop(struct vblk_disk *disk, struct rt_loop *loop, struct vblk_disk_loop **context_out)
{
    struct vblk_disk_loop *context = g_new0(struct vblk_disk_loop, 1);

    (void)loop;
    context->disk = disk;
    *context_out = context;
    return 0;
}

static void null_detach_loop(struct vblk_disk_loop *context)
{
    g_free(context);
}

static int null_transfer(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov, int iov_count)
{
    (void)context, (void)offset_bytes, (void)iov, (void)iov_count;
    return 0;
}

static int null_discard(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes)
{
    (void)context, (void)offset_bytes, (void)size_bytes;
    return 0;
}

static int null_write_zeroes(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes, bool may_unmap)
{
    (void)may_unmap;
    return null_discard(context, offset_bytes, size_bytes);
}

static int null_flush(struct vblk_disk_loop *context)
{
    (void)context;
    return 0;
}

static int null_resize(struct vblk_disk *disk, uint64_t *size_inout)
{
    if (*size_inout == 0)
        *size_inout = disk->facts.size_bytes;
    return 0;
}

static const struct vblk_disk_ops null_ops = {
    .close = null_close,
    .attach_loop = null_attach_loop,
    .detach_loop = null_detach_loop,
    .read_co = null_transfer,
    .write_co = null_transfer,
    .flush_co = null_flush,
    .discard_co = null_discard,
    .write_zeroes_co = null_write_zeroes,
    .resize = null_resize,
};

int vblk_disk_null_open(const char *size_text, const struct vblk_disk_options *options, struct vblk_disk **disk_out,
                        char **message_out)
{
    struct vblk_disk *disk;
    uint64_t size_bytes;

    if (!vblk_size_parse(size_text, &size_bytes) || size_bytes == 0 || size_bytes % 512 != 0) {
        *message_out = g_strdup_printf("null:%s: not a disk size (a multiple of 512, such as null:1G)", size_text);
        return -EINVAL;
    }
    disk = g_new0(struct vblk_disk, 1);
    disk->ops = &null_ops;
    disk->facts = (struct vblk_disk_facts){
        .size_bytes = size_bytes, .align_bytes = 1, .backend = "null", .read_only = options->read_only,
        .instant = true, .discard = !options->read_only
    };
    *disk_out = disk;
    return 0;
}
