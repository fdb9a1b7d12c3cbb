/* What a descriptor chain asks for, and doing it. The driver is hostile: the header is copied once and checked on
 * the copy. Source: VIRTIO 1.2, 5.2.6 (device operation). */
#include <endian.h>
#include <errno.h>
#include <linux/virtio_blk.h>
#include <string.h>

#include "device/internal.h"
#include "tracepoints/request.h"

#define TYPE_OTHER 255

struct header {
    uint32_t type, reserved;
    uint64_t sector;
};

void vblk_request_take(struct iovec **iov, int *iov_count, void *to, size_t bytes)
{
    while (bytes > 0) {
        struct iovec *first = *iov;
        size_t part = first->iov_len < bytes ? first->iov_len : bytes;

        memcpy(to, first->iov_base, part);
        to = (char *)to + part;
        bytes -= part;
        first->iov_base = (char *)first->iov_base + part;
        first->iov_len -= part;
        if (first->iov_len == 0) {
            (*iov)++;
            (*iov_count)--;
        }
    }
}

/* The last byte is the status; it leaves the data. */
static uint8_t *take_last_byte(const struct iovec *iov, int *iov_count)
{
    struct iovec *last = (struct iovec *)&iov[*iov_count - 1];
    uint8_t *byte = (uint8_t *)last->iov_base + --last->iov_len;

    if (last->iov_len == 0)
        (*iov_count)--;
    return byte;
}

int vblk_request_parse(struct vblk_request *request, const char **reason_out)
{
    struct vblk_element *element = request->element;
    struct iovec *out = element->out, *in = element->in;
    int out_count = element->out_count, in_count = element->in_count;
    struct header header;
    uint8_t type;

    if (element->out_bytes < sizeof(header)) {
        *reason_out = "request header missing or short";
        return -EPROTO;
    }
    if (element->in_bytes < 1) {
        *reason_out = "no room for the request's status";
        return -EPROTO;
    }
    request->status = take_last_byte(in, &in_count);
    __builtin_prefetch(request->status, 1); /* the driver has just written to it: it comes together with the header */
    vblk_request_take(&out, &out_count, &header, sizeof(header));
    request->header_type = le32toh(header.type);
    request->data = NULL;
    request->data_count = 0;
    request->size_bytes = 0;
    request->offset_bytes = 0;
    switch (request->header_type) {
    case VIRTIO_BLK_T_IN:
    case VIRTIO_BLK_T_GET_ID:
        request->data = in;
        request->data_count = in_count;
        request->size_bytes = element->in_bytes - 1;
        break;
    case VIRTIO_BLK_T_OUT:
        request->data = out;
        request->data_count = out_count;
        request->size_bytes = element->out_bytes - sizeof(header);
        break;
    case VIRTIO_BLK_T_DISCARD:
    case VIRTIO_BLK_T_WRITE_ZEROES:
        vblk_range_parse(request, out, out_count, element->out_bytes - sizeof(header));
        break;
    default:
        break;
    }
    switch (request->header_type) {
    case VIRTIO_BLK_T_IN:
    case VIRTIO_BLK_T_OUT:
        /* A sector whose byte offset does not fit is refused later; the trace then shows the largest. */
        if (__builtin_mul_overflow(le64toh(header.sector), 512, &request->offset_bytes))
            request->offset_bytes = UINT64_MAX;
        type = request->header_type;
        break;
    case VIRTIO_BLK_T_FLUSH:
    case VIRTIO_BLK_T_GET_ID:
    case VIRTIO_BLK_T_DISCARD:
    case VIRTIO_BLK_T_WRITE_ZEROES:
        type = request->header_type;
        break;
    default:
        type = TYPE_OTHER;
        break;
    }
    atomic_store_explicit(&request->type, type, memory_order_relaxed);
    return 0;
}

static bool inside_disk(const struct vblk_request *request)
{
    uint64_t disk_bytes = request->queue->device->facts.size_bytes;

    return request->size_bytes % 512 == 0 && request->size_bytes <= disk_bytes &&
           request->offset_bytes <= disk_bytes - request->size_bytes;
}

void vblk_request_set_stage(struct vblk_request *request, enum vblk_stage stage)
{
    atomic_store_explicit(&request->stage, stage, memory_order_relaxed);
}

void vblk_request_track_co(struct vblk_request *request, uint64_t id, uint64_t first, uint64_t end, bool write,
                           bool serialising)
{
    struct vblk_queue *queue = request->queue;
    struct vblk_device *device = queue->device;

    if (serialising) {
        uint64_t mask = device->facts.align_bytes - 1;

        first &= ~mask;
        end = (end + mask) & ~mask;
    }
    request->tracked = (struct vblk_tracked){ .request_id = id,
                                              .offset_bytes = first,
                                              .size_bytes = end - first,
                                              .write = write,
                                              .serialising = serialising };
    vblk_request_set_stage(request, VBLK_SERIALISING);
    vblk_tracked_begin_co(&device->tracked, queue->index, &request->tracked);
}

static int transfer_once_co(struct vblk_request *request, uint64_t id, bool write)
{
    struct vblk_queue *queue = request->queue;
    struct vblk_device *device = queue->device;
    uint64_t first = request->offset_bytes;
    int result;

    if (!device->instant)
        vblk_request_track_co(request, id, first, first + request->size_bytes, write,
                              write && vblk_disk_write_needs_rmw(device->disk, first, request->size_bytes));
    vblk_request_set_stage(request, VBLK_BACKEND);
    lttng_ust_tracepoint(vblk_request, submit, id);
    if (write)
        result = vblk_disk_write_co(queue->disk, request->offset_bytes, request->data, request->data_count);
    else
        result = vblk_disk_read_co(queue->disk, request->offset_bytes, request->data, request->data_count);
    lttng_ust_tracepoint(vblk_request, complete, id, result);
    vblk_request_set_stage(request, VBLK_COMPLETING);
    /* A write that failed half-way changed the disk as well. */
    if (!device->instant)
        vblk_tracked_end_co(&device->tracked, queue->index, &request->tracked, write);
    return result;
}

static int transfer_co(struct vblk_request *request, uint64_t id, bool write)
{
    uint32_t seen;
    int result;

    do {
        seen = vblk_disk_error_gate_co(request);
        result = transfer_once_co(request, id, write);
    } while (result < 0 && vblk_disk_error_retry_co(request, result, seen));
    return result;
}

static int disk_flush_co(void *opaque)
{
    return vblk_disk_flush_co(opaque);
}

static int flush_co(struct vblk_request *request, uint64_t id)
{
    uint32_t seen;
    int result;

    do {
        seen = vblk_disk_error_gate_co(request);
        vblk_request_set_stage(request, VBLK_BACKEND);
        lttng_ust_tracepoint(vblk_request, submit, id);
        result = vblk_tracked_flush_co(&request->queue->device->tracked, disk_flush_co, request->queue->disk);
        lttng_ust_tracepoint(vblk_request, complete, id, result);
    } while (result < 0 && vblk_disk_error_retry_co(request, result, seen));
    vblk_request_set_stage(request, VBLK_COMPLETING);
    return result;
}

/* Source: VIRTIO 1.2, 5.2.6.2: without a cache that the driver knows of, what is acknowledged is stable. */
static bool is_writeback(const struct vblk_queue *queue)
{
    if (queue->features >> VIRTIO_BLK_F_CONFIG_WCE & 1)
        return atomic_load_explicit(&queue->device->writeback, memory_order_relaxed);
    return queue->features >> VIRTIO_BLK_F_FLUSH & 1;
}

int vblk_request_settle_co(struct vblk_request *request, uint64_t id)
{
    return is_writeback(request->queue) ? 0 : flush_co(request, id);
}

bool vblk_request_is_instant(const struct vblk_request *request)
{
    /* A write that a driver without cache waits for is followed by a flush, which may wait for another one. */
    return request->queue->device->instant &&
           (request->header_type == VIRTIO_BLK_T_IN ||
            (request->header_type == VIRTIO_BLK_T_OUT && is_writeback(request->queue)));
}

/* The serial, cut or padded to what the driver gave room for (20 bytes). Returns the bytes written. */
static uint32_t get_id(const struct vblk_request *request)
{
    const struct vblk_device *device = request->queue->device;
    uint32_t done = 0;

    for (int i = 0; i < request->data_count && done < VBLK_SERIAL_BYTES; i++) {
        uint32_t left = VBLK_SERIAL_BYTES - done;
        uint32_t part = request->data[i].iov_len < left ? request->data[i].iov_len : left;

        memcpy(request->data[i].iov_base, device->serial + done, part);
        done += part;
    }
    return done;
}

/* Data that lies where the other side may not touch it: a write without data would be acknowledged as if it had some. */
static bool is_misplaced(const struct vblk_request *request)
{
    const struct vblk_element *element = request->element;

    return request->header_type == VIRTIO_BLK_T_OUT ? element->in_bytes > 1
                                                    : element->out_bytes > sizeof(struct header);
}

void vblk_request_run(void *opaque)
{
    struct vblk_request *request = opaque;
    struct vblk_device *device = request->queue->device;
    uint64_t id = atomic_load_explicit(&request->id, memory_order_relaxed);
    uint8_t status = VIRTIO_BLK_S_OK;
    uint32_t written_bytes = 0;

    if (vblk_has_fault(device, VBLK_FAULT_MUTEX_ACROSS_YIELD))
        vblk_fault_lock_co(device);
    switch (request->header_type) {
    case VIRTIO_BLK_T_IN:
        if (is_misplaced(request) || !inside_disk(request))
            status = VIRTIO_BLK_S_IOERR;
        else if (request->size_bytes > 0 && transfer_co(request, id, false) < 0)
            status = VIRTIO_BLK_S_IOERR;
        else
            written_bytes = request->size_bytes;
        break;
    case VIRTIO_BLK_T_OUT:
        if (device->facts.read_only || is_misplaced(request) || !inside_disk(request) ||
            (request->size_bytes > 0 &&
             (transfer_co(request, id, true) < 0 || vblk_request_settle_co(request, id) < 0)))
            status = VIRTIO_BLK_S_IOERR;
        break;
    case VIRTIO_BLK_T_FLUSH:
        if (!device->facts.read_only && flush_co(request, id) < 0)
            status = VIRTIO_BLK_S_IOERR;
        break;
    case VIRTIO_BLK_T_GET_ID:
        written_bytes = get_id(request);
        break;
    case VIRTIO_BLK_T_DISCARD:
    case VIRTIO_BLK_T_WRITE_ZEROES:
        status = vblk_range_run_co(request, id);
        break;
    default:
        status = VIRTIO_BLK_S_UNSUPP;
        break;
    }
    if (vblk_has_fault(device, VBLK_FAULT_MUTEX_ACROSS_YIELD))
        vblk_fault_unlock(device);
    if (request->left_open)
        vblk_queue_leave_open(request);
    else
        vblk_queue_complete(request, status, written_bytes);
}
