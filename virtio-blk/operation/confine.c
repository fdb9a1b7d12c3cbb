#include "operation/confine.h"

#include <cap-ng.h>
#include <errno.h>
#include <glib.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static const struct passwd *find_user(const char *user)
{
    guint64 uid;

    return g_ascii_string_to_unsigned(user, 10, 0, UINT32_MAX - 1, &uid, NULL) ? getpwuid(uid) : getpwnam(user);
}

/* The identities that the kernel checks at every call: groups first, without root they cannot be changed any more. */
static int become(const struct passwd *entry)
{
    if (getuid() == entry->pw_uid && geteuid() == entry->pw_uid && entry->pw_uid != 0)
        return 0;
    if (initgroups(entry->pw_name, entry->pw_gid) != 0 || setresgid(entry->pw_gid, entry->pw_gid, entry->pw_gid) != 0 ||
        setresuid(entry->pw_uid, entry->pw_uid, entry->pw_uid) != 0)
        return -errno;
    setenv("HOME", entry->pw_dir, 1);
    return 0;
}

/* Before the identity changes, while this is still allowed: no program that is started by whatever means gets any. */
static void empty_bounding_set(void)
{
    capng_get_caps_process();
    if (!capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP))
        return;
    capng_clear(CAPNG_SELECT_BOUNDS);
    (void)capng_apply(CAPNG_SELECT_BOUNDS); /* belt and braces: no_new_privs alone rules it out */
}

static int keep_only(const unsigned *kept, unsigned count)
{
    bool has[8] = { false };

    g_assert(count <= G_N_ELEMENTS(has));
    for (unsigned i = 0; i < count; i++)
        has[i] = capng_have_capability(CAPNG_PERMITTED, kept[i]); /* a container may have taken it */
    capng_clear(CAPNG_SELECT_CAPS);
    for (unsigned i = 0; i < count; i++)
        if (has[i])
            capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, kept[i]);
    return capng_apply(CAPNG_SELECT_CAPS) == 0 ? 0 : -EPERM;
}

int vblk_confine_privileges(const char *user, char **message_out)
{
    static const unsigned kept_by_root[] = { CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_CHOWN, CAP_FOWNER, CAP_IPC_LOCK };
    const struct passwd *entry = user ? find_user(user) : NULL;
    int error;

    if (user && !entry) {
        *message_out = g_strdup_printf("--user=%s: no such user (adduser --system %s)", user, user);
        return -ENOENT;
    }
    empty_bounding_set();
    if (entry && (error = become(entry)) < 0) {
        *message_out = g_strdup_printf("--user=%s: cannot become that user: %s%s", user, g_strerror(-error),
                                       error == -EPERM ? " (only root can)" : "");
        return error;
    }
    capng_get_caps_process();
    error = keep_only(kept_by_root, geteuid() == 0 ? G_N_ELEMENTS(kept_by_root) : 0);
    if (error == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        error = -errno;
    if (error < 0)
        *message_out = g_strdup_printf("cannot give up privileges: %s", g_strerror(-error));
    return error;
}
