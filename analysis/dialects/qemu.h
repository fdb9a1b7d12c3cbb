/**
 * What the parts of QEMU's dialect share: the state of one process, and how events of ours are derived.
 *
 *     qemu.c           dispatch; coroutines, contexts and polling
 *     qemu_locks.c     mutexes and coroutine mutexes
 *     qemu_requests.c  requests of virtio-blk; io_uring and the thread pool where there are none
 *     qemu_rulings.c   which findings can be decided from what
 *
 * QEMU names objects by their address. An address is used again, so ids of coroutines and requests are made here, a new
 * one for each life; contexts, mutexes and devices live long and have one id for each address.
 * Memory: bounded by what lives at a time (mutexes: by MUTEXES_MAX, as nothing tells of their end).
 */
#ifndef ANALYSIS_DIALECTS_QEMU_H
#define ANALYSIS_DIALECTS_QEMU_H

#include <glib.h>

#include "core/check.h"
#include "core/dialect.h"

/** An AioContext. */
struct qemu_context {
    uint64_t address;
    uint32_t id;         /**< loop_id */
    int64_t tid;         /**< of the thread that runs it; 0: not known */
    bool is_polling;
    bool is_asleep;      /**< blocks in the kernel, as far as the end of its polling tells */
    int64_t poll_begin_ns, first_ns;
    uint64_t polls, polls_useful, poll_ns;
};

/** One life of a coroutine. */
struct qemu_coroutine {
    uint64_t address, id;
    uint64_t caller;          /**< address of who entered it */
    uint32_t loop_id;         /**< where it was entered; 0: not seen */
    int64_t entered_ns;       /**< 0: suspended, or not seen */
    bool has_long_callee;     /**< one that it entered was told to have held the loop */
    uint64_t waits_for;       /**< address of a coroutine mutex */
    int64_t waits_since_ns;
};

struct qemu_thread {
    int64_t tid;
    bool is_known;            /**< what runs in it: since its first switch that was seen */
    uint64_t current;         /**< address of what runs: a coroutine or the thread itself */
    uint64_t waits_for;       /**< address of a mutex */
    int64_t waits_since_ns;
    bool wait_told;
    struct qemu_context *context; /**< that it runs */
};

struct qemu {
    struct process *process;
    const struct event *event; /**< that is being taken */
    GHashTable *contexts, *coroutines, *threads; /**< by address, address, thread id */
    GPtrArray *context_list;   /**< in order of appearance; owns them */
    GHashTable *mutexes;       /**< by address */
    GPtrArray *sampled;        /**< mutexes used since the last samples */
    GHashTable *requests, *devices; /**< by address of the request, of its device */
    uint64_t last_coroutine_id, last_lock_id, last_request_id;
    uint32_t last_device_id;
    bool has_virtio;           /**< requests of virtio-blk were seen */
    int64_t sample_ns;         /**< when the next samples are due; 0: at once */
};

/** Derive an event of ours: time, stream and origin are those of the event that is being taken. */
#define QEMU_DERIVE(qemu, name, ...)                                                                         \
    qemu_derive((qemu), (struct event){ .id = EVENT_##name, .fields.name = { __VA_ARGS__ } })
void qemu_derive(struct qemu *qemu, struct event event);

static inline void *qemu_key(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/** The thread that emitted the event; NULL: not recorded. */
struct qemu_thread *qemu_thread(struct qemu *qemu);
/** The coroutine that lives at the address; made if it began before the recording. */
struct qemu_coroutine *qemu_coroutine(struct qemu *qemu, uint64_t address);
/** Id of the coroutine that runs in the thread; 0: none, or not known. */
uint64_t qemu_current_coroutine(const struct qemu *qemu, const struct qemu_thread *thread);

void qemu_locks_init(struct qemu *qemu);
void qemu_locks_deinit(struct qemu *qemu);
void qemu_locks_event(struct qemu *qemu);
/** Running totals of what was used since the last time. */
void qemu_locks_sample(struct qemu *qemu);

void qemu_requests_init(struct qemu *qemu);
void qemu_requests_deinit(struct qemu *qemu);
void qemu_requests_event(struct qemu *qemu);
/** Requests that wait for the guest to be continued after an error are not in flight. */
void qemu_requests_finish(struct qemu *qemu);

bool qemu_declares(const bool *declared, enum event_id id);
const char *qemu_source(const char *finding_id);
const char *qemu_skip(const struct process *process, const bool *declared, const char *finding_id);

#endif
