/**
 * The requests in flight of a process, by id, and which of them holds which head of its queue.
 *
 * Born by begin; by recovered (its begin follows); by slow, if it began before the recording or its begin may be lost.
 * Gone by end and abandoned; by recovered under another id; and when the driver posts its head anew, which proves that
 * the driver has it back, whatever was recorded. Memory is therefore bounded by what the rings hold.
 */
#ifndef ANALYSIS_MODEL_REQUEST_H
#define ANALYSIS_MODEL_REQUEST_H

#include "model/process.h"

/** A head that a program does not know: any value that does not fit into 16 bits. */
#define HEAD_UNKNOWN UINT32_MAX

/** Values of vblk_request:slow's stage. */
enum request_stage { REQUEST_QUEUED, REQUEST_SERIALISING, REQUEST_BACKEND, REQUEST_COMPLETING };

struct request {
    uint64_t id;
    uint32_t device_id;
    uint16_t queue_index;
    uint32_t head; /**< or HEAD_UNKNOWN */
    uint64_t type;
    uint32_t loop_id;                         /**< where it began; 0: begin not seen */
    int64_t vtid;                             /**< who began it; EVENT_UNKNOWN_ID: not known */
    bool begin_seen;                          /**< else begin_ns follows from the age that slow told */
    bool recovered;                           /**< resubmitted from the in-flight region */
    int64_t begin_ns, submit_ns, complete_ns; /**< 0: not yet */
    int64_t seen_ns;                          /**< last event about it */
    uint64_t blocking_id;                     /**< of the last serialise_wait; 0: none */
    int64_t blocked_ns;
    int64_t slow_ns; /**< last slow; 0: none */
    enum request_stage slow_stage;
    int64_t restart_ns; /**< first connect after a disconnect while it was in flight; 0: none */
};

/** Where it sits: by its own events, else by what slow said. */
enum request_stage request_stage(const struct request *request);
const char *request_stage_text(enum request_stage stage);
const char *request_type_text(uint64_t type);

/** How long each stage took; -1: not known. Serialising is part of what comes before submit, not of queued. */
struct request_times {
    int64_t queued_ns, serialising_ns, backend_ns, completing_ns, total_ns;
};

struct request_times request_times(const struct request *request, int64_t end_ns);

/** NULL: not in flight, as far as is known. */
struct request *process_request(const struct process *process, uint64_t request_id);

/** Applies an event of vblk_request and resolves what->request. */
void request_update(struct process *process, struct occurrence *what);

/** The front end of the device is back. */
void request_restart(struct process *process, uint32_t device_id, int64_t time_ns);

#endif
