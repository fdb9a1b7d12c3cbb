/*
 * Count the mappings of this process, and use them up. In a child (child.h).
 */
#ifndef TESTS_RUNTIME_MAPPINGS_H
#define TESTS_RUNTIME_MAPPINGS_H

#include <stddef.h>
#include <sys/mman.h>

#include "child.h"

static inline unsigned count_maps(void)
{
    char line[4096];
    unsigned count = 0;
    FILE *file = fopen("/proc/self/maps", "re");

    CHILD_CHECK(file != NULL);
    while (fgets(line, sizeof(line), file))
        count++;
    fclose(file);
    return count;
}

/* Returns count pages, each a mapping: side by side with different rights they do not join. */
static inline char *fill_mappings(size_t count)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, count * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    CHILD_CHECK(pages != MAP_FAILED);
    for (size_t i = 0; i < count; i += 2)
        CHILD_CHECK(mprotect(pages + i * page, page, PROT_READ) == 0);
    return pages;
}

#endif
