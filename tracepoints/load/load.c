#include "tracepoints/load.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <lttng/tracepoint.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROVIDER_FILE "vblkscope-tracepoints.so"

typedef int (*provider_register_fn)(const char *provider, const char *event, void (*probe)(void), void *data,
                                    const char *signature);

static struct {
    atomic_bool loaded;
    char reason[PATH_MAX + 256];
    pthread_mutex_t lock; /* held while session_started runs */
    void (*session_started)(void *opaque);
    void *opaque;
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* A probe of lttng_ust_statedump:start. The second argument is the session, which is lttng-ust's own business. */
static void on_statedump(void *data, void *session)
{
    pthread_mutex_lock(&state.lock);
    if (state.session_started)
        state.session_started(state.opaque);
    pthread_mutex_unlock(&state.lock);
}

static void observe(void (*session_started)(void *opaque), void *opaque)
{
    pthread_mutex_lock(&state.lock);
    state.session_started = session_started;
    state.opaque = opaque;
    pthread_mutex_unlock(&state.lock);
}

/* "/a/b/c" becomes "/a/b". False: there is nothing above. */
static bool go_up(char *path)
{
    char *slash = strrchr(path, '/');

    if (!slash)
        return false;
    *slash = 0;
    return true;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static bool find_in_build_folder(const char *executable, char path[PATH_MAX])
{
    char folder[PATH_MAX];

    snprintf(folder, sizeof(folder), "%s", executable);
    while (go_up(folder)) {
        if (snprintf(path, PATH_MAX, "%s/build.ninja", folder) < PATH_MAX && exists(path))
            return snprintf(path, PATH_MAX, "%s/tracepoints/" PROVIDER_FILE, folder) < PATH_MAX &&
                   exists(path);
    }
    return false;
}

static bool find_in_own_prefix(const char *executable, char path[PATH_MAX])
{
    char folder[PATH_MAX];

    snprintf(folder, sizeof(folder), "%s", executable);
    return go_up(folder) && go_up(folder) &&
           snprintf(path, PATH_MAX, "%s/" TRACEPOINTS_LIBDIR "/vblkscope/" PROVIDER_FILE, folder) <
               PATH_MAX &&
           exists(path);
}

static bool find_provider(char path[PATH_MAX])
{
    const char *wanted = secure_getenv("VBLKSCOPE_TRACEPOINTS");
    char executable[PATH_MAX];
    ssize_t length;

    if (wanted)
        return snprintf(path, PATH_MAX, "%s", wanted) < PATH_MAX && exists(path);

    length = readlink("/proc/self/exe", executable, sizeof(executable) - 1);
    if (length > 0) {
        executable[length] = 0;
        if (find_in_build_folder(executable, path) || find_in_own_prefix(executable, path))
            return true;
    }
    return snprintf(path, PATH_MAX, TRACEPOINTS_INSTALLED "/" PROVIDER_FILE) < PATH_MAX && exists(path);
}

int tracepoints_load(void (*session_started)(void *opaque), void *opaque)
{
    provider_register_fn provider_register;
    char path[PATH_MAX];
    void *library;

    if (tracepoints_loaded())
        return -EALREADY;

    if (!find_provider(path)) {
        const char *wanted = secure_getenv("VBLKSCOPE_TRACEPOINTS");

        snprintf(state.reason, sizeof(state.reason), "%s: no such file (%s)", wanted ? wanted : PROVIDER_FILE,
                 wanted ? "named by VBLKSCOPE_TRACEPOINTS"
                        : "install vblkscope completely, or name it in VBLKSCOPE_TRACEPOINTS");
        return -ENOENT;
    }

    /* The points did the same when the program started; this only takes the handle. */
    library = dlopen(LTTNG_UST_TRACEPOINT_LIB_SONAME, RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        snprintf(state.reason, sizeof(state.reason), "%s (install LTTng-UST)", dlerror());
        return -ELIBACC;
    }

    /* Registered before lttng-ust itself is loaded, so that it sees its first state dump too: the one for sessions
     * that are already active, which happens inside the dlopen() below. */
    observe(session_started, opaque);
    *(void **)&provider_register = dlsym(library, "lttng_ust_tracepoint_provider_register");
    if (session_started && provider_register)
        provider_register("lttng_ust_statedump", "start", (void (*)(void))on_statedump, NULL,
                          "struct lttng_ust_session *, session");

    if (!dlopen(path, RTLD_NOW | RTLD_GLOBAL)) {
        observe(NULL, NULL);
        snprintf(state.reason, sizeof(state.reason), "%s (is LTTng-UST installed?)", dlerror());
        return -ELIBACC;
    }
    /* lttng-ust cancels its threads when the process ends, and for that the C library loads this one: by then there may
     * be no mapping left, and the process would be aborted. Without it nothing changes. */
    (void)dlopen("libgcc_s.so.1", RTLD_NOW);
    state.reason[0] = 0;
    atomic_store(&state.loaded, true);
    return 0;
}

void tracepoints_ignore_sessions(void)
{
    observe(NULL, NULL);
}

bool tracepoints_loaded(void)
{
    return atomic_load(&state.loaded);
}

const char *tracepoints_load_reason(void)
{
    return state.reason[0] ? state.reason : NULL;
}
