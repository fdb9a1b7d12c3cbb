/* Waiting for what other threads do: for the condition itself, with a deadline after which the test has
 * failed. */
#ifndef TESTS_RUNTIME_LOOP_UNTIL_H
#define TESTS_RUNTIME_LOOP_UNTIL_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "rt/loop.h"

#define UNTIL_DEADLINE_NS INT64_C(20000000000)

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

/* The same, by passes of the loop of this thread. */
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
