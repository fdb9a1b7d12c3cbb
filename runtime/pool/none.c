/*
 * No pool: every life makes a stack and frees it. What pools are measured against, and a way to let a memory checker see
 * each life by itself.
 */
#include "coroutine/stack.h"
#include "pool/pool_internal.h"
#include "rt/pool.h"

static struct rt_coroutine *none_refill(struct rt_thread *thread)
{
    (void)thread;
    return NULL;
}

static void none_overflow(struct rt_thread *thread, struct rt_coroutine *co)
{
    (void)thread;
    co->pool_next = NULL;
    rt_stack_destroy_chain(co);
}

static uint32_t none_drain(struct rt_thread *thread)
{
    (void)thread;
    return 0;
}

/* Nothing waits here, whatever devices ask for. */
static struct rt_pool_limits none_limits(void)
{
    return (struct rt_pool_limits){ .size = 0, .max = 0, .hard_max = 0 };
}

static struct rt_pool_limits none_resize(int64_t delta)
{
    (void)delta;
    return none_limits();
}

const struct pool_policy rt_pool_none = {
    .name = "none",
    .local_fill = 0,
    .refill = none_refill,
    .overflow = none_overflow,
    .drain = none_drain,
    .resize = none_resize,
    .limits = none_limits,
};
