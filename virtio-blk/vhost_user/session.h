/**
 * One device's vhost-user server: listens, talks to one front end at a time, turns messages into calls.
 *
 * The session knows the protocol (framing, negotiation, replies, descriptors); the device behind the operations
 * knows what a queue is. Messages are handled one after another in a coroutine of the main loop, so an operation
 * may yield (suffix _co) while it drains; other devices go on meanwhile.
 *
 * Source:    vhost-user specification (QEMU, docs/interop/vhost-user), "Back-end program conventions" too.
 */
#ifndef VHOST_USER_SESSION_H
#define VHOST_USER_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "vhost_user/dirty_log.h"
#include "vhost_user/inflight.h"
#include "vhost_user/memory_map.h"

struct vhost_user_session;

#define VHOST_USER_CONFIG_MAX 256

/** Addresses are the front end's; flags bit 0 (log) is refused unless LOG_ALL was negotiated. */
struct vhost_user_ring_address {
    uint64_t desc_user, used_user, avail_user, log_guest;
    uint32_t flags;
};

/**
 * What a device provides. All run in the main loop's thread, in the session's coroutine. They return 0 or
 * -errno; an error refuses the message: traced (vhost_user:message result), logged, answered non-zero when
 * REPLY_ACK asks, and the connection is closed if the message cannot be refused safely.
 */
struct vhost_user_ops {
    void (*connected)(void *opaque, int fd);
    /** Drain, stop all rings, forget memory; nothing acknowledged is lost. @error 0: orderly. */
    void (*disconnected_co)(void *opaque, int error);
    /** A subset of what was offered. VHOST_F_LOG_ALL comes and goes while rings run, and holds from the return on. */
    int (*set_features_co)(void *opaque, uint64_t features);
    /** The log to mark from now on while VHOST_F_LOG_ALL is set: belongs to the device, which is done with the one
     *  before when it returns. */
    void (*set_log_co)(void *opaque, struct vhost_user_dirty_log *log);
    void (*set_log_fd_co)(void *opaque, int fd); /**< written after marks; belongs to the device */
    /**
     * Takes its own reference and keeps it until the next map, disconnected_co or reset_co. @map NULL: no memory is left.
     * @keeps_old: it holds every region of the map before at the same address, so that what is in flight may go on.
     */
    int (*set_memory_co)(void *opaque, struct vhost_user_memory_map *map, bool keeps_old);
    int (*set_ring_size)(void *opaque, uint16_t index, uint32_t size);
    /** For a running ring only the log flag may change. */
    int (*set_ring_address_co)(void *opaque, uint16_t index, const struct vhost_user_ring_address *address);
    int (*set_ring_base)(void *opaque, uint16_t index, uint32_t base);
    /** fd -1: the ring is polled. On success the fd belongs to the device, on error the session closes it. */
    int (*set_ring_kick_co)(void *opaque, uint16_t index, int fd);
    int (*set_ring_call)(void *opaque, uint16_t index, int fd); /**< fd -1: no interrupts. Ownership as above */
    int (*set_ring_error)(void *opaque, uint16_t index, int fd); /**< fd -1: none. Ownership as above */
    int (*set_ring_enable_co)(void *opaque, uint16_t index, bool enable);
    /** Stop this ring alone (detach, drain, release); base_out: the next available index. */
    int (*get_ring_base_co)(void *opaque, uint16_t index, uint32_t *base_out);
    /** The front end keeps this for us. On success it belongs to the device, on error to the session. */
    int (*set_inflight)(void *opaque, const struct vhost_user_inflight *inflight);
    int (*reset_co)(void *opaque); /**< RESET_OWNER: stop all rings, features off, memory forgotten */
    int (*reset_device_co)(void *opaque); /**< RESET_DEVICE, status 0: stop all rings, features off; memory stays */
    int (*get_config)(void *opaque, uint32_t offset, uint32_t size, uint8_t *bytes_out);
    int (*set_config)(void *opaque, uint32_t offset, uint32_t size, const uint8_t *bytes);
    /** The session was given a connected socket, and its front end has left: nothing will come any more. May be NULL;
     *  must not destroy the session itself (let a coroutine do it). */
    void (*ended)(void *opaque);
};

struct vhost_user_session_options {
    const char *name;         /**< for messages and traces */
    uint32_t device_id;
    uint16_t queue_count;
    uint64_t features;        /**< offered, VHOST_USER_F_PROTOCOL_FEATURES is added */
    const char *socket_path;  /**< NULL when fd is given */
    int fd;                   /**< -1, or a connected or listening socket; on success it belongs to the session */
    int socket_mode;          /**< -1: leave to umask */
    const char *socket_group; /**< NULL: leave */
    const struct vhost_user_ops *ops;
    void *opaque;
};

/**
 * Bind, listen, and serve in the calling thread's loop. Front ends are served one after another: one that connects
 * while another is there waits in the backlog, as a front end that was restarted does until its predecessor's
 * requests are drained. Descriptors that come with messages are non-blocking. SIGPIPE is ignored from here on.
 *
 * Operations are called from the loop, not from here, even if the socket is connected already.
 *
 * A path whose owner is dead (nobody answers a connect) is reused; one in use is -EADDRINUSE. message_out gets one
 * line (object, cause, remedy) on failure; caller frees with g_free.
 */
int vhost_user_session_create(const struct vhost_user_session_options *options, struct vhost_user_session **session_out,
                              char **message_out);

/** Whether VHOST_USER_F_PROTOCOL_FEATURES was negotiated: then rings start disabled. */
bool vhost_user_session_has_protocol_features(const struct vhost_user_session *session);

/**
 * Tell the front end that the configuration space reads differently now, if it has given us a channel for that. Never
 * blocks. Thread: the session's loop.
 *
 * Returns:   whether it was told; else it learns it when it asks next.
 */
bool vhost_user_session_config_changed(struct vhost_user_session *session);

/** Hang up (drains through disconnected_co), stop listening, remove the socket, free. Coroutine only. */
void vhost_user_session_destroy_co(struct vhost_user_session *session);

#endif
