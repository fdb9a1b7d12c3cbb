/*
 * Requests: those of virtio-blk, from the handler that takes one to its completion. A process that has none (another device, a
 * storage daemon) is judged by what it hands to io_uring and to its thread pool, where the kernel's answer is the end.
 *
 * What virtio-blk hands on is in one stage, backend, from then on: QEMU does not tell how its layers below divide it up.
 */
#include <inttypes.h>
#include <string.h>

#include "dialects/qemu.h"

#define HEAD_UNKNOWN UINT32_MAX
#define SECTOR_BYTES 512
#define NODES_MAX 4096 /* that were opened: names only */

enum { TYPE_READ = 0, TYPE_WRITE = 1, TYPE_FLUSH = 4, TYPE_DISCARD = 11, TYPE_WRITE_ZEROES = 13, TYPE_OTHER = 255 };

/* One life of a request. */
struct life {
    uint64_t id;
    bool failed; /* and is not reported to the guest (yet) */
};

/* A device or a block node. */
struct owner {
    uint32_t id; /* 0: has had no request */
    char *name;
};

static void owner_free(void *data)
{
    struct owner *device = data;

    g_free(device->name);
    g_free(device);
}

void qemu_requests_init(struct qemu *qemu)
{
    qemu->requests = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    qemu->devices = g_hash_table_new_full(NULL, NULL, NULL, owner_free);
}

void qemu_requests_deinit(struct qemu *qemu)
{
    g_hash_table_destroy(qemu->requests);
    g_hash_table_destroy(qemu->devices);
}

static struct owner *need_device(struct qemu *qemu, uint64_t address)
{
    struct owner *device = g_hash_table_lookup(qemu->devices, qemu_key(address));

    if (!device) {
        device = g_new0(struct owner, 1);
        g_hash_table_insert(qemu->devices, qemu_key(address), device);
    }
    return device;
}

static uint32_t device_id(struct qemu *qemu, uint64_t address, const char *kind)
{
    struct owner *device = need_device(qemu, address);

    if (!device->id) {
        char *name = device->name ? g_strdup_printf("%s %s", kind, device->name)
                                  : g_strdup_printf("%s 0x%" PRIx64, kind, address);

        device->id = ++qemu->last_device_id;
        QEMU_DERIVE(qemu, vblk_dataplane_device_create, .device_id = device->id, .name = name, .backend = "");
        g_free(name);
    }
    return device->id;
}

static void opened(struct qemu *qemu)
{
    const union event_fields *f = &qemu->event->fields;
    struct owner *device;

    if (!*f->qemu_bdrv_open_common.filename || g_hash_table_size(qemu->devices) >= NODES_MAX)
        return;
    device = need_device(qemu, f->qemu_bdrv_open_common.bs);
    g_free(device->name);
    device->name = g_path_get_basename(f->qemu_bdrv_open_common.filename);
    device->id = 0; /* another node, if the address was used before */
}

static void abandon(struct qemu *qemu, uint64_t address, const struct life *request)
{
    QEMU_DERIVE(qemu, vblk_request_abandoned, .request_id = request->id);
    g_hash_table_remove(qemu->requests, qemu_key(address));
}

static void begin(struct qemu *qemu, uint64_t address, uint32_t device, uint64_t type, uint64_t offset_bytes,
                  uint64_t size_bytes)
{
    struct life *request = g_hash_table_lookup(qemu->requests, qemu_key(address));
    const struct qemu_thread *thread = qemu_thread(qemu);

    if (request) /* tried again after an error, or its end was lost: in any case another life */
        abandon(qemu, address, request);
    request = g_new0(struct life, 1);
    request->id = ++qemu->last_request_id;
    g_hash_table_insert(qemu->requests, qemu_key(address), request);
    QEMU_DERIVE(qemu, vblk_request_begin, .request_id = request->id, .device_id = device,
                .head = HEAD_UNKNOWN, .type = type, .offset_bytes = offset_bytes, .size_bytes = size_bytes,
                .loop_id = thread && thread->context ? thread->context->id : 0);
    QEMU_DERIVE(qemu, vblk_request_submit, .request_id = request->id);
}

static void complete(struct qemu *qemu, uint64_t address, int64_t result)
{
    struct life *request = g_hash_table_lookup(qemu->requests, qemu_key(address));

    if (!request)
        return; /* began before the recording */
    request->failed = result < 0;
    QEMU_DERIVE(qemu, vblk_request_complete, .request_id = request->id, .result = result);
}

static void end(struct qemu *qemu, uint64_t address, uint64_t status)
{
    const struct life *request = g_hash_table_lookup(qemu->requests, qemu_key(address));

    if (!request)
        return; /* or a kind whose begin QEMU does not tell */
    QEMU_DERIVE(qemu, vblk_request_end, .request_id = request->id, .status = status);
    g_hash_table_remove(qemu->requests, qemu_key(address));
}

static void answered(struct qemu *qemu, uint64_t address, int64_t result)
{
    complete(qemu, address, result);
    end(qemu, address, result < 0);
}

static void virtio_begin(struct qemu *qemu, uint64_t type)
{
    const union event_fields *f = &qemu->event->fields; /* read and write have the same fields */

    qemu->has_virtio = true;
    begin(qemu, f->qemu_virtio_blk_handle_read.req,
          device_id(qemu, f->qemu_virtio_blk_handle_read.vdev, "virtio-blk"), type,
          f->qemu_virtio_blk_handle_read.sector * SECTOR_BYTES,
          f->qemu_virtio_blk_handle_read.nsectors * SECTOR_BYTES);
}

static uint64_t aio_type(int64_t type)
{
    switch (type) {
    case 0x01:
        return TYPE_READ;
    case 0x02:
        return TYPE_WRITE;
    case 0x08:
        return TYPE_FLUSH;
    case 0x10:
        return TYPE_DISCARD;
    case 0x20:
        return TYPE_WRITE_ZEROES;
    default:
        return TYPE_OTHER;
    }
}

static void io_uring_begin(struct qemu *qemu)
{
    const union event_fields *f = &qemu->event->fields;
    const uint64_t request = f->qemu_luring_co_submit.req ? f->qemu_luring_co_submit.req
                                                          : f->qemu_luring_co_submit.luringcb;

    if (!qemu->has_virtio)
        begin(qemu, request, device_id(qemu, f->qemu_luring_co_submit.bs, "block node"),
              aio_type(f->qemu_luring_co_submit.type), f->qemu_luring_co_submit.offset,
              f->qemu_luring_co_submit.nbytes);
}

static void pool_begin(struct qemu *qemu)
{
    const union event_fields *f = &qemu->event->fields; /* both names have the same fields */

    if (!qemu->has_virtio)
        begin(qemu, f->qemu_thread_pool_submit.req,
              device_id(qemu, f->qemu_thread_pool_submit.pool, "thread pool"), TYPE_OTHER, 0, 0);
}

void qemu_requests_event(struct qemu *qemu)
{
    const union event_fields *f = &qemu->event->fields;

    switch ((unsigned)qemu->event->id) {
    case EVENT_qemu_bdrv_open_common:
        opened(qemu);
        break;
    case EVENT_qemu_virtio_blk_handle_read:
        virtio_begin(qemu, TYPE_READ);
        break;
    case EVENT_qemu_virtio_blk_handle_write:
        virtio_begin(qemu, TYPE_WRITE);
        break;
    case EVENT_qemu_virtio_blk_rw_complete:
        complete(qemu, f->qemu_virtio_blk_rw_complete.req, f->qemu_virtio_blk_rw_complete.ret);
        break;
    case EVENT_qemu_virtio_blk_req_complete:
        end(qemu, f->qemu_virtio_blk_req_complete.req, (uint64_t)f->qemu_virtio_blk_req_complete.status);
        break;
    case EVENT_qemu_luring_co_submit:
        io_uring_begin(qemu);
        break;
    case EVENT_qemu_luring_process_completion:
        answered(qemu, f->qemu_luring_process_completion.aiocb, f->qemu_luring_process_completion.ret);
        break;
    case EVENT_qemu_luring_cqe_handler:
        answered(qemu, f->qemu_luring_cqe_handler.req, f->qemu_luring_cqe_handler.ret);
        break;
    case EVENT_qemu_thread_pool_submit:
    case EVENT_qemu_thread_pool_submit_aio:
        pool_begin(qemu);
        break;
    case EVENT_qemu_thread_pool_complete:
    case EVENT_qemu_thread_pool_complete_aio:
        answered(qemu, f->qemu_thread_pool_complete.req, f->qemu_thread_pool_complete.ret);
        break;
    default:
        break;
    }
}

void qemu_requests_finish(struct qemu *qemu)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, qemu->requests);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct life *request = value;

        if (request->failed)
            QEMU_DERIVE(qemu, vblk_request_abandoned, .request_id = request->id);
    }
}
