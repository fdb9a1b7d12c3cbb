/*
 * The vhost-user wire format as the front end sees it.
 *
 * The front end keeps its own reading of the specification, apart from the device's: a number
 * that both took from one header would be wrong on both sides and no test would notice.
 *
 * Source: vhost-user protocol specification, "Message Specification" and "Protocol features".
 * All integers are in host byte order, as the protocol runs on one machine.
 */
#ifndef LOAD_VHOST_USER_WIRE_H
#define LOAD_VHOST_USER_WIRE_H

#include <stdint.h>

enum wire_request {
    WIRE_GET_FEATURES = 1,
    WIRE_SET_FEATURES = 2,
    WIRE_SET_OWNER = 3,
    WIRE_RESET_OWNER = 4,
    WIRE_SET_MEM_TABLE = 5,
    WIRE_SET_LOG_BASE = 6,
    WIRE_SET_LOG_FD = 7,
    WIRE_SET_VRING_NUM = 8,
    WIRE_SET_VRING_ADDR = 9,
    WIRE_SET_VRING_BASE = 10,
    WIRE_GET_VRING_BASE = 11,
    WIRE_SET_VRING_KICK = 12,
    WIRE_SET_VRING_CALL = 13,
    WIRE_SET_VRING_ERR = 14,
    WIRE_GET_PROTOCOL_FEATURES = 15,
    WIRE_SET_PROTOCOL_FEATURES = 16,
    WIRE_GET_QUEUE_NUM = 17,
    WIRE_SET_VRING_ENABLE = 18,
    WIRE_SET_BACKEND_REQ_FD = 21,
    WIRE_GET_CONFIG = 24,
    WIRE_SET_CONFIG = 25,
    WIRE_GET_INFLIGHT_FD = 31,
    WIRE_SET_INFLIGHT_FD = 32,
    WIRE_RESET_DEVICE = 34,
    WIRE_GET_MAX_MEM_SLOTS = 36,
    WIRE_ADD_MEM_REG = 37,
    WIRE_REM_MEM_REG = 38,
    WIRE_SET_STATUS = 39,
    WIRE_GET_STATUS = 40,
};

/* Header flags. */
#define WIRE_VERSION 0x1u
#define WIRE_REPLY 0x4u
#define WIRE_NEED_REPLY 0x8u

/* Bit in the virtio feature word that says "protocol features follow". */
#define WIRE_F_PROTOCOL_FEATURES 30

/* Protocol feature bits. */
enum wire_protocol_feature {
    WIRE_P_MQ = 0,
    WIRE_P_LOG_SHMFD = 1,
    WIRE_P_REPLY_ACK = 3,
    WIRE_P_BACKEND_REQ = 5,
    WIRE_P_CONFIG = 9,
    WIRE_P_BACKEND_SEND_FD = 10,
    WIRE_P_HOST_NOTIFIER = 11,
    WIRE_P_INFLIGHT_SHMFD = 12,
    WIRE_P_RESET_DEVICE = 13,
    WIRE_P_INBAND_NOTIFICATIONS = 14,
    WIRE_P_CONFIGURE_MEM_SLOTS = 15,
    WIRE_P_STATUS = 16,
};

/* SET_VRING_KICK, CALL, ERR: the ring's index is in the low byte; this bit says "no descriptor". */
#define WIRE_VRING_NO_FD 0x100u

#define WIRE_FDS_MAX 8
#define WIRE_PAYLOAD_MAX 4096

struct wire_header {
    uint32_t request;
    uint32_t flags;
    uint32_t size; /* of the payload that follows, bytes */
};

struct wire_vring_state {
    uint32_t index;
    uint32_t num;
};

struct wire_vring_addr {
    uint32_t index;
    uint32_t flags;
    uint64_t desc_user_addr;
    uint64_t used_user_addr;
    uint64_t avail_user_addr;
    uint64_t log_guest_addr;
};

struct wire_memory_region {
    uint64_t guest_addr;
    uint64_t size_bytes;
    uint64_t user_addr;
    uint64_t mmap_offset;
};

struct wire_memory_table {
    uint32_t region_count;
    uint32_t padding;
    struct wire_memory_region regions[WIRE_FDS_MAX];
};

/* ADD_MEM_REG, REM_MEM_REG. */
struct wire_memory_slot {
    uint64_t padding;
    struct wire_memory_region region;
};

/* GET_INFLIGHT_FD, SET_INFLIGHT_FD. The specification ends it after queue_size. */
struct wire_inflight {
    uint64_t mmap_size;
    uint64_t mmap_offset;
    uint16_t queue_count;
    uint16_t queue_size;
} __attribute__((packed));

struct wire_config_header {
    uint32_t offset;
    uint32_t size;
    uint32_t flags; /* of SET_CONFIG: enum wire_config_writer */
};

enum wire_config_writer { WIRE_CONFIG_BY_DRIVER = 0, WIRE_CONFIG_BY_MIGRATION = 1 };

/* Messages of the server, on the channel of SET_BACKEND_REQ_FD. */
enum wire_backend_request { WIRE_BACKEND_CONFIG_CHANGE = 2 };

/* Bits of SET_STATUS. Source: VIRTIO 1.2, 2.1. */
enum wire_status {
    WIRE_STATUS_ACKNOWLEDGE = 1,
    WIRE_STATUS_DRIVER = 2,
    WIRE_STATUS_DRIVER_OK = 4,
    WIRE_STATUS_FEATURES_OK = 8,
    WIRE_STATUS_NEEDS_RESET = 64,
    WIRE_STATUS_FAILED = 128,
};

#endif
