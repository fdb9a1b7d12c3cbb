/*
 * Goal: what vblkd gave up is gone, and what a device needs still works.
 *
 * Method: children confine themselves and try what they may no longer do (start a program, trace, mount, become another user, fork)
 * and what they must (threads, io_uring, memory, sockets, files). If it fails: whoever takes over a device through its guest
 * gets the host, or the device fails where no test looks.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "operation/confine.h"

/* Run @attempt in a child and return its wait status. It says what failed by its exit status, 0 for nothing. */
static int in_child(int (*attempt)(void))
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0)
        _exit(attempt());
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static bool confined(const char *user)
{
    char *message = NULL;

    return vblk_confine_privileges(user, &message) == 0 && vblk_confine_system_calls(&message) == 0;
}

static int try_what_is_forbidden(void)
{
    if (!confined(NULL))
        return 1;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 || errno != EPERM)
        return 2;
    if (mount("none", "/proc", "tmpfs", 0, NULL) == 0 || errno != EPERM)
        return 3;
    /* Not the C library's fork(), around which a sanitizer puts its own. */
    if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) >= 0 || errno != EPERM)
        return 4;
    if (setuid(getuid() + 1) == 0)
        return 5;
    if (ioctl(0, TIOCSTI, "x") == 0 || errno != EPERM)
        return 6;
    if (ioctl(0, (unsigned long)TIOCSTI | 1UL << 32, "x") == 0 || errno != EPERM)
        return 7; /* the kernel looks at the lower half */
    if (socket(AF_PACKET, SOCK_RAW, 0) >= 0 || errno != EPERM)
        return 8;
    return 0;
}

static int start_a_program(void)
{
    char *arguments[] = { (char *)"/bin/true", NULL }, *environment[] = { NULL };

    if (!confined(NULL))
        return 1;
    execve(arguments[0], arguments, environment);
    return 2;
}

static void *thread(void *opaque)
{
    return opaque;
}

static int do_what_is_needed(void)
{
    struct io_uring ring;
    pthread_t id;
    void *result, *page;
    int error;

    if (!confined(NULL))
        return 1;
    if (pthread_create(&id, NULL, thread, &ring) != 0 || pthread_join(id, &result) != 0 || result != &ring)
        return 2;
    error = io_uring_queue_init(4, &ring, 0);
    if (error == 0) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

        if (!sqe)
            return 3;
        io_uring_prep_nop(sqe);
        if (io_uring_submit_and_wait(&ring, 1) != 1)
            return 3;
    } else if (error == -EPERM && access("/proc/sys/kernel/io_uring_disabled", R_OK) != 0) {
        return 4;
    }
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || mprotect(page, 4096, PROT_NONE) != 0 || munmap(page, 4096) != 0)
        return 5;
    if (socket(AF_UNIX, SOCK_STREAM, 0) < 0 || socket(AF_INET, SOCK_STREAM, 0) < 0)
        return 6;
    if (socket(AF_VSOCK, SOCK_STREAM, 0) < 0 && errno == EPERM)
        return 8; /* NBD servers in virtual machines; a kernel may not have it */
    if (open("/proc/self/maps", O_RDONLY) < 0 || eventfd(0, EFD_NONBLOCK) < 0)
        return 7;
    return 0;
}

static int look_at_capabilities(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];
    const uint64_t at_most = 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_DAC_READ_SEARCH | 1ULL << CAP_CHOWN |
                             1ULL << CAP_FOWNER | 1ULL << CAP_IPC_LOCK;
    uint64_t allowed = getuid() == 0 ? at_most : 0;

    if (!confined(NULL) || syscall(SYS_capget, &header, data) != 0)
        return 1;
    return ((data[1].permitted * 1ULL << 32 | data[0].permitted) & ~allowed) == 0 ? 0 : 2;
}

static int become_nobody(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];

    if (!confined("nobody") || syscall(SYS_capget, &header, data) != 0)
        return 1;
    if (getuid() == 0 || geteuid() == 0 || getgid() == 0 || getgroups(0, NULL) > 1)
        return 2;
    if (data[0].permitted | data[1].permitted | data[0].inheritable)
        return 3;
    return setuid(0) == 0 ? 4 : 0;
}

static void nothing_dangerous_is_left(void **state)
{
    (void)state;
    assert_int_equal(in_child(try_what_is_forbidden), 0);
    assert_int_equal(in_child(look_at_capabilities), 0);
}

static void starting_a_program_ends_the_process(void **state)
{
    int status = in_child(start_a_program);

    (void)state;
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

static void what_a_device_needs_works(void **state)
{
    (void)state;
    assert_int_equal(in_child(do_what_is_needed), 0);
}

static void root_becomes_a_user_without_rights(void **state)
{
    (void)state;
    if (getuid() != 0)
        skip();
    assert_int_equal(in_child(become_nobody), 0);
}

static void a_user_that_cannot_be_is_refused(void **state)
{
    char *message = NULL;

    (void)state;
    assert_int_equal(vblk_confine_privileges("no-such-user", &message), -ENOENT);
    assert_non_null(strstr(message, "no-such-user: no such user"));
    free(message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_dangerous_is_left),
        cmocka_unit_test(starting_a_program_ends_the_process),
        cmocka_unit_test(what_a_device_needs_works),
        cmocka_unit_test(root_becomes_a_user_without_rights),
        cmocka_unit_test(a_user_that_cannot_be_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
