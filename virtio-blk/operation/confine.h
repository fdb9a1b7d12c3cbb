/**
 * What vblkd gives up before it opens anything: who it is, what it may do, and which system calls it can make.
 *
 *     vblk_confine_privileges("vblkd", &message);   // --user=vblkd; NULL without
 *     vblk_confine_system_calls(&message);          // --sandbox
 *
 * In this order, in the main thread, before any other thread exists: later threads inherit it. The tracepoint provider is
 * loaded after it, and so lives in it.
 */
#ifndef VBLK_OPERATION_CONFINE_H
#define VBLK_OPERATION_CONFINE_H

/**
 * Become @user (a name or a number; NULL: stay) with its groups and its home, where LTTng looks for a session daemon of
 * that user. Keep no capability and never gain one (no_new_privs). Only a process that stays root keeps the rights to open
 * files of others, to give a socket to a group and to lock memory.
 *
 * Returns: 0, or -errno with one line in message_out (object, cause, remedy; caller frees with g_free): -ENOENT no
 *          such user, -EPERM not root. To be who one is already is allowed to anybody.
 */
int vblk_confine_privileges(const char *user, char **message_out);

/**
 * From here on the kernel answers EPERM to what a device has no use for: starting programs, looking into other
 * processes, mounting, modules, clocks, namespaces. What a filter cannot see is which file is opened: the service's unit and file
 * permissions guard those.
 *
 * Returns: as above; -ENOSYS, -EINVAL: the kernel has no filters.
 */
int vblk_confine_system_calls(char **message_out);

#endif
