#include "disk/nbd_connect.h"

#include <errno.h>
#include <glib.h>
#include <libnbd.h>
#include <pthread.h>
#include <string.h>

#include "rt/loop.h"

#define POST_RETRY_US 10000

/* Shared by its thread and by whoever waits for it; the last one frees. */
struct vblk_nbd_attempt {
    char *uri;
    struct rt_loop *loop; /* NULL: somebody waits for `ended` */
    vblk_nbd_connected *fn;
    void *opaque;

    pthread_mutex_t lock;
    pthread_cond_t ended_cond;
    unsigned references;
    bool cancelled, ended;
    struct nbd_handle *handle;
    char *why;
};

static void unref(struct vblk_nbd_attempt *attempt)
{
    bool last;

    pthread_mutex_lock(&attempt->lock);
    last = --attempt->references == 0;
    pthread_mutex_unlock(&attempt->lock);
    if (!last)
        return;
    nbd_close(attempt->handle);
    pthread_mutex_destroy(&attempt->lock);
    pthread_cond_destroy(&attempt->ended_cond);
    g_free(attempt->why);
    g_free(attempt->uri);
    g_free(attempt);
}

static struct nbd_handle *take_handle(struct vblk_nbd_attempt *attempt)
{
    struct nbd_handle *handle = attempt->handle;

    attempt->handle = NULL;
    return handle;
}

/* In the loop. Cancelling happens there, too. */
static void deliver(void *opaque)
{
    struct vblk_nbd_attempt *attempt = opaque;
    bool cancelled;

    pthread_mutex_lock(&attempt->lock);
    cancelled = attempt->cancelled;
    pthread_mutex_unlock(&attempt->lock);
    if (!cancelled)
        attempt->fn(attempt->opaque, take_handle(attempt), attempt->why);
    unref(attempt);
}

static struct nbd_handle *connect_now(const char *uri, char **why_out)
{
    struct nbd_handle *handle = nbd_create();

    /* Memory of reads is the guest's already: no need to clear it first. The URI is from whoever runs us, and may name the keys
     * of TLS: libnbd takes it for a stranger's. */
    if (handle && nbd_set_pread_initialize(handle, false) == 0 && nbd_set_uri_allow_local_file(handle, true) == 0 &&
        nbd_connect_uri(handle, uri) == 0)
        return handle;
    *why_out = g_strdup(nbd_get_error());
    nbd_close(handle);
    return NULL;
}

static void *run(void *opaque)
{
    struct vblk_nbd_attempt *attempt = opaque;
    char *why = NULL;
    struct nbd_handle *handle = connect_now(attempt->uri, &why);

    pthread_mutex_lock(&attempt->lock);
    attempt->handle = handle;
    attempt->why = why;
    attempt->ended = true;
    pthread_cond_signal(&attempt->ended_cond);
    /* Under the lock: a loop whose attempt was cancelled may be gone. */
    if (attempt->loop && !attempt->cancelled) {
        attempt->references++;
        while (rt_loop_post(attempt->loop, deliver, attempt) < 0)
            g_usleep(POST_RETRY_US); /* without memory; requests that wait for this have their own deadline */
    }
    pthread_mutex_unlock(&attempt->lock);
    unref(attempt);
    return NULL;
}

static struct vblk_nbd_attempt *begin(const char *uri, struct rt_loop *loop, vblk_nbd_connected *fn, void *opaque,
                                      int *error_out)
{
    struct vblk_nbd_attempt *attempt = g_new0(struct vblk_nbd_attempt, 1);
    pthread_condattr_t clock;
    pthread_t thread;
    int error;

    attempt->uri = g_strdup(uri);
    attempt->loop = loop;
    attempt->fn = fn;
    attempt->opaque = opaque;
    attempt->references = 2;
    pthread_mutex_init(&attempt->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&attempt->ended_cond, &clock);
    pthread_condattr_destroy(&clock);
    error = pthread_create(&thread, NULL, run, attempt);
    if (error != 0) {
        attempt->references = 1;
        unref(attempt);
        *error_out = -error;
        return NULL;
    }
    pthread_setname_np(thread, "nbd-connect");
    pthread_detach(thread);
    return attempt;
}

int vblk_nbd_connect_start(const char *uri, struct rt_loop *loop, vblk_nbd_connected *fn, void *opaque,
                           struct vblk_nbd_attempt **attempt_out)
{
    int error = 0;
    struct vblk_nbd_attempt *attempt = begin(uri, loop, fn, opaque, &error);

    if (!attempt)
        return error;
    *attempt_out = attempt;
    unref(attempt); /* whoever started it may only cancel it, and not after it was delivered */
    return 0;
}

void vblk_nbd_connect_cancel(struct vblk_nbd_attempt *attempt)
{
    pthread_mutex_lock(&attempt->lock);
    attempt->cancelled = true;
    pthread_mutex_unlock(&attempt->lock);
}

struct nbd_handle *vblk_nbd_connect_wait(const char *uri, int64_t timeout_ns, char **why_out)
{
    int64_t deadline_ns = rt_clock_ns() + timeout_ns;
    const struct timespec deadline = { .tv_sec = deadline_ns / INT64_C(1000000000),
                                       .tv_nsec = deadline_ns % INT64_C(1000000000) };
    struct nbd_handle *handle = NULL;
    int error = 0;
    struct vblk_nbd_attempt *attempt = begin(uri, NULL, NULL, NULL, &error);

    if (!attempt) {
        *why_out = g_strdup(g_strerror(-error));
        return NULL;
    }
    pthread_mutex_lock(&attempt->lock);
    while (!attempt->ended && error == 0)
        error = pthread_cond_timedwait(&attempt->ended_cond, &attempt->lock, &deadline);
    if (attempt->ended) {
        handle = take_handle(attempt);
        *why_out = g_steal_pointer(&attempt->why);
    } else {
        *why_out = g_strdup("no answer");
    }
    pthread_mutex_unlock(&attempt->lock);
    unref(attempt);
    return handle;
}

static bool is_uri(const char *text)
{
    static const char *const schemes[] = { "nbd://", "nbds://", "nbd+unix://", "nbds+unix://", "nbd+vsock://",
                                           "nbds+vsock://" };

    for (unsigned i = 0; i < G_N_ELEMENTS(schemes); i++)
        if (g_str_has_prefix(text, schemes[i]))
            return true;
    return false;
}

char *vblk_nbd_uri(const char *spec)
{
    const char *rest = spec + strlen("nbd:"), *export_name = "", *end;
    char *place, *escaped_export, *uri = NULL;

    if (is_uri(spec))
        return g_strdup(spec);
    if (!g_str_has_prefix(spec, "nbd:"))
        return NULL;
    if (is_uri(rest))
        return g_strdup(rest);
    end = strstr(rest, ":exportname=");
    if (end)
        export_name = end + strlen(":exportname=");
    else
        end = rest + strlen(rest);
    place = g_strndup(rest, end - rest);
    escaped_export = g_uri_escape_string(export_name, NULL, FALSE);
    if (g_str_has_prefix(place, "unix:") && place[strlen("unix:")] != '\0') {
        char *path = g_uri_escape_string(place + strlen("unix:"), "/", FALSE);

        uri = g_strdup_printf("nbd+unix:///%s?socket=%s", escaped_export, path);
        g_free(path);
    } else if (strrchr(place, ':') && strrchr(place, ':') != place && !g_str_has_prefix(place, "unix:") &&
               !strchr(place, '/')) {
        uri = g_strdup_printf("nbd://%s/%s", place, escaped_export);
    }
    g_free(escaped_export);
    g_free(place);
    return uri;
}
