/* What a loop is made of. Private to runtime/: other rooms see rt/loop.h. */
#ifndef RUNTIME_LOOP_INTERNAL_H
#define RUNTIME_LOOP_INTERNAL_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "loop/handler.h"
#include "loop/monitor.h"
#include "loop/work_queue.h"
#include "rt/loop.h"

#define CACHE_LINE_BYTES 64

/** The most bottom halves, the most woken coroutines and the most timers that one pass runs, as MONITOR_READY_MAX is for
 * descriptors. Who is left out comes first in the next pass, which does not block. A pass costs about a microsecond. */
#define WORK_PER_PASS_MAX 256

struct rt_coroutine;

/** Values are those of rt_loop:publish. */
enum publish_kind { PUBLISH_BOTTOM_HALF = 0, PUBLISH_COROUTINE = 1, PUBLISH_TIMER = 2 };

/** What the loop's thread spends its time on. */
enum loop_phase { LOOP_BUSY, LOOP_POLLING, LOOP_WAITING, LOOP_PHASE_COUNT };

/* Locks in taking order: the list of all loops, registry_lock. timer_lock is taken with no other. */
struct rt_loop {
    /* Fixed at creation. */
    uint32_t id;
    char *name;
    int event_fd;
    struct rt_handler *wakeup; /**< of event_fd */
    enum rt_notify_policy notify_policy;
    unsigned faults;      /**< enum rt_loop_fault */
    bool notify_specially; /**< the old way, or a fault: all that loop_notify() must ask */
    const struct monitor_ops *monitor_ops;
    struct monitor *monitor;
    int64_t coarse_clock_ns; /**< resolution of the cheap clock */

    /* Written by notifiers. One line, so that a notify moves one line between caches: notifying takes it for
     * writing anyway, and notify_me changes only around a wait. */
    alignas(CACHE_LINE_BYTES) _Atomic uint32_t notified;
    _Atomic uint32_t notify_me; /**< written by the loop's thread only */
    work_pushed bh_pushed, woken_pushed;
    _Atomic uint64_t published; /**< running totals */
    _Atomic uint64_t notifies, event_writes, event_writes_while_polling;
    _Atomic bool nudged; /**< to be looked at, without work */

    /* Written by the loop's thread, read by the sampler: relaxed, no order needed between them. */
    alignas(CACHE_LINE_BYTES) _Atomic uint64_t passes, dispatches, idle_dispatches, polls, polls_useful;
    _Atomic uint64_t event_reads;
    _Atomic uint64_t queued; /**< work that the loop's own thread queued */
    _Atomic uint64_t run;    /**< published or queued work that was taken to be run */

    /* ORDER loop.phase, see stats.c. */
    _Atomic uint32_t phase_sequence;
    _Atomic uint32_t phase; /**< enum loop_phase */
    _Atomic int64_t phase_since_ns;
    _Atomic int64_t wait_timeout_ns;
    _Atomic uint64_t phase_ns[LOOP_PHASE_COUNT];
    _Atomic int64_t observed_ns; /**< by readers: up to when the open phase was reported */

    /* Loop's thread only. */
    alignas(CACHE_LINE_BYTES) unsigned depth; /**< passes on the stack */
    struct handler_queue ready;               /**< to be dispatched; nested passes share it */
    /* Handlers with a poll callback, as of polled_generation. */
    struct handler_queue polled;  /**< active: they have had poll_begin */
    struct handler_queue resting; /**< their window is open, and the next phase of polling takes them in */
    struct handler_queue closed;  /**< not polled */
    unsigned polled_count;
    unsigned polling_holds; /**< who would rather have it sleep */
    uint64_t polled_serial; /**< how often the lists were built */
    uint64_t polled_changes; /**< how often they changed, for those who walk through one while callbacks run */
    uint64_t polled_generation;
    int64_t poll_limit_ns;            /**< poll_max_ns as the loop has taken it up */
    struct poll_window notify_window; /**< what notifies polling pays; like a handler's */
    int64_t poll_clock_ns;            /**< the clock as polling last read it */
    int64_t idle_rounds_ns;           /**< busy.c: what some rounds without work cost; 0: not known yet */
    int64_t peeked_ns;                /**< when a closed one was looked at last */
    int64_t looked_ns; /**< when the monitor was asked last, in a loop that polls */
    struct work_queue bh_queue, woken_queue;
    int64_t hog_mark_ns;

    /* Any thread, atomic. */
    alignas(CACHE_LINE_BYTES) _Atomic int32_t thread_id; /**< 0: no thread runs it yet */
    _Atomic bool quit;
    _Atomic int64_t poll_max_ns, hog_limit_ns;
    _Atomic uint64_t handler_generation; /**< changes with every attach and detach of a handler that polls */
    _Atomic uint32_t dead_count;         /**< length of dead */

    /* Under registry_lock. */
    pthread_mutex_t registry_lock;
    pthread_cond_t callback_done; /**< a callback of a detached handler returned */
    struct handler_list handlers;
    struct handler_list pollable; /**< those of them that can be polled */
    struct handler_list dead;  /**< detached, to be freed between passes */
    struct handler_list stuck; /**< the monitor may still report them */

    /* Under timer_lock; next_deadline_ns is also read without. */
    pthread_mutex_t timer_lock;
    struct timer_slot *timer_heap;
    uint32_t timer_count, timer_capacity, timer_created;
    uint64_t timer_sequence;
    TAILQ_HEAD(, rt_timer) timers_expired;
    _Atomic int64_t next_deadline_ns; /**< 0: now; INT64_MAX: no timer */

    /* Under the lock of the list of all loops. */
    LIST_ENTRY(rt_loop) link;
};

#define DEADLINE_NEVER INT64_MAX

static inline uint32_t work_of_pass(uint32_t queued)
{
    return queued < WORK_PER_PASS_MAX ? queued : WORK_PER_PASS_MAX;
}

/** Count up a total that only this thread writes. */
static inline void total_add(_Atomic uint64_t *total, uint64_t amount)
{
    atomic_store_explicit(total, atomic_load_explicit(total, memory_order_relaxed) + amount,
                          memory_order_relaxed);
}

/** Whether the calling thread runs @loop. */
bool loop_is_own(const struct rt_loop *loop);

/** This thread's kernel id, for events. */
int32_t loop_thread_id(void);

/** Whether a loop exists. */
bool loop_any_exists(void);

/* ---- policies.c ---- */

/** What rt_loop_configure() chose. Read-only while a loop exists. */
enum rt_notify_policy policy_notify(void);
unsigned policy_faults(void);
const struct monitor_ops *policy_monitor(void);

/* ---- notify.c: the wake-up protocol ---- */

/** Trace work that is about to be made visible: before, so that nothing in the trace says that it ran earlier.
 * loop_notify() must follow. Thread: any but the loop's. */
void loop_announce(struct rt_loop *loop, enum publish_kind kind);
/** After work was made visible. Thread: any. */
void loop_notify(struct rt_loop *loop);
/** Announce and notify, where what is announced need not run. Thread: any but the loop's. */
void loop_publish(struct rt_loop *loop, enum publish_kind kind);
/** Make it pass, without work. Thread: any. */
void loop_nudge(struct rt_loop *loop);
bool loop_is_notified(struct rt_loop *loop);
/** Whether something was published that a pass must not block on. */
bool loop_has_news(struct rt_loop *loop);
void loop_raise_notify_me(struct rt_loop *loop);
void loop_lower_notify_me(struct rt_loop *loop);
void loop_accept(struct rt_loop *loop);
/** The eventfd's handler. */
bool loop_wakeup_ready(void *opaque);

/* ---- fault.c: mistakes on purpose ---- */

/** suppress-before-publish: look at what the notifier should look at last. Thread: any. */
void fault_publishes(struct rt_loop *loop, enum publish_kind kind);
/** After the work was published and `notified` was set: what it saw then. */
uint32_t fault_seen_early(struct rt_loop *loop);
/** no-recheck: stay where a notify goes unseen until one has come, or for a moment. Thread: the loop's. */
void fault_await_notify(struct rt_loop *loop);

/* ---- bottom_half.c, woken.c: work from any thread ---- */

void bh_init(struct rt_loop *loop);
/** Run what was queued when it is called, up to WORK_PER_PASS_MAX. Returns how many ran. */
uint32_t bh_run(struct rt_loop *loop);
/** Free what was never run. */
void bh_deinit(struct rt_loop *loop);
void woken_init(struct rt_loop *loop);
uint32_t woken_run(struct rt_loop *loop);

/* ---- timer.c ---- */

void timer_init(struct rt_loop *loop);
void timer_deinit(struct rt_loop *loop);
/** Run the timers whose deadline has passed at @now_ns, up to WORK_PER_PASS_MAX. Returns whether any did. */
bool timer_run(struct rt_loop *loop, int64_t now_ns);

/* ---- polling.c ---- */

/** Whether this loop polls before it blocks. */
bool polling_enabled(struct rt_loop *loop);
/**
 * Poll until something is ready or notified, the window closes, or the deadline comes. What is ready is in
 * loop->ready. Returns whether it was worth it; *now_ns is brought up to date.
 */
bool polling_run(struct rt_loop *loop, int64_t deadline_ns, int64_t *now_ns);
/** One look, for passes that have no time to poll while handlers rely on being polled. */
void polling_look(struct rt_loop *loop);
/** The loop is about to block: poll_end for all. Returns whether work slipped in; it is in loop->ready. */
bool polling_stop(struct rt_loop *loop, int64_t now_ns);
/** After a wait: adapt the windows of those who ended it, @idle_ns after the pass found nothing to do. */
void polling_waited(struct rt_loop *loop, int64_t idle_ns);
/** A pass that does not wait asks the monitor: always, but only now and then in a loop that polls.
 * @now_ns: 0 if it was not read yet. */
void polling_monitor_look(struct rt_loop *loop, int64_t now_ns);
/** Whether the descriptors should be looked at now; who asks, looks. */
bool polling_monitor_due(struct rt_loop *loop, int64_t now_ns);
/** Everybody whose window is open joins a phase of polling. */
void polling_join(struct rt_loop *loop, int64_t now_ns);
/** How long polling may last for the timers' sake; RT_FOREVER: there is none. */
int64_t polling_timeout(const struct rt_loop *loop, int64_t now_ns);
/** Empty the lists of who is polled; then put them in again, one by one. */
void polling_forget_all(struct rt_loop *loop);
void polling_remember(struct rt_handler *handler);

static inline bool polls_without_end(int64_t poll_max_ns)
{
    return poll_max_ns == RT_FOREVER || poll_max_ns == RT_WHILE_ATTACHED;
}

/* ---- busy.c ---- */

/** Whether this loop has a processor of its own, and somebody to poll. */
bool busy_enabled(struct rt_loop *loop);
/** Poll and have work done until a pass is due. */
void busy_run(struct rt_loop *loop);

/* ---- loop.c ---- */

/** Work that this thread left itself for the next pass. */
bool loop_has_queued_work(const struct rt_loop *loop);

/** Ask the monitor; what is ready goes to loop->ready. Returns how many, or -errno. */
int loop_look_at_monitor(struct rt_loop *loop, int64_t timeout_ns);

/* ---- stats.c ---- */

/** Change the phase. Thread: the loop's. */
void phase_enter(struct rt_loop *loop, enum loop_phase phase, int64_t now_ns, int64_t wait_timeout_ns);
/** The polling phase goes on; of the time up to now @poll_ns was polling, the rest work. Thread: the loop's. */
void phase_share(struct rt_loop *loop, int64_t now_ns, int64_t poll_ns);
void hog_begin(struct rt_loop *loop);
/** What has just returned: held it the loop too long? */
void hog_check(struct rt_loop *loop, uint64_t handler_id);

#endif
