/**
 * What becomes of a request that the disk failed (--on-disk-error): its driver is told, or the device pauses and the request
 * is tried again when somebody who has looked after the disk resumes it.
 *
 *     uint32_t seen;
 *     do {
 *         seen = vblk_disk_error_gate_co(request);          // waits while the device is paused
 *         result = ...the disk...;
 *     } while (result < 0 && vblk_disk_error_retry_co(request, result, seen));
 *
 * A paused device keeps what it took from its rings. A drain (a stopped ring, new memory, the end of vblkd) cannot wait for a
 * person: it has each waiting request tried once more, and what fails then is reported to the driver. If the drain comes because
 * the front end is gone (vblkd ends, too), and it keeps an in-flight region, what fails is left open there: the next process
 * does it again, as after a kill. Other stops do not leave any open, since a front end may be about to migrate without the region.
 *
 * Thread:    the queue's loop, in a request's coroutine, unless said otherwise.
 */
#ifndef VBLK_DISK_ERROR_H
#define VBLK_DISK_ERROR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "log/log.h"
#include "rt/lock.h"

struct vblk_queue;
struct vblk_request;

struct vblk_disk_errors {
    enum vblk_on_disk_error policy;
    struct vblk_log log;       /**< a limit of its own: a failing disk keeps no other line back */
    _Atomic uint32_t pauses;   /**< odd: paused; one more with each pause and each resume; changes under lock */
    struct rt_mutex lock;
    struct rt_co_queue waiting;
    uint32_t waiting_count;
};

void vblk_disk_errors_init(struct vblk_disk_errors *errors, const char *name, enum vblk_on_disk_error policy);
void vblk_disk_errors_deinit(struct vblk_disk_errors *errors); /**< no request is there */

/** Wait while the device is paused. Returns what vblk_disk_error_retry_co() wants to know. */
uint32_t vblk_disk_error_gate_co(struct vblk_request *request);

/** The disk said @result, negative. Returns true to try again, perhaps much later; false: tell the driver. Logs. */
bool vblk_disk_error_retry_co(struct vblk_request *request, int result, uint32_t seen);

/** Around a drain of this queue: between the two no request of it waits for a resume. */
void vblk_disk_errors_drain_begin(struct vblk_queue *queue);
void vblk_disk_errors_drain_end(struct vblk_queue *queue);

#endif
