#include "command.h"

#include "error.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

void record_reset_signals(gpointer unused)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
}

/* Those that a user, a terminal or the recorder sends to end a command. */
static const char asked_signals[] = { SIGINT, SIGTERM, SIGHUP, 0 };

pid_t record_command_start(char **argv, GError **error)
{
    g_autoptr(GError) cause = NULL;
    GPid pid;

    if (!g_spawn_async(NULL, argv, NULL,
                       G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_CHILD_INHERITS_STDIN |
                           G_SPAWN_LEAVE_DESCRIPTORS_OPEN,
                       record_reset_signals, NULL, &pid, &cause)) {
        g_set_error(error, RECORD_ERROR, RECORD_ERROR_FAILED,
                    "%s: cannot run it: %s (give a program and its "
                    "arguments after --)",
                    argv[0],
                    g_error_matches(cause, G_SPAWN_ERROR, G_SPAWN_ERROR_NOENT) ? "no such program"
                                                                               : cause->message);
        return 0;
    }
    return pid;
}

bool record_command_check(const char *name, int wait_status, bool asked, GError **error)
{
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
        return true;
    if (asked && WIFSIGNALED(wait_status) && strchr(asked_signals, WTERMSIG(wait_status)))
        return true;
    if (WIFEXITED(wait_status))
        g_set_error(error, RECORD_ERROR, RECORD_ERROR_FAILED, "%s: ended with status %d", name,
                    WEXITSTATUS(wait_status));
    else
        g_set_error(error, RECORD_ERROR, RECORD_ERROR_FAILED, "%s: ended by signal %d (%s)", name,
                    WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
    return false;
}
