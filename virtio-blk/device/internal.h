/* What the files of this folder share. Nobody else includes it. */
#ifndef VBLK_DEVICE_INTERNAL_H
#define VBLK_DEVICE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "device/disk_error.h"
#include "device/event.h"
#include "device/status.h"
#include "device/tracked.h"
#include "log/log.h"
#include "rt/coroutine.h"
#include "rt/lock.h"
#include "rt/loop.h"
#include "rt/process.h"
#include "vhost_user/dirty_log.h"
#include "vhost_user/memory_map.h"
#include "vhost_user/session.h"
#include "virtqueue/virtqueue.h"

/* What QEMU's drivers ask for; the front end's choice counts, this is for estimates before there is one. */
#define VBLK_QUEUE_SIZE_USUAL 128

/* Values of vblk_dataplane:state. */
enum vblk_state { VBLK_STOPPED = 0, VBLK_STARTING = 1, VBLK_STARTED = 2, VBLK_STOPPING = 3, VBLK_FAILED = 4 };

/* Values of vblk_queue:notifications. */
enum vblk_notifications_reason { VBLK_PROCESSING = 0, VBLK_POLLING = 1, VBLK_ATTACH = 2, VBLK_DETACH = 3 };

/* Values of vblk_request:slow. */
enum vblk_stage { VBLK_QUEUED = 0, VBLK_SERIALISING = 1, VBLK_BACKEND = 2, VBLK_COMPLETING = 3 };

/* Of one discard or write-zeroes: how many segments, and the sectors of each. */
#define VBLK_SEGMENTS_MAX 32
#define VBLK_DISCARD_SECTORS_MAX (1u << 21)
/* Less: where the file system cannot do it, zeros are written. */
#define VBLK_WRITE_ZEROES_SECTORS_MAX (1u << 17)

struct vblk_device;
struct vblk_queue;

/* A piece of a discard or write-zeroes. Source: VIRTIO 1.2, 5.2.6 (struct virtio_blk_discard_write_zeroes). */
struct vblk_segment {
    uint64_t sector;
    uint32_t sector_count;
    uint32_t flags;
};

struct vblk_request {
    struct vblk_queue *queue;
    struct vblk_element *element;
    struct vblk_request *next_free;
    uint8_t *status;          /* the last writable byte */
    uint32_t header_type;
    uint64_t offset_bytes;
    uint32_t size_bytes;      /* data, without header and status */
    struct iovec *data;
    int data_count;
    struct vblk_segment *segments; /* of a discard or write-zeroes: a copy, freed when it has run; NULL: they are no good */
    unsigned segment_count;
    bool left_open;           /* its result is nobody's business: whoever has the in-flight region next does it again */
    struct vblk_tracked tracked;

    /* Read by the sampler while the request runs: relaxed atomics; id 0 means free. */
    _Atomic uint64_t id;
    _Atomic int64_t begin_ns; /* coarse clock */
    _Atomic uint8_t type;     /* as in vblk_request:begin */
    _Atomic uint8_t stage;
    _Atomic bool slow;        /* set by the sampler, looked at when the request ends */
    _Atomic uint64_t told_offset_bytes; /* as above, for whoever asks what is open */
    _Atomic uint32_t told_size_bytes;
};

/* Counters that the queue's loop writes and the sampler reads: relaxed, no read-modify-write. */
struct vblk_type_counters {
    _Atomic uint64_t requests, errors, bytes;
};
#define VBLK_TYPE_INDEX_COUNT 16
struct vblk_queue_counters {
    _Atomic uint64_t kicks, empty_kicks, pops, completions, interrupts, suppressed_interrupts;
    struct vblk_type_counters by_type[VBLK_TYPE_INDEX_COUNT];
};

struct vblk_queue {
    struct vblk_device *device;
    uint16_t index;

    /* What the front end said; main loop's thread. */
    uint32_t size;
    uint32_t base;            /* as vblk_virtqueue_config.base; see vblk_queue_base() */
    bool has_base;
    bool base_is_past;        /* `base` is where a driver that was reset has left it: told when asked, not begun at */
    struct vhost_user_ring_address address;
    bool has_address;
    bool has_kick;            /* SET_VRING_KICK came: the ring may start */
    bool polled;              /* it came without a descriptor */
    bool assigned;            /* notifier_assign was announced and not yet released */
    bool running;             /* part of a start that is done, until its ring is stopped */
    int kick_fd;
    int error_fd;

    uint64_t features;        /* negotiated when the ring was made; constant while it has requests */

    /* The dataplane; main loop's thread, read by the queue's loop after attach. */
    struct rt_loop *home;     /* the IOThread that runs it when started; changes under device->home_lock */
    bool at_home;             /* it has, or is about to have, something there */
    bool moving;              /* between homes: no drain attaches it */
    bool restarted;           /* it was started before; for a fault */
    bool was_polled, stays_off; /* ever; its notifications; for a fault */
    struct rt_loop *loop;     /* which loop processes it now (main when stopped) */
    struct rt_handler *handler;
    struct vblk_disk_loop *disk; /* context of `home` */

    /* Written by the main loop, read by the queue's loop at any time. */
    _Atomic bool enabled;
    _Atomic int call_fd;      /* replaced in the queue's loop while it runs */
    _Atomic bool accepting;   /* ORDER queue.accept: set by attach, cleared by detach */

    /* The queue's loop. */
    struct vblk_virtqueue *vq; /* replaced only while detached and drained, under device->ring_lock */
    bool busy;                /* inside queue_process(): completions wait for its one interrupt */
    bool polling;             /* notifications are off because the loop polls */
    bool interrupt_pending;
    bool pending;             /* what turning notifications on found */
    bool starved;             /* all requests were out, or no memory for a chain */
    bool timer_polls;         /* the ring is polled: the timer goes on for as long as the queue is in its loop */
    bool unfinished;          /* a full batch was taken: notifications are off, the bottom half goes on */
    struct rt_bh *bh;         /* interrupts of requests that end outside queue_process(), and more work */
    struct rt_timer *retry_timer; /* no coroutine could be had, or the ring is polled */
    struct vhost_user_dirty_log *dirty_log; /* NULL: what is written to memory need not be marked */
    int dirty_log_fd;         /* to be written after marks; -1: none */
    struct vblk_request *requests, *free_requests;
    unsigned request_count;
    struct vblk_request *deferred, **deferred_last; /* popped, but no coroutine could be had */
    struct rt_coroutine *drain_waiter;
    unsigned drains;          /* that wait for its requests: nothing waits for a resume */
    uint64_t next_request_id, last_request_id;
    int64_t batch_ns;         /* coarse clock, read once a batch */
    unsigned unshown;         /* used elements that the driver was not shown yet */
    _Atomic uint32_t in_flight; /* written by the queue's loop only */
    _Atomic bool broken;
    _Atomic(const char *) broken_reason; /* a constant */
    struct vblk_queue_counters counters;
    struct vblk_event_guard loop_guard, main_guard; /* event.h: of the threads that write to its eventfds */
};

struct vblk_device {
    char *name;
    struct vblk_log log;
    uint32_t device_id;
    struct vblk_disk *disk;
    struct vblk_disk_facts facts;
    bool holds_disk;          /* it is ours to read and write; main loop's thread */
    uint32_t block_size_bytes;
    char serial[VBLK_SERIAL_BYTES];
    unsigned faults;
    bool instant;             /* reads and writes run on the loop's own stack, and are not tracked */
    uint64_t features;        /* negotiated */
    bool tell_at_start;       /* the size has changed since the driver's rings stopped */
    _Atomic bool writeback;   /* the driver's choice if it negotiated CONFIG_WCE: a write may be acknowledged before it is stable */

    struct rt_loop *main_loop;
    struct rt_loop **loops;
    unsigned loop_count;
    struct rt_co_rwlock home_lock; /* home.c: read by who visits a queue's home, written by who moves one */
    struct vblk_disk_loop **disk_loops; /* contexts while the disk is in the IOThreads, index as loops */

    struct vhost_user_session *session;
    void (*ended)(void *opaque);
    void *opaque;
    struct vhost_user_memory_map *map;
    struct vhost_user_inflight inflight; /* what the front end keeps for us; replaced only while no ring exists */
    _Atomic bool leaves_open; /* the front end is gone and has an in-flight region: requests that the disk fails may stay in it */
    _Atomic int connection_fd; /* -1: no front end */
    struct vhost_user_dirty_log *dirty_log; /* NULL: the front end gave none */
    int dirty_log_fd;

    _Atomic uint8_t state;    /* enum vblk_state, for traces */
    /* The flag that drain callbacks look at: true only while notifiers belong to the queues' loops. */
    _Atomic bool started;
    uint32_t pool_share;      /* what rt_pool_inc_max() was told */
    _Atomic uint32_t drain_depth;

    struct vblk_tracked_disk tracked;
    struct vblk_disk_errors disk_errors;

    /* Taken to replace a vq, a handler or a dirty log, and by the sampler to read rings: never on a request's path. */
    pthread_mutex_t ring_lock;
    struct rt_process_source source;

    uint16_t queue_count;
    struct vblk_queue *queues;

    struct vblk_stale_notifiers *stale; /* fault.c; NULL without a fault */
    struct vblk_fault_locks *fault_locks; /* the same */
};

/* ring.c */
extern const struct vhost_user_ops vblk_ring_ops;

/* config.c */
uint64_t vblk_config_features(const struct vblk_device *device);
int vblk_config_read(const struct vblk_device *device, uint32_t offset, uint32_t size, uint8_t *bytes_out);
/* -EINVAL for all but the one byte that can be written, with 0 or 1. */
int vblk_config_write(struct vblk_device *device, uint32_t offset, uint32_t size, const uint8_t *bytes);
void vblk_config_set_features(struct vblk_device *device, uint64_t features); /* negotiated; 0 when forgotten */
void vblk_config_forget_front_end(struct vblk_device *device); /* as it was at first */

/* resize.c; coroutine of the main loop. */
void vblk_resize_started_co(struct vblk_device *device); /* a size that changed while it was stopped is told now */
int vblk_resize_look(struct vblk_device *device);        /* stopped, and the disk may have another size */

/* handover.c; coroutine of the main loop, no ring runs. */
bool vblk_handover_is_near(const struct vblk_device *device); /* the guest is being migrated: the next stop may be the last */
void vblk_handover_give_co(struct vblk_device *device);
int vblk_handover_take_co(struct vblk_device *device); /* an error was told */

/* notifier.c: one queue's host notifier. */
int vblk_notifier_assign(struct vblk_queue *queue, int fd); /* fd -1: a ring that is polled */
void vblk_notifier_release(struct vblk_queue *queue); /* announced; closed after the commit */
void vblk_notifier_close(struct vblk_queue *queue);
/* Thread: attach the queue's loop, or the draining thread at a drain's end; detach the queue's loop. */
int vblk_notifier_attach(struct vblk_queue *queue);
void vblk_notifier_detach(struct vblk_queue *queue);
void vblk_notifier_commit(struct vblk_device *device, uint16_t count, bool assign);
void vblk_notifier_kick(struct vblk_queue *queue);
bool vblk_notifier_is_attached(struct vblk_queue *queue);

/*
 * home.c: the IOThread that processes a queue; coroutine of the main loop.
 *
 * Whoever has something to do there visits, since the queue may move: go over, do it, return. False: the queue has nothing
 * there, and the coroutine has not moved. Not nested.
 */
bool vblk_home_visit_co(struct vblk_queue *queue);
void vblk_home_return_co(struct vblk_queue *queue);
int vblk_home_enter_co(struct vblk_queue *queue); /* bottom half, timer, the disk's context */
void vblk_home_leave_co(struct vblk_queue *queue); /* ends a visit, too */
void vblk_home_change_loop(struct vblk_queue *queue, struct rt_loop *loop);

/* dataplane.c; coroutine of the main loop. */
bool vblk_dataplane_ring_ready(const struct vblk_queue *queue);
void vblk_dataplane_open_start(struct vblk_device *device); /* stopped or failed -> starting */
int vblk_dataplane_start_co(struct vblk_device *device);    /* starting -> started, or failed */
void vblk_dataplane_abort_start_co(struct vblk_device *device); /* starting -> failed, everything undone */
int vblk_dataplane_add_ring_co(struct vblk_queue *queue);   /* one more while started */
void vblk_dataplane_stop_ring_co(struct vblk_queue *queue); /* the last one stops the device */
void vblk_dataplane_stop_co(struct vblk_device *device);    /* all rings */
void vblk_dataplane_drain_begin_co(struct vblk_device *device);
void vblk_dataplane_drain_end(struct vblk_device *device);
bool vblk_dataplane_may_attach(const struct vblk_queue *queue); /* runs, and is not drained */
void vblk_dataplane_settle(struct vblk_device *device); /* nothing assigned any more: starting or failed -> stopped */

/* queue.c; the queue's loop unless said otherwise. */
uint32_t vblk_queue_base(const struct vblk_queue *queue); /* main loop: where a stopped ring goes on */
int vblk_queue_create_ring(struct vblk_queue *queue);   /* main loop, detached; vq is NULL */
void vblk_queue_destroy_ring(struct vblk_queue *queue); /* main loop, detached and drained; keeps the base */
void vblk_queue_take_over(struct vblk_queue *queue);    /* main loop, before it has work: what another process left */
int vblk_queue_create_work(struct vblk_queue *queue, struct rt_loop *loop, struct rt_bh **bh_out,
                           struct rt_timer **timer_out); /* for use in that loop; not used yet */
void vblk_queue_begin_work(struct vblk_queue *queue);
void vblk_queue_end_work(struct vblk_queue *queue);
bool vblk_queue_kicked(void *opaque);
bool vblk_queue_poll(void *opaque);
bool vblk_queue_poll_ready(void *opaque);
void vblk_queue_poll_begin(void *opaque);
bool vblk_queue_poll_end(void *opaque);
void vblk_queue_process(void *opaque);
void vblk_queue_set_notifications(struct vblk_queue *queue, bool enable, enum vblk_notifications_reason reason);
void vblk_queue_complete(struct vblk_request *request, uint8_t status, uint32_t data_bytes);
/* Instead: the driver is told nothing, and the in-flight region keeps it. The ring is about to be destroyed. */
void vblk_queue_leave_open(struct vblk_request *request);
void vblk_queue_break(struct vblk_queue *queue, int error, const char *reason);
/* Queue's loop or main loop. False: the front end had blocked it, do not use the descriptor again. */
bool vblk_queue_write_event(struct vblk_queue *queue, int fd);
void vblk_queue_interrupt(struct vblk_queue *queue);    /* what is pending, now */
void vblk_queue_drain_co(struct vblk_queue *queue);     /* waits for in_flight 0, in the queue's loop */

/* dirty.c: the dirty log of a front end that migrates the guest. Those with _co in coroutines of the main loop. */
void vblk_dirty_apply_co(struct vblk_device *device);     /* what was said about it holds for every ring from now on */
void vblk_dirty_apply_ring_co(struct vblk_queue *queue);  /* for this one */
void vblk_dirty_set_log_co(struct vblk_device *device, struct vhost_user_dirty_log *log); /* NULL: none */
void vblk_dirty_set_fd_co(struct vblk_device *device, int fd);                            /* -1: none */
void vblk_dirty_apply(struct vblk_queue *queue);          /* for this ring; nobody else uses it */
/* Queue's loop, before the push: @data_bytes are there, or parts of them. */
void vblk_dirty_mark(const struct vblk_request *request, uint32_t data_bytes);
void vblk_dirty_announce(struct vblk_queue *queue);       /* queue's loop: there are new marks */

/* request.c: -EPROTO with a reason when the chain cannot be a request at all. */
int vblk_request_parse(struct vblk_request *request, const char **reason_out);
/* It ends without waiting for anything, and may run on the loop's own stack. */
bool vblk_request_is_instant(const struct vblk_request *request);
void vblk_request_run(void *opaque); /* a coroutine's function; ends in vblk_queue_complete() */
/* Take @bytes from the front of an iovec, split anywhere (legal with VERSION_1). They are there: the caller looked. */
void vblk_request_take(struct iovec **iov, int *iov_count, void *to, size_t bytes);
/* For whoever carries a request out; coroutine, the queue's loop. */
void vblk_request_set_stage(struct vblk_request *request, enum vblk_stage stage);
void vblk_request_track_co(struct vblk_request *request, uint64_t id, uint64_t first, uint64_t end, bool write,
                           bool serialising); /* widened to the disk's alignment if it serialises */
int vblk_request_settle_co(struct vblk_request *request, uint64_t id); /* a write ended: stable, if it has to be */

/* range.c: discard and write-zeroes. */
void vblk_range_parse(struct vblk_request *request, struct iovec *iov, int iov_count, uint32_t size_bytes);
uint8_t vblk_range_run_co(struct vblk_request *request, uint64_t id); /* the status */

/* memory.c; coroutine of the main loop. A ring that is not in the new memory (NULL: there is none) rests until it is.
 * keeps_old: nothing that was there has left or moved; then requests in flight are not waited for. */
void vblk_memory_set_co(struct vblk_device *device, struct vhost_user_memory_map *map, bool keeps_old);
/* The reference is gone when it returns. */
void vblk_memory_release_co(struct vhost_user_memory_map *map);

/* sampler.c */
void vblk_sampler_trace_queue(struct vblk_queue *queue); /* ring_lock held, or no one can replace the vq */
void vblk_sampler_init(struct vblk_device *device);
void vblk_sampler_deinit(struct vblk_device *device);
void vblk_sampler_request_ended(struct vblk_request *request);

/* status.c; any thread, ring_lock held. False: the slot is free, or changes just now. */
bool vblk_status_read_request(const struct vblk_request *request, int64_t now_ns, struct vblk_request_status *status_out);
int64_t vblk_status_coarse_now_ns(void); /* to a clock tick, and several times cheaper than the exact one */

/* fault.c: nothing without the fault. */
static inline bool vblk_has_fault(const struct vblk_device *device, enum vblk_fault fault)
{
    return __builtin_expect((device->faults & fault) != 0, false);
}
void vblk_fault_init(struct vblk_device *device);
void vblk_fault_lock_co(struct vblk_device *device); /* mutex-across-yield */
void vblk_fault_unlock(struct vblk_device *device);
bool vblk_fault_claim_progress(void); /* always-progress; takes a moment */
const struct rt_fd_callbacks *vblk_fault_callbacks(const struct vblk_queue *queue); /* wrong-loop; NULL: its own */
/* What --fault=started-before-attach leaves behind. */
void vblk_fault_attach_again(struct vblk_queue *queue);
void vblk_fault_notifier_released(struct vblk_queue *queue);
void vblk_fault_cleanup(struct vblk_device *device);

static inline void vblk_count(_Atomic uint64_t *counter)
{
    /* One writer: no locked instruction. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* A place among the counters for each type of vblk_request:begin, without a branch: 255 (other) has the last one. */
static inline unsigned vblk_type_index(uint8_t type)
{
    return type % VBLK_TYPE_INDEX_COUNT;
}

/* One more request has ended, in its queue's loop. */
static inline void vblk_count_request(struct vblk_request *request, bool failed)
{
    uint8_t type = atomic_load_explicit(&request->type, memory_order_relaxed);
    struct vblk_type_counters *counters = &request->queue->counters.by_type[vblk_type_index(type)];

    vblk_count(&counters->requests);
    if (failed)
        vblk_count(&counters->errors);
    else
        atomic_store_explicit(&counters->bytes,
                              atomic_load_explicit(&counters->bytes, memory_order_relaxed) + request->size_bytes,
                              memory_order_relaxed);
}

#endif
