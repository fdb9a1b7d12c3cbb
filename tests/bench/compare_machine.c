/* What the figures were taken on: without it they cannot be compared with others. */
#include "compare_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static char *first_line(const char *path)
{
    char *text = NULL;

    if (!g_file_get_contents(path, &text, NULL, NULL))
        return NULL;
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static char *processor_model(void)
{
    char *text = NULL, *model = NULL, *line;

    if (!g_file_get_contents("/proc/cpuinfo", &text, NULL, NULL))
        return NULL;
    line = strstr(text, "model name");
    if (line && (line = strchr(line, ':')))
        model = g_strndup(line + 2, strcspn(line + 2, "\n"));
    g_free(text);
    return model;
}

/* Of the sources that this was built from, if they are a repository and git is here. */
static char *commit(void)
{
    const char *argv[] = { "git", "-C", BENCH_SOURCE_DIR, "describe", "--always", "--dirty", "--abbrev=12",
                           "--exclude=*", NULL };
    char *text = NULL;
    int status = 0;

    if (!g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH | G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL, &text,
                      NULL, &status, NULL) ||
        status != 0)
        g_clear_pointer(&text, g_free);
    return text ? g_strchomp(text) : NULL;
}

double bench_machine_load(void)
{
    double load = -1;

    return getloadavg(&load, 1) == 1 ? load : -1;
}

static void put_text(json_t *facts, const char *name, char *text)
{
    if (text)
        json_object_set_new(facts, name, json_string(text));
    g_free(text);
}

json_t *bench_machine(const struct bench *bench)
{
    json_t *facts = json_object();
    GDateTime *now = g_date_time_new_now_utc();
    struct utsname system;

    put_text(facts, "date", g_date_time_format(now, "%Y-%m-%dT%H:%M:%SZ"));
    g_date_time_unref(now);
    put_text(facts, "commit", commit());
    json_object_set_new(facts, "cores", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    put_text(facts, "processor", processor_model());
    if (uname(&system) == 0) {
        put_text(facts, "kernel", g_strdup_printf("%s %s", system.sysname, system.release));
        put_text(facts, "architecture", g_strdup(system.machine));
    }
    put_text(facts, "clock_source", first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
#ifdef __clang__
    put_text(facts, "compiler", g_strdup(__VERSION__));
#else
    put_text(facts, "compiler", g_strdup("gcc " __VERSION__));
#endif
    put_text(facts, "build", g_strdup(BENCH_BUILD));
    if (bench->load_before >= 0)
        json_object_set_new(facts, "load_before", json_real(bench->load_before));
    return facts;
}
