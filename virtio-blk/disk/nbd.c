/*
 * A disk on an NBD server, through libnbd. Where the server allows several connections (what one flush covers then holds for
 * all of them) each loop has its own; else there is one, in a thread of its own, and each request goes over to it.
 */
#include <errno.h>
#include <glib.h>
#include <libnbd.h>
#include <stdatomic.h>
#include <string.h>

#include "disk/backend.h"
#include "disk/nbd_connect.h"
#include "disk/nbd_connection.h"
#include "log/log.h"
#include "rt/coroutine.h"
#include "rt/iothread.h"
#include "rt/loop.h"

/* How long a server may take to answer when the disk is opened. */
#define OPEN_NS (10 * INT64_C(1000000000))
/* What a server takes that names no limit. Source: the NBD protocol's "Block size constraints". */
#define PAYLOAD_BYTES_DEFAULT (UINT32_C(32) << 20)
/* A buffer for scattered data is at most so large. */
#define BOUNCE_BYTES_MAX (UINT32_C(1) << 20)

struct nbd_disk {
    struct vblk_disk disk;
    char *uri;
    struct vblk_log log;
    struct vblk_nbd_connection_options options;
    uint32_t payload_bytes_max;
    bool can_flush, can_trim, can_zero;
    struct nbd_handle *_Atomic first; /* made when the disk was opened; whoever comes first uses it */
    /* Without several connections: */
    struct rt_iothread *iothread;
    struct vblk_nbd_connection *shared;
};

struct nbd_loop {
    struct vblk_disk_loop context;
    struct rt_loop *loop;
    struct vblk_nbd_connection *connection;
};

static int run_co(struct nbd_loop *loop, const struct vblk_nbd_command *command)
{
    return vblk_nbd_connection_run_co(loop->connection, command);
}

/* Go to where the connection is, and back. */
static void enter_co(struct nbd_loop *loop)
{
    const struct nbd_disk *nbd = (struct nbd_disk *)loop->context.disk;

    if (nbd->shared)
        rt_coroutine_move(rt_iothread_loop(nbd->iothread));
}

static void leave_co(struct nbd_loop *loop)
{
    const struct nbd_disk *nbd = (struct nbd_disk *)loop->context.disk;

    if (nbd->shared)
        rt_coroutine_move(loop->loop);
}

static int run_there_co(struct nbd_loop *loop, const struct vblk_nbd_command *command)
{
    int result;

    enter_co(loop);
    result = run_co(loop, command);
    leave_co(loop);
    return result;
}

/* ---- data ---- */

/* A place in an iovec. */
struct cursor {
    const struct iovec *iov;
    int left;
    size_t skip_bytes;
};

/* Move on by @bytes, and copy on the way: into @to, or from @from, or neither. */
static void advance(struct cursor *cursor, char *to, const char *from, size_t bytes)
{
    while (bytes > 0) {
        char *at = (char *)cursor->iov->iov_base + cursor->skip_bytes;
        size_t part = MIN(cursor->iov->iov_len - cursor->skip_bytes, bytes);

        if (to)
            to = (char *)memcpy(to, at, part) + part;
        if (from) {
            memcpy(at, from, part);
            from += part;
        }
        bytes -= part;
        cursor->skip_bytes += part;
        if (cursor->skip_bytes == cursor->iov->iov_len) {
            cursor->iov++;
            cursor->left--;
            cursor->skip_bytes = 0;
        }
    }
}

/* One command of scattered data. */
static int bounced_co(struct nbd_loop *loop, struct vblk_nbd_command *command, struct cursor *cursor)
{
    char *buffer = vblk_nbd_connection_take_buffer(loop->connection, command->size_bytes);
    struct cursor from = *cursor;
    int result;

    if (!buffer)
        return -ENOMEM;
    command->data = buffer;
    if (command->type == VBLK_NBD_WRITE)
        advance(&from, buffer, NULL, command->size_bytes);
    result = run_co(loop, command);
    if (result == 0)
        advance(cursor, NULL, command->type == VBLK_NBD_READ ? buffer : NULL, command->size_bytes);
    vblk_nbd_connection_give_buffer(loop->connection, buffer);
    return result;
}

static int transfer_co(struct vblk_disk_loop *context, enum vblk_nbd_command_type type, uint64_t offset_bytes,
                       const struct iovec *iov, int iov_count)
{
    struct nbd_loop *loop = (struct nbd_loop *)context;
    const struct nbd_disk *nbd = (struct nbd_disk *)context->disk;
    struct cursor cursor = { .iov = iov, .left = iov_count };
    uint64_t left = 0;
    int result = 0;

    for (int i = 0; i < iov_count; i++)
        left += iov[i].iov_len;
    enter_co(loop);
    while (left > 0 && result == 0) {
        uint64_t here = cursor.iov->iov_len - cursor.skip_bytes;
        struct vblk_nbd_command command = { .type = type, .offset_bytes = offset_bytes };

        if (here >= MIN(left, BOUNCE_BYTES_MAX)) {
            command.size_bytes = MIN(MIN(here, left), nbd->payload_bytes_max);
            command.data = (char *)cursor.iov->iov_base + cursor.skip_bytes;
            result = run_co(loop, &command);
            if (result == 0)
                advance(&cursor, NULL, NULL, command.size_bytes);
        } else {
            command.size_bytes = MIN(left, MIN(BOUNCE_BYTES_MAX, nbd->payload_bytes_max));
            result = bounced_co(loop, &command, &cursor);
        }
        offset_bytes += command.size_bytes;
        left -= command.size_bytes;
    }
    leave_co(loop);
    return result;
}

static int nbd_disk_read_co(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov, int iov_count)
{
    return transfer_co(context, VBLK_NBD_READ, offset_bytes, iov, iov_count);
}

static int nbd_disk_write_co(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov, int iov_count)
{
    return transfer_co(context, VBLK_NBD_WRITE, offset_bytes, iov, iov_count);
}

/* ---- the rest ---- */

static int nbd_disk_flush_co(struct vblk_disk_loop *context)
{
    const struct nbd_disk *nbd = (struct nbd_disk *)context->disk;
    const struct vblk_nbd_command command = { .type = VBLK_NBD_FLUSH };

    return nbd->can_flush ? run_there_co((struct nbd_loop *)context, &command) : 0;
}

static int nbd_disk_discard_co(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes)
{
    const struct nbd_disk *nbd = (struct nbd_disk *)context->disk;
    const struct vblk_nbd_command command = { .type = VBLK_NBD_TRIM, .offset_bytes = offset_bytes, .size_bytes = size_bytes };

    return nbd->can_trim ? run_there_co((struct nbd_loop *)context, &command) : -EOPNOTSUPP;
}

static int nbd_disk_write_zeroes_co(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes,
                                    bool may_unmap)
{
    const struct nbd_disk *nbd = (struct nbd_disk *)context->disk;
    const struct vblk_nbd_command command = { .type = VBLK_NBD_ZERO, .offset_bytes = offset_bytes, .size_bytes = size_bytes,
                                              .flags = may_unmap ? 0 : LIBNBD_CMD_FLAG_NO_HOLE };

    return nbd->can_zero ? run_there_co((struct nbd_loop *)context, &command) : -EOPNOTSUPP;
}

/* ---- life ---- */

static int nbd_disk_attach_loop(struct vblk_disk *disk, struct rt_loop *rt_loop, struct vblk_disk_loop **context_out)
{
    struct nbd_disk *nbd = (struct nbd_disk *)disk;
    struct nbd_loop *loop = g_new0(struct nbd_loop, 1);
    int error = 0;

    loop->context.disk = disk;
    loop->loop = rt_loop;
    loop->connection = nbd->shared;
    if (!nbd->shared)
        error = vblk_nbd_connection_create(&nbd->options, rt_loop, atomic_exchange(&nbd->first, NULL), &loop->connection);
    if (error < 0) {
        g_free(loop);
        return error;
    }
    *context_out = &loop->context;
    return 0;
}

static void nbd_disk_detach_loop(struct vblk_disk_loop *context)
{
    struct nbd_loop *loop = (struct nbd_loop *)context;
    const struct nbd_disk *nbd = (struct nbd_disk *)context->disk;

    if (!nbd->shared)
        vblk_nbd_connection_destroy(loop->connection);
    g_free(loop);
}

struct shared_call {
    struct nbd_disk *nbd;
    int result;
};

static void create_shared(void *opaque)
{
    struct shared_call *call = opaque;
    struct nbd_disk *nbd = call->nbd;

    call->result = vblk_nbd_connection_create(&nbd->options, rt_loop_current(), atomic_exchange(&nbd->first, NULL),
                                              &nbd->shared);
}

static void destroy_shared(void *opaque)
{
    struct nbd_disk *nbd = opaque;

    vblk_nbd_connection_destroy(nbd->shared);
}

static int share(struct nbd_disk *nbd)
{
    struct shared_call call = { .nbd = nbd };
    int error = rt_iothread_create("nbd", 0, &nbd->iothread);

    if (error == 0) {
        rt_loop_call(rt_iothread_loop(nbd->iothread), create_shared, &call);
        error = call.result;
    }
    return error;
}

static void nbd_disk_close(struct vblk_disk *disk)
{
    struct nbd_disk *nbd = (struct nbd_disk *)disk;

    if (nbd->shared)
        rt_loop_call(rt_iothread_loop(nbd->iothread), destroy_shared, nbd);
    rt_iothread_destroy(nbd->iothread);
    nbd_close(atomic_load(&nbd->first));
    g_free(nbd->uri);
    g_free(nbd);
}

static const struct vblk_disk_ops nbd_ops = {
    .close = nbd_disk_close,
    .attach_loop = nbd_disk_attach_loop,
    .detach_loop = nbd_disk_detach_loop,
    .read_co = nbd_disk_read_co,
    .write_co = nbd_disk_write_co,
    .flush_co = nbd_disk_flush_co,
    .discard_co = nbd_disk_discard_co,
    .write_zeroes_co = nbd_disk_write_zeroes_co,
};

/* What the server says about its disk. */
static int find_facts(struct nbd_disk *nbd, struct nbd_handle *handle, const char *spec,
                      const struct vblk_disk_options *options, char **message_out)
{
    int64_t size_bytes = nbd_get_size(handle), block_bytes = nbd_get_block_size(handle, LIBNBD_SIZE_MINIMUM);
    int64_t preferred_bytes = nbd_get_block_size(handle, LIBNBD_SIZE_PREFERRED);
    int64_t payload_bytes = nbd_get_block_size(handle, LIBNBD_SIZE_MAXIMUM);
    struct vblk_disk_facts *facts = &nbd->disk.facts;

    if (block_bytes < 1)
        block_bytes = 1;
    if (size_bytes <= 0 || size_bytes % 512 != 0 || size_bytes % block_bytes != 0) {
        *message_out = g_strdup_printf("%s: the server's disk of %" G_GINT64_FORMAT " bytes is none for a guest: it must be a "
                                       "multiple of 512 and of its block size %" G_GINT64_FORMAT, spec, size_bytes, block_bytes);
        return -EINVAL;
    }
    if ((block_bytes & (block_bytes - 1)) != 0 || block_bytes > 65536) {
        *message_out = g_strdup_printf("%s: the server's block size %" G_GINT64_FORMAT " is none", spec, block_bytes);
        return -EINVAL;
    }
    if (!options->read_only && nbd_is_read_only(handle) != 0) {
        *message_out = g_strdup_printf("%s: the server lets nobody write to it (try --read-only)", spec);
        return -EROFS;
    }
    nbd->can_flush = nbd_can_flush(handle) == 1;
    nbd->can_trim = nbd_can_trim(handle) == 1;
    nbd->can_zero = nbd_can_zero(handle) == 1;
    nbd->payload_bytes_max = payload_bytes >= block_bytes && payload_bytes < PAYLOAD_BYTES_DEFAULT
                                 ? payload_bytes / block_bytes * block_bytes : PAYLOAD_BYTES_DEFAULT;
    *facts = (struct vblk_disk_facts){ .size_bytes = size_bytes, .align_bytes = block_bytes, .backend = "nbd",
                                       .read_only = options->read_only, .discard = nbd->can_trim && !options->read_only };
    if (preferred_bytes >= 512 && preferred_bytes % 512 == 0 && preferred_bytes <= UINT32_MAX)
        facts->discard_align_bytes = preferred_bytes;
    nbd->disk.range_align_bytes = block_bytes;
    if (!nbd->can_flush && !options->read_only)
        vblk_log(NULL, VBLK_LOG_WARNING, "%s: the server knows no flush: what it acknowledged is taken for stable", spec);
    return 0;
}

int vblk_disk_nbd_open(const char *spec, const struct vblk_disk_options *options, struct vblk_disk **disk_out,
                       char **message_out)
{
    struct nbd_disk *nbd;
    struct nbd_handle *handle;
    char *uri = vblk_nbd_uri(spec), *why = NULL;
    int error;

    if (!uri) {
        *message_out = g_strdup_printf("%s: not an NBD server: say nbd:unix:PATH, nbd://HOST:PORT/EXPORT or "
                                       "nbd+unix:///EXPORT?socket=PATH", spec);
        return -EINVAL;
    }
    handle = vblk_nbd_connect_wait(uri, OPEN_NS, &why);
    if (!handle) {
        *message_out = g_strdup_printf("%s: cannot connect: %s (is the server running?)", spec, why);
        g_free(why);
        g_free(uri);
        return -ECONNREFUSED;
    }
    nbd = g_new0(struct nbd_disk, 1);
    nbd->uri = uri;
    nbd->disk.ops = &nbd_ops;
    vblk_log_init(&nbd->log, nbd->uri);
    atomic_init(&nbd->first, handle);
    error = find_facts(nbd, handle, spec, options, message_out);
    if (error == 0) {
        nbd->options = (struct vblk_nbd_connection_options){ .uri = uri, .size_bytes = nbd->disk.facts.size_bytes,
                                                             .reconnect_ns = options->nbd_reconnect_s * INT64_C(1000000000),
                                                             .log = &nbd->log };
        if (nbd_can_multi_conn(handle) != 1) {
            error = share(nbd);
            if (error < 0)
                *message_out = g_strdup_printf("%s: cannot start a thread for it: %s", spec, g_strerror(-error));
        }
    }
    if (error < 0) {
        nbd_disk_close(&nbd->disk);
        return error;
    }
    *disk_out = &nbd->disk;
    return 0;
}
