#include "rt/iothread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "rt/loop.h"

/* The kernel's limit for a thread's name, with its NUL. */
#define THREAD_NAME_BYTES 16

struct rt_iothread {
    struct rt_loop *loop;
    pthread_t thread;
};

/* Leave signals to the main thread, but for those that a thread raises by what it does itself: blocked, they
 * would kill the process without their handler. */
static void block_signals(sigset_t *old_out)
{
    static const int synchronous[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
    sigset_t set;
    sigfillset(&set);
    for (size_t i = 0; i < sizeof(synchronous) / sizeof(synchronous[0]); i++)
        sigdelset(&set, synchronous[i]);
    (void)pthread_sigmask(SIG_BLOCK, &set, old_out);
}

static void *run(void *opaque)
{
    struct rt_iothread *iothread = opaque;
    char name[THREAD_NAME_BYTES];
    size_t length = 0;
    for (const char *c = rt_loop_name(iothread->loop); *c && length < sizeof(name) - 1; c++)
        name[length++] = *c;
    name[length] = '\0';
    (void)pthread_setname_np(pthread_self(), name); /* for people who look at top; nothing depends on it */

    rt_loop_bind(iothread->loop);
    rt_loop_run(iothread->loop);
    /* What was posted before the quit may not have had its pass. */
    (void)rt_loop_pass(iothread->loop, false);
    return NULL;
}

static void do_nothing(void *opaque)
{
}

int rt_iothread_create(const char *name, int64_t poll_max_ns, struct rt_iothread **iothread_out)
{
    struct rt_iothread *iothread = calloc(1, sizeof(*iothread));
    if (!iothread)
        return -ENOMEM;
    int error = rt_loop_create(name, &iothread->loop);
    if (error) {
        free(iothread);
        return error;
    }
    rt_loop_set_poll(iothread->loop, poll_max_ns);

    /* Blocked before the thread exists, which inherits it: no signal can slip in. */
    sigset_t old;
    block_signals(&old);
    error = -pthread_create(&iothread->thread, NULL, run, iothread);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error) {
        rt_loop_destroy(iothread->loop);
        free(iothread);
        return error;
    }
    rt_loop_call(iothread->loop, do_nothing, NULL); /* until it runs */
    *iothread_out = iothread;
    return 0;
}

void rt_iothread_destroy(struct rt_iothread *iothread)
{
    if (!iothread)
        return;
    rt_loop_quit(iothread->loop);
    (void)pthread_join(iothread->thread, NULL);
    rt_loop_destroy(iothread->loop);
    free(iothread);
}

struct rt_loop *rt_iothread_loop(struct rt_iothread *iothread)
{
    return iothread->loop;
}
