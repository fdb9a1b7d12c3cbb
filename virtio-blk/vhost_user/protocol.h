/**
 * The vhost-user wire format, as far as this back end speaks it. Native byte order: both sides are on one machine.
 *
 * Source: vhost-user specification (QEMU, docs/interop/vhost-user), "Message Specification".
 */
#ifndef VHOST_USER_PROTOCOL_H
#define VHOST_USER_PROTOCOL_H

#include <stdint.h>

#include "vhost_user/memory_map.h"

/** Bit of the virtio features that stands for the protocol's own ones. */
#define VHOST_USER_F_PROTOCOL_FEATURES 30
/** Bit of the virtio features: writes to memory are to be logged. */
#define VHOST_F_LOG_ALL 26

enum vhost_user_protocol_feature {
    VHOST_USER_PROTOCOL_F_MQ = 0,
    VHOST_USER_PROTOCOL_F_LOG_SHMFD = 1,
    VHOST_USER_PROTOCOL_F_REPLY_ACK = 3,
    VHOST_USER_PROTOCOL_F_BACKEND_REQ = 5,
    VHOST_USER_PROTOCOL_F_CONFIG = 9,
    VHOST_USER_PROTOCOL_F_RESET_DEVICE = 13,
    VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS = 15,
    VHOST_USER_PROTOCOL_F_STATUS = 16,
    VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD = 12,
};

enum vhost_user_request {
    VHOST_USER_GET_FEATURES = 1,
    VHOST_USER_SET_FEATURES = 2,
    VHOST_USER_SET_OWNER = 3,
    VHOST_USER_RESET_OWNER = 4,
    VHOST_USER_SET_MEM_TABLE = 5,
    VHOST_USER_SET_LOG_BASE = 6,
    VHOST_USER_SET_LOG_FD = 7,
    VHOST_USER_SET_VRING_NUM = 8,
    VHOST_USER_SET_VRING_ADDR = 9,
    VHOST_USER_SET_VRING_BASE = 10,
    VHOST_USER_GET_VRING_BASE = 11,
    VHOST_USER_SET_VRING_KICK = 12,
    VHOST_USER_SET_VRING_CALL = 13,
    VHOST_USER_SET_VRING_ERR = 14,
    VHOST_USER_GET_PROTOCOL_FEATURES = 15,
    VHOST_USER_SET_PROTOCOL_FEATURES = 16,
    VHOST_USER_GET_QUEUE_NUM = 17,
    VHOST_USER_SET_VRING_ENABLE = 18,
    VHOST_USER_SET_BACKEND_REQ_FD = 21,
    VHOST_USER_GET_CONFIG = 24,
    VHOST_USER_SET_CONFIG = 25,
    VHOST_USER_RESET_DEVICE = 34,
    VHOST_USER_GET_MAX_MEM_SLOTS = 36,
    VHOST_USER_ADD_MEM_REG = 37,
    VHOST_USER_REM_MEM_REG = 38,
    VHOST_USER_SET_STATUS = 39,
    VHOST_USER_GET_STATUS = 40,
    VHOST_USER_GET_INFLIGHT_FD = 31,
    VHOST_USER_SET_INFLIGHT_FD = 32,
};

/** What the back end asks, on the channel of SET_BACKEND_REQ_FD. */
enum vhost_user_backend_request { VHOST_USER_BACKEND_CONFIG_CHANGE_MSG = 2 };

/** SET_CONFIG's flags: who writes. */
enum vhost_user_config_writer { VHOST_USER_CONFIG_BY_DRIVER = 0, VHOST_USER_CONFIG_BY_MIGRATION = 1 };

struct vhost_user_header {
    uint32_t request, flags, size_bytes; /* of the payload */
};

#define VHOST_USER_VERSION_MASK 0x3u
#define VHOST_USER_VERSION 0x1u
#define VHOST_USER_REPLY 0x4u
#define VHOST_USER_NEED_REPLY 0x8u

/** SET_VRING_KICK, CALL, ERR: a u64 of the ring's index and this flag, with a descriptor unless it is set. */
#define VHOST_USER_VRING_INDEX_MASK 0xffu
#define VHOST_USER_VRING_NO_FD 0x100u

/** SET_VRING_ADDR: writes to the used ring are to be logged. */
#define VHOST_USER_VRING_F_LOG 0x1u

struct vhost_user_vring_state {
    uint32_t index, num;
};

struct vhost_user_vring_address {
    uint32_t index, flags;
    uint64_t desc_user, used_user, avail_user, log_guest;
};

/** SET_LOG_BASE, with the log's descriptor. */
struct vhost_user_log {
    uint64_t size_bytes, offset_bytes;
};

#define VHOST_USER_TABLE_REGIONS_MAX 8

struct vhost_user_memory_table {
    uint32_t count, padding;
    struct vhost_user_memory_region regions[VHOST_USER_TABLE_REGIONS_MAX];
};

/** ADD_MEM_REG, REM_MEM_REG. */
struct vhost_user_memory_slot {
    uint64_t padding;
    struct vhost_user_memory_region region;
};

#define VHOST_USER_CONFIG_BYTES_MAX 256

struct vhost_user_config {
    uint32_t offset, size_bytes, flags;
    uint8_t bytes[VHOST_USER_CONFIG_BYTES_MAX];
};

/** Before the bytes. */
#define VHOST_USER_CONFIG_HEADER_BYTES 12

struct vhost_user_inflight_description {
    uint64_t size_bytes, offset_bytes; /* of the region in its file; 0 where it is asked for */
    uint16_t queue_count, queue_size;
    uint32_t padding; /* which the specification does not have, and some front ends send */
};

#define VHOST_USER_INFLIGHT_DESCRIPTION_BYTES 20

#endif
