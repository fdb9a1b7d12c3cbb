/*
 * Discard and write-zeroes: a list of segments, each a range of sectors. The driver is hostile: the list is copied once and
 * checked on the copy, as a whole before the first segment is carried out. Segments are carried out one after another, each
 * serialising: whatever overlaps it comes before or after it. Source: VIRTIO 1.2, 5.2.6.
 */
#include <endian.h>
#include <errno.h>
#include <glib.h>
#include <linux/virtio_blk.h>

#include "device/internal.h"
#include "tracepoints/request.h"

void vblk_range_parse(struct vblk_request *request, struct iovec *iov, int iov_count, uint32_t size_bytes)
{
    unsigned count = size_bytes / sizeof(struct virtio_blk_discard_write_zeroes);
    uint64_t sectors = 0;

    request->segments = NULL;
    request->segment_count = 0;
    if (count == 0 || count > VBLK_SEGMENTS_MAX || size_bytes % sizeof(struct virtio_blk_discard_write_zeroes) != 0)
        return;
    /* Rare, and heavy for the disk: an allocation does not show. */
    request->segments = g_try_new(struct vblk_segment, count);
    if (!request->segments)
        return;
    request->segment_count = count;
    for (unsigned i = 0; i < count; i++) {
        struct virtio_blk_discard_write_zeroes raw;

        vblk_request_take(&iov, &iov_count, &raw, sizeof(raw));
        request->segments[i] = (struct vblk_segment){ .sector = le64toh(raw.sector),
                                                      .sector_count = le32toh(raw.num_sectors),
                                                      .flags = le32toh(raw.flags) };
        sectors += request->segments[i].sector_count;
    }
    /* For the trace, in whose fields a discard of several segments may not fit. */
    request->size_bytes = MIN(sectors, UINT32_MAX / 512) * 512;
    if (__builtin_mul_overflow(request->segments[0].sector, 512, &request->offset_bytes))
        request->offset_bytes = UINT64_MAX;
}

static bool is_offered(const struct vblk_request *request)
{
    unsigned feature =
        request->header_type == VIRTIO_BLK_T_DISCARD ? VIRTIO_BLK_F_DISCARD : VIRTIO_BLK_F_WRITE_ZEROES;

    return request->queue->features >> feature & 1;
}

static uint8_t check(const struct vblk_request *request)
{
    const struct vblk_device *device = request->queue->device;
    bool is_discard = request->header_type == VIRTIO_BLK_T_DISCARD;
    uint32_t known_flags = is_discard ? 0 : VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP;
    uint32_t sectors_max = is_discard ? VBLK_DISCARD_SECTORS_MAX : VBLK_WRITE_ZEROES_SECTORS_MAX;
    uint64_t disk_sectors = device->facts.size_bytes / 512;

    /* A read-only disk offers neither, and says so to a driver that asks all the same. */
    if (device->facts.read_only)
        return VIRTIO_BLK_S_IOERR;
    if (!is_offered(request))
        return VIRTIO_BLK_S_UNSUPP;
    if (request->segment_count == 0 || request->element->in_bytes > 1)
        return VIRTIO_BLK_S_IOERR;
    for (unsigned i = 0; i < request->segment_count; i++)
        if (request->segments[i].flags & ~known_flags)
            return VIRTIO_BLK_S_UNSUPP;
    for (unsigned i = 0; i < request->segment_count; i++) {
        const struct vblk_segment *segment = &request->segments[i];

        if (segment->sector_count > sectors_max || segment->sector_count > disk_sectors ||
            segment->sector > disk_sectors - segment->sector_count)
            return VIRTIO_BLK_S_IOERR;
    }
    return VIRTIO_BLK_S_OK;
}

static int run_once_co(struct vblk_request *request, uint64_t id, const struct vblk_segment *segment)
{
    struct vblk_queue *queue = request->queue;
    uint64_t offset_bytes = segment->sector * 512, size_bytes = (uint64_t)segment->sector_count * 512;
    int result;

    vblk_request_track_co(request, id, offset_bytes, offset_bytes + size_bytes, true, true);
    vblk_request_set_stage(request, VBLK_BACKEND);
    lttng_ust_tracepoint(vblk_request, submit, id);
    if (request->header_type == VIRTIO_BLK_T_DISCARD)
        result = vblk_disk_discard_co(queue->disk, offset_bytes, size_bytes);
    else
        result = vblk_disk_write_zeroes_co(queue->disk, offset_bytes, size_bytes,
                                           segment->flags & VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP);
    lttng_ust_tracepoint(vblk_request, complete, id, result);
    vblk_request_set_stage(request, VBLK_COMPLETING);
    vblk_tracked_end_co(&queue->device->tracked, queue->index, &request->tracked, true);
    return result;
}

static int run_segment_co(struct vblk_request *request, uint64_t id, const struct vblk_segment *segment)
{
    uint32_t seen;
    int result;

    do {
        seen = vblk_disk_error_gate_co(request);
        result = run_once_co(request, id, segment);
    } while (result < 0 && vblk_disk_error_retry_co(request, result, seen));
    return result;
}

uint8_t vblk_range_run_co(struct vblk_request *request, uint64_t id)
{
    uint8_t status = check(request);
    int result = 0;

    for (unsigned i = 0; status == VIRTIO_BLK_S_OK && i < request->segment_count && result == 0; i++)
        if (request->segments[i].sector_count > 0)
            result = run_segment_co(request, id, &request->segments[i]);
    if (status == VIRTIO_BLK_S_OK && result == 0)
        result = vblk_request_settle_co(request, id);
    g_free(request->segments);
    request->segments = NULL;
    return result < 0 ? VIRTIO_BLK_S_IOERR : status;
}
