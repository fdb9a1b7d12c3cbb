/*
 * A guest that migrates takes its disk along: the device that it leaves gives the disk up, and the one where it goes on takes it.
 * Both may be on one machine, or see one image from two, and never use it at the same time.
 *
 * Given up: when the last ring was stopped by a message while the front end had its dirty log on (LOG_ALL). That is how
 * a migration ends, and how a pause or a reset in the middle of one looks; then the next start takes the disk back. A front
 * end that leaves without a word keeps it: it has crashed, and its guest goes nowhere. A pause without a migration keeps it, too,
 * or a paused guest's disk would look free.
 *
 * What was acknowledged is flushed first, since another machine sees only that. If that fails the disk is kept, and
 * the destination refuses to start: a guest that goes on there would never be told what it has lost.
 */
#include <errno.h>
#include <glib.h>
#include <linux/vhost.h>

#include "device/internal.h"

/* For what a killed process has left to the kernel; a source answers only when it has given up its disk. */
#define PAUSE_NS (20 * INT64_C(1000000))
#define TRIES 50

bool vblk_handover_is_near(const struct vblk_device *device)
{
    return device->features >> VHOST_F_LOG_ALL & 1;
}

/* In a loop of the IOThreads as requests are: the main loop serves other disks. No context is left of those that have run. */
static int flush_co(struct vblk_device *device)
{
    struct vblk_disk_loop *context;
    int error;

    rt_coroutine_move(device->loops[0]);
    error = vblk_disk_attach_loop(device->disk, device->loops[0], &context);
    if (error == 0) {
        error = vblk_disk_flush_co(context);
        /* Out of the disk's own callback, which entered us, and back: there the context may go. */
        rt_coroutine_move(device->main_loop);
        rt_coroutine_move(device->loops[0]);
        vblk_disk_detach_loop(context);
    }
    rt_coroutine_move(device->main_loop);
    return error;
}

void vblk_handover_give_co(struct vblk_device *device)
{
    int error;

    if (!device->holds_disk)
        return;
    error = device->facts.read_only ? 0 : flush_co(device);
    if (error < 0) {
        vblk_log(&device->log, VBLK_LOG_ERROR, "the disk is not given up to where the guest migrates, because it cannot be "
                 "flushed: %s; the guest cannot go on there (let it go on here)", g_strerror(-error));
        return;
    }
    vblk_disk_let_go(device->disk);
    device->holds_disk = false;
    vblk_log(&device->log, VBLK_LOG_INFO, "the disk is given up: its guest is being migrated");
}

static void wake(void *opaque)
{
    rt_coroutine_wake(opaque);
}

static bool pause_co(struct vblk_device *device)
{
    struct rt_timer *timer = rt_timer_create(device->main_loop, wake, rt_coroutine_self());

    if (!timer)
        return false;
    rt_timer_arm(timer, rt_clock_ns() + PAUSE_NS);
    rt_coroutine_yield();
    rt_timer_destroy(timer);
    return true;
}

int vblk_handover_take_co(struct vblk_device *device)
{
    int error;

    if (device->holds_disk)
        return 0;
    error = vblk_disk_hold(device->disk);
    for (unsigned i = 0; error == -EAGAIN && i < TRIES && pause_co(device); i++)
        error = vblk_disk_hold(device->disk);
    if (error < 0) {
        vblk_log(&device->log, VBLK_LOG_ERROR, "cannot start: %s",
                 error == -EAGAIN ? "another process has locked the disk (has the guest left it? end that process, and let the "
                                    "front end connect again)"
                                  : g_strerror(-error));
        return error;
    }
    device->holds_disk = true;
    vblk_log(&device->log, VBLK_LOG_INFO, "the disk is taken");
    return vblk_resize_look(device);
}
