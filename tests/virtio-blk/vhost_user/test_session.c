/*
 * Goal:   a session serves one front end after another, whatever they do, and ends when it is told to.
 * Method: a session with a stub device in a thread of its own; the test connects, sends, hangs up and destroys at
 *         each point at which the session may be. Descriptors are counted around each test.
 * Broken: a front end that leaves takes the device with it, a second one is not served, or the process cannot stop.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>
#include <glib.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "front_end_wire.h"
#include "rt/loop.h"
#include "stub_device.h"

static char directory[] = "/tmp/test_session.XXXXXX";
static char path[64];
static unsigned fds_before;

static int setup(void **state)
{
    fds_before = wire_count_fds();
    return 0;
}

static int teardown(void **state)
{
    unsigned fds_after = wire_count_fds();
    if (fds_after != fds_before)
        print_error("%u descriptors before, %u after\n", fds_before, fds_after);
    return fds_after != fds_before;
}

static void start(struct stub *stub)
{
    assert_int_equal(stub_start(stub, &(struct stub_options){ .path = path }), 0);
}

static int64_t ask_features(int fd)
{
    return wire_ask(fd, VHOST_USER_GET_FEATURES, NULL, 0, NULL, 0);
}

static void assert_answers(int fd)
{
    assert_int_equal(ask_features(fd), STUB_FEATURES | UINT64_C(1) << VHOST_USER_F_PROTOCOL_FEATURES |
                                           UINT64_C(1) << VHOST_F_LOG_ALL);
}

static void front_ends_come_and_go(void **state)
{
    struct stub stub;
    start(&stub);
    for (unsigned i = 1; i <= 5; i++) {
        int fd = stub_connect(path);
        assert_answers(fd);
        close(fd);
        stub_wait_count(&stub, "disconnected 0", i);
    }
    assert_int_equal(stub_count(&stub, "connected"), 5);
    stub_stop(&stub);
    assert_int_equal(access(path, F_OK), -1);
}

static void what_was_negotiated_ends_with_the_connection(void **state)
{
    struct stub stub;
    start(&stub);
    int fd = stub_connect(path);
    wire_negotiate(fd, STUB_FEATURES);
    stub_wait(&stub, "features 130000200 1");
    close(fd);
    stub_wait(&stub, "disconnected 0");
    fd = stub_connect(path);
    uint64_t features = 0;
    /* Without REPLY_ACK there is no answer: the next one is to the next question. */
    wire_send(fd, VHOST_USER_SET_FEATURES, WIRE_ACK, &features, sizeof features, NULL, 0);
    assert_answers(fd);
    stub_wait(&stub, "features 0 0");
    close(fd);
    stub_stop(&stub);
}

static void a_second_front_end_waits_for_the_first(void **state)
{
    struct stub stub;
    start(&stub);
    int first = stub_connect(path), second = stub_connect(path);
    assert_answers(first);
    wire_send(second, VHOST_USER_GET_FEATURES, VHOST_USER_VERSION, NULL, 0, NULL, 0);
    for (unsigned i = 0; i < 20; i++)
        assert_answers(first);
    struct pollfd answer = { .fd = second, .events = POLLIN };
    assert_int_equal(poll(&answer, 1, 0), 0);
    assert_int_equal(stub_count(&stub, "connected"), 1);
    close(first);
    uint32_t request;
    uint8_t payload[sizeof(struct vhost_user_config)];
    assert_int_equal(wire_receive(second, &request, payload), 8);
    assert_int_equal(stub_count(&stub, "disconnected 0"), 1);
    close(second);
    stub_stop(&stub);
}

static void send_memory_table(int fd, uint32_t flags)
{
    FILE *file = tmpfile();
    int memory = fileno(file);
    assert_int_equal(ftruncate(memory, 0x10000), 0);
    struct vhost_user_memory_table table = { .count = 1, .regions = { { 0, 0x10000, 0x10000, 0 } } };
    wire_send(fd, VHOST_USER_SET_MEM_TABLE, flags, &table, 8 + 32, &memory, 1);
    fclose(file);
}

static void a_front_end_may_leave_during_an_operation(void **state)
{
    struct stub stub;
    start(&stub);
    int fd = stub_connect(path);
    stub_block(&stub);
    send_memory_table(fd, VHOST_USER_VERSION);
    close(fd);
    stub_release(&stub);
    stub_wait(&stub, "disconnected 0");
    assert_int_equal(stub_count(&stub, "memory"), 1);
    fd = stub_connect(path);
    assert_answers(fd);
    close(fd);
    stub_stop(&stub);
}

/* What comes while the session is busy must not keep the loop awake. */
static void a_busy_session_does_not_spin(void **state)
{
    struct stub stub;
    struct rt_loop_stats before, after;
    start(&stub);
    int fd = stub_connect(path);
    stub_block(&stub);
    send_memory_table(fd, VHOST_USER_VERSION);
    wire_send(fd, VHOST_USER_GET_FEATURES, VHOST_USER_VERSION, NULL, 0, NULL, 0);
    /* Each post is a pass of the loop; between them a spinning one would add millions. */
    rt_loop_stats(stub.loop, &before);
    struct timespec pause = { 0, 50000000 };
    nanosleep(&pause, NULL); /* the time in which it could spin */
    rt_loop_stats(stub.loop, &after);
    assert_in_range(after.passes - before.passes, 0, 20);
    stub_release(&stub);
    uint32_t request;
    uint8_t payload[sizeof(struct vhost_user_config)];
    assert_int_equal(wire_receive(fd, &request, payload), 8);
    close(fd);
    stub_stop(&stub);
}

static void destroy_while_nobody_is_there(void **state)
{
    struct stub stub;
    start(&stub);
    stub_stop(&stub);
    assert_int_equal(stub_count(&stub, "connected"), 0);
}

static void destroy_while_it_reads(void **state)
{
    struct stub stub;
    start(&stub);
    int fd = stub_connect(path);
    assert_answers(fd);
    stub_stop(&stub);
    assert_int_equal(stub_count(&stub, "disconnected 0"), 1);
    assert_true(wire_ended(fd));
    close(fd);
}

static void destroy_in_the_middle_of_a_message(void **state)
{
    struct stub stub;
    start(&stub);
    int fd = stub_connect(path);
    assert_answers(fd);
    uint32_t half = VHOST_USER_GET_FEATURES;
    wire_send_bytes(fd, &half, sizeof half, NULL, 0);
    stub_stop(&stub);
    assert_int_equal(stub_count(&stub, "disconnected 0"), 1);
    close(fd);
}

static void *release_later(void *opaque)
{
    struct timespec pause = { 0, 20000000 };
    nanosleep(&pause, NULL); /* so that the destroyer is probably first; right either way */
    stub_release(opaque);
    return NULL;
}

static void destroy_during_an_operation(void **state)
{
    struct stub stub;
    pthread_t thread;
    start(&stub);
    int fd = stub_connect(path);
    assert_answers(fd);
    stub_block(&stub);
    send_memory_table(fd, VHOST_USER_VERSION);
    send_memory_table(fd, VHOST_USER_VERSION); /* is not handled any more, and its descriptor not leaked */
    assert_int_equal(pthread_create(&thread, NULL, release_later, &stub), 0);
    stub_stop(&stub);
    pthread_join(thread, NULL);
    assert_int_equal(stub_count(&stub, "disconnected 0"), 1);
    close(fd);
}

/* A front end that asks without end and reads nothing: the session waits, and can be ended. */
static void send_until_full(int fd)
{
    struct timeval patience = { 0, 100000 };
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience), 0);
    struct vhost_user_header header = { VHOST_USER_GET_FEATURES, VHOST_USER_VERSION, 0 };
    while (send(fd, &header, sizeof header, MSG_NOSIGNAL) == sizeof header)
        ;
}

static void answers_that_nobody_reads_wait(void **state)
{
    struct stub stub;
    start(&stub);
    int fd = stub_connect(path);
    send_until_full(fd);
    /* Then it does read: nothing was lost. */
    for (unsigned i = 0; i < 100; i++) {
        uint32_t request;
        uint8_t payload[sizeof(struct vhost_user_config)];
        assert_int_equal(wire_receive(fd, &request, payload), 8);
    }
    close(fd);
    stub_wait(&stub, "disconnected");
    fd = stub_connect(path);
    send_until_full(fd);
    stub_stop(&stub);
    close(fd);
}

static void a_connected_socket_is_served_and_then_it_ends(void **state)
{
    struct stub stub;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(stub_start(&stub, &(struct stub_options){ .fd = ends[1] }), 0);
    assert_answers(ends[0]);
    assert_int_equal(stub_count(&stub, "ended"), 0);
    close(ends[0]);
    stub_wait(&stub, "ended");
    assert_int_equal(stub_count(&stub, "disconnected 0"), 1);
    stub_stop(&stub);
}

static void a_connected_socket_may_be_destroyed_at_once(void **state)
{
    struct stub stub;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(stub_start(&stub, &(struct stub_options){ .fd = ends[1] }), 0);
    stub_stop(&stub);
    assert_true(wire_ended(ends[0]));
    close(ends[0]);
}

static void a_listening_socket_is_served(void **state)
{
    struct stub stub;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy(address.sun_path, path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(stub_start(&stub, &(struct stub_options){ .fd = listener }), 0);
    for (unsigned i = 0; i < 2; i++) {
        int fd = stub_connect(path);
        assert_answers(fd);
        close(fd);
    }
    stub_stop(&stub);
    assert_int_equal(access(path, F_OK), 0); /* whoever made it removes it */
    unlink(path);
}

static void sockets_that_cannot_be_served(void **state)
{
    struct stub stub;
    int pipes[2], sockets[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sockets), 0);
    int loose = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct {
        int fd, error;
    } cases[] = { { pipes[0], -ENOTSOCK }, { 9999, -EBADF }, { sockets[0], -EINVAL }, { loose, -EINVAL } };
    for (unsigned i = 0; i < 4; i++) {
        char number[16];
        assert_int_equal(stub_start(&stub, &(struct stub_options){ .fd = cases[i].fd }), cases[i].error);
        snprintf(number, sizeof number, " %d:", cases[i].fd);
        assert_non_null(strstr(stub.message, number));
        print_message("%s\n", stub.message);
        g_free(stub.message);
    }
    close(pipes[0]);
    close(pipes[1]);
    close(sockets[0]);
    close(sockets[1]);
    close(loose);
}

/* The process has no descriptor left when a front end comes: it is served when there is one again. */
static void accept_is_tried_again(void **state)
{
    struct stub stub;
    struct rlimit before, none;
    struct rt_loop_stats first, second;
    start(&stub);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy(address.sun_path, path);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    rt_loop_stats(stub.loop, &first);
    struct timespec pause = { 0, 50000000 };
    nanosleep(&pause, NULL); /* the time in which it could spin */
    rt_loop_stats(stub.loop, &second);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_in_range(second.passes - first.passes, 0, 20);
    assert_answers(fd);
    close(fd);
    stub_stop(&stub);
}

static void a_broken_stream_ends_the_connection(void **state)
{
    struct stub stub;
    const struct vhost_user_header headers[] = {
        { VHOST_USER_GET_FEATURES, 0, 0 },
        { VHOST_USER_GET_FEATURES, VHOST_USER_VERSION | VHOST_USER_REPLY, 0 },
        { VHOST_USER_GET_FEATURES, VHOST_USER_VERSION, UINT32_MAX },
    };
    const char *notes[] = { "disconnected -71", "disconnected -71", "disconnected -90" };
    start(&stub);
    for (unsigned i = 0; i < 3; i++) {
        int fd = stub_connect(path);
        assert_answers(fd);
        unsigned before = stub_count(&stub, notes[i]);
        wire_send_bytes(fd, &headers[i], sizeof headers[i], NULL, 0);
        assert_true(wire_ended(fd));
        close(fd);
        stub_wait_count(&stub, notes[i], before + 1);
    }
    int fd = stub_connect(path);
    wire_send_bytes(fd, "ab", 2, NULL, 0);
    close(fd);
    stub_wait(&stub, "disconnected -104");
    fd = stub_connect(path);
    assert_answers(fd);
    close(fd);
    stub_stop(&stub);
}

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    snprintf(path, sizeof path, "%s/socket", directory);
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(front_ends_come_and_go),
        TEST(what_was_negotiated_ends_with_the_connection),
        TEST(a_second_front_end_waits_for_the_first),
        TEST(a_front_end_may_leave_during_an_operation),
        TEST(a_busy_session_does_not_spin),
        TEST(destroy_while_nobody_is_there),
        TEST(destroy_while_it_reads),
        TEST(destroy_in_the_middle_of_a_message),
        TEST(destroy_during_an_operation),
        TEST(answers_that_nobody_reads_wait),
        TEST(a_connected_socket_is_served_and_then_it_ends),
        TEST(a_connected_socket_may_be_destroyed_at_once),
        TEST(a_listening_socket_is_served),
        TEST(sockets_that_cannot_be_served),
        TEST(accept_is_tried_again),
        TEST(a_broken_stream_ends_the_connection),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(directory);
    return failed;
}
