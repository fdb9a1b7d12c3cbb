/*
 * Goal:   a socket path is taken when it is free or left over, never from a process that serves it, and only by those
 *         who may.
 * Method: sockets in a temporary directory, left over by closing them, served, or replaced by other things.
 * Broken: a restart after a crash fails, two devices fight for one path, or anyone on the machine can attach.
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
#include <fcntl.h>
#include <glib.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "vhost_user/listen.h"

static char directory[] = "/tmp/test_listen.XXXXXX";
static char path[64];

static int listen_on(struct vhost_user_listener *listener, int mode, const char *group)
{
    const struct vhost_user_listen_options options = { .path = path, .mode = mode, .group = group };
    char *message = NULL;
    int error = vhost_user_listen(&options, listener, &message);
    assert_int_equal(error != 0, message != NULL);
    if (message) {
        print_message("%s\n", message);
        assert_non_null(strstr(message, path)); /* which one */
        g_free(message);
    }
    return error;
}

static int connect_to_it(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    close(fd);
    return 0;
}

static void a_free_path_is_taken_and_given_back(void **state)
{
    struct vhost_user_listener listener;
    assert_int_equal(listen_on(&listener, -1, NULL), 0);
    assert_int_equal(connect_to_it(), 0);
    assert_true(fcntl(listener.fd, F_GETFL) & O_NONBLOCK);
    vhost_user_listener_close(&listener);
    assert_int_equal(access(path, F_OK), -1);
}

static void a_left_over_socket_is_replaced(void **state)
{
    struct vhost_user_listener listener;
    assert_int_equal(listen_on(&listener, -1, NULL), 0);
    close(listener.fd); /* as a killed process leaves it */
    g_free(listener.path);
    assert_int_equal(connect_to_it(), -ECONNREFUSED);
    assert_int_equal(listen_on(&listener, -1, NULL), 0);
    assert_int_equal(connect_to_it(), 0);
    vhost_user_listener_close(&listener);
}

static void a_served_socket_is_not(void **state)
{
    struct vhost_user_listener listener, other;
    assert_int_equal(listen_on(&listener, -1, NULL), 0);
    assert_int_equal(listen_on(&other, -1, NULL), -EADDRINUSE);
    assert_int_equal(connect_to_it(), 0);
    vhost_user_listener_close(&listener);
}

static void what_is_no_socket_is_left_alone(void **state)
{
    struct vhost_user_listener listener;
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "precious", 8), 8);
    close(fd);
    assert_int_equal(listen_on(&listener, -1, NULL), -EEXIST);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 8);
    unlink(path);
    assert_int_equal(symlink("/nowhere/else", path), 0); /* is not followed */
    assert_int_equal(listen_on(&listener, -1, NULL), -EEXIST);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(listen_on(&listener, -1, NULL), -EEXIST);
    rmdir(path);
}

static void another_ones_socket_is_not_removed(void **state)
{
    struct vhost_user_listener listener, other;
    assert_int_equal(listen_on(&listener, -1, NULL), 0);
    unlink(path); /* an operator tidies up */
    assert_int_equal(listen_on(&other, -1, NULL), 0);
    vhost_user_listener_close(&listener);
    assert_int_equal(connect_to_it(), 0);
    vhost_user_listener_close(&other);
}

static void mode_and_group_are_set(void **state)
{
    struct vhost_user_listener listener;
    struct stat status;
    char group[16];
    mode_t before = umask(0077);
    snprintf(group, sizeof group, "%u", (unsigned)getgid());
    assert_int_equal(listen_on(&listener, 0660, group), 0);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0660);
    assert_int_equal(status.st_gid, getgid());
    vhost_user_listener_close(&listener);
    assert_int_equal(listen_on(&listener, -1, NULL), 0);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    vhost_user_listener_close(&listener);
    umask(before);
    assert_int_equal(listen_on(&listener, -1, "no-such-group"), -EINVAL);
    assert_int_equal(access(path, F_OK), -1); /* nothing is left */
    assert_int_equal(listen_on(&listener, -1, ""), -EINVAL);
    assert_int_equal(listen_on(&listener, -1, "-1"), -EINVAL);
    assert_int_equal(listen_on(&listener, -1, "4294967295"), -EINVAL);
}

static void paths_that_cannot_be(void **state)
{
    struct vhost_user_listener listener;
    char *message = NULL;
    char longer[200];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    struct vhost_user_listen_options options = { .path = longer, .mode = -1 };
    assert_int_equal(vhost_user_listen(&options, &listener, &message), -ENAMETOOLONG);
    g_clear_pointer(&message, g_free);
    options.path = "";
    assert_int_equal(vhost_user_listen(&options, &listener, &message), -EINVAL);
    g_clear_pointer(&message, g_free);
    options.path = "/nowhere/at/all";
    assert_int_equal(vhost_user_listen(&options, &listener, &message), -ENOENT);
    assert_non_null(strstr(message, "/nowhere/at/all"));
    assert_non_null(strstr(message, "make it first"));
    g_clear_pointer(&message, g_free);
}

static void *start(void *opaque)
{
    struct vhost_user_listener *listener = opaque;
    const struct vhost_user_listen_options options = { .path = path, .mode = -1 };
    char *message = NULL;
    int error = vhost_user_listen(&options, listener, &message);
    g_free(message);
    return (void *)(intptr_t)error;
}

/* Many start at once on a left-over socket: one gets it, and it is that one who answers. */
static void one_of_many_gets_it(void **state)
{
    for (unsigned round = 0; round < 30; round++) {
        struct vhost_user_listener listeners[6];
        pthread_t threads[6];
        int winner = -1;
        assert_int_equal(listen_on(&listeners[0], -1, NULL), 0);
        close(listeners[0].fd);
        g_free(listeners[0].path);
        for (unsigned i = 0; i < 6; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, start, &listeners[i]), 0);
        for (unsigned i = 0; i < 6; i++) {
            void *error;
            pthread_join(threads[i], &error);
            if ((intptr_t)error == 0) {
                assert_int_equal(winner, -1);
                winner = (int)i;
            } else {
                assert_int_equal((intptr_t)error, -EADDRINUSE);
            }
        }
        assert_int_not_equal(winner, -1);
        assert_int_equal(connect_to_it(), 0);
        int fd = -1;
        for (unsigned i = 0; i < 6 && fd < 0; i++) { /* the losers' probes may be first */
            fd = accept4(listeners[winner].fd, NULL, NULL, SOCK_CLOEXEC);
        }
        assert_true(fd >= 0);
        close(fd);
        vhost_user_listener_close(&listeners[winner]);
    }
}

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    snprintf(path, sizeof path, "%s/socket", directory);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_free_path_is_taken_and_given_back),
        cmocka_unit_test(a_left_over_socket_is_replaced),
        cmocka_unit_test(a_served_socket_is_not),
        cmocka_unit_test(what_is_no_socket_is_left_alone),
        cmocka_unit_test(another_ones_socket_is_not_removed),
        cmocka_unit_test(mode_and_group_are_set),
        cmocka_unit_test(paths_that_cannot_be),
        cmocka_unit_test(one_of_many_gets_it),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(directory);
    return failed;
}
