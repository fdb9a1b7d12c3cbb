/*
 * Goal: io_uring as a monitor keeps epoll's promises where it works differently: changes from other threads reach a
 * loop that sleeps, what is removed lets go of its file, more descriptors than its rings have entries are no problem,
 * what cannot be polled is seen, and a kernel that takes nothing for a while costs time only.
 * Method: thousands of descriptors; a sleeping loop in another thread; a child process without the system calls. What
 * all monitors have in common is looked at in the other tests of this directory, which run on each.
 * If it fails: descriptors go deaf, peers do not see that a connection was closed, or a choice of io_uring fails
 * without a reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rt/iothread.h"
#include "rt/loop.h"
#include "own_loop.h"
#include "until.h"
#include "without_syscall.h"

static const struct rt_loop_policies io_uring = { .monitor = RT_LOOP_MONITOR_IO_URING };

struct watched {
    struct rt_handler *handler;
    int fd;
    _Atomic int calls;
};

static bool leave_it(void *opaque)
{
    struct watched *w = opaque;
    atomic_fetch_add(&w->calls, 1);
    return false;
}

static bool consume(void *opaque)
{
    struct watched *w = opaque;
    eventfd_t count;
    atomic_fetch_add(&w->calls, 1);
    return eventfd_read(w->fd, &count) == 0;
}

static void watch(struct watched *w, struct rt_loop *loop, int fd, bool (*ready)(void *))
{
    *w = (struct watched){ .fd = fd };
    assert_true(fd >= 0);
    assert_int_equal(rt_loop_attach_fd(loop, fd, RT_FD_OTHER, 0, 0, &(struct rt_fd_callbacks){ .ready = ready }, w,
                                       &w->handler),
                     0);
}

/* More than the submission ring takes at once and the completion ring holds, all ready: each gets its turn, none two before
 * the others had one, no pass takes more than its bound, and what is detached while its report waits is not called. */
static void more_than_the_rings_hold(void **state)
{
    struct rt_loop *loop = *state;
    enum { COUNT = 5000, ROUNDS = 3, BOUND = 64 };
    static struct watched w[COUNT];
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < COUNT + 100) {
        print_message("only %llu descriptors are allowed here (ulimit -Hn): the rings are not filled\n",
                      (unsigned long long)limit.rlim_cur);
        return;
    }
    for (int i = 0; i < COUNT; i++)
        watch(&w[i], loop, eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC), leave_it);
    uint64_t dispatches;
    do {
        uint64_t before = stats_of(loop).dispatches;
        rt_loop_pass(loop, true);
        dispatches = stats_of(loop).dispatches;
        assert_in_range(dispatches - before, 1, BOUND);
    } while (dispatches < COUNT * ROUNDS);
    for (int i = 0; i < COUNT; i++)
        assert_in_range(w[i].calls, ROUNDS, ROUNDS + 1);

    for (int i = 0; i < COUNT; i += 2) {
        rt_loop_detach_fd(w[i].handler);
        close(w[i].fd);
        atomic_store(&w[i].calls, 0);
    }
    for (uint64_t end = dispatches + COUNT; dispatches < end; dispatches = stats_of(loop).dispatches)
        rt_loop_pass(loop, true);
    for (int i = 0; i < COUNT; i += 2) {
        assert_int_equal(w[i].calls, 0);
        assert_true(w[i + 1].calls > ROUNDS);
        rt_loop_detach_fd(w[i + 1].handler);
        close(w[i + 1].fd);
    }
}

/* The loop has nothing else to wake it, neither for what is attached nor for what is detached. */
static void sleeping_loop_takes_changes_of_other_threads(void **state)
{
    struct rt_iothread *io;
    assert_int_equal(rt_iothread_create("ring", 0, &io), 0);
    struct rt_loop *loop = rt_iothread_loop(io);
    for (int i = 0; i < 60; i++) {
        struct watched w;
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        struct rt_loop_stats before = until_asleep(loop);
        watch(&w, loop, ends[0], leave_it);
        if (i % 2) { /* it hears of both while it sleeps, and the kernel has a request of it */
            UNTIL(stats_of(loop).passes > before.passes);
            (void)until_asleep(loop);
        }
        if (i % 4 == 3) {
            assert_int_equal(write(ends[1], "x", 1), 1);
            UNTIL(atomic_load(&w.calls) > 0);
        }
        rt_loop_detach_fd(w.handler);
        int calls = atomic_load(&w.calls);
        close(ends[0]);
        struct pollfd peer = { .fd = ends[1], .events = POLLIN };
        UNTIL(poll(&peer, 1, 0) == 1); /* the kernel let go of the file */
        assert_true(peer.revents & POLLHUP);
        assert_int_equal(atomic_load(&w.calls), calls);
        close(ends[1]);
    }
    rt_iothread_destroy(io);
}

/* As one that was closed while it is watched: it cannot be armed again, and says so by being ready. */
static void what_cannot_be_armed_is_reported_always(void **state)
{
    struct rt_loop *loop = *state;
    struct watched w;
    int fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
    watch(&w, loop, fd, consume);
    close(fd);
    for (int i = 1; i <= 5; i++) {
        assert_false(rt_loop_pass(loop, true));
        assert_int_equal(w.calls, i);
    }
    rt_loop_detach_fd(w.handler);
    assert_false(rt_loop_pass(loop, false));
    assert_int_equal(w.calls, 5);
}

/* The kernel has it in one state or another when it is detached; the ring's memory and the note of it must survive that. */
static void detached_in_every_state(void **state)
{
    struct rt_loop *loop = *state;
    struct watched w, other;
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    watch(&other, loop, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), consume);

    watch(&w, loop, fd, consume); /* not armed yet */
    rt_loop_detach_fd(w.handler);
    rt_loop_pass(loop, false);

    watch(&w, loop, fd, consume); /* armed */
    rt_loop_pass(loop, false);
    rt_loop_detach_fd(w.handler);
    rt_loop_pass(loop, false);

    watch(&w, loop, fd, leave_it); /* reported, and not armed again */
    eventfd_write(fd, 1);
    rt_loop_pass(loop, true);
    assert_int_equal(w.calls, 1);
    rt_loop_detach_fd(w.handler);
    rt_loop_pass(loop, false);

    watch(&w, loop, fd, leave_it); /* armed, and ready before the kernel hears of the removal */
    eventfd_t count;
    eventfd_read(fd, &count);
    rt_loop_pass(loop, false);
    eventfd_write(fd, 1);
    rt_loop_detach_fd(w.handler);
    assert_false(rt_loop_pass(loop, false));
    assert_int_equal(w.calls, 0);

    watch(&w, loop, fd, leave_it); /* attached when the loop goes: destroyed with it */
    rt_loop_pass(loop, false);
    eventfd_write(other.fd, 1);
    assert_true(rt_loop_pass(loop, false));
    assert_int_equal(other.calls, 1);
    rt_loop_detach_fd(w.handler);
    rt_loop_detach_fd(other.handler);
    close(other.fd);
    close(fd);
}

/* The kernel takes no entry for a while: the linker leads the monitor's calls here. */
static bool refuse;
int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
int __real_io_uring_submit_and_get_events(struct io_uring *ring);
int __wrap_io_uring_submit_and_get_events(struct io_uring *ring);

int __wrap_io_uring_submit(struct io_uring *ring)
{
    return refuse ? -EAGAIN : __real_io_uring_submit(ring);
}

int __wrap_io_uring_submit_and_get_events(struct io_uring *ring)
{
    return refuse ? io_uring_get_events(ring) : __real_io_uring_submit_and_get_events(ring);
}

/* What is detached when its request cannot be cancelled is not reported either: between passes its handler is freed. */
static void detached_while_the_kernel_takes_nothing(void **state)
{
    struct rt_loop *loop = *state;
    enum { COUNT = 300 }; /* more than the submission ring holds */
    static struct watched w, others[COUNT];
    watch(&w, loop, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), leave_it);
    rt_loop_pass(loop, false);

    refuse = true;
    for (int i = 0; i < COUNT; i++)
        watch(&others[i], loop, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), consume);
    rt_loop_pass(loop, false);
    eventfd_write(w.fd, 1);
    rt_loop_detach_fd(w.handler);
    for (int i = 0; i < 3; i++)
        assert_false(rt_loop_pass(loop, false));
    assert_int_equal(w.calls, 0);
    assert_int_equal(stats_of(loop).dispatches, 0);

    refuse = false;
    for (int i = 0; i < COUNT; i++)
        eventfd_write(others[i].fd, 1);
    for (int i = 0; i < COUNT; i++) {
        PASS_UNTIL(loop, others[i].calls > 0);
        rt_loop_detach_fd(others[i].handler);
        close(others[i].fd);
    }
    close(w.fd);
}

/* A child process in which @number fails. Returns what choosing io_uring gave there; 1: no seccomp here. */
static int choose_without(int number)
{
    pid_t child = fork();
    if (child == 0)
        _exit(without_syscall(number) ? -rt_loop_configure(&io_uring) : 255);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status) == 255 ? 1 : -WEXITSTATUS(status);
}

static void refused_with_a_reason(void **state)
{
    static const int calls[] = { SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register };
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        int error = choose_without(calls[i]);
        if (error == 1)
            print_message("seccomp is not available here: not tested without io_uring\n");
        else
            assert_int_equal(error, -ENOSYS);
    }
    assert_non_null(strstr(rt_loop_monitor_hint(-ENOSYS), "io_uring_setup"));
    assert_non_null(strstr(rt_loop_monitor_hint(-EPERM), "kernel.io_uring_disabled"));
    assert_non_null(strstr(rt_loop_monitor_hint(-EOPNOTSUPP), "Linux 6.1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(more_than_the_rings_hold, set_up, tear_down),
        cmocka_unit_test(sleeping_loop_takes_changes_of_other_threads),
        cmocka_unit_test_setup_teardown(what_cannot_be_armed_is_reported_always, set_up, tear_down),
        cmocka_unit_test_setup_teardown(detached_in_every_state, set_up, tear_down),
        cmocka_unit_test_setup_teardown(detached_while_the_kernel_takes_nothing, set_up, tear_down),
        cmocka_unit_test(refused_with_a_reason),
    };
    const struct CMUnitTest fallback[] = { cmocka_unit_test(refused_with_a_reason) };
    int error = rt_loop_configure(&io_uring);
    if (error == 0)
        return cmocka_run_group_tests(tests, NULL, NULL);
    printf("only refusals are tested: %s\n", rt_loop_monitor_hint(error));
    return cmocka_run_group_tests(fallback, NULL, NULL);
}
