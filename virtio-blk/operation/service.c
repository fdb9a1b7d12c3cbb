#include "operation/service.h"

#include <glib.h>
#include <inttypes.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "log/log.h"
#include "rt/loop.h"
#include "rt/process.h"

#define CONTROL_NAME "control"
/* The sampler, which gives the sign of life, comes by once a second. */
#define WATCHDOG_MIN_US (UINT64_C(2) * G_USEC_PER_SEC)

/* ---- sockets ---- */

static struct {
    bool asked;
    int count;
    char **names; /* NULL where it was taken */
} sockets;

static void ask_for_sockets(void)
{
    if (sockets.asked)
        return;
    sockets.asked = true;
    /* The variables go: what we start must not take them for its own. */
    sockets.count = sd_listen_fds_with_names(1, &sockets.names);
    if (sockets.count < 0) {
        vblk_log(NULL, VBLK_LOG_ERROR, "the sockets that the service manager passed cannot be used: %s",
                 g_strerror(-sockets.count));
        sockets.count = 0;
    }
}

static int take(int index)
{
    g_clear_pointer(&sockets.names[index], g_free);
    return SD_LISTEN_FDS_START + index;
}

int vblk_service_take_socket(const char *name)
{
    int found = -1;

    ask_for_sockets();
    for (int i = 0; i < sockets.count; i++) {
        if (!sockets.names[i])
            continue;
        if (name && strcmp(sockets.names[i], name) == 0)
            return take(i);
        if (!name && strcmp(sockets.names[i], CONTROL_NAME) != 0) {
            if (found >= 0)
                return -1; /* which one is meant? */
            found = i;
        }
    }
    return found >= 0 ? take(found) : -1;
}

unsigned vblk_service_sockets_left(void)
{
    unsigned left = 0;

    ask_for_sockets();
    for (int i = 0; i < sockets.count; i++)
        left += sockets.names[i] != NULL;
    return left;
}

/* ---- what the manager hears ---- */

/* Failures are not told: without a manager there is nobody to hear them, and with one it notices. */
void vblk_service_ready(const char *status)
{
    (void)sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void vblk_service_stopping(void)
{
    (void)sd_notify(0, "STOPPING=1\nSTATUS=draining");
}

/* ---- watchdog ---- */

struct watched_loop {
    struct rt_loop *loop;
    uint64_t passes, idle_ns; /* when it was last looked at */
};

static struct {
    struct watched_loop *loops; /* NULL: no watchdog */
    unsigned count;
} watchdog;

static bool has_moved(struct watched_loop *watched)
{
    struct rt_loop_stats now;
    uint64_t idle_ns;
    bool moved;

    rt_loop_stats(watched->loop, &now);
    idle_ns = now.wait_ns + now.poll_ns; /* of an open wait, too */
    moved = now.passes != watched->passes || idle_ns != watched->idle_ns;
    watched->passes = now.passes;
    watched->idle_ns = idle_ns;
    return moved;
}

static void give_sign_of_life(void *opaque)
{
    bool all_move = true;

    (void)opaque;
    for (unsigned i = 0; i < watchdog.count; i++)
        all_move &= has_moved(&watchdog.loops[i]);
    if (all_move)
        (void)sd_notify(0, "WATCHDOG=1");
}

static struct rt_process_source watchdog_source = { .sample = give_sign_of_life };

void vblk_service_watch(struct rt_loop *const *loops, unsigned loop_count)
{
    uint64_t period_us;

    if (sd_watchdog_enabled(0, &period_us) <= 0)
        return;
    if (period_us < WATCHDOG_MIN_US)
        vblk_log(NULL, VBLK_LOG_WARNING,
                 "the service's watchdog of %" PRIu64 " ms is too short: signs of life come once a second (set "
                 "WatchdogSec= to 2 s or more)", period_us / 1000);
    watchdog.loops = g_new0(struct watched_loop, loop_count);
    watchdog.count = loop_count;
    for (unsigned i = 0; i < loop_count; i++)
        watchdog.loops[i].loop = loops[i];
    rt_process_add_source(&watchdog_source);
}

void vblk_service_unwatch(void)
{
    if (!watchdog.loops)
        return;
    rt_process_remove_source(&watchdog_source);
    g_clear_pointer(&watchdog.loops, g_free);
    watchdog.count = 0;
}
