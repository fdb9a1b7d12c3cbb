/*
 * Work from any thread. work_queue.h tells how it gets to the loop.
 *
 * ORDER loop.bottom_half: what was written before rt_bh_schedule() is seen by the function, also when the
 * schedule found the bottom half queued already and pushed nothing.
 *   rt_bh_schedule():  fetch_or of the flags (release), push (release)
 *   bh_run():          exchange of the list (acquire), fetch_and of the flags (acquire), then the call
 * If weaker: the function runs and misses the work it was scheduled for, and nobody schedules it again.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "loop/loop_internal.h"

enum {
    BH_QUEUED = 1,    /* in a list: must not be pushed or freed */
    BH_SCHEDULED = 2, /* to be run when it leaves the list */
    BH_DELETED = 4,   /* to be freed when it leaves the list */
    BH_ONCE = 8,      /* of rt_loop_post(): freed before it runs */
};

struct rt_bh {
    struct work_link link; /* first, so that the pointers convert */
    struct rt_loop *loop;
    void (*fn)(void *opaque);
    void *opaque;
    _Atomic unsigned flags;
};

static void enqueue(struct rt_bh *bh)
{
    struct rt_loop *loop = bh->loop;
    if (loop_is_own(loop)) {
        work_queue_collect(&loop->bh_queue, &loop->bh_pushed); /* what was pushed before goes first */
        work_queue_append(&loop->bh_queue, &bh->link);
        total_add(&loop->queued, 1);
        return;
    }
    atomic_fetch_add_explicit(&loop->published, 1, memory_order_relaxed);
    loop_announce(loop, PUBLISH_BOTTOM_HALF);
    work_push(&loop->bh_pushed, &bh->link); /* ORDER loop.bottom_half, the list; ORDER loop.notify [N1] */
    /* From here on bh may have run and be gone. */
    loop_notify(loop);
}

struct rt_bh *rt_bh_create(struct rt_loop *loop, void (*fn)(void *opaque), void *opaque)
{
    struct rt_bh *bh = calloc(1, sizeof(*bh));
    if (!bh)
        return NULL;
    bh->loop = loop;
    bh->fn = fn;
    bh->opaque = opaque;
    return bh;
}

void rt_bh_schedule(struct rt_bh *bh)
{
    /* ORDER loop.bottom_half, schedule side. Whoever sets BH_QUEUED pushes and notifies, for others too. */
    unsigned before = atomic_fetch_or_explicit(&bh->flags, BH_QUEUED | BH_SCHEDULED, memory_order_acq_rel);
    if (!(before & BH_QUEUED))
        enqueue(bh);
}

void rt_bh_cancel(struct rt_bh *bh)
{
    atomic_fetch_and_explicit(&bh->flags, ~(unsigned)BH_SCHEDULED, memory_order_relaxed);
}

void rt_bh_destroy(struct rt_bh *bh)
{
    if (!bh)
        return;
    rt_bh_cancel(bh);
    unsigned before = atomic_fetch_or_explicit(&bh->flags, BH_DELETED, memory_order_acq_rel);
    if (!(before & BH_QUEUED))
        free(bh);
}

int rt_loop_post(struct rt_loop *loop, void (*fn)(void *opaque), void *opaque)
{
    struct rt_bh *bh = rt_bh_create(loop, fn, opaque);
    if (!bh)
        return -ENOMEM;
    atomic_store_explicit(&bh->flags, BH_QUEUED | BH_SCHEDULED | BH_ONCE, memory_order_relaxed);
    enqueue(bh);
    return 0;
}

void bh_init(struct rt_loop *loop)
{
    work_queue_init(&loop->bh_queue);
}

/* Out of the list. Returns what it was flagged as; unless BH_SCHEDULED alone it is freed. */
static unsigned leave_list(struct rt_bh *bh)
{
    /* ORDER loop.bottom_half, run side. From here on others may push it again. */
    unsigned flags =
        atomic_fetch_and_explicit(&bh->flags, ~(unsigned)(BH_QUEUED | BH_SCHEDULED), memory_order_acq_rel);
    if (flags & (BH_DELETED | BH_ONCE))
        free(bh);
    return flags;
}

uint32_t bh_run(struct rt_loop *loop)
{
    work_queue_collect(&loop->bh_queue, &loop->bh_pushed); /* ORDER loop.bottom_half, run side, the list */
    uint32_t ran = 0;
    /* What these queue runs in the next pass. */
    for (uint32_t left = work_of_pass(loop->bh_queue.count); left > 0; left--) {
        struct rt_bh *bh = (struct rt_bh *)work_queue_pop(&loop->bh_queue);
        if (!bh)
            break; /* a nested pass ran them */
        void (*fn)(void *opaque) = bh->fn;
        void *opaque = bh->opaque;
        total_add(&loop->run, 1);
        unsigned flags = leave_list(bh);
        if ((flags & BH_SCHEDULED) && !(flags & BH_DELETED)) {
            fn(opaque);
            ran++;
            hog_check(loop, 0);
        }
    }
    return ran;
}

void bh_deinit(struct rt_loop *loop)
{
    work_queue_collect(&loop->bh_queue, &loop->bh_pushed);
    struct rt_bh *bh;
    while ((bh = (struct rt_bh *)work_queue_pop(&loop->bh_queue)))
        (void)leave_list(bh);
}

struct call {
    void (*fn)(void *opaque);
    void *opaque;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
};

static void run_call(void *opaque)
{
    struct call *call = opaque;
    call->fn(call->opaque);
    pthread_mutex_lock(&call->lock);
    call->done = true;
    pthread_cond_signal(&call->cond);
    pthread_mutex_unlock(&call->lock);
}

void rt_loop_call(struct rt_loop *loop, void (*fn)(void *opaque), void *opaque)
{
    if (loop_is_own(loop)) {
        fn(opaque);
        return;
    }
    struct call call = { .fn = fn, .opaque = opaque };
    pthread_mutex_init(&call.lock, NULL);
    pthread_cond_init(&call.cond, NULL);
    /* On the caller's stack: a call must not fail for want of memory. BH_ONCE would free it, so it has no
     * such flag. */
    struct rt_bh bh = { .loop = loop, .fn = run_call, .opaque = &call };
    rt_bh_schedule(&bh);
    pthread_mutex_lock(&call.lock);
    while (!call.done)
        pthread_cond_wait(&call.cond, &call.lock);
    pthread_mutex_unlock(&call.lock);
    pthread_cond_destroy(&call.cond);
    pthread_mutex_destroy(&call.lock);
}
