/**
 * The control socket: one JSON object a line asks, one answers.
 *
 *     {"command": "drain", "arguments": {"device": "disk0"}, "id": 7}
 *     {"return": {"device": "disk0"}, "id": 7}        or        {"error": {"message": "..."}, "id": 7}
 *
 * Several clients at once, in the main loop; each has a coroutine, and its commands run one after another. Whoever sends
 * rubbish gets an error for each line of it; whoever reads no answers is not read from either. vblkd-control(7) is the
 * reference, schema.json its machine-readable form.
 *
 *     error = vblk_control_create(&options, &control, &message);
 *     ...
 *     vblk_control_stop(control);             // no command begins any more
 *     vblk_devices_destroy_co(devices);       // those that wait for a disk end
 *     vblk_control_destroy_co(control);
 *
 * Inside this folder: control.c (listening), connection.c (one client), line_reader.c (framing), command.c (the table,
 * arguments, errors), process_commands.c and disk_commands.c (what they do), answer.c (JSON values).
 */
#ifndef VBLK_CONTROL_CONTROL_H
#define VBLK_CONTROL_CONTROL_H

#include "server/devices.h"

struct vblk_control;

struct vblk_control_options {
    const char *path; /**< NULL when fd is given */
    int fd;           /**< -1, or a listening socket that a service manager made; on success it is ours */
    struct rt_loop *main_loop;
    struct vblk_devices *devices;
    const struct vblk_device_options *disk_defaults; /**< what add-disk starts from */
    const char *version, *faults, *request_lock;     /**< as told in status; outlive the control socket */
};

/**
 * Listen, with mode 0600. A path left over by a killed process is reused; it is removed at the end.
 *
 * Returns:   0, or -errno with one line in message_out (object, cause, remedy; caller frees with g_free).
 * Thread:    main loop's.
 */
int vblk_control_create(const struct vblk_control_options *options, struct vblk_control **control_out, char **message_out);

/** Hang up on everybody. Commands that are at work go on; their answers are not sent. */
void vblk_control_stop(struct vblk_control *control);

/** After the stop: wait for the commands at work, free. Coroutine of the main loop. NULL is fine, for both. */
void vblk_control_destroy_co(struct vblk_control *control);

#endif
