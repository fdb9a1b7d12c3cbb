/**
 * What each thread took from and gave to its coroutine pool from one round of rt_pool:local_sample to the next.
 *
 *     pool_window_sample(window, event, close, state);   // calls close(state, window) when a round is complete
 *     pool_window_finish(window, close, state);
 */
#ifndef ANALYSIS_CHECKS_POOL_WINDOW_H
#define ANALYSIS_CHECKS_POOL_WINDOW_H

#include "checks/stretch.h"
#include "model/process.h"

struct pool_counts {
    uint64_t takes, gives, misses, overflows;
};

struct pool_thread {
    int64_t tid;
    bool sampled; /**< in this round */
    struct pool_counts totals, grown;
    /* for whom uses the window */
    struct stretch taking, giving;
    struct pool_counts taken, given; /**< in these stretches */
};

struct pool_window {
    GHashTable *threads; /**< tid -> struct pool_thread */
    struct round round;
    int64_t begin_ns, end_ns; /**< of the window that is being closed */
    struct pool_counts grown; /**< all threads together */
};

typedef void pool_window_close(void *state, struct pool_window *window);

void pool_window_init(struct pool_window *window);
void pool_window_deinit(struct pool_window *window);
void pool_window_sample(struct pool_window *window, const struct event *event, pool_window_close *close,
                        void *state);
/** The last round has no successor that closes it. */
void pool_window_finish(struct pool_window *window, pool_window_close *close, void *state);

/** Threads in the order of their ids; caller frees the list. */
GList *pool_window_threads(const struct pool_window *window);

#endif
