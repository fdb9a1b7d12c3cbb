#include "vhost_user/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <grp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A process holds the lock for the few system calls between its look at the path and its listen(). */
#define LOCK_ATTEMPTS 200
#define LOCK_PAUSE_US 10000

static int fail(int error, char **message_out, const char *path, const char *text)
{
    *message_out = g_strdup_printf("%s: %s", path, text);
    return error;
}

static int fail_errno(char **message_out, const char *path, const char *what)
{
    int error = errno;
    *message_out = g_strdup_printf("%s: %s: %s", path, what, g_strerror(error));
    return -error;
}

/* The lock is advisory and its absence (a directory that we may not read) leaves what any other server has. */
static int lock_directory(const char *path)
{
    char *directory = g_path_get_dirname(path);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    g_free(directory);
    for (int attempt = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && attempt < LOCK_ATTEMPTS; attempt++)
        usleep(LOCK_PAUSE_US);
    return fd;
}

static void unlock_directory(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* 0: nobody is behind the path, and it is a socket. */
static int find_left_over(const struct sockaddr_un *address, char **message_out)
{
    struct stat status;
    if (lstat(address->sun_path, &status) < 0)
        return fail_errno(message_out, address->sun_path, "cannot examine the path");
    if (!S_ISSOCK(status.st_mode))
        return fail(-EEXIST, message_out, address->sun_path,
                    "exists and is not a socket (choose another path)");
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return fail_errno(message_out, address->sun_path, "cannot create a socket");
    /* Anything but a refusal (a full backlog too) means that someone listens. */
    bool left_over =
        connect(probe, (const struct sockaddr *)address, sizeof *address) < 0 && errno == ECONNREFUSED;
    close(probe);
    if (!left_over)
        return fail(-EADDRINUSE, message_out, address->sun_path,
                    "another process serves this socket (stop it, or choose another path)");
    return 0;
}

static int bind_path(int fd, const struct sockaddr_un *address, char **message_out)
{
    if (bind(fd, (const struct sockaddr *)address, sizeof *address) == 0)
        return 0;
    if (errno == EADDRINUSE) {
        int error = find_left_over(address, message_out);
        if (error)
            return error;
        if (unlink(address->sun_path) == 0 &&
            bind(fd, (const struct sockaddr *)address, sizeof *address) == 0)
            return 0;
    }
    int error = errno;
    if (error == ENOENT || error == EACCES)
        return fail(-error, message_out, address->sun_path,
                    error == ENOENT ? "cannot create the socket: its directory does not exist (make it first)"
                                    : "cannot create the socket: permission denied (vblkd's user must be allowed to "
                                      "write to its directory)");
    errno = error;
    return fail_errno(message_out, address->sun_path, "cannot create the socket");
}

static int find_group(const char *name, gid_t *gid_out)
{
    char *end;
    struct group *group = getgrnam(name);
    if (group) {
        *gid_out = group->gr_gid;
        return 0;
    }
    unsigned long number = strtoul(name, &end, 10);
    if (!g_ascii_isdigit(name[0]) || *end || number >= (gid_t)-1)
        return -EINVAL;
    *gid_out = (gid_t)number;
    return 0;
}

/* Nobody can connect before listen(), so who may is settled before. */
static int set_owner_and_mode(const struct vhost_user_listen_options *options, char **message_out)
{
    gid_t gid;
    if (options->group && find_group(options->group, &gid) < 0) {
        *message_out = g_strdup_printf("%s: there is no group \"%s\"", options->path, options->group);
        return -EINVAL;
    }
    if (options->group && lchown(options->path, (uid_t)-1, gid) < 0)
        return fail_errno(message_out, options->path, "cannot give the socket to the group");
    if (options->mode >= 0 && chmod(options->path, (mode_t)options->mode) < 0)
        return fail_errno(message_out, options->path, "cannot set the socket's mode");
    return 0;
}

int vhost_user_listen(const struct vhost_user_listen_options *options,
                      struct vhost_user_listener *listener_out, char **message_out)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct stat status;
    if (!options->path[0])
        return fail(-EINVAL, message_out, "socket path", "is empty");
    if (strlen(options->path) >= sizeof address.sun_path)
        return fail(-ENAMETOOLONG, message_out, options->path,
                    "the path is too long for a socket (107 bytes at most; use a shorter one)");
    strcpy(address.sun_path, options->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fail_errno(message_out, options->path, "cannot create a socket");

    int lock = lock_directory(options->path);
    int error = bind_path(fd, &address, message_out);
    if (!error) {
        error = set_owner_and_mode(options, message_out);
        if (!error && (lstat(options->path, &status) < 0 || listen(fd, SOMAXCONN) < 0))
            error = fail_errno(message_out, options->path, "cannot listen");
        if (error)
            unlink(options->path);
    }
    unlock_directory(lock);
    if (error) {
        close(fd);
        return error;
    }
    *listener_out = (struct vhost_user_listener){
        .fd = fd, .path = g_strdup(options->path), .device = status.st_dev, .inode = status.st_ino
    };
    return 0;
}

void vhost_user_listener_close(struct vhost_user_listener *listener)
{
    struct stat status;
    /* Removed before it is closed: while it answers nobody replaces it, and while it is open no other has its inode. */
    if (lstat(listener->path, &status) == 0 && status.st_dev == listener->device &&
        status.st_ino == listener->inode)
        unlink(listener->path);
    close(listener->fd);
    g_free(listener->path);
    listener->path = NULL;
    listener->fd = -1;
}
