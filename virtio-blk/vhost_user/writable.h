/**
 * Waiting until a socket takes bytes again.
 *
 * Loops watch for reading only. An epoll instance that watches for writing becomes readable itself; this happens only to
 * somebody who asks and reads no answers, so it may cost a few system calls.
 */
#ifndef VHOST_USER_WRITABLE_H
#define VHOST_USER_WRITABLE_H

#include <stdint.h>

#include "rt/loop.h"

/**
 * Returns:   0: writing gets further now, or fails; -errno: it cannot be waited for.
 * Thread:    a coroutine of @loop, in its thread. A shutdown of the socket ends the wait.
 */
int vhost_user_wait_writable_co(struct rt_loop *loop, int fd, enum rt_fd_role role, uint32_t device_id);

#endif
