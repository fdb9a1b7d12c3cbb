#include "model/successor.h"

#include <string.h>

#include "core/check.h"

/* What the folders of one recording have in common: everything before "ust", without the number of a rotated chunk. */
static char *recording_of(const struct trace *trace)
{
    char *path = g_strndup(trace->group_key, strcspn(trace->group_key, "\n")), *ust = strstr(path, "/ust/"),
         *parent;

    if (ust) {
        *ust = 0;
        return path;
    }
    parent = g_path_get_dirname(path);
    g_free(path);
    return parent;
}

static bool is_same_recording(const struct trace *a, const struct trace *b)
{
    char *x, *y;
    bool same;

    if (a->group == b->group)
        return true;
    if (g_strcmp0(a->hostname, b->hostname))
        return false;
    x = recording_of(a);
    y = recording_of(b);
    same = !strcmp(x, y);
    g_free(x);
    g_free(y);
    return same;
}

/* Its device of that name, whose front end came after @after_ns. */
static struct device *device_like(const struct process *process, const char *name, int64_t after_ns)
{
    struct device *first = NULL;
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, process->devices);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct device *device = value;

        if (device->name && !strcmp(device->name, name) && device->first_connect_ns > after_ns &&
            (!first || device->first_connect_ns < first->first_connect_ns))
            first = device;
    }
    return first;
}

struct process *device_successor(const struct process *process, const struct device *device,
                                 struct device **successor_out)
{
    const struct analysis *analysis = process->analysis;
    struct process *found = NULL;
    int64_t earliest_ns = INT64_MAX;

    if (!device || !device->name)
        return NULL;
    for (unsigned i = 0; i < analysis_process_count(analysis); i++) {
        struct process *other = analysis_process(analysis, i);
        struct device *like;

        if (other == process || !is_same_recording(process->trace, other->trace))
            continue;
        like = device_like(other, device->name, process->last_ns);
        if (like && like->first_connect_ns < earliest_ns) {
            found = other;
            *successor_out = like;
            earliest_ns = like->first_connect_ns;
        }
    }
    return found;
}
