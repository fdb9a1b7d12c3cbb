/**
 * The process seen as a whole: tracing on demand, baselines and 1 Hz samples.
 *
 * One sampler thread emits everything that repeats. It never wakes a loop: waking it would cure the fault that
 * is being looked for.
 *
 *     rt_process_start(&(struct rt_process_options){ .version = "1.0", .faults = "" });
 *     rt_process_add_source(&my_source);
 *     ...
 *     rt_process_stop();
 */
#ifndef RT_PROCESS_H
#define RT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

struct rt_process_options {
    const char *version;
    const char *faults;       /**< comma-separated, "" for none */
    const char *request_lock; /**< value of that option; the runtime only reports it */
    bool tracing;             /**< false: never load the provider */
};

/**
 * Load the tracepoint provider if LTTng is there, start the sampler thread.
 *
 * Returns:   0 (also without LTTng: tracing_reason then says why), or -errno of the thread's creation.
 * Thread:    once, before the first loop runs.
 * Ownership: the options are copied, their strings are not: they live until rt_process_stop().
 */
int rt_process_start(const struct rt_process_options *options);

/** Join the sampler after a last sample. */
void rt_process_stop(void);

/** NULL when the provider is loaded, else one line that says why not. Lives as long as the process. */
const char *rt_process_tracing_reason(void);

/** A room above that has things to re-emit. Both run in the sampler thread; must not block on a loop. */
struct rt_process_source {
    void (*baseline)(void *opaque); /**< between rt_process:baseline_begin and _end, after the runtime's own */
    void (*sample)(void *opaque);   /**< once a second */
    void *opaque;
    struct rt_process_source *next; /**< the runtime's */
};

/** Thread: any. The source lives until it is removed; removal waits for a running callback. */
void rt_process_add_source(struct rt_process_source *source);
void rt_process_remove_source(struct rt_process_source *source);

/** Ask the sampler for a baseline (what a new tracing session does by itself). Async-signal-safe. */
void rt_process_request_baseline(void);

/**
 * Mappings of this process: those of stacks as they are now, the others as counted from /proc/self/maps, which may be
 * up to 10 s ago where counting is dear.
 */
uint32_t rt_process_vma_count(void);

#endif
