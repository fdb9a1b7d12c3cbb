/**
 * What is known of one traced process: its loops, handlers, devices, queues, drains, locks and threads, kept up to
 * date event by event, so that a check only looks.
 *
 *     struct occurrence what;
 *     model_update(process, thread, event, &what);  // first: the model ...
 *     check->event(state, &what);                   // ... then the checks, which find the objects resolved
 *     model_sweep(process);                         // last: what the event ended is freed
 *
 * Identity: ids never repeat in a process; a descriptor number identifies nothing, hence handlers go by handler_id.
 * Ignorance: what was not announced is unknown (NULL names, STATE_UNKNOWN, loop 0), never assumed. Only after a whole
 * baseline does the absence of an announcement say anything: process_known_since().
 * Memory: bounded by the objects that live; gone loops, devices and locks are kept for the report up to a bound.
 */
#ifndef ANALYSIS_MODEL_PROCESS_H
#define ANALYSIS_MODEL_PROCESS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "events/event.h"

/** Values of vblk_dataplane:state. */
enum device_state {
    STATE_UNKNOWN = -1,
    STATE_STOPPED,
    STATE_STARTING,
    STATE_STARTED,
    STATE_STOPPING,
    STATE_FAILED
};

/** Values of rt_loop:fd_attach's role; ROLE_UNKNOWN: the attach was not seen. */
enum handler_role {
    ROLE_UNKNOWN = -1,
    ROLE_OTHER,
    ROLE_WAKEUP,
    ROLE_HOST_NOTIFIER,
    ROLE_VHOST_USER_SOCKET,
    ROLE_CONTROL,
    ROLE_COMPLETION
};

/** The latest sample of something; strings in it are gone. */
struct sample {
    bool valid;
    int64_t time_ns;
    union event_fields fields;
};

/** A loop's time in the kernel, the current one or the last; kept by model/phase.c. */
struct loop_sleep {
    bool asleep; /**< it has not ended yet */
    bool known;  /**< its begin was seen or announced */
    int64_t since_ns;
    int64_t timeout_ns; /**< -1: without limit */
    int64_t end_ns;     /**< when it ended */
};

struct loop {
    uint32_t id;
    char *name;        /**< NULL: unknown */
    int64_t thread_id; /**< 0: unknown or not running yet */
    int64_t vtid;      /**< who emitted its events; EVENT_UNKNOWN_ID: none seen, or no context */
    int64_t active_ns; /**< last event that only the loop's thread emits; INT64_MIN: none */
    struct loop_sleep sleep;
    bool polling;                           /**< between poll_begin and poll_end */
    int64_t poll_since_ns, poll_timeout_ns; /**< of the current or the last polling */
    uint64_t
        poll_handler; /**< the handler that ended the last polling with progress; 0: none, or it slept since */
    bool gone;
    int64_t gone_ns;
    uint64_t dispatches;       /**< fd_dispatch events seen */
    struct sample first, last; /**< rt_loop:sample */
};

/** An open drain. */
struct drain {
    int64_t vtid; /**< who drains; EVENT_UNKNOWN_ID: without context, or open before the recording */
    int64_t begin_ns;
    uint32_t depth;
    enum device_state state; /**< of the device when it began */
    bool before_recording;   /**< announced by a baseline */
};

/** Why a host notifier's handler should not be where it is. */
enum stale_reason {
    STALE_NOT,
    STALE_MOVED,            /**< the queue belongs to another loop; ends if it comes back */
    STALE_DETACHED,         /**< notifier_detach */
    STALE_RELEASED,         /**< notifier_release */
    STALE_STOPPED,          /**< the device stopped (or failed to start, or was destroyed) */
    STALE_ATTACHED_STOPPED, /**< it was attached while the device was stopped */
    STALE_NOT_ANNOUNCED     /**< a whole baseline announced the handler, but no attached notifier */
};

/** Kept by model/registration.c. */
struct stale {
    enum stale_reason reason;
    int64_t since_ns;   /**< the event that made it stale */
    int64_t known_ns;   /**< of the older fact that this rests on; since_ns if it rests on none */
    int64_t lasting_ns; /**< since when for a reason that cannot end (not STALE_MOVED); INT64_MAX: none */
    enum event_id event;
    int64_t vtid;     /**< who emitted that event */
    uint32_t to_loop; /**< STALE_MOVED: where the queue belongs */
    bool announced;   /**< known from a baseline: it was so before */
    /* counters at that time */
    uint64_t dispatches, idle_dispatches, loop_dispatches, loop_idle_sampled;
    int64_t first_idle_ns, last_idle_ns; /**< dispatches since then that found nothing; 0: none */
};

/** A registration of a descriptor in a loop: one life. */
struct handler {
    uint64_t id;
    uint32_t loop_id;
    int64_t fd;
    enum handler_role role;
    uint32_t device_id; /**< 0: none */
    uint16_t queue_index;
    bool alive;
    bool announced; /**< by a baseline: it was attached before; attach_* describe the announcement */
    int64_t attach_ns;
    int64_t attach_vtid;            /**< who attached it; unknown if announced */
    enum device_state attach_state; /**< of its device at that time */
    bool attach_in_drain;           /**< the attaching thread was draining the device */
    struct drain attach_drain;
    int64_t seen_ns; /**< last proof of life: attach, announcement, dispatch */
    uint64_t dispatches, idle_dispatches;
    struct stale stale;
};

struct queue {
    uint16_t index;
    int64_t assigned_fd;    /**< host notifier given by the front end; -1: none or unknown */
    uint32_t attached_loop; /**< by notifier_attach; 0: not attached or unknown */
    int64_t attached_fd;
    int64_t attached_ns; /**< of the last attach or detach */
    bool attach_known;   /**< an attach, detach or release was seen */
    uint32_t owner_loop; /**< by loop_change; 0: unknown */
    int64_t owner_ns;
    int64_t owner_confirmed_ns; /**< its last attach there that start, stop or drain made rightly; 0: none */
    int notifications;        /**< vblk_queue:notifications; -1: unknown */
    int64_t notifications_ns; /**< when that was */
    uint64_t notifications_reason;
    bool broken;
    GArray *
        heads; /**< uint64_t, id of the request in flight that holds this head, 0: none; kept by model/request.c */
    struct sample first, last; /**< vblk_queue:sample */
};

struct device {
    uint32_t id;
    char *name;    /**< NULL: unknown */
    char *backend; /**< NULL: unknown */
    uint64_t capacity_bytes;
    uint16_t queue_count; /**< 0: unknown */
    bool gone;
    enum device_state state;
    int64_t state_ns;         /**< when it was last changed or announced */
    int64_t state_vtid;       /**< by whom */
    bool state_announced;     /**< known from a baseline, not from a change */
    int connected;            /**< front end: 1, 0, -1 unknown */
    int64_t first_connect_ns; /**< first connect or its announcement; 0: none */
    GArray *drains;           /**< struct drain, open ones, oldest first */
    int64_t drained_vtid;     /**< who began the last drain; EVENT_UNKNOWN_ID: not seen */
    bool drains_known;        /**< every open drain is in the list: since drains_known_ns */
    int64_t drains_known_ns;
    GHashTable *queues; /**< queue_index -> struct queue */
};

struct lock {
    uint64_t id;
    char *class_name; /**< NULL: unknown */
    int kind;         /**< 0 thread mutex, 1 coroutine mutex, -1 unknown */
    bool gone;
    int64_t released_ns;       /**< last release seen; 0: none */
    uint64_t joined_coroutine_id; /**< held it when another acquired it, or its release is lost; 0: none */
    bool is_shared;            /**< two held it at once: readers of a reader/writer lock; only with the set lock */
    bool held_across_yield;    /**< its holder yielded at least once; only with the sets lock and coroutine */
    struct sample first, last; /**< rt_lock:sample */
};

/** An acquisition that waits, with whom it found holding the lock; kept by model/holding.c. */
struct lock_wait {
    uint64_t lock_id;
    int64_t tid;
    uint64_t coroutine_id; /**< 0: outside of coroutines */
    int64_t owner_tid;
    uint64_t owner_coroutine_id;
    int64_t since_ns;
};

struct request; /* model/request.h */

/** A kernel thread. */
struct thread {
    int64_t tid;
    char *name; /**< NULL: unknown */
    bool gone;
    GArray *streams;           /**< uint32_t, indexes of the streams it was seen on */
    int64_t last_ns;           /**< last event that it emitted */
    struct sample first, last; /**< rt_pool:local_sample */
};

/** One baseline. */
struct baseline {
    uint64_t serial;
    int64_t begin_ns, end_ns; /**< end_ns INT64_MAX: not ended */
    int64_t vtid;
};

struct analysis;
struct trace;
struct dialect; /* core/dialect.h */

struct process {
    struct analysis *analysis;
    struct trace *trace; /**< the first of its traces: what was recorded, host, names */
    unsigned index;      /**< order of appearance */
    int64_t vpid;        /**< EVENT_UNKNOWN_ID: not recorded */
    int64_t first_ns, last_ns;
    uint64_t event_count;
    int64_t latest_loss_end_ns; /**< of losses told so far in its traces; INT64_MIN: none */
    bool ended;                 /**< all its loops were destroyed */
    int64_t sampled_since_ns;   /**< first of the samples of every second (vma_sample) */
    unsigned samples;           /**< how many there were */

    bool in_baseline;         /**< between begin and end */
    struct baseline baseline; /**< the current or last one */
    GArray *whole_baselines;  /**< struct baseline, ended ones, bounded: first ones and the last */

    struct sample info, vma, global_pool; /**< rt_process:info, vma_sample, rt_pool:global_sample */
    char *info_text[8]; /**< strings of info in its field order, version first, faults last; NULL: unknown */

    GHashTable *loops, *handlers, *devices, *locks, *threads, *requests; /**< by id */
    GHashTable *vtids; /**< thread_id -> vtid, where they differ; see process_vtid() */
    GArray *holds;          /**< struct hold, kept by model/holding.c */
    GHashTable *waits;      /**< acquirer -> struct lock_wait, the same */
    bool headless_requests; /**< some in flight are known without their head */
    uint64_t ended_handler; /**< to be freed by model_sweep(); 0: none */
    uint64_t ended_request; /**< the same */
    bool sweep_loop;

    const struct dialect *dialect; /**< NULL: it speaks our own */
    void *dialect_state;           /**< owned by core */
    bool *derives;                 /**< with a dialect, by enum event_id: events of ours that may come of it */
    unsigned derived_sets;         /**< the same, a bit for each set */
    uint32_t last_stream;          /**< with a dialect: of its last event */
    bool has_threads;              /**< with a dialect: its events carry the thread's id */

    struct check_slot *check_slots; /**< one per registered check; owned by core */
};

/** An event with the objects that it is about; NULL where there is none or none is known. */
struct occurrence {
    const struct event *event;
    struct process *process;
    struct thread *thread; /**< the emitting one; NULL without vtid context */
    int64_t thread_acted_ns; /**< when it emitted something before this; INT64_MIN: never */
    bool in_baseline;      /**< an announcement of what exists, by the sampler thread */
    struct loop *loop;
    struct handler *handler;
    struct device *device;
    struct queue *queue;
    struct lock *lock;
    struct request *request; /**< also on the event that ends it */
    bool has_waited;         /**< rt_lock:acquired: its wait is known and in `waited` */
    struct lock_wait waited;
    enum device_state previous_state; /**< vblk_dataplane:state: what the model knew before */
    int64_t previous_state_ns;        /**< and since when */
    int64_t previous_state_vtid;      /**< by whom */
    uint32_t previous_owner_loop;     /**< loop_change: what the model knew before */
    int64_t drains_known_ns; /**< drain_end: since when every drain was known before it; INT64_MIN: not */
    bool drain_matched;      /**< drain_end: its begin is known and in `drain` */
    struct drain drain;      /**< drain_begin, drain_end: the drain */
};

struct process *process_create(struct analysis *analysis, struct trace *trace, int64_t vpid, unsigned index);
void process_destroy(struct process *process);

/** For the tables of queues. */
void queue_free(void *queue);

/** The thread's record, made when it is new. Ownership: the process. */
struct thread *process_thread(struct process *process, int64_t tid);

/** Apply an event and resolve its objects. */
void model_update(struct process *process, struct thread *thread, const struct event *event,
                  struct occurrence *what_out);

/** Free what the event ended. After the checks. */
void model_sweep(struct process *process);

/** Look up; NULL: not known. */
struct loop *process_loop(const struct process *process, uint32_t loop_id);
struct handler *process_handler(const struct process *process, uint64_t handler_id);
struct device *process_device(const struct process *process, uint32_t device_id);
struct lock *process_lock(const struct process *process, uint64_t lock_id);
struct queue *device_queue(const struct device *device, uint16_t queue_index);
struct thread *process_find_thread(const struct process *process, int64_t tid);

/**
 * The thread as contexts name it (vtid), from how events' own fields do (thread_id): the same but in a pid namespace, where
 * a recording may give the fields the kernel's ids.
 */
int64_t process_vtid(const struct process *process, int64_t thread_id);

/** The thread that runs the loop, for loss_hides(); EVENT_UNKNOWN_ID: not known. */
int64_t loop_vtid(const struct loop *loop);

/** Does it sleep in the kernel until somebody wakes it? */
bool loop_sleeps_without_limit(const struct loop *loop);

/** The drain that the thread has open on the device, innermost; NULL. With an unknown vtid: any open one. */
const struct drain *device_drain_of(const struct device *device, int64_t vtid);

/** A name for texts, "iothread0" or "loop 3"; lives until the 8th next call. */
const char *loop_text(const struct process *process, uint32_t loop_id);
const char *device_text(const struct process *process, uint32_t device_id);
const char *thread_text(const struct process *process, int64_t tid); /**< "iothread0 (54309)" */
const char *lock_text(const struct process *process, uint64_t lock_id);
const char *process_text(const struct process *process);
const char *pool_hard_max_text(const struct process *process); /**< "16382", "none" where there is no limit */
const char *process_name(const struct process *process); /**< NULL: unknown */
const char *state_text(enum device_state state);
const char *role_text(enum handler_role role);

/**
 * Since when everything that exists is known: end of the first baseline from which nothing was lost.
 * Returns: nanoseconds; INT64_MAX: never. Exact after the last event, since losses may be told late.
 */
int64_t process_known_since(const struct process *process);

#endif
