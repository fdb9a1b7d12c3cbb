/* Inside of struct front_end, for connection.c, front_end.c and fe_control.c only. */
#ifndef LOAD_FRONT_END_STATE_H
#define LOAD_FRONT_END_STATE_H

#include "front_end.h"

#include <glib.h>

struct front_end {
    struct fe_options options;
    char *socket_path; /* also names the connection in errors */
    int socket;
    int backend_channel; /* our end; -1: there is none */
    struct fe_info info;

    int memory_fd;
    uint8_t *memory;
    size_t memory_bytes;
    size_t extra_offset;

    struct fe_queue *queues; /* [options.queue_count] once mapped */
    bool *queue_started;
    int err_fd;
    int inflight_fd; /* -1: none */
    struct wire_inflight inflight;
    GArray *retired_fds; /* int; eventfds of earlier starts, see fe_start() */

    char error[512];
};

/** Note a failure: "SOCKET: " and the text. Returns @error, a negative errno. */
int fe_fail(struct front_end *fe, int error, const char *format, ...) G_GNUC_PRINTF(3, 4);

static inline bool fe_has(uint64_t features, unsigned bit)
{
    return features >> bit & 1;
}

#endif
