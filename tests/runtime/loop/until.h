/* Waiting for what other threads do: for the condition itself, with a deadline after which the test has
 * failed. */
#ifndef TESTS_RUNTIME_LOOP_UNTIL_H
#define TESTS_RUNTIME_LOOP_UNTIL_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "rt/loop.h"

#define UNTIL_DEADLINE_NS INT64_C(60000000000)

/* The process cannot go on after this: other threads use what the test would free. */
#define UNTIL(condition)                                                                                     \
    do {                                                                                                     \
        int64_t until_deadline_ns = rt_clock_ns() + UNTIL_DEADLINE_NS;                                       \
        while (!(condition)) {                                                                               \
            if (rt_clock_ns() > until_deadline_ns) {                                                         \
                fprintf(stderr, "%s:%d: waited in vain for: %s\n", __FILE__, __LINE__, #condition);          \
                abort();                                                                                     \
            }                                                                                                \
            sched_yield();                                                                                   \
        }                                                                                                    \
    } while (0)

/* Until this loop of another thread sleeps: its wait gets longer while its passes do not get more. */
static inline struct rt_loop_stats until_asleep(struct rt_loop *loop)
{
    struct rt_loop_stats before, now;
    rt_loop_stats(loop, &before);
    UNTIL((rt_loop_stats(loop, &now), now.passes == before.passes && now.wait_ns > before.wait_ns) ||
          (before = now, false));
    return now;
}

/* As UNTIL, by passes of the loop of this thread. */
#define PASS_UNTIL(loop, condition)                                                                          \
    do {                                                                                                     \
        int64_t until_deadline_ns = rt_clock_ns() + UNTIL_DEADLINE_NS;                                       \
        while (!(condition)) {                                                                               \
            if (rt_clock_ns() > until_deadline_ns) {                                                         \
                fprintf(stderr, "%s:%d: passed in vain for: %s\n", __FILE__, __LINE__, #condition);          \
                abort();                                                                                     \
            }                                                                                                \
            (void)rt_loop_pass((loop), false);                                                               \
        }                                                                                                    \
    } while (0)

#endif
