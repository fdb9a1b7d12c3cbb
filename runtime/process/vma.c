#include "process/vma.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coroutine/stack.h"
#include "rt/loop.h"
#include "rt/pool.h"
#include "rt/process.h"

/* Counting may take a hundredth of one core, and the count may be ten seconds old: whichever is sooner. Stacks are what
 * uses mappings up in less time than that, and their own are known exactly: only the others are that old. */
#define COST_SHARE 100
#define AGE_MAX_NS INT64_C(10000000000)

static struct {
    pthread_mutex_t lock;
    int64_t others; /* mappings that hold no stacks */
    int64_t next_ns;
} counted = { .lock = PTHREAD_MUTEX_INITIALIZER };

int rt_vma_count_now(uint32_t *count_out)
{
    char buffer[4096]; /* the kernel gives no more at a time, and the caller may be on a small stack */
    uint32_t count = 0;
    ssize_t length;
    int error = 0;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    while ((length = read(fd, buffer, sizeof(buffer))) != 0) {
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0) {
            error = -errno;
            break;
        }
        for (char *at = buffer; (at = memchr(at, '\n', (size_t)(buffer + length - at))); at++)
            count++;
    }
    close(fd);
    if (error == 0)
        *count_out = count;
    return error;
}

uint32_t rt_vma_limit(void)
{
    char buffer[32];
    ssize_t length;
    unsigned long limit = 0;
    int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return RT_POOL_NO_LIMIT;
    length = read(fd, buffer, sizeof(buffer) - 1);
    close(fd);
    for (ssize_t i = 0; i < length && buffer[i] >= '0' && buffer[i] <= '9'; i++)
        limit = limit * 10 + (unsigned long)(buffer[i] - '0');
    return limit > 0 && limit < RT_POOL_NO_LIMIT ? (uint32_t)limit : RT_POOL_NO_LIMIT;
}

static uint32_t stack_mappings(void)
{
    uint32_t stacks, mappings;

    rt_stack_counts(&stacks, &mappings);
    return mappings;
}

uint32_t rt_process_vma_count(void)
{
    uint32_t count;
    int64_t now;

    pthread_mutex_lock(&counted.lock);
    if (rt_clock_ns() >= counted.next_ns) {
        int64_t begin_ns = rt_clock_ns(), cost_ns, age_ns, stacks = stack_mappings();

        if (rt_vma_count_now(&count) == 0)
            counted.others = (int64_t)count - (stacks + stack_mappings()) / 2; /* some may have come meanwhile */
        cost_ns = rt_clock_ns() - begin_ns;
        age_ns = cost_ns * COST_SHARE;
        counted.next_ns = begin_ns + (age_ns < AGE_MAX_NS ? age_ns : AGE_MAX_NS);
    }
    now = counted.others + stack_mappings();
    pthread_mutex_unlock(&counted.lock);
    return now > 0 ? (uint32_t)now : 0;
}
