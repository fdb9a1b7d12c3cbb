/**
 * The coroutine pool: stacks that were made once are used again.
 *
 * A global list of batches (128 coroutines) under one lock; at most two batches per thread, taken and given
 * without a lock and without an atomic read-modify-write. The global pool has a maximum that devices raise and
 * lower, and a hard maximum from the mapping budget, so that idle stacks never use up vm.max_map_count.
 * That is the default policy; two others are there to be compared with. runtime/README.md tells their history.
 *
 *     rt_pool_inc_max(queue_count * queue_size / 2);   // a device comes
 *     ...
 *     rt_pool_dec_max(queue_count * queue_size / 2);   // and goes
 */
#ifndef RT_POOL_H
#define RT_POOL_H

#include <stdint.h>

#define RT_POOL_BATCH_SIZE 128
#define RT_POOL_NO_LIMIT UINT32_MAX

/** Who may keep how many idle coroutines. All but the first are there to be compared with. */
enum rt_pool_policy {
    RT_POOL_BATCHED,    /**< the default, as told above */
    RT_POOL_PER_THREAD, /**< a shared release list; a thread that needs one takes it whole. Sum over threads unbounded */
    RT_POOL_NONE,       /**< every life makes a stack and frees it */
};

/**
 * Choose the policy before the first coroutine is made.
 *
 * Returns:   0, or, with the old choice still in force: -EBUSY: a coroutine was made already, or the pool's maximum was
 *            changed or its limits asked for; -EINVAL: there is no such policy.
 * Thread:    any, before others use coroutines.
 */
int rt_pool_configure(enum rt_pool_policy policy);

/** The policy in force. Thread: any. */
enum rt_pool_policy rt_pool_policy(void);

/** As in vblkd's options: "batched", "per-thread", "none"; NULL: there is no such policy. Thread: any. */
const char *rt_pool_policy_name(enum rt_pool_policy policy);

enum rt_stack_guard { RT_STACK_GUARD_AUTO, RT_STACK_GUARD_LIGHTWEIGHT, RT_STACK_GUARD_MPROTECT };

/**
 * Choose stacks before the first coroutine is made.
 *
 * Units:     stack_bytes is a multiple of the page size, at least four pages, without the guard; 0 takes the default of
 *            64 KiB, or four pages where that is more.
 * Returns:   0, or -EOPNOTSUPP: lightweight guards were asked for and this kernel has none (proved by
 *            touching one in a child); -EBUSY: they were chosen already, stacks exist, or their facts or the
 *            pool's limits were asked for; -EINVAL: no such guard, or no such size.
 * Thread:    any, before others use coroutines.
 */
int rt_stack_configure(enum rt_stack_guard guard, uint32_t stack_bytes);

struct rt_stack_facts {
    uint32_t stack_bytes;
    uint32_t mappings_per_1000_stacks; /**< measured at start, not assumed */
    uint32_t max_map_count;            /**< vm.max_map_count; RT_POOL_NO_LIMIT where there is none */
    const char *guard_name;            /**< "lightweight" or "mprotect": what is in use */
};

void rt_stack_facts(struct rt_stack_facts *facts_out);

/** One line that says why stacks cannot be mapped and what to do: names vm.max_map_count and a value. */
const char *rt_stack_error_hint(char *buffer, uint32_t buffer_bytes);

/**
 * Let a coroutine that overflows its stack say so on stderr: its id, its function's address, thread, loop, stack and
 * what to do. The process then dies of SIGSEGV as it would have, at the same instruction.
 *
 * Installs a SIGSEGV handler, and an alternate signal stack in this thread and in those that use the runtime for the first
 * time later, unless they have one. Faults elsewhere than in a guard page go to the handler that was there
 * before, or kill the process as usual. A handler that is installed afterwards should pass on what is not its own.
 *
 * Returns:   0 or -errno.
 * Thread:    any, once, before other threads use the runtime. Overflows in a thread without an alternate stack kill silently.
 */
int rt_stack_report_overflow(void);

/**
 * Raise or lower the maximum when a device comes or goes; it never falls below what it starts with.
 *
 * Units:     coroutines. "batched" starts at one batch, and what is above a lowered maximum is freed at once; "per-thread"
 *            starts at 64 and frees nothing; "none" does not care.
 * Thread:    any.
 * Trace:     rt_pool:resize.
 */
void rt_pool_inc_max(uint32_t delta);
void rt_pool_dec_max(uint32_t delta);

/**
 * Give the memory of coroutines that have waited in the global pool for at least @idle_ms back to the kernel. They stay in the
 * pool, with their mappings and guards; the next use of each costs a page fault.
 *
 * The sampler (rt/process.h) does this once a second with RT_POOL_IDLE_MS; only a program without it has to care.
 * Threads' own batches stay as they are. "per-thread" releases nothing, as ever.
 *
 * Thread:    any.
 */
void rt_pool_trim(uint32_t idle_ms);

#define RT_POOL_IDLE_MS 5000

/* ---- statistics: kept always, whether or not anything is traced ---- */

/** What all threads share. Under "none" the first three are 0. */
struct rt_pool_global_stats {
    uint32_t global_size;     /**< idle coroutines in the global pool; "per-thread": in the release list, about */
    uint32_t global_max;      /**< how many may wait there; "per-thread": twice its maximum */
    uint32_t global_hard_max; /**< what the machine bears; "per-thread": RT_POOL_NO_LIMIT */
    uint32_t stack_count;     /**< stacks that exist, live or pooled */
    uint32_t stack_vma_count; /**< mappings that hold them */
    uint32_t live_count;      /**< coroutines created and not ended */
};

/** Of one thread, since it first used coroutines. */
struct rt_pool_thread_stats {
    int32_t thread_id;
    char name[16];
    uint32_t local_size; /**< idle coroutines that only this thread can take; "per-thread": about */
    uint64_t takes;      /**< coroutines created here */
    uint64_t gives;      /**< ended here */
    uint64_t misses;     /**< created here on a new stack */
    uint64_t refills;    /**< times the local pool was empty and the global one was asked, also in vain */
    uint64_t donations;  /**< batches passed on to the global pool; "per-thread": coroutines to the release list */
    uint64_t overflows;  /**< batches freed because the global pool was full; "per-thread": coroutines */
};

/**
 * A snapshot. The counters are read one after the other while threads go on, so sums are exact only when none does.
 *
 * Thread:    any. Takes the lock of the threads' registry and, under "batched", that of the global pool: a thread that
 *            starts, ends, or exchanges a batch meanwhile waits for some microseconds.
 */
void rt_pool_global_stats(struct rt_pool_global_stats *stats_out);

/** Calls visit for each thread that has used coroutines and still lives. Thread: any but a visitor. */
void rt_pool_each_thread(void (*visit)(const struct rt_pool_thread_stats *stats, void *opaque), void *opaque);

#endif
