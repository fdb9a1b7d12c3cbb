/* The part of the disk that a run works on: see extent.h. */
#include "extent.h"

gboolean extent_init(struct extent *extent, const struct load_options *options, const struct fe_info *info,
                     gboolean writes, char **error_out)
{
    uint64_t capacity_bytes =
        options->offset_bytes + options->size_bytes; /* as told, if it cannot be asked */
    uint32_t disk_block = 512;
    if (info->config_known) {
        if (info->config.capacity > UINT64_MAX / 512) {
            *error_out = g_strdup_printf("%s: the disk claims %" G_GUINT64_FORMAT
                                         " sectors, more than 64 bits of bytes (a fault of the server)",
                                         options->socket_path, (guint64)info->config.capacity);
            return FALSE;
        }
        capacity_bytes = info->config.capacity * 512;
        if (info->features >> VIRTIO_BLK_F_BLK_SIZE & 1 && info->config.blk_size >= 512)
            disk_block = info->config.blk_size;
    } else if (options->size_bytes == 0) {
        *error_out = g_strdup_printf("%s: the server does not tell the disk's size (name it with --size)",
                                     options->socket_path);
        return FALSE;
    }
    if (writes && info->features >> VIRTIO_BLK_F_RO & 1) {
        *error_out =
            g_strdup_printf("%s: the disk is read-only (use --rw=read, --rw=randread or verify --read-only)",
                            options->socket_path);
        return FALSE;
    }
    if (options->block_bytes % disk_block || options->offset_bytes % disk_block) {
        *error_out = g_strdup_printf(
            "%s: the disk has blocks of %u bytes (use --bs and --offset that are multiples of it)",
            options->socket_path, disk_block);
        return FALSE;
    }
    uint64_t size = options->size_bytes;
    if (options->offset_bytes > capacity_bytes || size > capacity_bytes - options->offset_bytes) {
        *error_out = g_strdup_printf("%s: --offset and --size reach beyond the disk's %" G_GUINT64_FORMAT
                                     " bytes (use less)",
                                     options->socket_path, capacity_bytes);
        return FALSE;
    }
    if (size == 0)
        size = capacity_bytes - options->offset_bytes;
    *extent = (struct extent){
        .first_sector = options->offset_bytes / 512,
        .block_bytes = options->block_bytes,
        .block_sectors = options->block_bytes / 512,
        .block_count = size / options->block_bytes,
    };
    if (extent->block_count < options->queue_count) {
        *error_out = g_strdup_printf(
            "%s: %" G_GUINT64_FORMAT " bytes hold %" G_GUINT64_FORMAT
            " requests of %u bytes, fewer than the queues (use a smaller --bs or fewer --queues)",
            options->socket_path, size, extent->block_count, extent->block_bytes);
        return FALSE;
    }
    return TRUE;
}
