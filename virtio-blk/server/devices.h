/**
 * The disks that this process serves: a set that changes while it runs.
 *
 *     struct vblk_devices *devices = vblk_devices_create(&options);
 *     int error = vblk_devices_add(devices, &disk, &message);          // before the loop runs; later vblk_devices_add_co()
 *     error = vblk_devices_drain_co(devices, "disk0", &message);       // nothing in flight, and nothing begins
 *     vblk_devices_resume_co(devices, "disk0", &resumed, &message);
 *     vblk_devices_remove_co(devices, "disk0", false, &message);
 *     vblk_devices_destroy_co(devices);
 *
 * Names are unique. What is done to one disk does not wait for what is done to another.
 *
 * Returns:   all that return int: 0, or -errno with one line in message_out (object, cause, remedy; the caller frees it with
 *            g_free): -ENOENT there is no such disk.
 * Thread:    the main loop's; _co in a coroutine of it. @name NULL: the only disk there is.
 */
#ifndef VBLK_SERVER_DEVICES_H
#define VBLK_SERVER_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

struct vblk_devices;

struct vblk_devices_options {
    struct rt_loop *main_loop;
    struct rt_loop **loops; /**< IOThreads'; outlive the set */
    unsigned loop_count;
    /** Every disk was served on a connected descriptor, and all front ends have left: nobody can come any more. */
    void (*ended)(void *opaque);
    void *opaque;
};

struct vblk_devices *vblk_devices_create(const struct vblk_devices_options *options);
/** Hangs up, drains and closes each. NULL is fine. */
void vblk_devices_destroy_co(struct vblk_devices *devices);

/**
 * Open a disk and serve it. Loops are filled in; strings are copied. A disk without name has its socket's path for one, or
 * fd-N. _co: other disks are served while a server on the network takes its time to answer.
 *
 * Errors:    -EEXIST  the name is taken; -ECANCELED  the set is being destroyed. Others: vblk_device_open_disk(),
 *            vblk_device_create().
 */
int vblk_devices_add(struct vblk_devices *devices, const struct vblk_device_options *options, char **message_out);
int vblk_devices_add_co(struct vblk_devices *devices, const struct vblk_device_options *options, char **message_out);

/**
 * Stop serving a disk: hang up, drain, flush, close, forget.
 *
 * Errors:    -EBUSY   a front end is connected and @force is false; or it is being removed already.
 */
int vblk_devices_remove_co(struct vblk_devices *devices, const char *name, bool force, char **message_out);

/**
 * Wait until nothing is in flight, and let nothing begin until it is resumed. A disk is drained or it is not, whoever
 * asked and whether or not he is still there; who comes second is told so, and cannot resume by accident what the first holds.
 *
 * Errors:    -EALREADY  it is drained, or about to be; -ECANCELED  it was resumed meanwhile.
 */
int vblk_devices_drain_co(struct vblk_devices *devices, const char *name, char **message_out);

struct vblk_devices_resumed {
    bool was_drained;       /**< there was a drain to be ended */
    unsigned retried_count; /**< requests that waited because the disk had failed, and are tried again */
};

/** End a drain, also one that still waits, and let a device go on that paused because its disk failed. */
int vblk_devices_resume_co(struct vblk_devices *devices, const char *name, struct vblk_devices_resumed *resumed_out,
                           char **message_out);

struct vblk_devices_entry {
    struct vblk_device *device;
    const char *name, *blk_file;
    const char *socket_path; /**< NULL: a descriptor that was handed over */
    bool drained, draining;  /**< by vblk_devices_drain_co() */
};

unsigned vblk_devices_count(const struct vblk_devices *devices);
/** In the order in which they were added. The visitor must not yield. */
void vblk_devices_each(struct vblk_devices *devices,
                       void (*visit)(const struct vblk_devices_entry *entry, void *opaque), void *opaque);

/** Hold the device so that nobody removes it until the release, whatever yields meanwhile. */
int vblk_devices_hold(struct vblk_devices *devices, const char *name, struct vblk_device **device_out, char **message_out);
void vblk_devices_release(struct vblk_devices *devices, struct vblk_device *device);

#endif
