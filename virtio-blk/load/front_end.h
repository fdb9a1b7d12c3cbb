/*
 * A vhost-user-blk front end: what a virtual machine monitor and its guest are to a server.
 *
 * The load generator uses it as it is meant to be used; protocol tests use the same pieces one by
 * one, send messages of any content with any descriptors, and write into ring memory as they like.
 *
 *     struct fe_options options = FE_OPTIONS_DEFAULT;
 *     options.socket_path = "/run/disk.sock";
 *     struct front_end *fe = fe_create(&options);
 *     if (fe_open(fe) < 0)
 *         fprintf(stderr, "%s\n", fe_error(fe));
 *     ... fe_queue(fe, 0), see fe_queue.h ...
 *     fe_stop(fe);
 *     fe_destroy(fe);
 *
 *     created --fe_connect--> connected --fe_negotiate--> negotiated --fe_map--> mapped
 *         mapped --fe_start--> started --fe_stop--> mapped; any --fe_destroy--> gone
 *
 * Errors:  functions return 0 or a negative errno; fe_error() then holds one line with object, cause
 *          and remedy. -ETIMEDOUT: no answer within timeout_ms. -ECONNRESET: the server closed the
 *          socket. -EPROTO: it answered what the protocol does not allow. -EREMOTEIO: it refused.
 * Threads: a front end belongs to one thread; each of its queues may be driven by another.
 * Source:  vhost-user protocol specification; VIRTIO 1.2, 5.2.
 */
#ifndef LOAD_FRONT_END_H
#define LOAD_FRONT_END_H

#include "fe_queue.h"
#include "vhost_user_wire.h"

struct front_end;

struct fe_options {
    const char *socket_path;
    int fd;                        /* an already connected socket instead of a path; -1: none. Taken over. */
    unsigned queue_count;          /* rings to set up */
    struct fe_queue_layout layout; /* of each ring; indirect and event_idx say what to ask for, packed what to insist on */
    bool reply_ack;                /* ask for it */
    uint64_t protocol_wanted;      /* protocol features to ask for beside MQ, CONFIG and REPLY_ACK: see fe_control.h */
    bool protocol_features;        /* false: behave like a front end from before they existed */
    uint64_t features_mask;        /* virtio features that may be accepted at all */
    unsigned memory_region_count;  /* the shared memory is announced as so many adjacent regions, 1..8; more with
                                    * CONFIGURE_MEM_SLOTS, as each then has a message of its own */
    size_t extra_bytes;            /* shared memory beyond the queues', for tests: fe_extra() */
    int timeout_ms;                /* for each answer */
};

#define FE_OPTIONS_DEFAULT                                                                                   \
    {                                                                                                        \
        .fd = -1, .queue_count = 1,                                                                          \
        .layout = { .size = 128,                                                                             \
                    .slot_count = 32,                                                                        \
                    .slot_bytes = 4096,                                                                      \
                    .indirect = true,                                                                        \
                    .event_idx = true },                                                                     \
        .reply_ack = true, .protocol_features = true, .features_mask = UINT64_MAX, .memory_region_count = 1, \
        .timeout_ms = 10000                                                                                  \
    }

/* What the server said and what was agreed. */
struct fe_info {
    uint64_t features_offered;
    uint64_t features;
    uint64_t protocol_features_offered;
    uint64_t protocol_features;
    uint64_t queue_count_max;        /* 0: the server cannot tell */
    bool config_known;               /* false without the CONFIG protocol feature */
    struct virtio_blk_config config; /* host byte order */
};

/* A message as received. The receiver closes fds[0, fd_count). */
struct fe_message {
    struct wire_header header;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    int fds[WIRE_FDS_MAX];
    unsigned fd_count;
};

struct front_end *fe_create(const struct fe_options *options);
/** Close everything, started or not, without a word to the server. NULL is fine. */
void fe_destroy(struct front_end *fe);

/** The last failure in one line. Valid until the next call. */
const char *fe_error(const struct front_end *fe);

int fe_connect(struct front_end *fe);

/** Agree on features, protocol features and owner; read queue count and configuration. */
int fe_negotiate(struct front_end *fe);

/** Allocate the shared memory, lay the queues out, announce it with SET_MEM_TABLE. */
int fe_map(struct front_end *fe);

/**
 * Set every ring up, then enable them all. Each start makes new eventfds; those of earlier starts stay
 * open, as in a virtual machine monitor that keeps its notifiers, until fe_destroy().
 */
int fe_start(struct front_end *fe);

/**
 * The server has gone, with requests in flight: connect to it, or to its successor, and give it the same memory and the
 * in-flight region, as a virtual machine monitor does. fe_start() follows. No queue is touched: what was in flight
 * still is, and the new server completes it. Eventfds of the old one are closed.
 *
 * Errors: -ENOTSUP  the server keeps no in-flight region, so requests may be lost.
 *         -EPROTO   the new server offers something else than the old one.
 *         After an error it can be called again.
 */
int fe_reconnect(struct front_end *fe);

/** connect, negotiate, map and start. */
int fe_open(struct front_end *fe);

/**
 * Stop every ring with GET_VRING_BASE and take over where the server stood. Then kick each stopped ring
 * once more: a guest may notify while its device stops, and a server that still listens shows.
 *
 * Errors: -EPROTO  the server's position and the used ring disagree: it took requests that it did not
 *                  complete, or completed some twice. The ring counts as stopped.
 */
int fe_stop(struct front_end *fe);

/* One ring of these, for tests of partial starts and stops. */
int fe_queue_start(struct front_end *fe, unsigned queue_index);
int fe_queue_enable(struct front_end *fe, unsigned queue_index, bool enable);
int fe_queue_stop(struct front_end *fe, unsigned queue_index, uint16_t *base_out); /* packed: the available position */
/* The same, with the whole answer of GET_VRING_BASE: see fe_queue_base(). */
int fe_queue_get_base(struct front_end *fe, unsigned queue_index, uint32_t *base_out);

struct fe_queue *fe_queue(struct front_end *fe, unsigned queue_index);
const struct fe_info *fe_info(const struct front_end *fe);
int fe_socket(const struct front_end *fe);

/** True if the server has closed the connection. Does not block. */
bool fe_gone(const struct front_end *fe);

/** Eventfd that the server writes when it finds a ring broken (SET_VRING_ERR); one for all rings. */
int fe_err_fd(const struct front_end *fe);

/* Shared memory. */
uint8_t *fe_memory(const struct front_end *fe, size_t *size_bytes_out);
int fe_memory_fd(const struct front_end *fe);
uint64_t fe_memory_guest_addr(const struct front_end *fe);
/** options.extra_bytes of shared memory, page-aligned. */
uint8_t *fe_extra(const struct front_end *fe);

/**
 * Send any message: the header is built from @request, @flags and @size_bytes, nothing is checked.
 *
 * Ownership: the caller keeps @fds.
 */
int fe_send(struct front_end *fe, uint32_t request, uint32_t flags, const void *payload, uint32_t size_bytes,
            const int *fds, unsigned fd_count);

/** Send any bytes, for headers that lie. */
int fe_send_bytes(struct front_end *fe, const void *bytes, size_t size_bytes, const int *fds,
                  unsigned fd_count);

/** Receive one message of any kind. */
int fe_recv(struct front_end *fe, struct fe_message *message);

/** Send a SET message and, with REPLY_ACK, wait for the server's verdict (-EREMOTEIO if it refuses). */
int fe_set(struct front_end *fe, uint32_t request, const void *payload, uint32_t size_bytes, const int *fds,
           unsigned fd_count);

/** Send a message and receive an answer of exactly @answer_bytes. */
int fe_get(struct front_end *fe, uint32_t request, const void *payload, uint32_t size_bytes, void *answer_out,
           uint32_t answer_bytes);

/** The same for an answer that brings a descriptor, which is the caller's. */
int fe_get_fd(struct front_end *fe, uint32_t request, const void *payload, uint32_t size_bytes, void *answer_out,
              uint32_t answer_bytes, int *fd_out);

/** "GET_FEATURES" for 1; "message 99" for what is unknown. */
const char *fe_request_name(uint32_t request);

#endif
