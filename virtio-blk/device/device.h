/**
 * One virtio-blk device: a disk, its queues, and the dataplane that runs them in IOThreads.
 *
 *     struct vblk_device *device;
 *     vblk_device_open_disk(&options, &disk, &message);          // any thread; may block
 *     vblk_device_create(&options, disk, &device, &message);     // main loop's thread; serves from now on
 *     vblk_device_destroy_co(device);                      // drains; coroutine in the main loop
 *
 * Inside this folder: device.c (life, vhost-user operations), config.c (what the driver reads), ring.c (what the
 * front end says about rings), notifier.c (attach and detach), home.c (the IOThread of a queue, moves), dataplane.c (start, stop, drain), queue.c
 * (pop, push, interrupts), request.c (what a request means), tracked.c (overlaps, flush order), request_lock.c (how
 * those are locked), status.c (what it tells at any time), sampler.c (baselines and samples), event.c (eventfds that a front end shares), memory.c (letting
 * go of its memory), resize.c (another size), handover.c (a guest that
 * migrates takes its disk along), fault.c (the mistakes that --fault brings back).
 */
#ifndef VBLK_DEVICE_H
#define VBLK_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "device/request_lock.h"
#include "disk/disk.h"

struct rt_loop;
struct vblk_device;

enum vblk_fault {
    VBLK_FAULT_STARTED_BEFORE_ATTACH = 1 << 0,
    VBLK_FAULT_INFLIGHT_SLOT_ZERO = 1 << 1,
    VBLK_FAULT_NO_REENABLE_ON_ATTACH = 1 << 2,
    VBLK_FAULT_SUPPRESS_BEFORE_PUBLISH = 1 << 3,
    VBLK_FAULT_NO_RECHECK = 1 << 4,
    VBLK_FAULT_MUTEX_ACROSS_YIELD = 1 << 5,
    VBLK_FAULT_SKIP_INTERRUPT = 1 << 6,
    VBLK_FAULT_ALWAYS_PROGRESS = 1 << 7,
    VBLK_FAULT_WRONG_LOOP = 1 << 8,
};

/** What becomes of a request that the disk failed: the driver is told, or the device waits for vblk_device_resume_co(). */
enum vblk_on_disk_error { VBLK_DISK_ERROR_REPORT, VBLK_DISK_ERROR_STOP };

struct vblk_device_options {
    const char *name;         /**< NULL: the socket path */
    const char *socket_path;  /**< or NULL, then fd */
    int fd;
    const char *blk_file;     /**< as for vblk_disk_open() */
    bool read_only;
    bool incoming;            /**< another process has the disk until its guest comes here: the first start takes it */
    enum vblk_disk_cache cache;
    enum vblk_on_disk_error on_disk_error;
    unsigned nbd_reconnect_s; /**< as in struct vblk_disk_options */
    const char *inject;       /**< rules of an experiment (disk/inject_rule.h), or NULL */
    uint16_t queue_count;     /**< 1..VBLK_QUEUES_MAX */
    uint32_t block_size_bytes; /**< 512 or 4096 */
    const char *serial;       /**< at most 20 bytes; NULL: made from the name */
    unsigned faults;          /**< enum vblk_fault bits */
    bool instant_on_loop;     /**< requests of an instant disk take neither coroutine nor request lock */
    const struct vblk_request_lock *request_lock; /**< NULL: the default, sharded */
    int socket_mode;          /**< -1: leave */
    const char *socket_group; /**< NULL: leave */
    struct rt_loop **loops;   /**< IOThreads' loops; queues are dealt out round robin */
    unsigned loop_count;
    struct rt_loop *main_loop;
    void (*ended)(void *opaque); /**< may be NULL: a connected fd's front end has left, nobody can come any more.
                                      * Called inside the session: must not destroy the device itself */
    void *opaque;
};

#define VBLK_QUEUES_MAX 64
#define VBLK_SERIAL_BYTES 20

/**
 * Open the disk of a device that is to be made. Blocks for as long as a network disk's server takes to answer.
 *
 * Returns:   as vblk_disk_open(). Thread: any.
 */
int vblk_device_open_disk(const struct vblk_device_options *options, struct vblk_disk **disk_out, char **message_out);

/**
 * Listen, with an open disk.
 *
 * Returns:   0, or -errno with one line in message_out (object, cause, remedy; caller frees with g_free).
 * Thread:    main loop's, outside coroutines or in one.
 * Ownership: the disk is the device's, and is closed if this fails; strings are copied; loops stay the caller's and outlive
 *            the device.
 * Trace:     vblk_dataplane:device_create.
 */
int vblk_device_create(const struct vblk_device_options *options, struct vblk_disk *disk, struct vblk_device **device_out,
                       char **message_out);

/** Hang up, drain, flush, close. Coroutine of the main loop only. NULL is fine. Trace: device_destroy. */
void vblk_device_destroy_co(struct vblk_device *device);

/**
 * Go on after the disk failed (VBLK_DISK_ERROR_STOP): every request that waits is tried again. Does nothing on a device that
 * is not paused. Returns how many wait. Thread: any.
 */
unsigned vblk_device_resume_co(struct vblk_device *device);
/** Whether it waits for that. Thread: any. */
bool vblk_device_is_paused(const struct vblk_device *device);

/**
 * Wait until nothing is in flight; until the end nothing begins. Nests, also with drains that start and stop make.
 * Coroutine of the main loop; the end also outside of coroutines. Trace: drain_begin, drain_end.
 */
void vblk_device_drain_begin_co(struct vblk_device *device);
void vblk_device_drain_end(struct vblk_device *device);

/**
 * Another size for the disk, while it runs: requests in flight end first, then the front end is told.
 *
 * Units:     size_bytes is a multiple of the block size; 0: as large as the file or block device is now. A file that is
 *            shorter is made longer; one that is longer keeps its bytes, and the driver sees fewer.
 * Returns:   0, or -errno of vblk_disk_resize(), -EINVAL (no multiple); logged. The size is then what it was.
 * Thread:    coroutine of the main loop. Waits for requests in flight, also for those of a paused device.
 */
int vblk_device_resize_co(struct vblk_device *device, uint64_t size_bytes);

/**
 * Tell the driver that its configuration space has changed: a configuration interrupt, if the front end passes it on.
 *
 * Returns:   0; -ENOTCONN: there is no front end, or it has given no channel: it reads it when it asks next.
 * Thread:    coroutine of the main loop.
 */
int vblk_config_changed_co(struct vblk_device *device);

/**
 * Let another IOThread process this queue. While it runs, it alone is drained for that, and what comes meanwhile is
 * seen when it is over; a queue that is stopped starts there next time.
 *
 * Returns:   0, also when it is there already and when the queue, or the device, was stopped meanwhile. Errors:
 *            -EINVAL: no such queue or loop. -errno of the disk or the loop: the queue stays where it is. If its notifier
 *            cannot be watched there: that error, and the queue is broken (one log line).
 * Thread:    coroutine of the main loop; begun before vblk_device_destroy_co(). Others that move, drain, start or stop
 *            meanwhile take turns with it.
 * Trace:     vblk_dataplane:notifier_detach, loop_change, notifier_attach.
 */
int vblk_device_move_queue_co(struct vblk_device *device, uint16_t queue_index, unsigned loop_index);

/** Coroutines that its rings may use at once when all are full. */
uint32_t vblk_device_coroutines_max(const struct vblk_device *device);

/** The bit of a fault's name, or 0. */
unsigned vblk_fault_by_name(const char *name);
/** Comma-separated names, for the log and rt_process:info. Caller frees with g_free. */
char *vblk_fault_names(unsigned faults);
/** Those that are the loops' rather than the device's: enum rt_loop_fault bits for rt_loop_configure(). */
unsigned vblk_fault_of_loops(unsigned faults);
/** Every name that --fault takes, comma-separated. Caller frees with g_free. */
char *vblk_fault_known(void);

#endif
