/*
 * Work on its way to a loop: bottom halves and woken coroutines, in the order of arrival. Private to runtime/.
 *
 * The link lies inside the work, so that handing it over allocates nothing. Other threads push onto a list without
 * locks; the loop takes the whole list at once into a queue of its own, so that nested passes go on where the outer
 * one stopped. The loop's own thread uses the queue directly.
 *
 *     any thread                    the loop's thread only
 *     work_push(&pushed, link)      work_queue_collect(&queue, &pushed), _append(), _pop()
 *
 * A push releases what was written before it, and collecting acquires it: the users' ORDER tags rest on that.
 */
#ifndef RUNTIME_WORK_QUEUE_H
#define RUNTIME_WORK_QUEUE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/** Belongs to whoever has it in a list. */
struct work_link {
    struct work_link *next;
};

/** Newest first. */
typedef _Atomic(struct work_link *) work_pushed;

/** First in, first out, for one thread. */
struct work_queue {
    struct work_link *first, **last;
    uint32_t count;
};

static inline void work_queue_init(struct work_queue *queue)
{
    queue->first = NULL;
    queue->last = &queue->first;
    queue->count = 0;
}

static inline void work_queue_append(struct work_queue *queue, struct work_link *link)
{
    link->next = NULL;
    *queue->last = link;
    queue->last = &link->next;
    queue->count++;
}

/** NULL: it is empty. */
static inline struct work_link *work_queue_pop(struct work_queue *queue)
{
    struct work_link *link = queue->first;

    if (!link)
        return NULL;
    queue->first = link->next;
    if (!queue->first)
        queue->last = &queue->first;
    queue->count--;
    return link;
}

/** Afterwards the work may have run already, and be gone. */
static inline void work_push(work_pushed *pushed, struct work_link *link)
{
    struct work_link *newest = atomic_load_explicit(pushed, memory_order_relaxed);

    do
        link->next = newest;
    while (!atomic_compare_exchange_weak_explicit(pushed, &newest, link, memory_order_release,
                                                  memory_order_relaxed));
}

/** Append what was pushed, oldest first. */
static inline void work_queue_collect(struct work_queue *queue, work_pushed *pushed)
{
    struct work_link *link, *oldest = NULL;

    if (!atomic_load_explicit(pushed, memory_order_relaxed))
        return;
    link = atomic_exchange_explicit(pushed, NULL, memory_order_acquire);
    while (link) {
        struct work_link *next = link->next;

        link->next = oldest;
        oldest = link;
        link = next;
    }
    while (oldest) {
        struct work_link *next = oldest->next;

        work_queue_append(queue, oldest);
        oldest = next;
    }
}

#endif
