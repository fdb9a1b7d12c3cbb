/*
 * Goal: waits end neither early nor much too late, with and without epoll_pwait2 (Linux 5.11), and one wait reports
 * no more than its bound; what is closed too early costs no other descriptor.
 * Method: timers below and above a millisecond; the same in a child process that gets ENOSYS for epoll_pwait2.
 * If it fails: loops spin up to their deadlines, or timers on older kernels run early. Fairness among many descriptors is
 * looked at in test_handler.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rt/loop.h"
#include "without_syscall.h"

static void note_time(void *opaque)
{
    *(int64_t *)opaque = rt_clock_ns();
}

/* How many passes it took; 0: it ran early. */
static int sleep_in_loop(int64_t sleep_ns)
{
    struct rt_loop *loop;
    int64_t ran_ns = 0;
    int passes = 0;
    if (rt_loop_create("sleep", &loop) < 0)
        return 0;
    rt_loop_bind(loop);
    struct rt_timer *timer = rt_timer_create(loop, note_time, &ran_ns);
    int64_t deadline_ns = rt_clock_ns() + sleep_ns;
    rt_timer_arm(timer, deadline_ns);
    while (ran_ns == 0) {
        rt_loop_pass(loop, true);
        passes++;
    }
    rt_timer_destroy(timer);
    rt_loop_destroy(loop);
    return ran_ns >= deadline_ns ? passes : 0;
}

static bool sleeps_well(void)
{
    /* One pass each: a wait that ended early would need another. */
    return sleep_in_loop(300000) == 1 && sleep_in_loop(1000000) == 1 && sleep_in_loop(2700000) == 1;
}

static void waits_are_precise(void **state)
{
    assert_true(sleeps_well());
}

static void waits_without_epoll_pwait2(void **state)
{
    enum { GOOD = 0, BAD = 1, NO_FILTER = 2 };
    pid_t child = fork();
    if (child == 0)
        _exit(!without_syscall(SYS_epoll_pwait2) ? NO_FILTER : sleeps_well() ? GOOD : BAD);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_FILTER)
        printf("seccomp is not available here: not tested without epoll_pwait2\n");
    else
        assert_int_equal(WEXITSTATUS(status), GOOD);
}

static bool leave_it(void *opaque)
{
    return false;
}

static void one_wait_is_bounded(void **state)
{
    static const struct rt_fd_callbacks callbacks = { .ready = leave_it };
    enum { COUNT = 100 };
    struct rt_handler *handlers[COUNT];
    struct rt_loop *loop;
    struct rt_loop_stats stats;
    int fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
    int fds[COUNT];
    assert_int_equal(rt_loop_create("many", &loop), 0);
    rt_loop_bind(loop);
    for (int i = 0; i < COUNT; i++) {
        fds[i] = dup(fd);
        assert_int_equal(rt_loop_attach_fd(loop, fds[i], RT_FD_OTHER, 0, 0, &callbacks, NULL, &handlers[i]),
                         0);
    }
    rt_loop_pass(loop, true);
    rt_loop_stats(loop, &stats);
    assert_in_range(stats.dispatches, 1, COUNT - 1);
    for (int i = 0; i < COUNT; i++) {
        rt_loop_detach_fd(handlers[i]);
        close(fds[i]);
    }
    close(fd);
    rt_loop_destroy(loop);
}

struct nesting {
    struct rt_loop *loop;
    int calls;
};

static bool nest(void *opaque)
{
    struct nesting *nesting = opaque;
    nesting->calls++;
    rt_loop_pass(nesting->loop, false);
    return false;
}

static bool consume(void *opaque)
{
    struct nesting *nesting = opaque;
    nesting->calls++;
    return true;
}

/* Closed while it is watched, and its number taken by another one of the loop's: while its callback nests it would be paused,
 * by number, which is not its own any more. */
static void nesting_after_an_early_close_leaves_the_new_one_alone(void **state)
{
    static const struct rt_fd_callbacks old_callbacks = { .ready = nest }, fresh_callbacks = { .ready = consume };
    struct rt_loop *loop;
    assert_int_equal(rt_loop_create("reuse", &loop), 0);
    rt_loop_bind(loop);
    struct nesting old = { .loop = loop }, fresh = { .loop = loop };
    struct rt_handler *old_handler, *fresh_handler;
    int fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC), holder = dup(fd), file = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    assert_int_equal(rt_loop_attach_fd(loop, fd, RT_FD_OTHER, 0, 0, &old_callbacks, &old, &old_handler), 0);
    assert_int_equal(dup3(file, fd, O_CLOEXEC), fd); /* closes what fd was */
    assert_int_equal(rt_loop_attach_fd(loop, fd, RT_FD_OTHER, 0, 0, &fresh_callbacks, &fresh, &fresh_handler), 0);
    rt_loop_pass(loop, false);
    assert_int_equal(old.calls, 1);
    assert_int_equal(fresh.calls, 0);

    eventfd_write(fd, 1);
    rt_loop_pass(loop, false);
    assert_int_equal(fresh.calls, 1);
    rt_loop_detach_fd(old_handler);
    rt_loop_detach_fd(fresh_handler);
    close(fd);
    close(file);
    close(holder);
    rt_loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_are_precise),
        cmocka_unit_test(waits_without_epoll_pwait2),
        cmocka_unit_test(one_wait_is_bounded),
        cmocka_unit_test(nesting_after_an_early_close_leaves_the_new_one_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
