/*
 * Timers: a heap by deadline, under a lock that only arming, cancelling and expiry take: each is O(log n).
 *
 * What orders them lies in the heap itself, and four children lie side by side: with thousands of timers what costs is
 * the memory that is not in a cache.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "loop/loop_internal.h"

#define NOT_IN_HEAP UINT32_MAX
#define CHILDREN 4

/* A place in the heap. */
struct timer_slot {
    int64_t deadline_ns;
    uint64_t sequence; /* equal deadlines expire in the order in which they were armed */
    struct rt_timer *timer;
};

struct rt_timer {
    struct rt_loop *loop;
    void (*fn)(void *opaque);
    void *opaque;
    /* Under timer_lock. */
    uint32_t heap_index; /* NOT_IN_HEAP */
    bool expired;        /* in loop->timers_expired */
    TAILQ_ENTRY(rt_timer) expired_link;
};

int64_t rt_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool is_before(const struct timer_slot *a, const struct timer_slot *b)
{
    return a->deadline_ns != b->deadline_ns ? a->deadline_ns < b->deadline_ns : a->sequence < b->sequence;
}

static void place(struct rt_loop *loop, const struct timer_slot *slot, uint32_t index)
{
    loop->timer_heap[index] = *slot;
    slot->timer->heap_index = index;
}

/* Which child of @index comes first; not below timer_count: it has none. */
static uint32_t first_child(const struct rt_loop *loop, uint32_t index)
{
    const struct timer_slot *heap = loop->timer_heap;
    uint32_t child = CHILDREN * index + 1;
    uint32_t end = child + CHILDREN < loop->timer_count ? child + CHILDREN : loop->timer_count;
    uint32_t first = child;
    while (++child < end) {
        if (is_before(&heap[child], &heap[first]))
            first = child;
    }
    return first;
}

/* Put @slot at @index or wherever the heap's order moves it from there. */
static void sift(struct rt_loop *loop, const struct timer_slot *slot, uint32_t index)
{
    while (index > 0) {
        uint32_t parent = (index - 1) / CHILDREN;
        if (!is_before(slot, &loop->timer_heap[parent]))
            break;
        place(loop, &loop->timer_heap[parent], index);
        index = parent;
    }
    for (;;) {
        uint32_t child = first_child(loop, index);
        if (child >= loop->timer_count || !is_before(&loop->timer_heap[child], slot))
            break;
        place(loop, &loop->timer_heap[child], index);
        index = child;
    }
    place(loop, slot, index);
}

static void publish_next_deadline_locked(struct rt_loop *loop)
{
    int64_t next_ns = !TAILQ_EMPTY(&loop->timers_expired) ? 0
                      : loop->timer_count                 ? loop->timer_heap[0].deadline_ns
                                                          : DEADLINE_NEVER;
    atomic_store_explicit(&loop->next_deadline_ns, next_ns, memory_order_release);
}

static void remove_locked(struct rt_timer *timer)
{
    struct rt_loop *loop = timer->loop;
    if (timer->expired) {
        TAILQ_REMOVE(&loop->timers_expired, timer, expired_link);
        timer->expired = false;
    }
    if (timer->heap_index == NOT_IN_HEAP)
        return;
    uint32_t index = timer->heap_index;
    timer->heap_index = NOT_IN_HEAP;
    const struct timer_slot last = loop->timer_heap[--loop->timer_count];
    if (last.timer != timer)
        sift(loop, &last, index);
}

void timer_init(struct rt_loop *loop)
{
    TAILQ_INIT(&loop->timers_expired);
    atomic_init(&loop->next_deadline_ns, DEADLINE_NEVER);
    pthread_mutex_init(&loop->timer_lock, NULL);
}

void timer_deinit(struct rt_loop *loop)
{
    pthread_mutex_destroy(&loop->timer_lock);
    free(loop->timer_heap);
}

struct rt_timer *rt_timer_create(struct rt_loop *loop, void (*fn)(void *opaque), void *opaque)
{
    struct rt_timer *timer = calloc(1, sizeof(*timer));
    if (!timer)
        return NULL;
    timer->loop = loop;
    timer->fn = fn;
    timer->opaque = opaque;
    timer->heap_index = NOT_IN_HEAP;

    /* Room in the heap is made here, so that arming cannot fail. */
    pthread_mutex_lock(&loop->timer_lock);
    if (loop->timer_created == loop->timer_capacity) {
        uint32_t capacity = loop->timer_capacity ? 2 * loop->timer_capacity : 8;
        struct timer_slot *heap = realloc(loop->timer_heap, capacity * sizeof(*heap));
        if (!heap) {
            pthread_mutex_unlock(&loop->timer_lock);
            free(timer);
            return NULL;
        }
        loop->timer_heap = heap;
        loop->timer_capacity = capacity;
    }
    loop->timer_created++;
    pthread_mutex_unlock(&loop->timer_lock);
    return timer;
}

void rt_timer_arm(struct rt_timer *timer, int64_t deadline_ns)
{
    struct rt_loop *loop = timer->loop;
    pthread_mutex_lock(&loop->timer_lock);
    remove_locked(timer);
    const struct timer_slot slot = { deadline_ns, loop->timer_sequence++, timer };
    sift(loop, &slot, loop->timer_count++);
    bool earliest = timer->heap_index == 0;
    publish_next_deadline_locked(loop); /* ORDER loop.notify [N1] */
    pthread_mutex_unlock(&loop->timer_lock);
    /* Behind an earlier one the loop wakes up in time anyway, and looks again. */
    if (earliest && !loop_is_own(loop))
        loop_publish(loop, PUBLISH_TIMER);
}

void rt_timer_cancel(struct rt_timer *timer)
{
    struct rt_loop *loop = timer->loop;
    pthread_mutex_lock(&loop->timer_lock);
    remove_locked(timer);
    publish_next_deadline_locked(loop);
    pthread_mutex_unlock(&loop->timer_lock);
}

void rt_timer_destroy(struct rt_timer *timer)
{
    if (!timer)
        return;
    rt_timer_cancel(timer);
    pthread_mutex_lock(&timer->loop->timer_lock);
    timer->loop->timer_created--;
    pthread_mutex_unlock(&timer->loop->timer_lock);
    free(timer);
}

bool timer_run(struct rt_loop *loop, int64_t now_ns)
{
    if (atomic_load_explicit(&loop->next_deadline_ns, memory_order_acquire) > now_ns)
        return false;
    pthread_mutex_lock(&loop->timer_lock);
    /* All that are due now, before any runs, and behind those that were left out: one that arms itself for the past
     * again and again is behind all others again and again. */
    while (loop->timer_count && loop->timer_heap[0].deadline_ns <= now_ns) {
        struct rt_timer *timer = loop->timer_heap[0].timer;
        remove_locked(timer);
        timer->expired = true;
        TAILQ_INSERT_TAIL(&loop->timers_expired, timer, expired_link);
    }
    bool ran = false;
    for (uint32_t left = WORK_PER_PASS_MAX; left > 0 && !TAILQ_EMPTY(&loop->timers_expired); left--) {
        struct rt_timer *timer = TAILQ_FIRST(&loop->timers_expired);
        remove_locked(timer);
        publish_next_deadline_locked(loop);
        pthread_mutex_unlock(&loop->timer_lock);
        timer->fn(timer->opaque);
        ran = true;
        hog_check(loop, 0);
        pthread_mutex_lock(&loop->timer_lock);
    }
    pthread_mutex_unlock(&loop->timer_lock);
    return ran;
}
