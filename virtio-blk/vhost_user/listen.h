/**
 * The socket on which a back end waits for front ends.
 *
 * A path is bound by whoever may: a socket that is left over from a process that is gone (nobody answers a connect)
 * is replaced, one in use is not. The directory is locked meanwhile (flock), so that two processes which start at
 * the same moment cannot both find the same socket left over.
 */
#ifndef VHOST_USER_LISTEN_H
#define VHOST_USER_LISTEN_H

#include <sys/stat.h>

struct vhost_user_listen_options {
    const char *path;
    int mode;          /**< -1: what umask leaves */
    const char *group; /**< name or number; NULL: leave */
};

struct vhost_user_listener {
    int fd; /**< non-blocking */
    char *path;
    dev_t device; /* of the path, so that only our own socket is removed at the end */
    ino_t inode;
};

/**
 * Returns:   0, or -errno with one line in message_out (object, cause, remedy; caller frees with g_free).
 * Errors:    -ENAMETOOLONG, -EADDRINUSE (served by a process), -EEXIST (not a socket), -ENOENT and others of bind,
 *            -EINVAL (no such group), -EPERM (not a member of it).
 */
int vhost_user_listen(const struct vhost_user_listen_options *options, struct vhost_user_listener *listener_out,
                      char **message_out);

/** Close, and remove the path if it is still ours. */
void vhost_user_listener_close(struct vhost_user_listener *listener);

#endif
