/*
 * Goal: vblkd takes the sockets that a service manager passed, by name, and tells it that it is ready, that it stops, and that its
 * loops are alive; and does not, when one of them is not.
 *
 * Method: this process plays the manager: sockets at the descriptors, variables in the environment, a datagram socket that
 * listens. If it fails: socket activation serves the wrong disk, or a device that hangs is never restarted, or a healthy
 * one is.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "operation/service.h"
#include "rt/iothread.h"
#include "rt/loop.h"
#include "rt/process.h"

#define FIRST 3 /* SD_LISTEN_FDS_START */
#define DEADLINE_MS 60000

static void sockets_are_taken_by_name(void **state)
{
    char pid[16];

    (void)state;
    for (int i = 0; i < 4; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);

        assert_true(fd >= 0);
        if (fd != FIRST + i) {
            assert_int_equal(dup2(fd, FIRST + i), FIRST + i);
            close(fd);
        }
    }
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "4", 1);
    setenv("LISTEN_FDNAMES", "disk0:control:disk1:disk2", 1);

    assert_int_equal(vblk_service_sockets_left(), 4);
    assert_null(getenv("LISTEN_FDS")); /* whoever is started next must not take them */
    assert_int_equal(vblk_service_take_socket("disk1"), FIRST + 2);
    assert_int_equal(vblk_service_take_socket("disk1"), -1);
    assert_int_equal(vblk_service_take_socket("no such"), -1);
    assert_int_equal(vblk_service_take_socket(NULL), -1); /* disk0 or disk2? */
    assert_int_equal(vblk_service_take_socket("disk0"), FIRST);
    assert_int_equal(vblk_service_take_socket(NULL), FIRST + 3); /* "control" is not a disk's */
    assert_int_equal(vblk_service_sockets_left(), 1);
    assert_int_equal(vblk_service_take_socket("control"), FIRST + 1);
    assert_int_equal(vblk_service_sockets_left(), 0);
    for (int i = 0; i < 4; i++)
        close(FIRST + i);
}

/* ---- the manager's ear ---- */

struct manager {
    struct sockaddr_un address;
    int fd;
};

static void listen_for_notices(struct manager *manager)
{
    manager->address.sun_family = AF_UNIX;
    /* An abstract name needs no directory. */
    snprintf(manager->address.sun_path + 1, sizeof(manager->address.sun_path) - 1, "vblk-test-service-%d", (int)getpid());
    manager->fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_true(manager->fd >= 0);
    assert_int_equal(bind(manager->fd, (struct sockaddr *)&manager->address,
                          offsetof(struct sockaddr_un, sun_path) + 1 + strlen(manager->address.sun_path + 1)), 0);
    manager->address.sun_path[0] = '@';
    setenv("NOTIFY_SOCKET", manager->address.sun_path, 1);
}

/* The next notice within @timeout_ms; "" when none comes. */
static const char *next_notice(struct manager *manager, int timeout_ms)
{
    static char text[256];
    struct pollfd event = { .fd = manager->fd, .events = POLLIN };
    ssize_t length = poll(&event, 1, timeout_ms) > 0 ? recv(manager->fd, text, sizeof(text) - 1, 0) : 0;

    assert_true(length >= 0);
    text[length] = '\0';
    return text;
}

static void ready_and_stopping_are_said(void **state)
{
    struct manager manager = { .fd = -1 };

    (void)state;
    listen_for_notices(&manager);
    vblk_service_ready("serving 1 disk");
    assert_string_equal(next_notice(&manager, DEADLINE_MS), "READY=1\nSTATUS=serving 1 disk");
    vblk_service_stopping();
    assert_string_equal(next_notice(&manager, DEADLINE_MS), "STOPPING=1\nSTATUS=draining");
    unsetenv("NOTIFY_SOCKET");
    vblk_service_ready("nobody listens"); /* and nothing happens */
    close(manager.fd);
}

static void hold(void *opaque)
{
    _Atomic bool *release = opaque;

    while (!atomic_load(release))
        usleep(1000);
}

static void discard_notices(struct manager *manager)
{
    while (*next_notice(manager, 0) != '\0')
        ;
}

static void only_living_loops_give_signs_of_life(void **state)
{
    struct rt_process_options process = { .version = "test", .faults = "", .request_lock = "" };
    struct manager manager = { .fd = -1 };
    struct rt_iothread *threads[2];
    struct rt_loop *loops[2];
    _Atomic bool release = false;

    (void)state;
    listen_for_notices(&manager);
    setenv("WATCHDOG_USEC", "30000000", 1);
    unsetenv("WATCHDOG_PID");
    assert_int_equal(rt_process_start(&process), 0);
    for (int i = 0; i < 2; i++) {
        /* One that sleeps and one that never does: both are alive. */
        assert_int_equal(rt_iothread_create("watched", i ? RT_FOREVER : 0, &threads[i]), 0);
        loops[i] = rt_iothread_loop(threads[i]);
    }
    vblk_service_watch(loops, 2);
    for (int i = 0; i < 2; i++)
        assert_string_equal(next_notice(&manager, DEADLINE_MS), "WATCHDOG=1");

    /* A handler that does not end: one more sign may be on its way (the loop moved since the last look), then silence. */
    assert_int_equal(rt_loop_post(loops[0], hold, &release), 0);
    next_notice(&manager, 2500);
    next_notice(&manager, 2500);
    discard_notices(&manager);
    assert_string_equal(next_notice(&manager, 2500), "");

    atomic_store(&release, true);
    assert_string_equal(next_notice(&manager, DEADLINE_MS), "WATCHDOG=1");
    vblk_service_unwatch();
    discard_notices(&manager);
    assert_string_equal(next_notice(&manager, 1500), "");
    for (int i = 0; i < 2; i++)
        rt_iothread_destroy(threads[i]);
    rt_process_stop();
    unsetenv("WATCHDOG_USEC");
    unsetenv("NOTIFY_SOCKET");
    close(manager.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sockets_are_taken_by_name),
        cmocka_unit_test(ready_and_stopping_are_said),
        cmocka_unit_test(only_living_loops_give_signs_of_life),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
