/*
 * Lives of coroutines by the hundred, and the pool's counters, for the tests of the pool. In a child (child.h).
 */
#ifndef TESTS_RUNTIME_POOL_LIVES_H
#define TESTS_RUNTIME_POOL_LIVES_H

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"
#include "rt/coroutine.h"
#include "rt/pool.h"

/* A new stack takes ten milliseconds under ThreadSanitizer. What one thread does alone it cannot judge, so cases of that
 * kind are left to the other builds, and the rest make do with fewer. */
#if defined(__SANITIZE_THREAD__)
#define STACKS_ARE_DEAR 1
#else
#define STACKS_ARE_DEAR 0
#endif

static inline void live_until_entered(void *opaque)
{
    (void)opaque;
    rt_coroutine_yield();
}

/* Each lives until it is entered once more. */
static inline void make_lives(struct rt_coroutine **lives, int count)
{
    for (int i = 0; i < count; i++) {
        lives[i] = rt_coroutine_create(live_until_entered, NULL);
        CHILD_CHECK(lives[i] != NULL);
        rt_coroutine_enter(lives[i]);
    }
}

static inline void end_lives(struct rt_coroutine **lives, int count)
{
    for (int i = 0; i < count; i++)
        rt_coroutine_enter(lives[i]);
}

static inline struct rt_pool_global_stats pool_stats(void)
{
    struct rt_pool_global_stats stats;

    rt_pool_global_stats(&stats);
    return stats;
}

struct thread_search {
    int32_t thread_id;
    struct rt_pool_thread_stats found;
};

static inline void match_thread(const struct rt_pool_thread_stats *stats, void *opaque)
{
    struct thread_search *search = opaque;

    if (stats->thread_id == search->thread_id)
        search->found = *stats;
}

/* Of the calling thread; zeroes if it used no coroutine yet. */
static inline struct rt_pool_thread_stats thread_stats(void)
{
    struct thread_search search = { .thread_id = (int32_t)syscall(SYS_gettid) };

    rt_pool_each_thread(match_thread, &search);
    return search.found;
}

#endif
