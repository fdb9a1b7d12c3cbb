/*
 * A small vhost-user-blk server in a thread of the test, with a disk in memory and faults on request.
 *
 * It shares no code with the device or the front end: a mistake in either is not repeated here.
 */
#ifndef TESTS_LOAD_FAKE_SERVER_H
#define TESTS_LOAD_FAKE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

enum fake_fault {
    FAULT_NONE,
    /* At message fault_request: */
    FAULT_REFUSE,    /* acknowledge with an error */
    FAULT_NO_ANSWER, /* do not answer */
    FAULT_CLOSE,     /* close the connection */
    FAULT_SHORT,     /* answer 4 bytes too few */
    FAULT_OTHER,     /* answer another message */
    FAULT_HUGE,      /* announce more payload than any message has */
    /* At request fault_after: */
    FAULT_SILENT,     /* complete nothing any more */
    FAULT_VANISH,     /* close the connection in the middle of a run */
    FAULT_TWICE,      /* complete one request twice */
    FAULT_RUNAWAY,    /* move the used index far ahead */
    FAULT_UNKNOWN_ID, /* complete a descriptor that begins no request */
    FAULT_RING_ERROR, /* write the error eventfd */
    FAULT_NO_STATUS,  /* complete without writing the status byte */
    FAULT_LOST_WRITE, /* acknowledge one write without doing it */
    FAULT_MISPLACED,  /* write one block's data one block further */
    FAULT_TORN,       /* write only the first sector of one block */
    FAULT_IO_ERROR,   /* answer one request with VIRTIO_BLK_S_IOERR */
    FAULT_FORGET,     /* take one request and never complete it, but count it in GET_VRING_BASE */
};

struct fake_options {
    uint64_t features;
    uint64_t protocol_features;
    uint64_t queue_count;
    uint64_t capacity_sectors;
    uint32_t blk_size;
    bool busy_poll;
    bool null; /* move no data */
    enum fake_fault fault;
    uint32_t fault_request;
    uint64_t fault_after;
};

/* Everything that the front end can use. */
extern const struct fake_options fake_defaults;

struct fake_server;

/** Listen in a new directory and serve one connection after another. */
struct fake_server *fake_start(const struct fake_options *options);
const char *fake_path(const struct fake_server *server);
/** End the thread and remove the directory. */
void fake_stop(struct fake_server *server);

/* After fake_stop() only: what the server saw. */
struct fake_seen {
    uint64_t request_count;
    uint64_t flush_count;
    uint64_t kick_count;  /* reads of a kick eventfd */
    uint64_t start_count; /* rings started */
};
struct fake_seen fake_seen(const struct fake_server *server);
void fake_free(struct fake_server *server);

#endif
