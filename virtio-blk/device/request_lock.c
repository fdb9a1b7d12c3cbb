#include "device/request_lock.h"

#include <string.h>

/* ---- a thread mutex ---- */

static void init_thread(union vblk_lock *lock, const char *class_name)
{
    rt_mutex_init(&lock->thread, class_name);
}

static void deinit_thread(union vblk_lock *lock)
{
    rt_mutex_deinit(&lock->thread);
}

static void lock_thread(union vblk_lock *lock)
{
    rt_mutex_lock(&lock->thread);
}

static void unlock_thread(union vblk_lock *lock)
{
    rt_mutex_unlock(&lock->thread);
}

static void wait_thread_co(union vblk_lock *lock, struct rt_co_queue *queue)
{
    (void)rt_co_queue_wait_mutex_co(queue, &lock->thread);
}

static const struct vblk_lock_kind thread = { init_thread, deinit_thread, lock_thread, unlock_thread, wait_thread_co };

/* ---- a coroutine mutex ---- */

static void init_coroutine(union vblk_lock *lock, const char *class_name)
{
    rt_co_mutex_init(&lock->coroutine, class_name);
}

static void deinit_coroutine(union vblk_lock *lock)
{
    rt_co_mutex_deinit(&lock->coroutine);
}

static void lock_coroutine_co(union vblk_lock *lock)
{
    rt_co_mutex_lock_co(&lock->coroutine);
}

static void unlock_coroutine(union vblk_lock *lock)
{
    rt_co_mutex_unlock(&lock->coroutine);
}

static void wait_coroutine_co(union vblk_lock *lock, struct rt_co_queue *queue)
{
    (void)rt_co_queue_wait_co_mutex_co(queue, &lock->coroutine);
}

static const struct vblk_lock_kind coroutine = { init_coroutine, deinit_coroutine, lock_coroutine_co, unlock_coroutine,
                                                 wait_coroutine_co };

/* ---- policies ---- */

static const struct vblk_request_lock policies[] = {
    { .name = "sharded", .kind = &thread, .list_per_queue = true },
    { .name = "thread", .kind = &thread },
    { .name = "coroutine", .kind = &coroutine },
};

const struct vblk_request_lock *vblk_request_lock_at(unsigned index)
{
    return index < sizeof(policies) / sizeof(policies[0]) ? &policies[index] : NULL;
}

const struct vblk_request_lock *vblk_request_lock_find(const char *name)
{
    const struct vblk_request_lock *policy;

    for (unsigned i = 0; (policy = vblk_request_lock_at(i)); i++)
        if (strcmp(policy->name, name) == 0)
            return policy;
    return NULL;
}
