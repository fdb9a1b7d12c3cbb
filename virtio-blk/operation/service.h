/**
 * vblkd under a service manager: sockets that it opened for us, and what it wants to hear. Without one every function
 * here does nothing.
 *
 *     int fd = vblk_service_take_socket("disk0");              // FileDescriptorName=disk0, or -1
 *     vblk_service_ready("serving 2 disks");
 *     vblk_service_watch(loops, loop_count);                   // WatchdogSec=
 *     ...
 *     vblk_service_stopping();
 *
 * Source: sd_listen_fds(3), sd_notify(3), sd_watchdog_enabled(3).
 * Thread: main, unless said otherwise.
 */
#ifndef VBLK_OPERATION_SERVICE_H
#define VBLK_OPERATION_SERVICE_H

struct rt_loop;

/**
 * A listening socket that the manager passed and nobody has taken yet.
 *
 * @name: as FileDescriptorName= says. NULL: the only one that is left and is not called "control".
 * Returns: the descriptor (the caller's from now on, close-on-exec), or -1: there is none, or (NULL) more than one.
 */
int vblk_service_take_socket(const char *name);

/** How many were passed and not taken: sockets that nothing would ever answer. */
unsigned vblk_service_sockets_left(void);

/** Every socket listens. @status is what `systemctl status` shows. */
void vblk_service_ready(const char *status);
void vblk_service_stopping(void);

/**
 * Tell the manager once a second that all loops are alive: each waits, polls, or has gone round since it was looked
 * at. The sampler thread looks; it wakes no loop. A loop that one handler holds longer than WatchdogSec= gets vblkd
 * restarted, and the in-flight region brings its requests back.
 *
 * Thread:    main, after rt_process_start(); the loops run until vblk_service_unwatch().
 * Ownership: the array is copied.
 */
void vblk_service_watch(struct rt_loop *const *loops, unsigned loop_count);
void vblk_service_unwatch(void);

#endif
