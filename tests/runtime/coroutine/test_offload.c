/*
 * Goal:   what blocks runs in a thread of its own; its coroutine waits, and its loop does not.
 * Method: several coroutines of one IOThread each offload work that waits until the loop has run something else since.
 * If it fails: a network disk whose server is silent stops every other disk of the process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "rt/coroutine.h"
#include "rt/iothread.h"
#include "rt/loop.h"

#define COUNT 5

struct work {
    atomic_bool begun, loop_went_on, done;
    char name[16];
    struct rt_loop *back_in;
};

static void block(void *opaque)
{
    struct work *work = opaque;

    pthread_getname_np(pthread_self(), work->name, sizeof(work->name));
    atomic_store(&work->begun, true);
    while (!atomic_load(&work->loop_went_on))
        sched_yield();
}

static void offload_co(void *opaque)
{
    struct work *work = opaque;

    rt_offload_co("blocks", block, work);
    work->back_in = rt_loop_current();
    atomic_store(&work->done, true);
}

static void begin(void *opaque)
{
    struct rt_coroutine *co = rt_coroutine_create(offload_co, opaque);

    rt_coroutine_enter(co);
}

static void go_on(void *opaque)
{
    atomic_store((atomic_bool *)opaque, true);
}

static void the_loop_goes_on(void **state)
{
    struct rt_iothread *io;
    struct work works[COUNT] = { 0 };

    (void)state;
    assert_int_equal(rt_iothread_create("iothread", 0, &io), 0);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(rt_loop_post(rt_iothread_loop(io), begin, &works[i]), 0);
    for (unsigned i = COUNT; i-- > 0;) {
        while (!atomic_load(&works[i].begun))
            sched_yield();
        assert_false(atomic_load(&works[i].done));
        /* Would never run if the loop waited with its coroutines. */
        assert_int_equal(rt_loop_post(rt_iothread_loop(io), go_on, &works[i].loop_went_on), 0);
        while (!atomic_load(&works[i].done))
            sched_yield();
        assert_string_equal(works[i].name, "blocks");
        assert_true(works[i].back_in == rt_iothread_loop(io));
    }
    rt_iothread_destroy(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loop_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
