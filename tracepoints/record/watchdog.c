#include "watchdog.h"

#include "error.h"

enum {
    LIMIT_MAX_S = 86400,
};

static struct {
    GMutex lock; /* held while gave_up runs, so that whoever was waited for stays where it is */
    GCond changed;
    unsigned limit_s; /* 0: not started */
    const char *what, *object; /* NULL: nothing is waited for */
    guint64 serial;            /* of the wait */
    void (*gave_up)(const char *what, const char *object, void *opaque);
    void *opaque;
} watchdog;

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
    g_mutex_lock(&watchdog.lock);
    for (;;) {
        guint64 serial = watchdog.serial;
        gint64 end_us = g_get_monotonic_time() + watchdog.limit_s * G_TIME_SPAN_SECOND;
        bool late = false;

        while (watchdog.serial == serial && !late) {
            if (watchdog.what)
                late = !g_cond_wait_until(&watchdog.changed, &watchdog.lock, end_us);
            else
                g_cond_wait(&watchdog.changed, &watchdog.lock);
        }
        if (watchdog.serial == serial)
            watchdog.gave_up(watchdog.what, watchdog.object, watchdog.opaque);
    }
    return NULL;
}

void record_watchdog_start(unsigned limit_s, void (*gave_up)(const char *what, const char *object, void *opaque),
                           void *opaque)
{
    watchdog.limit_s = limit_s;
    watchdog.gave_up = gave_up;
    watchdog.opaque = opaque;
    g_thread_unref(g_thread_new("watchdog", watch, NULL));
}

static void change(const char *what, const char *object)
{
    g_mutex_lock(&watchdog.lock);
    watchdog.what = what;
    watchdog.object = object;
    watchdog.serial++;
    g_cond_signal(&watchdog.changed);
    g_mutex_unlock(&watchdog.lock);
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
