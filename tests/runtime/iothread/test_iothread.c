/*
 * Goal: an IOThread runs its loop, takes no signal meant for the process, and runs what was posted before it is destroyed.
 * Method: posts from this thread, a look at the thread's name and signal mask, a signal to the process.
 * If it fails: work is lost when a device stops, or SIGTERM interrupts an IOThread instead of the main thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "rt/iothread.h"
#include "rt/loop.h"

static void count_up(void *opaque)
{
    atomic_fetch_add((_Atomic int *)opaque, 1);
}

static void posted_before_destroy_runs(void **state)
{
    for (int round = 0; round < 50; round++) {
        struct rt_iothread *io;
        _Atomic int ran = 0;
        assert_int_equal(rt_iothread_create("short", round % 2 ? 32000 : 0, &io), 0);
        for (int i = 0; i < 20; i++)
            assert_int_equal(rt_loop_post(rt_iothread_loop(io), count_up, &ran), 0);
        rt_iothread_destroy(io);
        assert_int_equal(ran, 20);
    }
    rt_iothread_destroy(NULL);
}

struct facts {
    char name[16];
    sigset_t blocked;
    struct rt_loop *loop;
    pthread_t thread;
};

static void look(void *opaque)
{
    struct facts *facts = opaque;
    pthread_getname_np(pthread_self(), facts->name, sizeof(facts->name));
    pthread_sigmask(SIG_BLOCK, NULL, &facts->blocked);
    facts->loop = rt_loop_current();
    facts->thread = pthread_self();
}

static void is_named_and_bound(void **state)
{
    struct rt_iothread *io;
    struct facts facts;
    assert_int_equal(rt_iothread_create("iothread-with-a-long-name", 0, &io), 0);
    rt_loop_call(rt_iothread_loop(io), look, &facts);
    assert_string_equal(facts.name, "iothread-with-a");
    assert_string_equal(rt_loop_name(rt_iothread_loop(io)), "iothread-with-a-long-name");
    assert_ptr_equal(facts.loop, rt_iothread_loop(io));
    rt_iothread_destroy(io);
}

static void leaves_signals_to_the_main_thread(void **state)
{
    struct rt_iothread *io;
    struct facts facts;
    sigset_t before, after;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(rt_iothread_create("signals", 0, &io), 0);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    rt_loop_call(rt_iothread_loop(io), look, &facts);
    const int blocked[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD, SIGPIPE };
    for (size_t i = 0; i < sizeof(blocked) / sizeof(blocked[0]); i++)
        assert_true(sigismember(&facts.blocked, blocked[i]));
    /* A fault of its own must reach its handler. */
    assert_false(sigismember(&facts.blocked, SIGSEGV));
    assert_false(sigismember(&facts.blocked, SIGBUS));
    /* The creating thread is as it was. */
    assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
    rt_iothread_destroy(io);
}

static void survives_a_quit_of_its_loop(void **state)
{
    struct rt_iothread *io;
    assert_int_equal(rt_iothread_create("quit", 0, &io), 0);
    rt_loop_quit(rt_iothread_loop(io));
    rt_iothread_destroy(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posted_before_destroy_runs),
        cmocka_unit_test(is_named_and_bound),
        cmocka_unit_test(leaves_signals_to_the_main_thread),
        cmocka_unit_test(survives_a_quit_of_its_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
