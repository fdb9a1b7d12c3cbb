/* What the driver can read and negotiate. Source: VIRTIO 1.2, 5.2 (block device). */
#include <endian.h>
#include <errno.h>
#include <glib.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <stddef.h>
#include <string.h>

#include "device/internal.h"

/* A chain of the usual 128-entry ring without indirect descriptors: two are header and status. */
#define SEG_MAX 126

uint64_t vblk_config_features(const struct vblk_device *device)
{
    uint64_t features = 1ULL << VIRTIO_F_VERSION_1 | 1ULL << VIRTIO_F_RING_PACKED | 1ULL << VIRTIO_RING_F_EVENT_IDX |
                        1ULL << VIRTIO_RING_F_INDIRECT_DESC | 1ULL << VIRTIO_BLK_F_SEG_MAX |
                        1ULL << VIRTIO_BLK_F_BLK_SIZE | 1ULL << VIRTIO_BLK_F_FLUSH | 1ULL << VIRTIO_BLK_F_MQ |
                        1ULL << VIRTIO_BLK_F_TOPOLOGY | 1ULL << VIRTIO_BLK_F_CONFIG_WCE;

    if (device->facts.read_only)
        features |= 1ULL << VIRTIO_BLK_F_RO;
    else
        features |= 1ULL << VIRTIO_BLK_F_WRITE_ZEROES;
    if (device->facts.discard)
        features |= 1ULL << VIRTIO_BLK_F_DISCARD;
    return features;
}

/* Everything in blocks as the driver knows them, and never beyond what the field holds. */
static void fill_topology(const struct vblk_device *device, struct virtio_blk_config *config)
{
    const struct vblk_disk_facts *facts = &device->facts;
    uint32_t block = device->block_size_bytes;

    for (uint64_t physical = block; physical < facts->physical_block_bytes; physical *= 2)
        config->physical_block_exp++;
    config->alignment_offset = facts->alignment_bytes / block <= UINT8_MAX ? facts->alignment_bytes / block : 0;
    config->min_io_size = htole16(facts->io_min_bytes / block <= UINT16_MAX ? facts->io_min_bytes / block : 0);
    config->opt_io_size = htole32(facts->io_optimal_bytes / block);
}

int vblk_config_read(const struct vblk_device *device, uint32_t offset, uint32_t size, uint8_t *bytes_out)
{
    struct virtio_blk_config config = {
        .capacity = htole64(device->facts.size_bytes / 512),
        .seg_max = htole32(SEG_MAX),
        .blk_size = htole32(device->block_size_bytes),
        .num_queues = htole16(device->queue_count),
        .wce = atomic_load_explicit(&device->writeback, memory_order_relaxed),
    };

    if (device->facts.discard) {
        uint32_t align_bytes = device->facts.discard_align_bytes;

        config.max_discard_sectors = htole32(VBLK_DISCARD_SECTORS_MAX);
        config.max_discard_seg = htole32(VBLK_SEGMENTS_MAX);
        config.discard_sector_alignment = htole32(MAX(align_bytes, device->block_size_bytes) / 512);
    }
    if (!device->facts.read_only) {
        config.max_write_zeroes_sectors = htole32(VBLK_WRITE_ZEROES_SECTORS_MAX);
        config.max_write_zeroes_seg = htole32(VBLK_SEGMENTS_MAX);
        config.write_zeroes_may_unmap = device->facts.discard;
    }

    if (offset > VHOST_USER_CONFIG_MAX || size > VHOST_USER_CONFIG_MAX - offset)
        return -EINVAL;
    fill_topology(device, &config);
    /* A front end may know a longer structure than ours: what we do not have reads as 0. */
    memset(bytes_out, 0, size);
    if (offset < sizeof(config)) {
        uint32_t have = sizeof(config) - offset;

        memcpy(bytes_out, (const uint8_t *)&config + offset, size < have ? size : have);
    }
    return 0;
}

void vblk_config_set_features(struct vblk_device *device, uint64_t features)
{
    device->features = features;
    if (features >> VIRTIO_BLK_F_CONFIG_WCE & 1 && !(features >> VIRTIO_BLK_F_FLUSH & 1))
        atomic_store_explicit(&device->writeback, false, memory_order_relaxed); /* it could not flush. VIRTIO 1.2, 5.2.5.2 */
}

int vblk_config_write(struct vblk_device *device, uint32_t offset, uint32_t size, const uint8_t *bytes)
{
    if (offset != offsetof(struct virtio_blk_config, wce) || size != 1 || bytes[0] > 1)
        return -EINVAL;
    /* Relaxed: a write looks at it when it ends; until this message is answered it may be either. */
    atomic_store_explicit(&device->writeback, bytes[0], memory_order_relaxed);
    return 0;
}

void vblk_config_forget_front_end(struct vblk_device *device)
{
    vblk_config_set_features(device, 0);
    atomic_store_explicit(&device->writeback, true, memory_order_relaxed);
}
