/*
 * How many idle stacks the machine bears.
 *
 * With mprotect guards a stack costs mappings, and there are vm.max_map_count of them: a quarter of the limit, at two
 * mappings a stack, leaves half of them to libraries, guest memory and the allocator. With lightweight guards
 * mappings set no limit, memory does: at most an eighth of the machine's, or of the cgroup's if that is less, even if
 * every stack had been used to its end.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coroutine/stack.h"
#include "pool/pool_internal.h"
#include "rt/pool.h"

#define MAPPINGS_SHARE 4
#define MEMORY_SHARE 8

/* A file that holds one number, or "max". */
static uint64_t read_limit(const char *path)
{
    FILE *file = fopen(path, "re");
    uint64_t limit = UINT64_MAX;

    if (!file)
        return UINT64_MAX;
    if (fscanf(file, "%" SCNu64, &limit) != 1)
        limit = UINT64_MAX;
    fclose(file);
    return limit;
}

/* The least limit of a cgroup and everything above it. Version 1 has a hierarchy of its own for memory. */
static uint64_t hierarchy_limit(const char *root, const char *group, const char *name)
{
    uint64_t least = UINT64_MAX;
    char path[4096], folder[2048];
    char *slash;

    snprintf(folder, sizeof(folder), "%s", group);
    for (;;) {
        uint64_t limit;

        if (snprintf(path, sizeof(path), "%s%s/%s", root, folder, name) >= (int)sizeof(path))
            return least;
        limit = read_limit(path);
        if (limit < least)
            least = limit;
        slash = strrchr(folder, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

static uint64_t cgroup_limit(void)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    uint64_t least = UINT64_MAX;
    char *line = NULL;
    size_t line_bytes = 0;

    if (!file)
        return UINT64_MAX;
    while (getline(&line, &line_bytes, file) > 0) {
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        uint64_t limit = UINT64_MAX;

        if (!group)
            continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        controllers++;
        if (*controllers == 0)
            limit = hierarchy_limit("/sys/fs/cgroup", group, "memory.max");
        else if (strcmp(controllers, "memory") == 0)
            limit = hierarchy_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
        if (limit < least)
            least = limit;
    }
    free(line);
    fclose(file);
    return least;
}

static uint32_t hard_max;

static void compute(void)
{
    struct rt_stack_facts facts;
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t group = cgroup_limit(), stacks;

    rt_stack_facts(&facts);
    if (facts.mappings_per_1000_stacks >= 1000) {
        hard_max = facts.max_map_count == RT_POOL_NO_LIMIT ? RT_POOL_NO_LIMIT
                                                           : facts.max_map_count / MAPPINGS_SHARE;
        return;
    }
    if (group < memory)
        memory = group;
    stacks = memory / MEMORY_SHARE / rt_stack_stride();
    hard_max = stacks < RT_POOL_NO_LIMIT ? (uint32_t)stacks : RT_POOL_NO_LIMIT - 1;
}

uint32_t rt_pool_hard_max(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, compute);
    return hard_max;
}
