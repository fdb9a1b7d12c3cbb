#include "watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "error.h"

enum {
    LIMIT_MAX_S = 86400,
};

/* Not GLib's lock: ThreadSanitizer does not see into that. */
static struct {
    pthread_mutex_t lock;      /* held while gave_up runs, so that whoever was waited for stays where it is */
    pthread_cond_t changed;    /* by the monotonic clock */
    unsigned limit_s;          /* 0: not started */
    const char *what, *object; /* NULL: nothing is waited for */
    guint64 serial;            /* of the wait */
    void (*gave_up)(const char *what, const char *object, void *opaque);
    void *opaque;
} watchdog = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool record_wait_limit(unsigned *limit_s_out, GError **error)
{
    const char *text = g_getenv("VBLKSCOPE_RECORD_WAIT");
    guint64 limit_s = RECORD_WAIT_LIMIT_S;

    if (text && !g_ascii_string_to_unsigned(text, 10, 1, LIMIT_MAX_S, &limit_s, NULL)) {
        g_set_error(error, RECORD_ERROR, RECORD_ERROR_USAGE,
                    "VBLKSCOPE_RECORD_WAIT: '%s' is no number of seconds from 1 to %d", text, LIMIT_MAX_S);
        return false;
    }
    *limit_s_out = (unsigned)limit_s;
    return true;
}

static gpointer watch(gpointer unused)
{
    pthread_mutex_lock(&watchdog.lock);
    for (;;) {
        guint64 serial = watchdog.serial;
        struct timespec end;
        bool late = false;

        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_sec += watchdog.limit_s;
        while (watchdog.serial == serial && !late) {
            if (watchdog.what)
                late = pthread_cond_timedwait(&watchdog.changed, &watchdog.lock, &end) == ETIMEDOUT;
            else
                pthread_cond_wait(&watchdog.changed, &watchdog.lock);
        }
        if (watchdog.serial == serial)
            watchdog.gave_up(watchdog.what, watchdog.object, watchdog.opaque);
    }
    return NULL;
}

void record_watchdog_start(unsigned limit_s,
                           void (*gave_up)(const char *what, const char *object, void *opaque), void *opaque)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    watchdog.limit_s = limit_s;
    watchdog.gave_up = gave_up;
    watchdog.opaque = opaque;
    g_thread_unref(g_thread_new("watchdog", watch, NULL));
}

static void change(const char *what, const char *object)
{
    pthread_mutex_lock(&watchdog.lock);
    watchdog.what = what;
    watchdog.object = object;
    watchdog.serial++;
    pthread_cond_signal(&watchdog.changed);
    pthread_mutex_unlock(&watchdog.lock);
}

void record_watchdog_begin(const char *what, const char *object)
{
    if (watchdog.limit_s)
        change(what, object);
}

void record_watchdog_end(void)
{
    if (watchdog.limit_s)
        change(NULL, NULL);
}

unsigned record_watchdog_limit_s(void)
{
    return watchdog.limit_s ? watchdog.limit_s : RECORD_WAIT_LIMIT_S;
}
