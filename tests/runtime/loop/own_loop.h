/*
 * For cmocka's groups: a loop of the test's own thread for each test, which is its state; and what it counts.
 */
#ifndef TESTS_RUNTIME_LOOP_OWN_LOOP_H
#define TESTS_RUNTIME_LOOP_OWN_LOOP_H

#include "rt/loop.h"

static inline int set_up(void **state)
{
    struct rt_loop *loop;
    if (rt_loop_create("own", &loop) < 0)
        return -1;
    rt_loop_bind(loop);
    *state = loop;
    return 0;
}

static inline int tear_down(void **state)
{
    rt_loop_destroy(*state);
    return 0;
}

static inline struct rt_loop_stats stats_of(struct rt_loop *loop)
{
    struct rt_loop_stats stats;
    rt_loop_stats(loop, &stats);
    return stats;
}

#endif
