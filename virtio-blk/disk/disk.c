/* Opening by kind, and what all kinds share: transfers whose memory or range the backend cannot take as they are. */
#include "disk/disk.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "disk/backend.h"
#include "log/log.h"

static int open_kind(const char *spec, const struct vblk_disk_options *options, struct vblk_disk **disk_out,
                     char **message_out)
{
    if (g_str_has_prefix(spec, "null:"))
        return vblk_disk_null_open(spec + strlen("null:"), options, disk_out, message_out);
    if (g_regex_match_simple("^nbds?(\\+[a-z]+)?:", spec, 0, 0))
        return vblk_disk_nbd_open(spec, options, disk_out, message_out);
    return vblk_disk_file_open(spec, options, disk_out, message_out);
}

int vblk_disk_open(const char *spec, const struct vblk_disk_options *options, struct vblk_disk **disk_out,
                   char **message_out)
{
    struct vblk_disk *disk;
    int error = open_kind(spec, options, &disk, message_out);

    if (error == 0 && options->inject) {
        struct vblk_disk *inner = disk;

        error = vblk_disk_inject_open(inner, options->inject, &disk, message_out);
        if (error < 0)
            vblk_disk_close(inner);
        else
            vblk_log(NULL, VBLK_LOG_WARNING, "%s: requests are delayed, reordered or failed on purpose (%s): not for real "
                     "data", spec, options->inject);
    }
    if (error == 0)
        *disk_out = disk;
    return error;
}

void vblk_disk_close(struct vblk_disk *disk)
{
    if (disk)
        disk->ops->close(disk);
}

void vblk_disk_facts(const struct vblk_disk *disk, struct vblk_disk_facts *facts_out)
{
    *facts_out = disk->facts;
}

int vblk_disk_resize(struct vblk_disk *disk, uint64_t size_bytes)
{
    uint64_t unit = MAX(disk->facts.align_bytes, 512);
    int error;

    if (!disk->ops->resize)
        return -EOPNOTSUPP;
    if (size_bytes % unit != 0)
        return -EINVAL;
    error = disk->ops->resize(disk, &size_bytes);
    if (error < 0)
        return error;
    size_bytes -= size_bytes % unit; /* of what was found behind it */
    if (size_bytes == 0)
        return -EINVAL;
    disk->facts.size_bytes = size_bytes;
    return 0;
}

int vblk_disk_hold(struct vblk_disk *disk)
{
    bool changed = false;
    int error = disk->ops->hold ? disk->ops->hold(disk, &changed) : 0;

    if (error == 0 && changed) {
        error = vblk_disk_resize(disk, 0);
        if (error < 0)
            vblk_disk_let_go(disk);
    }
    return error;
}

void vblk_disk_let_go(struct vblk_disk *disk)
{
    if (disk->ops->let_go)
        disk->ops->let_go(disk);
}

int vblk_disk_attach_loop(struct vblk_disk *disk, struct rt_loop *loop, struct vblk_disk_loop **context_out)
{
    return disk->ops->attach_loop(disk, loop, context_out);
}

void vblk_disk_detach_loop(struct vblk_disk_loop *context)
{
    context->disk->ops->detach_loop(context);
}

static bool iov_aligned(const struct iovec *iov, int iov_count, uint32_t align)
{
    for (int i = 0; i < iov_count; i++)
        if (((uintptr_t)iov[i].iov_base | iov[i].iov_len) & (align - 1))
            return false;
    return true;
}

static size_t iov_bytes(const struct iovec *iov, int iov_count)
{
    size_t bytes = 0;

    for (int i = 0; i < iov_count; i++)
        bytes += iov[i].iov_len;
    return bytes;
}

static void copy_to_iov(const struct iovec *iov, int iov_count, const char *from)
{
    for (int i = 0; i < iov_count; i++) {
        memcpy(iov[i].iov_base, from, iov[i].iov_len);
        from += iov[i].iov_len;
    }
}

static void copy_from_iov(char *to, const struct iovec *iov, int iov_count)
{
    for (int i = 0; i < iov_count; i++) {
        memcpy(to, iov[i].iov_base, iov[i].iov_len);
        to += iov[i].iov_len;
    }
}

/* A buffer of our own that covers the transfer, widened to the backend's alignment. */
struct bounce {
    char *bytes;
    uint64_t offset_bytes;
    size_t skip_bytes;
    struct iovec iov;
};

static int bounce_init(struct bounce *bounce, uint64_t offset_bytes, size_t size_bytes, uint32_t align)
{
    uint64_t first = offset_bytes & ~(uint64_t)(align - 1);
    uint64_t last = (offset_bytes + size_bytes + align - 1) & ~(uint64_t)(align - 1);
    void *bytes;

    if (posix_memalign(&bytes, MAX(align, (uint32_t)sizeof(void *)), last - first) != 0)
        return -ENOMEM;
    *bounce = (struct bounce){ .bytes = bytes,
                               .offset_bytes = first,
                               .skip_bytes = offset_bytes - first,
                               .iov = { .iov_base = bytes, .iov_len = last - first } };
    return 0;
}

int vblk_disk_read_co(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov, int iov_count)
{
    const struct vblk_disk *disk = context->disk;
    uint32_t align = disk->facts.align_bytes;
    struct bounce bounce;
    int result;

    if (align == 1 || ((offset_bytes & (align - 1)) == 0 && iov_aligned(iov, iov_count, align)))
        return disk->ops->read_co(context, offset_bytes, iov, iov_count);
    result = bounce_init(&bounce, offset_bytes, iov_bytes(iov, iov_count), align);
    if (result < 0)
        return result;
    result = disk->ops->read_co(context, bounce.offset_bytes, &bounce.iov, 1);
    if (result == 0)
        copy_to_iov(iov, iov_count, bounce.bytes + bounce.skip_bytes);
    free(bounce.bytes);
    return result;
}

bool vblk_disk_write_needs_rmw(const struct vblk_disk *disk, uint64_t offset_bytes, uint64_t size_bytes)
{
    return ((offset_bytes | size_bytes) & (disk->facts.align_bytes - 1)) != 0;
}

int vblk_disk_write_co(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov, int iov_count)
{
    const struct vblk_disk *disk = context->disk;
    uint32_t align = disk->facts.align_bytes;
    size_t size_bytes;
    struct bounce bounce;
    int result;

    if (align == 1 || ((offset_bytes & (align - 1)) == 0 && iov_aligned(iov, iov_count, align)))
        return disk->ops->write_co(context, offset_bytes, iov, iov_count);
    size_bytes = iov_bytes(iov, iov_count);
    result = bounce_init(&bounce, offset_bytes, size_bytes, align);
    if (result < 0)
        return result;
    if (vblk_disk_write_needs_rmw(disk, offset_bytes, size_bytes))
        result = disk->ops->read_co(context, bounce.offset_bytes, &bounce.iov, 1);
    if (result == 0) {
        copy_from_iov(bounce.bytes + bounce.skip_bytes, iov, iov_count);
        result = disk->ops->write_co(context, bounce.offset_bytes, &bounce.iov, 1);
    }
    free(bounce.bytes);
    return result;
}

/* The part of a range that the backend takes for a discard or zeros; empty: @first_out is the range's end. */
static void aligned_part(const struct vblk_disk *disk, uint64_t first, uint64_t end, uint64_t *first_out,
                         uint64_t *end_out)
{
    uint64_t mask = MAX(disk->range_align_bytes, 1) - 1;

    *first_out = (first + mask) & ~mask;
    *end_out = end & ~mask;
    if (*first_out >= *end_out)
        *first_out = *end_out = end;
}

int vblk_disk_discard_co(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes)
{
    const struct vblk_disk *disk = context->disk;
    uint64_t first, end;
    int result;

    aligned_part(disk, offset_bytes, offset_bytes + size_bytes, &first, &end);
    if (first == end || !disk->ops->discard_co)
        return 0;
    result = disk->ops->discard_co(context, first, end - first);
    return result == -EOPNOTSUPP ? 0 : result;
}

static int write_zeros_co(struct vblk_disk_loop *context, uint64_t first, uint64_t end)
{
    static _Alignas(4096) char zeros[64 * 1024]; /* never written */
    struct iovec iov[16];
    int result = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(iov); i++)
        iov[i] = (struct iovec){ .iov_base = zeros, .iov_len = sizeof(zeros) };
    while (first < end && result == 0) {
        uint64_t bytes = MIN(end - first, sizeof(zeros) * G_N_ELEMENTS(iov));
        unsigned count = bytes / sizeof(zeros);

        if (bytes % sizeof(zeros) != 0)
            iov[count++].iov_len = bytes % sizeof(zeros);
        result = vblk_disk_write_co(context, first, iov, count);
        first += bytes;
    }
    return result;
}

int vblk_disk_write_zeroes_co(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes, bool may_unmap)
{
    const struct vblk_disk *disk = context->disk;
    uint64_t last = offset_bytes + size_bytes, first, end;
    int result = -EOPNOTSUPP;

    aligned_part(disk, offset_bytes, last, &first, &end);
    if (first < end && disk->ops->write_zeroes_co)
        result = disk->ops->write_zeroes_co(context, first, end - first, may_unmap);
    if (result == -EOPNOTSUPP)
        return write_zeros_co(context, offset_bytes, last);
    if (result == 0)
        result = write_zeros_co(context, offset_bytes, first);
    if (result == 0)
        result = write_zeros_co(context, end, last);
    return result;
}

int vblk_disk_flush_co(struct vblk_disk_loop *context)
{
    return context->disk->ops->flush_co(context);
}
