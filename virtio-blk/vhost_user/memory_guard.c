#include "vhost_user/memory_guard.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The handler walks the list of ranges while other threads change it, and may take no lock. So a node is
 * never freed, only used again, and is read like this:
 *
 * ORDER memory_guard.range: the handler uses a range as a whole or not at all. The writer makes `version`
 * odd, stores the fields with release order, and makes it even with release order; the handler loads version,
 * the fields with acquire order, and version again, and skips the node if that was odd or has changed. The
 * range that matters does not change meanwhile, because the faulting thread holds its memory.
 * If weaker: the begin of one range with the end of another, and living memory is replaced by zeros.
 */
struct vhost_user_memory_guard {
    _Atomic uint64_t version;
    _Atomic uintptr_t begin, end; /* end 0: free */
    _Atomic size_t page_bytes;
    _Atomic(_Atomic bool *) broken;
    _Atomic uint32_t replaced;            /* pages so far */
    struct vhost_user_memory_guard *next; /* set before it is linked, constant */
};

static _Atomic(struct vhost_user_memory_guard *) guards;
static _Atomic uint32_t faults;
static pthread_mutex_t writers = PTHREAD_MUTEX_INITIALIZER;
static bool installed; /* under writers */
static struct sigaction previous;

/* The plain system call: sanitizers intercept mmap() with code that is not fit for a signal handler. */
static bool replace(uintptr_t address, size_t size_bytes)
{
    long mapped = syscall(SYS_mmap, address, size_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0L);
    return mapped == (long)address;
}

static bool heal(uintptr_t address)
{
    struct vhost_user_memory_guard *guard = atomic_load_explicit(&guards, memory_order_acquire);
    for (; guard; guard = guard->next) {
        /* ORDER memory_guard.range, handler's side */
        uint64_t version = atomic_load_explicit(&guard->version, memory_order_acquire);
        uintptr_t begin = atomic_load_explicit(&guard->begin, memory_order_acquire);
        uintptr_t end = atomic_load_explicit(&guard->end, memory_order_acquire);
        size_t page_bytes = atomic_load_explicit(&guard->page_bytes, memory_order_acquire);
        _Atomic bool *broken = atomic_load_explicit(&guard->broken, memory_order_acquire);
        if (version % 2 || version != atomic_load_explicit(&guard->version, memory_order_relaxed) ||
            address < begin || address >= end)
            continue;
        atomic_store_explicit(broken, true, memory_order_relaxed);
        atomic_fetch_add_explicit(&faults, 1, memory_order_release); /* ORDER memory_map.broken */
        if (atomic_fetch_add_explicit(&guard->replaced, 1, memory_order_relaxed) >=
            VHOST_USER_MEMORY_GUARD_PAGES_MAX)
            return replace(begin, end - begin);
        return replace(begin + (address - begin) / page_bytes * page_bytes, page_bytes);
    }
    return false;
}

static void handle_sigbus(int number, siginfo_t *info, void *context)
{
    /* Only the kernel's report of a failed access names an address; kill() and memory errors are others'
     * business. */
    if (info->si_code == BUS_ADRERR && heal((uintptr_t)info->si_addr))
        return;
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(number, info, context);
    } else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
        /* The access is repeated on return and then ends the process as if we had not been here. */
        signal(number, SIG_DFL);
        if (info->si_code <= 0)
            raise(number);
    } else {
        previous.sa_handler(number);
    }
}

static void install_locked(void)
{
    if (installed)
        return;
    /* SA_ONSTACK: harmless without an alternate stack, and where there is one it is roomier than a
     * coroutine's. */
    struct sigaction action = { .sa_sigaction = handle_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    sigemptyset(&action.sa_mask);
    installed = sigaction(SIGBUS, NULL, &previous) == 0 && sigaction(SIGBUS, &action, NULL) == 0;
}

/* ORDER memory_guard.range, writer's side */
static void set_locked(struct vhost_user_memory_guard *guard, uintptr_t begin, uintptr_t end,
                       size_t page_bytes, _Atomic bool *broken)
{
    uint64_t version = atomic_load_explicit(&guard->version, memory_order_relaxed);
    atomic_store_explicit(&guard->version, version + 1, memory_order_relaxed);
    atomic_store_explicit(&guard->begin, begin, memory_order_release);
    atomic_store_explicit(&guard->end, end, memory_order_release);
    atomic_store_explicit(&guard->page_bytes, page_bytes, memory_order_release);
    atomic_store_explicit(&guard->broken, broken, memory_order_release);
    atomic_store_explicit(&guard->version, version + 2, memory_order_release);
}

struct vhost_user_memory_guard *vhost_user_memory_guard_add(void *address, size_t size_bytes,
                                                            size_t page_bytes, _Atomic bool *broken_out)
{
    pthread_mutex_lock(&writers);
    install_locked();
    struct vhost_user_memory_guard *guard = atomic_load_explicit(&guards, memory_order_relaxed);
    while (guard && atomic_load_explicit(&guard->end, memory_order_relaxed))
        guard = guard->next;
    bool is_new = !guard;
    if (is_new)
        guard = calloc(1, sizeof *guard);
    if (guard) {
        atomic_store_explicit(&guard->replaced, 0, memory_order_relaxed);
        set_locked(guard, (uintptr_t)address, (uintptr_t)address + size_bytes, page_bytes, broken_out);
        if (is_new) {
            guard->next = atomic_load_explicit(&guards, memory_order_relaxed);
            atomic_store_explicit(&guards, guard, memory_order_release);
        }
    }
    pthread_mutex_unlock(&writers);
    return guard;
}

void vhost_user_memory_guard_remove(struct vhost_user_memory_guard *guard)
{
    if (!guard)
        return;
    pthread_mutex_lock(&writers);
    set_locked(guard, 0, 0, 0, NULL);
    pthread_mutex_unlock(&writers);
}

uint32_t vhost_user_memory_guard_faults(void)
{
    return atomic_load_explicit(&faults, memory_order_acquire); /* ORDER memory_map.broken */
}
