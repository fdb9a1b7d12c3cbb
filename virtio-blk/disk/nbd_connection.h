/**
 * One connection to an NBD server in one loop, which comes back when it breaks. Commands that were on their way then are
 * sent again on the new connection, if it comes in time.
 *
 *     vblk_nbd_connection_create(&options, loop, handle, &connection);
 *     result = vblk_nbd_connection_run_co(connection, &command);        // in a coroutine of the loop
 *     vblk_nbd_connection_destroy(connection);
 *
 * Thread:    the loop's, for everything.
 */
#ifndef VBLK_DISK_NBD_CONNECTION_H
#define VBLK_DISK_NBD_CONNECTION_H

#include <stddef.h>
#include <stdint.h>

#include "log/log.h"

struct nbd_handle;
struct rt_loop;
struct vblk_nbd_connection;

struct vblk_nbd_connection_options {
    const char *uri;
    uint64_t size_bytes;    /**< of the disk: a server that comes back with less is not taken */
    int64_t reconnect_ns;   /**< how long commands wait for a lost server; 0: they fail at once */
    struct vblk_log *log;   /**< all of it outlives the connection */
};

enum vblk_nbd_command_type { VBLK_NBD_READ, VBLK_NBD_WRITE, VBLK_NBD_FLUSH, VBLK_NBD_TRIM, VBLK_NBD_ZERO };

struct vblk_nbd_command {
    enum vblk_nbd_command_type type;
    void *data;             /**< of reads and writes: size_bytes, until return */
    uint64_t offset_bytes, size_bytes;
    uint32_t flags;         /**< LIBNBD_CMD_FLAG_... */
};

/** @handle: connected, belongs to the connection from here on; NULL: it connects by itself. 0 or -errno. */
int vblk_nbd_connection_create(const struct vblk_nbd_connection_options *options, struct rt_loop *loop,
                               struct nbd_handle *handle, struct vblk_nbd_connection **connection_out);
void vblk_nbd_connection_destroy(struct vblk_nbd_connection *connection); /**< no command is there; NULL is fine */

/** 0 or -errno: what the server said, or -EIO when it did not come back in time. Coroutine of the loop; may yield. */
int vblk_nbd_connection_run_co(struct vblk_nbd_connection *connection, const struct vblk_nbd_command *command);

/** A buffer of at least @size_bytes for one command; from a few that are kept. NULL without memory. */
void *vblk_nbd_connection_take_buffer(struct vblk_nbd_connection *connection, size_t size_bytes);
void vblk_nbd_connection_give_buffer(struct vblk_nbd_connection *connection, void *buffer);

#endif
