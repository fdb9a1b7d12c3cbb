/**
 * vblkd's command line.
 *
 *     struct vblkd_options *options;
 *     int status = vblkd_options_parse(argc, argv, &options);   // -1: run; else exit with it
 */
#ifndef VBLKD_OPTIONS_H
#define VBLKD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "rt/loop.h"
#include "rt/pool.h"

#define VBLKD_IOTHREADS_MAX 64

/** auto: on where the kernel has filters. */
enum vblkd_sandbox { VBLKD_SANDBOX_AUTO, VBLKD_SANDBOX_ON, VBLKD_SANDBOX_OFF };

struct vblkd_options {
    struct vblk_device_options *disks; /**< loops and main_loop are the caller's to fill in */
    unsigned disk_count;               /**< 0 only with a control socket */
    struct vblk_device_options disk_defaults; /**< what disks share that are added later */
    const char *control_path;          /**< NULL: none */
    unsigned iothread_count;
    int64_t poll_max_ns;               /**< RT_WHILE_ATTACHED for --busy-poll */
    struct rt_loop_policies loop_policies;
    enum rt_stack_guard stack_guard;
    bool instant_on_loop; /**< no policy was chosen that only coroutines and the request lock show */
    const struct vblk_request_lock *request_lock;
    enum rt_pool_policy coroutine_pool;
    unsigned faults;
    bool tracing;
    const char *user;                  /**< NULL: stay who we are */
    enum vblkd_sandbox sandbox;
};

/**
 * Returns:   -1: options_out is set, go on. Otherwise the exit status: 0 (--help, --version,
 *            --print-capabilities were printed), 2 with one line on stderr.
 * Ownership: options_out is the caller's until vblkd_options_free().
 */
int vblkd_options_parse(int argc, char **argv, struct vblkd_options **options_out);
void vblkd_options_free(struct vblkd_options *options);

#endif
