/*
 * Goal:   what users write for an NBD server becomes the URI that libnbd takes, and a server that is not there is said to be
 *         missing within the time that was given.
 * Method: every form, good and bad; a path without server, and a socket that accepts and says nothing.
 * If it fails: disks cannot be named, or vblkd hangs at its start.
 */
#include <glib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "disk/nbd_connect.h"

static void test_every_form(void **state)
{
    static const struct {
        const char *spec, *uri;
    } cases[] = {
        { "nbd://h:10809/e", "nbd://h:10809/e" },
        { "nbds://h/e?tls-certificates=/d", "nbds://h/e?tls-certificates=/d" },
        { "nbd+unix:///e?socket=/s", "nbd+unix:///e?socket=/s" },
        { "nbd:nbd://h/e", "nbd://h/e" },
        { "nbd:nbd+unix:///?socket=/s", "nbd+unix:///?socket=/s" },
        { "nbd:unix:/run/nbd.sock", "nbd+unix:///?socket=/run/nbd.sock" },
        { "nbd:unix:/a b&c:exportname=d/e f", "nbd+unix:///d%2Fe%20f?socket=/a%20b%26c" },
        { "nbd:host:10809", "nbd://host:10809/" },
        { "nbd:[::1]:10809:exportname=e", "nbd://[::1]:10809/e" },
        { "nbd:", NULL },
        { "nbd:unix:", NULL },
        { "nbd:host", NULL },
        { "nbd::1", NULL },
        { "nbd:/a/path:1", NULL },
        { "http://h", NULL },
    };

    (void)state;
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        char *uri = vblk_nbd_uri(cases[i].spec);

        if (g_strcmp0(uri, cases[i].uri) != 0)
            fail_msg("%s: '%s' instead of '%s'", cases[i].spec, uri, cases[i].uri);
        g_free(uri);
    }
}

static void test_nobody_is_there(void **state)
{
    char *why = NULL;

    (void)state;
    assert_null(vblk_nbd_connect_wait("nbd+unix:///?socket=/nonexistent/socket", INT64_C(20000000000), &why));
    assert_non_null(strstr(why, "No such file"));
    g_free(why);
}

/* The thread that waits for an answer is left behind, and ends by itself when there is one. */
static void test_a_server_that_says_nothing(void **state)
{
    char directory[] = "/tmp/vblk-nbd-XXXXXX", *uri, *why = NULL;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    assert_non_null(mkdtemp(directory));
    g_snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", directory);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    uri = g_strdup_printf("nbd+unix:///?socket=%s", address.sun_path);
    assert_null(vblk_nbd_connect_wait(uri, 100000000, &why));
    assert_non_null(strstr(why, "no answer"));
    g_free(why);
    g_free(uri);
    close(fd); /* hangs up on the thread */
    unlink(address.sun_path);
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_form),
        cmocka_unit_test(test_nobody_is_there),
        cmocka_unit_test(test_a_server_that_says_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
