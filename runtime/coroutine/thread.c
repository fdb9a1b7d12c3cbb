#include "coroutine/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "coroutine/overflow.h"
#include "coroutine/switch.h"
#include "pool/pool_internal.h"

#define ID_BLOCK 4096

_Thread_local struct rt_thread rt_thread_this;

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rt_thread *registry;
static uint64_t ended_takes, ended_gives;

static pthread_once_t exit_key_once = PTHREAD_ONCE_INIT;
static pthread_key_t exit_key;

static _Atomic uint64_t next_id_block;

static void thread_exit(void *opaque)
{
    struct rt_thread *thread = opaque;

    rt_pool_drain_thread(thread);
    rt_overflow_thread_ends(thread);

    pthread_mutex_lock(&registry_lock);
    ended_takes += atomic_load_explicit(&thread->pool.takes, memory_order_relaxed);
    ended_gives += atomic_load_explicit(&thread->pool.gives, memory_order_relaxed);
    *thread->at = thread->next;
    if (thread->next)
        thread->next->at = thread->at;
    pthread_mutex_unlock(&registry_lock);

    /* Another destructor may still use coroutines: it registers the thread again, with counters from 0. */
    memset(&thread->pool, 0, sizeof(thread->pool));
    thread->current = NULL;
}

static void make_exit_key(void)
{
    /* Fails only when the process has used up its keys: nothing to go on with. */
    if (pthread_key_create(&exit_key, thread_exit) != 0)
        abort();
}

__attribute__((cold, noinline)) static void register_thread(struct rt_thread *thread)
{
    thread->thread_id = (int32_t)syscall(SYS_gettid);
    if (!thread->leader.caller) {
        thread->leader.caller = &thread->leader; /* it runs, so nobody can enter it */
        work_queue_init(&thread->ready);
#ifdef RT_TSAN
        thread->leader.tsan_fiber = __tsan_get_current_fiber();
#endif
    }

    rt_overflow_thread_begins(thread);
    pthread_once(&exit_key_once, make_exit_key);
    if (pthread_setspecific(exit_key, thread) != 0)
        abort(); /* no memory for the first key of a new thread */

    pthread_mutex_lock(&registry_lock);
    thread->next = registry;
    thread->at = &registry;
    if (registry)
        registry->at = &thread->next;
    registry = thread;
    pthread_mutex_unlock(&registry_lock);
    thread->current = &thread->leader;
}

/* The empty asm keeps whole-program optimisation from finding this function to be constant. */
__attribute__((noinline)) struct rt_thread *rt_thread_self(void)
{
    struct rt_thread *thread = &rt_thread_this;

    __asm__ volatile("" : "+r"(thread));
    if (__builtin_expect(!thread->current, 0))
        register_thread(thread);
    return thread;
}

uint64_t rt_thread_refill_ids(struct rt_thread *thread)
{
    uint64_t block = atomic_fetch_add_explicit(&next_id_block, ID_BLOCK, memory_order_relaxed);

    thread->next_id = block;
    thread->last_id = block + ID_BLOCK;
    return ++thread->next_id;
}

void rt_thread_each(void (*visit)(const struct rt_thread *thread, void *opaque), void *opaque)
{
    pthread_mutex_lock(&registry_lock);
    for (struct rt_thread *thread = registry; thread; thread = thread->next)
        visit(thread, opaque);
    pthread_mutex_unlock(&registry_lock);
}

void rt_thread_totals(uint64_t *takes_out, uint64_t *gives_out)
{
    /* Under one lock, or a thread that ends meanwhile would be in neither part. */
    pthread_mutex_lock(&registry_lock);
    *gives_out = ended_gives;
    for (struct rt_thread *thread = registry; thread; thread = thread->next)
        *gives_out += atomic_load_explicit(&thread->pool.gives, memory_order_relaxed);
    *takes_out = ended_takes;
    for (struct rt_thread *thread = registry; thread; thread = thread->next)
        *takes_out += atomic_load_explicit(&thread->pool.takes, memory_order_relaxed);
    pthread_mutex_unlock(&registry_lock);
}
