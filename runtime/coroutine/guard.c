#include "coroutine/guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/vma.h"

/* Linux 6.13: a guard marks the page tables and costs no mapping. */
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define PROBE_SLABS 8

enum { PROBE_PASSED = 0, PROBE_NO_CALL = 1, PROBE_NO_GUARD = 2, PROBE_NO_MEMORY = 3 };

int rt_guard_install(enum rt_stack_guard guard, void *page, size_t page_bytes)
{
    int status = guard == RT_STACK_GUARD_LIGHTWEIGHT ? madvise(page, page_bytes, MADV_GUARD_INSTALL)
                                                     : mprotect(page, page_bytes, PROT_NONE);

    return status < 0 ? -errno : 0;
}

const char *rt_guard_operation(enum rt_stack_guard guard)
{
    return guard == RT_STACK_GUARD_LIGHTWEIGHT ? "madvise(MADV_GUARD_INSTALL)" : "mprotect";
}

void *rt_guard_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    /* A touched stack must cost its pages, not 2 MiB. Before the guards, so that neighbours can still merge.
     * EINVAL: a kernel without huge pages, where there is nothing to turn off. */
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE);
    return memory;
}

static void on_fault(int signal_number)
{
    _exit(PROBE_PASSED);
}

/* In the child, which may only use async-signal-safe calls. */
_Noreturn static void probe(enum rt_stack_guard guard, size_t stride, size_t page, _Atomic uint32_t *mappings_out)
{
    struct sigaction action = { .sa_handler = on_fault };
    size_t slab_bytes = stride * RT_POOL_BATCH_SIZE;
    char *slabs[PROBE_SLABS];
    uint32_t before, after;

    if (rt_vma_count_now(&before) < 0)
        _exit(PROBE_NO_MEMORY);
    for (int slab = 0; slab < PROBE_SLABS; slab++) {
        slabs[slab] = rt_guard_map(slab_bytes);
        if (!slabs[slab])
            _exit(PROBE_NO_MEMORY);
        for (int i = 0; i < RT_POOL_BATCH_SIZE; i++)
            if (rt_guard_install(guard, slabs[slab] + i * stride, page) < 0)
                _exit(PROBE_NO_CALL);
    }
    if (rt_vma_count_now(&after) < 0)
        _exit(PROBE_NO_MEMORY);
    atomic_store(mappings_out, after - before);

    for (int slab = 0; slab < PROBE_SLABS; slab++)
        ((volatile char *)slabs[slab])[page] = 1; /* the stack beside the guard is there */
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    ((volatile char *)slabs[0])[page - 1] = 1; /* does not come back if there is a guard */
    _exit(PROBE_NO_GUARD);
}

int rt_guard_probe(enum rt_stack_guard guard, size_t stride_bytes, uint32_t *mappings_per_1000_out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    _Atomic uint32_t *mappings = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    pid_t child, waited;
    int error = 0;

    if (mappings == MAP_FAILED)
        return -errno;
    child = fork();
    if (child == 0)
        probe(guard, stride_bytes, page, mappings);
    if (child < 0) {
        error = -errno;
    } else {
        do
            waited = waitpid(child, &status, 0);
        while (waited < 0 && errno == EINTR);
        /* ECHILD: the program ignores SIGCHLD and the kernel reaped the child. The count says how far it came. */
        if (waited < 0 || !WIFEXITED(status))
            error = -ECHILD;
        else if (WEXITSTATUS(status) == PROBE_NO_MEMORY)
            error = -ENOMEM;
        else if (WEXITSTATUS(status) != PROBE_PASSED)
            error = -EOPNOTSUPP;
    }
    if (error == 0)
        *mappings_per_1000_out = (uint32_t)((uint64_t)atomic_load(mappings) * 1000 / (PROBE_SLABS * RT_POOL_BATCH_SIZE));
    munmap((void *)mappings, page);
    return error;
}
