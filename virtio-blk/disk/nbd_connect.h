/**
 * Connecting to an NBD server, in a thread of its own: names are resolved, addresses tried and TLS spoken, all of which may
 * block for as long as the network likes.
 *
 *     error = vblk_nbd_connect_start(uri, loop, connected, opaque, &attempt);     // connected() runs in the loop
 *     vblk_nbd_connect_cancel(attempt);                                           // or not
 */
#ifndef VBLK_DISK_NBD_CONNECT_H
#define VBLK_DISK_NBD_CONNECT_H

#include <stdint.h>

struct nbd_handle;
struct rt_loop;
struct vblk_nbd_attempt;

/** @handle belongs to the callee; NULL: @why says in one line what went wrong, and lives until return. */
typedef void vblk_nbd_connected(void *opaque, struct nbd_handle *handle, const char *why);

/** The attempt is over when @fn is called. 0 or -errno (no thread). Thread: the loop's. */
int vblk_nbd_connect_start(const char *uri, struct rt_loop *loop, vblk_nbd_connected *fn, void *opaque,
                           struct vblk_nbd_attempt **attempt_out);
/** fn is not called any more. Thread: the loop's. */
void vblk_nbd_connect_cancel(struct vblk_nbd_attempt *attempt);

/** Connect and wait for it. Returns the handle, or NULL with one line in why_out (caller frees with g_free). */
struct nbd_handle *vblk_nbd_connect_wait(const char *uri, int64_t timeout_ns, char **why_out);

/**
 * What libnbd takes for @spec: an NBD URI as it is, with or without "nbd:" before it, and the short forms that QEMU has:
 * nbd:unix:PATH and nbd:HOST:PORT, both perhaps with :exportname=NAME. NULL: none of these. Caller frees with g_free.
 */
char *vblk_nbd_uri(const char *spec);

#endif
