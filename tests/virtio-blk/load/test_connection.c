/*
 * Goal: messages and descriptors travel whole in both directions; connecting fails with a remedy.
 * Method: the test holds the other end of the socket.
 * If it fails: protocol tests built on the front end send something else than they say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "front_end.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct front_end *connected(int *other_out)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    struct fe_options options = FE_OPTIONS_DEFAULT;
    options.fd = fds[0];
    options.timeout_ms = 100;
    struct front_end *fe = fe_create(&options);
    assert_int_equal(fe_connect(fe), 0);
    *other_out = fds[1];
    return fe;
}

static void test_message_and_descriptors_arrive(void **state)
{
    int ours, pipe_fds[2];
    struct front_end *near_end = connected(&ours);
    struct fe_options options = FE_OPTIONS_DEFAULT;
    options.fd = ours;
    struct front_end *far_end = fe_create(&options);
    struct fe_message message;
    assert_int_equal(fe_connect(far_end), 0);
    assert_int_equal(pipe(pipe_fds), 0);

    assert_int_equal(fe_send(near_end, 77, WIRE_NEED_REPLY, "payload", 7, pipe_fds, 2), 0);
    assert_int_equal(fe_recv(far_end, &message), 0);
    assert_int_equal(message.header.request, 77);
    assert_int_equal(message.header.flags, WIRE_NEED_REPLY | WIRE_VERSION);
    assert_int_equal(message.header.size, 7);
    assert_memory_equal(message.payload, "payload", 7);
    assert_int_equal(message.fd_count, 2);
    assert_int_equal(write(message.fds[1], "x", 1), 1);
    char byte;
    assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
    for (unsigned i = 0; i < 2; i++) {
        close(message.fds[i]);
        close(pipe_fds[i]);
    }
    /* Bytes without a whole header: the receiver waits in vain and says so. */
    assert_int_equal(fe_send_bytes(far_end, "abc", 3, NULL, 0), 0);
    assert_int_equal(fe_recv(near_end, &message), -ETIMEDOUT);
    assert_non_null(strstr(fe_error(near_end), "does not answer"));
    fe_destroy(far_end);
    assert_true(fe_gone(near_end) || fe_recv(near_end, &message) == -ECONNRESET);
    fe_destroy(near_end);
}

static void test_gone(void **state)
{
    int other;
    struct front_end *fe = connected(&other);
    assert_false(fe_gone(fe));
    close(other);
    assert_true(fe_gone(fe));
    assert_int_equal(fe_send(fe, 1, 0, NULL, 0, NULL, 0), -ECONNRESET);
    fe_destroy(fe);
}

static void test_connect_failures(void **state)
{
    char long_path[200];
    memset(long_path, 'x', sizeof(long_path) - 1);
    long_path[sizeof(long_path) - 1] = '\0';
    const struct {
        const char *path;
        const char *words;
    } cases[] = {
        { "/nonexistent/socket", "is the server running" },
        { "/dev/null", "is the server running" },
        { long_path, "use a shorter path" },
    };
    for (unsigned i = 0; i < 3; i++) {
        struct fe_options options = FE_OPTIONS_DEFAULT;
        options.socket_path = cases[i].path;
        struct front_end *fe = fe_create(&options);
        assert_true(fe_connect(fe) < 0);
        if (!strstr(fe_error(fe), cases[i].words))
            fail_msg("'%s' does not say '%s'", fe_error(fe), cases[i].words);
        fe_destroy(fe);
    }
}

static void test_names(void **state)
{
    assert_string_equal(fe_request_name(WIRE_GET_STATUS), "GET_STATUS");
    assert_string_equal(fe_request_name(0), "message 0");
    assert_string_equal(fe_request_name(4000000000u), "message 4000000000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message_and_descriptors_arrive),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_connect_failures),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
